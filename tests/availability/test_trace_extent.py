"""Where a trace begins and ends when some of its times are wild."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.availability.trace import TraceError, TraceRows, build_pattern, clean
from fedsim.availability.trace.bulk import bulk
from tests.command import fedsim
from tests.conftest import Write

MONDAY = datetime(2020, 2, 3, tzinfo=UTC)
HOUR, DAY = 3600.0, 86_400.0
NIGHTS = [(f"d{n}", n % 7 * DAY + 2 * HOUR, n % 7 * DAY + 6 * HOUR) for n in range(21)]
WILD = [("d0", -258_001_150.0, -258_001_000.0), ("d1", -258_000_000.0, 3.0), ("wild", 5.0, 2.0e8)]


def csv(folder: Path, intervals: list[tuple[str, float, float]]) -> Path:
    path = folder / "t.csv"
    path.write_text("device,start_s,end_s\n" + "".join(f"{name},{start},{end}\n" for name, start, end in intervals))
    return path


def rows(intervals: list[tuple[str, float, float]]) -> TraceRows:
    names = tuple(dict.fromkeys(name for name, _, _ in intervals))
    owners = np.array([names.index(name) for name, _, _ in intervals])
    times = np.array([pair[1:] for pair in intervals])
    return TraceRows(names, owners, times[:, 0], times[:, 1], np.zeros(len(times), np.int8))


def test_wild_times_are_left_out() -> None:
    """The layout is that of the trace without them, and a part of it readmits none that reaches into it."""
    trace = clean(rows(NIGHTS + WILD))
    found, plain = build_pattern(trace, MONDAY, repeat="day"), build_pattern(clean(rows(NIGHTS)), MONDAY, repeat="day")
    assert (found.stray, plain.stray) == (3, 0)
    assert (found.lap, found.begin, found.covered) == (7 * DAY, 2 * HOUR, 6 * DAY + 4 * HOUR)
    assert found.spans.starts.tolist() == plain.spans.starts.tolist()
    since = build_pattern(trace, MONDAY, repeat="day", since=0.0)
    assert (since.stray, since.outside, since.covered) == (2, 1, 6 * DAY + 6 * HOUR)
    assert since.spans.starts.tolist() == plain.spans.starts.tolist()
    both = build_pattern(trace, MONDAY, repeat="day", since=0.0, until=8 * DAY)
    assert (both.stray, both.outside, both.lap) == (2, 1, 8 * DAY)
    assert build_pattern(trace, MONDAY, repeat="none", since=-258_002_000.0, until=0.0).outside == 21 + 1
    with pytest.raises(TraceError, match="policy is strict: 3 intervals with a time far from all others"):
        build_pattern(trace, MONDAY, strict=True)


@given(
    st.lists(st.floats(0, 1e6), min_size=11, max_size=60),
    st.integers(0, 3),
    st.sampled_from([-1.0, 1.0]),
    st.booleans(),
)
def test_what_is_cut_off_is_far_and_a_tenth_at_most(times: list[float], wild: int, side: float, near: bool) -> None:
    wild = min(wild, len(times) // 10)
    far = [side * (4e5 if near else 9e7) + number for number in range(wild)]
    first, last = bulk(np.array(times + far))
    everything = times if not near else [*times, *(time for time in far if max(times) - min(times) > 4e5)]
    assert (first, last) == (min(everything), max(everything)) or max(times) - min(times) > DAY
    assert min(times) >= first or max(times) - min(times) > DAY
    assert np.mean((np.array(times + far) < first) | (np.array(times + far) > last)) <= 0.2


def test_few_times_are_never_cut_off() -> None:
    assert bulk(np.array([0.0, 1.0, 5.0, 1e9])) == (0.0, 1e9)


def test_show_fit_and_validate_say_so(write: Write, tmp_path: Path) -> None:
    path = csv(tmp_path, NIGHTS + WILD)
    told = "3 intervals with a time far from all others, left out; since and until say which part is used"
    shown = fedsim("trace", "show", path, "--base", "2020-02-03T00:00:00Z")
    assert told in shown.stdout
    assert "covers 6.17 days, of a lap of 7" in shown.stdout
    facts = json.loads(fedsim("trace", "show", path, "--base", "2020-02-03T00:00:00Z", "--json").stdout)
    assert (facts["stray"], facts["available_by_hour"][3]) == (3, pytest.approx(3 / 22))
    part = fedsim("trace", "show", path, "--base", "2020-02-03T00:00:00Z", "--since", "1d", "--until", "3d", "--json")
    assert json.loads(part.stdout) | {"stray": 1, "outside": 15 + 2} == json.loads(part.stdout)
    assert json.loads(part.stdout)["covered_days"] == 2
    done = fedsim("trace", "fit", path, "--base", "2020-02-03T00:00:00Z", "--kind", "renewal")
    assert told in done.stderr
    scenario = write(
        """\
        stop: {duration: 7d}
        population: [{devices: 30, availability: {kind: trace, file: t.csv, base: 2020-02-03T00:00:00Z}}]
        server: {cohort: 1, pause: 1h}
        """
    )
    done = fedsim("validate", scenario)
    assert (done.returncode, told in done.stderr) == (0, True)
    done = fedsim("validate", scenario, "--set", "population.0.availability.policy=strict")
    assert "has faults, and the policy is strict: 3 intervals" in done.stderr


@pytest.mark.parametrize(
    ("keys", "stop", "code"),
    [
        (", repeat: none", "rounds: 3", 0),
        (", repeat: none, since: 0s", "rounds: 3", 0),
        (", repeat: none, until: 1d", "rounds: 3", 2),  # its first night is over when the run begins
        (", repeat: none", "duration: 1h", 2),
        (", repeat: day", "duration: 1h", 2),
        (", repeat: day", "duration: 1d", 0),
    ],
)
def test_a_replay_that_nobody_can_enter(write: Write, tmp_path: Path, keys: str, stop: str, code: int) -> None:
    """The run begins at noon, and everybody is available from 2 to 6 only."""
    csv(tmp_path, NIGHTS)
    scenario = write(
        f"""\
        start: 2026-01-05T12:00:00Z
        stop: {{{stop}}}
        population:
          - devices: 30
            availability: {{kind: trace, file: t.csv, base: 2020-02-03T00:00:00Z{keys}}}
        server: {{cohort: 1, pause: 1h}}
        """
    )
    done = fedsim("validate", scenario)
    assert done.returncode == code, done.stderr
    if code:
        devices = 3 if "until" in keys else 21
        within = "in the 1h of the run" if "duration" in stop else "after the run begins"
        place = f"{scenario}:5:19: error: population[0].availability: none of the {devices} devices of the trace is"
        assert f"{place} available {within}, so that nobody can be selected" in done.stderr


def test_import_says_what_a_trace_is(tmp_path: Path) -> None:
    path, out = csv(tmp_path, NIGHTS + WILD[:1]), tmp_path / "out.csv"
    done = fedsim("trace", "import", path, "--out", out)
    assert done.returncode == 0
    assert "has the form that scenarios read, so that it can be used as it is" in done.stderr
    assert "1 interval has a time far from all others" in done.stderr
    done = fedsim("trace", "import", path, "--out", out, "--since", "0s", "--until", "2d", "--min-length", "1h")
    assert "used as it is" not in done.stderr
    assert "6 intervals of 6 devices; 15 devices without any interval; 16 intervals outside of the part" in done.stderr
    csv(tmp_path, NIGHTS + WILD)
    done = fedsim("trace", "import", path, "--out", out, "--since", "0s", "--until", "2d")
    assert "2 intervals with a time far from all others, dropped; 16 intervals outside of the part" in done.stderr
    path.write_text("id,a,b\nx,2020-01-01,2020-01-02\n")
    done = fedsim("trace", "import", path, path, "--out", out, "--columns", "device=id, start=a,end=b")
    assert done.returncode == 0, done.stderr
    assert "1 interval of 1 device; 1 interval overlapping an earlier one, merged" in done.stderr
    assert "base: 2020-01-01T00:00:00Z" in done.stderr
    for wrong in ("device", "devic=id", "device=id,device=x"):
        assert fedsim("trace", "import", path, "--out", out, "--columns", wrong).returncode == 2
    done = fedsim("trace", "import", path, "--out", out, "--since", "2d", "--until", "1d")
    assert (done.returncode, "must be before --until" in done.stderr) == (2, True)
    assert fedsim("trace", "import", path, "--out", out, "--join-gaps", "5").returncode == 2
