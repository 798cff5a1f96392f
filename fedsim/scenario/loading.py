"""From a file, those that it extends, and overrides to a validated model, or to every mistake with its place."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fedsim.common.arguments import IN_A_FILE
from fedsim.common.errors import KeyPath, Mistake, ScenarioError
from fedsim.scenario.document import Document, read_document
from fedsim.scenario.model import did_you_mean
from fedsim.scenario.overrides import apply_override
from fedsim.scenario.permissions import NOTHING, Permissions, locate, refused

M = TypeVar("M", bound=BaseModel)
_EXTENDS = "extends"
_DEEPEST = 20


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
    _resolve_extends(document, mistakes)
    if named is None:
        document.data.pop("name", None)  # a base has a name of its own, which is not this scenario's
    for override in overrides:
        apply_override(document, override)
    if seed is not None:
        apply_override(document, f"seed={seed}")
    document.data.setdefault("name", file.name.removesuffix(".yaml").removesuffix(".fedsim"))
    return document, mistakes


def _resolve_extends(
    document: Document, mistakes: list[Mistake], ancestors: tuple[Path, ...] = (), home: Path | None = None
) -> None:
    """Merge the files that `document` extends into it, and take the key away.

    Mappings are merged key by key; a list or a scalar of the file that extends replaces the other. Of several files a
    later one wins over an earlier. Every value keeps the place where it was written.

    Parameters
    ----------
    document
        A scenario's plain data, changed in place.
    mistakes
        Of the files that are read on the way; added to.
    ancestors
        Files that extend this one, the outermost first.
    home
        Folder of the outermost file, which is not to be left; None for that file itself.

    Raises
    ------
    ScenarioError
        If a file cannot be read, extends itself, or is outside the folder of the outermost one without permission.
    """
    if _EXTENDS not in document.data:
        return
    place = document.place((_EXTENDS,))
    names = document.data.pop(_EXTENDS)
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ScenarioError([Mistake(place, (_EXTENDS,), "must be a file name or a list of them")])
    chain = (*ancestors, Path(document.source).resolve())
    merged = Document(data={}, source=document.source, folder=document.folder)
    home = document.folder if home is None else home
    for index, name in enumerate(names):
        where = document.place((_EXTENDS, index))
        try:
            file = locate(home, name, document.permissions, document.folder)
        except ValueError as error:
            raise ScenarioError([Mistake(where, (_EXTENDS,), str(error))]) from None
        if file.resolve() in chain or len(chain) > _DEEPEST:
            raise ScenarioError([Mistake(where, (_EXTENDS,), f"{name!r} extends itself")])
        if file.exists() and not file.is_file():
            raise ScenarioError([Mistake(where, (_EXTENDS,), f"{name!r} is not a file")])
        try:
            base, found = read_document(file)
        except ScenarioError as error:
            raise ScenarioError([Mistake(where, (_EXTENDS,), str(error))]) from None
        mistakes += found
        base.permissions = document.permissions
        _resolve_extends(base, mistakes, chain, home)
        _merge(merged, base, merged.data, base.data, ())
    _merge(merged, document, merged.data, document.data, ())
    document.data, document.values, document.keys = merged.data, merged.values, merged.keys


def _merge(into: Document, over: Document, below: dict[Any, Any], above: dict[Any, Any], path: KeyPath) -> None:
    into.values[path] = over.place(path)
    for key, value in above.items():
        inner = (*path, key)
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            into.keys[inner] = over.place(inner, of_key=True)
            _merge(into, over, below[key], value, inner)
            continue
        below[key] = value
        for table, places in ((into.values, over.values), (into.keys, over.keys)):
            for known in [known for known in table if known[: len(inner)] == inner]:
                del table[known]
            table |= {known: place for known, place in places.items() if known[: len(inner)] == inner}


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
