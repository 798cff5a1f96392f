"""REFL: those first who are least likely to be there later.

Abdelmoniem, Sahu, Canini and Fahmy, *REFL: Resource-Efficient Federated Learning*, EuroSys 2023, arXiv:2111.01108,
Intelligent Participant Selection: a round is expected to last mu, a moving average of how long rounds lasted, and
clients are taken in ascending order of the chance that they are there from mu to 2 mu from now, by a draw among equals.
In the paper each device forecasts that chance by itself. Here the server does, from the shares of its own earlier
selections at that hour of the day in which it saw the client eligible, which a cool-down or a session lowers too.
"""

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from fedsim.common.arrays import Floats, Ints
from fedsim.common.instants import HOUR_S
from fedsim.selection.built_in import everyone_eligible
from fedsim.selection.law import Candidates, Feedback, Remembers, Request

_HOURS = 24


class LeastAvailable(Remembers):
    """The least available first, as the server has seen them at that hour of the day (REFL); it needs feedback."""

    remembered = ("_lasts", "_seen", "_selections")
    reads_data = False  # of feedback it takes how long rounds last

    smoothing: float
    """Weight of the earlier rounds in the moving average of how long a round lasts."""

    def __init__(self, weights: Floats, smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.25) -> None:
        self._smoothing, self._lasts = smoothing, math.nan
        self._seen = np.zeros((_HOURS, len(weights)), dtype=np.int32)
        self._selections = np.zeros(_HOURS, dtype=np.int64)

    def select(self, request: Request, candidates: Candidates) -> Ints:
        """Return the clients in ascending order of their chances to be there later."""
        eligible = everyone_eligible(request, candidates)
        now = int(request.now_s // HOUR_S) % _HOURS
        self._seen[now, eligible] += 1
        self._selections[now] += 1
        ahead_s = 0.0 if math.isnan(self._lasts) else 1.5 * self._lasts
        then = int((request.now_s + ahead_s) // HOUR_S) % _HOURS
        chances = (self._seen[then, eligible] + 1.0) / (self._selections[then] + 2.0)
        return eligible[np.lexsort((request.uniforms(eligible), chances))[: request.count]]

    def take_feedback(self, feedback: Feedback) -> None:
        """Note how long the round lasted."""
        before, now = self._lasts, feedback.lasted_s
        self._lasts = now if math.isnan(before) else (1 - self._smoothing) * now + self._smoothing * before
