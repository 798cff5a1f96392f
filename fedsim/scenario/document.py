"""YAML 1.2 text as plain data that knows at which line and column each key and value stands."""

import copy
import os
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from fedsim.common.errors import KeyPath, Mistake, ScenarioError
from fedsim.scenario.permissions import TRUSTED, Permissions

_MOST_BYTES, _MOST_NODES, _MOST_FILES = 3 * 2**20, 40_000, 100  # of a scenario and all that it extends, together
_MOST_DEEP = 100
_LARGEST_INTEGER = 1 << 1024  # the largest number that is a float, too
_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = {_TAG + name for name in ("str", "timestamp", "merge", "value")}


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
    values: dict[KeyPath, str] = field(default_factory=dict)  # the place of the value at each path
    keys: dict[KeyPath, str] = field(default_factory=dict)  # the place of the key at each path
    permissions: Permissions = TRUSTED
    in_a_file: bool = False  # whether all of it was written in a file, where a duration needs its unit

    def place(self, path: KeyPath, *, of_key: bool = False) -> str:
        """Return the place of the value (or the key) at `path`, else of the nearest mapping or list around it."""
        if of_key and path in self.keys:
            return self.keys[path]
        for length in range(len(path), -1, -1):
            if path[:length] in self.values:
                return self.values[path[:length]]
        return f"{self.source}:1:1" if self.source else ""

    def forget(self, path: KeyPath, data: Any) -> None:
        """Forget the places of the data at `path`, and of all that they hold."""
        for at in below_and_at(path, data):
            self.values.pop(at, None)
            self.keys.pop(at, None)

    def copy_without(self, left_out: Container[object]) -> "Document":
        """Return a copy without these top-level keys: its data can be changed, and it can be read from any folder."""
        values, keys = (
            {path: place for path, place in table.items() if not path or path[0] not in left_out}
            for table in (self.values, self.keys)
        )
        data = copy.deepcopy({name: value for name, value in self.data.items() if name not in left_out})
        return replace(self, data=data, folder=self.folder.absolute(), values=values, keys=keys)


def below_and_at(path: KeyPath, data: Any) -> Iterator[KeyPath]:
    """Yield the path of data, and those of all that they hold."""
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from below_and_at((*path, key), value)


def read_document(path: Path, left: Allowance) -> tuple[Document, list[Mistake]]:
    """Read a YAML file, within what may still be read.

    Returns the document with the mistakes in spite of which it could be read: duplicate keys, tags, unreadable numbers.

    Raises
    ------
    ScenarioError
        If it cannot be read at all, is not YAML, is empty, or is not a mapping.
    """
    source = os.fspath(path)
    try:
        with path.open("rb") as file:
            raw = file.read(left.size + 1)
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
        line, column = _position(raw[: error.start].decode("utf-8-sig", "replace"))
        raise _refusal(source, f"is not UTF-8 text: byte 0x{raw[error.start]:02x}", line, column) from None
    root = _compose(text, source, left)
    reader = _Reader(Document(source=source, folder=path.parent, in_a_file=True), left)
    try:
        data = reader.plain(root, ())
    except RecursionError:
        raise _refusal(source, "is nested too deeply") from None
    if not isinstance(data, dict):
        found = "a list" if isinstance(data, list) else repr(data)
        message = f"must be a mapping of keys such as `population:` and `server:`, not {found}"
        raise ScenarioError([Mistake(reader.document.place(()), (), message)])
    reader.document.data = data
    return reader.document, reader.mistakes


def parse_value(text: str) -> Any:
    """Read a piece of YAML, such as the right side of an override; raise a `ScenarioError` if it is none."""
    left = Allowance()
    root = _compose(text, "", left)
    reader = _Reader(Document(), left)
    data = reader.plain(root, ())
    if reader.mistakes:
        raise ScenarioError(reader.mistakes)
    return data


def _compose(text: str, source: str, left: Allowance) -> Node:
    try:
        yaml = YAML(typ="safe", pure=True)
        yaml.Composer = partial(_BoundedComposer, left, source)  # type: ignore[assignment]
        root: Node | None = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = "; ".join(part for part in (error.context, error.problem) if part)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise _refusal(source, f"is not YAML: {message}", line, column) from None
    except RecursionError:
        raise _refusal(source, "is nested too deeply") from None
    except YAMLError as error:
        line, column = _position(text[: getattr(error, "position", 0)])
        raise _refusal(source, f"is not YAML: {getattr(error, 'reason', error)}", line, column) from None
    except (ValueError, IndexError, AttributeError, TypeError) as error:
        # The parser's own slips on malformed input, such as a directive with an odd version.
        raise _refusal(source, f"is not YAML: {error}") from None
    if root is None:
        raise _refusal(source, "is empty: `fedsim init` writes a scenario to start from")
    return root


def _refusal(source: str, message: str, line: int = 1, column: int = 1) -> ScenarioError:
    return ScenarioError([Mistake(f"{source}:{line}:{column}" if source else "", (), message)])


def _position(before: str) -> tuple[int, int]:
    lines = before.split("\n")
    return len(lines), len(lines[-1]) + 1


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
        problem = ""
        if self._left.nodes < 0:
            problem = f"has more than {_MOST_NODES:,} keys and values; long lists fit in a file's column"
        elif self._deep > _MOST_DEEP:
            problem = f"is nested too deeply: more than {_MOST_DEEP} levels"
        if problem:
            mark = self.parser.peek_event().start_mark
            raise _refusal(self._source, problem, mark.line + 1, mark.column + 1)
        node: Node = super().compose_node(parent, index)
        self._deep -= 1
        return node


class _Reader:
    """Turns nodes into plain data, noting places and collecting what can be reported together."""

    def __init__(self, document: Document, left: Allowance) -> None:
        self.document = document
        self._left = left
        self.mistakes: list[Mistake] = []
        self._constructor = YAML(typ="safe", pure=True).constructor
        self._open: set[int] = set()

    def plain(self, node: Node, path: KeyPath) -> Any:
        """Return the plain data of `node`, which stands at `path`."""
        self.document.values[path] = place = self._place(node)
        self._left.values -= 1
        if self._left.values < 0 or id(node) in self._open:
            problem = "contains itself" if id(node) in self._open else f"has more than {_MOST_NODES:,} values"
            raise ScenarioError([Mistake(place, path, f"{problem}; are aliases (*name) meant?")])
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        tag = str(node.tag)
        self._open.add(id(node))
        data: Any = None
        if isinstance(node, MappingNode) and tag == _TAG + "map":
            data = self._mapping(node, path)
        elif isinstance(node, SequenceNode) and tag == _TAG + "seq":
            data = [self.plain(item, (*path, index)) for index, item in enumerate(node.value)]
        else:
            self._report(node, path, f"the tag {tag!r} has no meaning here")
        self._open.discard(id(node))
        return data

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[Any, Any]:
        data: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self._report(key_node, path, "a key must be a word")
                continue
            key = str(key_node.value)
            inner = (*path, key)
            if key in data:
                first = self.document.keys[inner].removeprefix(self.document.source + ":").split(":")[0]
                self._report(key_node, inner, f"duplicate key {key!r}; the first is on line {first}")
                continue
            self.document.keys[inner] = self._place(key_node)
            data[key] = self.plain(value_node, inner)
        return data

    def _scalar(self, node: ScalarNode, path: KeyPath) -> Any:
        tag, text = str(node.tag), node.value
        if tag in _TEXT_TAGS:
            return str(text)
        if tag == _TAG + "null":
            return None
        if tag == _TAG + "bool":
            return text.lower() == "true"
        try:
            if tag == _TAG + "int":
                whole = int(self._constructor.construct_yaml_int(node))
                if abs(whole) >= _LARGEST_INTEGER:
                    self._report(node, path, f"{text[:40]!r}... is too large a number")
                    return None
                return whole
            if tag == _TAG + "float":
                return float(self._constructor.construct_yaml_float(node))
        except (ValueError, IndexError):
            self._report(node, path, f"{text[:40]!r} cannot be read as a number")
            return None
        self._report(node, path, f"the tag {tag!r} has no meaning here")
        return None

    def _place(self, node: Node) -> str:
        mark = node.start_mark
        return f"{self.document.source}:{mark.line + 1}:{mark.column + 1}" if self.document.source else ""

    def _report(self, node: Node, path: KeyPath, message: str) -> None:
        self.mistakes.append(Mistake(self._place(node), path, message))
