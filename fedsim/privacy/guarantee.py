"""The ledger: what a mechanism with some noise promises under (n, b, k)-participation, and at what error."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsim.common.errors import PluginError
from fedsim.common.registry import Findings
from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.epsilon import epsilon_of, epsilon_of_rho, noise_for, rho_of
from fedsim.privacy.error import error
from fedsim.privacy.mechanisms import MECHANISMS
from fedsim.privacy.mechanisms.mechanism import Mechanism
from fedsim.privacy.sensitivity import sensitivity
from fedsim.scenario.component import chosen
from fedsim.scenario.privacy import Privacy


@dataclass(frozen=True)
class Guarantee:
    """One client, whatever it sends: zeroing out all that it contributes is (epsilon, delta)-indistinguishable.

    Attributes
    ----------
    bounds
        The (n, b, k)-participation that it rests on.
    mechanism
        Its name.
    sensitivity
        Of its C under these bounds.
    noise_multiplier
        sigma: the rows of Z have the standard deviation clip norm times this times the sensitivity.
    rho, epsilon, epsilon_zcdp, delta
        zCDP; epsilon at delta exactly, and through rho by the conversion of Canonne, Kamath and Steinke.
    error_max, error_rms
        Standard deviation of a released sum of updates, per coordinate, in units of clip norm times sigma: the largest
        over the rounds, and the root mean square.
    """

    bounds: ParticipationBounds
    mechanism: str
    sensitivity: float
    noise_multiplier: float
    rho: float
    epsilon: float
    epsilon_zcdp: float
    delta: float
    error_max: float
    error_rms: float

    @property
    def figures(self) -> dict[str, float]:
        """Those that are metrics of a run."""
        bounds = self.bounds
        return {
            "epsilon": self.epsilon,
            "rho": self.rho,
            "sensitivity": self.sensitivity,
            "noise_multiplier": self.noise_multiplier,
            "rounds": float(bounds.rounds),
            "separation": float(bounds.min_separation),
            "most": float(bounds.participations),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON says it."""
        bounds = self.bounds
        own = {name: value for name, value in vars(self).items() if name != "bounds"}
        return {
            "rounds": bounds.rounds,
            "min_separation": bounds.min_separation,
            "most_participations": bounds.participations,
            **own,
        }


def check_mechanism(privacy: Privacy) -> Findings:
    """Return every mistake in a scenario's choice of a mechanism, without building it: pairs (path, message)."""
    return MECHANISMS.check(*chosen(privacy.mechanism))


def mechanism_of(privacy: Privacy) -> Mechanism:
    """Return the mechanism that a scenario names.

    Raises
    ------
    PluginError
        When `check_mechanism` finds a mistake, or the constructor fails.
    """
    return MECHANISMS.build(*chosen(privacy.mechanism))


def guarantee(privacy: Privacy, bounds: ParticipationBounds) -> Guarantee:
    """Return what a scenario's mechanism and noise promise.

    Raises
    ------
    PluginError
        If the mechanism is one's own and incomplete, fails, or has coefficients whose sensitivity is not known.
    """
    kind = privacy.mechanism.kind
    mechanism = mechanism_of(privacy)
    where = f"privacy mechanism {kind!r}"
    with MECHANISMS.blame(where):
        c = np.asarray(mechanism.coefficients(bounds), dtype=np.float64)
    try:
        spread = sensitivity(c, bounds)
        if c[0] <= 0.0:
            raise ValueError("its first coefficient must be positive")  # noqa: TRY301
    except ValueError as wrong:
        raise PluginError(f"{where}: {wrong}") from None
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
