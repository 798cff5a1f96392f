"""Noise as it streams: the same as from dense matrices, and of the covariance that the guarantee is about."""

from collections.abc import Iterator

import numpy as np
import pytest

from fedsim.common.arrays import Floats
from fedsim.privacy import MECHANISMS, ParticipationBounds
from fedsim.privacy.mechanisms.mechanism import correlated_rows
from tests.privacy.test_mechanisms import Halved
from tests.privacy.test_sensitivity import toeplitz

BOUNDS = ParticipationBounds(150, 9, 6)
KINDS = ["independent", "sqrt", "banded", "lambda_cgd", "blt", f"{Halved.__module__}:Halved"]


def rows(n: int, d: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((n, d))


@pytest.mark.parametrize("kind", KINDS)
def test_each_row_is_that_of_the_inverse_times_z(kind: str) -> None:
    mechanism = MECHANISMS.build(kind, {})
    z = rows(BOUNDS.rounds, 3)
    expected = np.linalg.solve(toeplitz(mechanism.coefficients(BOUNDS), BOUNDS.rounds), z)
    made = np.array(list(correlated_rows(mechanism, iter(z), BOUNDS)))
    assert made == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_waits_for_no_later_one(kind: str) -> None:
    asked = 0

    def source() -> Iterator[Floats]:
        nonlocal asked
        for row in rows(BOUNDS.rounds, 2):
            asked += 1
            yield row

    stream = correlated_rows(MECHANISMS.build(kind, {}), source(), BOUNDS)
    for number in range(1, 130):
        next(stream)
        assert asked == number
