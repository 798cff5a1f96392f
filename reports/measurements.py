"""The measurements that this folder keeps, and how their spread is written."""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from scipy.stats import t as student

HERE = Path(__file__).parent
STORES = ("measured", "draws", "networks", "rates", "two-speeds", "what-ifs")
REFERENCE = "fedavg_uniform"

Record = dict[str, Any]


@cache
def check(name: str) -> ModuleType:
    """Import one of the independent scripts of docs/checks."""
    spec = spec_from_file_location(name, HERE.parent / "docs" / "checks" / f"{name}.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"docs/checks/{name}.py is missing")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load() -> dict[str, Any]:
    """Return the contents of every store, by its name."""
    return {name: json.loads((HERE / f"{name}.json").read_text(encoding="utf-8")) for name in STORES}


def of(records: Iterable[Record], optimizer: str, separation: int | None = None) -> list[Record]:
    """Return the records of an optimizer, at one separation where records tell it."""
    return [
        each
        for each in records
        if each["optimizer"] == optimizer and (separation is None or each["separation"] == separation)
    ]


def excess(records: Sequence[Record], optimizer: str, separation: int, key: str = "draw") -> np.ndarray:
    """Return by how much the mean model's loss lies above that under uniform participation, record by record."""
    level = {each[key]: each["average_loss"] for each in of(records, REFERENCE)}
    return np.array([each["average_loss"] - level[each[key]] for each in of(records, optimizer, separation)])


def above_uniform(records: Sequence[Record], optimizer: str, what: str = "average_loss") -> np.ndarray:
    """Return by how much a loss lies above that under uniform participation, participation by participation."""
    level = {each["participation"]: each[what] for each in of(records, REFERENCE)}
    return np.array([each[what] - level[each["participation"]] for each in of(records, optimizer)])


def signed(value: float, digits: int = 5) -> str:
    """Write a number with a minus sign, and no sign for what rounds to zero."""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0.0 else text.replace("-", "\N{MINUS SIGN}")


def half_width(values: np.ndarray) -> float:
    """Return half the width of the mean's 95 % interval by Student's t."""
    return float(student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def with_interval(values: np.ndarray, digits: int = 5) -> str:
    """Write mean and half width of its 95 % interval by Student's t."""
    return with_error((values.mean(), half_width(values)), digits)


def with_error(pair: Sequence[float], digits: int) -> str:
    """Write a mean and the half width of its interval, both kept as they are."""
    return f"{signed(pair[0], digits)} ± {pair[1]:.{digits}f}"


def with_range(values: np.ndarray, digits: int = 5) -> str:
    """Write the median, and the lowest and highest value in brackets."""
    low, middle, high = (signed(value, digits) for value in (values.min(), np.median(values), values.max()))
    return f"{middle} ({low} to {high})"


def rounds(values: Sequence[int | None]) -> str:
    """Write median, lowest and highest number of rounds; None is a run that never got there."""
    reached = np.array([np.inf if value is None else value for value in values])
    missed = int(np.isinf(reached).sum())
    if missed == len(reached):
        return "never"
    low, high = reached.min(), reached.max()
    middle = np.sort(reached)[[(len(reached) - 1) // 2, len(reached) // 2]].mean()
    if missed:
        shown = "never" if np.isinf(middle) else f"{middle:.0f}"
        return f"{shown} (from {low:.0f}; never in {missed} of {len(reached)})"
    return f"{middle:.0f} ({low:.0f}–{high:.0f})"
