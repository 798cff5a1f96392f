"""The pass over the log: counts of the participations, of the run and of each of its groups."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.files import slices
from fedsim.common.instants import DAY_S
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.log import PARTICIPATIONS
from fedsim.measure.contributions import Contributions, Pulls, Separations
from fedsim.measure.noise import SamplingNoise, SpanCounts

Watch: TypeAlias = Callable[[pl.DataFrame], None]
_TAKEN, _UNKNOWN = list(SESSION_OUTCOMES).index("reported"), len(SESSION_OUTCOMES)


@dataclass(frozen=True)
class Counted:
    """Counts of some participations."""

    counts: Ints  # how often each client took part
    count: int  # sessions
    outcomes: Mapping[str, int]  # how many of them ended in which way
    spent_s: float  # seconds that devices spent in sessions
    wasted_s: float  # in those whose report was not taken
    staleness: Ints  # reports by how many versions they were late, up to the latest
    steps: int  # local steps of the reports that were taken; 0 where the log does not tell them
    reported: Ints  # reports that were taken of each client
    pull: Floats  # w_i of each client of the run, as of `fedsim.measure.contributions.Pulls`
    firsts_s: Floats  # when each client that took part did so first, in ascending order
    gaps: tuple[int, int, int, int] | None  # between two participations of a client: how many, sum, least and largest
    noise: SamplingNoise | None  # what chance does to the frequencies; None where too few rounds or days tell
    reported_noise: SamplingNoise | None = None  # as `noise`, of the reports that were taken; None of a group
    contributions: Contributions | None = None  # None of a group
    groups: "Sequence[Counted]" = ()  # of each group, where that was asked for


@dataclass(frozen=True)
class _Rows:
    """Some participations, as arrays of one length: `outcome` is a place in `SESSION_OUTCOMES`, -1 stands for null.

    Numbers have 64 bits, those of gaps and staleness 32.
    """

    number: Ints
    client: Ints
    selected_s: Floats
    spent_s: Floats
    outcome: NDArray[np.uint8]
    gap: NDArray[np.int32]
    staleness: NDArray[np.int32]
    steps: NDArray[np.int32]

    def at(self, places: Ints, first: int) -> "_Rows":
        """Return the rows at some places, with clients that count from `first`."""
        rows = _Rows(**{name: values[places] for name, values in vars(self).items()})
        return replace(rows, client=rows.client - first)


class _Part:
    """What is counted of the run or of a group: its participations, in order."""

    def __init__(self, spans: SpanCounts) -> None:
        self._spans = spans
        self._outcomes = np.zeros(len(SESSION_OUTCOMES) + 1, dtype=np.int64)
        self._spent_s, self._wasted_s = [0.0], [0.0]
        self._staleness: Ints = np.zeros(1, dtype=np.int64)
        self._steps = 0
        self._firsts = [np.empty(0)]
        self._gaps: tuple[int, int, int, int] | None = None

    def add(self, rows: _Rows) -> None:
        """Take the next rows."""
        self._spans.add(rows.number, rows.client, rows.selected_s, once=not (rows.gap == 0).any())
        self._outcomes += np.bincount(rows.outcome, minlength=len(self._outcomes))
        self._spent_s.append(float(rows.spent_s.sum()))
        self._wasted_s.append(float(rows.spent_s[rows.outcome != _TAKEN].sum()))
        more = np.bincount(rows.staleness[rows.staleness >= 0], minlength=len(self._staleness))
        more[: len(self._staleness)] += self._staleness
        self._staleness = more
        self._steps += int(rows.steps[rows.outcome == _TAKEN].sum(dtype=np.int64))
        self._firsts.append(rows.selected_s[rows.gap < 0])
        if len(gaps := rows.gap[rows.gap >= 0]):
            count, total, least, most = self._gaps or (0, 0, sys.maxsize, 0)
            count, total = count + len(gaps), total + int(gaps.sum())
            self._gaps = count, total, min(least, int(gaps.min())), max(most, int(gaps.max()))

    def counted(self, counts: Ints, reported: Ints, pull: Floats) -> Counted:
        """Return what was counted, with what is known from elsewhere."""
        return Counted(
            counts,
            int(self._outcomes.sum()),
            dict(zip(SESSION_OUTCOMES, self._outcomes.tolist(), strict=False)),
            math.fsum(self._spent_s),
            math.fsum(self._wasted_s),
            self._staleness,
            self._steps,
            reported,
            pull,
            np.sort(np.concatenate(self._firsts)),
            self._gaps,
            self._spans.noise(counts),
        )


def count_log(
    participations: pl.DataFrame | pl.LazyFrame,
    rounds: pl.DataFrame,
    clients: int,
    sizes: Sequence[int] = (),
    watches: Sequence[Watch] = (),
    *,
    fixed_divisor: bool = False,
    by_day: bool = False,
    together: int = 1,
) -> Counted:
    """Count the participations of a run of N `clients`, and of each group if the `sizes` of the groups are given.

    The participations are read some rows at a time, and every part of them is passed to the `watches`. A server with a
    `fixed_divisor` gives every report the same weight, whatever the number of reports in its round. `by_day` says that
    availability follows the clock, and `together` how many clients are drawn at once: see `fedsim.measure.noise`.
    """
    edges, most = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]), int(rounds["selected"].sum())
    spans = [(int(first), int(last)) for first, last in pairwise(edges)]
    chosen_in = rounds["round"].filter(rounds["selected"] > 0).to_numpy()
    ended_s = float(np.nan_to_num(rounds["closed_s"].to_numpy()).max(initial=0.0))
    days = int(ended_s // DAY_S) if by_day else None
    whole = _Part(SpanCounts(chosen_in, clients, most, days, together))
    groups = [
        _Part(SpanCounts(chosen, last - first, most, days, together))
        for chosen, (first, last) in zip(_of_groups(participations, rounds, spans), spans, strict=True)
    ]
    heard = SpanCounts(chosen_in, clients, most, days, together) if int(rounds["reported"].sum()) < most else None
    counts, reported = np.zeros((2, clients), dtype=np.int64)
    separations, pulls = Separations(clients), _pulls_of(participations, rounds, clients, fixed_divisor)
    for part in slices(participations):
        for watch in watches:
            watch(part)
        rows = _rows_of(part)
        whole.add(rows)
        np.add.at(counts, rows.client, 1)
        taken: Bools = rows.outcome == _TAKEN
        client, number = rows.client[taken], rows.number[taken]
        np.add.at(reported, client, 1)
        at = number + np.maximum(rows.staleness[taken], 0)
        pulls.add(client, at)
        separations.add(client, at)
        if heard is not None:
            heard.add(number, client, rows.selected_s[taken], once=not (rows.gap == 0).any())
        of_group = _group_of(rows.client, spans)
        for place, (group, (first, _)) in enumerate(zip(groups, spans, strict=True)):
            group.add(rows.at(np.flatnonzero(of_group == place), first))
    of_groups, pull = zip(groups, (slice(*span) for span in spans), strict=True), pulls.pulls()
    everyone = whole.counted(counts, reported, pull)
    return replace(
        everyone,
        reported_noise=everyone.noise if heard is None else heard.noise(reported),
        contributions=separations.contributions(reported),
        groups=[group.counted(counts[within], reported[within], pull[within]) for group, within in of_groups],
    )


def _pulls_of(
    participations: pl.DataFrame | pl.LazyFrame, rounds: pl.DataFrame, clients: int, fixed_divisor: bool
) -> Pulls:
    sizes = rounds["reported"].to_numpy().astype(np.int64)
    if "staleness" in participations.lazy().collect_schema():  # a buffer that did not fill makes no step
        sizes = np.where((rounds["outcome"] == "target").to_numpy(), sizes, 0)
    return Pulls(rounds["round"].to_numpy(), np.minimum(sizes, 1) if fixed_divisor else sizes, clients)


def _rows_of(part: pl.DataFrame) -> _Rows:
    outcome = part["outcome"].cast(PARTICIPATIONS["outcome"], strict=False)
    selected_s, nothing = part["selected_s"].to_numpy(), pl.repeat(0, len(part), dtype=pl.Int32, eager=True)
    gap, staleness = (
        values.cast(pl.Int32).fill_null(-1).to_numpy()
        for values in (part["gap"], part.get_column("staleness", default=nothing))
    )
    return _Rows(
        number=part["round"].to_numpy().astype(np.int64),
        client=part["client"].to_numpy().astype(np.int64),
        selected_s=selected_s,
        spent_s=part["ended_s"].to_numpy() - selected_s,
        outcome=outcome.to_physical().fill_null(_UNKNOWN).to_numpy(),
        gap=gap,
        staleness=staleness,
        steps=part.get_column("steps", default=nothing).to_numpy(),
    )


def _group_of(client: Ints, spans: Sequence[tuple[int, int]]) -> NDArray[np.int16]:
    return np.searchsorted([first for first, _ in spans[1:]], client, side="right").astype(np.int16)


def _of_groups(
    participations: pl.DataFrame | pl.LazyFrame, rounds: pl.DataFrame, spans: Sequence[tuple[int, int]]
) -> list[Ints]:
    """Return the numbers of the rounds that selected anyone of each group; nothing is read without groups."""
    number = rounds["round"].to_numpy()
    chosen = np.zeros((len(spans), len(number)), dtype=np.bool_)
    for part in slices(participations, "round", "client") if spans else ():
        chosen[_group_of(part["client"].to_numpy(), spans), np.searchsorted(number, part["round"].to_numpy())] = True
    return [number[mask] for mask in chosen]
