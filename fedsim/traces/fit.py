"""A renewal or habits model fitted to a trace, with how well it fits."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np

from fedsim.availability import Place, available_at, build_model
from fedsim.availability.trace.faults import TraceError
from fedsim.availability.trace.pattern import DAY_S, Pattern
from fedsim.availability.trace.unions import Spans, select
from fedsim.common.arrays import Floats
from fedsim.common.keyed import Purpose, stream
from fedsim.scenario.habits import Habits
from fedsim.scenario.units import format_duration
from fedsim.traces.fit_habits import charging_habits
from fedsim.traces.fit_idle import idle_habits
from fedsim.traces.fit_intervals import Intervals, renewal_intervals
from fedsim.traces.fit_renewal import FittedLaw, Lengths, check_lengths, cut_share, fit_laws, lengths_on_and_off

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
        For renewal: for `on` and `off` every law that was tried, the best first.
    notes
        What the model cannot say.
    out_of_sample
        How far the curve of a model fitted to every other device is from that of the other half; None where a half is
        too little to fit.
    by_hour
        That difference in each of the 24 hours, model less trace; NaN for hours never seen.
    intervals
        For renewal, where they were asked for: 95 % intervals of the parameters of `on` and `off`.
    """

    availability: dict[str, Any]
    hours: Misfit
    conditions: dict[str, Misfit]
    laws: dict[str, list[FittedLaw]]
    notes: list[str]
    out_of_sample: Misfit | None = None
    by_hour: list[float] = field(default_factory=list)
    intervals: Intervals = field(default_factory=dict)


class _Fitted(NamedTuple):
    """What `Fit` has, the curve of 24 hours, and, for habits, what each condition is to be compared with."""

    availability: dict[str, Any]
    curve: Floats
    laws: dict[str, list[FittedLaw]]
    curves: dict[str, Floats]
    notes: list[str]


def fit(pattern: Pattern, kind: FitKind, *, intervals: bool = False) -> Fit:
    """Fit a model, and judge it by devices that another fit did not see.

    Parameters
    ----------
    pattern
        The trace laid out by days without repeating, with the devices that are never available.
    kind
        renewal or habits.
    intervals
        Also state intervals of the parameters of a renewal model, which takes twenty more fits.

    Raises
    ------
    TraceError
        If the trace is too short for it.
    """
    model = _fit_renewal if kind == "renewal" else _fit_habits
    try:
        found = model(pattern)
    except ValueError as error:
        raise TraceError(f"cannot be fitted by {kind}: {error}") from None
    conditions = {
        name: misfit(habits_shares(Habits.model_validate({**found.availability, "require": [name]})), recorded)
        for name, recorded in found.curves.items()
    }
    out_of_sample, by_hour = None, np.empty(0)
    try:
        curve, judged = model(_every_other(pattern, 0)).curve, _recorded_curve(_every_other(pattern, 1))
        out_of_sample, by_hour = misfit(curve, judged), curve - judged
    except ValueError as error:
        found.notes.append(f"not judged out of sample: half of the devices cannot be fitted ({error})")
    stated: Intervals = {}
    if intervals and kind == "renewal":
        try:
            stated = renewal_intervals(pattern, *_chosen(pattern, found.laws))
        except ValueError as error:
            found.notes.append(f"no intervals: {error}")
    return Fit(
        found.availability,
        misfit(found.curve, _recorded_curve(pattern)),
        conditions,
        found.laws,
        found.notes,
        out_of_sample,
        by_hour.tolist(),
        stated,
    )


def _recorded_curve(pattern: Pattern) -> Floats:
    return hourly_shares(pattern.spans, pattern.begin, pattern.begin + pattern.covered)


def _every_other(pattern: Pattern, first: int) -> Pattern:
    keep = np.arange(len(pattern.spans)) % 2 == first
    if not keep.any():
        raise ValueError("there is one device")
    spans = select(pattern.spans, keep)
    parts = {name: select(part, keep) for name, part in pattern.conditions.items()}
    never = int((np.diff(spans.offsets) == 0).sum())
    return replace(pattern, spans=spans, conditions=parts, names=pattern.names[first::2], never=never)


def _fit_renewal(pattern: Pattern) -> _Fitted:
    begin, end = pattern.begin, pattern.begin + pattern.covered
    lengths = dict(zip(("on", "off"), lengths_on_and_off(pattern.spans, begin, end), strict=True))
    for name, each in lengths.items():
        try:
            check_lengths(each)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    share = float((pattern.spans.ends - pattern.spans.starts).sum()) / (len(pattern.spans) * pattern.covered)
    # The mean that the end of the recording leaves open follows from the other one and the share of time available.
    open_ = _open(lengths)
    known = "on" if open_ == "off" else "off"
    laws = {known: fit_laws(lengths[known])}
    ratio = (1 - share) / share if open_ == "off" else share / (1 - share) if share < 1 else 0.0
    laws[open_] = fit_laws(lengths[open_], laws[known][0].mean * ratio or None)
    share = laws["on"][0].mean / (laws["on"][0].mean + laws["off"][0].mean)
    notes = [
        "a renewal model knows no time of day: its share is the same in every hour",
        f"the mean of `{open_}` is the one that gives the share of time available",
    ]
    if pattern.never:
        notes.append(f"{pattern.never:,} devices are never available, and no renewal model is so")
    written = {name: _written(laws[name][0].source) for name in ("on", "off")}
    tried = {name: laws[name] for name in ("on", "off")}
    return _Fitted({"kind": "renewal", **written}, np.full(24, share), tried, {}, notes)


def _open(lengths: dict[str, Lengths]) -> str:
    """Return which of the lengths on and off has more of its time in lengths that were cut short."""
    return max(lengths, key=lambda name: cut_share(lengths[name]))


def _chosen(pattern: Pattern, laws: dict[str, list[FittedLaw]]) -> tuple[dict[str, str], str]:
    """Return the kinds of the laws that were chosen, and which of them has its mean from the share of time."""
    lengths = lengths_on_and_off(pattern.spans, pattern.begin, pattern.begin + pattern.covered)
    kinds = {name: laws[name][0].source["kind"] for name in ("on", "off")}
    return kinds, _open(dict(zip(("on", "off"), lengths, strict=True)))


def _fit_habits(pattern: Pattern) -> _Fitted:
    weekday = int(pattern.reference // DAY_S + 3) % 7  # 1970 began on a Thursday
    begin, end = pattern.begin, pattern.begin + pattern.covered
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
    # What can be fitted is, where something else cannot.
    problems: dict[str, str] = {}
    for name in sorted(curves.keys() & {"charging", "idle"}):
        try:
            model[name] = (
                charging_habits(curves[name], begin, end, weekday)
                if name == "charging"
                else idle_habits(curves[name], begin, end)
            )
        except ValueError as error:
            problems[name] = str(error)
    if problems and not model.keys() & {"charging", "idle"}:
        raise ValueError("; ".join(problems.values()))
    notes += [f"the habits of {name} keep their defaults: {problem}" for name, problem in problems.items()]
    if "network" in curves:
        notes.append("the habits of being on a network are not estimated; they keep their defaults")
    if "charging" in model:
        notes.append("`spread` of charging, how much persons differ in how often they charge, keeps its default")
    recorded = {name: hourly_shares(spans, begin, end) for name, spans in curves.items()}
    return _Fitted(model, habits_shares(Habits.model_validate(model)), {}, recorded, notes)


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
