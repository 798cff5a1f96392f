"""A scenario's plain data, and where each key and value stands: read from YAML 1.2 text, changed by overrides."""

import copy
import os
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from fedsim.common.errors import KeyPath, MissingScenarioError, Mistake, ScenarioError
from fedsim.common.regular_files import open_regular
from fedsim.scenario.permissions import TRUSTED, Permissions

_MOST_BYTES, _MOST_NODES, _MOST_FILES = 3 * 2**20, 40_000, 100  # of a scenario and all that it extends, together
_MOST_DEEP = 100
_LARGEST_INTEGER = 1 << 1024  # the largest number that is a float, too
_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = {_TAG + name for name in ("str", "timestamp", "merge", "value")}
_VALUE_TAGS = {_TAG + name for name in ("null", "bool", "int", "float")}
_MERGE = _TAG + "merge"
_INDEX = re.compile(r"[0-9]{1,9}")
_PART = re.compile(r"[^.\[\]]+|\[(?:\d+|\*)\]")


@dataclass
class Allowance:
    """What may still be read for one scenario, with all the files that it extends: reading takes time and memory."""

    size: int = _MOST_BYTES
    nodes: int = _MOST_NODES  # keys and values as they are written: each takes about 40 us and 2 KB
    values: int = _MOST_NODES  # aliases are counted each time they are used
    merged: int = 10 * _MOST_NODES  # values from files that are extended, counted in every file that takes them over
    files: int = _MOST_FILES  # how many are read, and how often they are extended


@dataclass
class Document:
    """Plain data (mappings, lists and scalars) and where it was written."""

    data: Any = None
    source: str = ""  # the file's name in messages
    folder: Path = field(default_factory=Path)  # against which file names in the data are resolved
    places: dict[KeyPath, tuple[str, str]] = field(default_factory=dict)  # of the value at each path, and of its key
    permissions: Permissions = TRUSTED
    in_a_file: bool = False  # whether all of it was written in a file, where a duration needs its unit

    def place(self, path: KeyPath, *, of_key: bool = False) -> str:
        """Return the place of the value (or the key) at `path`, else of the nearest mapping or list around it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.places:
                return self.places[path[:length]][of_key and length == len(path)]
        return f"{self.source}:1:1" if self.source else ""

    def forget(self, path: KeyPath, data: Any) -> None:
        """Forget the places of the data at `path`, and of all that they hold."""
        for at in below_and_at(path, data):
            self.places.pop(at, None)

    def copy_without(self, left_out: Container[object]) -> "Document":
        """Return a copy without these top-level keys: its data can be changed, and it can be read from any folder."""
        places = {path: place for path, place in self.places.items() if not path or path[0] not in left_out}
        data = copy.deepcopy({name: value for name, value in self.data.items() if name not in left_out})
        return replace(self, data=data, folder=self.folder.absolute(), places=places)

    def override(self, override: str) -> None:
        """Put ``path=value`` as on the command line, whose value is YAML, into the data; errors as from `put`."""
        place = f"--set {override}"
        written, equals, text = override.partition("=")
        parts = _parts(written)
        if not equals or not parts:
            raise ScenarioError([Mistake(place, (), "must be PATH=VALUE, such as server.cohort=20")])
        reader = _Reader(Document(), Allowance())
        try:
            value = reader.read(text) if text.strip() else None
        except ScenarioError as error:
            reader.mistakes = [*error.mistakes]
        if reader.mistakes:
            raise ScenarioError([Mistake(place, tuple(parts), reader.mistakes[0].message)])
        self.put(written, value, place)

    def put(self, written: str, value: Any, place: str) -> None:
        """Put a value at the path `written`; mistakes in it are shown at `place`.

        A path is keys and list indices with dots between them (``population.0.devices`` or ``population[0].devices``);
        ``*`` stands for every item of a list or every key of a mapping. Mappings that are missing on the way are made.
        A path that is empty, too long, or leads through something that is not there is a `ScenarioError`.
        """
        parts = _parts(written)
        if not parts:
            raise ScenarioError([Mistake(place, (), f"{written!r} is not a path such as server.cohort")])
        if len(parts) > _MOST_DEEP:
            raise ScenarioError([Mistake(place, (), f"leads through {len(parts):,} levels; {_MOST_DEEP} are possible")])
        self._put(self.data, (), parts, value, place)

    def _put(self, at: Any, path: KeyPath, parts: Sequence[str], value: Any, place: str) -> None:
        head, *rest = parts
        for key in _keys(at, path, head, place):
            inner = (*path, key)
            if rest and isinstance(at, dict) and not isinstance(at.get(key), dict | list):
                at[key] = {}
                self.places[inner] = place, place
            if rest:
                self._put(at[key], inner, rest, value, place)
                continue
            if isinstance(at, list) or key in at:
                self.forget(inner, at[key])
            at[key] = value
            self.places[inner] = place, place


def _parts(written: str) -> list[str]:
    return [part.strip("[]") for part in _PART.findall(written.strip())]


def _keys(at: Any, path: KeyPath, head: str, place: str) -> list[Any]:
    """Return the keys of `at` that `head` names."""
    if isinstance(at, dict):
        return list(at) if head == "*" else [head]
    if not isinstance(at, list):
        raise ScenarioError([Mistake(place, path, f"is {at!r}, which has no {head!r}")])
    if head == "*":
        return list(range(len(at)))
    if not _INDEX.fullmatch(head) or int(head) >= len(at):
        indices = f"0 to {len(at) - 1}" if at else "none"
        raise ScenarioError([Mistake(place, path, f"is a list; {head!r} is none of its items ({indices}, or *)")])
    return [int(head)]


def override_options(overrides: Sequence[str], seed: int | None) -> list[str]:
    """Return the options of the command line that make these overrides, and give this seed unless it is None."""
    words = [word for override in overrides for word in ("--set", override)]
    return words if seed is None else [*words, "--seed", str(seed)]


def below_and_at(path: KeyPath, data: Any) -> Iterator[KeyPath]:
    """Yield the path of data, and those of all that they hold."""
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from below_and_at((*path, key), value)


def read_document(path: Path, left: Allowance) -> tuple[Document, list[Mistake]]:
    """Read a YAML file that is a mapping, within what may still be read; a `ScenarioError` says why that cannot be.

    Beside the document stand the mistakes in spite of which it could be read: duplicate keys, tags, unreadable numbers.
    """
    source = os.fspath(path)
    try:
        with open_regular(path) as file:
            raw = file.read(left.size + 1)
    except FileNotFoundError as error:
        raise MissingScenarioError(_refusal(source, f"cannot be read: {error.strerror}").mistakes) from None
    except OSError as error:
        raise _refusal(source, f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a name that no file can have
        raise _refusal(source, f"cannot be the name of a file: {error}") from None
    if len(raw) > left.size:
        with_others = "" if left.size == _MOST_BYTES else ", with the files that are read before it"
        raise _refusal(source, f"is larger than {_MOST_BYTES // 2**20} MiB{with_others}")
    left.size -= len(raw)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        end = _end(raw[: error.start].decode("utf-8-sig", "replace"))
        raise _refusal(source, f"is not UTF-8 text: byte 0x{raw[error.start]:02x}", *end) from None
    return document_of_text(text, path, left)


def document_of_text(text: str, path: Path, left: Allowance) -> tuple[Document, list[Mistake]]:
    """Read the text of a YAML file, as `read_document` does."""
    reader = _Reader(Document(source=os.fspath(path), folder=path.parent, in_a_file=True), left)
    document, data = reader.document, reader.read(text)
    if not isinstance(data, dict):
        shown = "a list" if isinstance(data, list) else repr(data)
        message = f"must be a mapping of keys such as `population:` and `server:`, not {shown}"
        raise ScenarioError([Mistake(document.place(()), (), message)])
    document.data = data
    return document, reader.mistakes


def _refusal(source: str, message: str, line: int = 1, column: int = 1) -> ScenarioError:
    return ScenarioError([Mistake(f"{source}:{line}:{column}" if source else "", (), message)])


def _end(before: str) -> tuple[int, int]:
    """Return the line and the column that follow a text."""
    return before.count("\n") + 1, len(before) - before.rfind("\n")


class _BoundedComposer(Composer):
    """Counts keys and values while they are read; refuses a text that is too large to be kept in memory."""

    def __init__(self, left: Allowance, source: str, loader: Any = None) -> None:
        super().__init__(loader=loader)
        self.warn_double_anchors = False
        self._left, self._source = left, source
        self._deep = 0

    def compose_node(self, parent: Any, index: Any) -> Node:
        """Return the node that begins here."""
        self._left.nodes -= 1
        self._deep += 1
        if self._left.nodes < 0 or self._deep > _MOST_DEEP:
            mark = self.parser.peek_event().start_mark
            problem = f"has more than {_MOST_NODES:,} keys and values; long lists fit in a file's column"
            if self._left.nodes >= 0:
                problem = f"is nested too deeply: more than {_MOST_DEEP} levels"
            raise _refusal(self._source, problem, mark.line + 1, mark.column + 1)
        node: Node = super().compose_node(parent, index)
        self._deep -= 1
        return node


class _Reader:
    """Turns YAML into plain data, noting places and collecting what can be reported together."""

    def __init__(self, document: Document, left: Allowance) -> None:
        self.document, self._left = document, left
        self.mistakes: list[Mistake] = []
        self._constructor = YAML(typ="safe", pure=True).constructor
        self._open: set[int] = set()
        self._merging: set[int] = set()

    def read(self, text: str) -> Any:
        """Return the plain data that a text means; a `ScenarioError` says where it is not YAML."""
        try:
            return self._plain(self._compose(text), ())
        except RecursionError:
            raise _refusal(self.document.source, "is nested too deeply") from None

    def _compose(self, text: str) -> Node:
        source = self.document.source
        try:
            yaml = YAML(typ="safe", pure=True)
            yaml.Composer = partial(_BoundedComposer, self._left, source)  # type: ignore[assignment]
            root: Node | None = yaml.compose(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            message = "; ".join(part for part in (error.context, error.problem) if part)
            place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            raise _refusal(source, f"is not YAML: {message}", *place) from None
        except YAMLError as error:
            end = _end(text[: getattr(error, "position", 0)])
            raise _refusal(source, f"is not YAML: {getattr(error, 'reason', error)}", *end) from None
        except (ValueError, IndexError, AttributeError, TypeError) as error:
            # The parser's own slips on malformed input, such as a directive with an odd version.
            raise _refusal(source, f"is not YAML: {error}") from None
        if root is None:
            raise _refusal(source, "is empty: `fedsim init` writes a scenario to start from")
        return root

    def _plain(self, node: Node, path: KeyPath, key: Node | None = None) -> Any:
        """Return the plain data of a node, which stands at `path`, behind its key if it is in a mapping."""
        place = self._place(node)
        self.document.places[path] = place, place if key is None else self._place(key)
        self._left.values -= 1
        if self._left.values < 0 or id(node) in self._open:
            problem = "contains itself" if id(node) in self._open else f"has more than {_MOST_NODES:,} values"
            raise ScenarioError([Mistake(place, path, f"{problem}; are aliases (*name) meant?")])
        tag = str(node.tag)
        if isinstance(node, ScalarNode):
            return self._scalar(node, tag, path)
        mapping = isinstance(node, MappingNode)
        if tag != _TAG + ("map" if mapping else "seq"):
            return self._note(node, path, f"the tag {tag!r} has no meaning here")
        self._open.add(id(node))
        data: Any
        if mapping:
            data = self._mapping(node, path)
        else:
            data = [self._plain(item, (*path, index)) for index, item in enumerate(node.value)]
        self._open.discard(id(node))
        return data

    def _mapping(self, node: Node, path: KeyPath) -> dict[Any, Any]:
        data: dict[Any, Any] = {}
        for key_node, value_node in self._pairs(node, path):
            if not isinstance(key_node, ScalarNode):
                self._note(key_node, path, "a key must be a word")
                continue
            key = str(key_node.value)
            inner = (*path, key)
            if key in data:
                first = self.document.places[inner][1].removeprefix(self.document.source + ":").split(":")[0]
                self._note(key_node, inner, f"duplicate key {key!r}; the first is on line {first}")
                continue
            data[key] = self._plain(value_node, inner, key_node)
        return data

    def _pairs(self, node: Node, path: KeyPath) -> list[tuple[Node, Node]]:
        """Return keys and values of a mapping, after its own those of the mappings that ``<<`` merges into it."""
        pairs = [pair for pair in node.value if pair[0].tag != _MERGE]
        values = [value for key, value in node.value if key.tag == _MERGE]
        merged = (each for value in values for each in (value.value if value.id == "sequence" else [value]))
        there = {str(key.value) for key, _ in pairs}
        for each in merged:
            self._left.values -= 1
            if not isinstance(each, MappingNode) or each is node or self._left.values < 0 or id(each) in self._merging:
                self._note(each, path, "<< merges mappings that are written before it, such as `<<: *name`")
                continue
            self._merging.add(id(each))
            more = [pair for pair in self._pairs(each, path) if str(pair[0].value) not in there]
            self._merging.discard(id(each))
            self._left.values -= len(more)
            there |= {str(key.value) for key, _ in more}
            pairs += more
        return pairs

    def _scalar(self, node: ScalarNode, tag: str, path: KeyPath) -> Any:
        text = node.value
        if tag in _TEXT_TAGS:
            return str(text)
        if tag not in _VALUE_TAGS:
            return self._note(node, path, f"the tag {tag!r} has no meaning here")
        try:
            value = self._constructor.construct_object(node)
        except (ValueError, IndexError, KeyError):
            kind = "true or false" if tag == _TAG + "bool" else "a number"
            return self._note(node, path, f"{text[:40]!r} cannot be read as {kind}")
        if isinstance(value, int) and abs(value) >= _LARGEST_INTEGER:
            return self._note(node, path, f"{text[:40]!r}... is too large a number")
        return value

    def _place(self, node: Node) -> str:
        mark = node.start_mark
        return f"{self.document.source}:{mark.line + 1}:{mark.column + 1}" if self.document.source else ""

    def _note(self, node: Node, path: KeyPath, message: str) -> None:
        self.mistakes.append(Mistake(self._place(node), path, message))
