"""How long a run of a sweep may take before it is given up, unless somebody says so."""

from collections.abc import Callable
from dataclasses import replace

from fedsim.sweeps.plan import Plan, PlannedRun, estimates

LEAST_S, TIMES, OTHERWISE_S = 600.0, 20.0, 24 * 3600.0
"""At least so long, so many times as long as is planned for the point; and so long where that cannot be told."""


def default_limit(plan: Plan) -> Callable[[PlannedRun], float]:
    """Return what says how many seconds a run may take: by what its plan estimates, made when it is first asked."""
    known: dict[int, float] = {}

    def limit_s(run: PlannedRun) -> float:
        if run.point not in known:
            (estimate,) = estimates(replace(plan, points=[plan.points[run.point]]))
            known[run.point] = OTHERWISE_S if estimate is None else max(LEAST_S, TIMES * estimate.seconds)
        return known[run.point]

    return limit_s
