"""Whether a population can fill its rounds at all, found before anything is simulated."""

import math
from typing import NamedTuple

import numpy as np

from fedsim.common.errors import KeyPath, Mistake
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.population.quantities import Population
from fedsim.scenario import Scenario
from fedsim.scenario.units import format_duration
from fedsim.scenario.work import Work

_CERTAIN = 6.0  # standard deviations of how many clients random cohorts have together
_TRIED = 32  # numbers of rounds for which participations are counted


class Shortage(NamedTuple):
    """The first of the numbers of rounds tried in which clients cannot take part as often as these rounds need."""

    rounds: int
    possible: int  # participations that separations and caps allow in them
    needed: int


class _Need(NamedTuple):
    """How many clients each round surely keeps out afterwards, and how many can start one."""

    kept: int
    least: int


def check_feasible(scenario: Scenario, population: Population) -> list[Mistake]:
    """Return the mistakes that make it certain that a round can never be filled."""
    server, mistakes = scenario.server, _check_joins(scenario, population)
    clients = len(population) - len(population.barred)
    if not server.selects_once and scenario.theory.convergence is not None:
        message = "the study of convergence is about synchronous rounds, and this server is buffered"
        mistakes.append(scenario.mistake(("theory", "convergence"), message))
    if server.selection.kind == "groups":
        mistakes += _check_groups(scenario, population)
    if server.selects_once and server.least > clients:
        wanted, cohort = server.wanted, server.cohort
        chosen = f"{wanted:,}" if wanted == cohort else f"{wanted:,} (cohort {cohort:,}, over-selected)"
        message = f"a round wants {chosen} clients, but the population has {clients:,}"
        message += " that may take part" * bool(len(population.barred))
        return [*mistakes, scenario.mistake(("server", "cohort"), message)]
    short = shortage(scenario, population)
    if not mistakes and short is not None and short.rounds <= _sure_rounds(scenario, population):
        mistakes.append(_shortage_mistake(scenario, population, short))
    return mistakes


def _check_joins(scenario: Scenario, population: Population) -> list[Mistake]:
    """Return the groups of which every device joins only when the run is over."""
    run_s = scenario.stop.most_s
    if population.joins is None or run_s == math.inf:
        return []
    late = set(range(len(population.group_names))) - set(population.group[population.joins < 1000 * run_s].tolist())
    message = f"every device of the group joins after the end of the run ({format_duration(run_s)})"
    message += ": nobody can be selected"
    return [scenario.mistake(("population", index, "joins"), message) for index in sorted(late)]


def shortage(scenario: Scenario, population: Population) -> Shortage | None:
    """Return what keeps a run from filling its rounds or versions for certain, if it gets so far; None for nothing.

    While rounds wait, separations pass only as rounds do. In t rounds client i can take part ceil(t / (R_i + 1)) times,
    or as often as its cap allows; all rounds but the last keep as many out as they select (or as report), and the last
    one needs as many as it can start with.
    """
    server, need, horizon = scenario.server, _need(scenario), min(scenario.stop.most_rounds, 1 << 60)
    if server.shortage == "proceed" and scenario.always_available and server.fixed_size:
        # Each round takes as many as it can get, so that all are out after some rounds.
        together = -(-len(population) // server.wanted)
        if server.cooldown_from == "selected" and together < min(int(population.separation.min()) + 1, horizon):
            return Shortage(together + 1, len(population), len(population) + 1)
    supply = float((1.0 / (population.separation + 1.0)).sum())
    if not need.kept or (population.most is None and need.kept == need.least and supply >= need.kept * (1 - 1e-12)):
        return None
    lasting = np.unique(population.separation) + 1
    tried = [*lasting[:: len(lasting) // _TRIED + 1].tolist(), (len(population) - need.least) // need.kept + 2]
    if supply < need.kept * (1 - 1e-12):
        spread = 0.0 if server.fixed_size else _CERTAIN * math.sqrt(need.least)
        gap = need.kept - supply
        tried.append(math.ceil(max(4 * (len(population) + need.least) / gap, (2 * spread / gap) ** 2)))
    if scenario.stop.most_rounds < math.inf:
        tried.append(int(horizon))
    for rounds in sorted(each for each in tried if each <= horizon):
        needed = need.kept * (rounds - 1) + need.least
        if not server.fixed_size:
            needed -= math.ceil(_CERTAIN * math.sqrt(server.wanted * rounds))
        possible = int(population.at_most(rounds).sum())
        if possible < needed:
            return Shortage(rounds, possible, needed)
    return None


def _need(scenario: Scenario) -> _Need:
    server = scenario.server
    if not server.selects_once:
        # A report that is taken keeps its client out for R_i versions, whatever else happens.
        return _Need(server.buffer, server.buffer)
    if server.shortage == "skip":
        return _Need(0, server.least)
    if server.cooldown_from == "selected":
        return _Need(server.least, server.least)
    # Sessions that drop out or are late keep nobody out.
    surely = not any(SESSION_OUTCOMES[outcome].by_device for outcome in scenario.losses)
    return _Need(min(server.cohort, server.least) if surely else 0, server.least)


def _sure_rounds(scenario: Scenario, population: Population) -> float:
    """Return how many rounds the run surely has if separations and caps let it: none, where devices come and go."""
    server, sure = scenario.server, scenario.always_available and scenario.server.selects_once
    longest = 0.0 if sure else math.inf
    for index, group in enumerate(scenario.population):
        if isinstance(group.session, Work):
            longest = math.inf
            continue
        phases = (group.session.download, group.session.train, group.session.upload)
        length_s = sum(each.value if each.kind == "constant" else math.inf for each in phases)
        longest = max(longest, length_s / float(population.speed[population.group == index].min()))
    # A round may wait for cool-downs by the clock, and for late sessions.
    longest += server.pause + float(population.cooldown_s.max())
    return scenario.stop.sure_rounds(longest, server.wanted if server.fixed_size else len(population))


def _shortage_mistake(scenario: Scenario, population: Population, short: Shortage) -> Mistake:
    server, clients, common, need = scenario.server, len(population), population.common_separation, _need(scenario)
    path: KeyPath = ("population", int(population.group[population.separation.argmax()]), "separation")
    if population.most is not None:
        caps = [i for i, group in enumerate(scenario.population) if group.participations is not None]
        path = ("population", caps[0], "participations", "most") if caps else ("population",)
    elif not server.selects_once and need.kept > clients:
        message = f"a step takes {need.kept:,} reports, a client gives one in each version at most"
        return scenario.mistake(("server", "buffer"), f"{message}, and the population has {clients:,} clients")
    elif common is not None:
        most = (clients - need.least) // need.kept
        each = f"{server.wanted:,} of {clients:,} clients in each round"
        if not server.selects_once:
            each = f"a step after every {need.kept:,} reports of {clients:,} clients"
        elif server.shortage == "proceed":
            most = min(most, short.rounds - 2)
        left = max(0, clients - (most + 1) * max(need.kept, server.wanted * (server.shortage == "proceed")))
        message = (
            f"separation {common} can never be kept: with {each}, {f'only {left:,}' if left else 'nobody'} would be "
            f"left after {most + 1} {server.noun}s; the largest that works is {most}"
        )
        return scenario.mistake(path, message)
    message = (
        f"the clients can take part {short.possible:,} times in all, with their caps and separations, and "
        f"{short.rounds:,} {server.noun}s need {short.needed:,}; the most {server.noun}s that work are "
        f"{short.possible // need.least:,}"
    )
    return scenario.mistake(path, message)


def _check_groups(scenario: Scenario, population: Population) -> list[Mistake]:
    clients, cohort = len(population), scenario.sync_server.cohort
    path = ("server", "selection")
    if clients % cohort:
        message = f"selection by groups cuts {clients:,} clients into groups of {cohort}"
        remedy = "make the population a multiple of the cohort"
        return [scenario.mistake(path, f"{message}, which leaves {clients % cohort}; {remedy}")]
    columns = {"separations": population.separation, "caps on participations": population.most}
    for name, column in columns.items():
        if column is None:
            continue
        blocks = column.reshape(-1, cohort)
        mixed = np.flatnonzero((blocks != blocks[:, :1]).any(axis=1))
        if mixed.size:
            message = f"the members of selection group {int(mixed[0])} have different {name}; they must share one"
            return [scenario.mistake(path, message)]
    return []
