"""The mean field of a buffered server: how often each client is in a session, in continuous time.

A client's cycle is its session, what then still keeps it out, and its wait for a free place::

    r_i = 1 / (A_i + W_i)                       cycles per second
    A_i = E[max(S_i, c_i, T (R_i + u))]         rest begins with the selection; S_i its session, c_i its cool-down
    A_i = E[S_i] + q_i E[max(c_i, T (R_i + u))]   rest begins with a report that was taken, the share q_i
    T   = B / sum_i q_i r_i                     how long a version lasts

u is the share of the running version that is still to come: of its B reports, as many are missing at a selection as at
a moment just after a report, uniformly 1..B, and just after the own report 0..B-1.

All C places are taken as long as somebody waits. Places come free at the rate Phi = sum_i r_i, and each is given by
weight among those who wait: client i is taken with chance a_i = p_i / M_i, M_i being the mean weight of those who
wait at such an instant, client i among them. The number of such instants until it is taken is geometric; the first
comes at once where the wait begins at one, as after a session or with a new version, and after 1 / Phi where a
cool-down on the clock has ended, the share k_i::

    W_i = (1 / a_i - 1 + k_i) / Phi
    M_i = M + (1 - w_i) p_i - u_i sum_j w_j u_j p_j / sum_j u_j (1 - u_j),         M = sum_j w_j p_j
    sum_i r_i E[S_i] = C                        Little's law, which gives M

with w_i = r_i / (a_i Phi) the chance that client i is among those who wait at such an instant, and u_i = r_i E[S_i] the
chance that it is in a session. The second term of M_i is the client's own weight, the third that of the others, one
more of which is in a session because it is not: there are always C.

Where everyone together cannot keep C places busy, W_i = 0. So at equal weights a client takes part the more often the
shorter A_i is: fast devices are over-represented, the more so the less everyone waits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import ChainError
from fedsim.common.later import optimize, special
from fedsim.selection.rules import MIDZUNO, rule_of
from fedsim.theory.question import AnyRule, Stationary, normalised, separations
from fedsim.theory.stationary import stationary

_SWEEPS = 2_000
_SETTLED = 1e-11
_STEPS = 16  # of u, where the buffer is larger
_TOO_FEW = (
    "with these separations the {buffer} reports of a version cannot come together for ever, for a client makes one in "
    "R + 1 versions at most: lower the separations or the buffer"
)
_NO_REPORT = (
    "no report would be taken, for each comes after the deadline or is staler than max_staleness, so no version is "
    "ever complete: raise the deadline or max_staleness"
)
_FEW = 50  # lengths that are so few come together at one instant


@dataclass(frozen=True)
class LengthDistribution:
    """Session lengths L_i = Y_g / v_i of clients i in groups g, of which expectations are taken for all at once."""

    group: Ints  # (N,) the index of each client's group
    speed: Floats  # (N,) v_i
    values: tuple[Floats, ...]  # for each group the equally likely values of Y_g in ascending order, seconds
    tails: tuple[Floats, ...]  # for each group the sums of its largest values: of all, of all but the first, ..., none
    limit_s: float  # sessions end after this time at the latest, without a report

    @classmethod
    def of(cls, group: Ints, speed: Floats, values: Sequence[Floats], limit_s: float = float("inf")) -> Self:
        """Return the distribution; the values are put in order."""
        ordered = tuple(np.sort(each) for each in values)
        tails = tuple(np.append(np.cumsum(each[::-1])[::-1], 0.0) for each in ordered)
        return cls(group, speed, ordered, tails, limit_s)

    def mean(self) -> Floats:
        """Return E[min(L, limit)], (N,)."""
        return self.excess(np.zeros(len(self.speed)))

    def report_share(self) -> Floats:
        """Return P(L <= limit), (N,): sessions that are longer do not report."""
        return self._share_up_to(np.full(len(self.speed), self.limit_s))

    def share_up_to(self, bound_s: Floats) -> Floats:
        """Return P(min(L, limit) <= bound), (N,)."""
        return np.where(bound_s >= self.limit_s, 1.0, self._share_up_to(bound_s))

    def excess(self, bound_s: Floats) -> Floats:
        """Return E[max(min(L, limit) - bound, 0)], (N,)."""
        excess = self._excess(bound_s)
        if np.isfinite(self.limit_s):
            excess = np.maximum(excess - self._excess(np.maximum(bound_s, self.limit_s)), 0.0)
        return excess

    def distinct(self) -> int | None:
        """Return how many lengths there are, if each client has one only, else None."""
        if any(each[0] != each[-1] for each in self.values):
            return None
        each = np.array([values[0] for values in self.values])[self.group] / self.speed
        return len(np.unique(np.minimum(each, self.limit_s)))

    def _share_up_to(self, bound_s: Floats) -> Floats:
        bound, shares = bound_s * self.speed, np.empty(len(bound_s))
        for index, values in enumerate(self.values):
            members = self.group == index
            # A bound that is a length but for rounding is reached.
            shares[members] = np.searchsorted(values, bound[members] * (1 + 1e-12), side="right") / len(values)
        return shares

    def _excess(self, bound_s: Floats) -> Floats:
        bound, excess = bound_s * self.speed, np.empty(len(bound_s))
        for index, (values, tails) in enumerate(zip(self.values, self.tails, strict=True)):
            members = self.group == index
            first = np.searchsorted(values, bound[members], side="right")
            above = np.where(first < len(values), bound[members], 0.0) * (len(values) - first)
            excess[members] = (tails[first] - above) / len(values)
        return np.maximum(excess, 0.0) / self.speed


@dataclass(frozen=True)
class Asynchronous:
    """A buffered server and its clients.

    Laws that take one client of a round by weight, or each, agree where one place is given at a time.
    """

    weights: Floats  # (N,) p_i, of which only ratios matter
    separation: Ints  # (N,) R_i in versions
    cooldown_s: Floats  # (N,) c_i
    lengths: LengthDistribution  # of sessions
    concurrency: int  # C places
    buffer: int  # B reports make a version
    rule: AnyRule = MIDZUNO
    rest_from: str = "selected"  # what starts separation and cool-down: "selected" or "reported"
    max_staleness: int | None = None  # reports that are staler are not taken


@dataclass(frozen=True)
class Flow:
    """Long-run participation under a buffered server; the cohort of `stationary` is the concurrency."""

    stationary: Stationary  # pi_i = r_i / sum_j r_j
    rate: Floats = field(repr=False)  # (N,) r_i, participations per second
    wait_s: Floats = field(repr=False)  # (N,) W_i
    version_s: float  # T
    utilisation: float  # share of the places that are taken


def asynchronous(question: Asynchronous) -> Flow:
    """Return the long-run participation of always-available clients under a buffered server.

    Sessions that are all of one length stay in step for ever: they are the rounds of a synchronous server with cohorts
    of C, whose chain is asked then. The mean field leaves out that who waits fluctuates: `error_bound` is an estimate
    of the largest relative error, no bound: 2 sum_i s_i^2 (1 - w_i), with i's share s_i = w_i p_i / M of the waiting
    weight; the variance of the rate at which sessions end, sum_i u_i (1 - u_i) (1 / E[S_i] - mean)^2 / Phi^2; and the
    share of the places that chance alone leaves free or keeps taken where demand and places are close. All three fall
    as 1 / N or faster.

    Raises a `ChainError` if separations, deadline or staleness let no version be completed in the long run, or the law
    is one that the mean field does not know.
    """
    if not question.lengths.report_share().any():
        raise ChainError(_NO_REPORT)
    few = question.lengths.distinct()
    if few == 1 and not question.cooldown_s.any() and (in_step := _in_step(question)) is not None:
        return in_step
    rule = rule_of(question.rule)
    shares, _, of_one = rule.reduced(normalised(question.weights), 1)
    if (unhindered := _unhindered(question)) is not None:
        return unhindered
    if rule.in_blocks or not of_one.one_by_weight:
        raise ChainError(f"the mean field of a buffered server does not know {rule.name!r}: it gives places by weight")
    if rule.one_by_weight and np.ptp(shares) > 0 and few is not None and few < _FEW:
        raise ChainError(
            f"sessions of so few lengths end together, and of several places {rule.name!r} gives one alone by weight, "
            "which the mean field does not follow: take random lengths or speeds, or a law that draws all by weight"
        )
    return _saturated(question, shares)


def _in_step(question: Asynchronous) -> Flow | None:
    """Return the answer where all sessions begin and end together, if versions do so too."""
    places, buffer = question.concurrency, question.buffer
    if places % buffer or (question.rest_from == "reported" and places != buffer) or places > len(question.weights):
        return None
    if question.max_staleness is not None and places // buffer > question.max_staleness + 1:
        return None
    # A batch of C sessions is C / B versions long, of which R + 1 have to pass.
    batches = -(-(question.separation + 1) * buffer // places) - 1
    answer = stationary(question.weights, batches, places, question.rule)
    length_s = float(question.lengths.mean()[0])
    rate = answer.pi * places / length_s
    wait_s = np.asarray(1.0 / rate) - length_s * (batches + 1)
    return Flow(answer, rate, wait_s, length_s * buffer / places, 1.0)


def _shares_of_version(question: Asynchronous) -> Floats:
    """Return values of u, equally likely."""
    first = 0.5 if question.buffer > _STEPS else float(question.rest_from == "selected")
    steps = min(question.buffer, _STEPS)
    return np.asarray((np.arange(steps) + first) / steps)


class _Away(NamedTuple):
    """A_i; the share q_i of sessions whose report is taken; the share k_i of waits that no end of a session begins."""

    time_s: Floats
    taken: Floats
    by_clock: Floats


def _away(question: Asynchronous, version_s: float) -> _Away:
    lengths, cooldown_s = question.lengths, question.cooldown_s
    taken = lengths.report_share()
    if question.max_staleness is not None:
        # As many versions begin in a session of length L as L / T plus a phase: at most m with chance m + 1 - L / T.
        fresh = [
            bound - lengths.mean() / version_s + lengths.excess(np.full(len(taken), bound * version_s)) / version_s
            for bound in (question.max_staleness + 1.0, float(question.max_staleness))
        ]
        taken = np.minimum(taken, np.clip(fresh[0] - fresh[1], 0.0, 1.0))
    shares = _shares_of_version(question)
    time_s, by_clock = np.zeros(len(taken)), np.zeros(len(taken))
    for share in shares:
        versions_s = version_s * (question.separation + share)
        out_s = np.maximum(cooldown_s, versions_s)
        by_cooldown = cooldown_s > versions_s
        if question.rest_from == "selected":
            time_s += (out_s + lengths.excess(out_s)) / len(shares)
            by_clock += by_cooldown * lengths.share_up_to(cooldown_s) / len(shares)
        else:
            time_s += (lengths.mean() + taken * out_s) / len(shares)
            by_clock += by_cooldown * taken / len(shares)
    return _Away(time_s, taken, by_clock)


def _unhindered(question: Asynchronous) -> Flow | None:
    """Return the answer where nobody waits for a place, or None where they do."""

    def too_many(log_s: float) -> float:
        away = _away(question, float(np.exp(log_s)))
        return float(np.exp(log_s)) * float((away.taken / away.time_s).sum()) / question.buffer - 1.0

    if float((1.0 / (1.0 + question.separation)).sum()) < question.buffer * (1.0 - 1e-12):
        raise ChainError(_TOO_FEW.format(buffer=question.buffer))
    scale = float(np.log(question.lengths.mean().mean() * question.buffer / question.concurrency))
    low, high = scale - 10.0, scale + 10.0
    while too_many(low) > 0.0:
        low -= 10.0
    while too_many(high) < 0.0:
        high += 10.0
        if high > scale + 60.0:
            raise ChainError(_TOO_FEW.format(buffer=question.buffer))
    version_s = float(np.exp(optimize.brentq(too_many, low, high, xtol=1e-12)))
    rate, session_s = 1.0 / _away(question, version_s).time_s, question.lengths.mean()
    if float(rate @ session_s) > question.concurrency:
        return None
    return _flow(question, rate, np.zeros(len(rate)), version_s, _idle_places(question, rate * session_s))


def _saturated(question: Asynchronous, shares: Floats) -> Flow:
    """Return the answer where places are always taken: sweeps over Phi, T and w, with M solved for in each."""
    session_s, places = question.lengths.mean(), question.concurrency
    ends = places / float(session_s.mean())
    version_s = question.buffer / (ends * max(float(question.lengths.report_share().mean()), 1e-12))
    waiting, busy = np.zeros(len(shares)), np.full(len(shares), places / len(shares))
    for _ in range(_SWEEPS):
        away = _away(question, version_s)
        pull = float((waiting * busy) @ shares) / max(float(busy @ (1.0 - busy)), 1e-300)
        less = waiting + busy * pull / shares - away.by_clock
        mass = _mass(away, session_s, shares, less, ends, places)
        wait_s = np.maximum(mass / shares - less, 0.0) / ends
        rate = 1.0 / (away.time_s + wait_s)
        # 1 / a_i is one more than the instants that are waited for.
        among = np.clip(rate * (wait_s * ends + 1.0 - away.by_clock) / float(rate.sum()), 0.0, 1.0)
        reports = float(rate @ away.taken)
        if reports == 0.0:
            raise ChainError(_NO_REPORT)
        now = (float(rate.sum()), question.buffer / reports)
        change = max(abs(now[0] / ends - 1.0), abs(now[1] / version_s - 1.0), float(np.abs(among - waiting).max()))
        # Half a step at a time: short versions let clients back sooner, and that makes versions shorter still.
        ends, version_s, waiting = np.sqrt(ends * now[0]), np.sqrt(version_s * now[1]), 0.5 * (waiting + among)
        busy = np.minimum(rate * session_s, 1.0)
        if change < _SETTLED:
            break
    else:
        raise ChainError("the mean field of the buffered server did not settle")
    share = waiting * shares / max(float(waiting @ shares), 1e-300)
    error = 2.0 * float((share**2 * (1.0 - waiting)).sum()) + _idle_places(question, session_s / away.time_s)
    # The variance of the rate at which sessions end, as their clients change and their number does not.
    spread, pace = busy * (1.0 - busy), 1.0 / session_s
    mean = float(spread @ pace) / max(float(spread.sum()), 1e-300)
    error += float(spread @ (pace - mean) ** 2) / ends**2
    return _flow(question, rate, wait_s, version_s, error)


def _mass(away: _Away, session_s: Floats, shares: Floats, less: Floats, ends: float, places: int) -> float:
    """Return M, at which all places are taken; 0 where they are not even if nobody waits for long."""

    def spare(log_mass: float) -> float:
        wait_s = np.maximum(np.exp(log_mass) / shares - less, 0.0) / ends
        return float((session_s / (away.time_s + wait_s)).sum()) - places

    if spare(-50.0) <= 0.0:
        return 0.0
    return float(np.exp(optimize.brentq(spare, -50.0, 50.0, xtol=1e-13, rtol=1e-13)))


def _idle_places(question: Asynchronous, busy: Floats) -> float:
    """Return the share of places that chance leaves free, or that it keeps from those who want them.

    `busy`, (N,), is the chance to be in a session if nobody had to wait for a place.
    """
    busy = np.minimum(busy, 1.0)
    spread = float(np.sqrt((busy * (1.0 - busy)).sum()))
    if spread == 0.0:
        return 0.0
    far = abs(question.concurrency - float(busy.sum())) / spread
    density = np.exp(-far * far / 2.0) / np.sqrt(2.0 * np.pi)
    return float(spread * (density - far * special.ndtr(-far)) / question.concurrency)


def _flow(question: Asynchronous, rate: Floats, wait_s: Floats, version_s: float, error: float) -> Flow:
    asked = normalised(question.weights), separations(question.separation, len(rate)), question.concurrency
    pi = rate / rate.sum()
    answer = Stationary(*asked, rule_of(question.rule), pi, method="mean-field", error_bound=min(1.0, error))
    utilisation = min(1.0, float(rate @ question.lengths.mean()) / question.concurrency)
    return Flow(answer, rate, wait_s, float(version_s), utilisation)
