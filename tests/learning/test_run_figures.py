import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.learning import has_converged, summarise


def learning(losses: dict[str, list[float]], every: int = 1) -> pl.DataFrame:
    """Return a learning table with the given losses; the first of each is the initial model's."""
    return pl.DataFrame(
        [
            (every * k - 1, float(k), name, loss, loss / 10)
            for name, values in losses.items()
            for k, loss in enumerate(values)
        ],
        schema={
            "round": pl.Int64,
            "closed_s": pl.Float64,
            "optimizer": pl.String,
            "loss": pl.Float64,
            "grad_norm": pl.Float64,
        },
        orient="row",
    )


@pytest.mark.parametrize("every", [1, 10])
def test_the_figures_are_of_the_last_half(every: int) -> None:
    """Of eight steps, the last four count for the means, two by two for the drift."""
    figures = summarise(learning({"sgd": [99.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0]}, every))
    assert figures == {
        "learning.sgd.loss": 3.5,
        "learning.sgd.grad_norm": pytest.approx(0.35),
        "learning.sgd.final_loss": 2.0,
        "learning.sgd.drift": pytest.approx((4.5 - 2.5) / 4.5),
        "learning.sgd.late_descent": pytest.approx((4.5 - 2.5) / (99.0 - 2.5)),
        "learning.sgd.moved": 1.0,
        "learning.sgd.converged": 0.0,
        "learning.sgd.diverged": 0.0,
    }


def test_each_optimizer_has_its_figures() -> None:
    """Names follow the table, and each optimizer sees its own rows only."""
    figures = summarise(learning({"b": [1.0] * 9, "a": [2.0] * 9}))
    assert list(figures)[::8] == ["learning.b.loss", "learning.a.loss"]
    assert figures["learning.a.loss"] == 2.0
    assert figures["learning.b.drift"] == 0.0


def test_halves_are_of_own_rounds() -> None:
    """One of a log of eight rounds, and one of a hundred: neither's figures depend on the other."""
    short, long = [99.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0], [200.0 - k for k in range(101)]
    both = summarise(learning({"short": short, "long": long}))
    assert both == summarise(learning({"short": short})) | summarise(learning({"long": long}))


def test_a_diverged_optimizer_has_no_figures() -> None:
    """It stopped with NaN before the last half; the other's figures do not change."""
    figures = summarise(learning({"fine": [1.0] * 9, "boom": [1.0, 2.0, math.nan]}))
    gone = {name.rpartition(".")[2]: value for name, value in figures.items() if "boom" in name}
    states = [gone.pop(name) for name in ("diverged", "diverged_round", "moved", "converged")]
    assert states == [1.0, 1.0, 1.0, 0.0]
    assert all(math.isnan(value) for value in gone.values())
    assert figures["learning.fine.loss"] == 1.0


def test_a_run_too_short_for_quarters_has_no_drift() -> None:
    """One round, or none: the means are what there is, the drift NaN and the run not converged."""
    one = summarise(learning({"x": [3.0, 1.0]}))
    assert one["learning.x.loss"] == 1.0
    assert math.isnan(one["learning.x.drift"])
    none = summarise(learning({"x": [3.0]}))
    assert none["learning.x.final_loss"] == 3.0
    assert math.isnan(none["learning.x.loss"])
    assert none["learning.x.converged"] == one["learning.x.converged"] == 0.0


def test_a_run_that_has_hardly_begun_has_not_converged() -> None:
    """Falling by a ten-thousandth of the loss a step, it drifts little, but all of its descent is as late as this."""
    slow = summarise(learning({"x": [100.0 - 0.01 * k for k in range(9)]}))
    assert slow["learning.x.drift"] < 0.0025
    assert slow["learning.x.late_descent"] == pytest.approx(0.02 / 0.075)
    assert slow["learning.x.converged"] == 0.0


def test_what_swings_with_the_hour_is_judged_by_whole_days() -> None:
    """A wave of ten rows around 5, over seven and a half of its periods: halves of these are of unlike hours."""
    wave = [9.0, *(5 + math.sin(math.tau * k / 10) for k in range(1, 76))]
    by_rounds, by_days = summarise(learning({"x": wave})), summarise(learning({"x": wave}), cycle_s=10.0)
    assert by_days["learning.x.loss"] == pytest.approx(5.0)
    assert by_days["learning.x.drift"] == pytest.approx(0.0, abs=1e-9)
    assert by_days["learning.x.converged"] == 1.0
    assert abs(by_rounds["learning.x.loss"] - 5.0) > 0.01


@pytest.mark.parametrize(("slope", "converged"), [(0.0, 1.0), (0.02, 0.0)])
def test_a_loss_that_fluctuates_around_a_level_has_converged(slope: float, converged: float) -> None:
    """Both drift by more than 0.25 %; that with a trend falls by more than its fluctuations in the last half."""
    away = np.random.default_rng(3).standard_normal(200)
    figures = summarise(learning({"x": [90.0, *(5 + 0.6 * away + slope * np.arange(200, 0, -1))]}))
    assert abs(figures["learning.x.drift"]) > 0.0025
    assert figures["learning.x.late_descent"] < 0.05
    assert figures["learning.x.converged"] == converged


def test_convergence_needs_both() -> None:
    """Little drift, and little of the descent so late; without a descent the drift decides."""
    assert has_converged(0.001, 0.01)
    assert has_converged(-0.001, math.nan)
    assert not has_converged(0.003, 0.01)
    assert not has_converged(0.001, 0.06)
    assert not has_converged(math.nan, math.nan)


def test_accuracies_are_summed_up_where_there_are_any() -> None:
    """A problem that tells them gets their mean over the last half."""
    table = learning({"x": [4.0, 3.0, 2.0, 1.0, 1.0]}).with_columns(accuracy=pl.Series([0.0, 0.1, 0.2, 0.4, 0.6]))
    assert summarise(table)["learning.x.accuracy"] == pytest.approx(0.5)


def test_an_empty_table_has_no_figures() -> None:
    """No optimizers, no names."""
    assert summarise(learning({})) == {}


def test_a_loss_of_zero_does_not_drift() -> None:
    """The optimum reached exactly is not divided by."""
    assert summarise(learning({"x": [0.0] * 9}))["learning.x.drift"] == 0.0


@given(st.floats(0.01, 100), st.floats(-0.5, 0.5))
def test_drift_has_no_unit(scale: float, change: float) -> None:
    """Scaling the loss leaves it alone; it is the share by which the mean loss fell."""
    values = [scale] * 7 + [scale * (1 - change)] * 2
    assert summarise(learning({"x": values}))["learning.x.drift"] == pytest.approx(change, abs=1e-12)
