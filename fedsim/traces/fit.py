"""A renewal or habits model fitted to a trace, with how well it fits."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np

from fedsim.availability import Place, available_at, build_model
from fedsim.availability.trace.faults import TraceError
from fedsim.availability.trace.pattern import DAY_S, Pattern
from fedsim.availability.trace.unions import Spans
from fedsim.common.arrays import Floats
from fedsim.common.keyed import Purpose, stream
from fedsim.scenario.habits import Habits
from fedsim.scenario.units import format_duration
from fedsim.traces.fit_habits import charging_habits, idle_habits
from fedsim.traces.fit_renewal import FittedLaw, fit_laws, lengths_on_and_off

FitKind: TypeAlias = Literal["renewal", "habits"]
_PERSONS, _DAYS = 400, 14
_MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


@dataclass(frozen=True)
class Misfit:
    """How far a model's curve of 24 hours is from the trace's.

    Attributes
    ----------
    mean, largest
        Mean and largest absolute difference of the shares.
    share, of_trace
        Share of all time available, in the model and in the trace.
    """

    mean: float
    largest: float
    share: float
    of_trace: float


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


def hourly_shares(spans: Spans, begin: float, end: float) -> Floats:
    """Return the share of device time that is available in each of the 24 hours; NaN for hours never seen.

    Parameters
    ----------
    spans
        Positions in civil time, 0 being midnight.
    begin, end
        What was observed.

    Notes
    -----
    The time available up to an instant, over all devices, is linear between the starts and ends: it is looked up at
    every full hour, which is exact, and O((n + hours) log n).
    """
    edges = np.arange(np.floor(begin / 3600), np.ceil(end / 3600) + 1) * 3600.0
    inside = np.clip(edges, begin, end)
    seen = np.diff(inside) * len(spans)
    instants = np.concatenate([[begin], spans.starts, spans.ends])
    order = np.argsort(instants)
    available = np.cumsum(np.repeat([0, 1, -1], [1, len(spans.starts), len(spans.ends)])[order])
    passed = np.append(0.0, np.cumsum(available[:-1] * np.diff(instants[order])))
    held = np.diff(np.interp(inside, instants[order], passed))
    hours = ((edges[:-1] // 3600) % 24).astype(np.int64)
    with np.errstate(invalid="ignore"):
        shares: Floats = np.bincount(hours, held, 24) / np.bincount(hours, seen, 24)
    return shares


def habits_shares(habits: Habits) -> Floats:
    """Return the same for a model of habits: 400 persons, looked at every half hour for two weeks."""
    model = build_model(habits)
    draws, place = stream(0, 0, Purpose.AVAILABILITY), Place(_MONDAY, ZoneInfo("UTC"))
    counts = np.zeros(24)
    for half in range(48 * _DAYS):
        mask = available_at(model, np.arange(_PERSONS), half * 1800.0 + 900.0, place, draws)
        counts[half // 2 % 24] += mask.sum()
    return counts / (2 * _DAYS * _PERSONS)


def misfit(model: Floats, trace: Floats) -> Misfit:
    """Compare two curves in the hours that the trace has."""
    seen = np.isfinite(trace)
    apart = np.abs(model - trace)[seen]
    means = float(model[seen].mean()), float(trace[seen].mean())
    return Misfit(float(apart.mean()), float(apart.max()), *means)


def _written(source: dict[str, Any]) -> dict[str, Any]:
    """Write a law as in a scenario: times with a unit, to the second, other numbers to four digits."""
    written = {key: value if key == "kind" else float(f"{value:.4g}") for key, value in source.items()}
    times = source.keys() & {"mean", "median"}
    return written | {key: format_duration(max(float(round(source[key])), 1.0)) for key in times}
