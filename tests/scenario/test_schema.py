"""The JSON Schema marks what the loader refuses for a wrong key or kind, and nothing that it accepts."""

import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from jsonschema.exceptions import best_match
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from fedsim.common.errors import FedsimError
from fedsim.run.preflight import checked
from fedsim.scenario import Scenario, scenario_schema, starter
from fedsim.scenario.units import ClockTime, Duration, parse_clock, parse_duration
from tests.fuzz.scenarios import write_scenario

PAGES = [Path("README.md"), *sorted(Path("docs").rglob("*.md")), *sorted(Path("examples").rglob("*.md"))]
TEMPLATES = [path.stem for path in sorted(Path("fedsim/scenario/starters").glob("*.yaml"))]
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)


@cache
def validator() -> Draft7Validator:
    schema = json.loads(json.dumps(scenario_schema()))
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)


def mark(data: Any) -> str:
    """Return what the schema marks first; nothing, if all is right."""
    error = best_match(validator().iter_errors(data))
    return "" if error is None else f"{list(error.absolute_path)}: {error.message[:200]}"


WORDS = {**dict.fromkeys(["", "~", "null"], None), "true": True, "false": False}


def plain(text: str) -> Any:
    """Return the data of a text as editors see it: by the core schema of YAML 1.2, in which 1_000 is a text."""
    yaml = YAML(typ="safe", pure=True)

    def of(node: Any) -> Any:
        if node.id == "sequence":
            return [of(each) for each in node.value]
        if node.id == "mapping":
            yaml.constructor.flatten_mapping(node)  # `<<`
            return {key.value: of(each) for key, each in node.value}
        if node.style is not None:
            return node.value
        if re.fullmatch(r"[-+]?[0-9]+", node.value):
            return int(node.value)
        number = re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", node.value)
        return float(node.value) if number else WORDS.get(node.value, node.value)

    return of(yaml.compose(text))


def shown() -> Iterator[tuple[str, str]]:
    """Yield every scenario of the repository, every template, and every example of one on a page, as text."""
    for path in [*sorted(Path("scenarios").rglob("*.fedsim.yaml")), *sorted(Path("examples").rglob("*.fedsim.yaml"))]:
        yield str(path), path.read_text(encoding="utf-8")
    yield from ((template, starter("mine", template)) for template in TEMPLATES)
    for page in PAGES:
        for text in BLOCK.findall(page.read_text(encoding="utf-8")):
            keys = {*plain(text)}
            of_a_group = "population:\n  - devices: 1\n" + re.sub("^", "    ", text, flags=re.MULTILINE)
            if {"stop", "population"} <= keys and keys & {"server", "jobs"}:
                yield str(page), text
            elif keys <= {*Scenario.model_fields} or keys & {"session", "availability"}:
                part = text if keys <= {*Scenario.model_fields} else of_a_group
                yield str(page), f"extends: whole.fedsim.yaml\n{part}"


def test_all_scenarios_templates_and_examples_are_right() -> None:
    assert len([*shown()]) > 60
    assert {name: wrong for name, text in shown() if (wrong := mark(plain(text)))} == {}


def test_numbers_are_written_as_every_reader_takes_them() -> None:
    wrong = {name: found for name, text in shown() if (found := re.findall(r"(?<=[:\[,{] )\d+_\d+", text))}
    assert wrong == {}


def test_it_is_ready_for_a_catalogue_of_schemas() -> None:
    schema = scenario_schema()
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert re.fullmatch(r"urn:[a-z0-9-]+:\S+", schema["$id"])
    assert schema["title"]
    assert schema["description"]
    text = json.dumps(schema)
    assert not re.search(r'"(format|discriminator|\$defs|oneOf)":', text)
    referred = set(re.findall(r'"#/definitions/([^"]+)"', text))
    assert referred == {*schema["definitions"]}
    assert {name for name in referred if re.search(r"[^\w-]", name)} == set()


CASES = 40


def drawn(number: int, folder: Path) -> Path | None:
    """Return a scenario that is drawn, if the loader accepts it."""
    made = write_scenario(random.Random(number), folder)
    try:
        Scenario.load(made)
    except FedsimError:
        return None
    return made


@pytest.mark.parametrize("first", [0, pytest.param(10_000, marks=pytest.mark.long)])
def test_what_the_loader_accepts_is_right(first: int, tmp_path: Path) -> None:
    accepted = 0
    for number in range(first, first + CASES + 10 * (first > 0) * CASES):
        if (path := drawn(number, tmp_path)) is None:
            continue
        accepted += 1
        data = json.loads(path.read_text(encoding="utf-8"))
        assert mark(data) == "", number
        # A file that changes another may leave out whatever is not in a list, and write a number with its thousands.
        draw = random.Random(number)
        part = grouped(draw, left_out(draw, data)) | {"extends": "whole.fedsim.yaml"}
        assert mark(part) == "", (number, part)
    assert accepted > CASES / 2


def left_out(draw: random.Random, data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    return {key: left_out(draw, each) for key, each in data.items() if draw.random() < 0.7}


def grouped(draw: random.Random, data: Any) -> Any:
    if isinstance(data, dict):
        return {key: each if key == "schema_version" else grouped(draw, each) for key, each in data.items()}
    if isinstance(data, list):
        return [grouped(draw, each) for each in data]
    return f"{data}_0" if type(data) is int and data >= 0 and draw.random() < 0.3 else data


def keys(data: Any) -> Iterator[tuple[dict[str, Any], str]]:
    for key, each in data.items() if isinstance(data, dict) else ():
        yield data, key
        yield from keys(each)
    for each in data if isinstance(data, list) else ():
        yield from keys(each)


def misspelled(draw: random.Random, word: str) -> str:
    at = draw.randrange(len(word))
    return draw.choice([f"{word[:at]}x{word[at:]}", f"{word[:at]}q{word[at + 1 :]}", f"{word}{word[at]}"])


def refusal(path: Path) -> str:
    try:
        checked(Scenario.load(path))
    except FedsimError as error:
        return str(error)
    return ""


TOLD = re.compile(r"unknown (?:key|kind|option)|unknown [a-z ]+ '|is for mode: |is of a session in plain times")


@pytest.mark.parametrize("first", [0, pytest.param(20_000, marks=pytest.mark.long)])
def test_a_wrong_key_or_kind_is_marked(first: int, tmp_path: Path) -> None:
    refused = 0
    for number in range(first, first + CASES + 10 * (first > 0) * CASES):
        if (path := drawn(number, tmp_path)) is None or "extends" in path.read_text(encoding="utf-8"):
            continue
        draw, data = random.Random(number), json.loads(path.read_text(encoding="utf-8"))
        at, key = draw.choice([*keys(data)])
        if key == "kind":
            at[key] = misspelled(draw, at[key])
        else:
            at[misspelled(draw, key)] = at.pop(key)
        path.write_text(json.dumps(data), encoding="utf-8")
        if TOLD.search(said := refusal(path)):
            refused += 1
            assert mark(data), (number, said)
    assert refused > CASES / 3


WHOLE = {"stop": {"rounds": 2}, "population": [{"devices": 5}], "server": {"cohort": 2}}


@pytest.mark.parametrize(
    ("change", "marked"),
    [
        ({}, False),
        ({"stop": {"rounds": "2_000"}}, False),
        ({"stop": {"rounds": "2000"}}, True),
        ({"stop": {"rounds": " many"}}, True),
        ({"server": {}}, True),
        ({"server": {}, "extends": []}, False),
        ({"server": {"cohort": 2, "buffer": None}}, False),
        ({"server": {"cohort": 2, "buffer": 2}}, True),
        ({"server": {"cohort": 2, "selection": "my_laws:Law"}}, False),
        ({"server": {"cohort": 2, "selection": "unifrom"}}, True),
        ({"server": {"cohort": 2, "selection": {"kind": "my_laws:Law", "any": 1}}}, False),
        ({"population": [{"devices": 5, "availability": {"kind": "renewal", "on": "1h"}}]}, True),
        ({"population": [{"devices": 5, "availability": {"kind": "renewal", "on": "1h"}}], "extends": "a.yaml"}, True),
        ({"server": {"check_ins": {"every": "1h"}}, "extends": "a.yaml"}, False),
        ({"learning": {"problem": "quadratic", "optimizers": [{"kind": "fedprox", "nu": 1}], "step_size": 1}}, True),
        ({"learning": {"problem": "quadratic", "optimizers": [{"kind": "fedprox", "mu": 1}], "step_size": 1}}, False),
        ({"learning": {"problem": "quadratik", "optimizers": ["fedprox"], "step_size": 1}}, True),
        ({"start": "2026-01-05T00:00+02:00"}, False),
        ({"choose": None}, False),
    ],
)
def test_what_is_marked(change: dict[str, Any], marked: bool) -> None:
    assert bool(mark(WHOLE | change)) == marked


DURATIONS = st.from_regex(
    r"\s?(([0-9]{1,3}(\.[0-9])?(w|d|h|m|s|ms)){1,3}|PT?([0-9]{1,2}[DHMS]){1,2})\s?", fullmatch=True
)


CLOCKS = st.from_regex(r"\s?[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?\s?", fullmatch=True)
FORMS = [TypeAdapter(kind).json_schema()["pattern"] for kind in (Duration, ClockTime)]


@given(DURATIONS, CLOCKS)
def test_a_text_that_is_read_has_the_form_of_the_schema(duration: str, clock: str) -> None:
    parsers: list[Callable[[object], float]] = [parse_duration, parse_clock]
    for parse, form, text in zip(parsers, FORMS, (duration, clock), strict=True):
        with suppress(ValueError):
            parse(text)
            assert re.search(form, text), text
