"""A renewal or habits model fitted to a trace, with how well it fits."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np

from fedsim.availability import Place, available_at, build_model
from fedsim.availability.spells import Spells
from fedsim.availability.trace.pattern import Pattern
from fedsim.availability.trace.rows import TraceError
from fedsim.common.arrays import Floats
from fedsim.common.instants import DAY_S
from fedsim.common.keyed import Purpose, stream
from fedsim.scenario.habits import Habits
from fedsim.traces.fit_habits import charging_habits, idle_habits, seconds_in_hour
from fedsim.traces.fit_renewal import (
    FittedLaw,
    ParameterIntervals,
    available_share,
    check_lengths,
    fit_laws,
    lengths_on_and_off,
    mean_ratio,
    open_side,
    renewal_intervals,
    written_law,
)

FitKind: TypeAlias = Literal["renewal", "habits"]
_PERSONS, _DAYS = 400, 14
_MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


@dataclass(frozen=True)
class Misfit:
    """How far a model's shares of the 24 hours are from the trace's: the `mean` and `largest` absolute difference.

    `share` and `of_trace` are the shares of all time available, in the model and in the trace.
    """

    mean: float
    largest: float
    share: float
    of_trace: float


@dataclass(frozen=True)
class Fit:
    """A model fitted to a trace."""

    availability: dict[str, Any]  # what to write in a scenario
    # How far its shares of the 24 hours are from the trace's, in all and, for habits, for each condition
    hours: Misfit
    conditions: dict[str, Misfit]
    laws: dict[str, list[FittedLaw]]  # for renewal: for `on` and `off` every law that was tried, the best first
    notes: list[str]  # what the model cannot represent
    # The same for a model fitted to every other device, judged by the other half, None where a half is too little to
    # fit; and the difference in each of the 24 hours, model less trace, NaN for hours never seen
    out_of_sample: Misfit | None = None
    by_hour: list[float] = field(default_factory=list)
    # For renewal, where they were asked for: 95 % intervals of the parameters of `on` and `off`
    intervals: ParameterIntervals = field(default_factory=dict)


class _Fitted(NamedTuple):
    """The fields of `Fit`, the model's shares of the 24 hours, and the recorded ones of each condition of habits."""

    availability: dict[str, Any]
    curve: Floats
    laws: dict[str, list[FittedLaw]]
    curves: dict[str, Floats]
    notes: list[str]


def fit(pattern: Pattern, kind: FitKind, *, intervals: bool = False, judged: bool = True) -> Fit:
    """Fit a model and, if it is to be `judged`, judge it by devices that another fit did not see.

    The pattern is laid out without repeating, and has the devices that are never available. `intervals` also states
    intervals of the parameters of a renewal model, which takes twenty more fits. Raises a `TraceError` if the trace is
    too short for it.
    """
    fitted = _fitted(pattern, kind)
    seen = seconds_by_hour(pattern.seen)
    conditions = {
        name: misfit(fitted.curve if len(fitted.curves) == 1 else _alone(fitted, name), recorded, seen)
        for name, recorded in fitted.curves.items()
    }
    out_of_sample, by_hour = None, np.empty(0)
    try:
        if judged:
            curve, rest = _MODELS[kind](_every_other(pattern, 0)).curve, _every_other(pattern, 1)
            other = hourly_shares(rest.spans, rest.seen)
            out_of_sample, by_hour = misfit(curve, other, seconds_by_hour(rest.seen)), curve - other
    except ValueError as error:
        fitted.notes.append(f"not judged out of sample: half of the devices cannot be fitted ({error})")
    stated: ParameterIntervals = {}
    if intervals and kind == "renewal":
        try:
            kinds = {name: tried[0].source["kind"] for name, tried in fitted.laws.items()}
            lengths = lengths_on_and_off(pattern.spans, pattern.seen)
            stated = renewal_intervals(pattern, kinds, open_side(lengths))
        except ValueError as error:
            fitted.notes.append(f"no intervals: {error}")
    return Fit(
        fitted.availability,
        misfit(fitted.curve, hourly_shares(pattern.spans, pattern.seen), seen),
        conditions,
        fitted.laws,
        fitted.notes,
        out_of_sample,
        by_hour.tolist(),
        stated,
    )


def _alone(fitted: _Fitted, condition: str) -> Floats:
    """Return the shares of the 24 hours in which one condition of habits holds."""
    return habits_shares(Habits.model_validate({**fitted.availability, "require": [condition]}))


def error_of(pattern: Pattern, kind: FitKind, rest: Pattern) -> float:
    """Return how far a model fitted to one part of a trace is from the hours of another, on average."""
    curve = _fitted(pattern, kind).curve
    return misfit(curve, hourly_shares(rest.spans, rest.seen), seconds_by_hour(rest.seen)).mean


def _fitted(pattern: Pattern, kind: FitKind) -> _Fitted:
    try:
        return _MODELS[kind](pattern)
    except ValueError as error:
        raise TraceError(f"cannot be fitted by {kind}: {error}") from None


def _every_other(pattern: Pattern, first: int) -> Pattern:
    keep = np.arange(pattern.spans.count) % 2 == first
    if not keep.any():
        raise ValueError("there is one device")
    parts = {name: part.select(keep) for name, part in pattern.conditions.items()}
    spans, seen = pattern.spans.select(keep), pattern.seen.select(keep)
    return replace(pattern, spans=spans, seen=seen, conditions=parts, names=pattern.names[first::2])


def _fit_renewal(pattern: Pattern) -> _Fitted:
    lengths = lengths_on_and_off(pattern.spans, pattern.seen)
    for name, each in lengths.items():
        try:
            check_lengths(each)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    # The mean that the end of the recording leaves open follows from the other one and the share of time available.
    open_ = open_side(lengths)
    closed = "on" if open_ == "off" else "off"
    fits = {closed: fit_laws(lengths[closed])}
    ratio = mean_ratio(available_share(pattern.spans, pattern.seen), open_)
    fits[open_] = fit_laws(lengths[open_], fits[closed][0].mean * ratio or None)
    share = fits["on"][0].mean / (fits["on"][0].mean + fits["off"][0].mean)
    notes = [
        "a renewal model knows no time of day: its share is the same in every hour",
        f"the mean of `{open_}` is the one that gives the share of time available",
    ]
    if pattern.never:
        notes.append(f"{pattern.never:,} devices are never available, and no renewal model is so")
    written = {name: written_law(fits[name][0].source) for name in ("on", "off")}
    tried = {name: fits[name] for name in ("on", "off")}
    return _Fitted({"kind": "renewal", **written}, np.full(24, share), tried, {}, notes)


def _fit_habits(pattern: Pattern) -> _Fitted:
    weekday = int(pattern.reference // DAY_S + 3) % 7  # 1970 began on a Thursday
    required = list(pattern.conditions)
    model: dict[str, Any] = {"kind": "habits"}
    notes: list[str] = []
    if "available" in required:
        if len(required) > 1:
            raise ValueError("'available' beside other conditions is none of the conditions of habits")
        notes.append(
            "the trace does not say why a device is available; its intervals are taken as times on the charger"
        )
        model["require"], curves = ["charging"], {"charging": pattern.spans}
    else:
        model["require"] = required
        curves = {name: pattern.conditions[name] for name in required}
    # One condition is fitted even where the other cannot be.
    problems: dict[str, str] = {}
    for name in sorted(curves.keys() & {"charging", "idle"}):
        try:
            if name == "charging":
                model[name] = charging_habits(curves[name], pattern.seen, weekday)
            else:
                model[name] = idle_habits(curves[name], pattern.seen)
        except ValueError as error:
            problems[name] = str(error)
    if problems and not model.keys() & {"charging", "idle"}:
        raise ValueError("; ".join(problems.values()))
    notes += [f"the habits of {name} keep their defaults: {problem}" for name, problem in problems.items()]
    if "network" in curves:
        notes.append("the habits of being on a network are not estimated; they keep their defaults")
    recorded = {name: hourly_shares(spans, pattern.seen) for name, spans in curves.items()}
    return _Fitted(model, habits_shares(Habits.model_validate(model)), {}, recorded, notes)


_MODELS: Final[dict[FitKind, Callable[[Pattern], _Fitted]]] = {"renewal": _fit_renewal, "habits": _fit_habits}


def hourly_shares(spans: Spells, seen: Spells) -> Floats:
    """Return the share of observed device time that is available in each of the 24 hours; NaN for hours never seen.

    Positions are civil time from midnight; `seen` is when each device was observed.
    """
    with np.errstate(invalid="ignore"):
        return seconds_by_hour(spans) / seconds_by_hour(seen)


def seconds_by_hour(spans: Spells) -> Floats:
    """Return how many seconds of some intervals, of all devices, lie in each of the 24 hours."""
    return np.array([seconds_in_hour(spans, hour).sum() for hour in range(24)])


def habits_shares(habits: Habits) -> Floats:
    """Return the shares of the 24 hours for a model of habits, from 400 persons every half hour for two weeks."""
    model = build_model(habits)
    draws, place = stream(0, 0, Purpose.AVAILABILITY), Place(_MONDAY, ZoneInfo("UTC"))
    counts = np.zeros(24)
    for half in range(48 * _DAYS):
        mask = available_at(model, np.arange(_PERSONS), half * 1800.0 + 900.0, place, draws)
        counts[half // 2 % 24] += mask.sum()
    return counts / (2 * _DAYS * _PERSONS)


def misfit(model: Floats, trace: Floats, seconds: Floats) -> Misfit:
    """Compare two curves in the hours that the trace has; the shares of all time weigh them by the `seconds` seen."""
    seen = np.isfinite(trace)
    apart = np.abs(model - trace)[seen]
    means = (float(np.average(curve[seen], weights=seconds[seen])) for curve in (model, trace))
    return Misfit(float(apart.mean()), float(apart.max()), *means)
