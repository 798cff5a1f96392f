"""Which value of a setting first meets a condition, found by bisection over simulations, and what it costs in pace.

Bisection assumes that a condition that holds at one value holds at all larger ones, as is true of separations and
cool-downs. Every value is simulated with the same seeds.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsim.common.errors import ChainError, ScenarioError, StalledError
from fedsim.common.progress import Report, silent
from fedsim.limits.grammar import ConditionError, parse_condition
from fedsim.limits.verdict import UnknownMetricError, find_metric
from fedsim.population import build_population
from fedsim.population.feasibility import shortage
from fedsim.privacy.bounds import enforced_bounds
from fedsim.run.simulate import simulate
from fedsim.scenario import Scenario
from fedsim.scenario.units import format_duration, parse_duration

_SEPARATION = "participation.separation.least"
_MOST, _PACE = "participation.most", "rounds.per_day"


@dataclass(frozen=True)
class Tried:
    """One value: the worst over the seeds of the condition's metric, of b and k; and the mean pace."""

    value: str | int
    holds: bool  # at every seed
    works: bool  # neither stalls nor has separations that cannot be kept; else the figures are NaN
    metric: float
    b: float  # infinite where no client contributed twice
    k: float
    pace: float
    promised_b: int | None  # what the scenario enforces; None where it enforces no number of rounds
    promised_k: int | None


@dataclass(frozen=True)
class Solution:
    """The smallest value that meets a condition, None if no value does; and all that were tried, ascending."""

    answer: Tried | None
    tried: list[Tried]

    @property
    def share_of_pace(self) -> float:
        """The pace of the answer over that of the smallest value; NaN without an answer that works."""
        first = self.tried[0].pace
        return math.nan if self.answer is None or not first else self.answer.pace / first


def solve(
    scenario: Scenario,
    path: str,
    low: str | int,
    high: str | int,
    condition: str,
    *,
    step: str | int | None = None,
    seeds: Sequence[int] | None = None,
    report: Report = silent,
) -> Solution:
    """Find the smallest value of a key, such as ``population.*.separation``, that meets a condition for every seed.

    The scenario is run without its sweep, and without training, unless the condition is about it. The values from `low`
    to `high`, both included, are whole numbers or durations such as ``6h``; `step` is by default 1 or ten minutes. The
    condition is as in ``expect``, and the seeds are by default the scenario's own alone. A `ChainError` says that the
    ends, the step or the condition make no sense.
    """
    try:
        wanted = parse_condition(condition)
        find_metric(wanted.metric, scenario)
    except (ConditionError, UnknownMetricError) as wrong:
        raise ChainError(f"{condition}: {wrong}") from None
    values = _values(low, high, step)
    base = scenario.with_values(quiet(scenario, wanted.metric))
    tried: dict[int, Tried] = {}

    def at(index: int) -> Tried:
        if index not in tried:
            tried[index] = _try(base, path, values[index], wanted.metric, wanted.holds, seeds or [scenario.seed])
            report("simulating", min(0.99, len(tried) / (math.log2(len(values)) + 3)), f"{path} = {values[index]}")
        return tried[index]

    first = at(0)
    if not first.works:
        raise ChainError(f"the federation does not work at {path} = {values[0]}, the smallest value that there is")
    found = 0 if first.holds else len(values)
    if not first.holds and at(len(values) - 1).holds:
        found = bisect_left(range(len(values)), True, lo=1, hi=len(values) - 1, key=lambda index: at(index).holds)
    answer = at(found) if found < len(values) else None
    return Solution(answer, [tried[index] for index in sorted(tried)])


def quiet(scenario: Scenario, metric: str) -> dict[str, Any]:
    """Return the changes that leave out everything a metric does not depend on."""
    changes: dict[str, Any] = {"sweep": None, "decide": None, "expect": [], "drift": None}
    if metric.startswith("learning.") or scenario.learning is None:
        return changes
    return changes | {"learning": None} | ({} if scenario.privacy is None else {"privacy.training": "none"})


def _values(low: str | int, high: str | int, step: str | int | None) -> Sequence[str | int]:
    """Return the values between two ends, in ascending order; the larger end is the last of them."""
    if isinstance(low, int) and isinstance(high, int):
        size = 1 if step is None else step
        if not isinstance(size, int) or size < 1 or not 0 <= low < high:
            raise ChainError(f"{low} to {high} by {size}: expected whole numbers, the first the smallest")
        return [*range(low, high, size), high]
    try:
        start, end, size_s = (parse_duration(each) for each in (low, high, "10m" if step is None else step))
    except ValueError:
        raise ChainError(f"{low} to {high}: expected two whole numbers, or two durations such as 0s and 3d") from None
    if not 0 <= start < end or size_s <= 0:
        raise ChainError(f"{low} to {high}: the second must be longer than the first, and the step longer than 0s")
    count = math.ceil((end - start) / size_s)
    return [format_duration(start + index * size_s) for index in range(count)] + [format_duration(end)]


def _try(base: Scenario, path: str, value: str | int, metric: str, holds: Any, seeds: Sequence[int]) -> Tried:
    changed = base.with_values({path: value})
    promised: tuple[int | None, int | None] = (None, None)
    stalls = Tried(value, True, False, math.nan, math.nan, math.nan, math.nan, None, None)
    try:
        population = build_population(changed)
        if shortage(changed, population) is not None:
            return stalls
        if changed.stop.rounds is not None:
            bounds = enforced_bounds(changed, population)
            promised = bounds.min_separation, bounds.participations
        found = [simulate(changed.with_values({"seed": seed})).metrics for seed in seeds]
    except (StalledError, ScenarioError) as error:
        if isinstance(error, ScenarioError) and not any("separation" in str(each) for each in error.mistakes):
            raise
        return stalls
    observed = {
        name: [each.get(name, math.inf if name == _SEPARATION else math.nan) for each in found]
        for name in (metric, _SEPARATION, _MOST, _PACE)
    }
    kept = [bool(holds(each)) for each in observed[metric]]
    worst = observed[metric][kept.index(False)] if not all(kept) else observed[metric][0]
    b, k, pace = min(observed[_SEPARATION]), max(observed[_MOST]), float(np.mean(observed[_PACE]))
    return Tried(value, all(kept), True, float(worst), b, k, pace, *promised)
