"""Oort: clients whose samples the model still gets wrong, if they are fast enough, and some who were never heard of.

Lai, Zhu, Madhyastha and Chowdhury, *Oort: Efficient Federated Learning via Guided Participant Selection*, OSDI 2021,
arXiv:2010.06081, Algorithm 1, with the details of the authors' code (github.com/SymbioticLab/Oort, commit 05a3aa1,
``oort/oort.py``) but for its blacklist. In selection t = 1, 2, ... a client that has been heard of has the utility

    U_i = ((min(u_i, c) - m) / r + sqrt(0.1 ln t / l_i)) (T / d_i)^penalty,  the last factor only where d_i > T

with u_i = samples_i x rms loss_i, l_i the selection after which it was last heard of, d_i how long it took, T the
preferred duration, c a quantile of u, and r the range of u above m = 0.999 min u, over the eligible clients with u > 0.

A single place, as a buffered server has, is explored by a draw; the code would explore it always, until all were
heard of. Two things the code is given by its caller. Who was selected and did not report is entered with the mean u
of those who did, and with the time that was waited for it, as FedScale does. Before a client is heard of, u_i = 1,
and d_i is what the others took, scaled by the speeds.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.selection.built_in import raced
from fedsim.selection.law import Candidates, Feedback, Remembers, Request

_Share = Annotated[float, Field(ge=0, le=1)]
_LEAST = 1e-4  # of ranges, durations and sums that divide
_NONE = 1e-300  # a rate that is all but 0
_FLAT, _SHARP = 0.1, 5.0  # relative changes of the utility at which the pacer acts
_EXPLOIT, _EXPLORE, _FILL, _ROUNDING = range(4)  # indices of the draws


@dataclass(eq=False)
class Oort(Remembers):
    """By loss, speed and the time since a client was last heard of, with an exploration that fades (Oort, OSDI 2021).

    It needs feedback, as learning in step with the simulation gives it.
    """

    remembered = (
        *("exploration", "least_exploration", "preferred"),
        *("_utility", "_took", "_heard", "_succeeded", "_exploited", "_gained", "_time"),
    )

    weights: Floats
    exploration: _Share = 0.9
    """Share of a cohort that goes to clients never heard of, at first."""
    exploration_decay: _Share = 0.95
    """Factor on it at each selection."""
    least_exploration: _Share = 0.2
    """It does not fall below this, while there are clients never heard of."""
    preferred: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Quantile of the clients' durations that a round should not exceed, at first; 1 for no preference."""
    penalty: Annotated[float, Field(ge=0, le=100)] = 2.0
    """Exponent of the penalty on slower clients; 0 for none."""
    pacer_step: Annotated[int, Field(ge=1, le=10**6)] = 20
    """Selections after which the preferred duration is reconsidered."""
    pacer_delta: _Share = 0.05
    """By how much its quantile then rises where the utility has become flat, or falls where it changed sharply."""
    clip: _Share = 0.98
    """Quantile at which utilities are clipped."""
    cut_off: _Share = 0.7
    """Clients are drawn by utility among those with at least this share of the utility of the last of the best."""
    window: Annotated[float, Field(ge=1, le=10**6)] = 5.0
    """Clients never heard of are drawn among so many times as are wanted: the best by expected speed."""

    def __post_init__(self) -> None:
        clients = len(self.weights)
        self._utility, self._took, self._heard = np.ones(clients), np.full(clients, np.nan), np.zeros(clients, np.int64)
        self._succeeded = np.zeros(clients, dtype=np.bool_)  # heard of since the last selection
        self._exploited, self._gained, self._time = np.empty(0, dtype=np.int64), np.empty(0), 0

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return those chosen by utility, then some never heard of, then, if any are missing, others at random."""
        self._time += 1
        self._pace()
        eligible = np.flatnonzero(candidates.all_eligible())
        slowness = self._slowness(candidates.speed(np.arange(len(candidates))))
        heard = eligible[self._heard[eligible] > 0]
        scores = self._scores(eligible, heard) * slowness[heard]
        self.exploration = max(self.exploration * self.exploration_decay, self.least_exploration)
        drawn = request.uniforms(0, _ROUNDING)[0] if request.count == 1 else 0.0
        most = min(int(request.count * (1.0 - self.exploration) + drawn), len(heard))
        best = np.argsort(-scores, kind="stable")
        if most < len(best):
            best = best[scores[best] >= scores[best[most]] * self.cut_off]
        chosen = self._exploited = _drawn(request, heard[best], scores[best], most, _EXPLOIT)
        if explores := bool((self._heard == 0).any()):
            unknown = eligible[self._heard[eligible] == 0]
            missing = min(len(unknown), request.count - len(chosen))
            rates = self._utility[unknown] * slowness[unknown]
            first = np.argsort(-rates, kind="stable")[: int(self.window * missing)]
            chosen = np.concatenate([chosen, _drawn(request, unknown[first], rates[first], missing, _EXPLORE)])
        else:
            self.exploration = self.least_exploration = 0.0
        rest = np.setdiff1d(eligible, chosen, assume_unique=True)
        others = _drawn(request, rest, np.ones(len(rest)), request.count - len(chosen), _FILL)
        chosen = np.concatenate([chosen, others])
        self._exploited = self._exploited if explores else chosen  # the code's pacer counts these others then, too
        return chosen

    def take_feedback(self, feedback: Feedback) -> None:
        """Note the utility of those who reported, and the mean of it for those who did not."""
        utility = feedback.samples * feedback.rms_losses
        utility[~feedback.reported] = utility[feedback.reported].mean() if feedback.reported.any() else 0.0
        who = feedback.clients
        self._utility[who], self._took[who], self._heard[who] = utility, feedback.took_s, max(1, self._time)
        self._succeeded[who] = True

    def _pace(self) -> None:
        """Reconsider the preferred duration: relax it where the utility of the exploited has become flat."""
        heard = self._exploited[self._succeeded[self._exploited]]
        gained = self._utility[heard].sum() / (len(heard) + _LEAST)
        step = self.pacer_step
        self._gained = np.append(self._gained, gained)[-2 * step :]
        self._succeeded[:] = False
        if self._time < 2 * step or self._time % step:
            return
        before, now = self._gained[:-step].sum(), self._gained[-step:].sum()
        if abs(now - before) <= _FLAT * before:
            self.preferred = min(1.0, self.preferred + self.pacer_delta)
        elif abs(now - before) >= _SHARP * before:
            self.preferred = max(self.pacer_delta, self.preferred - self.pacer_delta)

    def _slowness(self, speed: Floats) -> Floats:
        """Return the factor (N,) on the utility of each client that takes longer than is preferred."""
        timed = ~np.isnan(self._took)
        usual = float((self._took[timed] * speed[timed]).mean()) if timed.any() else 1.0
        took = np.where(timed, self._took, usual / speed)
        if self.preferred >= 1.0:
            return np.ones(len(took))
        limit = np.sort(took)[min(int(round(len(took) * self.preferred, 9)), len(took) - 1)]
        slow: Bools = took > limit
        return np.where(slow, (limit / np.maximum(took, _LEAST)) ** self.penalty, 1.0)

    def _scores(self, eligible: Ints, heard: Ints) -> Floats:
        """Return the utilities (n,) of the clients heard of, before the penalty on slow ones."""
        utilities = np.sort(self._utility[eligible][self._utility[eligible] > 0])
        if not len(utilities):
            utilities = np.zeros(1)
        clipped = utilities[min(int(len(utilities) * self.clip), len(utilities) - 1)]
        least = utilities[0] * 0.999
        statistical = (np.minimum(self._utility[heard], clipped) - least) / max(utilities[-1] - least, _LEAST)
        uncertain = np.sqrt(0.1 * np.log(self._time) / self._heard[heard])
        return np.asarray(np.maximum(statistical + uncertain, _NONE))


def _drawn(request: Request, clients: Ints, rates: Floats, count: int, index: int) -> Ints:
    """Draw some of the clients (n,) one after the other by rates (n,) among those that are left."""
    return raced(request, clients, np.maximum(rates, _NONE), index)[:count]
