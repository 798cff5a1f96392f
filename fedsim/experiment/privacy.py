"""What a scenario promises to privacy, by separation and beside theory's bias, and whether a log kept a promise."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedsim.analysis.contributions import Contributions, contributions
from fedsim.common.arguments import whole
from fedsim.common.errors import ChainError, ScenarioError
from fedsim.common.notebook import fragment
from fedsim.experiment.preflight import preflight
from fedsim.experiment.result import Result
from fedsim.population import Population, check_feasible
from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.enforced import caveats, enforced
from fedsim.privacy.guarantee import Guarantee, guarantee, mechanism_of
from fedsim.privacy.mechanisms.blt import Blt
from fedsim.privacy.promise import broken
from fedsim.scenario import Scenario
from fedsim.scenario.imports import as_scenario
from fedsim.scenario.privacy import Privacy
from fedsim.theory.prediction import cap_binds, predicted

UNIT = "one client; adjacency: zero-out (all that it contributes is replaced by zeros)"


@dataclass(frozen=True)
class Row:
    """What one separation promises.

    Attributes
    ----------
    separation
        R; None where clients have different ones.
    guarantee
        What is promised.
    noise_std
        Standard deviation of the rows of Z, in the units of the clip norm; None where the scenario gives none.
    l1_uniform
        Theory's bias, for devices that are always available; None where no theory covers the scenario.
    caveats
        What the guarantee does not cover.
    """

    separation: int | None
    guarantee: Guarantee
    noise_std: float | None
    l1_uniform: float | None
    caveats: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return it as ``fedsim privacy --json`` gives it."""
        beside = {"noise_std": self.noise_std, "l1_uniform": self.l1_uniform, "unit": UNIT, "caveats": self.caveats}
        return {"separation": self.separation, **self.guarantee.as_dict(), **beside}


class Promises(list[Row]):
    """What several separations promise: a list that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        header = ("R", "b", "k", "noise", "epsilon", "error rms", "error max", "L1 from uniform, theory")
        rows = []
        for row in self:
            one = row.guarantee
            rows.append(
                (
                    "per client" if row.separation is None else f"{row.separation:,}",
                    f"{one.bounds.min_separation:,}",
                    f"{one.bounds.participations:,}",
                    f"{one.noise_multiplier:.5g}",
                    f"{one.epsilon:.5g}",
                    f"{one.error_rms:.5g}",
                    f"{one.error_max:.5g}",
                    "unknown" if row.l1_uniform is None else f"{row.l1_uniform:.6f}",
                )
            )
        first = self[0].guarantee
        title = f"n = {first.bounds.rounds:,} rounds, mechanism {first.mechanism}, delta = {first.delta:g}"
        notes = dict.fromkeys([UNIT, *(note for row in self for note in row.caveats)])
        return fragment(title, header, rows, notes=notes)


def promises(
    scenario: Scenario | str | os.PathLike[str],
    *,
    separation: Iterable[int] | None = None,
    noise: float | None = None,
    epsilon: float | None = None,
) -> Promises:
    """Return what a scenario promises to privacy, without simulating.

    Parameters
    ----------
    scenario
        A scenario with ``privacy``, or the name of its file.
    separation
        Common separations to compare; by default the scenario's own.
    noise, epsilon
        Instead of the scenario's noise multiplier or epsilon.

    Raises
    ------
    ScenarioError
        If the scenario is wrong, has no ``privacy``, or enforces too little for anything to be promised.
    ChainError
        If a separation can never be kept.
    PluginError
        If a mechanism of one's own fails.
    """
    scenario = as_scenario(scenario)
    privacy = _asked(scenario, noise, epsilon)
    population = preflight(scenario)
    if separation is None:
        return Promises([_row(scenario, population, privacy)])
    rows = Promises()
    for each in separation:
        shared = np.full_like(population.separation, whole("separation", each))
        changed = replace(population, separation=shared)
        if mistakes := check_feasible(scenario, changed):
            raise ChainError("\n".join(mistake.message for mistake in mistakes))
        rows.append(_row(scenario, changed, privacy))
    return rows


def exported(scenario: Scenario, row: Row) -> dict[str, Any]:
    """Return what another library needs to make the same noise: n, b, k, the first column of C, and the scales.

    For ``blt`` also its buffers: omega as ``output_scale`` and theta as ``buf_decay``.
    """
    assert scenario.privacy is not None
    bounds, mechanism = row.guarantee.bounds, mechanism_of(scenario.privacy)
    data = row.as_dict() | {"clip": scenario.privacy.clip}
    data["coefficients"] = np.asarray(mechanism.coefficients(bounds), dtype=np.float64).tolist()
    if isinstance(mechanism, Blt):
        data["output_scale"], data["buf_decay"] = (each.tolist() for each in mechanism.parameters(bounds))
    return data


def _asked(scenario: Scenario, noise: float | None, epsilon: float | None) -> Privacy:
    """Return the scenario's privacy, with other noise where some is given."""
    privacy = scenario.privacy
    if privacy is None:
        message = "the scenario promises nothing: give it a mapping privacy, such as {epsilon: 8, delta: 1e-8}"
        raise ScenarioError([scenario.mistake((), message)])
    if noise is None and epsilon is None:
        return privacy
    # The bounds of a written one hold for these too.
    given = {"noise_multiplier": noise, "epsilon": epsilon}
    changed = {f"privacy.{name}": value for name, value in given.items()}
    asked = scenario.with_values(changed, {"privacy.noise_multiplier": "--noise", "privacy.epsilon": "--epsilon"})
    assert asked.privacy is not None
    return asked.privacy


def _row(scenario: Scenario, population: Population, privacy: Privacy) -> Row:
    promised = guarantee(privacy, enforced(scenario, population))
    clip = privacy.clip
    noise_std = None if clip is None else clip * promised.noise_multiplier * promised.sensitivity
    return Row(
        population.common_separation, promised, noise_std, _bias(scenario, population), caveats(scenario, population)
    )


def _bias(scenario: Scenario, population: Population) -> float | None:
    if cap_binds(scenario, population):
        return None
    try:
        return predicted(scenario, population).l1_uniform
    except ChainError:
        return None


@dataclass(frozen=True)
class Check:
    """A log beside the promise of its scenario.

    Attributes
    ----------
    promised
        n, b and k.
    rounds
        Up to the last one with a report that was taken.
    seen
        How often and how far apart clients contributed.
    broken
        Sentences, one for each part of the promise that the log broke.
    """

    promised: ParticipationBounds
    rounds: int
    seen: Contributions
    broken: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return it as ``fedsim privacy --from-log --json`` gives it."""
        promised = {
            "rounds": self.promised.rounds,
            "min_separation": self.promised.min_separation,
            "most_participations": self.promised.participations,
        }
        observed = {
            "rounds": self.rounds,
            "min_separation": self.seen.least_separation,
            "most_participations": self.seen.most,
        }
        return {"promised": promised, "observed": observed, "kept": not self.broken, "broken": self.broken}


def check_log(run: Result, promised: Mapping[str, int | None] | None = None) -> Check:
    """Return whether a run kept what its scenario promises, or what is promised instead.

    Parameters
    ----------
    run
        What was recorded.
    promised
        Parts of a `ParticipationBounds` by name, instead of what the scenario enforces.

    Raises
    ------
    ScenarioError
        If the scenario enforces too little for anything to be promised, and not all is given.
    """
    given = {name: value for name, value in (promised or {}).items() if value is not None}
    if {"rounds", "min_separation"} <= given.keys():
        bounds = ParticipationBounds(**given)
    else:
        bounds = replace(enforced(run.scenario, preflight(run.scenario, run.replicate)), **given)
    seen = contributions(run.participations, len(run.clients))
    return Check(bounds, seen.last_round + 1, seen, broken(bounds, seen))
