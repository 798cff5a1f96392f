"""What a scenario file may do only if it is allowed to: run code of its own, and read files outside its folder."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsim.common.errors import KeyPath

# Where a word such as `my_module:MyOptimizer` is imported, as keys from the root: under `kind`, or as a bare word.
_DOORS = {
    *(("learning", key) for key in ("problem", "optimizers")),
    ("learning", "optimizers", "server"),
    ("learning", "problem", "module"),
    ("learning", "problem", "loss"),
    ("server", "selection"),
    ("privacy", "mechanism"),
    *(("population", key) for key in ("availability", "weight", "separation", "cooldown")),
    ("population", "participations", "most"),
    *(("population", "session", key) for key in ("download", "train", "upload", "speed")),
    *(("population", "availability", key) for key in ("on", "off")),
    ("population", "availability", "charging", "top_up", "length"),
    ("population", "availability", "network", "drop_outs", "length"),
    ("population", "availability", "idle", "use"),
    ("metrics",),
    ("charts",),
    ("matching",),
}
_FILES = {("file",), ("path",)}
_LONGEST_SHOWN = 200
_WORD = re.compile(r"[^.\[\]\d*][^.\[\]*]*")


@dataclass(frozen=True)
class Permissions:
    """What is allowed beyond describing a federation."""

    plugins: bool = False  # to import what ``kind: my_module:MyClass`` names, which runs code
    outside: bool = False  # to read files that are not in the scenario's folder or below it

    @property
    def words(self) -> list[str]:
        """The options of the command line that give these permissions."""
        given = {"--allow-plugins": self.plugins, "--allow-outside": self.outside}
        return [option for option, allowed in given.items() if allowed]


NOTHING = Permissions()
TRUSTED = Permissions(plugins=True, outside=True)
"""Those of a scenario that was made in Python, by a program that can run code anyway."""


def locate(home: Path, name: str, permissions: Permissions, folder: Path | None = None) -> Path:
    """Return the file that a scenario calls `name`; where links lead to it, the file that they lead to.

    A relative name begins at `folder`, or at the scenario's folder, `home`. A `ValueError` says if it is outside of
    `home` and that is not allowed, or cannot be the name of a file.
    """
    written = (home if folder is None else folder) / name
    shown = repr(name if len(name) <= _LONGEST_SHOWN else name[:_LONGEST_SHOWN] + "...")
    try:
        root, there = home.resolve(), written.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"{shown} cannot be the name of a file: {error}") from None
    if not permissions.outside and not there.is_relative_to(root):
        raise ValueError(
            f"{shown} is outside the scenario's folder; copy it there, or, if you trust this scenario, "
            "give --allow-outside (in Python allow_outside=True)"
        )
    try:
        os.stat(there)  # noqa: PTH116  which would not say why not
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise ValueError(f"{shown} cannot be read: {error.strerror}") from None
    return written if there == Path(os.path.abspath(written)) else there  # noqa: PTH100  as written, only absolute


def refused(data: Any, home: Path, permissions: Permissions) -> Iterator[tuple[KeyPath, str]]:
    """Yield what a scenario's plain data ask for and may not have, and why; those of its sweep included."""
    how = "if you trust this scenario, give --allow-plugins (in Python allow_plugins=True)"
    for path, keys, word in _words(data, (), ()):
        if ":" in word and not permissions.plugins and _is_door(keys):
            yield path, f"{word!r} would run code; {how}"
        elif keys[-1:] in _FILES and not permissions.outside:
            try:
                _check_inside(home, word)
            except ValueError as error:
                yield path, str(error)


def named_files(data: Any) -> Iterator[str]:
    """Yield the files that a scenario's plain data name."""
    return (word for _, keys, word in _words(data, (), ()) if keys[-1:] in _FILES)


def named_modules(data: Any) -> Iterator[str]:
    """Yield the modules of a person's own that a scenario's plain data name."""
    return (word.partition(":")[0] for _, keys, word in _words(data, (), ()) if ":" in word and _is_door(keys))


def _check_inside(home: Path, name: str) -> None:
    there = locate(home, name, NOTHING)
    if there.is_dir():  # as MNIST's four files are named by their folder
        with os.scandir(there) as entries:
            links = [entry.name for entry in entries if entry.is_symlink()]
        for link in links:
            locate(home, link, NOTHING, there)


def _is_door(keys: tuple[str, ...]) -> bool:
    """Say whether what stands at these keys names what is imported; a part of a mixture is as its whole."""
    keys = keys[:-1] if keys[-1:] == ("kind",) else keys
    while keys[-2:] == ("parts", "source"):
        keys = keys[:-2]
    if keys[:1] == ("jobs",):  # what a job has instead of a scenario, or of a group; its name may be left out as *
        return any(_is_door(each) for place in (1, 2) for each in (keys[place:], ("population", *keys[place:])))
    return keys in _DOORS


def _words(data: Any, path: KeyPath, keys: tuple[str, ...]) -> Iterator[tuple[KeyPath, tuple[str, ...], str]]:
    """Yield every text with its path and its keys from the root: those that a sweep's values would have, in a sweep."""
    if isinstance(data, str):
        yield path, keys, data
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _words(item, (*path, index), keys)
    elif isinstance(data, dict):
        swept = len(keys) == 2 and keys[0] == "sweep"
        for name, value in data.items():
            parts = _WORD.findall(str(name))
            yield from _words(value, (*path, name), tuple(parts) if swept else (*keys, *parts))
