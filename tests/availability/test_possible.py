"""Who may be available at all: nobody who is available is missing."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.availability import Place, available_at
from fedsim.availability.habits import possible as possible_days
from fedsim.availability.habits.batch import HabitsBatch
from fedsim.availability.habits.bounds import bounded, lengths_by_draw
from fedsim.availability.habits.decided import NO, OPEN, YES
from fedsim.availability.habits.model import HabitsAvailability
from fedsim.availability.habits.sweep import meeting
from fedsim.availability.population import PopulationAvailability, population_availability
from fedsim.common.arrays import Bools
from fedsim.common.keyed import Purpose, stream
from fedsim.population.distributions import Constant, Distribution
from fedsim.population.distributions.lengths import Exponential, Lognormal
from tests.availability.cases import model_of

DAY = 86_400.0
N = 200
PLACES = [
    ("2026-01-05T00:00:00+00:00", "UTC"),
    ("2026-03-04T07:13:00.125+00:00", "America/New_York"),
    ("2026-10-21T00:00:00+02:00", "Europe/Berlin"),
    ("2026-03-29T00:00:00+00:00", "Australia/Lord_Howe"),
    ("2011-12-26T00:00:00+00:00", "Pacific/Apia"),
]


@st.composite
def habits(draw: st.DrawFn) -> Any:
    """Habits of every kind, some whose sessions reach into the next day and over it."""
    clock = st.sampled_from(["12:00", "17:00", "21:30", "22:45", "00:30", "03:00"])
    deviation = st.sampled_from(["0s", "40m", "2h"])
    night = {
        "chance": draw(st.sampled_from([0.2, 0.9])),
        "plug_in": draw(clock),
        "plug_in_weekend": draw(clock),
        "length": draw(st.sampled_from(["10m", "7h45m", "16h"])),
        "between_persons": draw(deviation),
        "between_days": draw(deviation),
        "length_between_days": draw(deviation),
    }
    lengths = ["3h", {"kind": "exponential", "mean": "1h"}, {"kind": "lognormal", "median": "55m", "sigma": 2}]
    top_up = {"per_day": draw(st.sampled_from([0, 1.6, 4])), "length": draw(st.sampled_from(lengths))}
    if draw(st.booleans()):
        top_up["by_hour"] = [1.0] + [0.0] * 22 + [1.0]
    outing = {"chance": draw(st.sampled_from([0, 0.7, 1])), "leave": "08:00", "back": "17:45"}
    network = {
        "home": draw(st.sampled_from([0, 0.6, 1])),
        "work": draw(st.sampled_from([0, 0.5, 1])),
        "weekday": outing,
        "commute": draw(st.sampled_from(["0s", "30m", "3h"])),
        "between_days": draw(deviation),
        "drop_outs": {"per_hour": 0},  # only charger and whereabouts are looked at
    }
    require = draw(st.sampled_from([["charging", "network"], ["charging"], ["network"]]))
    return {"kind": "habits", "require": require, "charging": {"night": night, "top_up": top_up}, "network": network}


def possible(devices: PopulationAvailability, instant: float) -> Bools | None:
    bits = devices.possible(instant)
    if bits is None:
        return None
    return np.unpackbits(bits.view(np.uint8), bitorder="little")[: len(devices.cell)].astype(bool)


def demand(devices: PopulationAvailability) -> None:
    """Have the batches believe that many are asked about."""
    for batch in devices.batches:
        assert isinstance(batch, HabitsBatch)
        batch._asked = N * N


@settings(max_examples=15, deadline=None)
@given(kind=habits(), where=st.sampled_from(PLACES), seed=st.integers(0, 1000))
def test_nobody_who_is_available_is_missing(kind: Any, where: tuple[str, str], seed: int) -> None:
    model, place = model_of(kind), Place(datetime.fromisoformat(where[0]), ZoneInfo(where[1]))
    draws, rng, now = stream(seed, 0, Purpose.AVAILABILITY), np.random.default_rng(seed), 0.0
    devices = population_availability([model], [place], np.zeros(N, dtype=np.int64), draws)
    while now < 8 * DAY:
        demand(devices)
        found = possible(devices, now)
        if found is not None:
            assert not (available_at(model, np.arange(N), now, place, draws) & ~found).any()
        now += float(rng.choice([30.0, 1_350.0, 9_000.0, 40_000.0, 2.2 * DAY]))


@pytest.mark.parametrize("chunk", [64, possible_days._CHUNK])
def test_most_who_are_not_available_are_missing(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few are left to be looked at: at most twice as many as are on a charger with a network; several zones.

    Threads may work out a day in parts, of which each has words of its own.
    """
    monkeypatch.setattr(possible_days, "_CHUNK", chunk)
    monkeypatch.setattr(possible_days, "_WORDS", chunk // 64)
    model = model_of({"kind": "habits", "require": ["charging", "network"]})
    places = [Place(datetime.fromisoformat("2026-01-05T00:00:00+00:00"), ZoneInfo(name)) for _, name in PLACES[:3]]
    draws, cell = stream(3, 0, Purpose.AVAILABILITY), np.arange(1500) % 3
    devices = population_availability([model] * 3, places, cell, draws)
    assert possible(devices, 0.0) is None  # nobody has been asked about
    there = left = 0
    for now in np.arange(0.0, 2 * DAY, 4_000.0).tolist():
        demand(devices)
        found = possible(devices, now)
        assert found is not None
        available = devices.at(np.arange(1500), now)
        for number, where in enumerate(places):
            own = np.flatnonzero(cell == number)
            assert available[own].tolist() == available_at(model, own, now, where, draws).tolist()
        there, left = there + int(available.sum()), left + int(found.sum())
    assert there <= left < 1.5 * there


@pytest.mark.parametrize("asked", [10, 1000])
def test_it_is_worked_out_where_many_are_asked_about(asked: int) -> None:
    model, place = model_of("habits"), Place(datetime.fromisoformat(PLACES[0][0]), ZoneInfo("UTC"))
    devices = population_availability(
        [model], [place], np.zeros(1000, dtype=np.int64), stream(3, 0, Purpose.AVAILABILITY)
    )
    for now in (0.0, 60.0):
        devices.at(np.arange(asked), now)
    assert (devices.possible(120.0) is None) == (asked == 10)


@settings(max_examples=30, deadline=None)
@given(
    kind=habits(),
    where=st.sampled_from([*PLACES, ("2026-01-05T00:00:00+00:00", "Asia/Kolkata")]),
    seed=st.integers(0, 1000),
)
def test_what_bounds_decide_is_so(kind: Any, where: tuple[str, str], seed: int) -> None:
    """On a charger with a network, or not, and until when at least; few are left open, where no clock is changed."""
    model, place = model_of(kind), Place(datetime.fromisoformat(where[0]), ZoneInfo(where[1]))
    draws, rng, now = stream(seed, 0, Purpose.AVAILABILITY), np.random.default_rng(seed), 0.0
    everyone, asked, open_ = np.arange(N), 0, 0
    assert isinstance(model, HabitsAvailability)
    batch = model.batches([(place, everyone)], draws)[0]
    if batch._too_far:  # sessions reach so far that nothing is decided by bounds
        return
    for _ in range(20):
        known, until = batch.decided(everyone, now)
        spells = meeting(model.habits, model.habits.require, everyone, now, now + 2 * DAY, place, draws)
        ends = np.full(N, -np.inf)
        holding = spells.starts <= now
        ends[spells.who[holding]] = spells.ends[holding]
        assert (ends[known == YES] >= until[known == YES]).all()
        assert not (ends > now)[known == NO].any()
        if batch._clock_at(now).steady:
            asked, open_ = asked + N, open_ + int((known == OPEN).sum())
        now += float(rng.choice([30.0, 1_350.0, 9_000.0, 40_000.0]))
    assert open_ <= asked / 50


@pytest.mark.parametrize("law", [Constant(60.0), Exponential(180.0), Lognormal(1.5, 40.0)])
def test_a_table_bounds_what_belongs_to_a_draw(law: Distribution) -> None:
    table = lengths_by_draw(law, 3600.0)
    draws = np.concatenate([np.random.default_rng(1).random(5_000), [2.0**-54, 1e-9, 1.0 - 2.0**-53]])
    lengths = np.minimum(law.draw(draws), 3600.0)
    least, most = np.array([bounded(table, draw) for draw in draws.tolist()]).T
    assert ((least <= lengths) & (lengths <= most)).all()
    assert np.median(most - least) < 1.0
