"""The processes of a device hold and lift reasons at the instants at which its conditions end and begin."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.availability.always import AlwaysBatch
from fedsim.common.arrays import Bools, Ints
from fedsim.common.instants import DAY, FOREVER
from fedsim.common.reasons import Reason
from fedsim.simulation.clock import Clock
from fedsim.simulation.processes.roster import GONE, Roster
from fedsim.simulation.processes.world import condition, departures

CHARGER, NETWORK = int(Reason.NO_CHARGER), int(Reason.NO_NETWORK)


def test_a_condition_that_holds_for_ever_leaves_no_event_behind() -> None:
    clock = Clock()
    roster = Roster(clock, np.zeros(1, dtype=np.int64))
    roster.hold(0, CHARGER)
    clock.process(condition(clock, roster, 0, iter([(2, 4), (4, FOREVER)]), CHARGER, lambda _: None))
    clock.run()
    assert (clock.now, roster.eligible_count) == (4, 1)


@given(lengths=st.lists(st.integers(0, 3), min_size=1, max_size=12), since=st.integers(0, 12))
def test_at_every_instant_the_reason_stands_where_no_piece_holds(lengths: list[int], since: int) -> None:
    """Also from the middle on, as after a resumption; pieces may touch or be empty, and sessions drop out at ends."""
    edges = np.cumsum([0, *lengths]).tolist()
    pieces, dropped = list(pairwise(edges))[::2], list[int]()
    clock = Clock(since)
    roster = Roster(clock, np.zeros(1, dtype=np.int64))
    roster.hold(0, CHARGER)
    clock.process(condition(clock, roster, 0, iter(pieces), CHARGER, lambda _: dropped.append(clock.now)))
    held = {instant for start, end in pieces for instant in range(start, end)}
    for instant in range(since, edges[-1] + 2):
        clock.run(until=instant + 0.5)  # all of this instant has happened
        assert bool(roster.eligible_count) == (instant in held)
    assert dropped == [end for end in range(since + 1, edges[-1] + 1) if end - 1 in held and end not in held]


def test_a_client_is_eligible_while_all_conditions_hold() -> None:
    """A condition that ends at the instant at which another begins leaves nobody eligible."""
    clock = Clock()
    roster = Roster(clock, np.zeros(1, dtype=np.int64))
    for pieces, reason in (([(2, 6)], CHARGER), ([(0, 4), (6, 8)], NETWORK)):
        roster.hold(0, reason)
        clock.process(condition(clock, roster, 0, iter(pieces), reason, lambda _: None))
    seen = []
    for instant in range(9):
        clock.run(until=instant + 0.5)
        seen.append(int(roster.masks[0]))
    assert seen == [CHARGER, CHARGER, 0, 0, NETWORK, NETWORK, CHARGER, CHARGER, CHARGER | NETWORK]


class Leaving(AlwaysBatch):
    """Devices that leave for good at given instants; it notes when it is asked."""

    def __init__(self, instants: list[int]) -> None:
        self.instants, self.asked = np.array(instants), list[int]()

    def at(self, clients: Ints, instant: int) -> Bools:
        self.asked.append(instant)
        return np.ones(len(clients), dtype=np.bool_)

    def leaves(self, clients: Ints, since: int, until: int) -> Ints:
        instants = np.maximum(self.instants[clients], since)
        return np.where(instants <= until, instants, FOREVER)


@pytest.mark.parametrize("horizon", [FOREVER, 3 * DAY])
def test_departures_are_asked_for_a_day_at_a_time(horizon: int) -> None:
    clock, instants = Clock(), [5, DAY, DAY + 7, 3 * DAY, 0]
    roster, leaving = Roster(clock, np.zeros(6, dtype=np.int64)), Leaving(instants)
    availability: Any = leaving
    clock.process(departures(clock, roster, availability, np.arange(5), horizon))
    for instant in sorted(instants):
        clock.run(until=instant + 0.5)
        gone = (roster.masks & GONE) != 0
        assert gone.tolist() == [each <= instant for each in (*instants, FOREVER)]
    clock.run()
    assert leaving.asked == [0, DAY, 2 * DAY]
