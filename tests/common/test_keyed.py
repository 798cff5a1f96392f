"""Keyed draws: pure functions of their key, uniform, and unrelated between neighbouring keys."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedsim.common.keyed import Purpose, stream

words = st.integers(0, 2**63 - 1)


@given(seed=words, replicate=words, client=words, index=words)
def test_a_draw_depends_on_its_key_alone(seed: int, replicate: int, client: int, index: int) -> None:
    alone = stream(seed, replicate, Purpose.SESSION).uniforms(client, index)
    clients, indices = np.array([client, 5, client]), np.array([index, index, 7])
    together = stream(seed, replicate, Purpose.SESSION).uniforms(clients, indices)
    assert alone.shape == (1,)
    assert alone[0] == together[0]
    assert 0.0 < alone[0] < 1.0


EXPECTED_BITS = ["0x34e418c86b76de52", "0xfb71616ec42d93a2", "0x6bfe1637ea06ff96"]


def test_draws_are_the_same_on_every_platform() -> None:
    """The bits are part of the format: runs recorded in lock files must be found again."""
    bits = stream(7, 1, Purpose.AVAILABILITY).bits([0, 1, 2**40], [0, 10, 2**50])
    assert [hex(word) for word in bits.tolist()] == EXPECTED_BITS


def test_every_part_of_the_key_matters() -> None:
    base = stream(1, 0, Purpose.SESSION).bits(np.arange(100), 0)
    others = [
        stream(2, 0, Purpose.SESSION).bits(np.arange(100), 0),
        stream(1, 1, Purpose.SESSION).bits(np.arange(100), 0),
        stream(1, 0, Purpose.SELECTION).bits(np.arange(100), 0),
        stream(1, 0, Purpose.SESSION).bits(np.arange(100), 1),
        stream(1, 0, Purpose.SESSION).bits(np.arange(1, 101), 0),
    ]
    assert all((base != other).all() for other in others)


def test_uniforms_fill_the_square_of_neighbouring_keys() -> None:
    """Pairs of draws with neighbouring clients, and with neighbouring indices, fill a 16 x 16 grid evenly.

    Chi-square with 255 degrees of freedom; false alarm 1e-3 for each of 4 tests.
    """
    u = stream(3, 0, Purpose.SELECTION).uniforms(np.arange(400)[:, np.newaxis], np.arange(400))
    pairs = [(u[:-1], u[1:]), (u[:, :-1], u[:, 1:]), (u[:-1, :-1], u[1:, 1:]), (u[::2], u.T[::2])]
    for left, right in pairs:
        cells = np.histogram2d(left.ravel(), right.ravel(), bins=16, range=[[0, 1], [0, 1]])[0]
        assert stats.chisquare(cells.ravel()).pvalue > 1e-3


def test_one_bit_of_the_key_flips_half_of_the_draw() -> None:
    """Avalanche: each of 64 bits of the draw flips in 45 % to 55 % of 4,000 keys (10 standard deviations)."""
    keys = np.arange(4000)
    draws = stream(0, 0, Purpose.WEIGHT)
    for bit in range(0, 40, 3):
        for flipped in (draws.bits(keys, keys ^ (1 << bit)), draws.bits(keys ^ (1 << bit), keys)):
            difference = draws.bits(keys, keys) ^ flipped
            share = [(difference >> np.uint64(position) & np.uint64(1)).mean() for position in range(64)]
            assert 0.45 < min(share) <= max(share) < 0.55


def test_normals_and_exponentials_have_their_laws() -> None:
    """Kolmogorov-Smirnov on 20,000 draws; false alarm 1e-3 each."""
    draws = stream(11, 0, Purpose.PROBLEM)
    assert stats.kstest(draws.normals(np.arange(20_000), 0), "norm").pvalue > 1e-3
    assert stats.kstest(draws.exponentials(0, np.arange(20_000)), "expon").pvalue > 1e-3
