"""The lines of a sweep page."""

import numpy as np

from fedsim.pages.charts.sweep_lines import Line, band


def test_the_interval_of_a_share_stays_within_what_a_share_can_be() -> None:
    line = Line("", np.arange(3), np.arange(3.0), np.array([0.01, 0.5, 0.99]), np.array([0.05, 0.05, 0.05]))
    low, high = band(line, 1.0)
    np.testing.assert_allclose(low, [0.0, 0.45, 0.94])
    np.testing.assert_allclose(high, [0.06, 0.55, 1.0])
    low, high = band(line, None)
    np.testing.assert_allclose([low[0], high[2]], [-0.04, 1.04])
