"""What belongs to the persons behind devices and stays the same from day to day, worked out when they are met."""

import numpy as np

from fedsim.availability.batch import Clients
from fedsim.availability.habits.bursts import uses
from fedsim.availability.habits.charging import TOP_UPS
from fedsim.availability.habits.network import access
from fedsim.availability.habits.persons import (
    AT_HOME,
    AT_WORK,
    COLUMNS,
    LATER,
    LEAVES,
    LONGER,
    NETWORKS,
    NIGHT,
    RETURNS,
    TOP_UP,
    TOP_UP_WEEKEND,
    Draw,
    chance,
    deviation,
)
from fedsim.common.arrays import Floats
from fedsim.common.keyed import Stream
from fedsim.population.members import propensity
from fedsim.scenario.habits import Habits

_LINE = 64


class People:
    """The persons behind all devices below some index.

    Parameters
    ----------
    habits
        Their habits.
    clients
        One more than the largest index of a client.
    draws
        The stream for availability.

    Attributes
    ----------
    columns
        (clients, columns) what is said in `persons`, as far as charging and network are required.
    uses
        (clients,) screen uses a day, if an idle screen is required.
    """

    def __init__(self, habits: Habits, clients: int, draws: Stream) -> None:
        self._habits, self._draws = habits, draws
        # Pages of these arrays that nobody has needed take no memory.
        self._met = np.zeros(clients, dtype=np.bool_)
        self.columns = _lines(clients)
        self.uses = np.zeros(clients if "idle" in habits.require else 0)

    def meet(self, clients: Clients) -> None:
        """Work out what belongs to those of some clients who have not been met."""
        clients = clients[~self._met[clients]]
        if not len(clients):
            return
        self._met[clients] = True
        habits, draws, columns = self._habits, self._draws, self.columns
        score = propensity(clients, draws)
        if "charging" in habits.require:
            charging, night, top_up = habits.charging, habits.charging.night, habits.charging.top_up
            longer = deviation(Draw.NIGHT_LENGTH_OF_PERSON, clients, 0, draws)
            columns[clients, NIGHT] = chance(night.chance, charging.spread, score)
            columns[clients, LATER] = night.between_persons * deviation(Draw.NIGHT_TIME_OF_PERSON, clients, 0, draws)
            columns[clients, LONGER] = night.length_between_persons * longer
            columns[clients, TOP_UP] = chance(top_up.per_day / TOP_UPS, charging.spread, score)
            columns[clients, TOP_UP_WEEKEND] = chance(top_up.per_day_weekend / TOP_UPS, charging.spread, score)
        if "network" in habits.require:
            network = habits.network
            home, work = access(network, clients, score, draws)
            columns[clients, NETWORKS] = AT_HOME * home + AT_WORK * work
            columns[clients, LEAVES] = network.between_persons * deviation(Draw.LEAVE_OF_PERSON, clients, 0, draws)
            columns[clients, RETURNS] = network.between_persons * deviation(Draw.BACK_OF_PERSON, clients, 0, draws)
        if "idle" in habits.require:
            self.uses[clients] = uses(habits.idle).of_person(score)


def _lines(clients: int) -> Floats:
    """Return zeros (clients, columns), a cache line each."""
    bytes_ = np.zeros(clients * COLUMNS * 8 + _LINE, dtype=np.uint8)
    skew = -bytes_.ctypes.data % _LINE
    return bytes_[skew : skew + clients * COLUMNS * 8].view(np.float64).reshape(clients, COLUMNS)
