"""Who is surely kept out by a cool-down, against the dates of each client."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.common.bits import words_for
from fedsim.common.instants import FOREVER
from fedsim.simulation.arrays import excluded
from fedsim.simulation.arrays.excluded import ExcludedClients
from fedsim.simulation.world import NEVER

N = 150
LONG = [0, 1, 2, 7, 9, 40, NEVER]


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), dates=st.sampled_from([4, 16, 4096]))
def test_nobody_who_is_free_is_kept_out(seed: int, dates: int) -> None:
    """Random rounds: who is kept out is not free, who is kept out for a quarter of an hour and more is known.

    Also where the calendar has so few dates that what is due later is looked at again.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(excluded, "_DATES", dates)
        rng, number, now = np.random.default_rng(seed), 0, 0
        free_round, free = np.zeros(N, dtype=np.int64), np.zeros(N, dtype=np.int64)
        known = ExcludedClients(free_round, free, number, now)
        everyone = np.full(words_for(N), ~np.uint64(0))
        for _ in range(30):
            number += int(rng.choice([1, 1, 1, 3, 60]))
            now += int(rng.choice([500, 100_000, 900_000, 5_000_000]))
            bits = known.with_impossible(everyone, number, now)
            kept = np.unpackbits(bits.view(np.uint8), bitorder="little")[:N].astype(bool)
            by_round, by_time = free_round > number, free > now
            assert not (kept & ~(by_round | by_time)).any()
            assert not (by_round & ~kept).any()
            assert not ((free >= now + 900_000) & ~kept).any()
            let_in = np.flatnonzero(~(by_round | by_time))
            chosen = rng.choice(let_in, min(10, len(let_in)), replace=False)
            free_round[chosen] = number + rng.choice(LONG, len(chosen))
            free[chosen] = now + rng.choice([0, 30_000, 899_999, 900_000, 8_000_000, FOREVER], len(chosen))
            known.add(chosen)
