"""What a scenario file may do only if it is allowed to: run code of its own, and read files outside its folder."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from fedsim.common.errors import KeyPath
from fedsim.common.regular_files import why_not_regular

_LONGEST_SHOWN = 200
_CODE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


class CodeName(str):
    """A word that is imported, which runs code, where it is of the form ``module:Name``."""

    __slots__ = ()


class FileName(str):
    """A word that is the name of a file."""

    __slots__ = ()


NameOfCode: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(CodeName)]
"""The type of a key whose value may be imported, beside the kind of a component."""
NameOfFile: TypeAlias = Annotated[
    str, Field(min_length=1, json_schema_extra={"format": "path"}), AfterValidator(FileName)
]
"""The type of a key whose value is a file, relative to the scenario's folder."""
Words: TypeAlias = Iterable[tuple[KeyPath, str]]
"""A `CodeName` or a `FileName` each with its path; a plain text may be either, as in the options of one's own class."""


class OutsideError(ValueError):
    """A file that is outside the scenario's folder, where that is not allowed."""


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
    `home` and that is not allowed (an `OutsideError`), is a FIFO or a device, or cannot be the name of a file.
    """
    written = (home if folder is None else folder) / name
    shown = repr(name if len(name) <= _LONGEST_SHOWN else name[:_LONGEST_SHOWN] + "...")
    try:
        root, there = home.resolve(), written.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"{shown} cannot be the name of a file: {error}") from None
    if not permissions.outside and not there.is_relative_to(root):
        raise OutsideError(
            f"{shown} is outside the scenario's folder; copy it there, or, if you trust this scenario, "
            "give --allow-outside (in Python allow_outside=True)"
        )
    try:
        why = why_not_regular(os.stat(there).st_mode)  # noqa: PTH116  which would not say why not
    except (FileNotFoundError, NotADirectoryError):
        why = ""
    except OSError as error:
        raise ValueError(f"{shown} cannot be read: {error.strerror}") from None
    if why and not there.is_dir():
        raise ValueError(f"{shown} is not a file: {why}")
    return written if there == Path(os.path.abspath(written)) else there  # noqa: PTH100  as written, only absolute


def why_refused(word: str, home: Path, permissions: Permissions) -> str:
    """Return why a scenario may not name this; empty if it may."""
    if _CODE.fullmatch(word) if type(word) is str else isinstance(word, CodeName) and ":" in word:
        how = "if you trust this scenario, give --allow-plugins (in Python allow_plugins=True)"
        return "" if permissions.plugins else f"{word!r} would run code; {how}"
    if permissions.outside or isinstance(word, CodeName):
        return ""
    try:
        _check_inside(home, word)
    except OutsideError as error:
        return str(error)
    except ValueError as error:
        return str(error) if isinstance(word, FileName) else ""
    return ""


def modules_of(words: Words) -> Iterator[str]:
    """Yield the modules of a person's own among words."""
    return (word.partition(":")[0] for _, word in words if not isinstance(word, FileName) and _CODE.fullmatch(word))


def _check_inside(home: Path, name: str) -> None:
    there = locate(home, name, NOTHING)
    if there.is_dir():  # as MNIST's four files are named by their folder
        with os.scandir(there) as entries:
            links = [entry.name for entry in entries if entry.is_symlink()]
        for link in links:
            locate(home, link, NOTHING, there)
