"""Intervals of fitted parameters: how often they hold the parameters of the world that the trace came from."""

import os
from collections import Counter
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from scipy import stats

from fedsim.availability import Place, between, intervals
from fedsim.availability.trace import CONDITIONS, Pattern, TraceRows, build_pattern, clean
from fedsim.common.keyed import Purpose, stream
from fedsim.traces.fit import fit
from fedsim.traces.fit_renewal import GROUPS, renewal_intervals
from tests.availability.cases import model_of
from tests.command import fedsim
from tests.traces.test_fit import DAY, MONDAY, recorded

WORLDS = int(os.environ.get("FEDSIM_INTERVAL_WORLDS", "60"))
"""Worlds for each pair of laws; `FEDSIM_INTERVAL_WORLDS=300` for a closer look, by hand."""


def world(kind: Any, replicate: int, devices: int, days: float) -> Pattern:
    """Lay out the trace of one of many worlds of a renewal model."""
    model, draws = model_of(kind), stream(7, replicate, Purpose.AVAILABILITY)
    place = Place(MONDAY, ZoneInfo("UTC"))
    rows = [
        (device, start, end)
        for device in range(devices)
        for start, end in between(intervals(model, device, place, draws), 0.0, days * DAY)
    ]
    owners, starts, ends = (np.array(column) for column in zip(*rows, strict=True))
    codes = np.full(len(owners), CONDITIONS.index("available"), dtype=np.int8)
    names = tuple(map(str, range(devices)))
    return build_pattern(clean(TraceRows(names, owners, starts, ends, codes)), MONDAY, repeat="none", keep_empty=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("on", "off", "truth"),
    [
        pytest.param(
            {"kind": "exponential", "mean": "2h"},
            {"kind": "exponential", "mean": "5h"},
            {"on.mean": 7_200.0, "off.mean": 18_000.0},
            id="exponential",
        ),
        pytest.param(
            {"kind": "lognormal", "median": "1h", "sigma": 0.9},
            {"kind": "weibull", "mean": "5h", "shape": 0.7},
            {"on.median": 3_600.0, "on.sigma": 0.9, "off.mean": 18_000.0, "off.shape": 0.7},
            id="lognormal-weibull",
            marks=pytest.mark.skipif("FEDSIM_INTERVAL_WORLDS" not in os.environ, reason="takes minutes; by hand"),
        ),
    ],
)
def test_intervals_hold_the_truth_in_95_percent_of_the_worlds(
    on: dict[str, Any], off: dict[str, Any], truth: dict[str, float]
) -> None:
    """Of each parameter: no fewer and no more than a binomial law of 95 % allows in all but one in 10^4 tests."""
    covered: Counter[str] = Counter()
    for replicate in range(WORLDS):
        pattern = world({"kind": "renewal", "on": on, "off": off}, replicate, 60, 8.0)
        found = renewal_intervals(pattern, {"on": on["kind"], "off": off["kind"]}, "off")
        for name, value in truth.items():
            side, _, parameter = name.partition(".")
            low, high = found[side][parameter]
            assert low < high < 3 * low
            covered[name] += low <= value <= high
    print({name: f"{covered[name]} of {WORLDS}" for name in truth})  # noqa: T201 - for who runs it by hand
    least = int(stats.binom(WORLDS, 0.95).ppf(5e-5))
    assert all(covered[name] >= least for name in truth), covered


@pytest.mark.long
def test_a_fit_states_its_intervals_where_they_are_asked_for(tmp_path: Path) -> None:
    kind = {
        "kind": "renewal",
        "on": {"kind": "exponential", "mean": "2h"},
        "off": {"kind": "exponential", "mean": "5h"},
    }
    pattern = world(kind, 0, 2 * GROUPS, 8.0)
    assert fit(pattern, "renewal").intervals == {}
    found = fit(pattern, "renewal", intervals=True)
    for side, stated in found.intervals.items():
        for parameter, (low, high) in stated.items():
            assert low < found.laws[side][0].source[parameter] < high
    few = fit(recorded(model_of(kind), GROUPS, 8), "renewal", intervals=True)
    assert few.intervals == {}
    assert any("20 devices are too few for intervals; at least 40" in note for note in few.notes)
    lines = ["device,start_s,end_s"]
    for device, start, end in zip(pattern.spans.who, pattern.spans.starts_s, pattern.spans.ends_s, strict=True):
        lines.append(f"{device},{start},{end}")
    (tmp_path / "trace.csv").write_text("\n".join(lines) + "\n")
    base = "2026-01-05T00:00:00Z"
    done = fedsim("trace", "fit", tmp_path / "trace.csv", "--base", base, "--kind", "renewal", "--intervals")
    assert done.returncode == 0
    assert "# on." in done.stdout
    assert " in 95 %" in done.stdout
