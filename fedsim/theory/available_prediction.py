"""What the mean field of devices that come and go says of a scenario: from their availability, not from who took part.

It is told when rounds selected, and how many, and reads from the availability models who was there then and stayed for
a session.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.availability.cells import cells
from fedsim.availability.shocks import availability_of
from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import ChainError
from fedsim.common.instants import FOREVER, each_to_ms, to_ms
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.scenario.server import BufferedServer, SyncServer
from fedsim.selection.laws import law_of, theory_of
from fedsim.theory.available import LAWS, Selections, expected_reports
from fedsim.theory.buffered_prediction import session_values
from fedsim.theory.prediction import cap_binds

MOST_BYTES = 1 << 28
"""One byte for each device and round that is looked at."""
_AT_ONCE = 1 << 22
_LENGTHS = 16
_SURE = 255
_DAY_S = 86_400.0


def available_participation(
    scenario: Scenario, population: Population, rounds: pl.DataFrame, replicate: int = 0
) -> Floats:
    """Return each device's share of the reports that the mean field expects, (N,), sum 1.

    Of long runs of many devices the first rounds are taken, 2^28 / N of them, but not less than a day's.

    Parameters
    ----------
    scenario, population, replicate
        What was simulated.
    rounds
        The table of rounds: ``round``, ``selected_s`` and ``selected`` are read.

    Raises
    ------
    ChainError
        If it does not know of something in the scenario, no report is to be expected, or a day's rounds are too many.
    """
    server, unknown = scenario.server, why_not(scenario, population)
    if unknown or isinstance(server, BufferedServer):
        raise ChainError(f"the mean field of devices that come and go does not know of {unknown}")
    began = rounds.filter(pl.col("selected_s").is_not_null() & (pl.col("selected") > 0)).sort("round")
    most = MOST_BYTES // len(population)
    if len(began) > most:
        days = (began["selected_s"].head(most).to_numpy()[[0, -1]] if most else np.zeros(2)) / _DAY_S
        if days[1] - days[0] < 1.0:
            raise ChainError(
                f"the mean field of devices that come and go can look at {most:,} rounds of {len(population):,} "
                "devices, which are less than a day"
            )
        began = began.head(most)
    sizes = began["selected"].to_numpy().astype(np.int64)
    if not server.fixed_size:
        sizes = np.full(len(sizes), server.wanted)
    instants = began["selected_s"].to_numpy().astype(np.float64)
    codes = _codes(scenario, server, population, each_to_ms(instants), replicate)

    def reporting(place: int) -> tuple[NDArray[np.intp], Floats]:
        who = np.flatnonzero(codes[place])
        return who, (codes[place, who] - 1.0) / (_SURE - 1)

    selections = Selections(began["round"].to_numpy().astype(np.int64), instants, sizes)
    expected = expected_reports(
        population.weight, population.separation, population.cooldown_s, law_of(server), selections, reporting
    )
    if not expected.any():
        raise ChainError("the mean field of devices that come and go expects no report of anybody")
    return np.asarray(expected / expected.sum())


def why_not(scenario: Scenario, population: Population) -> str | None:
    """Say what in a scenario the mean field does not know of; None where it knows of everything."""
    server = scenario.server
    if isinstance(server, BufferedServer):
        return "a buffered server; it is for synchronous rounds"
    law, rests = theory_of(server.selection), bool(population.separation.any() or population.cooldown_s.any())
    if law not in LAWS:
        return f"the selection law {server.selection.kind!r}; it knows {', '.join(LAWS)}"
    if server.wanted > server.cohort:
        return "server.over_select above 1, where the slowest reports are not taken"
    if server.cooldown_from == "reported" and rests:
        return "cool-downs that only a report starts (server.cooldown_from)"
    return "a cap on participations that can be reached" if cap_binds(scenario, population) else None


def _codes(
    scenario: Scenario, server: SyncServer, population: Population, instants: Ints, replicate: int
) -> NDArray[np.uint8]:
    """Return for each instant and device 0 where it is not available, else 1 + 254 times the chance that it reports."""
    size, rounds = len(population), len(instants)
    codes = np.zeros((rounds, size), dtype=np.uint8)
    lengths = _lengths(scenario)[population.group]
    limit = FOREVER if server.deadline is None else to_ms(server.deadline)
    place = cells(scenario, population)
    step = max(1, _AT_ONCE // (rounds + 1))
    for first in range(0, size if rounds else 0, step):
        clients = np.arange(first, min(first + step, size))
        taken = each_to_ms(lengths[clients] / population.speed[clients, None])
        until = int(instants[-1]) + min(int(taken.max()), limit) + 1
        spells = availability_of(scenario, place, replicate).spells(clients, int(instants[0]), until)
        begins, ends = (np.searchsorted(instants, each, side="left") for each in (spells.starts, spells.ends))
        there = _covered(spells.who, begins, ends, len(clients), rounds)
        reports = np.zeros(there.shape)
        for number in range(taken.shape[1]):
            session = taken[spells.who, number]
            last = np.searchsorted(instants, spells.ends - session, side="right")
            stays = np.where(session <= limit, np.clip(last, begins, ends), begins)
            reports += _covered(spells.who, begins, stays, len(clients), rounds)
        share = np.rint((_SURE - 1) * reports / taken.shape[1])
        codes[:, clients] = np.where(there > 0, 1 + share, 0).astype(np.uint8).T
    return codes


def _covered(
    who: NDArray[np.intp], begins: NDArray[np.intp], ends: NDArray[np.intp], clients: int, instants: int
) -> NDArray[np.int32]:
    """Return in how many of the ranges [begins, ends) of each client every instant lies, shape (clients, instants)."""
    steps = np.zeros((clients, instants + 1), dtype=np.int32)
    np.add.at(steps, (who, begins), 1)
    np.add.at(steps, (who, ends), -1)
    return np.cumsum(steps, axis=1, dtype=np.int32)[:, :instants]


def _lengths(scenario: Scenario) -> Floats:
    """Return equally likely lengths of a session at speed 1, (groups, n)."""
    values = [session_values(group.session) for group in scenario.population]
    if all(len(each) == 1 for each in values):
        return np.array(values)
    middles = (np.arange(_LENGTHS) + 0.5) / _LENGTHS
    return np.array([np.quantile(each, middles) for each in values])
