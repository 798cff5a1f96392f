"""What a mechanism with some noise promises under (n, b, k)-participation, and at what error."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.errors import PluginError
from fedsim.common.registry import is_own
from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.epsilon import epsilon_of, epsilon_of_rho, noise_for, rho_of
from fedsim.privacy.mechanisms import MECHANISMS
from fedsim.privacy.mechanisms.mechanism import Mechanism, convolved_rows, correlated_rows
from fedsim.privacy.sensitivity import error, inverse, sensitivity
from fedsim.scenario.privacy import Privacy

_PROBED = 32  # unit rows by which the noise of a brought mechanism is checked
_SAME = 1e-9


@dataclass(frozen=True)
class Guarantee:
    """One client, whatever it sends: zeroing out all that it contributes is (epsilon, delta)-indistinguishable."""

    bounds: ParticipationBounds  # the (n, b, k)-participation that it rests on
    mechanism: str
    sensitivity: float  # of the mechanism's C under these bounds
    noise_multiplier: float  # sigma: the rows of Z have the standard deviation clip norm times sigma times sensitivity
    rho: float  # of zCDP
    epsilon: float  # at delta, exactly
    epsilon_zcdp: float  # at delta, through rho by the conversion of Canonne, Kamath and Steinke
    delta: float
    error_max: float
    """Standard deviation of a released sum of updates, per coordinate, in units of clip norm times sigma: the largest
    over the rounds."""
    error_rms: float  # the root mean square of the same

    @property
    def figures(self) -> dict[str, float]:
        """The metrics of a run."""
        bounds = self.bounds
        return {
            **{name: getattr(self, name) for name in ("epsilon", "rho", "sensitivity", "noise_multiplier")},
            "rounds": float(bounds.rounds),
            "separation": float(bounds.min_separation),
            "most": float(bounds.participations),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        own = dict(vars(self))
        bounds: ParticipationBounds = own.pop("bounds")
        return {
            "rounds": bounds.rounds,
            "min_separation": bounds.min_separation,
            "most_participations": bounds.participations,
            **({"of_clients": [list(each) for each in bounds.own]} if bounds.own else {}),
            **own,
        }


def mechanism_of(privacy: Privacy) -> Mechanism:
    """Return the mechanism that a scenario names, or raise the `PluginError` of its mistakes."""
    return MECHANISMS.build(privacy.mechanism.kind, privacy.mechanism.options)


def _check_rows(mechanism: Mechanism, c: Floats, bounds: ParticipationBounds) -> None:
    """Compare the rows that a brought ``correlate`` makes with those of C^{-1} Z.

    Z has unit rows in some columns, and one of another size in each row.
    """
    n = bounds.rounds
    units = np.unique(np.linspace(0, n - 1, min(n, _PROBED)).astype(np.int64))
    z = np.zeros((n, len(units) + 1))
    z[units, np.arange(len(units))] = 1.0
    z[:, -1] = 1.7 * np.cos(np.arange(n) ** 2)
    wanted = np.array(list(convolved_rows(inverse(c, n), iter(z))))
    made = np.array(list(correlated_rows(mechanism, iter(z), bounds)))
    if made.shape != wanted.shape:
        raise PluginError(f"its correlate makes rows of the shape {made.shape}; expected {wanted.shape}")
    wrong = np.flatnonzero(np.abs(made - wanted).max(axis=1) > _SAME * np.abs(wanted).max())
    if len(wrong):
        row = int(wrong[0])
        raise PluginError(
            f"row {row:,} of its correlate is not that of C^-1 Z ({made[row, -1]:.6g} instead of {wanted[row, -1]:.6g} "
            "for the same rows of Z), so that the noise is not what its coefficients promise"
        )


def guarantee(privacy: Privacy, bounds: ParticipationBounds) -> Guarantee:
    """Return what a scenario's mechanism and noise promise.

    Raises a `PluginError` if a user's mechanism is incomplete, fails, or has coefficients of unknown sensitivity.
    """
    kind = privacy.mechanism.kind
    mechanism = mechanism_of(privacy)
    where = f"privacy mechanism {kind!r}"
    with MECHANISMS.reraise_as_plugin_error(where, mechanism.coefficients):
        c = np.asarray(mechanism.coefficients(bounds), dtype=np.float64)
        try:
            spread = sensitivity(c, bounds)
            if c[0] <= 0.0:
                raise ValueError("its first coefficient must be positive")  # noqa: TRY301
        except ValueError as wrong:
            raise PluginError(str(wrong)) from None
    if is_own(kind) and hasattr(mechanism, "correlate"):
        with MECHANISMS.reraise_as_plugin_error(where, mechanism.correlate):
            _check_rows(mechanism, c, bounds)
    sigma = privacy.noise_multiplier
    if sigma is None:
        assert privacy.epsilon is not None
        sigma = noise_for(privacy.epsilon, privacy.delta)
    of_sums = error(c, bounds.rounds)
    return Guarantee(
        bounds=bounds,
        mechanism=kind,
        sensitivity=spread,
        noise_multiplier=sigma,
        rho=rho_of(sigma),
        epsilon=epsilon_of(sigma, privacy.delta),
        epsilon_zcdp=epsilon_of_rho(rho_of(sigma), privacy.delta),
        delta=privacy.delta,
        error_max=spread * of_sums.max,
        error_rms=spread * of_sums.rms,
    )
