"""Refuses classes of users' own that draw without a seed: each is used in two small runs that must be the same.

A class that fails there is not judged: the run itself says how it fails.
"""

import copy
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedsim.availability.population import strata
from fedsim.common.errors import Mistake, told
from fedsim.common.json_files import as_json, finite
from fedsim.common.registry import is_own
from fedsim.measure.metrics.own import made_metrics
from fedsim.population import build_population
from fedsim.run.evaluate import evaluate, learner_of
from fedsim.run.federation import PreparedFederation
from fedsim.run.run import Run
from fedsim.scenario import Scenario
from fedsim.scenario.component import Component, components
from fedsim.scenario.document import Document
from fedsim.scenario.roles import registry_of
from fedsim.simulation import simulate_log, transitions_table

_MOST_DEVICES, _WATCHED_S = 1_000, 172_800.0
_SMALL = {
    "stop": {"rounds": 3},
    "population": [{"devices": 6}, {"devices": 4, "weight": 2, "separation": 1}],
    "server": {"cohort": 3, "pause": "1m"},
}
_LEARNING = {"problem": "quadratic", "optimizers": [{"kind": "fedavg"}], "step_size": 0.1, "local_steps": 2}
_PRIVACY = {"noise_multiplier": 1.0, "delta": 1e-5, "clip": 1.0, "training": "noise"}

_ROLES = {
    "availability model": ["population", "availability"],
    "selection law": ["server", "selection"],
    "metric": ["metrics"],
    "privacy mechanism": ["privacy", "mechanism"],
    "problem": ["learning", "problem"],
    "server update": ["learning", "optimizers", "server"],
    "optimizer": ["learning", "optimizers"],
}
"""Where the scenario names classes of a role: each role before those that depend on it."""


def small_scenario(
    role: str, choice: Mapping[str, Any], keys: Mapping[str, Any] | None = None, folder: Path = Path()
) -> Scenario:
    """Return a small scenario that names one class, `choice`, in its role; `keys` replace those of the scenario."""
    at = registry_of(role).at
    data: dict[str, Any] = copy.deepcopy({**_SMALL, **(keys or {})})
    if at.startswith(("learning", "privacy")):
        data["learning"] = copy.deepcopy({**_LEARNING, **data.get("learning", {})})
    if at.startswith("privacy"):
        data["privacy"] = {**_PRIVACY}
    if role == "matching policy":
        server = data.pop("server")
        data["jobs"] = {"first": {"server": server}, "second": {"server": server, "weight": 2}}
    path = at.removesuffix("[]")
    document = Document(data, folder=folder)
    document.put(path, choice if at == path else [choice], path)
    return Scenario.of_document(document)


def unrepeatable(scenario: Scenario) -> list[Mistake]:
    """Return a mistake for each class of the first role with classes that give something else in the second run.

    Charts are drawn twice by the page, and distributions are asked twice where they are checked.
    """
    classes = [(path, each) for path, each in components(scenario) if is_own(each.kind)]
    for role, at in _ROLES.items():
        named = [(path, each) for path, each in classes if at == [key for key in path if isinstance(key, str)]]
        wrong = [(path, each.kind) for path, each in named if _differs(scenario, role, each)]
        if wrong:  # what comes after it would differ too
            return [scenario.mistake(path, registry_of(role).unrepeatable(kind)) for path, kind in wrong]
    return []


def _differs(scenario: Scenario, role: str, choice: Component) -> bool:
    """Say whether two small runs with a class differ; they have the scenario's own federation where that is needed."""
    named, learning = {"kind": choice.kind, **choice.options}, scenario.learning
    if role == "optimizer":
        named.pop("server", None)
    keys: dict[str, Any] = {}
    if role == "problem" and learning is not None:
        keys["learning"] = {"batch_size": learning.batch_size}
    written = scenario.as_written
    federation = keys | {key: written[key] for key in ("start", "population", "server") if key in written}
    first_own = role == "selection law" and scenario.devices <= _MOST_DEVICES
    for each in (federation, keys) if first_own else (keys, federation):
        written_out = json.dumps([named, each], default=str)
        differs = _differ(registry_of(role).find(choice.kind), role, written_out, scenario.folder)  # type: ignore[arg-type]
        if differs is not None:  # the class may fit no such federation
            return differs
    return False


@lru_cache(256)  # a sweep asks once in each process
def _differ(_class: type, role: str, written: str, folder: Path) -> bool | None:
    """Say whether two runs of a small scenario with a class differ; None if they fail."""
    try:
        named, keys = json.loads(written)
        small = small_scenario(role, named, keys, folder)
        return figures(small) != figures(small)
    except BaseException as error:  # noqa: BLE001  it is a user's
        told(error)
        return None


def figures(small: Scenario) -> dict[str, str]:
    """Simulate a scenario, and return what it logs, measures and trains, by the names of the tables."""
    population = build_population(small)
    devices = strata(small, population)
    federation = PreparedFederation(small, population, devices, own_metrics=made_metrics(small)[0])
    log = simulate_log(small, population, 0, None, devices, learner_of(federation))
    if small.metrics or small.learning is not None:
        return as_text(evaluate(federation, log))
    ends = [0, len(population) - 1]
    table = transitions_table(small, population, ends, _WATCHED_S, devices=devices)
    return {"participations": repr(log.participations.rows()), "transitions": repr(table.rows())}


def as_text(run: Run) -> dict[str, str]:
    """Return the rows of all tables of a run, and its metrics, as text."""
    return {name: repr(table.rows()) for name, table in run.tables.items()} | {"metrics": as_json(finite(run.metrics))}
