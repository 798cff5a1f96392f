"""The JSON Schema of the scenario file, which editors complete and check it by.

A file that extends others says of a mapping only what differs, so that nothing is required in it but within lists,
which are taken whole. The schema therefore has two halves: what may stand in a file, and, in definitions that end with
``Needs``, what must: within lists always, elsewhere only without ``extends``. Its `$id` names it without an address.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fedsim.scenario.scenario import Scenario

_Schema = dict[str, Any]
_NULL: _Schema = {"type": "null"}
_GROUPED = r"^[-+.]?(0[box]|\d[\w.]*_)[\w.+-]*$"
"""What is read as a number in a scenario, such as 1_000, and is a text to the core schema of YAML 1.2."""
_NAMES: _Schema = {"type": "string", "minLength": 1}
EXTENDS: _Schema = {
    "anyOf": [_NAMES, {"type": "array", "items": _NAMES}],
    "description": "Scenario files, relative to this one, over which this one is merged, key by key; this file wins.",
}
"""The key of a file that no scenario has."""
_OWN = ("description", "default")
_SHARED, _LONG = 3, 120  # how often a part must be there, and with how many characters, to become a definition


def scenario_schema() -> _Schema:
    """Return the JSON Schema (draft 7) of a scenario file."""
    whole = Scenario.model_json_schema()
    schema = _Halves(whole.pop("$defs"))
    whole["properties"]["extends"] = EXTENDS
    whole["required"].remove("server")
    needs = {**schema.needs(whole), "anyOf": [{"required": ["server"]}, {"required": ["jobs"]}]}
    whole["properties"]["server"]["oneOf"].append(_NULL)  # beside jobs, in place of one that is extended
    may = schema.may(whole)
    definitions = schema.definitions()
    definitions |= _shared([may, *definitions.values()])
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "urn:fedsim:scenario:1",
        "title": "fedsim scenario",
        **may,
        "if": {"required": ["extends"]},
        "else": needs,
        "definitions": definitions,
    }


class _Halves:
    """Takes a schema of pydantic's apart, given its definitions."""

    def __init__(self, models: Mapping[str, _Schema]) -> None:
        self._models, self._needs = models, dict[str, _Schema]()

    def definitions(self) -> _Schema:
        """Return those of both halves."""
        may = {name: {"title": name, **self.may(model)} for name, model in self._models.items()}
        return may | {_needs_of(name): needs for name, needs in sorted(self._needs.items()) if needs}

    def may(self, part: _Schema) -> _Schema:
        """Return what may stand in a file: nothing is required but within lists."""
        allowed: _Schema = {}
        for key, value in part.items():
            match key, value:
                case "required" | "discriminator" | "title" | "format", _:
                    pass
                case "properties" | "patternProperties", _:
                    allowed[key] = {name: self.may(each) for name, each in value.items()}
                case "anyOf" | "oneOf", _:
                    allowed["anyOf"] = [self.may(each) for each in _alternatives(part)]
                case "items", _:
                    allowed[key] = self._all_of(value)
                case "additionalProperties" | "propertyNames", dict():
                    allowed[key] = self.may(value)
                case "type", "integer" | "number":
                    allowed |= {"type": [value, "string"], "pattern": _GROUPED}
                case "$ref", _:
                    allowed["$ref"] = f"#/definitions/{_name(part)}"
                case _:
                    allowed[key] = value
        if "patternProperties" in allowed:
            allowed["additionalProperties"] = False
        if "$ref" in allowed and len(allowed) > 1:  # draft 7 takes no notice of what stands beside a reference
            allowed["allOf"] = [{"$ref": allowed.pop("$ref")}]
        return allowed

    def needs(self, part: _Schema) -> _Schema:
        """Return what must be there, not counting what is within lists; empty, if nothing must."""
        if "$ref" in part:
            name = _name(part)
            if name not in self._needs:
                self._needs[name] = self.needs(self._models[name])
            return {"$ref": f"#/definitions/{_needs_of(name)}"} if self._needs[name] else {}
        mappings = [each for each in _alternatives(part) if self._model(each).get("type") == "object"]
        if len(mappings) > 1:
            return self._needs_of_union(mappings)
        if mappings and mappings[0] is not part:
            return self.needs(mappings[0])
        required: _Schema = {"required": part["required"]} if part.get("required") else {}
        for key in ("properties", "patternProperties"):
            if inner := {name: needs for name, each in part.get(key, {}).items() if (needs := self.needs(each))}:
                required[key] = inner
        return required

    def _needs_of_union(self, mappings: list[_Schema]) -> _Schema:
        models = [self._model(each) for each in mappings]
        tags = [name for model in models for name, each in _properties(model) if "const" in each]
        if not tags:
            whole = [self._all_of(each) for each in mappings]
            return {"if": {"type": "object"}, "then": {"anyOf": whole}} if any(map(self.needs, mappings)) else {}
        tag = tags[0]
        always = all(tag in model.get("required", ()) for model in models)
        required: _Schema = {"required": [tag]} if always else {}
        cases = []
        for each, model in zip(mappings, models, strict=True):
            values, needs = dict(_properties(model)).get(tag, {}), self.needs(model)
            given = {"required": [tag]} if tag in model.get("required", ()) else {}
            kind = {key: values[key] for key in ("const", "enum") if key in values}
            if kind and needs != given:
                cases.append({"if": {"properties": {tag: kind}, **given}, "then": self.needs(each)})
        return required | ({"allOf": cases} if cases else {})

    def _all_of(self, part: _Schema) -> _Schema:
        needs = self.needs(part)
        return {"allOf": [self.may(part), needs]} if needs else self.may(part)

    def _model(self, part: _Schema) -> _Schema:
        return self._models[_name(part)] if "$ref" in part else part


def _shared(models: Iterable[_Schema]) -> _Schema:
    """Make definitions of what several properties have in common, which then refer to them; return these."""
    uses = defaultdict[str, list[tuple[str, _Schema]]](list)
    for model in models:
        for name, each in _properties(model):
            core = json.dumps({key: value for key, value in each.items() if key not in _OWN})
            if len(core) >= _LONG:
                uses[core].append((name, each))
    definitions: _Schema = {}
    for core, places in uses.items():
        if len(places) >= _SHARED:
            name = f"{places[0][0]}-{len(definitions) + 1}"
            definitions[name] = json.loads(core)
            for _, each in places:
                beside = {key: each[key] for key in _OWN if key in each}
                each.clear()
                each |= {"allOf": [{"$ref": f"#/definitions/{name}"}], **beside}
    return definitions


def _needs_of(name: str) -> str:
    return f"{name}Needs"


def _name(reference: _Schema) -> str:
    name: str = reference["$ref"].rpartition("/")[2]
    return name


def _properties(model: _Schema) -> Iterator[tuple[str, _Schema]]:
    yield from model.get("properties", {}).items()


def _alternatives(part: _Schema) -> list[_Schema]:
    """Return the members of a union, and of unions within it; else the part itself."""
    union = part.get("anyOf") or part.get("oneOf")
    return [part] if union is None else [each for member in union for each in _alternatives(member)]
