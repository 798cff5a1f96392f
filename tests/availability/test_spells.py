"""Intervals in arrays are sets of milliseconds: whatever is done to them is done to the sets."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedsim.availability.spells import Spells, intersection

COUNT, LENGTH = 3, 31
Rows = list[tuple[int, int, int]]
Sets = list[set[int]]

written = st.lists(
    st.tuples(st.integers(0, COUNT - 1), st.integers(0, LENGTH - 1), st.integers(0, 9)), max_size=14
).map(lambda rows: [(who, start, min(start + length, LENGTH)) for who, start, length in rows])
lengthy = written.map(lambda rows: [row for row in rows if row[1] < row[2]])
instants = st.integers(0, LENGTH)


def spells(rows: Rows) -> Spells:
    who, starts, ends = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return Spells(who, starts, ends, COUNT)


def sets(some: Spells) -> Sets:
    """The milliseconds of each device; the spells must be disjoint."""
    found: Sets = [set() for _ in range(some.count)]
    for who, start, end in zip(*(column.tolist() for column in some), strict=True):
        assert start < end
        assert found[who].isdisjoint(range(start, end))
        found[who] |= set(range(start, end))
    return found


def of(rows: Rows) -> Sets:
    return [{at for own, start, end in rows if own == who for at in range(start, end)} for who in range(COUNT)]


def in_order(some: Spells) -> bool:
    """Whether they come by device and start, none touching another."""
    rows = list(zip(*some, strict=True))
    return all(a[0] < b[0] or (a[0] == b[0] and a[2] < b[1]) for a, b in pairwise(rows))


@given(lengthy)
def test_joined_is_the_union_in_as_few_as_can_be(rows: Rows) -> None:
    joined = spells(rows).joined()
    assert sets(joined) == of(rows)
    assert in_order(joined)
    assert joined.has.tolist() == [bool(each) for each in of(rows)]


@given(lengthy, st.integers(0, 6))
def test_gaps_below_a_length_are_closed(rows: Rows, gap: int) -> None:
    """With none, what touches stays apart: what it joins overlaps."""
    found = of([(who, start, end) for who, start, end in zip(*spells(rows).joined(gap), strict=True)])
    for who, own in enumerate(of(rows)):
        closed = {at for a, b in pairwise(sorted(own)) if b - a <= gap for at in range(a, b)}
        assert found[who] == own | closed
    apart = list(zip(*spells(rows).joined(0), strict=True))
    assert all(a[0] < b[0] or a[2] <= b[1] for a, b in pairwise(apart))
    inside = {(who, at) for who, start, end in rows for at in range(start + 1, end)}
    assert {(who, start) for who, start, _ in apart} == {(who, start) for who, start, _ in rows} - inside


@given(lengthy, lengthy, lengthy)
def test_an_intersection_is_that_of_sets(first: Rows, second: Rows, third: Rows) -> None:
    found = intersection([spells(rows).joined() for rows in (first, second, third)])
    assert sets(found) == [a & b & c for a, b, c in zip(of(first), of(second), of(third), strict=True)]
    assert in_order(found)


@given(lengthy, written)
def test_less_leaves_the_difference_of_sets(rows: Rows, out: Rows) -> None:
    """The others may overlap, be empty, and come in any order."""
    some = spells(rows).joined()
    left = some.where(np.random.default_rng(len(out)).permutation(len(some.who))).less(spells(out))
    assert sets(left) == [a - b for a, b in zip(of(rows), of(out), strict=True)]
    assert in_order(left.joined())
    assert len(left.joined().who) == len(left.who)


@given(written, instants, instants)
def test_complement_and_clip(rows: Rows, one: int, two: int) -> None:
    since, until = sorted((one, two))
    window = set(range(since, until))
    free = spells(rows).complement(since, until)
    assert sets(free) == [window - own for own in of(rows)]
    assert in_order(free)
    assert sets(spells(rows).joined().clip(since, until)) == [window & own for own in of(rows)]


@given(lengthy, st.lists(st.booleans(), min_size=COUNT, max_size=COUNT))
def test_selected_devices_keep_their_spells(rows: Rows, keep: list[bool]) -> None:
    found = spells(rows).joined().select(np.array(keep))
    assert found.count == sum(keep)
    assert sets(found) == [own for own, kept in zip(of(rows), keep, strict=True) if kept]


@given(lengthy, st.lists(st.tuples(st.integers(0, COUNT - 1), instants, instants), max_size=8))
def test_at_and_near_find_what_a_scan_finds(rows: Rows, asked: Rows) -> None:
    some = spells(rows).joined()
    who, first, last = np.array(asked, dtype=np.int64).reshape(-1, 3).T
    assert some.at(who, first).tolist() == [at in of(rows)[own] for own, at, _ in asked]
    position, found = some.near(who, first, last)
    expected = [
        (place, row)
        for place, (own, begin, end) in enumerate(asked)
        for row, (device, start, over) in enumerate(zip(*some, strict=True))
        if device == own and over >= begin and start <= end
    ]
    assert list(zip(position.tolist(), found.tolist(), strict=True)) == expected


def test_times_of_any_size() -> None:
    """Ranks are compared, and no sum of a device and a time: nothing is too large."""
    never = 1 << 60
    some = Spells(np.array([1, 0, 1]), np.array([5, -never, 7]), np.array([never, 0, 9]), 2)
    assert [column.tolist() for column in some.joined()] == [[0, 1], [-never, 5], [0, never]]
    assert some.joined().at(np.array([0, 1, 0]), np.array([-1, never - 1, 0])).tolist() == [True, True, False]
