"""Which value of a setting first meets a condition, found by bisection over simulations, and what it costs in pace.

It is taken for granted that the condition, once it holds, holds for all larger values, as it does for what a longer
separation or cool-down does to participation. Every value is simulated with the same seeds.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsim.common.errors import ChainError, ScenarioError, StalledError
from fedsim.common.progress import Report, silent
from fedsim.experiment.run import simulate
from fedsim.limits.grammar import ConditionError, parse_condition
from fedsim.limits.names import UnknownMetricError, find_metric
from fedsim.population import build_population
from fedsim.privacy.enforced import enforced
from fedsim.scenario import Scenario
from fedsim.scenario.units import format_duration, parse_duration

SEPARATION = "participation.separation.least"
_SHOWN = {"pace": "rounds.per_day", "b": SEPARATION, "k": "participation.most"}


@dataclass(frozen=True)
class Tried:
    """What one value came to: the worst over the seeds of the condition's metric, of b and k; the mean pace.

    Attributes
    ----------
    value
        As the scenario has it.
    holds
        Whether every seed keeps the condition.
    works
        Whether the federation does: it neither stalls nor has separations that can never be kept.
    metric, b, k, pace
        Observed; b is infinite where nobody contributed twice, and all are NaN where it does not work.
    promised_b, promised_k
        What the scenario enforces; None where it enforces no number of rounds.
    """

    value: str | int
    holds: bool
    works: bool
    metric: float
    b: float
    k: float
    pace: float
    promised_b: int | None
    promised_k: int | None


@dataclass(frozen=True)
class Solution:
    """The smallest value that meets a condition, and what was tried on the way.

    Attributes
    ----------
    answer
        None where no value does.
    first
        The smallest value there is, with whose pace that of the answer is compared.
    tried
        Every value that was simulated, in ascending order.
    """

    answer: Tried | None
    first: Tried
    tried: list[Tried]

    @property
    def share_of_pace(self) -> float:
        """The pace of the answer over that of the smallest value; NaN without an answer that works."""
        return math.nan if self.answer is None or not self.first.pace else self.answer.pace / self.first.pace


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
    """Find the smallest value of a key at which a condition holds for every seed.

    Parameters
    ----------
    scenario
        What to run; its sweep is left out, and training too, unless the condition is about it.
    path
        The key, such as ``population.*.separation`` or ``population.*.cooldown``.
    low, high
        The ends, both included: whole numbers, or durations such as ``6h``.
    condition
        As in ``expect``, such as ``participation.separation.least >= 400``.
    step
        Distance of the values that are tried; by default 1, and ten minutes for durations.
    seeds
        By default the scenario's own alone.
    report
        Told how many values were tried.

    Raises
    ------
    ChainError
        If the ends, the step or the condition make no sense.
    ScenarioError
        If the scenario is wrong at the smallest value.
    """
    try:
        wanted = parse_condition(condition)
        find_metric(wanted.metric, scenario)
    except (ConditionError, UnknownMetricError) as wrong:
        raise ChainError(f"{condition}: {wrong}") from None
    values = _values(low, high, step)
    base = scenario.with_values(_quiet(scenario, wanted.metric))
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
    return Solution(answer, first, [tried[index] for index in sorted(tried)])


def _quiet(scenario: Scenario, metric: str) -> dict[str, Any]:
    """Return the changes that leave out what the condition does not ask about."""
    changes: dict[str, Any] = {"sweep": None, "decide": None, "expect": [], "drift": {}}
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
    bounds = None
    try:
        if changed.stop.rounds is not None:
            bounds = enforced(changed, build_population(changed))
        found = [simulate(changed.with_values({"seed": seed})).metrics for seed in seeds]
    except (StalledError, ScenarioError) as error:
        if isinstance(error, ScenarioError) and not any("separation" in str(each) for each in error.mistakes):
            raise
        return Tried(value, True, False, math.nan, math.nan, math.nan, math.nan, None, None)
    observed = {
        name: [each.get(name, math.inf if name == SEPARATION else math.nan) for each in found]
        for name in {metric, *_SHOWN.values()}
    }
    kept = [bool(holds(each)) for each in observed[metric]]
    worst = observed[metric][kept.index(False)] if not all(kept) else observed[metric][0]
    return Tried(
        value,
        all(kept),
        True,
        float(worst),
        min(observed[_SHOWN["b"]]),
        max(observed[_SHOWN["k"]]),
        float(np.mean(observed[_SHOWN["pace"]])),
        None if bounds is None else bounds.min_separation,
        None if bounds is None else bounds.participations,
    )
