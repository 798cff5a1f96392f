"""Scenarios that extend others: a deep merge in which the file that extends wins."""

from pathlib import Path
from typing import Any

from fedsim.common.errors import KeyPath, Mistake, ScenarioError
from fedsim.scenario.document import Document, read_document
from fedsim.scenario.permissions import locate

_KEY = "extends"
_DEEPEST = 20


def resolve_extends(
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
    if _KEY not in document.data:
        return
    place = document.place((_KEY,))
    names = document.data.pop(_KEY)
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ScenarioError([Mistake(place, (_KEY,), "must be a file name or a list of them")])
    chain = (*ancestors, Path(document.source).resolve())
    merged = Document(data={}, source=document.source, folder=document.folder)
    home = document.folder if home is None else home
    for index, name in enumerate(names):
        where = document.place((_KEY, index))
        try:
            file = locate(home, name, document.permissions, document.folder)
        except ValueError as error:
            raise ScenarioError([Mistake(where, (_KEY,), str(error))]) from None
        if file.resolve() in chain or len(chain) > _DEEPEST:
            raise ScenarioError([Mistake(where, (_KEY,), f"{name!r} extends itself")])
        if file.exists() and not file.is_file():
            raise ScenarioError([Mistake(where, (_KEY,), f"{name!r} is not a file")])
        try:
            base, found = read_document(file)
        except ScenarioError as error:
            raise ScenarioError([Mistake(where, (_KEY,), str(error))]) from None
        mistakes += found
        base.permissions = document.permissions
        resolve_extends(base, mistakes, chain, home)
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
