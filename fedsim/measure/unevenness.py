r"""How unevenly clients take part over windows of P rounds, and how long windows should be.

With q_t^i = n_t^i / B_t, the share that client i has in the reports that round t takes, and windows of P rounds, one
after the other, the unevenness is the mean over windows of

    sum_i (w_i - 1/N)^2,    w_i = (1/P) sum_{t in window} q_t^i.

Wang and Ji bound how far participation leads training astray by one quantity,

    delta^2(P) >= E || (1/P) sum_{t in window} sum_i q_t^i (grad f_i(x) - grad f(x)) ||^2
               =  E || sum_i (w_i - 1/N) grad f_i(x) ||^2,

which is zero for what they call regularized participation: w_i = 1/N in every window. The unevenness is the factor of
it that depends on participation alone: by Cauchy and Schwarz it is at most the unevenness times sum_i |grad f_i -
grad f|^2, and where data and participation have nothing to do with each other (gradients in random order over the
clients) it equals the unevenness times sum_i |grad f_i - grad f|^2 / (N - 1).

It is 1/n - 1/N, where n = 1 / sum_i w_i^2 is the effective number of clients in a window. Everyone in turn has 0 at
P = N / B. Independent uniform cohorts of B have (1/B - 1/N) / P: of each round sum_i Var q^i = N (1/B^2) (B/N)
(1 - B/N). What remains however long the windows are is sum_i (f_i - 1/N)^2, f being the long-run shares.

Rounds that take no report reach no model; they are left out, and windows go on after them. Reports of a buffered
server count for the version at which they are taken. A last window that is not whole is left out.

References
----------
Wang and Ji, *A Unified Analysis of Federated Learning with Arbitrary Client Participation*, NeurIPS 2022,
arXiv:2205.13648.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import Field

from fedsim.common.arrays import Floats, Ints
from fedsim.common.files import slices
from fedsim.common.instants import DAY_S
from fedsim.log import with_staleness
from fedsim.measure.metrics.metric import Metric, RunPart

_FEWEST_WINDOWS = 5
_SEEN = 4  # a window is recommended if windows of so many times its length were looked at
_NOTHING = 1e-9
_NOISES = 3.0


@dataclass(frozen=True)
class Unevenness:
    """The unevenness over windows of k lengths; `values` and `spread` are NaN where there is no whole window."""

    intervals: Ints  # (k,) rounds of a window, P
    windows: Ints  # (k,) how many whole windows there are
    values: Floats  # (k,) the unevenness
    spread: Floats  # (k,) mean of sum_i (w_i - m_i)^2, m the mean of the windows: what longer windows take away
    chance: Floats  # (k,) the unevenness that independent uniform cohorts of the same sizes would have
    long_run: float  # sum_i (f_i - 1/N)^2 of all rounds together; it holds `spread` of that one window too
    rounds: int  # that took a report
    reports: int  # that they took


def unevenness(
    participations: pl.DataFrame | pl.LazyFrame, clients: int, intervals: Iterable[int] = (1,)
) -> Unevenness:
    """Measure the unevenness over windows of each of some lengths, in two passes and memory for N numbers.

    The table, of any size, has the columns ``round``, ``client``, ``outcome``, of a buffered server ``staleness``, in
    the order of rounds.

    Raises
    ------
    ValueError
        If an interval is below 1.
    """
    lengths = np.array(sorted({int(each) for each in intervals}), dtype=np.int64)
    if len(lengths) and lengths[0] < 1:
        raise ValueError(f"a window has 1 round or more, got {lengths[0]}")
    share, chance, rounds, reports = np.zeros(clients), 0.0, 0, 0
    for rank, client, weight in _shares(participations):
        share += np.bincount(client, weights=weight, minlength=clients)
        sizes = np.bincount(rank - rank[0])
        chance += float((1.0 / sizes - 1.0 / clients).sum())
        rounds, reports = int(rank[-1]) + 1, reports + len(client)
    share /= max(rounds, 1)
    each = [_Windows(interval, rounds // interval, share) for interval in lengths.tolist()]
    for rank, client, weight in _shares(participations):
        for own in each:
            own.add(rank, client, weight)
    windows = np.array([own.windows for own in each], dtype=np.int64)
    enough = np.where(windows > 0, windows, np.nan)
    return Unevenness(
        intervals=lengths,
        windows=windows,
        values=np.array([own.from_even for own in each]) / enough,
        spread=np.array([own.spread(rounds) for own in each]) / enough,
        chance=chance / max(rounds, 1) / lengths,
        long_run=float(np.square(share - 1.0 / clients).sum()) if rounds else float("nan"),
        rounds=rounds,
        reports=reports,
    )


def recommended_interval(
    rounds: pl.DataFrame, participations: pl.DataFrame | pl.LazyFrame, clients: int, *, tolerance: float = 0.05
) -> int | None:
    """Return the shortest windows from which longer ones gain only what averaging independent windows gains.

    Let V(P) be P times the unevenness without its long-run part. Were windows of P independent, then V(m P) = V(P). So
    P is recommended where no longer window that is looked at has a V below (1 - tolerance) V(P), and none of 2 P, 4 P,
    8 P, ... has one above (1 + tolerance) V(P). Uniform cohorts have 1, everyone in turn N / B, and cohorts that follow
    the time of day about the rounds of a day. The tolerance is widened by three standard deviations of V as chance
    has them, sqrt(2 / (N - 1) (n - 1)) for n windows.

    Looked at are 1, 2, 3 and 4, 5, 6 and 7 times every power of 2, and N / B, the rounds of a day and of a week times
    every power of 2, while there are five windows.

    None is returned where the log is too short to tell: it has fewer than 20 windows of any length that would do (5,
    where V is 0).
    """
    if clients < 2:
        return 1
    alone = unevenness(participations, clients, [1])
    most = alone.rounds // _FEWEST_WINDOWS
    found = unevenness(participations, clients, _looked_at(rounds, alone, clients, most))
    length, windows = found.intervals, found.windows
    rate = length * found.spread * windows / np.maximum(windows - 1, 1)
    rate[rate < _NOTHING * rate.max(initial=0.0)] = 0.0
    slack = tolerance + _NOISES * np.sqrt(2.0 / ((clients - 1) * np.maximum(windows - 1, 1)))
    for here in range(len(length)):
        longer = slice(here + 1, None)
        gains = rate[longer] < (1.0 - slack[longer]) * rate[here]
        doubled = length[longer] // length[here]
        is_doubled = (length[longer] % length[here] == 0) & (doubled & (doubled - 1) == 0)
        clings = is_doubled & (rate[longer] > (1.0 + slack[longer]) * rate[here])
        far_enough = _SEEN * length[here] <= most or rate[here] == 0.0
        if far_enough and not (gains | clings).any():
            return int(length[here])
    return None


def _looked_at(rounds: pl.DataFrame, found: Unevenness, clients: int, most: int) -> set[int]:
    lengths = {1, 2, 3, 4, 5, 6, 7}
    if found.reports:
        lengths.add(round(clients * found.rounds / found.reports))
    times = rounds.select(pl.col("opened_s").min(), pl.col("closed_s").max()).row(0)
    if None not in times and times[1] > times[0]:
        per_day = found.rounds / ((times[1] - times[0]) / DAY_S)
        lengths |= {round(per_day), round(7 * per_day)}
    doubled = {length << power for length in lengths if length > 0 for power in range(max(most, 1).bit_length())}
    return {length for length in doubled if length <= most}


def _shares(participations: pl.DataFrame | pl.LazyFrame) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Yield rank of the round among those that took a report, client and share 1/B_t of reports, in whole rounds."""
    waiting = np.zeros((2, 0), dtype=np.int64)
    rank = 0
    for part in slices(with_staleness(participations), "round", "client", "outcome", "staleness"):
        taken = part.filter(pl.col("outcome").cast(pl.String) == "reported").select(
            "client", at=pl.col("round").cast(pl.Int64) + pl.col("staleness").fill_null(0)
        )
        waiting = np.concatenate([waiting, taken.select("at", "client").to_numpy().astype(np.int64).T], axis=1)
        waiting = waiting[:, np.argsort(waiting[0], kind="stable")]
        whole = int(np.searchsorted(waiting[0], part["round"][-1]))  # a later row is of this round or of a later one
        if whole:
            yield _ranked(waiting[:, :whole], rank)
            rank += len(np.unique(waiting[0, :whole]))
        waiting = waiting[:, whole:]
    if waiting.size:
        yield _ranked(waiting, rank)


def _ranked(taken: Ints, first: int) -> tuple[Ints, Ints, Floats]:
    _, which, sizes = np.unique(taken[0], return_inverse=True, return_counts=True)
    return which + first, taken[1], 1.0 / sizes[which]


class _Windows:
    """Adds up, over the whole windows of one length, how far shares are from even and from those of the long run."""

    def __init__(self, interval: int, windows: int, share: Floats) -> None:
        self.interval, self.windows = interval, windows  # P; whole ones, in the end
        self.share = share  # (N,) the long-run shares f
        self.from_even = self.from_share = 0.0  # sums of sum_i (w_i - 1/N)^2, and of sum_i (w_i - f_i)^2
        self._clients, self._sums, self._open = np.zeros(0, dtype=np.int64), np.zeros(0), 0
        self._absent = float(np.square(share).sum())

    def add(self, rank: Ints, client: Ints, weight: Floats) -> None:
        """Take the reports of some whole rounds, which follow those taken before."""
        clients = len(self.share)
        window = np.concatenate([np.full(len(self._clients), self._open), rank // self.interval])
        client, weight = np.concatenate([self._clients, client]), np.concatenate([self._sums, weight / self.interval])
        key = (window - self._open) * clients + client
        order = np.argsort(key, kind="stable")
        key = key[order]
        first = np.flatnonzero(np.diff(key, prepend=-1))
        sums, client, window = np.add.reduceat(weight[order], first), client[order][first], window[order][first]
        last = int(rank[-1]) + 1
        whole = min(last // self.interval, self.windows)
        over = window < whole
        present, ended = sums[over], client[over]
        even, share, ends = 1.0 / clients, self.share[ended], whole - self._open
        absent = ends * clients - len(ended)
        self.from_even += float(np.square(present - even).sum()) + absent * even**2
        self.from_share += float((np.square(present - share) - np.square(share)).sum()) + ends * self._absent
        self._clients, self._sums, self._open = client[~over], sums[~over], whole

    def spread(self, rounds: int) -> float:
        """Return the sum of sum_i (w_i - m_i)^2, m being the mean of the windows, after all rounds were taken."""
        taken = self.windows * self.interval
        left = rounds - taken  # rounds of a last window that is not whole, which f counts and m does not
        tail, share = self._sums * self.interval, self.share[self._clients]
        apart = float(np.square(left * share - tail).sum() - left**2 * np.square(share).sum()) + left**2 * self._absent
        return max(self.from_share - self.windows * apart / taken**2, 0.0) if taken else 0.0


class UnevennessMetrics:
    """The unevenness over windows of `intervals` rounds each and, with `recommend`, the length that is recommended."""

    def __init__(
        self,
        *,
        intervals: Annotated[Sequence[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=100)] = (1, 10, 100),
        recommend: bool = True,
    ) -> None:
        self.intervals, self.recommend = sorted(set(intervals)), recommend
        apart = "Squared distance of the clients' shares in windows of {} rounds from 1/N, on average."
        by_chance = "The same if all rounds chose as many clients uniformly and independently."
        self.metrics: list[Metric] = []
        for interval in self.intervals:
            self.metrics.append(Metric(f"unevenness.{interval}", "", apart.format(interval)))
            self.metrics.append(Metric(f"unevenness.{interval}.chance", "", by_chance))
        whole = "The same with all rounds as one window: what no window takes away."
        self.metrics.append(Metric("unevenness.long_run", "", whole))
        if recommend:
            best = "Shortest windows from which longer ones gain only what averaging independent windows gains."
            self.metrics.append(Metric("unevenness.recommended_interval", "rounds", best))

    def measure(self, run: RunPart) -> dict[str, float]:
        """Return those that have samples: a whole window, and enough of the length that is recommended."""
        clients = len(run.clients)
        found = unevenness(run.table, clients, self.intervals)
        metrics: dict[str, float] = {}
        for place, interval in enumerate(found.intervals.tolist()):
            if found.windows[place]:
                metrics[f"unevenness.{interval}"] = float(found.values[place])
                metrics[f"unevenness.{interval}.chance"] = float(found.chance[place])
        if found.rounds:
            metrics["unevenness.long_run"] = found.long_run
        if self.recommend and (best := recommended_interval(run.rounds, run.table, clients)) is not None:
            metrics["unevenness.recommended_interval"] = float(best)
        return metrics
