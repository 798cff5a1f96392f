"""Columns that grow at their end and are taken away from their beginning."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsim.common.arrays import Ints

Arrays = dict[str, NDArray[Any]]


class Columns:
    """Arrays of one length, whose rows are addressed by numbers that stay the same while rows before them are taken.

    `defaults` are the values of new rows in some columns; `kinds` names the numpy type of each column.
    """

    def __init__(self, defaults: Mapping[str, Any] | None = None, **kinds: str) -> None:
        self._defaults = defaults or {}
        self._arrays: Arrays = {name: self._longer(name, 64, np.dtype(kind)) for name, kind in kinds.items()}
        self.first = 0
        """Number of the first row that is held."""
        self.end = 0
        """Number of the next row."""

    @property
    def waiting(self) -> int:
        """Rows that are held."""
        return self.end - self.first

    def add(self, count: int, **values: ArrayLike) -> int:
        """Append rows, and return the number of the first: a value or an array for every column without a default."""
        held = self.waiting
        if held + count > len(next(iter(self._arrays.values()))):
            for name, array in self._arrays.items():
                self._arrays[name] = self._longer(name, max(2 * len(array), held + count), array.dtype)
                self._arrays[name][:held] = array[:held]
        for name, value in values.items():
            self._arrays[name][held : held + count] = value
        self.end += count
        return self.end - count

    def _longer(self, name: str, length: int, kind: np.dtype[Any]) -> NDArray[Any]:
        default = self._defaults.get(name)
        return np.empty(length, dtype=kind) if default is None else np.full(length, default, dtype=kind)

    def put(self, rows: int | range | Ints, name: str, values: ArrayLike) -> None:
        """Set values of one column in rows by their numbers."""
        if isinstance(rows, range):
            self._arrays[name][rows.start - self.first : rows.stop - self.first] = values
        else:
            self._arrays[name][rows - self.first] = values

    def count(self, row: int, name: str, more: int) -> None:
        """Add to the number that stands in one row of a column."""
        self._arrays[name][row - self.first] += more

    def of(self, rows: int | Ints, name: str) -> Any:
        """Return the values of one column in rows by their numbers."""
        return self._arrays[name][rows - self.first]

    def get(self, name: str) -> NDArray[Any]:
        """Return a view of what is held of a column."""
        return self._arrays[name][: self.waiting]

    def state(self) -> Arrays:
        """Return copies of what is held, with the number of its first row."""
        held = {name: array[: self.waiting].copy() for name, array in self._arrays.items()}
        return {**held, "first": np.array(self.first)}

    def restore(self, state: Arrays) -> None:
        """Hold what `state` returned."""
        self.first = int(state["first"])
        self._arrays = {name: state[name].astype(array.dtype) for name, array in self._arrays.items()}
        self.end = self.first + len(next(iter(self._arrays.values())))

    def take(self, until: int) -> Arrays:
        """Remove the rows before the one numbered `until`, and return them."""
        count, held = until - self.first, self.waiting
        taken = {name: array[:count].copy() for name, array in self._arrays.items()}
        for name, array in self._arrays.items():
            array[: held - count] = array[count:held]
            if name in self._defaults:
                array[held - count : held] = self._defaults[name]
        self.first = until
        return taken


def with_prefix(name: str, arrays: Arrays) -> Arrays:
    """Return arrays under names that begin with ``name.``."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def part_of(name: str, arrays: Arrays) -> Arrays:
    """Return the arrays whose names begin with ``name.``, without it."""
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}
