"""From a file, those that it extends, and overrides to a validated model, or to every mistake with its place."""

import copy
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fedsim.common.arguments import IN_A_FILE, short_repr
from fedsim.common.errors import KeyPath, MissingScenarioError, Mistake, ScenarioError
from fedsim.common.hints import did_you_mean, few_hints
from fedsim.scenario.component import all_in, words_of
from fedsim.scenario.document import Allowance, Document, below_and_at, read_document
from fedsim.scenario.permissions import TRUSTED, Permissions, locate, why_refused
from fedsim.scenario.units import format_duration, parse_duration

M = TypeVar("M", bound=BaseModel)
_EXTENDS = "extends"
_DEEPEST = 20
_POSITION = re.compile(r"(?:^|:)([0-9]{1,9}):([0-9]{1,9})$")
_MOST_MISTAKES = 100
_MOST_TRIED = 200  # values of a sweep that may ask for something; the others are refused when the points are made
_LARGE = re.compile(r"(\d{1,12}(?:[,_]\d{3}){0,4}(?:\.\d{1,12})?(?:[eE]\+?\d)?)\s*([kKmMgGbB]?)")
_TIMES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}
_MESSAGES = {
    **dict.fromkeys(("int_type", "int_from_float"), "must be a whole number, not {shown}"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be a mapping, not {shown}"),
    "float_type": "must be a number, not {shown}",
    "string_type": "must be text, not {shown}",
    "bool_type": "must be true or false, not {shown}",
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list, not {shown}"),
    "finite_number": "must be a finite number, not {shown}",
    "greater_than": "must be above {gt}, not {shown}",
    "greater_than_equal": "must be at least {ge}, not {shown}",
    "less_than": "must be below {lt}, not {shown}",
    "less_than_equal": "must be at most {le}, not {shown}",
    "too_short": "must have at least {min_length} items, not {actual_length}",
    "too_long": "must have at most {max_length} items, not {actual_length}",
    "union_tag_not_found": "needs `kind`, which says what the other keys mean",
    "missing": "is required",
    "unknown_key": "{reason}",
    "value_error": "{error}",
}
"""By the type of pydantic's error."""
_LIMITS = {"greater_than", "greater_than_equal", "less_than", "less_than_equal"}


def load_document(
    file: Path, overrides: Sequence[str], seed: int | None, permissions: Permissions
) -> tuple[Document, list[Mistake]]:
    """Read a file and those that it extends, put the overrides in, and give it the file's name where it has none.

    A `ScenarioError` says if the file is not a YAML mapping, or an override leads nowhere.
    """
    left, file = Allowance(), shipped(file)
    document, mistakes = read_document(file, left)
    document.permissions = permissions
    named = document.data.get("name")
    _Bases(left, mistakes, document.folder, permissions).resolve(document)
    if named is None:
        document.data.pop("name", None)  # a base has a name of its own, which is not this scenario's
    for override in [*overrides, *([] if seed is None else [f"seed={seed}"])]:
        document.override(override)
    document.data.setdefault("name", file.name.removesuffix(".yaml").removesuffix(".fedsim"))
    return document, mistakes


def shipped(file: Path) -> Path:
    """Return the scenario of the paper that ``paper/NAME`` means and that comes with fedsim; else the file itself.

    It is a `ScenarioError` if ``paper`` is no folder, and there is no scenario of that name.
    """
    if file.exists() or file.parent.name != "paper":
        return file
    name = file.name.removesuffix(".yaml").removesuffix(".fedsim")
    papers = {path.name.removesuffix(".fedsim.yaml"): path for path in of_paper()}
    if name not in papers and file.parent.exists():
        return file
    if name not in papers:
        hint = did_you_mean(name, papers, or_known=True)
        raise MissingScenarioError(
            [Mistake(f"{file}:1:1", (), f"no such file, and no such scenario of the paper{hint}")]
        )
    ours = papers[name]
    return ours.relative_to(Path.cwd()) if ours.is_relative_to(Path.cwd()) else ours


def of_paper() -> list[Path]:
    """Return the scenarios of the paper that come with fedsim."""
    package = Path(__file__).parents[1]  # installed beside it, or above it in a checkout
    return [path for folder in (package, package.parent) for path in folder.glob("scenarios/paper/*.fedsim.yaml")]


class _Bases:
    """The files that a scenario extends, each read once however often it is named.

    Mappings are merged key by key; a list or a scalar of the file that extends replaces the other. Of several files a
    later one wins over an earlier. Every value keeps the place where it was written. `mistakes` takes those of the
    files; `home` is the folder of the outermost file, which is not to be left without permission.
    """

    def __init__(self, left: Allowance, mistakes: list[Mistake], home: Path, permissions: Permissions) -> None:
        self._left, self._mistakes, self._home, self._permissions = left, mistakes, home, permissions
        self._bases: dict[Path, Document] = {}

    def resolve(self, document: Document, ancestors: tuple[Path, ...] = ()) -> None:
        """Merge the files that `document` extends into it, and take the key away.

        A `ScenarioError` says if a file cannot be read, extends itself, or is outside the folder of the outermost one
        without permission, or if there are too many, or too much in them.
        """
        if _EXTENDS not in document.data:
            return
        place = document.place((_EXTENDS,))
        names = document.data.pop(_EXTENDS)
        names = [names] if isinstance(names, str) else names
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise _refusal(place, "must be a file name or a list of them")
        chain = (*ancestors, Path(document.source).resolve())
        merged = Document(data={}, source=document.source, folder=document.folder)
        for index, name in enumerate(names):
            where = document.place((_EXTENDS, index))
            self._left.files -= 1
            if self._left.files < 0 or len(chain) > _DEEPEST:
                raise _refusal(where, "extends too many files, one through another")
            try:
                file = locate(self._home, name, self._permissions, document.folder)
            except ValueError as error:
                raise _refusal(where, str(error)) from None
            if file.resolve() in chain:
                raise _refusal(where, f"{name!r} extends itself")
            if file not in self._bases:
                if file.exists() and not file.is_file():
                    raise _refusal(where, f"{name!r} is not a file")
                try:
                    base, mistakes = read_document(file, self._left)
                except ScenarioError as error:
                    raise _refusal(where, str(error)) from None
                self._mistakes += mistakes
                self.resolve(base, chain)
                self._bases[file] = base
            self._merge(merged, self._bases[file], where)
        self._merge(merged, document, place)
        document.data, document.places = merged.data, merged.places

    def _merge(self, into: Document, over: Document, where: str) -> None:
        self._left.merged -= len(over.places)
        if self._left.merged < 0:
            raise _refusal(where, "takes over too many values, one file from another")
        _merge(into, over, into.data, over.data, ())


def _refusal(place: str, message: str) -> ScenarioError:
    return ScenarioError([Mistake(place, (_EXTENDS,), message)])


def _merge(into: Document, over: Document, below: dict[Any, Any], above: dict[Any, Any], path: KeyPath) -> None:
    into.places[path] = over.place(path), over.place(path, of_key=True)
    for key, value in above.items():
        inner = (*path, key)
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            _merge(into, over, below[key], value, inner)
            continue
        if key in below:
            into.forget(inner, below[key])
        below[key] = copy.deepcopy(value) if isinstance(value, dict | list) else value  # the file may be merged again
        into.places |= {at: over.places[at] for at in below_and_at(inner, value) if at in over.places}


def validate(model: type[M], document: Document, mistakes: Sequence[Mistake]) -> M:
    """Validate plain data, and check that what they mean asks for nothing that it may not have.

    A `ScenarioError` has every mistake in the order of the file, up to a hundred, those found while reading included.
    """
    try:
        with few_hints():
            valid = model.model_validate(document.data, context=IN_A_FILE if document.in_a_file else None)
    except ValidationError as error:
        invalid = [_mistake(document, details) for details in itertools.islice(error.errors(include_url=False), 1_000)]
        raise ScenarioError(_in_order([*mistakes, *invalid], error.error_count() - len(invalid))) from None
    mistakes = [*mistakes, *itertools.islice(not_permitted(valid, document), _MOST_MISTAKES)]
    if mistakes:
        raise ScenarioError(_in_order(mistakes))
    return valid


def not_permitted(valid: BaseModel, document: Document) -> Iterator[Mistake]:
    """Yield what a document, valid as it is, asks for and may not have."""
    for path, word in words_of(valid) if document.permissions != TRUSTED else ():
        if why := why_refused(word, document.folder, document.permissions):
            at = _written_path(document.data, path, "")
            yield Mistake(document.place(at), at, why)


def not_permitted_in(
    values: Iterable[tuple[KeyPath, Any]], model: type[BaseModel], document: Document
) -> Iterator[Mistake]:
    """Yield what values of a sweep ask for and may not have, each of which replaces what is where its path says."""
    why = partial(why_refused, home=document.folder, permissions=document.permissions)

    def asked_in(value: Any) -> list[tuple[KeyPath, str]]:
        return [(at, text) for at, text in all_in(value) if isinstance(text, str) and why(text)]

    asking = ((path, value, asked) for path, value in values if (asked := asked_in(value)))
    for path, value, asked in itertools.islice(asking, 0 if document.permissions == TRUSTED else _MOST_TRIED):
        changed, refused = document.copy_without({"sweep", "choose"}), {text for _, text in asked}
        with suppress(ValidationError, ScenarioError):  # what is wrong by itself may be right with other values
            changed.put(str(path[-2]), copy.deepcopy(value), "")
            refused = {word for _, word in words_of(model.model_validate(changed.data)) if why(word)}
        for at, text in asked:
            if text in refused:
                yield Mistake(document.place((*path, *at)), (*path, *at), why(text))


def _in_order(mistakes: Sequence[Mistake], more: int = 0) -> list[Mistake]:
    """Return the first mistakes in the order of the file, and how many there are beside them."""

    def position(mistake: Mistake) -> tuple[int, int]:
        numbers = _POSITION.search(mistake.place)
        return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)

    once = dict[object, Mistake]()
    for each in mistakes:  # what an override with * put in many places is wrong once
        once.setdefault(each if each.path == () or _POSITION.search(each.place) else (each.place, each.path[-1]), each)
    more = 0 if more and len(once) == 1 else more + max(0, len(once) - _MOST_MISTAKES)
    shown = sorted(once.values(), key=position)[:_MOST_MISTAKES]
    return [*shown, Mistake("", (), f"there are {more:,} more mistakes")] if more else shown


def _mistake(document: Document, details: Any) -> Mistake:
    path = _written_path(document.data, details["loc"], details["type"])
    place = document.place(path, of_key=details["type"] in {"unknown_key", "extra_forbidden"})
    hint = _hint(path, details["input"]) if details["type"] in {"int_type", "int_from_float", "float_type"} else ""
    return Mistake(place, path, _message(details) + hint)


def _hint(path: KeyPath, value: Any) -> str:
    """Say what would be right where a number is written as people write it: ``2M``, ``1e3``, ``12h`` of rounds."""
    text = str(value).strip()
    if match := _LARGE.fullmatch(text):
        number, times = float(match[1].replace("_", "").replace(",", "")), _TIMES[match[2].lower()]
        return f"; write {number * times:.0f}" if (number * times).is_integer() else ""
    if isinstance(value, str) and "separation" in path:
        with suppress(ValueError):
            parse_duration(text)
            return f" (of rounds); a time to wait is `cooldown: {text}`"
    return ""


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
    shown = "empty" if value is None else short_repr(value)
    if isinstance(value, dict | list):
        shown = "a mapping" if isinstance(value, dict) else "a list"
        context = {**context, "actual_length": len(value)}  # which pydantic does not count in mappings
    if isinstance(value, str) and kind in _LIMITS:
        with suppress(ValueError):
            parse_duration(value)
            context = {name: format_duration(limit) for name, limit in context.items()}
    if kind in _MESSAGES:
        return _MESSAGES[kind].format(shown=shown, **context)
    if kind == "union_tag_invalid":
        choices = [tag.strip(" '") for tag in context["expected_tags"].split(",")]
        return f"unknown kind {context['tag']!r}{did_you_mean(context['tag'], choices, or_known=True)}"
    if kind == "literal_error":
        choices = [word.strip("'") for word in context["expected"].replace(" or ", ", ").split(", ")]
        choice = "one of " if len(choices) > 1 else ""
        return f"must be {choice}{context['expected']}, not {shown}{did_you_mean(value, choices)}"
    message = str(details["msg"])
    return f"{message[0].lower()}{message[1:]}, not {shown}"
