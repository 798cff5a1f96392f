"""A renewal or habits model fitted to a trace, with how well it fits."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from fedsim.availability.trace.faults import TraceError
from fedsim.availability.trace.pattern import DAY_S, Pattern
from fedsim.scenario.habits import Habits
from fedsim.scenario.units import format_duration
from fedsim.traces.curves import Misfit, habits_shares, hourly_shares, misfit
from fedsim.traces.fit_habits import charging_habits, idle_habits
from fedsim.traces.fit_renewal import FittedLaw, fit_laws, lengths_on_and_off

FitKind: TypeAlias = Literal["renewal", "habits"]


@dataclass(frozen=True)
class Fit:
    """A model fitted to a trace.

    Attributes
    ----------
    availability
        What to write in a scenario.
    hours
        How far its curve of the day is from the trace's.
    conditions
        The same for each condition on its own, for habits.
    laws
        For renewal: for `on` and `off` every law that was tried, the likeliest first.
    notes
        What the model cannot say.
    """

    availability: dict[str, Any]
    hours: Misfit
    conditions: dict[str, Misfit]
    laws: dict[str, list[FittedLaw]]
    notes: list[str]

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return asdict(self)


def fit(pattern: Pattern, kind: FitKind) -> Fit:
    """Fit a model.

    Parameters
    ----------
    pattern
        The trace laid out by days without repeating, with the devices that are never available.
    kind
        renewal or habits.

    Raises
    ------
    TraceError
        If the trace is too short for it.
    """
    try:
        return _fit_renewal(pattern) if kind == "renewal" else _fit_habits(pattern)
    except ValueError as error:
        raise TraceError(f"cannot be fitted by {kind}: {error}") from None


def _fit_renewal(pattern: Pattern) -> Fit:
    begin, end = pattern.begin, pattern.begin + pattern.covered
    laws = {}
    for name, lengths in zip(("on", "off"), lengths_on_and_off(pattern.spans, begin, end), strict=True):
        try:
            laws[name] = fit_laws(lengths)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    on, off = laws["on"][0], laws["off"][0]
    share = on.mean / (on.mean + off.mean)
    notes = ["a renewal model knows no time of day: its share is the same in every hour"]
    if pattern.never:
        notes.append(f"{pattern.never:,} devices are never available, and no renewal model is so")
    hours = misfit(np.full(24, share), hourly_shares(pattern.spans, begin, end))
    written = {name: _written(law[0].source) for name, law in laws.items()}
    return Fit({"kind": "renewal", **written}, hours, {}, laws, notes)


def _fit_habits(pattern: Pattern) -> Fit:
    weekday = int(pattern.reference // DAY_S + 3) % 7  # 1970 began on a Thursday
    begin, end = pattern.begin, pattern.begin + pattern.covered
    required = list(pattern.conditions)
    model: dict[str, Any] = {"kind": "habits"}
    notes = []
    if "available" in required:
        if len(required) > 1:
            raise ValueError("'available' beside other conditions is none of the conditions of habits")
        notes.append(
            "the trace does not say why a device is available; its intervals are taken as times on the charger"
        )
        model |= {"require": ["charging"], "charging": charging_habits(pattern.spans, begin, end, weekday)}
        curves = {"charging": pattern.spans}
    else:
        model["require"] = required
        curves = {name: pattern.conditions[name] for name in required}
        if "charging" in curves:
            model["charging"] = charging_habits(curves["charging"], begin, end, weekday)
        if "idle" in curves:
            model["idle"] = idle_habits(curves["idle"], begin, end)
        if "network" in curves:
            notes.append("the habits of being on a network are not estimated; they keep their defaults")
    notes.append("`spread` of charging, how much persons differ in how often they charge, keeps its default")
    conditions = {
        name: misfit(
            habits_shares(Habits.model_validate({**model, "require": [name]})), hourly_shares(spans, begin, end)
        )
        for name, spans in curves.items()
    }
    joint = misfit(habits_shares(Habits.model_validate(model)), hourly_shares(pattern.spans, begin, end))
    return Fit(model, joint, conditions, {}, notes)


def _written(source: dict[str, Any]) -> dict[str, Any]:
    """Write a law as in a scenario: times with a unit, to the second, other numbers to four digits."""
    written = {key: value if key == "kind" else float(f"{value:.4g}") for key, value in source.items()}
    times = source.keys() & {"mean", "median"}
    return written | {key: format_duration(max(float(round(source[key])), 1.0)) for key in times}
