"""Who may be available at all: nobody who is available is missing."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.availability import Place
from fedsim.availability.habits import many as habits_batch
from fedsim.availability.habits.many import HabitsBatch
from fedsim.availability.habits.together import HabitsAvailability
from fedsim.availability.population import PopulationAvailability, population_availability
from fedsim.common.arrays import Bools
from fedsim.common.instants import DAY
from fedsim.common.keyed import Purpose, stream
from tests.availability.cases import model_of
from tests.availability.test_habits_kernel import PLACES, habits

N = 200


def possible(devices: PopulationAvailability, instant: int) -> Bools | None:
    bits = devices.possible(instant)
    if bits is None:
        return None
    return np.unpackbits(bits.view(np.uint8), bitorder="little")[: len(devices.stratum)].astype(bool)


def demand(devices: PopulationAvailability) -> None:
    """Have the batches believe that many are asked about."""
    for batch in devices.batches:
        assert isinstance(batch, HabitsBatch)
        batch._asked = N * N


@settings(max_examples=30, deadline=None)
@given(
    kind=habits().filter(lambda kind: "charging" in kind["require"]),
    where=st.sampled_from(PLACES),
    seed=st.integers(0, 1000),
)
def test_nobody_who_is_available_is_missing(kind: Any, where: tuple[str, str], seed: int) -> None:
    model, place = model_of(kind), Place(datetime.fromisoformat(where[0]), ZoneInfo(where[1]))
    assert isinstance(model, HabitsAvailability)
    draws, rng, now, everyone = stream(seed, 0, Purpose.AVAILABILITY), np.random.default_rng(seed), 0, np.arange(N)
    devices = population_availability([model], [place], np.zeros(N, dtype=np.int64), draws)
    (alone,) = model.batches([(place, everyone)], draws)
    while now < 8 * DAY:
        demand(devices)
        found = possible(devices, now)
        assert found is not None
        assert not (alone.at(everyone, now) & ~found).any()
        assert devices.at(everyone, now).tolist() == alone.at(everyone, now).tolist()
        now += int(rng.choice([1, 30_000, 1_350_000, 9_000_000, 40_000_000, 190_000_000]))


@pytest.mark.parametrize("chunk", [64, habits_batch._CHUNK])
def test_most_who_are_not_available_are_missing(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few are left to be looked up: at most 1.5 times as many as are on a charger with a network.

    In several zones; threads may work out a day in parts.
    """
    monkeypatch.setattr(habits_batch, "_CHUNK", chunk)
    model = model_of({"kind": "habits", "require": ["charging", "network"]})
    assert isinstance(model, HabitsAvailability)
    places = [Place(datetime.fromisoformat("2026-01-05T00:00:00+00:00"), ZoneInfo(name)) for _, name in PLACES[:3]]
    draws, cell = stream(3, 0, Purpose.AVAILABILITY), np.arange(1500) % 3
    devices = population_availability([model] * 3, places, cell, draws)
    alone = [model.batches([(where, np.arange(1500))], draws)[0] for where in places]
    assert possible(devices, 0) is None  # nobody has been asked about
    there = left = 0
    for now in range(0, 2 * DAY, 4_000_000):
        demand(devices)
        found = possible(devices, now)
        assert found is not None
        available = devices.at(np.arange(1500), now)
        for number, batch in enumerate(alone):
            own = np.flatnonzero(cell == number)
            assert available[own].tolist() == batch.at(own, now).tolist()
        there, left = there + int(available.sum()), left + int(found.sum())
    assert there <= left < 1.5 * there


@pytest.mark.parametrize("asked", [10, 1000])
def test_it_is_worked_out_where_many_are_asked_about(asked: int) -> None:
    model, place = model_of("habits"), Place(datetime.fromisoformat(PLACES[0][0]), ZoneInfo("UTC"))
    devices = population_availability(
        [model], [place], np.zeros(1000, dtype=np.int64), stream(3, 0, Purpose.AVAILABILITY)
    )
    for now in (0, 60_000):
        devices.at(np.arange(asked), now)
    assert (devices.possible(120_000) is None) == (asked == 10)
