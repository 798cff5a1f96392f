"""From a scenario with a sweep to its points: values, scenarios, and every mistake in any of them."""

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedsim._version import __version__
from fedsim.common.errors import Mistake, ScenarioError
from fedsim.experiment.budget import Need, refusals
from fedsim.experiment.preflight import preflight
from fedsim.scenario import Scenario
from fedsim.scenario.sweep import Sweep
from fedsim.sweeps.inputs import Inputs, inputs_of, origin_of

_MAX_RUNS = 1_000_000
_MOST_MISTAKES = 100
_POINT_BYTES, _VALUE_BYTES = 20_000, 1_000  # of a point, and for each key or value that is written
# Keys of a scenario that change no figure of a run.
_WITHOUT_EFFECT = ("name", "description", "question", "seed", "sweep", "decide", "expect", "drift", "replicates")


@dataclass(frozen=True)
class Point:
    """One setting of a sweep."""

    index: int  # from 0, in the order of the grid, whose last path varies fastest
    values: dict[str, Any]  # of the swept paths
    scenario: Scenario
    digest: str  # of everything that its runs depend on, except the seed
    inputs: Inputs = field(default_factory=Inputs)

    def run_id(self, seed: int) -> str:
        """Return the name of the run with this seed: a hash of configuration, seed and the version of fedsim."""
        return hashlib.sha256(f"{self.digest}:{seed}:{__version__}".encode()).hexdigest()[:20]

    def with_seed(self, seed: int) -> Scenario:
        """Return the scenario of the run with this seed."""
        return self.scenario.model_copy(update={"seed": seed})


def seeds_of(scenario: Scenario) -> list[int]:
    """Return the seeds that every point is run with."""
    seeds = 1 if scenario.sweep is None else scenario.sweep.seeds
    return list(range(scenario.seed, scenario.seed + seeds)) if isinstance(seeds, int) else list(seeds)


def points_of(scenario: Scenario) -> list[Point]:
    """Return the points of a scenario's sweep, each checked as `preflight` does; one point without a sweep.

    Raises
    ------
    ScenarioError
        With every mistake in any point, at the place of the value in the sweep that makes it; if all points are
        excluded; or if there are too many runs.
    """
    sweep = scenario.sweep or Sweep()
    size = sweep.count * (_POINT_BYTES + _VALUE_BYTES * scenario.written)
    if too_much := refusals(scenario, [Need(("sweep",), f"a sweep of {sweep.count:,} points", size)]):
        raise ScenarioError(too_much)
    points: list[Point] = []
    mistakes: dict[Mistake, None] = {}
    for values, places in _combinations(scenario, sweep):
        if sweep.excludes(values):
            continue
        try:
            there = scenario.with_values({"sweep": None, **values}, places)
            preflight(there)
        except ScenarioError as error:
            mistakes |= dict.fromkeys(_at(mistake, values, places) for mistake in error.mistakes)
            if len(mistakes) >= _MOST_MISTAKES:
                break
        else:
            points.append(Point(len(points), values, there, *_digest(there)))
    if not mistakes and not points:
        mistakes[scenario.mistake(("sweep", "exclude"), "leaves no point to run")] = None
    runs = len(points) * len(seeds_of(scenario))
    if runs > _MAX_RUNS:
        message = f"makes {runs:,} runs with {len(points):,} points; at most {_MAX_RUNS:,} are possible"
        mistakes[scenario.mistake(("sweep", "seeds"), message)] = None
    if mistakes:
        raise ScenarioError(list(mistakes))
    return points


def _combinations(scenario: Scenario, sweep: Sweep) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """Yield the values of each combination by path, and the places where they are written."""

    def place(kind: str, path: str, index: int) -> str:
        return scenario.mistake(("sweep", kind, path, index), "").place

    together = range(max((len(values) for values in sweep.zip.values()), default=1))
    for *choice, row in itertools.product(*(range(len(values)) for values in sweep.grid.values()), together):
        at = dict(zip(sweep.grid, choice, strict=True))
        values = {path: sweep.grid[path][index] for path, index in at.items()}
        places = {path: place("grid", path, index) for path, index in at.items()}
        for path, listed in sweep.zip.items():
            values[path], places[path] = listed[row], place("zip", path, row)
        yield values, places


def _at(mistake: Mistake, values: Mapping[str, Any], places: Mapping[str, str]) -> Mistake:
    """Add the values of the point to a mistake whose place does not show them."""
    if mistake.place in places.values() or not values:
        return mistake
    where = ", ".join(f"{path}: {json.dumps(value, ensure_ascii=False)}" for path, value in values.items())
    return replace(mistake, message=f"{mistake.message} (at {where})")


def _digest(scenario: Scenario) -> tuple[str, Inputs]:
    """Hash the resolved configuration and the contents of what it names: files, and modules of the user's own."""
    resolved = {key: value for key, value in scenario.model_dump(mode="json").items() if key not in _WITHOUT_EFFECT}
    digest = hashlib.sha256(json.dumps(resolved, sort_keys=True).encode())
    inputs = inputs_of(resolved, scenario.folder)
    named = {Path(path): known for path, known in inputs.files.items()}
    named |= {origin: known for name, known in inputs.modules.items() if (origin := origin_of(name)) is not None}
    for file in sorted(named):
        digest.update(bytes.fromhex(named[file]))
    return digest.hexdigest(), inputs
