"""Short events at any time: screen uses, failures of the network.

Time is cut into slots of five minutes of UTC, which every zone's hours begin with one of. In each slot at most one
event begins, with probability 1 - exp(-rate x 5 min), where the rate is that of the local hour in which the slot
begins; the instant is uniform in the slot. So a day of 25 hours has its 25 hours of events, and what happens at an
instant is found from the few slots before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Clients
from fedsim.availability.civil import DAY, Civil
from fedsim.availability.habits.persons import Draw, index
from fedsim.common.arrays import Bits, Floats, Ints
from fedsim.common.keyed import Stream, mixed_index
from fedsim.population.distributions import Distribution, distribution
from fedsim.population.members import propensity
from fedsim.scenario.habits import Idle, Network

SLOT = 300.0
USE_AT_MOST = DROP_OUT_AT_MOST = 3600.0
PER_DAY = int(DAY / SLOT)


@dataclass(frozen=True)
class Bursts:
    """A kind of event.

    Attributes
    ----------
    begin, last
        Keys of the draws that say whether and when one begins, and how long it lasts.
    per_day
        Events on a day of 24 hours, on average over all persons.
    by_hour
        Relative weights of the hours.
    law, longest
        Law of the lengths, which are cut at `longest`.
    after
        Added to each length.
    spread
        How much persons differ, by their propensity; None where all are alike.
    """

    begin: Draw
    last: Draw
    per_day: float
    by_hour: Sequence[float]
    law: Distribution
    longest: float
    after: float = 0.0
    spread: float | None = None

    @property
    def shares(self) -> Floats:
        """(24,) share of each local hour."""
        return np.array(self.by_hour) / sum(self.by_hour)

    def of_person(self, score: Floats) -> Floats:
        """Return events a day of persons of such propensity."""
        assert self.spread is not None, "all are alike"
        return self.per_day * np.exp(-self.spread * score - self.spread**2 / 2)

    def ends(self, starts: Floats, u: Floats) -> Floats:
        """Return when events end, from the uniform draws of their lengths."""
        return starts + (np.minimum(self.law.draw(u), self.longest) + self.after)


def drop_outs(network: Network) -> Bursts:
    """Return the failures of the network, alike for all persons."""
    law, rate = distribution(network.drop_outs.length), 24.0 * network.drop_outs.per_hour
    return Bursts(Draw.DROP_OUT, Draw.DROP_OUT_LENGTH, rate, (1.0,) * 24, law, DROP_OUT_AT_MOST)


def uses(idle: Idle) -> Bursts:
    """Return the screen uses, each with the time after it, `settle`, in which the device is not yet idle.

    A person uses the screen uses_per_day exp(-spread z - spread^2 / 2) times in a day of 24 hours, z being their
    propensity, at a rate that follows the hourly weights of the local clock.
    """
    law, settle, spread = distribution(idle.use), idle.settle, idle.spread
    return Bursts(Draw.USE, Draw.USE_LENGTH, idle.uses_per_day, tuple(idle.by_hour), law, USE_AT_MOST, settle, spread)


class Slots(NamedTuple):
    """Consecutive slots of five minutes.

    Attributes
    ----------
    first
        Number of the first, counted from the day in which simulated time begins.
    begin, length
        (m,) their parts of the keys of whether and when an event begins, and of how long it lasts.
    begins
        (m,) instants at which they begin.
    hours
        (m,) local hour in which each begins.
    """

    first: int
    begin: Bits
    length: Bits
    begins: Floats
    hours: Ints


def slots_between(begin: Draw, length: Draw, first: int, last: int, clock: Civil) -> Slots:
    """Return the slots from the first to the last, both included; what a day's keys are for says `Bursts`."""
    slots = np.arange(first, last + 1)
    begins = np.asarray(slots * SLOT - clock.begun, dtype=np.float64)
    keys = slots + clock.first_day * PER_DAY
    hours = (clock.wall(begins) // 3600.0).astype(np.int64) % 24
    return Slots(first, mixed_index(index(begin, keys)), mixed_index(index(length, keys)), begins, hours)


def events(
    bursts: Bursts, clients: Clients, since: float, until: float, clock: Civil, draws: Stream
) -> tuple[NDArray[np.intp], Floats, Floats]:
    """Return all events of some devices that may touch [since, until].

    Returns
    -------
    Which of the clients (m,), starts (m,) and ends (m,), in no particular order, with some outside.
    """
    reach = bursts.longest + bursts.after
    first = int((since - reach + clock.begun) // SLOT)
    slots = np.arange(first, int((until + clock.begun) // SLOT) + 1)
    begins = slots * SLOT - clock.begun
    hours = (clock.wall(begins) // 3600.0).astype(np.int64) % 24
    keys = slots + clock.first_day * PER_DAY
    per_day = np.array([bursts.per_day]) if bursts.spread is None else bursts.of_person(propensity(clients, draws))
    rates = per_day[:, None] * bursts.shares / 3600.0
    chances = np.broadcast_to(-np.expm1(-rates * SLOT), (len(clients), 24))[:, hours]
    lots = draws.uniforms(clients[:, None], index(bursts.begin, keys))
    who, which = np.nonzero(lots < chances)
    starts = begins[which] + SLOT * (lots[who, which] / chances[who, which])
    u = draws.uniforms(clients[who], index(bursts.last, keys[which]))
    return who, starts, bursts.ends(starts, u)
