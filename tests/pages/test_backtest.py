"""What a page says and draws of a log beside a scenario."""

from functools import partial

import pytest

from fedsim.pages.backtest import backtest_answer
from fedsim.pages.charts import Chart
from fedsim.run.backtest import Figure


@pytest.mark.parametrize("log", [0.25, 0.4])
def test_the_hours_of_a_log_are_drawn_beside_the_interval_in_which_they_are_expected(log: float) -> None:
    """A dot with its interval is what is expected, hollow where the log is off; a tick is the log."""
    hours = [
        Figure("sessions from 00:00 to 04:00", log, 0.3, 0.2, 0.35),
        Figure("rounds.per_day", 10.0, 10.0, 9.0, 11.0),
    ]
    answer = backtest_answer("log", "", hours)
    (chart,) = answer.charts
    assert isinstance(chart, Chart)
    assert chart.table is not None
    assert chart.table.header == ("Name", "share of the sessions (%)", "Interval", "Log")
    assert chart.table.rows == (("00:00 to 04:00", "30", "20 to 35", f"{100 * log:g}"),)
    assert isinstance(chart.draw, partial)
    assert chart.draw.args[0].filled.tolist() == [log <= 0.35]


def test_without_hours_there_is_no_chart() -> None:
    assert backtest_answer("log", "", [Figure("rounds.per_day", 10.0, 10.0, 9.0, 11.0)]).charts == []
