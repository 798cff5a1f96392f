"""What a mechanism with some noise promises under (n, b, k)-participation, and at what error."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.errors import PluginError
from fedsim.common.registry import is_own
from fedsim.privacy.bounds import ParticipationBounds, Sampling
from fedsim.privacy.epsilon import epsilon_of, epsilon_of_rho, noise_for, rho_of
from fedsim.privacy.mechanisms import MECHANISMS
from fedsim.privacy.mechanisms.mechanism import Mechanism, checked_rows
from fedsim.privacy.optimized import cached
from fedsim.privacy.sampled import epsilon_of_sampled, noise_for_sampled
from fedsim.privacy.sensitivity import error, sensitivity
from fedsim.scenario.privacy import Privacy, scope_of

_PROBED = 8  # columns of noise of a brought mechanism that is checked


class Secret(NamedTuple):
    """What else is known of an epsilon that counts on a secret schedule."""

    epsilon_rdp: float  # at delta, by Renyi divergences and the conversion of Canonne, Kamath and Steinke
    epsilon_if_known: float  # at delta, exactly, once it is known who took part in which round


@dataclass(frozen=True)
class Guarantee:
    """One client, whatever it sends: zeroing out all that it contributes is (epsilon, delta)-indistinguishable."""

    bounds: ParticipationBounds  # the (n, b, k)-participation that it rests on
    mechanism: str
    sensitivity: float  # of the mechanism's C under these bounds
    noise_multiplier: float  # sigma: the rows of Z have the standard deviation clip norm times sigma times sensitivity
    # rho, epsilon_zcdp: of zCDP, and through it at delta by the conversion of Canonne, Kamath and Steinke; they do not
    # count on sampling
    rho: float
    epsilon: float  # at delta, exactly; with sampling by the distribution of the privacy loss
    epsilon_zcdp: float
    delta: float
    error_max: float
    """Standard deviation of a released sum of updates, per coordinate, in units of clip norm times sigma: the largest
    over the rounds."""
    error_rms: float  # the root mean square of the same
    amplified: Secret | None = None  # where it counts on sampling; the sensitivity is that of one participation then

    @property
    def scope(self) -> str:
        """What stands beside epsilon: to whom the promise is made, and what it counts on."""
        return scope_of(self.amplified is not None)

    def noise_std(self, privacy: Privacy) -> float:
        """Return the standard deviation of the rows of Z as training has them, for a clip of 1."""
        return self.noise_multiplier * self.sensitivity / (privacy.stands_for or 1.0)

    @property
    def shown(self) -> dict[str, float]:
        """Its figures for a table, by column."""
        amplified = self.amplified
        also = {"by zCDP": self.epsilon_zcdp}
        if amplified is not None:
            also = {"by RDP": amplified.epsilon_rdp, "if known": amplified.epsilon_if_known}
        errors = {"error rms": self.error_rms, "error max": self.error_max}
        return {"noise": self.noise_multiplier, "epsilon": self.epsilon, **also, **errors}

    @property
    def figures(self) -> dict[str, float]:
        """The metrics of a run."""
        bounds = self.bounds
        return {
            **{name: getattr(self, name) for name in ("epsilon", "rho", "sensitivity", "noise_multiplier")},
            "rounds": float(bounds.rounds),
            "separation": float(bounds.min_separation),
            "most": float(bounds.participations),
            **({} if self.amplified is None else {"epsilon_if_known": self.amplified.epsilon_if_known}),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        values = dict(vars(self))
        bounds: ParticipationBounds = values.pop("bounds")
        values["amplification"] = None
        if (amplified := values.pop("amplified")) is not None and bounds.sampling is not None:
            values["amplification"] = bounds.sampling._asdict() | amplified._asdict()
        return {
            "rounds": bounds.rounds,
            "min_separation": bounds.min_separation,
            "most_participations": bounds.participations,
            **({"of_clients": [list(each) for each in bounds.pairs]} if bounds.pairs else {}),
            **values,
        }


def mechanism_of(privacy: Privacy) -> Mechanism:
    """Return the mechanism that a scenario names, or raise the `PluginError` of its mistakes."""
    return MECHANISMS.build(privacy.mechanism.kind, privacy.mechanism.options)


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
            z = np.random.default_rng(0).normal(size=(bounds.rounds, _PROBED))
            if sum(1 for _ in checked_rows(mechanism, iter(z), bounds, z[0])) < bounds.rounds:
                raise PluginError("its correlate makes too few rows")
    delta, of_sums = privacy.delta, error(c, bounds.rounds)
    unit = spread if bounds.sampling is None else _of_one(c, bounds.sampling)
    sigma = privacy.noise_multiplier
    if sigma is None:
        assert privacy.epsilon is not None
        sigma = noise_for(privacy.epsilon, delta) * spread / unit
        if bounds.sampling is not None:
            question = ("sampled", privacy.epsilon, delta, bounds.sampling.chance, bounds.sampling.steps(bounds.rounds))
            sigma = min(sigma, float(cached(question, lambda: np.array([noise_for_sampled(*question[1:])]))[0]))
    unamplified = sigma * unit / spread
    epsilon, amplified = epsilon_of(unamplified, delta), None
    if bounds.sampling is not None:
        sampled = epsilon_of_sampled(sigma, delta, bounds.sampling.chance, bounds.sampling.steps(bounds.rounds))
        amplified = Secret(min(sampled.epsilon_rdp, epsilon_of_rho(rho_of(unamplified), delta)), epsilon)
        epsilon = min(epsilon, sampled.epsilon)
    return Guarantee(
        bounds=bounds,
        mechanism=kind,
        sensitivity=unit,
        noise_multiplier=sigma,
        rho=rho_of(unamplified),
        epsilon=epsilon,
        epsilon_zcdp=epsilon_of_rho(rho_of(unamplified), delta),
        delta=delta,
        error_max=unit * of_sums.max,
        error_rms=unit * of_sums.rms,
        amplified=amplified,
    )


def _of_one(c: Floats, sampling: Sampling) -> float:
    """Return the sensitivity to one participation; a `PluginError` if C lets two of them overlap."""
    if (reach := int(np.flatnonzero(c).max()) + 1) > sampling.cycle:
        raise PluginError(
            f"amplification by sampling holds for at most {sampling.cycle:,} coefficients, by how often a client may "
            f"be drawn, and these are {reach:,}: take independent, banded with fewer bands, or selection: {{kind: "
            "cyclic_poisson, groups: ...} with more groups"
        )
    return float(np.linalg.norm(c))
