"""Sets as bits against Python's sets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedsim.common import bits

NUMBERS = st.lists(st.integers(0, 199), max_size=60)


def packed(numbers: list[int]) -> np.ndarray:
    return bits.with_numbers(np.zeros(bits.words_for(200), dtype=np.uint64), np.array(numbers, dtype=np.int64))


@given(held=NUMBERS, asked=NUMBERS)
def test_membership(held: list[int], asked: list[int]) -> None:
    some = packed(held)
    found = bits.places_in(some, np.array(asked, dtype=np.int64))
    assert found.tolist() == [place for place, number in enumerate(asked) if number in held]
    assert [number for number in range(200) if bits.has(some, number)] == sorted(set(held))


def test_transpose() -> None:
    square = np.random.default_rng(1).integers(0, 2**63, 64).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    turned = square.copy()
    bits.transpose(turned)
    of = [[(int(word) >> bit) & 1 for bit in range(64)] for word in turned]
    assert of == [[(int(word) >> row) & 1 for word in square] for row in range(64)]
