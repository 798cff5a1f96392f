"""When a device is on an unmetered network: at home or at work, if there is one, and while it does not fail.

On local day D a person is away from home, with the chance of an outing, between the clock times
leave + between_persons z + between_days z_D and back + between_persons z' + between_days z'_D, kept within the day.
On working days the part of it without the commute is spent at work.
"""

import numpy as np

from fedsim.availability.batch import Clients
from fedsim.availability.civil import DAY, Civil
from fedsim.availability.habits.charging import weekends
from fedsim.availability.habits.persons import Draw, chance, deviation, index
from fedsim.common.arrays import Bools, Floats
from fedsim.common.keyed import Stream
from fedsim.scenario.habits import Network


def access(network: Network, clients: Clients, score: Floats, draws: Stream) -> tuple[Bools, Bools]:
    """Say of each person, of such propensity, whether there is an unmetered network at home, and at work."""
    home = draws.uniforms(clients, index(Draw.HOME)) < chance(network.home, network.spread, score)
    work = draws.uniforms(clients, index(Draw.WORK)) < chance(network.work, network.spread, score)
    return home, work


def outings(
    network: Network, clients: Clients, days: Clients, clock: Civil, draws: Stream
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return when persons are away from home, and when at work: starts, ends, starts, ends, each (n, d).

    Parameters as in `charging.sessions`. What does not take place is empty.
    """
    clients = clients[:, None]
    weekend = weekends(days)
    chances = np.where(weekend, network.weekend.chance, network.weekday.chance)
    out = draws.uniforms(clients, index(Draw.OUTING, days)) < chances
    leaves, returns = (
        network.between_persons * deviation(of_person, clients, 0, draws)
        + network.between_days * deviation(of_day, clients, days, draws)
        for of_person, of_day in ((Draw.LEAVE_OF_PERSON, Draw.LEAVE), (Draw.BACK_OF_PERSON, Draw.BACK))
    )
    leave, back, work_since, work_until = outing_times(network, weekend, clock.midnight(days), leaves, returns, clock)
    return leave, np.where(out, back, leave), work_since, np.where(out, work_until, work_since)


def outing_times(
    network: Network, weekend: Bools, midnight: Floats, leaves: Floats, returns: Floats, clock: Civil
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the instants of outings: leaving home, being back, coming to work and leaving it.

    Parameters
    ----------
    network
        The habits.
    weekend, midnight
        Of each day: whether it is a Saturday or Sunday, and the clock time at which it begins.
    leaves, returns
        Deviations in seconds from the usual times of leaving and being back.
    clock
        Civil time around these days.
    """
    free, working = network.weekend, network.weekday
    leave = np.clip(np.where(weekend, free.leave, working.leave) + leaves, 0.0, DAY)
    back = np.maximum(np.clip(np.where(weekend, free.back, working.back) + returns, 0.0, DAY), leave)
    work_until = np.where(weekend, leave, np.maximum(back - network.commute, leave))
    work_since = np.minimum(leave + network.commute, work_until)
    leave, back, work_since, work_until = (
        clock.instant(midnight + time) for time in (leave, back, work_since, work_until)
    )
    return leave, back, work_since, work_until
