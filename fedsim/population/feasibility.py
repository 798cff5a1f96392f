"""Whether a population can fill its rounds at all, found before anything is simulated."""

import numpy as np

from fedsim.common.errors import KeyPath, Mistake
from fedsim.population.columns import Population
from fedsim.scenario import Scenario
from fedsim.scenario.server import BufferedServer


def check_feasible(scenario: Scenario, population: Population) -> list[Mistake]:
    """Return the mistakes that make it certain that a round can never be filled.

    With ``shortage: wait`` the separation passes only as rounds do. Each round takes `wanted` clients out for R rounds,
    so R + 1 rounds need (R + 1) * wanted different clients; with per-client R_i a client can take part at most once in
    R_i + 1 rounds, so sum_i 1 / (R_i + 1) must reach `wanted`.
    """
    server = scenario.server
    if not server.selects_once:
        return _check_buffered(scenario, server, population)
    clients, wanted = len(population), server.wanted
    mistakes = []
    if server.selection.kind == "groups":
        mistakes += _check_groups(scenario, population)
    if wanted > clients and server.shortage != "proceed":
        chosen = f"{wanted:,}" if wanted == server.cohort else f"{wanted:,} (cohort {server.cohort:,}, over-selected)"
        message = f"a round wants {chosen} clients, but the population has {clients:,}"
        mistakes.append(scenario.mistake(("server", "cohort"), message))
    # Where only reports start a cool-down, drop-outs can leave enough clients free: that is not certain beforehand.
    certain = server.cooldown_from == "selected" or scenario.always_available
    if mistakes or server.shortage != "wait" or not certain:
        return mistakes
    mistakes = _check_caps(scenario, population, wanted)
    supply = _supply(population)
    if mistakes or supply >= wanted * (1 - 1e-12):
        return mistakes
    common = population.common_separation
    if common is not None:
        limit = clients // wanted - 1
        message = (
            f"separation {common} can never be kept: with {wanted} of {clients:,} clients in each round, nobody "
            f"would be left after {limit + 1} rounds; the largest that works is {limit}"
        )
    else:
        message = (
            f"the separations can never be kept: together the clients can take part {supply:.6g} times a round at "
            f"most, and a round wants {wanted}; the largest cohort that works is {int(supply + 1e-9)}"
        )
    return [scenario.mistake(_longest(population), message)]


def _check_caps(scenario: Scenario, population: Population, wanted: int) -> list[Mistake]:
    """Return a mistake if the caps on participations allow fewer of them than the rounds select."""
    rounds = scenario.stop.rounds if scenario.stop.duration is None else None
    counted = scenario.server.cooldown_from == "selected" and scenario.server.fixed_size
    if population.most is None or rounds is None or not counted:
        return []
    possible = int(population.at_most(rounds).sum())
    if possible >= wanted * rounds:
        return []
    message = (
        f"the clients can take part {possible:,} times in all, with their caps and separations, and {rounds:,} rounds "
        f"select {wanted * rounds:,}; the most rounds that work are {possible // wanted:,}"
    )
    first = next(i for i, group in enumerate(scenario.population) if group.participations is not None)
    return [scenario.mistake(("population", first, "participations", "most"), message)]


def _supply(population: Population) -> float:
    """Return how many participations, or reports, all clients can give in a round or a version."""
    return float((1.0 / (population.separation + 1.0)).sum())


def _longest(population: Population) -> KeyPath:
    """Return the path of the longest separation."""
    return ("population", int(population.group[population.separation.argmax()]), "separation")


def _check_groups(scenario: Scenario, population: Population) -> list[Mistake]:
    clients, cohort = len(population), scenario.sync_server.cohort
    path = ("server", "selection")
    if clients % cohort:
        message = (
            f"selection by groups cuts {clients:,} clients into groups of {cohort}, which leaves {clients % cohort}"
        )
        return [scenario.mistake(path, f"{message}; make the population a multiple of the cohort")]
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


def _check_buffered(scenario: Scenario, server: BufferedServer, population: Population) -> list[Mistake]:
    """Return the mistakes that make it certain that the server cannot go on stepping.

    A report that is taken keeps its client out for R_i versions, so a client gives one in R_i + 1 versions at most, and
    sum_i 1 / (R_i + 1) must reach `buffer`, whatever else happens.
    """
    mistakes = []
    if scenario.theory.convergence is not None:
        message = "the study of convergence is about synchronous rounds, and this server is buffered"
        mistakes.append(scenario.mistake(("theory", "convergence"), message))
    clients, buffer, supply = len(population), server.buffer, _supply(population)
    if supply >= buffer * (1 - 1e-12):
        return mistakes
    common, path = population.common_separation, _longest(population)
    if buffer > clients:
        path = ("server", "buffer")
        message = (
            f"a step takes {buffer:,} reports, a client gives one in each version at most, and the population has "
            f"{clients:,} clients"
        )
    elif common is not None:
        message = (
            f"separation {common} can never be kept: with a step after every {buffer:,} reports of {clients:,} "
            f"clients, everybody would be waiting after {clients // buffer} versions; the largest that works is "
            f"{clients // buffer - 1}"
        )
    else:
        message = (
            f"the separations can never be kept: together the clients can give {supply:.6g} reports in each version at "
            f"most, and a step takes {buffer:,}; the largest buffer that works is {int(supply + 1e-9)}"
        )
    return [*mistakes, scenario.mistake(path, message)]
