"""From a file and overrides to a validated model, or to every mistake with its place."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fedsim.common.arguments import IN_A_FILE
from fedsim.common.errors import KeyPath, Mistake, ScenarioError
from fedsim.scenario.document import Document, read_document
from fedsim.scenario.extends import resolve_extends
from fedsim.scenario.model import did_you_mean
from fedsim.scenario.overrides import apply_override
from fedsim.scenario.permissions import NOTHING, Permissions, refused

M = TypeVar("M", bound=BaseModel)


def load_document(
    path: str | Path, overrides: Sequence[str], seed: int | None, permissions: Permissions = NOTHING
) -> tuple[Document, list[Mistake]]:
    """Read a file and those that it extends, put the overrides in, and give it the file's name where it has none.

    Raises
    ------
    ScenarioError
        If the file is not a YAML mapping, or an override leads nowhere.
    """
    file = Path(path)
    document, mistakes = read_document(file)
    document.permissions = permissions
    named = document.data.get("name")
    resolve_extends(document, mistakes)
    if named is None:
        document.data.pop("name", None)  # a base has a name of its own, which is not this scenario's
    for override in overrides:
        apply_override(document, override)
    if seed is not None:
        apply_override(document, f"seed={seed}")
    document.data.setdefault("name", file.name.removesuffix(".yaml").removesuffix(".fedsim"))
    return document, mistakes


def validate(model: type[M], document: Document, mistakes: Sequence[Mistake]) -> M:
    """Validate plain data, and see that it asks for nothing that it may not have.

    Parameters
    ----------
    mistakes
        What was already found wrong while reading; reported with the rest.

    Raises
    ------
    ScenarioError
        With every mistake, in the order of the file.
    """
    mistakes = [*mistakes, *not_permitted(document)]
    try:
        valid = model.model_validate(document.data, context=IN_A_FILE if document.in_a_file else None)
    except ValidationError as error:
        found = [_mistake(document, details) for details in error.errors(include_url=False)]
        raise ScenarioError(_in_order([*mistakes, *found])) from None
    if mistakes:
        raise ScenarioError(_in_order(mistakes))
    return valid


def not_permitted(document: Document) -> list[Mistake]:
    """Return what a document asks for and may not have."""
    asked = refused(document.data, document.folder, document.permissions)
    return [Mistake(document.place(path), path, message) for path, message in asked]


def _in_order(mistakes: Sequence[Mistake]) -> list[Mistake]:
    def position(mistake: Mistake) -> tuple[int, int]:
        line, _, column = mistake.place.rpartition(":")
        line = line.rpartition(":")[2]
        return (int(line), int(column)) if line.isdigit() and column.isdigit() else (0, 0)

    unique = list(dict.fromkeys(mistakes))
    return sorted(unique, key=position)


def _mistake(document: Document, details: Any) -> Mistake:
    path = _written_path(document.data, details["loc"], details["type"])
    place = document.place(path, of_key=details["type"] in {"unknown_key", "extra_forbidden"})
    return Mistake(place, path, _message(details))


def _written_path(data: Any, loc: Sequence[str | int], kind: str) -> KeyPath:
    """Drop from pydantic's location the parts that no one wrote: names of union members, fields of short forms."""
    path: list[str | int] = []
    last = len(loc) - 1
    for index, part in enumerate(loc):
        inside = (isinstance(data, dict) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        )
        if inside:
            path.append(part)
            data = data[part]
        elif index == last and kind == "missing" and isinstance(data, dict):
            path.append(part)
    if kind in {"union_tag_invalid", "union_tag_not_found"} and isinstance(data, dict) and "kind" in data:
        path.append("kind")
    return tuple(path)


def _message(details: Any) -> str:
    kind, context, value = details["type"], details.get("ctx", {}), details["input"]
    shown = _shown(value)
    if kind == "missing":
        return "is required"
    if kind == "unknown_key":
        return str(details["msg"])
    if kind == "value_error":
        return str(context["error"])
    if kind == "union_tag_invalid":
        known = [tag.strip(" '") for tag in context["expected_tags"].split(",")]
        return f"unknown kind {context['tag']!r}{did_you_mean(context['tag'], known)}"
    if kind == "union_tag_not_found":
        return "needs `kind`, which says what the other keys mean"
    if kind == "literal_error":
        known = [word.strip("'") for word in context["expected"].replace(" or ", ", ").split(", ")]
        choice = "one of " if len(known) > 1 else ""
        return f"must be {choice}{context['expected']}, not {shown}{_hint(value, known)}"
    wanted = {
        "int_type": "a whole number",
        "int_from_float": "a whole number",
        "float_type": "a number",
        "string_type": "text",
        "bool_type": "true or false",
        "list_type": "a list",
        "dict_type": "a mapping",
        "model_type": "a mapping",
        "model_attributes_type": "a mapping",
        "finite_number": "a finite number",
        "greater_than": "above {gt}",
        "greater_than_equal": "at least {ge}",
        "less_than": "below {lt}",
        "less_than_equal": "at most {le}",
    }.get(kind)
    if wanted:
        return f"must be {wanted.format(**context)}, not {shown}"
    if kind in {"too_short", "too_long"}:
        bound = "at least {min_length}" if kind == "too_short" else "at most {max_length}"
        return f"must have {bound.format(**context)} items, not {context['actual_length']}"
    message = str(details["msg"])
    return f"{message[0].lower()}{message[1:]}, not {shown}"


def _hint(value: Any, known: Sequence[str]) -> str:
    hint = did_you_mean(value, known)
    return hint if "mean" in hint else ""


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "empty"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
