"""What it took to reach a loss."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.learning.cohorts import Cohorts
from fedsim.run.training import SessionTime, to_target

LEARNING = pl.DataFrame(
    {
        "round": [-1, -1, 9, 9, 19, 19, 29, 29],
        "closed_s": [0.0, 0.0, 100.0, 100.0, 250.0, 250.0, 400.0, 400.0],
        "optimizer": ["a", "b"] * 4,
        "loss": [1.0, 1.0, 3.0, 2.5, 2.0, 2.5, 2.6, math.nan],
    }
)
SESSIONS = pl.DataFrame({"selected_s": [0.0, 50.0, 240.0, 300.0], "ended_s": [90.0, 150.0, 290.0, 400.0]})


CLOSED_S = np.array([100.0, 250.0, 400.0])


def spent(*parts: pl.DataFrame) -> SessionTime:
    """Return what was added up of the sessions."""
    found = SessionTime(CLOSED_S)
    for part in parts:
        found.add(part)
    return found


def reached(time: SessionTime, target: float) -> dict[str, float]:
    """Return what it took both optimizers, of which `a` sent 6 MB in a report each round."""
    taken = pl.DataFrame({"round": [9, 19, 29], "client": 0, "position": 0, "outcome": "reported"})
    rounds = pl.DataFrame({"round": [9, 19, 29], "closed_s": CLOSED_S})
    return to_target(LEARNING, time, target, {"a": 6.0}, Cohorts.read(rounds, taken, 1))


def test_the_first_evaluation_at_or_below_the_target_counts() -> None:
    """The initial model does not, nor does what comes later; sessions are cut at that time, whatever became of them."""
    found = reached(spent(SESSIONS), 2.0)
    assert found["learning.a.time_to_target"] == 250.0
    assert found["learning.a.rounds_to_target"] == 20.0
    assert found["learning.a.sent_mb_to_target"] == pytest.approx(4.0)
    assert "learning.b.sent_mb_to_target" not in found
    assert found["learning.a.device_hours_to_target"] == (90.0 + 100.0 + 10.0) / 3600.0
    assert reached(spent(SESSIONS), 2.5)["learning.b.time_to_target"] == 100.0


def test_the_log_is_read_by_the_piece() -> None:
    """In whatever pieces, the same sums; without sessions nothing was spent."""
    expected = reached(spent(SESSIONS), 2.5)
    assert reached(spent(SESSIONS.head(3), SESSIONS.tail(1)), 2.5) == expected
    assert reached(spent(SESSIONS.clear()), 2.0)["learning.a.device_hours_to_target"] == 0.0


@given(st.lists(st.tuples(st.floats(0, 500), st.floats(0, 500)), max_size=20))
def test_time_in_sessions_until_a_round_closed_is_that_of_each_session(spans: list[tuple[float, float]]) -> None:
    begun_s, ended_s = ([min(span) for span in spans], [max(span) for span in spans])
    found = spent(
        pl.DataFrame({"selected_s": begun_s, "ended_s": ended_s}, schema=dict.fromkeys(SESSIONS.columns, pl.Float64))
    )
    for closed_s in CLOSED_S.tolist():
        expected = sum(max(0.0, min(end, closed_s) - begin) for begin, end in zip(begun_s, ended_s, strict=True))
        assert found.until(closed_s) == pytest.approx(expected, abs=1e-9)


def test_a_target_that_is_not_reached_is_no_number() -> None:
    """Neither for a loss that stays above nor for one that is lost."""
    assert all(math.isnan(reached(spent(SESSIONS), 2.0)[f"learning.b.{name}"]) for name in NAMES)


NAMES = ("time_to_target", "rounds_to_target", "device_hours_to_target")
