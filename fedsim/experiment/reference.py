"""What unbiased participation would have given: the twin of a run in which clients are chosen uniformly.

In synchronous rounds the twin is simulated: the same devices, chosen uniformly, without any cool-down. With a buffered
server that would not do, since fast devices take part more often than slow ones however they are chosen. There the twin
has the sessions of the run itself, begun and ended at the same instants with the same staleness, and gives each to a
client drawn uniformly among those who are in none: who takes part has nothing to do with how long it takes.
"""

from dataclasses import replace

import numpy as np
import polars as pl

from fedsim.common.keyed import Purpose, Stream, stream
from fedsim.log import Recorded
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.scenario.server import BufferedServer, Selection
from fedsim.simulation import simulate_log

_ATTEMPTS = 32


def unbiased(
    scenario: Scenario, population: Population, log: Recorded, replicate: int
) -> tuple[pl.DataFrame, pl.DataFrame | pl.LazyFrame]:
    """Return the rounds and the participations of a run's unbiased twin.

    Parameters
    ----------
    scenario, population, replicate
        What was run.
    log
        What came of it.
    """
    if isinstance(scenario.server, BufferedServer):
        draws = stream(scenario.seed, replicate, Purpose.REFERENCE)
        return log.rounds, uniform_clients(log.participations.lazy().collect(), len(population), draws)
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
    twin = simulate_log(scenario.model_copy(update={"server": server, "records": records}), free, replicate)
    return twin.rounds, twin.participations


def uniform_clients(participations: pl.DataFrame, clients: int, draws: Stream) -> pl.DataFrame:
    """Return the same sessions, each of a client drawn uniformly among those who are in none when it begins.

    Parameters
    ----------
    participations
        In the order of selection.
    clients
        N, at least as many as there are sessions at a time.
    draws
        Keyed by the row and the attempt.
    """
    rows = np.arange(len(participations))
    proposed = (draws.uniforms(rows, 0) * clients).astype(np.int64).tolist() if len(rows) else []
    begun_s, ended_s = (participations[name].to_numpy().tolist() for name in ("selected_s", "ended_s"))
    free_s = [-np.inf] * clients
    for row, client in enumerate(proposed):
        attempt, chosen = 0, client
        while free_s[chosen] > begun_s[row]:
            attempt += 1
            if attempt == _ATTEMPTS:
                idle = np.flatnonzero(np.array(free_s) <= begun_s[row])
                chosen = int(idle[int(draws.uniforms(row, attempt)[0] * len(idle))])
            else:
                chosen = int(draws.uniforms(row, attempt)[0] * clients)
        free_s[chosen], proposed[row] = ended_s[row], chosen
    return participations.with_columns(client=pl.Series(proposed, dtype=pl.Int64))
