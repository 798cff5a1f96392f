"""Whether devices are on a charger with a network at an instant, as far as bounds of the times decide it.

They nearly always do: a table (`bounds`) bounds a time to a second or less, and to the change where a clock is changed
nearby. What they leave open is to be worked out exactly.
"""

import numpy as np
from numpy.typing import NDArray

from fedsim.availability.batch import Clients
from fedsim.availability.civil import DAY
from fedsim.availability.habits.blocks import (
    BACK_FIRST,
    BACK_LAST,
    DRAW,
    LEAVE_FIRST,
    LEAVE_LAST,
    MAY,
    MIDDLE,
    MIDDLE_2,
    OFF,
    OFF_2,
    SIZE,
    SURE,
    Block,
    draw,
    fill,
    look_up,
    new_block,
    put,
)
from fedsim.availability.habits.bounds import DayBounds, bounded
from fedsim.availability.habits.charging import NIGHT_AT_MOST, TOP_UPS
from fedsim.availability.habits.persons import (
    AT_HOME,
    AT_WORK,
    LATER,
    LEAVES,
    LIMIT,
    LONGER,
    NETWORKS,
    NIGHT,
    RETURNS,
)
from fedsim.common.arrays import Bits, Floats
from fedsim.common.bits import first_of
from fedsim.common.compiled import compiled
from fedsim.common.keyed_loops import uniform_at

NO, YES, OPEN = 0, 1, 2
"""What is known: that something does not hold, that it does, nothing."""


@compiled
def _night(block: Block, now: float, day: DayBounds, midnight: float) -> None:
    """Note whose night's session of a day, which begins at a clock time, goes on or may go on after its midnight.

    `SURE` is until when it surely does, -infinity for not at all, and `MAY` is 1 where it may.
    """
    if not day.night_spans[0] < now < day.night_spans[1]:
        return
    rows, slack, (usual, by_day), (length, longer_by_day) = block.rows, day.slack, day.night_start, day.night_length
    look_up(block, day.night[1], day.scores, False)
    look_up(block, day.night[2], day.scores, True)
    draw(block, day.night[0])
    for place in range(SIZE):
        start = usual + rows[LATER * SIZE + place] + by_day * rows[MIDDLE + place]
        lasts = length + rows[LONGER * SIZE + place] + longer_by_day * rows[MIDDLE_2 + place]
        off, off_length = by_day * rows[OFF + place], longer_by_day * rows[OFF_2 + place]
        least = min(max(lasts - off_length, 0.0), NIGHT_AT_MOST) - slack
        most = min(max(lasts + off_length, 0.0), NIGHT_AT_MOST) + slack
        takes = rows[DRAW + place] < rows[NIGHT * SIZE + place]
        goes_on = takes & (start + off + slack <= now) & (now < start - off + least)
        rows[SURE + place] = max(rows[SURE + place], midnight + (start - off + least) if goes_on else -np.inf)
        may = takes & (start - off - slack <= now) & (now < start + off + most)
        rows[MAY + place] = 1.0 if may else rows[MAY + place]


@compiled
def _top_ups(block: Block, count: int, now: float, day: DayBounds, midnight: float, hits: Bits) -> None:
    """Note the same of the top-ups of a day, of the first `count` of the block as far as nothing surely goes on yet."""
    if now > day.top_ups_end:
        return
    words, rows, chances = block.words, block.rows, SIZE * day.top_up_chance
    starts, lengths, slack = day.top_up_starts, day.top_up_lengths, day.slack
    takes, begins, lasts = day.top_up[0], day.top_up[1], day.top_up[2]
    hits[:] = 0
    for number in range(TOP_UPS):
        key, bit = takes[number], np.uint64(1) << np.uint64(number)
        for place in range(SIZE):
            hits[place] |= bit if uniform_at(words[place] ^ key) < rows[chances + place] else np.uint64(0)
    for place in range(count):
        left = np.uint64(0) if rows[SURE + place] > -np.inf else hits[place]
        while left:
            number = first_of(left)
            left &= left - np.uint64(1)
            first, latest = bounded(starts, uniform_at(words[place] ^ begins[number]))
            if now < first - slack:
                continue
            least, most = bounded(lengths, uniform_at(words[place] ^ lasts[number]))
            if latest + slack <= now < first - slack + least:
                rows[SURE + place] = max(rows[SURE + place], midnight + (first - slack + least))
            if now < latest + slack + most:
                rows[MAY + place] = 1.0


@compiled
def _outings(block: Block, now: float, day: DayBounds) -> None:
    """Note between which bounds everyone leaves home on a day, and is back; never, where there is no outing."""
    rows, slack, (leave, back, by_day) = block.rows, day.slack, day.outing_times
    far = LIMIT * by_day + slack
    nobody_left = True
    for place in range(SIZE):
        nobody_left &= now < leave + rows[LEAVES * SIZE + place] - far
    if nobody_left:
        for place in range(SIZE):
            rows[LEAVE_FIRST + place] = leave + rows[LEAVES * SIZE + place] - far
        return
    look_up(block, day.outing[1], day.scores, False)
    look_up(block, day.outing[2], day.scores, True)
    draw(block, day.outing[0])
    for place in range(SIZE):
        at, off = leave + rows[LEAVES * SIZE + place] + by_day * rows[MIDDLE + place], by_day * rows[OFF + place]
        first, latest = min(max(at - off, 0.0), DAY) - slack, min(max(at + off, 0.0), DAY) + slack
        at, off = back + rows[RETURNS * SIZE + place] + by_day * rows[MIDDLE_2 + place], by_day * rows[OFF_2 + place]
        back_first, back_latest = min(max(at - off, 0.0), DAY) - slack, min(max(at + off, 0.0), DAY) + slack
        goes_out = rows[DRAW + place] < day.outing_chance
        rows[LEAVE_FIRST + place] = first if goes_out else np.inf
        rows[LEAVE_LAST + place] = latest
        rows[BACK_FIRST + place] = max(back_first, first)
        rows[BACK_LAST + place] = max(back_latest, latest)


@compiled
def _on_network(
    networks: int,
    first: float,
    latest: float,
    back_first: float,
    back_latest: float,
    now: float,
    at_work: bool,
    commute: float,
    slack: float,
) -> tuple[int, float]:
    """Say whether somebody has a network, but for failures, at a time of the day, and until when surely.

    Only numbers are passed here: arrays would cost more, once for everybody, than all that is done.
    """
    midnight = DAY - slack
    at_home, works = networks & AT_HOME != 0, networks & AT_WORK != 0 and at_work
    if now < first:
        return (YES if at_home else NO), min(first, midnight)
    if at_home and now >= back_latest:
        return YES, midnight
    if latest <= now < back_first or not at_home:
        if not works or now < first + commute or now >= max(back_latest - commute, latest):
            return NO, midnight
        if latest + commute <= now < back_first - commute:
            return YES, back_first - commute
    return OPEN, midnight


@compiled
def decided(
    clients: Clients,
    key: np.uint64,
    now: float,
    yesterday: DayBounds,
    today: DayBounds,
    people: Floats,
    charging: bool,
    networked: bool,
) -> tuple[NDArray[np.int8], Floats]:
    """Say whether each client (n,) is on a charger with a network, and of those who are, until when they surely are.

    `now`, and what is returned, are clock times after the midnight of today; `charging` and `networked` are whether
    these are required.
    """
    found, until = np.empty(len(clients), np.int8), np.empty(len(clients))
    block, hits = new_block(), np.empty(SIZE, np.uint64)
    rows = block.rows
    for begin in range(0, len(clients), SIZE):
        count = fill(block, clients, begin, key, people)
        put(block, SURE, -np.inf if charging else np.inf)
        put(block, MAY, 0.0)
        if charging:
            _night(block, now, today, 0.0)
            _night(block, now + DAY, yesterday, -DAY)
            _top_ups(block, count, now, today, 0.0, hits)
            _top_ups(block, count, now + DAY, yesterday, -DAY, hits)
        if networked:
            _outings(block, now, today)
        for place in range(count):
            last = rows[SURE + place]
            known = YES if last > -np.inf else (OPEN if rows[MAY + place] else NO)
            if networked and known != NO:
                there, there_last = _on_network(
                    int(rows[NETWORKS * SIZE + place]),
                    rows[LEAVE_FIRST + place],
                    rows[LEAVE_LAST + place],
                    rows[BACK_FIRST + place],
                    rows[BACK_LAST + place],
                    now,
                    today.at_work,
                    today.commute,
                    today.slack,
                )
                if there == NO or known == YES:
                    known = there
                last = min(last, there_last)
            found[begin + place], until[begin + place] = known, last
    return found, until
