"""The same federation on a smaller scale: devices, cohorts and places divided by one factor.

Separations, which are counted in rounds, and all times stay. Each client then takes part as often as before, and shares
keep their values except for chance (docs/scaling.md has measurements).
"""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pydantic import TypeAdapter

from fedsim.common.errors import KeyPath, ScenarioError
from fedsim.measure.grammar import parse_condition
from fedsim.scenario import Scenario
from fedsim.scenario.component import Choice, all_in
from fedsim.scenario.units import BitRate

_FEW = 10
_TOLERATED = 0.01
_SUMS = re.compile(
    r"(group\..*\.)?sessions\.(count|device_hours)|reports\.(per_day|wanted)|learning\..*\.device_hours_to_target"
    r"|fleet\.((wasted_)?(bytes_down|bytes_up|energy)|bytes|energy_per_round|peak_sessions|cost|carbon)"
)
"""Metrics that are divided with the devices."""
_GROWING = re.compile(
    r"(.*\.)?sessions\.(count|device_hours)|fleet\.((wasted_)?(bytes_down|bytes_up|energy)|bytes|cost|carbon)"
)
"""Those of them that grow with time."""
_STEADY = re.compile(
    r"privacy\..*|rounds\.count|(rounds|updates|reports)\.per_day|reports\.wanted|fleet\.energy_per_round"
    r"|(rounds|sessions)\.[a-z]+_share|(group|zone|class)\.[^.]*\.(reported_)?(share|ratio)|participation\.worst_group_ratio"
)
"""Metrics that a part of the devices and of the time shows but for chance, if the count of rounds is carried on."""
_SCALED = {"devices", "cohort", "concurrency", "buffer", "wanted", "minimum_reports", "threshold", "uplink"}


@dataclass(frozen=True)
class Scaled:
    """A smaller scenario, and notes on what does not scale or is rounded."""

    scenario: Scenario
    notes: list[str]


def in_whole(metric: str) -> tuple[bool, bool, bool]:
    """Say whether a metric grows with devices and with time, and whether a part of both shows it."""
    grows = _GROWING.fullmatch(metric) is not None
    return bool(_SUMS.fullmatch(metric)), grows, grows or _STEADY.fullmatch(metric) is not None


def sizes_in(scenario: Scenario) -> list[int]:
    """Return the sizes of the server, and those that may be chosen."""
    sizes, names = [getattr(scenario.server, name) for name in scenario.server.sizes], {*scenario.server.sizes}
    chosen = [each for path, values in scenario.choose.items() if path.rpartition(".")[2] in names for each in values]
    return [each for each in (*sizes, *chosen) if isinstance(each, int)]


def parse_scale(text: str) -> int:
    """Return K of ``1/K``, a whole number from 2 to 10^6; a `ValueError` says that it is anything else."""
    numerator, slash, denominator = text.partition("/")
    factor = int(denominator) if slash and denominator.strip().isascii() and denominator.strip().isdigit() else 0
    if numerator.strip() != "1" or not 2 <= factor <= 10**6:
        raise ValueError(f"must be 1/K with a whole number K from 2 to 1,000,000, such as 1/100, not {text!r}")
    return factor


def scale_down(scenario: Scenario, factor: int) -> Scaled:
    """Return the scenario with a `factor`-th of the devices and of the cohort.

    Swept sizes are divided too. A `ScenarioError` says what cannot be made smaller: numbers written for each device.
    """
    message = "has a value for each device, which a smaller population cannot keep: give a law instead"
    listed = [path for path, kind in _kinds(scenario) if kind in {"list", "column"}]
    if mistakes := [scenario.mistake(path, message) for path in listed]:
        raise ScenarioError(mistakes)
    values: dict[str, Any] = {
        f"population.{index}.devices": _part(group.devices, factor) for index, group in enumerate(scenario.population)
    }
    values["server"] = _divided("server", scenario.as_written["server"], factor)
    devices = sum(value for path, value in values.items() if path.endswith("devices"))
    if scenario.records.transitions:
        values["records.transitions"] = [each for each in scenario.records.transitions if each < devices]
    values |= _swept(scenario, factor) | _noise(scenario, values["server"])
    if scenario.decide is not None:
        values["decide.subject_to"] = [x for each in scenario.decide.subject_to for x in _of_the_small(each, factor)]
    values["name"] = f"{scenario.name} at 1/{factor}"[:200]
    smaller = scenario.with_values(values)
    return Scaled(smaller, list(_notes(scenario, smaller, factor)))


def _swept(scenario: Scenario, factor: int) -> dict[str, Any]:
    """Return the sweep, and what may be chosen, with devices and cohorts divided, each value once."""
    settings = {key: copy.deepcopy(scenario.as_written.get(key)) or {} for key in ("sweep", "choose")}
    together = settings["sweep"].get("zip") or {}
    for swept in (settings["sweep"].get("grid") or {}, together, settings["choose"]):
        for path, values in swept.items():
            if (parts := _divided(path, values, factor)) != values:
                swept[path] = parts if swept is together else [x for i, x in enumerate(parts) if x not in parts[:i]]
    for entry in settings["sweep"].get("exclude") or []:
        entry |= {path: _divided(path, value, factor) for path, value in entry.items()}
    return {key: value for key, value in settings.items() if value}


def _noise(scenario: Scenario, sizes: dict[str, Any]) -> dict[str, Any]:
    """Return how large a federation the small one stands for, so that a round's mean update has as much noise."""
    privacy, paths = scenario.privacy, [*scenario.choose, *(scenario.sweep.paths if scenario.sweep else ())]
    if privacy is None or privacy.amplification != "none" or any(path.startswith("privacy.") for path in paths):
        return {}
    size = scenario.server.sizes[-1]
    return {"privacy.stands_for": (privacy.stands_for or 1.0) * getattr(scenario.server, size) / sizes[size]}


def _of_the_small(condition: str, factor: int) -> list[str]:
    """Return a condition, or one for each of its limits, which are divided, if its metric is."""
    read = parse_condition(condition)
    ends = [(end, sign) for end, sign in ((read.low, ">"), (read.high, "<")) if end is not None]
    written = [f"{read.metric} {sign}{'=' * (not end.strict)} {end.value / factor:.6g}" for end, sign in ends]
    return written if _SUMS.fullmatch(read.metric) else [condition]


def _divided(path: str, value: Any, factor: int) -> Any:
    """Return a value of a setting, or each of several, with sizes divided."""
    if isinstance(value, list):
        return [_divided(path, each, factor) for each in value]
    if isinstance(value, dict):
        return {name: _divided(name, each, factor) for name, each in value.items()}
    name = path.rpartition(".")[2]
    if name == "uplink" and value is not None:
        return f"{TypeAdapter(BitRate).validate_python(value) / factor:.6f}bps"
    return _part(value, factor) if name in _SCALED and isinstance(value, int) and value else value


def _part(size: int, factor: int) -> int:
    return max(1, round(Fraction(size, factor)))


def _kinds(scenario: Scenario) -> Iterator[tuple[KeyPath, str]]:
    """Yield what each thing about the devices is, and where that is written."""
    parts = all_in(scenario.population, ("population",))
    return ((path, each.kind) for path, each in parts if isinstance(each, Choice))


def _notes(large: Scenario, small: Scenario, factor: int) -> Iterator[str]:
    """Yield what differs apart from the size."""
    wanted, before = small.server.wanted, large.server.wanted / large.devices
    kinds = {kind for _, kind in _kinds(large)}
    if abs(wanted / small.devices / before - 1) > _TOLERATED:
        yield f"rounding: {wanted / small.devices:.2%} of the devices are selected at a time, where {before:.2%} were"
    if any(
        abs(other.devices * factor / one.devices - 1) > _TOLERATED
        for one, other in zip(large.population, small.population, strict=True)
    ):
        yield "rounding: not all groups have the same share of the devices"
    if wanted < _FEW:
        yield f"only {wanted:,} selected at a time: below {_FEW} figures of rounds and L1 are not kept"
    if "zipf" in kinds:
        yield f"zipf goes by rank, and fewer devices have fewer ranks, as with per_rank times {factor:,}"
    if "trace" in kinds:
        yield "a trace gives the small population fewer of its devices: which ones is another draw"
    if large.expect or large.drift is not None:
        yield "its limits and drift are those of the large scenario"
    if large.privacy is not None:
        stands = small.privacy != large.privacy
        kept = "the noise of a round's mean update is kept, and epsilon is that of the large federation"
        yield f"privacy: {kept if stands else 'noise is larger beside the sum of a smaller cohort'}"
    if large.learning is not None:
        yield "learning on fewer clients has other data, and participation noise is a larger part of the loss"
