"""Who is surely kept out by a cool-down, against the dates of each client."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.common.bits import words_for
from fedsim.simulation.arrays import kept_out
from fedsim.simulation.arrays.kept_out import KeptOut
from fedsim.simulation.caps import NEVER

N = 150
LONG = [0, 1, 2, 7, 9, 40, NEVER]


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), dates=st.sampled_from([4, 16, 4096]))
def test_nobody_who_is_free_is_kept_out(seed: int, dates: int) -> None:
    """Random rounds: who is kept out is not free, who is kept out for a quarter of an hour and more is known.

    Also where the calendar has so few dates that what is due later is looked at again.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_out, "_DATES", dates)
        rng, number, now_s = np.random.default_rng(seed), 0, 0.0
        free_round, free_s = np.zeros(N, dtype=np.int64), np.zeros(N)
        known = KeptOut(free_round, free_s, number, now_s)
        everyone = np.full(words_for(N), ~np.uint64(0))
        for _ in range(30):
            number += int(rng.choice([1, 1, 1, 3, 60]))
            now_s += float(rng.choice([0.5, 100.0, 900.0, 5_000.0]))
            bits = known.with_impossible(everyone, number, now_s)
            kept = np.unpackbits(bits.view(np.uint8), bitorder="little")[:N].astype(bool)
            by_round, by_time = free_round > number, free_s > now_s
            assert not (kept & ~(by_round | by_time)).any()
            assert not (by_round & ~kept).any()
            assert not ((free_s >= now_s + 900.0) & ~kept).any()
            free = np.flatnonzero(~(by_round | by_time))
            chosen = rng.choice(free, min(10, len(free)), replace=False)
            free_round[chosen] = number + rng.choice(LONG, len(chosen))
            free_s[chosen] = now_s + rng.choice([0.0, 30.0, 899.0, 900.0, 8_000.0], len(chosen))
            known.add(chosen)
