"""The results of a sweep as a frame: what type the values of a parameter have."""

from typing import Any

import polars as pl
import pytest

from fedsim.trials.results import _column as column


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
