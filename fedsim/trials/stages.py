"""What a decision runs in each of its stages, every one of which answers: by facts, coarsely, in full.

How much is run follows from the scenario alone, in units of about a microsecond, so that a second call finds the same.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from fedsim.common.errors import ScenarioError
from fedsim.common.instants import DAY_S
from fedsim.learning import problem_size
from fedsim.run.budget import about_round_s, about_rounds
from fedsim.run.scaled import scale_down, sizes_in
from fedsim.scenario import Scenario
from fedsim.scenario.sweep import Decide
from fedsim.scenario.units import format_duration
from fedsim.trials.trials import COARSE, FACTS, FULL

_FACTS_ROUNDS, _FACTS_DEVICES = 8_000, 10_000  # of all settings together, and of each, in the first stage
_COARSE_WORK, _WORK = 4e8, 1e8  # of all settings in the second stage, and of each in the last
_ROUND_WORK = 2e4  # of a round, however few train in it
_LEAST = {FACTS: 20, COARSE: 10, FULL: 10}  # what is left of a cohort
_VALUES = 3  # of each key that the second stage tunes
_FACTORS = [step * 10**power for power in range(6) for step in (1, 2, 5)]


@dataclass(frozen=True)
class Stage:
    """What is run for a scenario: a part of its devices, and perhaps of its time."""

    name: str
    scenario: Scenario  # that part, with the conditions of the whole
    scale: int = 1  # by what the devices and cohorts are divided
    short: Mapping[str, float] = field(default_factory=dict)  # where time is cut: to `days`, of `of_days` and `rounds`

    @classmethod
    def part(cls, name: str, scenario: Scenario, wanted: float) -> Self:
        """Take the K-th part of a scenario, K being the next of 1, 2, 5, 10, ... to what is wanted, or less.

        Cohorts keep some clients, and settings stay apart; what has a value for each device is not divided.
        """
        asked = next((each for each in _FACTORS if each >= wanted), _FACTORS[-1])
        most = min(asked, min(sizes_in(scenario)) // _LEAST[name])
        for factor in reversed([each for each in _FACTORS if 1 < each <= most]):
            try:
                small = scale_down(scenario, factor).scenario
            except ScenarioError:
                break
            if all(len(small.choose[path]) == len(values) for path, values in scenario.choose.items()):
                kept = {"name": scenario.name, "decide": scenario.as_written["decide"]}
                return cls(name, small.with_values(kept), factor)
        return cls(name, scenario)

    def about(self, whole: Scenario, gone: int) -> dict[str, Any]:
        """Return what `sweep.json` says: the stage, its part of the whole, and how many settings went before it."""
        chosen = {path: [values, whole.choose[path]] for path, values in self.scenario.choose.items()}
        sizes = {path: pair for path, pair in chosen.items() if pair[0] != pair[1]}
        return {"stage": self.name, "scale": self.scale, "short": dict(self.short), "sizes": sizes, "gone": gone}


def in_full(scenario: Scenario) -> Stage:
    """Return the last stage: all that was asked, on a part of the devices where the whole would take too long."""
    return Stage.part(FULL, scenario, _work(scenario) / _WORK)


def coarsely(scenario: Scenario, settings: int, tuned: Mapping[str, Sequence[Any]]) -> Stage | None:
    """Return the second stage for so many settings, of what is `tuned` by key; None where the last is as quick."""
    work = settings * _work(scenario)
    if work <= _COARSE_WORK or scenario.learning is None or scenario.decide is None:
        return None
    stage = Stage.part(COARSE, scenario, work / _COARSE_WORK)
    several = [(key, values) for key, values in tuned.items() if len(values) > 1]
    kept = several[:1] if settings * _work(stage.scenario) > _COARSE_WORK else several
    thin = {key: [values[round(k * (len(values) - 1) / 2)] for k in range(_VALUES)] for key, values in kept}
    few = {"tune": {key: [*dict.fromkeys(values)] for key, values in thin.items()}, "seeds": 3, "tuning_seeds": 1}
    decide = {**stage.scenario.as_written["decide"], **few}
    return replace(stage, scenario=stage.scenario.with_values({"decide": decide}))


def by_facts(scenario: Scenario, settings: int) -> Stage:
    """Return the first stage for so many settings: nothing is trained, and long runs are cut to whole days."""
    stage, stop = Stage.part(FACTS, scenario, scenario.devices / _FACTS_DEVICES), scenario.stop
    short, private = dict[str, float](), scenario.privacy is not None
    days = max(1, int(_FACTS_ROUNDS / settings * about_round_s(scenario) // DAY_S))
    fixed = not stop.by_length or any(path.partition(".")[0] in {"stop", "start"} for path in scenario.choose)
    fixed |= scenario.privacy is not None and scenario.privacy.amplification != "none"
    if about_rounds(scenario) * settings > _FACTS_ROUNDS and days * DAY_S < stop.most_s and not fixed:
        ends = {"rounds": stop.most_rounds, "of_days": stop.most_s / DAY_S}
        short = {"days": days, **{key: limit for key, limit in ends.items() if limit < math.inf}}
    assert scenario.decide is not None
    values: dict[str, Any] = {"learning": scenario.untrained, "decide": choosing_by(scenario.decide)}
    values["choose"] = {path: each for path, each in stage.scenario.choose.items() if not is_trained(path)}
    values |= {"privacy.training": "none", "privacy.adaptive_clip": None} if private else {}
    values |= {"stop.duration": format_duration(days * DAY_S)} if short else {}
    return replace(stage, scenario=stage.scenario.with_values(values), short=short)


def choosing_by(decide: Decide) -> dict[str, Any]:
    """Return by what a decision chooses, as it is written, without how it goes about it."""
    rule = {"minimize" if decide.minimize else "maximize": decide.metric}
    return {**rule, "subject_to": list(decide.subject_to)}


def is_trained(path: str) -> bool:
    """Say whether a path or a metric is of what is trained alone."""
    return path.partition(".")[0] == "learning"


def _work(scenario: Scenario) -> float:
    """Return about how much one variant of one run takes."""
    rounds, learning, parameters = about_rounds(scenario), scenario.learning, 0
    if learning is not None:
        _, parameters = problem_size(learning.problem.kind, learning.problem.options, scenario.devices)
    return (scenario.devices + rounds * scenario.server.wanted) * parameters + rounds * _ROUND_WORK
