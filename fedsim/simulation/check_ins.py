"""When devices are connected to a server at which they check in: at times of their own, for a while each."""

from dataclasses import dataclass

import numpy as np

from fedsim.availability.batch import Spells
from fedsim.common.arrays import Bools, Ints
from fedsim.common.instants import to_ms
from fedsim.common.keyed import Purpose, stream
from fedsim.scenario import Scenario


@dataclass(frozen=True)
class Connections:
    """Device i comes at phase_i + k * every, for each whole k, and stays for a window; all in ms."""

    phase: Ints  # (N,) from 0 to every - 1
    every: int
    window: int

    def at(self, clients: Ints, instant: int) -> Bools:
        """Say of each of the clients whether it is connected."""
        return (instant - self.phase[clients]) % self.every < self.window

    def cut(self, clients: Ints, spells: Spells, since: int, until: int) -> Spells:
        """Return the parts within [since, until) of spells of some clients in which they are connected."""
        starts, ends = np.maximum(spells.starts, since), np.minimum(spells.ends, until)
        phase = self.phase[clients[spells.who]]
        first, last = (starts - phase) // self.every, (ends - 1 - phase) // self.every
        count = np.maximum(last - first + 1, 0)
        spell = np.repeat(np.arange(len(starts)), count)
        number = np.arange(len(spell)) - np.repeat(np.cumsum(count) - count, count) + first[spell]
        comes = phase[spell] + number * self.every
        begins, goes = np.maximum(starts[spell], comes), np.minimum(ends[spell], comes + self.window)
        kept = begins < goes
        return Spells(spells.who[spell][kept], begins[kept], goes[kept])


def connections_of(scenario: Scenario, clients: int, replicate: int) -> Connections | None:
    """Return when the clients are connected; None where the server sees all of them at any time."""
    asked = scenario.server.check_ins
    if asked is None:
        return None
    draws, every = stream(scenario.seed, replicate, Purpose.CHECK_IN), to_ms(asked.every)
    phase = (draws.uniforms(np.arange(clients), 0) * every).astype(np.int64)
    return Connections(phase, every, to_ms(asked.window))
