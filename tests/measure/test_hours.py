"""Hours of the day in UTC and in local time, daylight saving included."""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from fedsim.measure.metrics.population import hours_of, share_by_hour

START = datetime.fromisoformat("2026-03-07T12:00:00+00:00")
NEW_YORK, KOLKATA = ZoneInfo("America/New_York"), ZoneInfo("Asia/Kolkata")


def test_hours_follow_the_civil_time_of_the_zone() -> None:
    """New York goes from 1:59 to 3:00 on 8 March 2026, at 7:00 UTC; Kolkata is half an hour off."""
    times = np.array([0.0, 18 * 3600.0, 19 * 3600.0, 20 * 3600.0])
    assert hours_of(times, START, ZoneInfo("UTC")).tolist() == [12, 6, 7, 8]
    assert hours_of(times, START, NEW_YORK).tolist() == [7, 1, 3, 4]
    assert hours_of(times, START, KOLKATA).tolist() == [17, 11, 12, 13]


def test_shares_add_up_over_groups_that_live_in_different_zones() -> None:
    ny, kolkata = "America/New_York", "Asia/Kolkata"
    gauges = pl.DataFrame(
        {
            "time_s": [0.0, 0.0, 0.0, 3600.0, 3600.0, 3600.0],
            "group": ["one", "both", "both"] * 2,
            "time_zone": [ny, ny, kolkata] * 2,
            "available": [1, 0, 6, 2, 1, 2],
        }
    )
    devices = {ny: 4, kolkata: 8}
    assert share_by_hour(gauges, devices, START, local=False) == {12: 7 / 12, 13: 5 / 12}
    assert share_by_hour(gauges, devices, START, local=True) == {7: 1 / 4, 8: 3 / 4, 17: 6 / 8, 18: 2 / 8}
