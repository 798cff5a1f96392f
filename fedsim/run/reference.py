"""The unbiased twin of a run, in which clients are chosen uniformly.

In synchronous rounds the twin is simulated: the same devices, chosen uniformly, without any cool-down. With a buffered
server, fast devices take part more often however they are chosen. There the twin has the run's own sessions, with the
same begin, end and staleness, and gives each to a client drawn uniformly among those without a session, so that who
takes part does not depend on how long it takes.
"""

from dataclasses import replace

import numpy as np
import polars as pl

from fedsim.common.keyed import Stream
from fedsim.log.journal import AnyLog
from fedsim.log.recorder import TemporaryLog
from fedsim.run.federation import PreparedFederation
from fedsim.scenario.component import Choice
from fedsim.simulation import simulate_into
from fedsim.simulation.engine import Simulation

_ATTEMPTS = 32


def unbiased_twin(
    federation: PreparedFederation, log: AnyLog, sink: TemporaryLog | None = None
) -> tuple[pl.DataFrame, pl.DataFrame | pl.LazyFrame]:
    """Return what training reads of the rounds and the participations of the unbiased twin of a run with this log.

    The twin's log is kept in `sink`, by default in memory. With a buffered server that holds its sessions already.
    """
    scenario, population, sink = federation.scenario, federation.population, sink or TemporaryLog()
    if not scenario.server.selects_once:
        return log.rounds, sink.tables()[1]
    # A group is chosen whole in the twin too: choosing clients one by one would also change the noise of training.
    own = scenario.server.selection
    selection = own if own.kind == "groups" else Choice(kind="uniform")
    server = scenario.server.model_copy(update={"selection": selection})
    records = scenario.records.model_copy(update={"gauges": None})
    free = replace(
        population,
        weight=np.full_like(population.weight, 1.0 / len(population)),
        separation=np.zeros_like(population.separation),
        cooldown_s=np.zeros_like(population.cooldown_s),
        most=None,
    )
    twin = scenario.model_copy(update={"server": server, "records": records})
    simulate_into(sink, Simulation(twin, free, federation.replicate))
    return sink.tables()


class UniformClients:
    """Gives sessions to N clients drawn uniformly among those without a session at their begin.

    There are at least as many clients as sessions at a time; `draws` are keyed by the row and the attempt.
    """

    def __init__(self, clients: int, draws: Stream) -> None:
        self._free_s, self._row, self._draws = [-np.inf] * clients, 0, draws

    def reassign(self, part: pl.DataFrame) -> pl.DataFrame:
        """Return the next sessions, in the order of selection, with other clients."""
        free_s, draws, clients = self._free_s, self._draws, len(self._free_s)
        rows = np.arange(self._row, self._row + len(part))
        drawn = (draws.uniforms(rows, 0) * clients).astype(np.int64).tolist()
        begun_s, ended_s = (part[name].to_list() for name in ("selected_s", "ended_s"))
        for place, (client, now_s, until_s) in enumerate(zip(drawn, begun_s, ended_s, strict=True)):
            attempt, chosen = 0, client
            while free_s[chosen] > now_s:
                attempt += 1
                if attempt == _ATTEMPTS:
                    idle = np.flatnonzero(np.array(free_s) <= now_s)
                    chosen = int(idle[int(draws.uniforms(self._row, attempt)[0] * len(idle))])
                else:
                    chosen = int(draws.uniforms(self._row, attempt)[0] * clients)
            free_s[chosen], drawn[place] = until_s, chosen
            self._row += 1
        return part.with_columns(client=pl.Series(drawn, dtype=pl.Int32))
