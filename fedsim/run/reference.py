"""The unbiased twin of a run: its own rounds and sessions, each session given to a client drawn uniformly.

So cohorts are as large as the run's, and who takes part depends on nothing: not on availability, weights, separations
or caps, nor on how long a session takes.
"""

from heapq import heappop, heappush

import numpy as np
import polars as pl

from fedsim.common.keyed import Stream
from fedsim.scenario.server import Server


class UniformClients:
    """Gives sessions to N clients: in a round, to different ones of all or of a whole group, drawn anew in each round.

    With a buffered server, to those without a session at its begin. There are at least as many as sessions at a time;
    `draws` are keyed by the row, and by the round.
    """

    def __init__(self, clients: int, server: Server, draws: Stream) -> None:
        self._draws, self._by_round, self._row = draws, server.selects_once, 0
        # A group is chosen whole in the twin too: choosing clients one by one would also change the noise of training.
        self._pool = server.block if server.block > 1 else clients
        self._groups = clients // self._pool
        # Who is idle: the first so many of a permutation, of which the places that have changed are held.
        self._idle, self._held, self._running = self._pool, dict[int, int](), list[tuple[float, int]]()

    def reassign(self, part: pl.DataFrame) -> pl.DataFrame:
        """Return the next sessions, in the order of selection, with other clients."""
        rounds, rows = part["round"].to_numpy().astype(np.int64), np.arange(self._row, self._row + len(part))
        sessions = part["selected_s"].to_numpy(), part["ended_s"].to_numpy()
        begun, ended = (rounds, rounds + 1) if self._by_round else sessions
        held, running, chosen = self._held, self._running, list[int]()
        spans = zip(begun.tolist(), ended.tolist(), strict=True)
        for draw, (now, until) in zip(self._draws.uniforms(rows, 0).tolist(), spans, strict=True):
            while running and running[0][0] <= now:
                _, held[self._idle] = heappop(running)
                self._idle += 1
            place = int(draw * self._idle)
            self._idle -= 1
            chosen.append(held.get(place, place))
            held[place] = held.get(self._idle, self._idle)
            heappush(running, (until, chosen[-1]))
        self._row += len(part)
        group = (self._draws.uniforms(rounds, 1) * self._groups).astype(np.int64)
        clients = np.array(chosen, dtype=np.int64) + group * self._pool
        return part.with_columns(client=pl.Series(clients.astype(np.int32)))
