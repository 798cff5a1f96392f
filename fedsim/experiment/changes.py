"""What differs between two configurations."""

from collections.abc import Iterator, Mapping
from typing import Any

Change = tuple[str, Any, Any]
ABSENT = "(absent)"


def changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Change]:
    """Yield (path, value in a, value in b) wherever two configurations differ, in the order of a, then of b."""
    ours, theirs = dict(_leaves(a)), dict(_leaves(b))
    for path in dict.fromkeys([*ours, *theirs]):
        pair = ours.get(path, ABSENT), theirs.get(path, ABSENT)
        if pair[0] != pair[1] or isinstance(pair[0], bool) != isinstance(pair[1], bool):
            yield path, *pair


def _leaves(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, list) and data and any(isinstance(item, Mapping | list) for item in data):
        for index, value in enumerate(data):
            yield from _leaves(value, f"{path}[{index}]")
    else:
        yield path, data
