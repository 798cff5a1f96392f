"""The slider of a sweep page: which points it stops at, and what it says of them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fedsim.findings.finished_sweep import read_finished_sweep
from fedsim.report.sweep_report import measured_points

from .sweeps import COHORT, SEPARATION, SEPARATIONS, l1, per_day, write_sweep


def given(directory: Path, **columns: Sequence[object]) -> Any:
    """Return the data, with other values of the swept keys where some are given."""
    sweep = read_finished_sweep(directory)
    if columns:
        points = sweep.points.select("point").with_columns(pl.Series(name, each) for name, each in columns.items())
        sweep = replace(sweep, points=points, parameters=tuple(columns))
    return measured_points(sweep)


def test_it_goes_along_the_separation_with_a_choice_for_what_else_is_swept(tmp_path: Path) -> None:
    found = given(write_sweep(tmp_path / "sweep", crash=True))
    assert found["name"] == "R"
    assert [choice["name"] for choice in found["choices"]] == [f"cohort\u00a0=\u00a0{cohort}" for cohort in (5, 10)]
    points = found["choices"][1]["points"]
    assert [(point["x"], point["label"]) for point in points] == [(each, str(each)) for each in SEPARATIONS]
    assert points[1]["misplaced"] == pytest.approx(np.mean([l1(4, 10, seed) for seed in (1, 2, 3)]) / 2)
    assert points[1]["half"] == pytest.approx(4.3027 * 0.001 / np.sqrt(3) / 2, rel=1e-3)
    assert points[1]["pace"] == per_day(4, 10)
    assert [point["seeds"] for point in points] == [3, 3, 2]  # the last run failed


def test_where_everything_moves_together_it_goes_through_all_points(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path / "sweep", cohorts=(5,))
    found = given(directory, **{SEPARATION: [0, 4, 8], COHORT: [5, 6, 7]})
    assert found["question"] == "What if another setting were chosen"
    (choice,) = found["choices"]
    assert [(point["x"], point["label"]) for point in choice["points"]][1] == (
        1,
        "R\u00a0=\u00a04, cohort\u00a0=\u00a06",
    )


def test_another_number_is_asked_by_its_name_and_words_stand_side_by_side(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path / "sweep", cohorts=(5,))
    found = given(directory, **{COHORT: [5, 10, 30]})
    assert found["question"] == "What if server.cohort were"
    assert [point["x"] for point in found["choices"][0]["points"]] == [0, 5, 25]
    found = given(directory, **{"server.selection.kind": ["midzuno", "uniform", "cyclic"]})
    assert [point["x"] for point in found["choices"][0]["points"]] == [0, 1, 2]


def test_one_point_needs_no_slider(tmp_path: Path) -> None:
    sweep = read_finished_sweep(write_sweep(tmp_path / "sweep"))
    assert measured_points(replace(sweep, results=sweep.results.filter(point=0))) is None
    assert measured_points(replace(sweep, results=sweep.results.clear())) is None
