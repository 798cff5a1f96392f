"""Whether devices are on a charger with a network at an instant, as far as bounds of the times decide it.

They nearly always do: a table (`bounds`) bounds a time to a second or less. What they leave open is to be worked out
exactly. It holds only where no clock is changed some days before and after.
"""

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Clients
from fedsim.availability.civil import DAY
from fedsim.availability.habits.bounds import DayBounds, bounded
from fedsim.availability.habits.charging import NIGHT_AT_MOST, TOP_UPS
from fedsim.availability.habits.draws import uniform_at, word_of
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
)
from fedsim.common.arrays import Floats
from fedsim.common.compiled import compiled

NO, YES, OPEN = 0, 1, 2
"""What is known: that something does not hold, that it does, nothing."""
_AT_ONCE = 32
MARGIN = 1e-3  # seconds, far more than times are ever rounded by


@compiled
def _on_charger(word: np.uint64, own: Floats, now: float, day: DayBounds) -> tuple[int, float]:
    """Say whether a session of a day goes on at a clock time after its midnight, and until when it surely does."""
    known, until = NO, -np.inf
    if day.night_spans[0] < now < day.night_spans[1] and uniform_at(word ^ day.night[0]) < own[NIGHT]:
        (usual, by_day), (length, longer_by_day) = day.night_start, day.night_length
        first, latest = bounded(day.scores, uniform_at(word ^ day.night[1]))
        least, most = bounded(day.scores, uniform_at(word ^ day.night[2]))
        first, latest = usual + own[LATER] + by_day * first, usual + own[LATER] + by_day * latest
        least = min(max(length + own[LONGER] + longer_by_day * least, 0.0), NIGHT_AT_MOST) - MARGIN
        most = min(max(length + own[LONGER] + longer_by_day * most, 0.0), NIGHT_AT_MOST) + MARGIN
        if first - MARGIN <= now < latest + most:
            known = OPEN
            if latest + MARGIN <= now < first + least:
                known, until = YES, first + least
    if now > day.top_ups_end:
        return known, until
    for number in range(TOP_UPS):
        if uniform_at(word ^ day.top_up[0, number]) < own[day.top_up_chance]:
            first, latest = bounded(day.top_up_starts, uniform_at(word ^ day.top_up[1, number]))
            if now < first - MARGIN:
                continue
            least, most = bounded(day.top_up_lengths, uniform_at(word ^ day.top_up[2, number]))
            if now < latest + most + MARGIN:
                if latest + MARGIN <= now < first + least - MARGIN:
                    known, until = YES, max(until, first + least - MARGIN)
                elif known == NO:
                    known = OPEN
    return known, until


@compiled
def _on_network(word: np.uint64, own: Floats, now: float, day: DayBounds) -> tuple[int, float]:
    """Say whether there is a network, but for failures, at a clock time, and until when there surely is."""
    networks, midnight = int(own[NETWORKS]), DAY - MARGIN
    at_home, works = networks & AT_HOME != 0, networks & AT_WORK != 0 and day.at_work
    if not (at_home or works) or uniform_at(word ^ day.outing[0]) >= day.outing_chance:
        return (YES if at_home else NO), midnight
    leave, back, by_day = day.outing_times
    first, latest = bounded(day.scores, uniform_at(word ^ day.outing[1]))
    back_first, back_latest = bounded(day.scores, uniform_at(word ^ day.outing[2]))
    leave, back = leave + own[LEAVES], back + own[RETURNS]
    first = min(max(leave + by_day * first, 0.0), DAY) - MARGIN
    latest = min(max(leave + by_day * latest, 0.0), DAY) + MARGIN
    back_first = max(min(max(back + by_day * back_first, 0.0), DAY) - MARGIN, first)
    back_latest = max(min(max(back + by_day * back_latest, 0.0), DAY) + MARGIN, latest)
    if at_home and now < first:
        return YES, first
    if at_home and now >= back_latest:
        return YES, midnight
    if latest <= now < back_first or not at_home:
        if not works or now < first + day.commute or now >= max(back_latest - day.commute, latest):
            return NO, midnight
        if latest + day.commute <= now < back_first - day.commute:
            return YES, back_first - day.commute
    return OPEN, midnight


@compiled
def decided(
    clients: Clients,
    key: np.uint64,
    now: float,
    yesterday: DayBounds,
    today: DayBounds,
    people: Floats,
    networked: bool,
) -> tuple[NDArray[np.int8], Floats]:
    """Say whether each client (n,) is on a charger with a network, and of those who are, until when they surely are.

    `now`, and what is returned, are clock times after the midnight of today; `networked` is whether one is required.
    """
    found, until = np.empty(len(clients), np.int8), np.empty(len(clients))
    persons = np.empty((_AT_ONCE, COLUMNS))
    for begin in range(0, len(clients), _AT_ONCE):
        end = min(begin + _AT_ONCE, len(clients))
        for place in range(begin, end):  # waits for the memory of all of them together
            for column in range(COLUMNS):
                persons[place - begin, column] = people[clients[place], column]
        for place in range(begin, end):
            word, own = word_of(clients[place], key), persons[place - begin]
            known, last = _on_charger(word, own, now, today)
            if known != YES:
                before, before_last = _on_charger(word, own, now + DAY, yesterday)
                if before != NO:
                    known, last = before, before_last - DAY
            if networked and known != NO:
                there, there_last = _on_network(word, own, now, today)
                if there == NO or known == YES:
                    known = there
                last = min(last, there_last)
            found[place], until[place] = known, last
    return found, until
