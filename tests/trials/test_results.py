"""What the results of a sweep say: means, paired differences and their intervals."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedsim.trials.decision import interval
from fedsim.trials.results import _column as column
from fedsim.trials.results import paired_differences, parameters_of


def frame(values: Mapping[tuple[int, int], float | None], metric: str = "m") -> pl.DataFrame:
    """Return results with one parameter, x, that is twice the point's number."""
    rows = [
        {"run_id": f"{point}-{seed}", "point": point, "seed": seed, "status": "complete", "x": 2 * point}
        | {"metric": metric, "value": value}
        for (point, seed), value in values.items()
    ]
    schema: dict[str, Any] = {"point": pl.Int64, "seed": pl.Int64, "value": pl.Float64}
    return pl.DataFrame(rows, schema_overrides=schema)


figures = st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=3, max_size=12)


@given(figures=figures, confidence=st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_paired_intervals_are_those_of_the_paired_t_test(figures: list[tuple[float, float]], confidence: float) -> None:
    """Compared with scipy's `ttest_rel`."""
    values = {(point, seed): pair[point] for seed, pair in enumerate(figures) for point in (0, 1)}
    (row,) = paired_differences(frame(values), confidence=confidence).to_dicts()
    a, b = np.array(figures).T
    assert (row["point"], row["x"], row["metric"], row["seeds"]) == (1, 2, "m", len(figures))
    assert row["difference"] == pytest.approx(np.mean(b - a), abs=1e-9)
    if np.std(b - a) > 1e-6:
        low, high = stats.ttest_rel(b, a).confidence_interval(confidence)
        assert (row["low"], row["high"]) == pytest.approx((low, high), rel=1e-7, abs=1e-7)


def test_what_worlds_have_in_common_cancels() -> None:
    """Worlds that differ by thousands do not hide a difference of one."""
    noise = np.random.default_rng(0).normal(0, 1000, 10)
    values = {(point, seed): float(noise[seed] + point) for seed in range(10) for point in (0, 1)}
    (row,) = paired_differences(frame(values)).to_dicts()
    assert 0.999 < row["low"] <= row["high"] < 1.001
    assert 2 * interval(noise)[1] > 100


def test_the_interval_covers_as_often_as_it_says() -> None:
    """2,000 sweeps of 5 seeds: coverage within 4.5 standard errors of 90 % (false alarms: 7e-6)."""
    draws = np.random.default_rng(1).normal(3.0, 2.0, (2000, 5))
    values = {(point, seed): 0.0 for point in [0] for seed in range(5)}
    values |= {(1 + sweep, seed): float(draws[sweep, seed]) for sweep in range(2000) for seed in range(5)}
    found = paired_differences(frame(values), confidence=0.9)
    covered = ((found["low"] <= 3.0) & (found["high"] >= 3.0)).mean()
    assert covered == pytest.approx(0.9, abs=4.5 * np.sqrt(0.09 / 2000))


def test_only_pairs_in_which_both_have_a_value_count() -> None:
    values: dict[tuple[int, int], float | None] = {(0, 0): 1.0, (0, 1): None, (0, 2): 4.0, (1, 0): 2.0, (1, 1): 9.0}
    (row,) = paired_differences(frame(values)).to_dicts()
    assert (row["seeds"], row["baseline_mean"], row["mean"], row["difference"]) == (1, 1.0, 2.0, 1.0)
    assert row["standard_error"] is row["low"] is row["high"] is None


def test_the_baseline_and_the_metrics_can_be_chosen() -> None:
    both = pl.concat([frame({(p, s): float(p * s) for p in range(3) for s in range(2)}, name) for name in ("m", "n")])
    chosen = paired_differences(both, baseline=2, metrics=["n"])
    assert (chosen["point"].to_list(), set(chosen["metric"])) == ([0, 1], {"n"})
    assert chosen["difference"].to_list() == [-1.0, -0.5]
    with pytest.raises(ValueError, match="there is no point 3; the points are 0, 1, 2"):
        paired_differences(both, baseline=3)
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        paired_differences(both, confidence=95)


def test_an_empty_sweep_has_no_differences() -> None:
    empty = frame({(0, 0): 1.0}).clear()
    assert len(paired_differences(empty)) == 0
    assert parameters_of(empty) == ["x"]


@pytest.mark.parametrize(
    ("values", "dtype", "shown"),
    [
        ([0, 4, None], pl.Int64, [0, 4, None]),
        ([0, 0.5], pl.Float64, [0.0, 0.5]),
        ([2**70, 1], pl.Float64, [2.0**70, 1.0]),
        (["a", None], pl.String, ["a", None]),
        ([True, False], pl.Boolean, [True, False]),
        ([True, 1], pl.String, ["true", "1"]),
        ([4, "zipf", {"kind": "zipf"}, [1]], pl.String, ["4", "zipf", '{"kind": "zipf"}', "[1]"]),
        ([None], pl.String, [None]),
    ],
)
def test_a_parameter_has_the_narrowest_type(values: list[Any], dtype: pl.DataType, shown: list[Any]) -> None:
    assert (column(values).dtype, column(values).to_list()) == (dtype, shown)
