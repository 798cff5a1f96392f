"""The recorder takes milliseconds, and its tables show seconds."""

import numpy as np

from fedsim.common.outcomes import CODES
from fedsim.log import GAUGE_COUNTS
from fedsim.log.recorder import InMemoryLog, Recorder


def test_tables_show_seconds() -> None:
    memory = InMemoryLog()
    recorder = Recorder(4, [("all", "UTC")], memory)
    recorder.open_round(0)
    row = recorder.select(0, np.array([2, 1]), 1_001)
    recorder.end_one(0, row, 1_999, CODES["dropped"])
    recorder.end(0, np.array([row + 1]), np.array([86_400_003]), np.array([CODES["reported"]]))
    recorder.close_round(86_400_003, "target")
    recorder.open_round(86_400_103)
    recorder.close_round(86_400_103, "skipped")
    recorder.gauge(3_600_007, np.arange(len(GAUGE_COUNTS))[:, np.newaxis])
    recorder.settle()
    assert memory.rounds.select("opened_s", "selected_s", "closed_s").rows() == [
        (0.0, 1.001, 86_400.003),
        (86_400.103, None, 86_400.103),
    ]
    assert memory.participations.select("client", "selected_s", "ended_s").rows() == [
        (2, 1.001, 1.999),
        (1, 1.001, 86_400.003),
    ]
    assert memory.gauges.row(0) == (3_600.007, "all", "UTC", *range(len(GAUGE_COUNTS)))
