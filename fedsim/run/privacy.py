"""The privacy guarantee of a scenario, by separation, with theory's bias; and whether a log kept it."""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack, overload

import numpy as np
import polars as pl

from fedsim.common.arguments import whole
from fedsim.common.errors import ChainError, ScenarioError
from fedsim.common.markup import fragment
from fedsim.common.progress import Report, silent
from fedsim.learning.private import caveats_of
from fedsim.measure.contributions import Contributions, contributions
from fedsim.population import Population, check_feasible
from fedsim.privacy.bounds import ParticipationBounds, broken_by_clients, broken_promises, enforced_bounds
from fedsim.privacy.guarantee import Guarantee, guarantee, mechanism_of
from fedsim.run.preflight import preflight
from fedsim.run.run import Run
from fedsim.scenario import GivenScenario, Scenario, as_scenario
from fedsim.scenario.privacy import Privacy
from fedsim.theory.prediction import cap_binds, predicted

_SILENT_S = 2.0


@dataclass(frozen=True)
class Row:
    """What one separation promises, with one cohort."""

    separation: int | None  # R; None where clients have different ones
    cohort: int  # by how much the sum of the updates is divided: the cohort, or the size of a buffer
    guarantee: Guarantee
    noise_std: float | None  # of the rows of Z in training, in the units of the clip norm; None without a clip
    noise_mean: float  # that of the rows of Z over the cohort, in the units of the clip norm, or in clip norms
    l1_uniform: float | None  # theory's bias for always available devices; None where no theory applies
    caveats: list[str]  # what the guarantee does not cover

    def as_dict(self) -> dict[str, Any]:
        """Return it as ``fedsim privacy --json`` gives it."""
        noise = {"cohort": self.cohort, "noise_std": self.noise_std, "noise_mean": self.noise_mean}
        beside = {**noise, "l1_uniform": self.l1_uniform, "unit": self.guarantee.scope, "caveats": self.caveats}
        return {"separation": self.separation, **self.guarantee.as_dict(), **beside}

    def _repr_html_(self) -> str:
        return Guarantees([self])._repr_html_()


class Guarantees(list[Row]):
    """What several separations or cohorts promise: a list that a notebook shows as a table."""

    def to_frame(self) -> pl.DataFrame:
        """Return a row for each separation, with the columns of ``fedsim privacy --json``."""
        return pl.DataFrame([row.as_dict() for row in self])

    def _repr_html_(self) -> str:
        header = ("R", "cohort", "b", "k", *self[0].guarantee.shown, "noise of the mean", "L1 from uniform, theory")
        rows = [
            (
                "per client" if row.separation is None else f"{row.separation:,}",
                *(
                    f"{bound:,}"
                    for bound in (row.cohort, row.guarantee.bounds.min_separation, row.guarantee.bounds.participations)
                ),
                *(f"{value:.5g}" for value in row.guarantee.shown.values()),
                f"{row.noise_mean:.5g}",
                "unknown" if row.l1_uniform is None else f"{row.l1_uniform:.6f}",
            )
            for row in self
        ]
        first = self[0].guarantee
        title = f"n = {first.bounds.rounds:,} rounds, mechanism {first.mechanism}, delta = {first.delta:g}"
        notes = dict.fromkeys([row.guarantee.scope for row in self] + [note for row in self for note in row.caveats])
        return fragment(title, header, rows, notes=notes)


class _Options(TypedDict, total=False):
    """What `privacy_guarantees` takes beside a scenario, its separations and its cohorts."""

    noise: float | None
    epsilon: float | None
    report: Report


@overload
def privacy_guarantees(
    scenario: GivenScenario, *, separation: int | None = ..., cohort: int | None = ..., **options: Unpack[_Options]
) -> Row: ...
@overload
def privacy_guarantees(
    scenario: GivenScenario,
    *,
    separation: Iterable[int],
    cohort: int | Iterable[int] | None = ...,
    **options: Unpack[_Options],
) -> Guarantees: ...
@overload
def privacy_guarantees(
    scenario: GivenScenario, *, separation: int | None = ..., cohort: Iterable[int], **options: Unpack[_Options]
) -> Guarantees: ...
def privacy_guarantees(
    scenario: GivenScenario,
    *,
    separation: int | Iterable[int] | None = None,
    cohort: int | Iterable[int] | None = None,
    noise: float | None = None,
    epsilon: float | None = None,
    report: Report = silent,
) -> Row | Guarantees:
    """Return what a scenario promises to privacy, without simulating.

    Of several separations or cohorts it is a list, with a row for each, that a notebook shows as a table.

    Parameters
    ----------
    scenario
        A scenario with ``privacy``, the name of its file, or a mapping with its keys.
    separation
        A common separation, or several to compare; by default the scenario's own.
    cohort
        A cohort, or several to compare, each with each separation; by default the scenario's own.
    noise, epsilon
        Instead of the scenario's noise multiplier or epsilon.
    report
        Called with what is being done, and how much of it is done, once it takes seconds.

    Raises
    ------
    ScenarioError
        If the scenario is wrong, has no ``privacy``, or enforces too little for anything to be promised.
    ChainError
        If a separation can never be kept.
    PluginError
        If a mechanism of the user's own fails.

    >>> scenario = Scenario.load("paper/synthetic", ["privacy={epsilon: 8, delta: 1.0e-6, mechanism: independent}"])
    >>> [row.guarantee.bounds.participations for row in privacy_guarantees(scenario, separation=[4, 12])]
    [1600, 616]
    """
    scenario = as_scenario(scenario)
    privacy = _asked(scenario, noise, epsilon)
    population = preflight(scenario, live=True).population  # nothing is trained
    usual = population.separation
    asked = [separation] if isinstance(separation, int) else separation
    sizes = [cohort] if isinstance(cohort, int) else cohort
    shared = [usual] if asked is None else [np.full_like(usual, whole("separation", each)) for each in asked]
    sized = [scenario] if sizes is None else [scenario.with_values({"server.cohort": each}) for each in sizes]
    rows, kept, began = Guarantees(), dict[Any, Any](), time.monotonic()
    for values in shared:
        for one in sized:
            if time.monotonic() - began > _SILENT_S:
                report("promises", len(rows) / (len(shared) * len(sized)), f"R = {int(values[0]):,}")
            changed = replace(population, separation=values)
            if mistakes := check_feasible(one, changed):
                raise ChainError("\n".join(mistake.message for mistake in mistakes))
            rows.append(_row(one, changed, privacy, kept))
    return rows if isinstance(separation, Iterable) or isinstance(cohort, Iterable) else rows[0]


def mechanism_data(scenario: Scenario, row: Row) -> dict[str, Any]:
    """Return what another library needs to make the same noise: n, b, k, the first column of C, and the scales.

    A mechanism with a method ``exported``, as ``blt``, adds what describes it more briefly than C does.
    """
    assert scenario.privacy is not None
    bounds, mechanism = row.guarantee.bounds, mechanism_of(scenario.privacy)
    data = row.as_dict() | {"clip": scenario.privacy.clip, "stands_for": scenario.privacy.stands_for}
    data["coefficients"] = np.asarray(mechanism.coefficients(bounds), dtype=np.float64).tolist()
    shorter = getattr(mechanism, "exported", None)
    return data if shorter is None else data | shorter(bounds)


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


def _row(scenario: Scenario, population: Population, privacy: Privacy, kept: dict[Any, Any]) -> Row:
    """Return a row; `kept` is what does not depend on the cohort, by what it depends on."""
    bounds = enforced_bounds(scenario, population)
    if bounds not in kept:
        kept[bounds] = guarantee(privacy, bounds)
    promised = kept[bounds]
    std = (privacy.clip or 1.0) * promised.noise_std(privacy)
    bias = None
    if not cap_binds(scenario, population):
        with suppress(ChainError):
            bias = predicted(scenario, population).l1_uniform
    size = scenario.server.cohort if scenario.server.selects_once else scenario.server.buffer
    notes = caveats_of(scenario, bounds, clocked=bool((population.cooldown_s > 0).any()))
    noise_std = None if privacy.clip is None else std
    return Row(population.common_separation, size, promised, noise_std, std / size, bias, notes)


@dataclass(frozen=True)
class PromiseCheck:
    """A log compared with its scenario's promise."""

    promised: ParticipationBounds
    rounds: int  # up to the last one with a report that was taken
    seen: Contributions
    broken: list[str]  # sentences, one for each part of the promise that the log broke

    def as_dict(self) -> dict[str, Any]:
        """Return it as ``fedsim privacy --from-log --json`` gives it."""
        names = ("rounds", "min_separation", "most_participations")
        bounds = (self.promised.rounds, self.promised.min_separation, self.promised.participations)
        promised = dict(zip(names, bounds, strict=True))
        observed = dict(zip(names, (self.rounds, self.seen.least_separation, self.seen.most), strict=True))
        return {"promised": promised, "observed": observed, "kept": not self.broken, "broken": self.broken}


def check_log(run: Run, promised: Mapping[str, int | None] | None = None) -> PromiseCheck:
    """Return whether a run kept what its scenario promises, or what is promised instead.

    `promised` has parts of a `ParticipationBounds` by name, instead of what the scenario enforces. It is a
    `ScenarioError` if that is too little for anything to be promised, and not all is given.
    """
    given: dict[str, Any] = {name: value for name, value in (promised or {}).items() if value is not None}
    seen, broken = contributions(run.participations, len(run.clients)), list[str]()
    if {"rounds", "min_separation"} <= given.keys():
        bounds = ParticipationBounds(**given)
    else:
        population = preflight(run.scenario, run.replicate).population
        bounds = replace(enforced_bounds(run.scenario, population), **given)
        if population.most is not None and not given:
            broken = broken_by_clients(bounds, population.separation, population.most, run.participations)
    return PromiseCheck(bounds, seen.last_round + 1, seen, broken_promises(bounds, seen) or broken)
