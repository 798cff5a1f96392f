"""A scenario as it was written: its text and places, the files that it names, and what it may do."""

import copy
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from pydantic import PrivateAttr

from fedsim.common.errors import KeyPath, Mistake
from fedsim.common.files import hash_of
from fedsim.scenario.component import words_of
from fedsim.scenario.document import Document
from fedsim.scenario.permissions import CodeName, FileName, Permissions, locate, modules_of
from fedsim.scenario.strict import SparseModel

_LONGEST_SHOWN = 300  # characters of a value in a notebook


class Written(SparseModel):  # noqa: PLW1641  pydantic hashes frozen models
    """A mapping that knows where each of its values was written."""

    _document: Document = PrivateAttr(default_factory=Document)

    @property
    def folder(self) -> Path:
        """Folder against which the scenario's file names are resolved."""
        return self._document.folder

    @property
    def permissions(self) -> Permissions:
        """What the scenario may ask for; everything, if it was not read from a file."""
        return self._document.permissions

    @property
    def written(self) -> int:
        """How many keys and values its files have."""
        return len(self._document.places)

    def locate(self, name: str) -> Path:
        """Return the file that the scenario calls `name`; a `ValueError` says why it cannot be used."""
        return locate(self.folder, name, self.permissions)

    def modules(self) -> list[str]:
        """Return the modules of a person's own that it names."""
        return [*modules_of(words_of(self))]

    def files(self) -> dict[str, str | None]:
        """Return the SHA-256 of each file that it names, by that name; None where there is no such file.

        An option of a class of one's own is the name of a file if there is one.
        """
        words = sorted([word for _, word in words_of(self)])
        digests: dict[str, str | None] = {}
        for word in words:
            if isinstance(word, FileName):
                digests[str(word)] = hash_of(self.folder / word)
            elif not isinstance(word, CodeName) and word not in digests and word.strip("./"):
                with suppress(OSError):  # of a long text
                    if (digest := hash_of(self.folder / word)) is not None:
                        digests[word] = digest
        return digests

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values of some fields, which are not checked; see `with_values`."""
        copied = super().model_copy(update=update, deep=deep)
        if update:
            copied._document = replace(self._document, data=None)
        return copied

    def __eq__(self, other: object) -> bool:
        # Where it was read from makes no difference.
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def _as_document(self) -> Document:
        """Return what was written; for a scenario that was made in Python, what would have been."""
        document = self._document
        written = self.model_dump(mode="json", exclude_unset=True) if document.data is None else document.data
        return replace(document, data=written)

    @property
    def as_written(self) -> dict[str, Any]:
        """What was written, as plain data: files that are extended are merged, defaults left out."""
        written: dict[str, Any] = copy.deepcopy(self._as_document().data)
        return written

    def mistake(self, path: KeyPath, message: str) -> Mistake:
        """Say what is wrong at `path`, with its place in the file that the scenario was read from."""
        return Mistake(self._document.place(path), path, message)


def in_one_line(value: Any) -> str:
    """Write a value on one line, about as YAML does; of a long one the beginning."""
    text = _flow(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]} ..."


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
