"""What theory has to say about a scenario's participation, where it applies."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import ChainError
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.population import Population, build_population
from fedsim.population.distributions import distribution
from fedsim.population.sessions import steps_by_deadline
from fedsim.scenario import Scenario
from fedsim.scenario.server import BufferedServer, SyncServer
from fedsim.scenario.session import AnySession
from fedsim.scenario.studies import ConvergenceStudy
from fedsim.scenario.work import Work
from fedsim.selection.laws import failing_in_words, law_of
from fedsim.selection.rules import SelectionRule, rule_of
from fedsim.theory import METHODS, Stationary, convergence, stationary
from fedsim.theory.buffered import Asynchronous, Flow, LengthDistribution, asynchronous
from fedsim.theory.busy import BUSY, check_ready, outlasts, taken_and_ready, with_busy_clients
from fedsim.theory.mean_field import STALLS
from fedsim.theory.question import AnyRule, separations

_MOST = 100_000
_TRUSTED = 0.1
_NODES = {0: 1, 1: 4096, 2: 256, 3: 40}
_FINE = 16  # quantiles of a speed for each equally likely time
_MOST_KINDS = 64
"""Values of each random phase of a session, by how many phases are random."""


def predicted(
    scenario: Scenario,
    population: Population,
    separation: int | Ints | None = None,
    method: str = "auto",
    rule: AnyRule | None = None,
) -> Stationary:
    """Return the long-run participation of always-available clients under the scenario's selection law.

    A separation or rule that is given replaces the population's or the scenario's; methods are those of `stationary`.
    Clients that are busy for longer than their separation are answered by a mean field; where it cannot, or another
    method is asked for, the chain answers, and a caveat says what it leaves out.

    Raises a `ChainError` if the chain has no answer, for instance because the separation cannot be kept, or no theory
    covers the law.
    """
    if not scenario.server.selects_once:
        return flow_of(scenario, scenario.server, population, separation, method, rule).stationary
    common = separations(population.separation if separation is None else separation, len(population))
    rounds, rule = np.broadcast_to(np.asarray(common), len(population)), rule_of(rule or law_of(scenario.server))
    left_out = None
    with failing_in_words(rule):
        try:
            if (busy := _busy(scenario, scenario.server, population, rounds, rule)) is not None:
                if method in {"auto", "mean-field"}:
                    return busy
                left_out = f"the method {method!r} leaves out that {BUSY}"
        except ChainError as error:
            left_out = f"theory does not hold here: {error}"
        answer = stationary(population.weight, common, scenario.server.wanted, rule, method, seed=scenario.seed)
    return answer if left_out is None else replace(answer, caveats=(*answer.caveats, left_out))


def theory_or_why_not(scenario: Scenario, population: Population) -> Stationary | str:
    """Return what theory predicts for the log of a scenario, or why it does not hold there.

    This is the one place that says so. The chain knows always-available clients that wait in synchronous rounds, with a
    full cohort in every round and every participation counted; a mean field knows those that are busy for longer, and
    another one a buffered server. A mean field holds where it expects an error of at most 10 % for a client.
    """
    if (early := before_the_chain(scenario, population)) is not None:
        return early
    try:
        answer = _trusted(predicted(scenario, population))
    except ChainError as error:
        return str(error)
    return next((each for each in answer.caveats if each.startswith(STALLS)), answer)


def before_the_chain(
    scenario: Scenario, population: Population | None = None, most: int = _MOST
) -> Stationary | str | None:
    """Return the mean field of busy clients, or why theory does not hold; None where the chain or a flow is asked.

    Of more than `most` clients nothing is asked. The population is built where it is needed and not given.
    """
    server = scenario.server
    if scenario.log is not None:
        return "theory needs a model of availability, and a log has none"
    if gone := [cause for outcome, cause in scenario.losses.items() if SESSION_OUTCOMES[outcome].how == "dropped"]:
        return gone[0]
    population = build_population(scenario) if population is None else population
    if len(population.barred):
        return "some devices can never take part (session.needs, left_out)"
    if cap_binds(scenario, population):
        return "a client can reach its cap on participations"
    if len(population) > most:
        return f"there are more than {most:,} clients, for which a run does not ask the mean field"
    try:
        rule = law_of(server)
        if server.selects_once:
            with failing_in_words(rule):
                busy = _busy(scenario, server, population, population.separation, rule)
            return None if busy is None else _trusted(busy)
    except ChainError as error:
        return str(error)
    return None


def _trusted(answer: Stationary) -> Stationary:
    """Return an answer, or raise a `ChainError` if it is a mean field that may be far off."""
    if answer.method == "mean-field" and (answer.error_bound or 0.0) > _TRUSTED:
        raise ChainError(f"the mean field may be {answer.error_bound:.0%} off for a client")
    return answer


def _busy(
    scenario: Scenario, server: SyncServer, population: Population, separation: Ints, rule: SelectionRule
) -> Stationary | None:
    """Return the mean field of busy clients; None where the chain holds.

    A `ChainError` says why neither does.
    """
    cooldown_s = population.cooldown_s
    rests = bool(separation.any() or cooldown_s.any())
    fails = "failed" in scenario.losses or (server.minimum_reports and "late" in scenario.losses)
    if rests and server.cooldown_from == "reported" and fails:
        raise ChainError("only reports keep clients out (server.cooldown_from), and those of failed rounds do not")
    sessions = lengths_of(scenario, population)
    if outlasts(sessions, separation, cooldown_s, server):
        if server.grace or server.overtime:
            raise ChainError(f"{BUSY}, and the mean field of that does not know server.grace and server.overtime")
        return with_busy_clients(population.weight, separation, cooldown_s, sessions, server, rule)
    if not (rule.fixed_size or rule.says("constant")) and separation.any():
        ready = taken_and_ready(population.weight, separation.astype(np.float64), server, rule)[1]
        check_ready(ready, server.least)
    return None


def lengths_of(scenario: Scenario, population: Population) -> LengthDistribution:
    """Return how long the clients' sessions take."""
    kind, values = session_kinds(scenario, population)
    limit_s = np.inf if scenario.server.deadline is None or scenario.server.selects_once else scenario.server.deadline
    return LengthDistribution.of(kind, population.speed, values, limit_s)


def pull_of(scenario: Scenario, population: Population, answer: Stationary) -> Floats | None:
    """Return the pulls (N,) on a model by what is predicted of selections; None where not every session reports."""
    if not all_report(scenario, population):
        return None
    return answer.pi if answer.pull is None or scenario.divisor is not None else answer.pull


def known_pulls(scenario: Scenario, population: Population) -> Floats | str:
    """Return the pulls (N,) on a model that theory predicts, or why it does not."""
    if isinstance(answer := theory_or_why_not(scenario, population), str):
        return answer
    pull = pull_of(scenario, population, answer)
    return "not every session surely ends with a report that is taken" if pull is None else pull


def all_report(scenario: Scenario, population: Population) -> bool:
    """Say whether every session surely ends with a report that is taken."""
    deadline = scenario.server.deadline
    if deadline is None or scenario.losses.keys() - {"late"}:
        return not scenario.losses
    try:
        sessions = lengths_of(scenario, population)
    except ChainError:
        return False
    longest = np.array([each[0] if len(each) == 1 else np.inf for each in sessions.values])[sessions.group]
    return bool((longest <= deadline * population.speed).all())


def cap_binds(scenario: Scenario, population: Population) -> bool:
    """Say whether a client can reach its cap on participations: by its separation, and the rounds that there may be."""
    if population.most is None:
        return False
    rounds = scenario.stop.most_rounds
    return rounds == np.inf or bool((population.most < replace(population, most=None).at_most(int(rounds))).any())


def convergence_table(scenario: Scenario, population: Population, study: ConvergenceStudy) -> pl.DataFrame:
    """Return how fast the law of the participants approaches its limit, for several common separations.

    Columns: ``separation``; ``round``; ``tv``, the TV distance between the law of a participant of that round, all
    clients being ready at round 0, and the stationary one; ``noise_floor``, what sampling noise alone would give (null
    where the law was computed exactly); ``method``. Raises a `ChainError` if a separation cannot be kept.
    """
    server, parts = scenario.server, []
    options: dict[str, Any] = {"rounds": study.rounds, "replicas": study.replicas, "seed": scenario.seed}
    for separation in study.separations:
        course = convergence(population.weight, separation, server.wanted, law_of(server), **options)
        columns = {
            "separation": separation,
            "round": range(study.rounds),
            "tv": course.tv,
            "noise_floor": course.noise_floor,
            "method": course.method,
        }
        parts.append(pl.DataFrame(columns, schema_overrides={"separation": pl.Int64, "noise_floor": pl.Float64}))
    return pl.concat(parts)


def flow_of(
    scenario: Scenario,
    server: BufferedServer,
    population: Population,
    separation: int | Ints | None = None,
    method: str = "auto",
    rule: AnyRule | None = None,
) -> Flow:
    """Return what the mean field says of always-available clients under a scenario's buffered server.

    As `predicted`, with separations in versions and the method ``auto`` or ``mean-field``. Sessions in step are
    answered as synchronous rounds are.
    """
    if method not in {"auto", "mean-field"}:
        why = "there is no such method" if method not in METHODS else "it is for synchronous rounds"
        raise ChainError(f"a buffered server's participation is not found by {method!r} ({why}): use mean-field")
    wanted = population.separation if separation is None else separation
    question = Asynchronous(
        weights=population.weight,
        separation=np.broadcast_to(np.asarray(wanted, dtype=np.int64), population.weight.shape),
        cooldown_s=population.cooldown_s,
        lengths=lengths_of(scenario, population),
        concurrency=server.concurrency,
        buffer=server.buffer,
        rule=rule or law_of(server),
        rest_from=server.cooldown_from,
        max_staleness=server.max_staleness,
    )
    return asynchronous(question)


def session_kinds(scenario: Scenario, population: Population) -> tuple[Ints, list[Floats]]:
    """Return the kind (N,) of each client's sessions, and their equally likely lengths at speed 1 by kind.

    A kind is a group or, of sessions from work, those of a group that train equally long. A `ChainError` is raised
    where there are too many.
    """
    if scenario.server.uplink is not None:
        raise ChainError("the uploads of a round slow each other (server.uplink)")
    if scenario.server.partial and scenario.losses.keys() & {"late", "dropped"}:
        raise ChainError("sessions that would be cut train less and report that (server.partial)")
    if steps_by_deadline(scenario, population) is not None:
        raise ChainError("each device trains as long as the deadline leaves it time (learning.local_steps)")
    if population.train_s is None:
        return population.group, [session_values(group.session) for group in scenario.population]
    kind, values = np.empty(len(population), dtype=np.int64), list[Floats]()
    for index, group in enumerate(scenario.population):
        members = population.group == index
        lengths, place = np.unique(population.train_s[members], return_inverse=True)
        if len(lengths) > _MOST_KINDS:
            raise ChainError(
                f"devices train for {len(lengths):,} different times, and theory knows up to {_MOST_KINDS}"
            )
        kind[members] = len(values) + place
        values += [session_values(group.session, float(each)) for each in lengths]
    return kind, values


def session_values(session: AnySession, train_s: float = 0.0) -> Floats:
    """Return equally likely lengths of a session at speed 1: quantiles of each phase, in all combinations.

    With work, training takes `train_s`; a `ChainError` says that it goes over two networks.
    """
    if isinstance(session, Work):
        if session.link.work is not None:
            raise ChainError("sessions go over two networks (session.link.work)")
        if "column" in (session.link.down.kind, session.link.up.kind):
            raise ChainError("devices have links of their own (session.link, kind: column)")
        transfers = [(session.link.down, 8 * session.model), (session.link.up, 8 * session.sent)]
        network = [(speed, bits) for speed, bits in transfers if speed.kind != "constant"]
        constant_s = sum(bits / speed.value for speed, bits in transfers if speed.kind == "constant")
        total = np.array([train_s + constant_s])
        for speed, bits in network:
            nodes = _NODES[len(network)]
            times = np.sort(bits / distribution(speed).draw((np.arange(_FINE * nodes) + 0.5) / (_FINE * nodes)))
            total = np.add.outer(total, times.reshape(-1, _FINE).mean(axis=1)).ravel()
        return total
    phases = (session.download, session.train, session.upload)
    drawn = [phase for phase in phases if phase.kind != "constant"]
    total = np.array([sum(phase.value for phase in phases if phase.kind == "constant")])
    for phase in drawn:
        nodes, lengths = _NODES[len(drawn)], distribution(phase)
        quantiles = lengths.draw((np.arange(nodes) + 0.5) / nodes)
        mean = phase.median * np.exp(phase.sigma**2 / 2) if phase.kind == "lognormal" else lengths.mean
        # The outermost quantiles stand for tails; with their mean put right, so is that of the session.
        if quantiles.any():
            quantiles = quantiles * (mean / quantiles.mean())
        total = np.add.outer(total, quantiles).ravel()
    return total
