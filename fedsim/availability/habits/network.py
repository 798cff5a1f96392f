"""When a device is on an unmetered network: at home or at work, if there is one, and while it does not fail.

On local day D a person is away from home, with the chance of an outing, between the clock times
leave + between_persons z + between_days z_D and back + between_persons z' + between_days z'_D, kept within the day.
On working days the part of it without the commute is spent at work.
"""

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.habits.bursts import Bursts, hourly
from fedsim.availability.habits.charging import weekends
from fedsim.availability.habits.civil import DAY, Civil
from fedsim.availability.habits.persons import Draw, chance, deviation, index
from fedsim.common.keyed import Stream
from fedsim.population.propensity import propensity
from fedsim.scenario.habits import Network

DROP_OUT_AT_MOST = 3600.0
_STEADY = [1.0] * 24


def access(network: Network, clients: NDArray[np.int64], draws: Stream) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Say of each person whether there is an unmetered network at home, and at work."""
    score = propensity(clients, draws)
    home = draws.uniforms(clients, index(Draw.HOME)) < chance(network.home, network.spread, score)
    work = draws.uniforms(clients, index(Draw.WORK)) < chance(network.work, network.spread, score)
    return home, work


def outings(
    network: Network, clients: NDArray[np.int64], days: NDArray[np.int64], clock: Civil, draws: Stream
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return when persons are away from home, and when at work: starts, ends, starts, ends, each (n, d).

    Parameters as in `charging.sessions`. What does not take place is empty.
    """
    clients = clients[:, None]
    weekend = weekends(days)
    free, working = network.weekend, network.weekday
    out = draws.uniforms(clients, index(Draw.OUTING, days)) < np.where(weekend, free.chance, working.chance)
    times = []
    for usual, of_person, of_day in (
        (np.where(weekend, free.leave, working.leave), Draw.LEAVE_OF_PERSON, Draw.LEAVE),
        (np.where(weekend, free.back, working.back), Draw.BACK_OF_PERSON, Draw.BACK),
    ):
        later = network.between_persons * deviation(of_person, clients, 0, draws)
        later = later + network.between_days * deviation(of_day, clients, days, draws)
        times.append(np.clip(usual + later, 0.0, DAY))
    leave, back = times
    back = np.where(out, np.maximum(back, leave), leave)
    midnight = clock.midnight(days)
    work_until = np.where(weekend, leave, np.maximum(back - network.commute, leave))
    work_since = np.minimum(leave + network.commute, work_until)
    return (
        clock.instant(midnight + leave),
        clock.instant(midnight + back),
        clock.instant(midnight + work_since),
        clock.instant(midnight + work_until),
    )


def drop_outs(network: Network) -> Bursts:
    """Return the failures, alike for all persons."""
    rates = hourly(np.array([24.0 * network.drop_outs.per_hour]), _STEADY)
    return Bursts(Draw.DROP_OUT, Draw.DROP_OUT_LENGTH, rates, network.drop_outs.length, DROP_OUT_AT_MOST)
