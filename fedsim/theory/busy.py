"""The mean field of clients that stay away for longer than their separation: late sessions, cool-downs by the clock.

A late session goes on after its round, and a cool-down in hours covers now more rounds, now fewer. Client i, selected
in a round, is ready again after A_i rounds::

    A_i = E[max(R_i + 1, rounds until max(S_i, c_i) is over)]
    P_i = 1 / (A_i - 1 + 1 / h_i)               the share of rounds in which it takes part

with h_i, the chance of a ready client, as in `fedsim.theory.mean_field`: its waits are A_i - 1 rounds. Where only
reports start a rest, a late client waits for the end of its session alone, another one for S_i + c_i.

How long a round lasts depends on who is in it. Of a cohort drawn from the mixture G(t) = sum_i pi_i P(S_i <= t), as
many as are wanted report by t with the probability P(Bin(wanted, G(t)) >= cohort); by the deadline the round closes.
Rounds are independent of each other, and begin a pause after the last. Sums of such rounds are sampled once, with fixed
draws, and counted up to each instant. With over-selection a session is cut short when others complete the cohort.
A and the P_i of all are solved for in turns, until they settle.
"""

from collections.abc import Callable

import numpy as np

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import ChainError
from fedsim.common.keyed import Purpose, stream
from fedsim.common.later import stats
from fedsim.scenario.server import SyncServer
from fedsim.selection.rules import SelectionRule
from fedsim.theory.buffered import LengthDistribution
from fedsim.theory.mean_field import fluctuation, participation
from fedsim.theory.pull import independent_pulls
from fedsim.theory.question import Stationary, normalised

_NODES, _CELLS = 32, 1 << 18  # values of a session and of a round, and of both for all kinds of clients
_PATHS, _LONGEST = 1_000, 200  # sums of rounds, and of how many
_SWEEPS, _SETTLED = 40, 5e-4
_RARE = 5e-4  # chance of a late session that makes no difference
_NOTHING = 1e-3  # rounds of waiting that make no difference
_TIE_S = 1e-6
BUSY = "late sessions or cool-downs by the clock keep clients away for longer than their separation"
_CAVEATS = (f"{BUSY}; the answer is a mean field of that",)
_SPARE = 4.0  # standard deviations of the number of ready clients that must be left


def outlasts(sessions: LengthDistribution, separation: Ints, cooldown_s: Floats, server: SyncServer) -> bool:
    """Say whether a session or a cool-down can outlast the rounds of its client's separation."""
    deadline, rests = server.deadline or np.inf, bool(separation.any() or cooldown_s.any())
    least_s = np.array([each[0] for each in sessions.values])[sessions.group] / sessions.speed
    shortest = min(float(least_s.min()), deadline) if server.fixed_size else 0.0
    between_s = server.pause + separation * (shortest + server.pause)
    if (sessions.share_up_to(np.asarray(deadline + between_s)) < 1.0 - _RARE).any():
        return True
    if server.cooldown_from == "reported":  # late ones do not rest
        late = (sessions.share_up_to(np.full(len(least_s), deadline)) < 1.0 - _RARE).any()
        aborted = server.fixed_size and server.wanted > server.cohort
        return bool((cooldown_s > between_s).any() or (rests and (late or aborted)))
    return bool((cooldown_s > shortest + between_s).any())


def with_busy_clients(
    weights: Floats,
    separation: Ints,
    cooldown_s: Floats,
    sessions: LengthDistribution,
    server: SyncServer,
    rule: SelectionRule,
) -> Stationary | None:
    """Return the participation of always-available clients who are busy; None where that changes next to nothing.

    Raises a `ChainError` if it does not know the law, or so few clients are ready that rounds would wait for them.
    """
    weights, drawn, alone = normalised(weights), rule, rule.says("constant")
    if not (alone or rule.in_blocks or rule.says("mean_chance")):
        weights, _, drawn = rule.reduced(weights, server.wanted)
    if not (alone or drawn.says("mean_chance")):
        raise ChainError(f"{BUSY}, and the mean field of that does not know the law {rule.name!r}")
    columns = np.stack([sessions.group, sessions.speed, separation, cooldown_s])
    _, first, kind = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    kind = kind.ravel()  # numpy 2.0 gives it an axis more
    nodes = max(5, min(_NODES, int(np.sqrt(_CELLS / len(first)))))
    middles, deadline = (np.arange(nodes) + 0.5) / nodes, server.deadline or np.inf
    of_groups = np.array([np.quantile(each, middles, method="inverted_cdf") for each in sessions.values])
    lengths = of_groups[sessions.group[first]] / sessions.speed[first, None]
    rounds, rest_s, late = separation[first].astype(np.float64), cooldown_s[first, None], lengths > deadline
    if rests := server.cooldown_from == "selected":
        until_s, least = np.maximum(lengths * late, rest_s), np.broadcast_to(rounds[:, None], lengths.shape)
    else:
        until_s, least = np.where(late, lengths, lengths + rest_s), rounds[:, None] * ~late
    if not np.isfinite(until_s).all():
        raise ChainError(f"{BUSY}, some of them for ever")
    order = np.argsort(lengths, axis=None)
    ascending, of_kind = np.append(0.0, lengths.ravel()[order]), order // nodes
    draws = stream(0, 0, Purpose.CHAIN).uniforms(np.arange(_PATHS * _LONGEST), 0).reshape(_PATHS, _LONGEST)
    gap = rounds
    for _ in range(_SWEEPS):
        taken, ready = taken_and_ready(weights, gap[kind], server, drawn)
        mixture = np.cumsum(np.bincount(kind, taken / taken.sum())[of_kind]) / nodes
        mixture = np.append(0.0, np.minimum(mixture, 1.0))
        closed = [_closed(mixture, server, float(taken.sum()), reported) for reported in (1, 0)]
        # How long the other clients of a round, and a whole round, take; and when the others complete the cohort.
        others_s, whole_s = (ascending[np.minimum(each.searchsorted(middles), len(ascending) - 1)] for each in closed)
        full = (
            np.asarray(stats.binom.sf(server.cohort - 1, server.wanted - 1, mixture))
            if server.fixed_size
            else 0.0 * mixture
        )
        full_s = np.append(ascending, np.inf)[full.searchsorted(middles)]
        passed = _passed(np.minimum(whole_s, deadline) + server.pause, draws, float(until_s.max()))
        now = np.zeros(len(rounds))
        for other_s, end_s in zip(others_s, full_s, strict=True):
            own_s = np.minimum(np.maximum(lengths, other_s), deadline) + server.pause
            waits = np.maximum(least, passed(until_s - own_s))
            if end_s <= deadline:
                aborted = np.maximum(rounds[:, None], passed(rest_s - end_s - server.pause)) if rests else 0.0
                waits = np.where(lengths > end_s, aborted, waits)
            now += waits.mean(axis=1) / nodes
        change, gap = float(np.abs(now - gap).max()), (gap + now) / 2.0
        if change < _SETTLED * (1.0 + float(gap.max())):
            break
    if float(np.abs(gap - rounds).max()) < _NOTHING:
        return None
    if not alone:
        check_ready(ready, server.wanted)
    common = int(separation[0]) if (separation == separation[0]).all() else separation
    error = fluctuation(weights, taken, np.maximum(ready, 1e-12), drawn, server.wanted)
    chances, pi = taken if alone else taken / ready, taken / taken.sum()
    pull = None if server.fixed_size else independent_pulls(taken, chances)
    return Stationary(weights, common, server.wanted, rule, pi, "mean-field", error, caveats=_CAVEATS, pull=pull)


def is_busy(answer: Stationary) -> bool:
    """Say whether an answer is that of `with_busy_clients`."""
    return answer.caveats == _CAVEATS


def check_ready(ready: Floats, wanted: int) -> None:
    """Raise a `ChainError` where fewer clients than are wanted may be ready in a round, by their chances (N,)."""
    mean, spread = float(ready.sum()), float(np.sqrt((ready * (1.0 - ready)).sum()))
    if mean - wanted < _SPARE * spread:
        raise ChainError(
            f"rounds lack clients at times: of {len(ready):,} about {mean:.3g} are ready for a round, give or take "
            f"{spread:.2g}, and it selects {wanted:,}"
        )


def taken_and_ready(weights: Floats, gap: Floats, server: SyncServer, rule: SelectionRule) -> tuple[Floats, Floats]:
    """Return the share of rounds in which each client takes part, and that in which it is ready."""
    if rule.says("constant"):
        chances = rule.constant(weights, server.wanted)
        ready = 1.0 / (1.0 + gap * chances)
        return chances * ready, ready
    if (most := float((1.0 / (1.0 + gap)).sum())) <= server.wanted * (1.0 + 1e-9):
        raise ChainError(
            f"rounds lack clients at times: {len(gap):,} clients can take part {most:.3g} times a round at most, and "
            f"it selects {server.wanted:,}"
        )
    return participation(weights, gap, server.wanted, rule)


def _closed(mixture: Floats, server: SyncServer, size: float, reported: int) -> Floats:
    """Return the chance that a round with a mixture (n,) of sessions may close; `known` of them have reported."""
    if not server.fixed_size:
        return np.exp(-size * (1.0 - mixture))
    return np.asarray(stats.binom.sf(server.cohort - reported - 1, server.wanted - reported, mixture))


def _passed(lengths_s: Floats, draws: Floats, most_s: float) -> Callable[[Floats], Floats]:
    """Return the function for how many rounds begin, on average, before so many seconds are over (n,)."""
    mean_s = float(lengths_s.mean())
    if not mean_s:
        raise ChainError("rounds take no time, so that busy clients never come back")
    count = int(min(_LONGEST, 1.5 * most_s / mean_s + 20.0))
    sums_s = np.cumsum(lengths_s[(draws[:, :count] * len(lengths_s)).astype(np.int64)], axis=1)
    ends_s, known_s = np.sort(sums_s, axis=None), float(sums_s[:, -1].min())

    def passed(time_s: Floats) -> Floats:
        counted = 1.0 + np.searchsorted(ends_s, np.minimum(time_s, known_s) - _TIE_S) / _PATHS
        return np.where(time_s <= _TIE_S, 0.0, counted + np.maximum(time_s - known_s, 0.0) / mean_s)

    return passed
