"""The compiled loops over habits: what they say is, to the millisecond, what a plain telling of one life says."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.availability import Place
from fedsim.availability.habits.many import HabitsBatch
from fedsim.availability.habits.together import HabitsAvailability
from fedsim.common.instants import DAY, FOREVER
from fedsim.common.keyed import Purpose, stream
from fedsim.common.reasons import REASON_OF
from tests.availability.cases import instants, model_of
from tests.availability.exact import Life

PLACES = [
    ("2026-01-05T00:00:00+00:00", "UTC"),
    ("2026-03-06T07:13:00.125+00:00", "America/New_York"),
    ("2026-10-23T12:00:00+02:00", "Europe/Berlin"),
    ("2026-10-30T00:00:00+00:00", "America/New_York"),
    ("2026-04-03T00:00:00+00:00", "Australia/Lord_Howe"),
    ("2018-11-02T00:00:00+00:00", "America/Sao_Paulo"),
    ("2011-12-28T00:00:00+00:00", "Pacific/Apia"),
]
DEVIATIONS = st.sampled_from(["0s", "40m", "3h"])
LENGTHS = st.sampled_from(
    ["0s", "3h", {"kind": "exponential", "mean": "1h"}, {"kind": "lognormal", "median": "55m", "sigma": 2}]
)


@st.composite
def habits(draw: st.DrawFn) -> Any:
    """Habits of every kind, some whose sessions reach into the next day and over it."""
    clock = st.sampled_from(["12:00", "17:00", "22:45", "00:30", "02:30", "11:59"])
    night = {
        "chance": draw(st.sampled_from([0, 0.5, 1])),
        "plug_in": draw(clock),
        "plug_in_weekend": draw(clock),
        "length": draw(st.sampled_from(["10m", "7h45m", "16h"])),
        "between_persons": draw(DEVIATIONS),
        "between_days": draw(DEVIATIONS),
        "length_between_days": draw(DEVIATIONS),
    }
    top_up = {"per_day": draw(st.sampled_from([0, 1.6, 4])), "length": draw(LENGTHS)}
    if draw(st.booleans()):
        top_up["by_hour"] = [1.0] + [0.0] * 22 + [1.0]
    outing = {
        "chance": draw(st.sampled_from([0, 0.7, 1])),
        "leave": draw(st.sampled_from(["00:00", "02:30", "03:00"])),
        "back": draw(st.sampled_from(["03:10", "17:45", "23:59"])),
    }
    network = {
        "home": draw(st.sampled_from([0, 0.6, 1])),
        "work": draw(st.sampled_from([0, 0.5, 1])),
        "weekday": outing,
        "commute": draw(st.sampled_from(["0s", "30m", "3h"])),
        "between_days": draw(DEVIATIONS),
        "drop_outs": {"per_hour": draw(st.sampled_from([0, 0.1, 20])), "length": draw(LENGTHS)},
    }
    idle = {"uses_per_day": draw(st.sampled_from([0, 57, 250])), "use": draw(LENGTHS), "settle": draw(DEVIATIONS)}
    if idle["settle"] == "3h":
        idle["settle"] = "2h"
    names = ["charging", "network", "idle"]
    require = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    return {
        "kind": "habits",
        "require": require,
        "charging": {"night": night, "top_up": top_up},
        "network": network,
        "idle": idle,
    }


@pytest.mark.long
@settings(deadline=None, max_examples=60)
@given(
    kind=habits(),
    where=st.sampled_from(PLACES),
    client=st.integers(0, 10**6),
    since=instants(4 * DAY),
    length=instants(2 * DAY).filter(bool),
    lot=st.integers(0, 2**32),
)
def test_they_say_what_a_plain_telling_says(
    kind: Any, where: tuple[str, str], client: int, since: int, length: int, lot: int
) -> None:
    model = model_of(kind)
    assert isinstance(model, HabitsAvailability)
    place, draws = Place(datetime.fromisoformat(where[0]), ZoneInfo(where[1])), stream(8, 0, Purpose.AVAILABILITY)
    first, last = ((place.start + timedelta(milliseconds=each)).date() for each in (since, since + length))
    life = Life(model.habits, client, place, draws, first, last)
    until = since + length
    expected = life.available(kind["require"], since, until)
    (batch,) = model.batches([(place, np.array([client]))], draws)
    found = batch.spells(np.array([client]), since, until)
    assert list(zip(found.starts.tolist(), found.ends.tolist(), strict=True)) == expected

    edges = [edge for span in expected for edge in span]
    rng = np.random.default_rng(lot)
    moments = {since, *rng.integers(since, until, 6).tolist(), *rng.choice(edges or [since], 6).tolist()}
    alone = {name: life.available([name], since, until) for name in kind["require"]}
    for instant in sorted(moment for moment in moments if moment < until):
        _check_instant(batch, client, instant, int(rng.integers(instant, until)), expected)
        reasons = {name for name, spans in alone.items() if not _holding(spans, instant)}
        mask = sum(int(REASON_OF[name]) for name in reasons)
        assert batch.reasons(np.array([client]), instant).tolist() == [mask]


def _check_instant(batch: HabitsBatch, client: int, instant: int, limit: int, expected: list[tuple[int, int]]) -> None:
    holding = _holding(expected, instant)
    one = np.array([client])
    assert batch.at(one, instant).tolist() == [bool(holding)]
    if holding:
        end = holding[0][1]
        assert batch.ends(one, instant, np.array([limit])).tolist() == [end if end <= limit else FOREVER]


def _holding(spans: list[tuple[int, int]], instant: int) -> list[tuple[int, int]]:
    return [span for span in spans if span[0] <= instant < span[1]]
