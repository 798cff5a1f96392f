"""What a metric is: a name, a unit and a meaning, and a class with one method that measures it from the log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fedsim.analysis.metrics.view import LogView


@dataclass(frozen=True)
class Metric:
    """A named figure of a run; words in capitals stand for a name: an optimizer's, a group's, a metric's, an hour.

    Attributes
    ----------
    name
        As in ``metrics.json``.
    unit
        ``s``, ``rounds``, ``clients``, ``share`` (0 to 1), ``L1`` (0 to 2), ``1/d``, ``1/h``, or empty for a number.
    meaning
        One sentence.
    """

    name: str
    unit: str = ""
    meaning: str = ""


def described(family: str, lines: str) -> tuple[Metric, ...]:
    """Read metrics that are written as a table, a line each: name within the family, unit, meaning, ``|`` between."""
    prefix = f"{family}." if family else ""
    rows = (line.split("|", 2) for line in lines.strip().splitlines())
    return tuple(Metric(prefix + name.strip(), unit.strip(), meaning.strip()) for name, unit, meaning in rows)


class Measurement(Protocol):
    """Measures one metric, or some that are computed together.

    It declares them as ``metrics``, a `Metric` each, or, where it is one, as ``name``, ``unit`` and ``meaning``.
    ``scope`` says what of: the whole ``run``, where it is not given; ``groups`` for each group of several; ``both``.
    """

    def measure(self, run: LogView) -> float | Mapping[str, float]:
        """Return the metric, or by name those that have samples."""
        ...
