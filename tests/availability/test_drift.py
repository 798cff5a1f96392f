"""Habits that drift over weeks, and holidays: what they become is what others always had."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from pydantic import ValidationError

from fedsim.availability.batch import Batch
from fedsim.availability.civil import Place
from fedsim.availability.habits.together import HabitsAvailability
from fedsim.availability.kinds import build_model
from fedsim.common.instants import DAY, HOUR
from fedsim.common.keyed import Purpose, stream
from fedsim.scenario.habits import Habits

HOME = Place(datetime(2026, 1, 5, 13, tzinfo=UTC), ZoneInfo("Europe/Berlin"))
DRAWS, PHONES = stream(3, 0, Purpose.AVAILABILITY), np.arange(60)
NIGHTS: dict[str, Any] = {"require": ["charging", "network"], "network": {"work": 0.0}}


def batch_of(habits: dict[str, Any], phones: Any = PHONES) -> Batch:
    model = build_model({"kind": "habits", **habits})
    assert isinstance(model, HabitsAvailability)
    (batch,) = model.batches([(HOME, phones)], DRAWS)
    return batch


def spells(first: int, last: int, habits: dict[str, Any]) -> list[tuple[int, ...]]:
    found = batch_of(NIGHTS | habits).spells(PHONES, first * DAY, last * DAY)
    return sorted(zip(*(each.tolist() for each in found), strict=True))


def changed(network: float, **night: Any) -> dict[str, Any]:
    away = {"chance": network, "leave": "08:00", "back": "17:45"}
    return {"charging": {"night": night}, "network": {"work": 0.0, "weekday": away}}


def test_after_a_drift_habits_are_those_it_leads_to() -> None:
    """To the millisecond; on the first day they are as without a drift, and between both they are neither."""
    drift = {"over": "14d", "plug_in": "01:15", "night_chance": 0.3, "outing_chance": 0.2}
    begin, end = changed(0.75), changed(0.2, plug_in="01:15", chance=0.3, plug_in_weekend="02:00")
    drifting = begin | {"drift": drift}
    assert spells(17, 30, drifting) == spells(17, 30, end)
    assert spells(0, 1, drifting) == spells(0, 1, begin)
    assert spells(6, 8, drifting) not in (spells(6, 8, begin), spells(6, 8, end))
    third = changed(0.75, plug_in="21:00") | {"drift": {"over": "3d", "plug_in": "00:00"}}
    assert spells(1, 2, third) == spells(1, 2, changed(0.75, plug_in="22:00"))


def test_nights_get_fewer_evenly() -> None:
    """Within four standard deviations of binomial counts of the nights of 600 persons who are all alike."""
    habits = {
        "require": ["charging"],
        "charging": {"night": {"chance": 0.9}, "top_up": {"per_day": 0, "per_day_weekend": 0}, "spread": 0.0},
    }
    habits |= {"drift": {"over": "10d", "night_chance": 0.1}}
    phones = np.arange(600)
    batch = batch_of(habits, phones)
    for day in range(12):
        at = (day + 1) * DAY - 13 * HOUR + 2 * HOUR  # three o'clock
        found = len(np.unique(batch.spells(phones, at - 6 * HOUR, at + 6 * HOUR).who))
        wanted = 0.9 - 0.8 * min(day / 10, 1.0)
        assert abs(found / 600 - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / 600) + 0.01


def test_on_holidays_people_live_as_on_sundays() -> None:
    """Holidays without an end are weekends without an end; before the first one nothing is other."""
    away = {"chance": 0.6, "leave": "11:30", "back": "16:30"}
    free = {"charging": {"night": {"plug_in": "23:30", "length": "8h30m"}}, "network": {"work": 0.0, "weekday": away}}
    holidays = {
        "holidays": [{"first": "2026-01-12", "last": "2026-01-31"}, {"first": "2026-01-20", "last": "2026-02-28"}]
    }
    assert spells(9, 25, holidays) == spells(9, 25, free)
    assert spells(0, 5, holidays) == spells(0, 5, {})
    assert spells(9, 25, holidays) != spells(9, 25, {})


@pytest.mark.parametrize(
    ("habits", "words"),
    [
        ({"holidays": [{"first": "2026-02-02", "last": "2026-02-01"}]}, "last must not be before first"),
        ({"holidays": [{"first": "2026-02-30", "last": "2026-03-01"}]}, "must be a date such as 2026-12-25"),
        ({"drift": {"over": "2h", "night_chance": 0.5}}, "over"),
        ({"drift": {"over": "2w"}}, "says of no habit what becomes of it"),
    ],
)
def test_drifts_and_holidays_that_cannot_be_are_refused(habits: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Habits.model_validate({"kind": "habits", **habits})
