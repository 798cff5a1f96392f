r"""The mean field of synchronous rounds of devices that come and go: how often each takes part.

It is given when rounds selected, and how many, and reads from the availability models who was available then and stayed
for a session. Device i is eligible in round t with the probability e_i(t) = A_i(t) u_i(t): A_i says whether it is
available, and it is not cooling down with

    u_i(t) = 1 - sum of q_i(s) over the earlier rounds s after which it still rests,

for it rests after one of these at most: until its separation and its cool-down are over, and a session that outlasts
its round, of equally likely lengths. It takes part with q_i(t) = e_i(t) h_i(t), where h_i, the chance of an eligible
device, is by the rule of selection (`fedsim.selection.rules`), so that sum_i q_i(t) = B_t. With fewer than B_t to be
expected all of them take part. If n devices report, each has the weight 1/n in the mean that moves the model: the pull
of device i is q_i(t) r_i(t) E[1/(1 + K)], r_i being its chance to report when selected, and K the number of the others'
reports, taken to be binomial with the mean and the variance of the reports of such a cohort (Hajek's approximation,
where its size is fixed).

With one draw the weight that i competes with is as `fedsim.selection.eligible_weight` says; otherwise it is as large as
expected. Where all devices are always available and none rests, all but successive draws are exact. Counts vary
as those of a renewal process: the variance of i's is the sum of q_i(t) (1 - h_i(t)) u_i(t)^2, of q_i(t) times the
variance of 1 - u_i(t) over lengths of late sessions, and of what its reports add, which late sessions lack; the number
of all reports varies too, since some who are selected fail. What is left out is that those who rest depend on one
another: a part (1 - u_i) y / M of h_i, y being the mean weight of those who rest, which changes q_i by u_i times that.
It is an estimate of the error.

References
----------
B. Rosén, *Asymptotic theory for successive sampling with varying probabilities without replacement*, Annals of
Mathematical Statistics 43, 1972.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fedsim.availability.population import strata
from fedsim.availability.shocks import availability_of
from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.errors import ChainError
from fedsim.common.instants import DAY_S, FOREVER, each_to_ms, to_ms
from fedsim.common.later import special
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.population import Population
from fedsim.scenario import Scenario
from fedsim.scenario.server import SyncServer
from fedsim.selection.laws import law_of, theory_of
from fedsim.selection.rules import RULES, SelectionRule
from fedsim.theory.prediction import cap_binds, session_kinds

_MOST_NUMBERS = 1 << 27  # chances that are remembered at once: of every device in the rounds for which one may rest
_MOST_BYTES = 1 << 28  # one for each device and round that is looked at
_STEPS, _CLOSE = 100, 1e-9  # of iterations, and how close they have to come
_AT_ONCE = 1 << 22
_LENGTHS = 16
_SURE = 255
_WHOLE = 0.25  # variance of a whole number whose mean is half-way between two


def by_weights(
    scenario: Scenario, population: Population, rounds: pl.DataFrame, replicate: int = 0, *, means: bool | None = None
) -> Callable[[Floats], "ExpectedReports"]:
    """Return what the mean field expects of each device, as a function of the weights (N,).

    The `shares` are pulls on the model; shares of reports where the server divides by a fixed number, or `means` is
    False.

    Of long runs of many devices the first rounds are taken, 2^28 / N of them, but not less than a day's.

    Of the table of rounds, ``round``, ``selected_s`` and ``selected`` are read.

    Raises a `ChainError` if it does not know of something in the scenario, no report is to be expected, or a day's
    rounds are too many.
    """
    server, unknown = scenario.server, why_not(scenario, population)
    if unknown or not server.selects_once:
        raise ChainError(f"the mean field of devices that come and go does not know of {unknown}")
    drawn = pl.col("selected_s").is_not_null() & (pl.lit(not server.fixed_size) | (pl.col("selected") > 0))
    began = rounds.filter(drawn).sort("round")
    most = _MOST_BYTES // len(population)
    if len(began) > most:
        days = (began["selected_s"].head(most).to_numpy()[[0, -1]] if most else np.zeros(2)) / DAY_S
        if days[1] - days[0] < 1.0:
            raise ChainError(
                f"the mean field of devices that come and go can look at {most:,} rounds of {len(population):,} "
                "devices, which are less than a day"
            )
        began = began.head(most)
    sizes = began["selected"].to_numpy().astype(np.int64)
    if not server.fixed_size:
        sizes = np.full(len(sizes), server.wanted)
    instants = began["selected_s"].to_numpy().astype(np.float64)
    codes = _codes(scenario, server, population, each_to_ms(instants), replicate)

    def reporting(place: int) -> tuple[NDArray[np.intp], Floats]:
        who = np.flatnonzero(codes[place])
        return who, (codes[place, who] - 1.0) / (_SURE - 1)

    selections = Selections(began["round"].to_numpy().astype(np.int64), instants, sizes)
    lengths, limit_s = _lengths(scenario, population) / population.speed[:, None], server.deadline or np.inf
    late, rest_s, rule = lengths > limit_s, population.cooldown_s[:, None], law_of(server)
    rest_s = np.maximum(rest_s, np.where(late, lengths, 0.0)) if late.any() else rest_s
    means = scenario.divisor is None if means is None else means

    def expected(weights: Floats) -> ExpectedReports:
        field = expected_reports(weights, population.separation, rest_s, rule, selections, reporting, late, means=means)
        if not field.reports.any():
            raise ChainError("the mean field of devices that come and go expects no report of anybody")
        return field

    return expected


def why_not(scenario: Scenario, population: Population) -> str | None:
    """Say what in a scenario the mean field does not know of; None where it knows of everything."""
    server = scenario.server
    if any(getattr(group.availability, "drift", None) for group in scenario.population):
        return "habits that drift (availability.drift), for which it has no long run"
    if scenario.beside:
        return f"other jobs on the fleet ({', '.join(scenario.beside)}), which take devices away"
    if scenario.most_a_day is not None:
        return "a limit per day (most_a_day)"
    if not server.selects_once:
        return "a buffered server; it is for synchronous rounds"
    rule, rests = theory_of(server.selection), bool(population.separation.any() or population.cooldown_s.any())
    if rule is None or not rule.says("chances_now"):
        names = ", ".join(name for name, each in RULES.items() if each.says("chances_now"))
        return f"the selection law {server.selection.kind!r}; it knows {names}"
    if unknown := [cause for outcome, cause in scenario.losses.items() if not SESSION_OUTCOMES[outcome].by_device]:
        return unknown[0]
    if any(group.session.fails for group in scenario.population):
        return "session.fails, by which sessions end while their device stays available"
    if server.check_ins is not None:
        return "server.check_ins, by which only connected devices are seen"
    if server.minimum_reports > 1:
        return "server.minimum_reports, by which rounds fail"
    if server.overtime:
        return "server.overtime, by which rounds outlast their deadline"
    if server.cooldown_from == "reported" and rests:
        return "cool-downs that only a report starts (server.cooldown_from)"
    try:
        session_kinds(scenario, population)
    except ChainError as error:
        return str(error)
    return "a cap on participations that can be reached" if cap_binds(scenario, population) else None


def _codes(
    scenario: Scenario, server: SyncServer, population: Population, instants: Ints, replicate: int
) -> NDArray[np.uint8]:
    """Return for each instant and device 0 where it is not available, else 1 + 254 times the chance that it reports."""
    size, rounds = len(population), len(instants)
    codes = np.zeros((rounds, size), dtype=np.uint8)
    lengths = _lengths(scenario, population)
    limit = FOREVER if server.deadline is None else to_ms(server.deadline)
    place = strata(scenario, population)
    step = max(1, _AT_ONCE // (rounds + 1))
    for first in range(0, size if rounds else 0, step):
        clients = np.arange(first, min(first + step, size))
        taken = each_to_ms(lengths[clients] / population.speed[clients, None])
        until = int(instants[-1]) + min(int(taken.max()), limit) + 1
        spells = availability_of(scenario, place, replicate).spells(clients, int(instants[0]), until)
        begins, ends = (np.searchsorted(instants, each, side="left") for each in (spells.starts, spells.ends))
        there = _covered(spells.who, begins, ends, len(clients), rounds)
        reports = np.zeros(there.shape)
        for number in range(taken.shape[1]):
            session = taken[spells.who, number]
            last = np.searchsorted(instants, spells.ends - session, side="right")
            stays = np.where(session <= limit, np.clip(last, begins, ends), begins)
            reports += _covered(spells.who, begins, stays, len(clients), rounds)
        share = np.rint((_SURE - 1) * reports / taken.shape[1])
        codes[:, clients] = np.where(there > 0, 1 + share, 0).astype(np.uint8).T
    return codes


def _covered(
    who: NDArray[np.intp], begins: NDArray[np.intp], ends: NDArray[np.intp], clients: int, instants: int
) -> NDArray[np.int32]:
    """Return in how many of the ranges [begins, ends) of each client every instant lies, shape (clients, instants)."""
    size = clients * (instants + 1)  # counted flat: a tenth of the time of `np.add.at` with two indices
    begun, over = (np.bincount(who * (instants + 1) + at, minlength=size) for at in (begins, ends))
    steps = (begun - over).astype(np.int32).reshape(clients, instants + 1)
    return np.cumsum(steps, axis=1, dtype=np.int32)[:, :instants]


def _lengths(scenario: Scenario, population: Population) -> Floats:
    """Return equally likely lengths of each client's session at speed 1, (N, n)."""
    kind, values = session_kinds(scenario, population)
    if not all(len(each) == 1 for each in values):
        middles = (np.arange(_LENGTHS) + 0.5) / _LENGTHS
        values = [np.quantile(each, middles) for each in values]
    return np.array(values)[kind]


class ExpectedReports(NamedTuple):
    """How many reports of each device are to be expected, and how far their number may be from it, (N,) each."""

    reports: Floats
    spread: Floats  # standard deviation by chance, and an estimate of what the mean field is off

    @property
    def shares(self) -> Floats:
        """Return each device's share of the reports, (N,), sum 1."""
        return np.asarray(self.reports / self.reports.sum())

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return between which shares each device's share of the reports of such a run lies with this confidence."""
        half = float(special.ndtri((1.0 + confidence) / 2.0)) * self.spread / self.reports.sum()
        return np.maximum(self.shares - half, 0.0), self.shares + half


@dataclass(frozen=True)
class Selections:
    """When a server selected, and how many clients, in T rounds."""

    rounds: Ints  # numbers, ascending
    instants: Floats  # seconds, ascending
    sizes: Ints  # B_t

    def first_within(
        self, now: int | Ints, separation: Ints, cooldown_s: Floats
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return after which selection a device still rests at the selection `now`, by rounds and by length alone."""
        by_round = np.searchsorted(self.rounds, self.rounds[now] - separation, side="left")
        return by_round, np.searchsorted(self.instants, self.instants[now] - cooldown_s, side="right")


class _Rests:
    """How likely each device still rests, by the chances with which past selections took it."""

    def __init__(self, separation: Ints, rest_s: Floats, late: Bools | None, selections: Selections) -> None:
        """Rests are equally likely `rest_s` (N, k), some after sessions that were `late` (N, k) and did not report."""
        places = np.arange(len(selections.rounds))
        since = np.minimum(*selections.first_within(places, separation.max(initial=0), rest_s.max(initial=0.0)))
        longest = int((places - since).max(initial=0))
        depth = longest + 1 if longest > 0 else 0  # selections over which one may rest, that which began it included
        who = np.flatnonzero((separation > 0) | (rest_s > 0.0).any(axis=1)) if depth else np.zeros(0, dtype=np.intp)
        if depth * len(who) > _MOST_NUMBERS:
            raise ChainError(
                f"the mean field of devices that come and go remembers {depth:,} rounds of {len(who):,} devices that "
                f"rest so long; it can remember {_MOST_NUMBERS:,} chances"
            )
        self.who, self.selections = who, selections
        # Devices with the same rest begin it at the same selection: one search for all of them, not one for each.
        self.separations, self.of_separation = np.unique(separation[who, None], return_inverse=True)
        self.lengths_s, self.of_length = np.unique(rest_s[who], return_inverse=True)
        self.reported = None if late is None or rest_s.shape[1] == 1 else ~late[who]
        self.past, self.oldest = np.zeros((depth, len(who))), np.zeros(self.of_length.shape, dtype=np.int64)
        self.cooling: Floats = np.zeros(self.of_length.shape)
        self.answer = np.zeros((3, len(separation)))

    def at(self, now: int) -> Floats:
        """Return (3, N): the chances at a selection, their variance by length, and covariance with not reporting."""
        of_round, of_instant = self.selections.first_within(now, self.separations, self.lengths_s)
        since = np.minimum(np.minimum(of_round, now)[self.of_separation], of_instant[self.of_length])
        while (over := self.oldest < since).any():
            row, length = np.nonzero(over)
            self.cooling[row, length] -= self.past[self.oldest[row, length] % len(self.past), row]
            self.oldest[row, length] += 1
        self.answer[0, self.who] = mean = (
            self.cooling[:, 0] if self.cooling.shape[1] == 1 else self.cooling.mean(axis=1)
        )
        if self.reported is not None:
            apart = self.cooling - mean[:, None]
            self.answer[1:, self.who] = (apart**2).mean(axis=1), -(apart * self.reported).mean(axis=1)
        return self.answer

    def begin(self, now: int, taken: NDArray[np.intp], chosen: Floats) -> None:
        """Let those taken at a selection rest, with these chances (n,)."""
        if len(self.past):
            newest = np.zeros(self.answer.shape[1])
            newest[taken] = chosen
            self.past[now % len(self.past)] = newest[self.who]
            self.cooling += newest[self.who, None]


def expected_reports(
    weights: Floats,
    separation: Ints,
    cooldown_s: Floats,
    rule: SelectionRule,
    selections: Selections,
    reporting: Callable[[int], tuple[NDArray[np.intp], Floats]],
    late: Bools | None = None,
    *,
    means: bool = False,
) -> ExpectedReports:
    """Return how many reports of each device are to be expected, (N,), and how far they may be off.

    With `means` each of the n reports of a round counts 1/n in the expectation. A device rests for `cooldown_s` (N,),
    or for one of so many equally likely (N, k), after sessions of which those that are `late` (N, k) bring no report.

    `reporting` returns, for the place of a selection, the devices that are available then, and for each of them the
    chance that it reports if it is selected.

    Raises a `ChainError` if too many chances had to be remembered.
    """
    clients = len(weights)
    rests = _Rests(separation, cooldown_s.reshape(clients, -1), late, selections)
    expected, counts, variance, with_all, error = np.zeros((5, clients))
    of_all = 0.0
    for now in range(len(selections.rounds)):
        resting, by_length, lacking = rests.at(now)
        who, reports = reporting(now)
        eligible, own_weights = np.clip(1.0 - resting[who], 0.0, 1.0), weights[who]
        spread = np.maximum(resting * (1.0 - resting), 0.0)
        chances = rule.chances_now(eligible, own_weights, float(selections.sizes[now]))
        chosen = eligible * chances
        noise = reports**2 * chosen * ((1.0 - chances) * eligible**2 + by_length[who])
        noise += reports * chosen * (1.0 - reports + 2.0 * lacking[who])
        variance[who] += noise
        if not rule.fixed_size:
            with_all[who] += noise
            of_all += float(noise.sum())
        else:
            loose, apart = _loose(chosen, reports)
            with_all[who] += reports * ((1.0 - reports) * chosen + loose * apart)
            of_all += float(chosen @ (reports * (1.0 - reports)) + loose @ apart**2)
        typical = float(spread[who] @ own_weights) / ((float(spread.sum()) * float(eligible @ own_weights)) or 1.0)
        error[who] += reports * chosen * eligible * (1.0 - eligible) * typical
        worth = _inverse_size(chosen, reports, None if rule.fixed_size else chances) if means else 1.0
        counts[who] += chosen * reports
        expected[who] += chosen * reports * worth
        rests.begin(now, who, chosen)
    share = counts / (float(counts.sum()) or 1.0)
    variance += share**2 * of_all - 2.0 * share * with_all  # what a share is a share of varies
    spread = np.sqrt(np.maximum(variance, _WHOLE) + error**2)
    return ExpectedReports(expected, spread * expected / np.maximum(counts, 1e-300))


def _inverse_size(chosen: Floats, reports: Floats, chances: Floats | None) -> Floats:
    """Return E[1/|S| given i in S], (n,), of devices that are selected and then report with these probabilities.

    `chances` are those of eligible devices, where each is selected by itself; None where the size is fixed.
    """
    mean, part = float(chosen @ reports), reports
    if chances is None:
        loose, apart = _loose(chosen, reports)
        spread = float(chosen @ (reports * (1.0 - reports))) + float(loose @ np.square(apart))
        part = reports - (1.0 - chosen) * apart  # what the place of i would give
    else:
        part = chances * reports
        spread = float(chosen @ (reports * (1.0 - part)))
    step = min(1.0, max(1e-9, 1.0 - spread / mean)) if mean else 1.0
    trials = np.maximum(mean - part, 0.0) / step + 1.0
    return np.asarray(-np.expm1(trials * np.log1p(-min(step, 1 - 1e-15))) / (trials * step))


def _loose(chosen: Floats, reports: Floats) -> tuple[Floats, Floats]:
    """Return how much each one's selection varies, and its reports' chance less that of who would take its place."""
    loose = chosen * (1.0 - chosen)
    return loose, reports - float(loose @ reports) / (float(loose.sum()) or 1.0)
