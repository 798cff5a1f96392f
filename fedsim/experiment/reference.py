"""What unbiased participation would have given: the twin of a run in which clients are chosen uniformly.

In synchronous rounds the twin is simulated: the same devices, chosen uniformly, without any cool-down. With a buffered
server that would not do, since fast devices take part more often than slow ones however they are chosen. There the twin
has the sessions of the run itself, begun and ended at the same instants with the same staleness, and gives each to a
client drawn uniformly among those who are in none: who takes part has nothing to do with how long it takes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.common.row_groups import slices
from fedsim.log import Recorded
from fedsim.log.spill import Spill
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.scenario.server import BufferedServer, Selection
from fedsim.simulation import simulate_into

_ATTEMPTS = 32
_OF_SESSIONS = ("round", "position", "selected_s", "ended_s", "outcome", "staleness")


def unbiased(
    scenario: Scenario, population: Population, log: Recorded, replicate: int, spill: Spill | None = None
) -> tuple[pl.DataFrame, pl.DataFrame | pl.LazyFrame]:
    """Return what training reads of the rounds and the participations of a run's unbiased twin.

    Parameters
    ----------
    scenario, population, replicate
        What was run.
    log
        What came of it.
    spill
        Where the twin's log is kept; in memory by default.
    """
    spill = spill or Spill()
    if isinstance(scenario.server, BufferedServer):
        draws = stream(scenario.seed, replicate, Purpose.REFERENCE)
        sessions = slices(log.participations, *_OF_SESSIONS)
        for part in uniform_clients(sessions, len(population), draws):
            spill.add(log.rounds.clear(), part)
        return log.rounds, spill.tables()[1]
    # A group is chosen whole in the twin too: choosing clients one by one would also change the noise of training.
    own = scenario.server.selection
    selection = own if own.kind == "groups" else Selection(kind="uniform")
    server = scenario.server.model_copy(update={"selection": selection})
    records = scenario.records.model_copy(update={"gauges": None})
    free = replace(
        population,
        weight=np.full_like(population.weight, 1.0 / len(population)),
        separation=np.zeros_like(population.separation),
        cooldown_s=np.zeros_like(population.cooldown_s),
        most=None,
    )
    simulate_into(spill, scenario.model_copy(update={"server": server, "records": records}), free, replicate)
    return spill.tables()


def uniform_clients(participations: Iterable[pl.DataFrame], clients: int, draws: Stream) -> Iterator[pl.DataFrame]:
    """Yield the same sessions, each of a client drawn uniformly among those who are in none when it begins.

    Parameters
    ----------
    participations
        In the order of selection, some rows at a time.
    clients
        N, at least as many as there are sessions at a time.
    draws
        Keyed by the row and the attempt.
    """
    free_s, row = [-np.inf] * clients, 0
    for part in participations:
        drawn = (draws.uniforms(np.arange(row, row + len(part)), 0) * clients).astype(np.int64).tolist()
        begun_s, ended_s = (part[name].to_list() for name in ("selected_s", "ended_s"))
        for place, (client, now_s, until_s) in enumerate(zip(drawn, begun_s, ended_s, strict=True)):
            attempt, chosen = 0, client
            while free_s[chosen] > now_s:
                attempt += 1
                if attempt == _ATTEMPTS:
                    idle = np.flatnonzero(np.array(free_s) <= now_s)
                    chosen = int(idle[int(draws.uniforms(row, attempt)[0] * len(idle))])
                else:
                    chosen = int(draws.uniforms(row, attempt)[0] * clients)
            free_s[chosen], drawn[place] = until_s, chosen
            row += 1
        yield part.with_columns(client=pl.Series(drawn, dtype=pl.Int32))
