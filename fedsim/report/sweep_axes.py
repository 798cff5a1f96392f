"""Along what a sweep goes: a parameter, or those that are zipped together, with the order of their values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.report.finished_sweep import (
    FinishedSweep,
    is_separation,
    label,
    names_of,
    numbers_of,
    point_names,
    values_of,
)
from fedsim.report.formatting import number
from fedsim.scenario.units import parse_duration


@dataclass(frozen=True, eq=False)
class Axis:
    """One way in which the settings of a sweep differ.

    Parameters
    ----------
    parameters
        The swept keys: one, or several that are zipped together.
    varying
        Those of them that vary, by their short names; the first, where none does.
    label
        Their name where there is room.
    x
        Where each setting lies: the value of a number, else the place of its value in the order of all.
    ticks
        The values in that order, where they are no numbers; empty for numbers.
    marks
        The same without names, as they stand under a chart.
    """

    parameters: tuple[str, ...]
    varying: tuple[str, ...]
    label: str
    x: Floats
    ticks: tuple[str, ...]
    marks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The short name of what varies."""
        return " and ".join(self.varying)

    @property
    def size(self) -> int:
        """How many values it has."""
        return len(np.unique(self.x))

    def at(self, x: float) -> str:
        """Write the value at a place."""
        return self.ticks[int(x)] if self.ticks else number(x)

    def named(self, x: float) -> str:
        """Name the value at a place, as in ``R = 4``; the values of several parameters name them themselves."""
        text = self.at(x)
        return text if len(self.varying) > 1 else f"{self.name}\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{text}"


def axes_of(sweep: FinishedSweep) -> tuple[Axis, ...]:
    """Return the ways in which settings differ, in the order of the file; zipped parameters are one."""
    zipped = [name for name in _zipped(sweep) if name in sweep.parameters]
    groups = [(name,) for name in sweep.parameters if name not in zipped]
    return tuple(_axis(sweep, group) for group in (*groups, *([tuple(zipped)] if zipped else [])))


def _zipped(sweep: FinishedSweep) -> list[str]:
    scenario = sweep.meta.get("scenario")
    key = scenario.get("sweep") if isinstance(scenario, dict) else None
    names = key.get("zip") if isinstance(key, dict) else None
    return list(names) if isinstance(names, dict) else []


def axis_of(sweep: FinishedSweep) -> Axis | None:
    """Choose what goes along the axis: a separation that varies; else what has the most values that have an order."""

    def rank(axis: Axis) -> tuple[bool, bool, int]:
        separated = axis.size > 1 and any(map(is_separation, _varying(sweep, axis)))
        return not separated, not _ordered(sweep, axis), -axis.size

    return min(axes_of(sweep), key=rank, default=None)


def _ordered(sweep: FinishedSweep, axis: Axis) -> bool:
    return axis.size > 1 and any(lengths_of(sweep, name) is not None for name in axis.parameters)


def _varying(sweep: FinishedSweep, axis: Axis) -> list[str]:
    return [name for name in axis.parameters if len(set(values_of(sweep, name))) > 1]


def lengths_of(sweep: FinishedSweep, parameter: str) -> Floats | None:
    """Return the value of a parameter at every setting as numbers, durations in seconds; None if some are neither."""
    found = numbers_of(sweep, parameter)
    if found is not None:
        return found
    try:
        return np.array([parse_duration(str(value)) for value in sweep.points[parameter].to_list()], dtype=np.float64)
    except ValueError:
        return None


def _axis(sweep: FinishedSweep, parameters: tuple[str, ...]) -> Axis:
    varying = [name for name in parameters if len(set(values_of(sweep, name))) > 1] or list(parameters[:1])
    short = names_of(sweep.parameters)
    names = tuple(short[name] for name in varying)
    told = label(varying[0]) if len(varying) == 1 else ", ".join(names)
    if len(varying) == 1 and (x := numbers_of(sweep, varying[0])) is not None:
        return Axis(parameters, names, told, x, ())
    values = point_names(sweep, varying) if len(varying) > 1 else values_of(sweep, varying[0])
    ticks = _in_order(sweep, varying, values)
    x = np.array([ticks.index(value) for value in values], dtype=np.float64)
    bare = [", ".join(row) for row in zip(*(values_of(sweep, name) for name in varying), strict=True)]
    marks = tuple(bare[values.index(tick)] for tick in ticks)
    return Axis(parameters, names, told, x, ticks, marks)


def _in_order(sweep: FinishedSweep, varying: Sequence[str], values: Sequence[str]) -> tuple[str, ...]:
    """Sort values by the numbers and lengths of time in them, that with the most values first; else as they come."""
    known = [(len(np.unique(found)), found) for name in varying if (found := lengths_of(sweep, name)) is not None]
    keys = [found for _, found in sorted(known, key=lambda pair: -pair[0])]
    order = np.lexsort(keys[::-1]).tolist() if keys else range(len(values))
    return tuple(dict.fromkeys(values[index] for index in order))


def followed(sweep: FinishedSweep, along: Axis, known: Bools) -> Iterator[tuple[str, Ints]]:
    """Yield the settings that share the values of all parameters but those of one axis, in the order of that axis.

    Parameters
    ----------
    along
        The axis.
    known
        Which settings are meant.

    Yields
    ------
    The shared values of those parameters that vary, written; and the rows of the settings.
    """
    others = [name for name in sweep.parameters if name not in along.parameters]
    every = np.array(point_names(sweep, others))
    varying = [name for name in others if len(set(values_of(sweep, name))) > 1]
    names = point_names(sweep, varying)
    for name in dict.fromkeys(every.tolist()):
        own = np.flatnonzero((every == name) & known)
        if len(own):
            yield names[int(own[0])] if varying else "", own[np.argsort(along.x[own], kind="stable")]


def every_value(axis: Axis) -> str:
    """Write all values of an axis; of more than six, the ends and how many there are."""
    places = np.unique(axis.x).tolist()
    if len(places) > 6:
        return f"{len(places)} values from {axis.at(places[0])} to {axis.at(places[-1])}"
    texts = [axis.at(x) for x in places]
    comma = "; " if len(axis.varying) > 1 else ", "
    return " or ".join(filter(None, (comma.join(texts[:-1]), texts[-1])))
