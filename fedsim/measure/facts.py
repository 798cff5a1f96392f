"""Facts: every measured quantity of a run, by its name in ``metrics.json``, with its interval and what it is judged by.

The value is of the whole run. The ends of the interval are other metrics, where the registry says so; those of a value
that was measured by day or by span follow from how much these differ (Student's t); those of the shares of groups,
zones and tenths are at the level at which `fedsim.measure.shares` judges them together.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from fedsim.common.intervals import NORMAL, half_width
from fedsim.measure.metrics import filled, split
from fedsim.measure.metrics.metric import Measure, Metric

FACTS = pl.Schema(
    {
        "key": pl.String,  # name of the figure, as in metrics.json
        "value": pl.Float64,  # its value; null where there is none
        "low": pl.Float64,  # lower end of its 95 % interval; null where none is known
        "high": pl.Float64,  # upper end
        "reference": pl.Float64,  # what the value is judged by: what equal chances would give, 1 of ratios
        "p": pl.Float64,  # how probable a value at least so far from the reference is by chance; null if not tested
        "significant": pl.Boolean,  # whether it differs by more than chance (Holm, over all parts that are tested)
    }
)
_RANGES = {"share": (0.0, 1.0), "L1": (0.0, 2.0)}
"""Between which values those of a unit are."""
_TV = "participation.{}tv_uniform"


def facts_of(
    metrics: Mapping[str, Any], series: Mapping[str, pl.DataFrame], described: Mapping[str, Metric] | None = None
) -> pl.DataFrame:
    """Return the facts of a run: its metrics, a number each or values by day or span, and the shares of its parts.

    `described` are the metrics of one's own, by name.
    """
    rows = {key: _fact(key, value, metrics, described or {}) for key, value in metrics.items()}
    for part in series["shares"].drop_nulls("key").rows(named=True) if "shares" in series else ():
        fact = {name: part[name] for name in ("key", "value", "low", "high", "p", "significant")}
        if fact["significant"] is None:
            fact |= {"low": None, "high": None}
        rows[fact["key"]] = dict.fromkeys(FACTS) | rows.get(fact["key"], {}) | fact | {"reference": 1.0}
    key = _TV.format("reported_" * (_TV.format("reported_") in rows))
    for whole in series["bias"].rows(named=True) if "bias" in series and key in rows else ():
        if whole["seen"] not in _UNTESTED:
            rows[key] |= {"reference": whole["fair"], "p": whole["p"], "significant": whole["whole"]}
    return pl.DataFrame(list(rows.values()), schema=FACTS, orient="row").with_columns(pl.col(pl.Float64).fill_nan(None))


_UNTESTED = {"NO_ROUNDS", "NOBODY", "ALONE", "UNMEASURED", "UNTESTED"}


def _fact(key: str, value: Measure, metrics: Mapping[str, Any], described: Mapping[str, Metric]) -> dict[str, Any]:
    """Return a metric with the interval that its entry in the registry names, within what its unit allows."""
    fact, (metric, dimensions) = dict.fromkeys(FACTS) | {"key": key}, split(key)
    if isinstance(value, Sequence):
        blocks, unit = np.array(value), getattr(described.get(key, metric), "unit", "")
        mean = float(blocks.mean()) if len(blocks) else np.nan
        half = float(half_width(blocks.std(ddof=1) / len(blocks) ** 0.5, len(blocks))) if len(blocks) > 1 else np.nan
        low, high = np.clip([mean - half, mean + half], *_RANGES.get(unit, (-np.inf, np.inf))).tolist()
        return fact | {"value": mean, "low": low, "high": high}
    if metric is None:
        return fact | {"value": value}

    def beside(name: str) -> float | None:
        whose = key.removesuffix(filled(metric.name, dimensions))
        return metrics.get(whose + filled(name, dimensions)) if name else None

    low, high, error = beside(metric.low), beside(metric.high), beside(metric.error)
    if low is None and error is not None:
        low, high = value - NORMAL * error, value + NORMAL * error
    return fact | {"value": value, "low": low, "high": high, "reference": beside(metric.reference)}
