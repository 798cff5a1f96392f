"""Overrides from the command line: ``population.*.separation=8`` put into a scenario's plain data."""

import re
from collections.abc import Sequence
from typing import Any

from fedsim.common.errors import KeyPath, Mistake, ScenarioError
from fedsim.scenario.document import Document, parse_value

_INDEX = re.compile(r"[0-9]{1,9}")
_DEEPEST = 100
_PART = re.compile(r"[^.\[\]]+|\[(?:\d+|\*)\]")


def apply_override(document: Document, override: str) -> None:
    """Put ``path=value`` into `document`; the value is read as YAML.

    A path is keys and list indices with dots between them (``population.0.devices`` or ``population[0].devices``);
    ``*`` stands for every item of a list or every key of a mapping. Mappings that are missing on the way are made.

    Raises
    ------
    ScenarioError
        If it is not ``path=value``, or the path leads through something that is not there.
    """
    place = f"--set {override}"
    written, equals, text = override.partition("=")
    parts = _parts(written)
    if not equals or not parts:
        raise ScenarioError([Mistake(place, (), "must be PATH=VALUE, such as server.cohort=20")])
    try:
        value = parse_value(text) if text.strip() else None
    except ScenarioError as error:
        raise ScenarioError([Mistake(place, tuple(parts), error.mistakes[0].message)]) from None
    put_value(document, written, value, place)


def put_value(document: Document, written: str, value: Any, place: str) -> None:
    """Put a value at the path `written` as `apply_override` does; mistakes in it are shown at `place`.

    Raises
    ------
    ScenarioError
        If the path is empty, or leads through something that is not there.
    """
    parts = _parts(written)
    if not parts:
        raise ScenarioError([Mistake(place, (), f"{written!r} is not a path such as server.cohort")])
    if len(parts) > _DEEPEST:
        raise ScenarioError([Mistake(place, (), f"leads through {len(parts):,} levels; {_DEEPEST} are possible")])
    _put(document, document.data, (), parts, value, place)


def override_options(overrides: Sequence[str], seed: int | None) -> list[str]:
    """Return the options of the command line that make these overrides, and give this seed unless it is None."""
    words = [word for override in overrides for word in ("--set", override)]
    return words if seed is None else [*words, "--seed", str(seed)]


def _parts(written: str) -> list[str]:
    return [part.strip("[]") for part in _PART.findall(written.strip())]


def _put(document: Document, at: Any, path: KeyPath, parts: list[str], value: Any, place: str) -> None:
    head, rest = parts[0], parts[1:]
    for key in _keys(at, path, head, place):
        inner = (*path, key)
        if not rest:
            if isinstance(at, list) or key in at:
                document.forget(inner, at[key])
            document.values[inner] = document.keys[inner] = place
            at[key] = value
            continue
        if isinstance(at, dict) and (key not in at or not isinstance(at[key], dict | list)):
            at[key] = {}
            document.values[inner] = document.keys[inner] = place
        _put(document, at[key], inner, rest, value, place)


def _keys(at: Any, path: KeyPath, head: str, place: str) -> list[Any]:
    """Return the keys of `at` that `head` names."""
    if isinstance(at, dict):
        return list(at) if head == "*" else [head]
    if not isinstance(at, list):
        raise ScenarioError([Mistake(place, path, f"is {at!r}, which has no {head!r}")])
    if head == "*":
        return list(range(len(at)))
    if not _INDEX.fullmatch(head) or int(head) >= len(at):
        known = f"0 to {len(at) - 1}" if at else "none"
        raise ScenarioError([Mistake(place, path, f"is a list; {head!r} is none of its items ({known}, or *)")])
    return [int(head)]
