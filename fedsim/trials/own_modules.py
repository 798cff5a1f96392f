"""A user's own modules and all that they import: found and hashed without running them, and imported anew."""

import ast
import hashlib
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from fedsim.common.errors import RunError, is_users
from fedsim.common.files import hash_of

_MARK = "__fedsim_hash__"  # attribute of an imported module: the hash of the source that it was made from
_BY_NAME = (b"import_module", b"__import__", b"resolve_name", b"__all__")  # in sources whose strings name modules
_IMPORTING = threading.Lock()
_HELD: dict[str, str] = {}  # first hashes of modules that cannot be imported anew, such as compiled ones


def with_imports(names: Iterable[str]) -> dict[str, str]:
    """Return the hashes of modules, and of all own modules that they import, by name; none for what is not found.

    Imports are read from sources, so a name that is computed is not seen. Installed packages are not followed.
    """
    hashes: dict[str, str] = {}
    waiting, seen = [*names], {""}
    named = set(waiting)
    while waiting:
        if (name := waiting.pop()) in seen:
            continue
        seen.add(name)
        waiting.append(name.rpartition(".")[0])
        file, below = file_of(name)
        if file is not None and (name in named or is_users(file)) and (digest := hash_of(file)) is not None:
            hashes[name] = digest
            if is_users(file) and file.suffix == ".py":
                waiting += _imports_of(file.read_bytes(), name if below else name.rpartition(".")[0])
    return hashes


def import_afresh(modules: Mapping[str, str]) -> None:
    """Forget own modules unless all are made of sources with these hashes; the next import reads them anew.

    A `RunError` names a module that was changed and cannot be imported anew.
    """
    with _IMPORTING:
        if _FromSource not in sys.meta_path:
            sys.meta_path.insert(0, _FromSource)
        files = {name: file for name in modules if (file := file_of(name)[0]) is not None}
        _FromSource.ours |= {name for name, file in files.items() if is_users(file) and file.suffix == ".py"}
        for name in modules.keys() - _FromSource.ours:
            _HELD.setdefault(name, modules[name])
        changed = made_otherwise(modules)
        if fixed := [name for name in changed if name in _HELD]:
            raise RunError(f"this process holds an older content of the module {fixed[0]}; restart it")
        folders = {file.parent for name, file in files.items() if name in _FromSource.ours}
        imported = sys.modules.copy()  # other threads may import meanwhile
        there = {name: Path(getattr(module, "__file__", None) or "/").parent for name, module in imported.items()}
        beside = {name for name, folder in there.items() if folder in folders} - {"__main__", "__mp_main__"}
        for name in beside | _FromSource.ours if changed else ():
            parent, _, child = name.rpartition(".")
            if sys.modules.pop(name, None) is not None and parent in sys.modules:
                vars(sys.modules[parent]).pop(child, None)  # a folder without `__init__.py` lives on


def made_otherwise(modules: Mapping[str, str]) -> list[str]:
    """Return those modules that are imported here, and were made of something else than what has these hashes."""
    here = {name: sys.modules[name] for name in modules if name in sys.modules}
    return [name for name in here if (_HELD.get(name) or vars(here[name]).get(_MARK)) != modules[name]]


def file_of(name: str) -> tuple[Path | None, list[str]]:
    """Return the file of a module, and the folders of those below it, as Python finds them, without importing any."""
    parent, _, child = name.rpartition(".")
    places = [os.path.join(folder, child) for folder in (file_of(parent)[1] if parent else sys.path)]  # noqa: PTH118
    for place in places:
        for stem, below in ((os.path.join(place, "__init__"), [place]), (place, [])):  # noqa: PTH118
            for suffix in (*EXTENSION_SUFFIXES, ".py"):
                if os.path.isfile(stem + suffix):  # noqa: PTH113
                    return Path(stem + suffix), below
    below = [place for place in places if os.path.isdir(place)]  # noqa: PTH112
    if not parent and not below:  # an editable installation has a finder of its own
        with suppress(ImportError, ValueError, AttributeError):
            if (spec := find_spec(name)) is not None and spec.has_location:
                return Path(str(spec.origin)), list(spec.submodule_search_locations or ())
    return None, below


class _FromSource(SourceFileLoader):
    """Finds own modules, and makes them of their sources, read once; compiled files may date from the same second."""

    ours: ClassVar[set[str]] = set()
    _source: bytes | None = None

    @classmethod
    def find_spec(cls, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Return how to make a module, if it is one of ours."""
        file, below = file_of(name) if name in cls.ours else (None, [])
        if file is None or file.suffix != ".py":
            return None
        loader = cls(name, str(file))
        return spec_from_file_location(name, file, loader=loader, submodule_search_locations=below or None)

    def path_stats(self, path: Any) -> Any:
        raise OSError(f"no compiled file of {path} is used")

    def get_data(self, path: Any) -> bytes:
        if self._source is None:
            self._source = super().get_data(path)
        return self._source

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        setattr(module, _MARK, hashlib.sha256(self.get_data(self.path)).hexdigest())
        return module


@lru_cache(1000)
def _imports_of(source: bytes, package: str) -> list[str]:
    """Return what a source may import; nothing where it is no Python, which the run that needs it reports."""
    try:
        nodes = [*ast.walk(ast.parse(source))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return list(dict.fromkeys(_named_in(nodes, package, any(word in source for word in _BY_NAME))))


def _named_in(nodes: Iterable[ast.AST], package: str, by_name: bool) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            base = ".".join(filter(None, (*above, node.module)))
            yield from (base, *(f"{base}.{each.name}".lstrip(".") for each in node.names))
        elif by_name and isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0].lstrip(".")
            if all(part.isidentifier() for part in name.split(".")):
                yield from (name, f"{package}.{name}".lstrip("."))
