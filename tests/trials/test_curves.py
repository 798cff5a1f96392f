"""A sweep keeps the loss curves of its runs, and draws them."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

from fedsim.common.errors import RunError
from fedsim.common.formatting import equation
from fedsim.pages.charts.plot import Series
from fedsim.pages.charts.sweeps import _slowest, curves_chart, line_chart, pace_chart, trade_off_chart
from fedsim.run.simulate import simulate
from fedsim.trials import store
from fedsim.trials.decision import judge_settings
from fedsim.trials.trials import Trials
from fedsim.trials.worker import Task, work
from tests.conftest import Load
from tests.pages.made_trials import L1, made_trials, sound
from tests.pages.sweeps import SEPARATION, write_points
from tests.pages.test_sweep import plain

TWO = "[fedavg, {kind: fedprox, name: my_uniform}]"  # the second is no twin
LEARNING = f"learning={{problem: {{kind: quadratic, dimension: 2}}, optimizers: {TWO}, step_size: 0.1}}"


def test_a_run_of_a_sweep_leaves_its_curves(small: Load, tmp_path: Path) -> None:
    scenario = small("stop.rounds=200", LEARNING, "learning.reference=uniform")
    folder = store.open_sweep_directory(tmp_path / "sweep")
    assert not work(Task("one", scenario, str(folder))).error
    found, whole = store.read_curves(folder, ["one", "never"]), simulate(scenario).learning
    assert whole is not None
    assert set(found["optimizer"]) == {"fedavg", "my_uniform"}
    for (name,), own in found.group_by("optimizer"):
        assert own.select("round", "loss").equals(
            whole.filter(optimizer=name).select(pl.col("round").cast(int), "loss")
        )
    path = folder / store.CURVES / "one.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(RunError, match=r"one\.parquet"):
        store.read_curves(folder, ["one"])


def test_a_run_without_training_leaves_no_curves(small: Load, tmp_path: Path) -> None:
    folder = store.open_sweep_directory(tmp_path / "sweep")
    assert not work(Task("one", small(), str(folder))).error
    assert not (folder / store.CURVES).exists()


def written(folder: Path, *names: str, spoilt: float = 1.0) -> Trials:
    """Write a sweep over three separations and two seeds, whose runs halve their losses again and again."""
    points: list[dict[str, Any]] = [{SEPARATION: r} for r in (0, 4, 8)]
    write_points(folder, points, sound, seeds=(1, 2))
    for point in range(3):
        for seed in (1, 2):
            rows = [
                {"round": r - 1, "optimizer": name, "loss": 10.0 * seed * 2.0 ** -(r * (point + 1) / 100)}
                for name in names
                for r in range(100 * seed + 1)
            ]
            table = pl.DataFrame(rows).with_columns(
                loss=pl.when((pl.col("round") > 49) & (seed == 1)).then(pl.col("loss") * spoilt).otherwise("loss")
            )
            store.write_curves(folder, f"p{point}s{seed}", table)
    return Trials.read(folder)


def test_curves_of_settings_are_means_over_seeds_as_far_as_all_go(tmp_path: Path) -> None:
    trials = written(tmp_path / "sweep", "fedavg")
    assert trials.curves(0).group_by("run_id").len()["len"].to_list() == [60, 60]
    chart = curves_chart(trials)
    assert chart is not None
    assert chart.table is not None
    assert chart.table.header[1:] == trials.names
    last = chart.table.rows[-1]
    assert last[0] == "100"
    assert [float(each.split(" ")[0]) for each in last[1:]] == pytest.approx([0.5, 0.25, 0.125], rel=1e-3)
    assert not chart.finding  # all take about as long for most of their descents
    assert isinstance(chart.draw, partial)
    (ring,) = (each for each in chart.draw.args[0] if each.look == "ring")
    assert ring.y == pytest.approx([(0.5, 0.25, 0.125)[judge_settings(trials).choice or 0]], rel=1e-3)


def test_curves_of_optimizers_are_those_of_one_setting(tmp_path: Path) -> None:
    chart = curves_chart(written(tmp_path / "sweep", "a", "b"))
    assert chart is not None
    assert chart.table is not None
    assert chart.table.header[1:] == ("a", "b")
    assert chart.title == f"Loss over the rounds at {equation('R', 4)}"


@pytest.mark.parametrize("spoilt", [np.inf, 1e9])
def test_curves_end_where_a_run_diverges(tmp_path: Path, spoilt: float) -> None:
    chart = curves_chart(written(tmp_path / "sweep", "fedavg", spoilt=spoilt))
    assert chart is not None
    assert chart.table is not None
    assert 40 <= float(chart.table.rows[-1][0]) <= 50


def test_how_slow_training_is_along_a_sweep_is_said_where_it_differs() -> None:
    x = np.arange(100.0)
    slow, middle, fast = (Series(f"R = {r}", x, 0.5 + 0.5 * np.exp(-x / (5 + 4 * r)), "") for r in (4, 3, 0))
    takes = "% of the descent of the loss takes about 52 rounds at R = 4 and 15 at R = 0."
    assert _slowest([fast, middle, slow], "R = 0").endswith(takes)
    assert _slowest([fast, middle, slow], "R = 3").endswith("rounds at R = 3 and 15 at R = 0.")
    assert not _slowest([slow, slow], "R = 4")


def test_a_sweep_of_an_earlier_version_has_no_curves(tmp_path: Path) -> None:
    write_points(tmp_path / "sweep", [{SEPARATION: 0}, {SEPARATION: 4}], sound)
    assert curves_chart(Trials.read(tmp_path / "sweep")) is None


@pytest.mark.parametrize("short", [0.0, 0.9])
def test_settings_that_are_not_compared_lie_off_the_lines(short: float) -> None:
    """After 62 of 600 rounds a setting was drawn at the end of the line, as if it were the most even."""

    def measure(row: int, seed: int) -> dict[str, float]:
        own = {"updates.per_day": 900.0 - 90 * row, "rounds.shortage_share": short * (row == 2)}
        return sound(row, seed) | own

    decide: dict[str, Any] = {"minimize": "learning.fedavg.loss", "maximize": None, "subject_to": []}
    trials = made_trials(measure, decide=decide)
    apart = judge_settings(trials).unfit.tolist()
    assert apart == [False, False, short > 0]
    along, beside = line_chart(trials, L1, "along", "Along"), trade_off_chart(trials)
    for chart, places in ((along, [0, 4, 8]), (beside, [900, 810, 720])):
        assert chart is not None
        figure = Figure()
        chart.draw(axes := figure.subplots())
        line, *others = axes.get_lines()
        on = np.isfinite(np.asarray(line.get_ydata()))
        assert np.asarray(line.get_xdata())[on].tolist() == places[: 2 if short else 3]
        crosses = [np.asarray(each.get_xdata()).tolist() for each in others if each.get_marker() == "x"]
        assert crosses == [places[2:]] * (short > 0)
        texts = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
        assert ("not compared" in texts) == (short > 0)
        assert chart.table is not None
        assert len(chart.table.rows) == 3  # the data have all
    assert along is not None
    assert beside is not None
    measured = along.description.partition("“measured” from ")[2].partition(" to ")[2]
    assert plain(measured).startswith("19.97") == (short > 0)  # else to 30, which is not compared
    of_all = "No other setting is both faster and more even than R = 0 and R = 4."
    of_two = "The more even a setting that is compared is, the slower it is."
    assert plain(beside.finding) == (of_two if short else of_all)


def test_settings_with_runs_that_have_not_converged_are_marked() -> None:
    def measure(row: int, seed: int) -> dict[str, float]:
        settled = float(row != 1 or seed != 2)
        return sound(row, seed) | {"updates.per_day": 900.0 - 90 * row, "learning.fedavg.converged": settled}

    asked = ("learning.fedavg.loss", "paced", "Paced")
    chart = pace_chart(made_trials(measure), *asked)
    assert chart is not None
    assert "“runs not converged” at 1.1" in chart.description
    settled = pace_chart(made_trials(lambda row, _: measure(row, 0)), *asked)
    assert settled is not None
    assert "not converged" not in settled.description
    assert pace_chart(made_trials(), *asked) is None  # all at one pace
