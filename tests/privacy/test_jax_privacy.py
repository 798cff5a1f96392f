"""jax-privacy, where it is installed, says the same of what is exported to it."""

import numpy as np
import pytest

from fedsim.privacy import MECHANISMS, ParticipationBounds, error, sensitivity
from fedsim.privacy.mechanisms.blt import Blt
from fedsim.privacy.mechanisms.mechanism import correlated_rows

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]
REASON = "jax-privacy is not installed"


@pytest.mark.parametrize("kind", ["sqrt", "banded", "blt"])
@pytest.mark.parametrize(("n", "b", "k"), [(200, 10, None), (201, 10, None), (200, 7, 4), (60, 1, 5)])
def test_sensitivity_and_error(kind: str, n: int, b: int, k: int | None) -> None:
    jax = pytest.importorskip("jax", reason=REASON)
    toeplitz = pytest.importorskip("jax_privacy.matrix_factorization.toeplitz", reason=REASON)
    jax.config.update("jax_enable_x64", True)
    bounds = ParticipationBounds(n, b, k)
    c = MECHANISMS.build(kind, {}).coefficients(bounds)
    theirs = toeplitz.minsep_sensitivity_squared(
        jax.numpy.array(c), min_sep=b, max_participations=k, n=n, skip_checks=True
    )
    assert sensitivity(c, bounds) ** 2 == pytest.approx(float(theirs), rel=1e-12)
    rows = toeplitz.per_query_error(strategy_coef=jax.numpy.array(c), n=n)
    assert error(c, n) == pytest.approx((np.sqrt(float(rows.max())), np.sqrt(float(rows.mean()))), rel=1e-12)


def test_the_noise_of_a_blt() -> None:
    jax = pytest.importorskip("jax", reason=REASON)
    library = pytest.importorskip("jax_privacy.matrix_factorization.buffered_toeplitz", reason=REASON)
    jax.config.update("jax_enable_x64", True)
    bounds, mechanism = ParticipationBounds(200, 10), Blt(2)
    omega, theta = mechanism.parameters(bounds)
    theirs = library.BufferedToeplitz.build(buf_decay=theta, output_scale=omega)
    z = np.random.default_rng(0).standard_normal((200, 3))
    made = np.array(list(correlated_rows(mechanism, iter(z), bounds)))
    assert np.array(theirs.inverse_as_streaming_matrix() @ jax.numpy.array(z)) == pytest.approx(made, abs=1e-12)
