"""Every named metric, one module for each metric or for some that are computed together.

To add one, write a class like those here: it declares its metrics and has one method, `measure`. Your own, named by a
scenario's ``metrics``, go through the same door.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

import polars as pl

from fedsim.common.registry import Registry
from fedsim.log.journal import AnyLog
from fedsim.measure.count import Counted, Watch, count_log
from fedsim.measure.frequencies import AvailableTime
from fedsim.measure.metrics.metric import LEARNING, OF_JOBS, Measure, Measurement, Metric, RunPart, Setting

_ROOM = "fedsim.measure.metrics"
BUILTIN: Final = {
    "rounds": f"{_ROOM}.rounds:RoundMetrics",
    "sessions": f"{_ROOM}.rounds:Sessions",
    "staleness": f"{_ROOM}.rounds:Staleness",
    "participation": f"{_ROOM}.participation:Participation",
    "tenths": f"{_ROOM}.participation:Tenths",
    "separation": f"{_ROOM}.participation:Separation",
    "population": f"{_ROOM}.population:PopulationMetrics",
    "check_ins": f"{_ROOM}.population:CheckInMetrics",
    "places": f"{_ROOM}.rounds:Places",
    "fleet": f"{_ROOM}.fleet:FleetMetrics",
    "theory": f"{_ROOM}.participation:AgainstTheory",
    "privacy": f"{_ROOM}.participation:Promised",
    "groups": f"{_ROOM}.participation:GroupShares",
}
"""What every run measures, in this order."""
ON_REQUEST: Final = {"unevenness": "fedsim.measure.unevenness:UnevennessMetrics"}
"""What is measured where a scenario's ``metrics`` name it."""
METRICS: Final = Registry[Measurement](
    "a metric",
    Measurement,
    BUILTIN | ON_REQUEST,
    at="metrics[]",
    chance="draw from np.random.default_rng(0), made in measure",
)

MOST_GROUPS = 200
"""With more groups than these, groups have no metrics of their own."""
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_OF_A_JOB = re.compile(r"^job\.[^.]+\.(alone\.)?")
_PLACEHOLDER = re.compile(r"[A-Z]{2,}")
_OF_A_GROUP = Metric(
    "group.GROUP.METRIC",
    "",
    "Any metric of sessions, staleness, participation or availability for one group of several.",
)


@cache
def listed() -> tuple[Metric, ...]:
    """Return every metric that is built in, as lists show them: family by family, in the order in which they begin."""
    metrics = []
    for kind in BUILTIN:
        cls = METRICS[kind]
        prefix = "group.GROUP." if scope(cls) == "groups" else ""
        metrics += [replace(each, name=prefix + each.name) for each in declared(cls)]
    metrics += [_OF_A_GROUP, *LEARNING, *OF_JOBS]
    families = list(dict.fromkeys(each.name.partition(".")[0] for each in metrics))
    return tuple(sorted(metrics, key=lambda each: families.index(each.name.partition(".")[0])))


@cache
def describe(name: str) -> Metric | None:
    """Return the built-in metric of that name, or None if there is none."""
    bare = _OF_A_JOB.sub("", name)
    fitting = (each for each in listed() if each.name == name or fnmatchcase(bare, _PLACEHOLDER.sub("*", each.name)))
    return next(fitting, None)


@cache
def split(key: str) -> tuple[Metric | None, dict[str, str]]:
    """Split the name of a fact into its metric and its dimensions: job, optimizer, group, zone, class, tenth, hour.

    None is returned in place of the metric where none that is built in has such a name.
    """
    dimensions = dict[str, str]()
    if job := _OF_A_JOB.match(key):
        dimensions["job"], key = job[0].split(".")[1], key[job.end() :]
    for metric, pattern in _patterns():
        if match := pattern.fullmatch(key):
            return metric, dimensions | match.groupdict()
    return None, dimensions


def filled(name: str, dimensions: Mapping[str, str]) -> str:
    """Return the name of a metric with its dimensions in place of the placeholders."""
    return _PLACEHOLDER.sub(lambda word: dimensions.get(word[0].lower(), word[0]), name)


@cache
def _patterns() -> list[tuple[Metric, re.Pattern[str]]]:
    """Return what the names of each metric match, those without placeholders first."""
    parts = {"HOUR": r"[01]\d|2[0-3]", "TENTH": r"[1-9]|10"}

    def pattern(name: str) -> re.Pattern[str]:
        text = _PLACEHOLDER.sub(lambda word: f"(?P<{word[0].lower()}>{parts.get(word[0], '[^.]+')})", re.escape(name))
        return re.compile(text)

    ordered = sorted(names(), key=lambda each: len(_PLACEHOLDER.findall(each[0])))
    return [(metric, pattern(name)) for name, metric in ordered]


@cache
def names() -> list[tuple[str, Metric]]:
    """Return the name of every built-in metric in a run of one server, with placeholders, and what is said of it."""
    both = [metric for kind in BUILTIN if scope(METRICS[kind]) == "both" for metric in declared(METRICS[kind])]
    named = [(metric.name, metric) for metric in listed() if "METRIC" not in metric.name]
    return [*named, *((f"group.GROUP.{metric.name}", metric) for metric in both)]


def declared(measurement: object) -> tuple[Metric, ...]:
    """Return the metrics that a measurement declares.

    Raises
    ------
    TypeError
        If they are not made of a name, a unit and a meaning.
    """
    several = getattr(measurement, "metrics", None)
    if several is not None:
        return tuple(each if isinstance(each, Metric) else Metric(*each) for each in several)
    default = measurement.__name__ if isinstance(measurement, type) else type(measurement).__name__
    name, *rest = (getattr(measurement, key, "") for key in ("name", "unit", "meaning", "label", "better"))
    return (Metric(name or default, *rest),)


def scope(measurement: object) -> str:
    """Say what a measurement is made of: the whole ``run``, the ``groups``, or ``both``."""
    return str(getattr(measurement, "scope", "run"))


def metric_part(group: str) -> str:
    """Return the name of a group as it stands in the names of its metrics."""
    return _NOT_IN_A_NAME.sub("-", group)


def count_of(log: AnyLog, setting: Setting, watches: Sequence[Watch] = ()) -> Counted:
    """Read the participations of a log once, for all that is measured of them; `watches` are given every part."""
    sizes = {group: sum(zones.values()) for group, zones in setting.groups.items()}
    return count_log(
        log.participations,
        log.rounds,
        sum(sizes.values()),
        [sizes[group] for group in _measured_groups(setting)],
        [*watches, *([] if setting.taken is None else [setting.taken.add])],
        fixed_divisor=setting.fixed_divisor,
        by_day=setting.by_day,
        together=setting.together,
    )


def _measured_groups(setting: Setting) -> list[str]:
    return list(setting.groups) if 1 < len(setting.groups) <= MOST_GROUPS else []


def measure(
    log: AnyLog,
    clients: pl.DataFrame,
    setting: Setting,
    counted: Counted,
    own_metrics: Sequence[Measurement] = (),
    available: AvailableTime | None = None,
) -> dict[str, Measure]:
    """Return the metrics of the log, by name; one that has no samples is left out.

    `counted` is that of `count_of`, `own_metrics` are measured besides the built-in ones, and `available` is None where
    the time for which devices were available is not known, or is all of it.
    """
    run = RunPart(
        log.rounds, log.gauges, clients, setting, log.ended_s, log.participations, counted, available=available
    )
    measurements = [*(METRICS[kind]() for kind in BUILTIN), *own_metrics]
    metrics: dict[str, Measure] = {}
    for each in measurements:
        if scope(each) != "groups":
            metrics |= _named(each, run)
    for group, own_counted in zip(_measured_groups(setting), counted.groups, strict=True):
        part = run.of_group(group, own_counted)
        for each in measurements:
            if scope(each) != "run":
                metrics |= {f"group.{metric_part(group)}.{name}": x for name, x in _named(each, part).items()}
    return metrics


def _named(measurement: Measurement, run: RunPart) -> dict[str, Measure]:
    measured = measurement.measure(run)
    return dict(measured) if isinstance(measured, Mapping) else {declared(measurement)[0].name: measured}
