"""Columns that grow at their end and are taken away from their beginning."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsim.common.arrays import Ints

Arrays = dict[str, NDArray[Any]]


class Columns:
    """Arrays of one length, row by row addressed by a number that stays the same while rows before it are taken.

    Parameters
    ----------
    kinds
        Name and numpy type of each column.
    """

    def __init__(self, **kinds: str) -> None:
        self._arrays: Arrays = {name: np.empty(64, dtype=kind) for name, kind in kinds.items()}
        self.first = 0
        """Number of the first row that is held."""
        self.end = 0
        """Number of the next row."""

    @property
    def waiting(self) -> int:
        """Rows that are held."""
        return self.end - self.first

    def add(self, count: int, **values: ArrayLike) -> int:
        """Append rows, a value or an array for every column, and return the number of the first."""
        held = self.waiting
        for name, array in self._arrays.items():
            if held + count > len(array):
                longer = np.empty(max(2 * len(array), held + count), dtype=array.dtype)
                longer[:held] = array[:held]
                self._arrays[name] = longer
            self._arrays[name][held : held + count] = values[name]
        self.end += count
        return self.end - count

    def put(self, rows: int | Ints, name: str, values: ArrayLike) -> None:
        """Set values of one column in rows by their numbers."""
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
        for array in self._arrays.values():
            array[: held - count] = array[count:held]
        self.first = until
        return taken


def within(name: str, arrays: Arrays) -> Arrays:
    """Return arrays under names that begin with ``name.``."""
    return {f"{name}.{own}": array for own, array in arrays.items()}


def part_of(name: str, arrays: Arrays) -> Arrays:
    """Return the arrays whose names begin with ``name.``, without it."""
    return {own.removeprefix(f"{name}."): array for own, array in arrays.items() if own.startswith(f"{name}.")}
