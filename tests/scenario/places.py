"""Every place of a scenario at which its schema takes something, each in about the smallest scenario that has it."""

from collections.abc import Callable, Iterator
from typing import Any

from fedsim.common.errors import KeyPath
from fedsim.scenario import Scenario

Json = dict[str, Any]
Wanted = Callable[[str, Json], Any]
"""What to put where a schema, with its name, is that of the places that are meant; None where it is another."""

_SERVED = {"server": {"cohort": 1}}
_FLEET = {"stop": {"rounds": 2}, "population": [{"devices": 3}]}
_NEEDED: dict[str, Json] = {
    "": _FLEET | _SERVED,
    "Learning": {"problem": "quadratic", "optimizers": ["fedavg"]},
    "Privacy": {"noise_multiplier": 1, "delta": 1e-5},
    "Shock": {"every": "1d", "length": "1h"},
}
_INSTEAD: dict[tuple[str, str], Json] = {
    ("", "jobs"): _FLEET,
    ("", "matching"): {**_FLEET, "jobs": {"a": _SERVED, "b": _SERVED}},
    ("Shock", "recovery"): {"windows": [{"begin": "2026-01-06", "end": "2026-01-07"}]},
}
"""What goes with some keys, which their models say and the schema does not."""


def places(wanted: Wanted, schema: Json | None = None) -> list[tuple[KeyPath, Any]]:
    """Return the path of each place, and the data that have there what is wanted."""
    schema = Scenario.model_json_schema() if schema is None else schema
    return list(_places(wanted, schema, schema.get("$defs", {}), ""))


def _places(wanted: Wanted, node: Json, known: Json, name: str) -> Iterator[tuple[KeyPath, Any]]:
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        node = known[name]
    if (there := wanted(name, node)) is not None:
        yield (), there
    for branch in [] if "properties" in node else [*node.get("anyOf", ()), *node.get("oneOf", ())]:
        yield from _places(wanted, branch, known, name)
    if isinstance(node.get("items"), dict):
        yield from (((0, *path), [data]) for path, data in _places(wanted, node["items"], known, name))
    for each in node.get("patternProperties", {}).values():
        for path, data in _places(wanted, each, known, name):
            yield ("a", *path), {"a": data, "b": _SERVED}
    for key, each in node.get("properties", {}).items():
        around = _INSTEAD.get((name, key)) or _smallest(node, known, name)
        for path, data in _places(wanted, each, known, name if "$ref" in each else f"{name}.{key}"):
            yield (key, *path), {**around, key: data}


def _smallest(node: Json, known: Json, name: str = "") -> Any:
    """Return about the least that a schema takes."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        node = known[name]
    if "properties" in node:
        required = {*node.get("required", ()), *({"kind"} & node["properties"].keys())} - _NEEDED.get(name, {}).keys()
        return {key: _smallest(node["properties"][key], known) for key in sorted(required)} | _NEEDED.get(name, {})
    for key in ("const",):
        if key in node:
            return node[key]
    for key in ("enum", "examples", "anyOf", "oneOf"):
        if key in node:
            return _smallest(node[key][0], known) if "Of" in key else node[key][0]
    if node["type"] == "array":
        return [_smallest(node["items"], known) for _ in range(node.get("minItems", 0))]
    if node["type"] == "object":
        return {}
    return "text" if node["type"] == "string" else node.get("minimum", 0.5 if node["type"] == "number" else 1)
