"""Short events at any time: screen uses, failures of the network.

Time is cut into slots of five minutes of UTC, which every zone's hours begin with one of. In each slot at most one
event begins, with probability 1 - exp(-rate x 5 min), where the rate is that of the local hour in which the slot
begins; the instant is uniform in the slot. So a day of 25 hours has its 25 hours of events, and what happens at an
instant is found from the few slots before it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsim.availability import lengths
from fedsim.availability.habits.civil import DAY, Civil
from fedsim.availability.habits.persons import Draw, index
from fedsim.common.keyed import Stream

SLOT = 300.0
PER_DAY = int(DAY / SLOT)


@dataclass(frozen=True, eq=False)
class Bursts:
    """A kind of event.

    Attributes
    ----------
    begin, last
        Keys of the draws that say whether and when one begins, and how long it lasts.
    rates
        (n, 24) or (1, 24) events per second of each person, or of all, in each local hour.
    law, longest
        Law of the lengths, which are cut at `longest`.
    after
        Added to each length.
    """

    begin: Draw
    last: Draw
    rates: NDArray[np.float64]
    law: lengths.Law
    longest: float
    after: float = 0.0


def events(
    bursts: Bursts, clients: NDArray[np.int64], since: float, until: float, clock: Civil, draws: Stream
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
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
    chances = np.broadcast_to(-np.expm1(-bursts.rates * SLOT), (len(clients), 24))[:, hours]
    lots = draws.uniforms(clients[:, None], index(bursts.begin, keys))
    who, which = np.nonzero(lots < chances)
    starts = begins[which] + SLOT * (lots[who, which] / chances[who, which])
    u = draws.uniforms(clients[who], index(bursts.last, keys[which]))
    ends = starts + (np.minimum(lengths.lengths(bursts.law, u), bursts.longest) + bursts.after)
    return who, starts, ends


def happens(
    bursts: Bursts, clients: NDArray[np.int64], instant: float, clock: Civil, draws: Stream
) -> NDArray[np.bool_]:
    """Say of each device whether an event is going on at an instant."""
    who, starts, ends = events(bursts, clients, instant, instant, clock, draws)
    going = np.zeros(len(clients), dtype=np.bool_)
    going[who[(starts <= instant) & (instant < ends)]] = True
    return going


def hourly(per_day: NDArray[np.float64], weights: list[float]) -> NDArray[np.float64]:
    """Return rates per second (n, 24) of so many events (n,) a day, by relative weights of the hours."""
    shares = np.array(weights) / sum(weights)
    return per_day[:, None] * shares / 3600.0
