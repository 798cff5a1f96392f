"""A scenario as a notebook shows it: what it is about, and every key that it sets."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fedsim.common.notebook import fragment

_ABOVE = ("name", "question", "description")
LONGEST = 300
"""Characters of a value at most."""


def summary_html(title: str, notes: Iterable[str], written: Mapping[str, Any]) -> str:
    """Return a table of the keys that are set, a row for each group of the population, with sentences beneath it."""
    return fragment(title, (), rows(written), words=2, notes=notes)


def rows(written: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield keys with their values, as a scenario file writes them in one line."""
    for key, value in written.items():
        if key == "population" and isinstance(value, list):
            yield from ((f"population[{at}]", flow(group)) for at, group in enumerate(value))
        elif key not in _ABOVE:
            yield key, flow(value)


def flow(value: Any) -> str:
    """Write a value on one line, about as YAML does; of a long one the beginning."""
    text = _flow(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
