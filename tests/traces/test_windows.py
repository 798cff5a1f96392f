"""A recording shaped as that of 2020: phones observed at different times, wrong clocks, and what imports make of it."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from fedsim.availability import build_model
from fedsim.availability.spells import Spells
from fedsim.availability.trace import TraceError, build_pattern, read_rows
from fedsim.common.arrays import Floats
from fedsim.common.instants import each_to_ms
from fedsim.scenario.habits import Habits
from fedsim.traces.fit import fit
from fedsim.traces.imports import Cleaning, import_trace, write_trace
from tests.command import fedsim
from tests.traces.test_fit import recorded

START = datetime(2020, 1, 30, tzinfo=UTC)
HOUR, DAY = 3600.0, 86_400.0
ON_S, OFF_S = 2.2 * HOUR, 1.8 * HOUR


def phones(folder: Path, devices: int) -> tuple[Path, Floats]:
    """Write events of phones; return the file, and (devices, 2) how long each was observed and on a charger.

    Spans of 9.9 h in the median within 48 h, exponential times on and off, for 55 % of the time on. Every fortieth
    phone has a session of years before, and every hundredth one of a week later.
    """
    draws = np.random.default_rng(7)
    found, facts = {}, []
    for number in range(devices):
        span = min(float(np.exp(draws.normal(np.log(9.9), 0.6))), 46.0) * HOUR
        now = begin = round(draws.uniform(0, 48 * HOUR - span))
        end, on, held, events = begin + round(span), draws.random() < 0.55, 0, list[tuple[float, bool]]()
        while now < end:
            events.append((now, on))
            later = min(now + max(1, round(draws.exponential(ON_S if on else OFF_S))), end)
            held, now, on = held + on * (later - now), later, not on
        facts.append((end - begin, held))
        lines = [_line(at, "battery_charged_on" if on else "battery_charged_off") for at, on in events]
        lines.append(_line(end, "85.0%"))
        if number % 40 == 0:
            lines = [_line(at - 8 * 365 * DAY, f"battery_charged_{to}") for at, to in ((0, "on"), (9e3, "off"))] + lines
        if number % 100 == 1:
            lines += [_line(at + 8.4 * DAY, f"battery_charged_{to}") for at, to in ((0, "on"), (9e3, "off"))]
        found[f"p{number}"] = {"model": "X", "messages": "\n".join(lines)}
    path = folder / "phones.json"
    path.write_text(json.dumps(found))
    return path, np.array(facts)


def _line(at: float, event: str) -> str:
    return f"{START + timedelta(seconds=at):%Y-%m-%d %H:%M:%S}\t{event}"


def test_the_recording_is_what_was_planted(tmp_path: Path) -> None:
    """Windows and parameters within 5 %, the share within 1 %, by the commands without options; the bulk is 48 h.

    800 phones have 3,000 lengths on: their mean has a standard error of 2 %, and the seed is fixed.
    """
    path, facts = phones(tmp_path, 800)
    out = tmp_path / "phones.parquet"
    assert fedsim("trace", "import", path, "--out", out).returncode == 0
    asked = (out, "--base", "2020-01-30T00:00:00Z")
    shown = json.loads(fedsim("trace", "show", *asked, "--json").stdout)
    assert shown["available"] == pytest.approx(facts[:, 1].sum() / facts[:, 0].sum(), rel=0.01)
    assert shown["covered_days"] == pytest.approx(2, rel=0.02)
    assert shown["stray"] == 20 + 8
    rows = read_rows(out)
    assert rows.seen is not None
    of = {name: number for number, name in enumerate(rows.names)}
    usual = [number for number in range(800) if number % 40 and number % 100 != 1]
    seen = rows.seen[[of[f"p{number}"] for number in usual]]
    np.testing.assert_allclose(seen[:, 1] - seen[:, 0], facts[usual, 0])
    told = fedsim("trace", "show", *asked).stdout
    hours = float(told.partition("devices were observed for ")[2].partition(" h")[0])
    assert hours == pytest.approx(float(np.median(facts[:, 0])) / HOUR, rel=0.05)
    done = fedsim("trace", "fit", *asked, "--kind", "renewal", "--json")
    assert "28 intervals with a time far from all others, left out" in done.stderr
    (found,) = json.loads(done.stdout)["fits"]
    for name, planted in (("on", ON_S), ("off", OFF_S)):
        assert found["availability"][name]["kind"] == "exponential"
        assert float(found["availability"][name]["mean"][:-1]) * 60 ** (
            found["availability"][name]["mean"][-1] == "m"
        ) == pytest.approx(planted, rel=0.05)
    assert found["hours"]["of_trace"] == pytest.approx(shown["available"], rel=1e-6)


def test_a_part_readmits_nothing(tmp_path: Path) -> None:
    """`--since` cut sessions of years at its begin, and had them."""
    path, _ = phones(tmp_path, 200)
    whole = import_trace(path).trace
    part = import_trace(path, cleaning=Cleaning(since=6 * HOUR, until=30 * HOUR)).trace
    longest = max(float((spans.ends_s - spans.starts_s).max()) for spans in part.spans.values())
    assert longest < DAY
    assert part.report.far + part.report.outside + part.report.intervals == whole.report.intervals
    assert part.seen is not None
    assert (np.nanmin(part.seen[:, 0]), np.nanmax(part.seen[:, 1])) == (6 * HOUR, 30 * HOUR)
    once, again = (
        build_pattern(trace, START, repeat="none", since=6 * HOUR, until=30 * HOUR, keep_empty=True)
        for trace in (whole, part)
    )
    assert (once.spans.ends - once.spans.starts).sum() == (again.spans.ends - again.spans.starts).sum()
    assert (once.seen.ends - once.seen.starts).sum() == (again.seen.ends - again.seen.starts).sum()


def json_file(folder: Path, **devices: object) -> Path:
    path = folder / "t.json"
    path.write_text(json.dumps(devices))
    return path


def test_what_is_stated_comes_before_what_is_seen(tmp_path: Path) -> None:
    events = "2020-01-30 01:00:00\twifi\n2020-01-30 02:00:00\t4g"
    path = json_file(
        tmp_path,
        a={"messages": events, "trace_start": "2020-01-30 00:30:00", "trace_end": None},
        b={"trace_end": "2020-01-30 05:00:00", "messages": events},
        c={"messages": events, "trace_end": 9000.5},
    )
    seen = import_trace(path).trace.seen
    assert seen is not None
    assert seen[:, :2].tolist() == [[1800, 7200], [3600, 18_000], [3600, 9000.5]]


def test_timers_are_intervals(tmp_path: Path) -> None:
    path = json_file(
        tmp_path,
        g1={"isSuccess": True, "trace_start": 5.0, "trace_end": 99.5, "ready_time": [[10, 20], [30, 40.5]]},
        g2={"isSuccess": False, "trace_start": None, "trace_end": None, "ready_time": []},
    )
    trace = import_trace(path).trace
    assert [times.tolist() for times in trace.spans["available"].of(0)] == [[10_000, 30_000], [20_000, 40_500]]
    assert trace.seen is not None
    np.testing.assert_array_equal(trace.seen, [[5, 99.5, np.nan], [np.nan] * 3])
    write_trace(tmp_path / "t.csv", trace)
    assert (tmp_path / "t.csv").read_text().splitlines()[:2] == [
        "device,start_s,end_s,seen_from_s,seen_to_s",
        "g1,10.0,20.0,5.0,99.5",
    ]


@pytest.mark.parametrize(
    ("device", "complaint"),
    [
        ({"messages": "1\twifi", "ready_time": []}, "more than one of messages and ready_time"),
        ({"trace_start": 3}, "has no messages and no ready_time"),
        ({"messages": "1\twifi", "trace_start": "soon"}, "trace_start must be a number of seconds or a date"),
        ({"ready_time": [[1, 2]], "trace_end": 1e300}, "trace_end must be a number of seconds or a date"),
    ],
)
def test_windows_that_cannot_be_are_refused(tmp_path: Path, device: object, complaint: str) -> None:
    with pytest.raises(TraceError, match=complaint):
        import_trace(json_file(tmp_path, d=device))


def test_columns_of_other_names(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,on,off,first,last\na,2020-01-30 01:00,2020-01-30 02:00,2020-01-30 00:30,2020-01-30 04:00\n")
    named = {"device": "id", "start": "on", "end": "off", "seen_from": "first", "seen_to": "last"}
    seen = import_trace([path, path], columns=named).trace.seen
    assert seen is not None
    np.testing.assert_array_equal(seen, [[1800, 14_400, np.nan]])


@pytest.mark.long
def test_habits_of_devices_that_come_and_go() -> None:
    """Each is observed for four to ten of fourteen days, and what is found is what it is if all always are."""
    night = {"chance": 0.8, "plug_in": "21:30", "plug_in_weekend": "21:30"}
    written = {
        "require": ["charging"],
        "charging": {"night": night, "top_up": {"per_day": 0.7, "per_day_weekend": 1.2}},
    }
    pattern = recorded(build_model(Habits.model_validate({"kind": "habits", **written})), 600, 14)
    draws = np.random.default_rng(2)
    begin = draws.uniform(0, 4, 600) * DAY
    end = begin + draws.uniform(4, 10, 600) * DAY
    seen = Spells(np.arange(600), each_to_ms(begin), each_to_ms(end), 600)
    cut = pattern.spans.clip(seen.starts[pattern.spans.who], seen.ends[pattern.spans.who])
    found = fit(replace(pattern, spans=cut, conditions={"charging": cut}, seen=seen), "habits")
    back, whole = (Habits.model_validate(each.availability).charging for each in (found, fit(pattern, "habits")))
    assert back.night.chance == pytest.approx(whole.night.chance, abs=0.03)
    assert back.night.plug_in == pytest.approx(whole.night.plug_in, abs=300)
    assert back.top_up.per_day == pytest.approx(whole.top_up.per_day, rel=0.1)
    assert back.top_up.per_day_weekend == pytest.approx(whole.top_up.per_day_weekend, rel=0.1)
    assert found.hours.share == pytest.approx(found.hours.of_trace, abs=0.02)
