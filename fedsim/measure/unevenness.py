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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import Field

from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import DAY_S
from fedsim.measure.contributions import reports
from fedsim.measure.metrics.metric import Metric, RunPart

_FEWEST_WINDOWS = 5
_SEEN = 4  # a window is recommended if windows of so many times its length were looked at
_NOTHING = 1e-9
_TOLERANCE, _NOISES = 0.05, 3.0


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
    """Measure the unevenness over windows of each of some lengths; all reports are held in memory.

    The table has the columns ``round``, ``client``, ``outcome``, of a buffered server ``staleness``.

    Raises
    ------
    ValueError
        If an interval is below 1.
    """
    lengths = np.array(sorted({int(each) for each in intervals}), dtype=np.int64)
    if len(lengths) and lengths[0] < 1:
        raise ValueError(f"a window has 1 round or more, got {lengths[0]}")
    client, number = reports(participations).collect().to_numpy().T
    _, rank, sizes = np.unique(number, return_inverse=True, return_counts=True)
    rounds, weight = len(sizes), 1.0 / sizes[rank]
    share = np.bincount(client, weight, clients) / max(rounds, 1)
    windows = rounds // lengths
    apart = [_apart(rank // each, client, weight / each, clients, rounds // each) for each in lengths]
    values, spread = np.array(apart, dtype=np.float64).reshape(-1, 2).T
    return Unevenness(
        intervals=lengths,
        windows=windows,
        values=values,
        spread=spread,
        chance=float((1.0 / sizes - 1.0 / clients).sum()) / max(rounds, 1) / lengths,
        long_run=float(np.square(share - 1.0 / clients).sum()) if rounds else float("nan"),
        rounds=rounds,
        reports=len(client),
    )


def _apart(window: Ints, client: Ints, weight: Floats, clients: int, windows: int) -> tuple[float, float]:
    """Return the mean over whole windows of sum_i (w_i - 1/N)^2 and of sum_i (w_i - m_i)^2, m the mean of all."""
    if not windows:
        return np.nan, np.nan
    whole = window < windows
    key, place = np.unique(window[whole] * clients + client[whole], return_inverse=True)
    present, who = np.bincount(place, weight[whole]), key % clients  # the others have w_i = 0
    mean = np.bincount(who, present, clients) / windows
    absent = np.square(mean).sum() - np.square(mean[who]).sum() / windows
    even = np.square(present - 1.0 / clients).sum() / windows + (clients - len(key) / windows) / clients**2
    return float(even), float(np.square(present - mean[who]).sum() / windows + max(absent, 0.0))


def recommended_interval(rounds: pl.DataFrame, participations: pl.DataFrame | pl.LazyFrame, clients: int) -> int | None:
    """Return the shortest windows from which longer ones gain only what averaging independent windows gains.

    Let V(P) be P times the unevenness without its long-run part. Were windows of P independent, then V(m P) = V(P). So
    P is recommended where no longer window that is looked at has a V below (1 - tolerance) V(P), and none of 2 P, 4 P,
    8 P, ... has one above (1 + tolerance) V(P). Uniform cohorts have 1, everyone in turn N / B, and cohorts that follow
    the time of day about the rounds of a day. The tolerance is 5 %, widened by three standard deviations of V as chance
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
    measured = unevenness(participations, clients, _looked_at(rounds, alone, clients, most))
    length, windows = measured.intervals, measured.windows
    rate = length * measured.spread * windows / np.maximum(windows - 1, 1)
    rate[rate < _NOTHING * rate.max(initial=0.0)] = 0.0
    slack = _TOLERANCE + _NOISES * np.sqrt(2.0 / ((clients - 1) * np.maximum(windows - 1, 1)))
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


def _looked_at(rounds: pl.DataFrame, alone: Unevenness, clients: int, most: int) -> set[int]:
    lengths = {1, 2, 3, 4, 5, 6, 7}
    if alone.reports:
        lengths.add(round(clients * alone.rounds / alone.reports))
    times = rounds.select(pl.col("opened_s").min(), pl.col("closed_s").max()).row(0)
    if None not in times and times[1] > times[0]:
        per_day = alone.rounds / ((times[1] - times[0]) / DAY_S)
        lengths |= {round(per_day), round(7 * per_day)}
    doubled = {length << power for length in lengths if length > 0 for power in range(max(most, 1).bit_length())}
    return {length for length in doubled if length <= most}


class UnevennessMetrics:
    """The unevenness over windows of `intervals` rounds each and, with `recommend`, the length that is recommended."""

    intervals: list[int]
    """P: rounds of a window."""
    recommend: bool
    """Also find the shortest windows beyond which longer ones gain only by averaging."""

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
        measured = unevenness(run.table, clients, self.intervals)
        metrics: dict[str, float] = {}
        for place, interval in enumerate(measured.intervals.tolist()):
            if measured.windows[place]:
                metrics[f"unevenness.{interval}"] = float(measured.values[place])
                metrics[f"unevenness.{interval}.chance"] = float(measured.chance[place])
        if measured.rounds:
            metrics["unevenness.long_run"] = measured.long_run
        if self.recommend and (best := recommended_interval(run.rounds, run.table, clients)) is not None:
            metrics["unevenness.recommended_interval"] = float(best)
        return metrics
