"""What theory has to say about a scenario's participation, where it applies."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import ChainError
from fedsim.common.instants import DAY_S, HOUR_S
from fedsim.population import Population
from fedsim.population.distributions import distribution
from fedsim.scenario import Scenario
from fedsim.scenario.models import ConvergenceStudy, Session
from fedsim.scenario.server import BufferedServer
from fedsim.selection.laws import law_of
from fedsim.theory import METHODS, Stationary, convergence, stationary
from fedsim.theory.buffered import Asynchronous, Flow, LengthDistribution, asynchronous

_MOST = 100_000
_NODES = {0: 1, 1: 4096, 2: 256, 3: 40}
"""Values of each random phase of a session, by how many phases are random."""


def predicted(
    scenario: Scenario,
    population: Population,
    separation: int | Ints | None = None,
    method: str = "auto",
    law: str | None = None,
) -> Stationary:
    """Return the long-run participation of always-available clients under the scenario's selection law.

    A separation or law that is given replaces the population's or the scenario's; methods are those of `stationary`.

    Raises
    ------
    ChainError
        If the chain has no answer, for instance because the separation cannot be kept, or no theory covers the law.
    """
    if not scenario.server.selects_once:
        return flow_of(scenario, scenario.server, population, separation, method, law).stationary
    if separation is None:
        common = population.common_separation
        separation = population.separation if common is None else common
    wanted = scenario.server.wanted
    return stationary(population.weight, separation, wanted, law or law_of(scenario.server), method, seed=scenario.seed)


def applicable(scenario: Scenario, population: Population) -> Stationary | None:
    """Return what theory predicts for the log of a scenario, or None where its assumptions do not hold.

    The chain knows always-available clients that wait in synchronous rounds, with a full cohort in every round and
    every participation counted. The mean field of a buffered server knows always-available clients alone; beyond
    100,000 of them a run does not wait for it. Neither covers a selection law that does not say which law of the chain
    it is. No theory knows of a cap on participations, so where one can be reached there is none.
    """
    if not covers(scenario, population):
        return None
    try:
        return predicted(scenario, population)
    except ChainError:
        return None


def covers(scenario: Scenario, population: Population) -> bool:
    """Say whether the assumptions of `applicable` hold, as far as is known without computing anything."""
    server = scenario.server
    if cap_binds(scenario, population) or not scenario.always_available:
        return False
    if not server.selects_once:
        return len(population) <= _MOST
    counted = server.cooldown_from == "selected" or (server.wanted == server.cohort and server.deadline is None)
    return counted and not population.cooldown_s.any()


def pull_of(scenario: Scenario, population: Population, found: Stationary) -> Floats | None:
    """Return the pulls (N,) on a model by what is predicted of selections; None where not every session reports."""
    if not all_report(scenario, population):
        return None
    return found.pi if found.pull is None or scenario.divisor is not None else found.pull


def all_report(scenario: Scenario, population: Population) -> bool:
    """Say whether every session of always-available clients surely ends with a report that is taken."""
    server = scenario.server
    if server.max_staleness is not None or (server.selects_once and server.wanted > server.cohort):
        return False
    lengths = [session_values(group.session) for group in scenario.population] if server.deadline is not None else []
    return all(
        len(each) == 1 and each[0] <= (server.deadline or 0.0) * population.speed[population.group == index].min()
        for index, each in enumerate(lengths)
    )


def cap_binds(scenario: Scenario, population: Population) -> bool:
    """Say whether a client can reach its cap on participations: by its separation, and the rounds that there may be."""
    if population.most is None:
        return False
    rounds = scenario.stop.rounds
    return rounds is None or bool((population.most < replace(population, most=None).at_most(rounds)).any())


def convergence_table(scenario: Scenario, population: Population, study: ConvergenceStudy) -> pl.DataFrame:
    """Return how fast the law of the participants approaches its limit, for several common separations.

    Columns: ``separation``; ``round``; ``tv``, the TV distance between the law of a participant of that round, all
    clients being ready at round 0, and the stationary one; ``noise_floor``, what sampling noise alone would give (null
    where the law was computed exactly); ``method``.

    Raises
    ------
    ChainError
        If a separation cannot be kept.
    """
    server, parts = scenario.server, []
    options: dict[str, Any] = {"rounds": study.rounds, "replicas": study.replicas, "seed": scenario.seed}
    for separation in study.separations:
        found = convergence(population.weight, separation, server.wanted, law_of(server), **options)
        columns = {
            "separation": separation,
            "round": range(study.rounds),
            "tv": found.tv,
            "noise_floor": found.noise_floor,
            "method": found.method,
        }
        parts.append(pl.DataFrame(columns, schema_overrides={"separation": pl.Int64, "noise_floor": pl.Float64}))
    return pl.concat(parts)


def flow_of(
    scenario: Scenario,
    server: BufferedServer,
    population: Population,
    separation: int | Ints | None = None,
    method: str = "auto",
    law: str | None = None,
) -> Flow:
    """Return what the mean field says of always-available clients under a scenario's buffered server.

    As `predicted`, with separations in versions and the method ``auto`` or ``mean-field``. Sessions in step are
    answered as synchronous rounds are.
    """
    if method not in {"auto", "mean-field"}:
        known = "there is no such method" if method not in METHODS else "it is for synchronous rounds"
        raise ChainError(f"a buffered server's participation is not found by {method!r} ({known}): use mean-field")
    wanted = population.separation if separation is None else separation
    values = [session_values(group.session) for group in scenario.population]
    limit_s = np.inf if server.deadline is None else server.deadline
    question = Asynchronous(
        weights=population.weight,
        separation=np.broadcast_to(np.asarray(wanted, dtype=np.int64), population.weight.shape),
        cooldown_s=population.cooldown_s,
        lengths=LengthDistribution.of(population.group, population.speed, values, limit_s),
        concurrency=server.concurrency,
        buffer=server.buffer,
        law=law or law_of(server),
        rest_from=server.cooldown_from,
        max_staleness=server.max_staleness,
    )
    return asynchronous(question)


def flow_summary(flow: Flow, server: BufferedServer, population: Population) -> dict[str, Any]:
    """Return what ``fedsim chain`` says of a scenario's buffered server beside the shares: strict JSON."""
    groups = {}
    for index, name in enumerate(population.group_names):
        own = population.group == index
        groups[name] = {
            "devices": int(own.sum()),
            "share": float(flow.stationary.pi[own].sum()),
            "participations_per_day": float(DAY_S * flow.rate[own].mean()),
            "wait_s": float(np.average(flow.wait_s[own], weights=flow.rate[own])),
        }
    return {
        "concurrency": server.concurrency,
        "buffer": server.buffer,
        "version_s": flow.version_s,
        "versions_per_hour": HOUR_S / flow.version_s,
        "utilisation": flow.utilisation,
        "groups": groups,
    }


def session_values(session: Session) -> Floats:
    """Return equally likely lengths of a session at speed 1: quantiles of each phase, in all combinations."""
    phases = (session.download, session.train, session.upload)
    drawn = [phase for phase in phases if phase.kind != "constant"]
    total = np.array([sum(phase.value for phase in phases if phase.kind == "constant")])
    for phase in drawn:
        nodes, law = _NODES[len(drawn)], distribution(phase)
        quantiles = law.draw((np.arange(nodes) + 0.5) / nodes)
        mean = phase.median * np.exp(phase.sigma**2 / 2) if phase.kind == "lognormal" else law.mean
        # The outermost quantiles stand for tails; with their mean put right, so is that of the session.
        if quantiles.any():
            quantiles = quantiles * (mean / quantiles.mean())
        total = np.add.outer(total, quantiles).ravel()
    return total
