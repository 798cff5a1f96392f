"""Import of traces in other forms, hostile files among them."""

import gzip
import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.availability.trace import Policy, TraceError, read_rows
from fedsim.traces.imports import Cleaning, Form, Imported, import_trace, write_trace
from tests.command import fedsim


def imported(
    folder: Path, content: str | bytes, policy: Policy = "repair", form: Form = "auto", base: datetime | None = None
) -> Imported:
    path = folder / "t.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return import_trace(path, form, base, policy)


def spans(found: Imported, device: int, condition: str = "available") -> list[tuple[float, float]]:
    starts, ends = found.trace.spans[condition].of(device)
    return list(zip((starts / 1000).tolist(), (ends / 1000).tolist(), strict=True))


def test_intervals_as_json(tmp_path: Path) -> None:
    """Zero lengths and overlaps as the public trace has them; a device without intervals is kept, and known."""
    found = imported(tmp_path, '{"x": [[5.0, 9.5], [0, 1e1], [20,20]],\n "\\u00fc": [ ], "z": [[-3, -1.25e0]]}')
    assert found.trace.names == ("x", "ü", "z")
    assert (spans(found, 0), spans(found, 1), spans(found, 2)) == ([(0, 10)], [], [(-3, -1.25)])
    counts = asdict(found.trace.report)
    assert [counts[name] for name in ("rows", "empty", "overlapping", "devices_without")] == [4, 1, 1, 1]
    write_trace(tmp_path / "t.csv", found.trace)
    assert (tmp_path / "t.csv").read_text().splitlines() == [
        "device,start_s,end_s",
        "x,0.0,10.0",
        "z,-3.0,-1.25",
        "ü,,",
    ]
    assert read_rows(tmp_path / "t.csv").names == ("x", "z", "ü")


numbers = st.one_of(st.floats(-1e9, 1e9), st.integers(-(10**9), 10**9))
traces = st.dictionaries(st.text(max_size=5), st.lists(st.tuples(numbers, numbers), max_size=6), max_size=5)


@pytest.mark.long
@given(traces, st.sampled_from([None, 1]))
def test_json_is_read_as_python_reads_it(
    tmp_path: Path, trace: dict[str, list[tuple[float, float]]], indent: int
) -> None:
    trace["some"] = [(0.1, 0.1 + 0.2)]
    found = imported(tmp_path, json.dumps(trace, indent=indent))
    assert found.trace.names == tuple(trace)
    assert found.trace.report.rows == sum(len(each) for each in trace.values())
    longest = {name: max([e for s, e in each if e - s > 1], default=None) for name, each in trace.items()}
    for device, name in enumerate(trace):
        if (last := longest[name]) is not None:
            end = spans(found, device)[-1][1]
            assert end >= last - 0.000501  # in milliseconds; one that touches it, however short, goes on from there
            assert min(abs(end - e) for _, e in trace[name]) < 0.000501


HOSTILE = [
    ("", "t.json:1:1: is empty"),
    ("  \n ", "is neither CSV, Parquet, JSON"),
    ("hello", "t.json:1:1: is neither CSV, Parquet, JSON"),
    ("[[0, 1]]", "t.json:1:1: a trace is"),
    ("{}", "has no devices"),
    ('{"a": [[0, 1]], "b": [[3, NaN]]}', "t.json:1:23: device 'b' has the interval [3, nan], which is impossible"),
    ('{"a": [[0, 1],\n[2, 3],\n [Infinity, 4]]}', "t.json:3:2: device 'a' has the interval [inf, 4]"),
    ('{"a": [[0, 1e308]]}', "[0, 1e+308], which is impossible"),
    ('{"a": [[0, 1e999999]]}', "[0, inf], which is impossible"),
    ('{"a": [[0, 1e9999999]]}', "t.json:1:8: device 'a' has the interval [0, inf], which is impossible"),
    ('{"a": [[0, ' + "1" * 100_000 + "]]}", "t.json:1:8: device 'a' has the interval [0, inf]"),
    ("[" * 200_000, "a trace is"),
    ('{"a": ' + "[" * 200_000, "t.json:1:1: is nested too deep; a trace is"),
    ('{"a": ' * 50_000, "is nested too deep; a trace is"),
    ('{"a": {"b": ' + "[" * 100_000, "is nested too deep; a trace is"),
    ('{"a": [[0, 1]], "a": [[2, 3]]}', "t.json:1:17: device 'a' is there twice"),
    ('{"a": [[0, 1, 2]]}', "t.json:1:8: expected an interval [start, end] of device 'a'"),
    ('{"a": [[0]]}', "expected an interval"),
    ('{"a": [0, 1]}', "expected an interval"),
    ('{"a": [["0", "1"]]}', "expected an interval"),
    ('{"a": [[0, 1],]}', "is not JSON: "),
    ('{"a": [[0, 1] [2, 3]]}', "t.json:1:15: is not JSON: Expecting ',' delimiter; a trace is"),
    ('{"a": [[0, 1]', "t.json:1:14: is not JSON: Expecting ',' delimiter"),
    ('{"a": [[0, 1]]', "t.json:1:15: is not JSON: Expecting ',' delimiter"),
    ('{"a": [[0, 1]]} {}', "t.json:1:17: is not JSON: Extra data"),
    ("{a: [[0, 1]]}", "t.json:1:2: is not JSON: Expecting property name enclosed in double quotes"),
    ('{"a": null}', "expected the list of intervals of device 'a'"),
    ('{"a": 3}', "expected the list of intervals of device 'a'"),
    ('{"' + "a" * 5000 + '": []}', "expected the name of a device"),
    ('{"\\ud800": [[0, 1]]}', "t.json:1:2: expected the name of a device: at most 1,000 characters of UTF-8"),
    ('{"\\x": [[0, 1]]}', "t.json:1:3: is not JSON: Invalid \\escape"),
    (b'{"\xff": [[0, 1]]}', "t.json:1:3: is not text: byte 0xff is not UTF-8"),
    ('{"a": [[5, 5]]}', "has no interval that could be used"),
    (b"\x80\x04\x95\x10", "is not text, but perhaps a pickle"),
    (b"\x1f\x8b\x08\x00\x00", "is not text"),
    ('{"a": [[0, 1]]}'.encode("utf-16"), "is not text"),
    ('{"a": {"x": 1}}', "device 'a' has no messages"),
    ('{"a": {"x": 2, "messages":\n 1}}', "t.json:2:2: messages of device 'a' must be text"),
    ('{"a": {"messages":\n "1\\twifi\\n2"}}', "t.json:2:2: expected timestamp<TAB>event"),
    (
        '{"b": [], "a": {"trace_end": 3, "ready_time": [[0, 1],\n [2]]}}',
        "t.json:2:2: expected an interval [start, end]",
    ),
    ('{"a": {"messages": "2020-01-31 00:00:00\\twifi"}, "b": [[0, 1]]}', "messages for others"),
]


@pytest.mark.parametrize(("content", "complaint"), HOSTILE, ids=[str(number) for number in range(len(HOSTILE))])
def test_hostile_json(tmp_path: Path, content: str | bytes, complaint: str) -> None:
    with pytest.raises(TraceError) as caught:
        imported(tmp_path, content)
    assert complaint in str(caught.value)
    assert len(str(caught.value)) < 500


def test_json_that_may_not_fit_into_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsim.common.memory.free_bytes", lambda: 700)
    imported(tmp_path, '{"a": [[0, 1]]}')
    complaint = (
        "would take 576 B of memory, and the budget is 560 B .*; split it into several files, or convert it to CSV"
    )
    with pytest.raises(TraceError, match=complaint):
        imported(tmp_path, '{"a": [[0, 10]]}')


def test_a_lenient_policy_drops_impossible_times(tmp_path: Path) -> None:
    found = imported(
        tmp_path, '{"a": [[0, NaN], [1e308, -Infinity], [1, 2], [4, null]], "b": [[null, null]]}', "lenient"
    )
    assert (found.trace.report.impossible, spans(found, 0), found.trace.names) == (3, [(1, 2)], ("a", "b"))


@pytest.mark.long
def test_a_million_intervals_of_one_device(tmp_path: Path) -> None:
    starts = np.arange(1_000_000) * 7
    text = ",".join(f"[{start},{start + 3}.5]" for start in starts.tolist())
    found = imported(tmp_path, '{"a": [' + text + "]}")
    assert found.trace.report.intervals == 1_000_000
    assert found.trace.spans["available"].ends_s[-1] == starts[-1] + 3.5


EVENTS = """\
2020-01-31 08:00:00\tbattery_charged_on
2020-01-31 08:00:00\tWIFI
2020-01-31 08:10:00\tscreen_lock
2020-01-31 08:20:00\t85.0%
2020-01-31 08:30:00\tscreen_on
2020-01-31 08:40:00\tscreen_off
2020-01-31 08:50:00\t4G
2020-01-31 08:45:00\tscreen_unlock
2020-01-31 09:00:00\tphone_off
2020-01-31 09:30:00\tcoffee
2020-01-31 10:00:00\tbattery_charged_on
2020-01-31 11:00:00\tbattery_okay
"""


@pytest.mark.parametrize("form", ["one device", "device column", "messages"])
def test_events_of_every_form_are_one_trace(tmp_path: Path, form: str) -> None:
    """The same events in three forms, from when all conditions are known; what holds at the last line ends there."""
    lines = EVENTS.splitlines()
    content = {
        "one device": EVENTS,
        "device column": "\n".join(f"t\t{line}" for line in lines),
        "messages": json.dumps({"t": {"guid": 5, "messages": EVENTS, "model": None}}),
    }[form]
    found = imported(tmp_path, content)
    assert found.trace.names == ("t",)
    assert found.base == datetime(2020, 1, 31, tzinfo=UTC)
    minute = 60.0
    assert spans(found, 0, "charging") == [(490 * minute, 540 * minute)]
    assert spans(found, 0, "unknown") == [(570 * minute, 660 * minute)]  # of the network nothing is told any more
    assert spans(found, 0, "network") == [(490 * minute, 530 * minute)]
    assert spans(found, 0, "idle") == [(490 * minute, 510 * minute), (520 * minute, 525 * minute)]
    assert (found.trace.report.unordered_events, found.trace.report.unknown_events) == (1, 1)
    with pytest.raises(TraceError, match="strict: 1 event out of order, sorted; 1 event of unknown meaning"):
        imported(tmp_path, content, "strict")


def test_changes_of_a_state_and_rows_as_ndjson(tmp_path: Path) -> None:
    """The same trace in both forms; packed, too. Nothing is known after the last change."""
    (tmp_path / "t.json").write_text('{"a": ["on", [60, 180, 240]], "b": ["off", [120, 180]], "c": [[0, 60]]}')
    found = import_trace(tmp_path / "t.json")
    assert [spans(found, device) for device in range(3)] == [[(0, 60), (180, 240)], [(120, 180)], [(0, 60)]]
    assert found.trace.seen is not None
    assert found.trace.seen[:2, :2].tolist() == [[0, 240], [0, 180]]
    rows = [("a", 0, 60), ("a", 180, 240), ("b", 120, 180), ("c", 0, 60)]
    text = "".join(json.dumps(dict(zip(("device", "start_s", "end_s"), row, strict=True))) + "\n" for row in rows)
    (tmp_path / "t.ndjson").write_text(text)
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("t.ndjson", "t.jsonl.gz"):
        again = import_trace(tmp_path / name)
        assert [spans(again, device) for device in range(3)] == [spans(found, device) for device in range(3)]
    for wrong in ('["on", [2, 1]]', '["on", 1]', '["off", [-1]]', '["on", [1], 2]'):
        (tmp_path / "t.json").write_text(f'{{"a": {wrong}}}')
        with pytest.raises(TraceError, match=r"t.json:1:7: expected .* times from second 0 on, in order"):
            import_trace(tmp_path / "t.json")


def test_a_folder_has_a_file_for_each_device(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.tsv").write_text("0\twifi\n60\tunknown\n")
    found = import_trace(tmp_path)
    assert (found.trace.names, found.base) == (("a", "b"), None)
    assert spans(found, 1, "network") == [(0, 60)]
    (tmp_path / "a.txt").write_text("0\twifi\n")
    with pytest.raises(TraceError, match="'a' is there twice"):
        import_trace(tmp_path)
    with pytest.raises(TraceError, match="only text has a file for each device"):
        import_trace(tmp_path, "json")


def test_the_base_says_what_the_times_are_counted_from(tmp_path: Path) -> None:
    """Times without a zone are read at the base's own offset, times with one are instants."""
    china = timezone(timedelta(hours=8))
    for stamp in ("2020-01-31 08:00:00", "2020-01-31T08:00:00+08:00", "2020-01-31T00:00:00Z"):
        content = f"{stamp}\twifi\n{stamp.replace('01-31', '02-01')}\tunknown\n"
        found = imported(tmp_path, content, base=datetime(2020, 1, 31, tzinfo=china))
        assert spans(found, 0, "network") == [(8 * 3600.0, 32 * 3600.0)]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("1\twifi\nyesterday\twifi\n", "t.json:2:1: expected a time such as 2020-01-31 08:15:00"),
        (
            "1\twifi\n2020-01-31\twifi\n",
            "t.json:2:1: writes a time as a date without a zone, and earlier ones as a number",
        ),
        ("1\twifi\n2 wifi\n", "t.json:2:1: expected timestamp<TAB>event, found '2 wifi'"),
        ("a\t1\twifi\nb\t2\n", "t.json:2:3: expected timestamp<TAB>event"),
        ("a\t1\twifi\nb\n", "t.json:2:1: expected device<TAB>timestamp<TAB>event"),
        ("1\twifi\nnan\tunknown\n", "t.json:2:1: the time nan is impossible"),
        ("1\twifi\n1e308\tunknown\n", "t.json:2:1: the time 1e308 is impossible"),
        ("1\tcoffee\n2\tcoffee\n", "has no interval that could be used"),
        ("1\twifi\n\xff", "expected timestamp"),
        (b"1\twifi\n\xff\x02", "t.json:2:1: is not text: byte 0xff is not UTF-8"),
        ("9" * 5000 + "\twifi\n", "is impossible"),
        ("0001-01-01\twifi\n9999-12-31\tunknown\n", "which is impossible"),
    ],
)
def test_mistakes_in_events(tmp_path: Path, content: str | bytes, complaint: str) -> None:
    with pytest.raises(TraceError) as caught:
        imported(tmp_path, content)
    assert complaint in str(caught.value)


@given(st.binary(max_size=300))
def test_any_bytes_at_all(tmp_path: Path, content: bytes) -> None:
    """Whatever stands in a file: a trace or a TraceError."""
    for begin in (b"", b'{"a": [', b'{"a":[[0,1],'):
        try:
            imported(tmp_path, begin + content)
        except TraceError:
            continue


@given(st.text('{}[]":,.0123456789eE+-aNnul \n\t\\', max_size=60))
def test_almost_json(tmp_path: Path, content: str) -> None:
    """Whatever is read is JSON, but for the numbers that are none."""
    text = '{"a": [[0, 9]' + content
    try:
        found = imported(tmp_path, text, "lenient")
    except TraceError:
        return
    assert list(found.trace.names) == list(json.loads(text))


DATES = """\
id,from,to,app
p,2020-01-31 08:00:00,2020-01-31 09:30:00,x
q,2020-01-31 23:00:00,2020-02-01 01:00:00,
p,2020-02-01 08:00:00,,y
"""
NAMED = {"device": "id", "start": "from", "end": "to"}


def test_a_table_of_dates_with_names_of_its_own(tmp_path: Path) -> None:
    """CSV and Parquet, with a zone and without: the same seconds; other columns are left alone."""
    path = tmp_path / "t.csv"
    path.write_text(DATES.replace("p,2020-02-01 08:00:00,,y\n", ""))
    found = import_trace(path, columns=NAMED)
    assert (found.base, found.plain) == (datetime(2020, 1, 31, tzinfo=UTC), False)
    assert (spans(found, 0), spans(found, 1)) == ([(28_800, 34_200)], [(82_800, 90_000)])
    table = pl.read_csv(path, try_parse_dates=True)
    assert table["from"].dtype == pl.Datetime
    table.write_parquet(tmp_path / "t.parquet")
    china = datetime(2020, 1, 31, tzinfo=timezone(timedelta(hours=8)))
    for base in (None, china):  # without a zone they keep their time of day
        assert spans(import_trace(tmp_path / "t.parquet", base=base, columns=NAMED), 0) == [(28_800, 34_200)]
    table.with_columns(pl.col("from", "to").dt.replace_time_zone("UTC")).write_parquet(tmp_path / "z.parquet")
    assert spans(import_trace(tmp_path / "z.parquet", base=china, columns=NAMED), 0) == [(57_600, 63_000)]
    path.write_text(DATES)
    with pytest.raises(TraceError, match="which is impossible"):
        import_trace(path, columns=NAMED)
    lenient = import_trace(path, policy="lenient", columns=NAMED)
    assert (lenient.trace.report.impossible, lenient.trace.report.intervals) == (1, 2)


@pytest.mark.parametrize("factor", [1, 1000, 10**9])
@pytest.mark.parametrize("base", [None, datetime(2026, 1, 5, 12, tzinfo=UTC)])
def test_numbers_since_1970_are_instants(tmp_path: Path, factor: int, base: datetime | None) -> None:
    """They were read as seconds from the base, half a century after the sessions of a log with such times."""
    second_0 = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp())
    begin = [(second_0 + 40_000) * factor, (second_0 + 90_000) * factor]
    table = pl.DataFrame({"device": ["a", "a"], "start_s": begin, "end_s": [each + 600 * factor for each in begin]})
    table.write_csv(tmp_path / "there.csv")
    found = import_trace(tmp_path / "there.csv", base=base)
    assert (found.base, found.plain) == (base or datetime(2026, 1, 5, tzinfo=UTC), False)
    shift = 0 if base is None else 43_200
    assert found.trace.spans["available"].starts_s.tolist() == [40_000 - shift, 90_000 - shift]


def test_several_files_make_one_trace(tmp_path: Path) -> None:
    """A device in both has the intervals of both; dates are counted from the earliest day of all."""
    for day, name in enumerate(("one.csv", "two.csv")):
        (tmp_path / name).write_text(f"id,from,to\np,2020-02-0{day + 1},2020-02-0{day + 1}T06:00:00\nd{day},,\n")
    found = import_trace([tmp_path / "two.csv", tmp_path / "one.csv"], columns=NAMED)
    assert found.trace.names == ("p", "d1", "d0")
    assert spans(found, 0) == [(0, 21_600), (86_400, 108_000)]
    (tmp_path / "two.csv").write_text("id,from,to\np,5,6\n")
    with pytest.raises(TraceError, match=r"one.csv: has civil times, and .*two.csv has numeric ones"):
        import_trace([tmp_path / "two.csv", tmp_path / "one.csv"], columns=NAMED)
    (tmp_path / "t.json").write_text('{"a": [[0, 1]]}')
    (tmp_path / "u.txt").write_text("0\twifi\n")
    with pytest.raises(TraceError, match="different forms"):
        import_trace([tmp_path / "t.json", tmp_path / "u.txt"])
    (tmp_path / "u.json").write_text('{"a": [[5, 6]], "b": []}')
    found = import_trace([tmp_path / "t.json", tmp_path / "u.json"])
    assert (found.trace.names, spans(found, 0)) == (("a", "b"), [(0, 1), (5, 6)])


@pytest.mark.parametrize(
    ("text", "columns", "complaint"),
    [
        (DATES, None, "t.csv: has no column 'device'; it has id, from, to, app. --columns device=NAME"),
        (DATES, {**NAMED, "end": "too"}, "has no column 'too'; did you mean 'to'?"),
        ("device,start_s,end_s\na,1,2\na,soon,4\n", None, "t.csv:3:3: start_s must be a number of seconds or a date"),
        ("device,start_s,end_s\na,1,2\na,2020-01-01,4\n", None, "t.csv:3:3: start_s is a civil time"),
        ("device,start_s,end_s\na,1,2020-01-01\n", None, "writes start_s as number times and end_s as civil times"),
        ("device,start_s,end_s\n,1,2\n", None, "t.csv:2:1: device must not be empty"),
        ("device,start_s,end_s,condition\na,1,2,asleep\n", None, "t.csv:2:7: condition must be one of available"),
        ("device,start_s,end_s\n", None, "has 0 rows"),
        ("", None, "is empty"),
        ("device,start_s,end_s\na,1,2,3,4\n", None, "is not a readable CSV file"),
    ],
)
def test_mistakes_in_a_table(tmp_path: Path, text: str, columns: dict[str, str] | None, complaint: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(TraceError) as caught:
        import_trace(path, columns=columns)
    assert complaint in str(caught.value).replace("numeric", "number")


def test_cleaning_joins_gaps_and_then_drops_what_is_short(tmp_path: Path) -> None:
    text = '{"a": [[0, 40], [40.5, 90], [100, 130], [200, 300]], "b": [[10, 20]]}'
    (tmp_path / "t.json").write_text(text)
    found = import_trace(tmp_path / "t.json", cleaning=Cleaning(join_gaps=1.0, min_length=60.0))
    assert (spans(found, 0), spans(found, 1)) == ([(0, 90), (200, 300)], [])
    report = found.trace.report
    assert (report.gaps, report.short, report.outside, report.devices_without) == (1, 2, 0, 1)
    assert report.intervals == 2
    assert "1 short gap closed; 2 short intervals dropped" in str(report)
    part = import_trace(tmp_path / "t.json", cleaning=Cleaning(since=80.0, until=250.0))
    assert (spans(part, 0), part.trace.report.outside) == ([(80, 90), (100, 130), (200, 250)], 2)
    with pytest.raises(TraceError, match="none of the 5 intervals is long enough"):
        import_trace(tmp_path / "t.json", cleaning=Cleaning(min_length=1000.0))
    with pytest.raises(TraceError, match="none of the 5 intervals lies in the part that is kept"):
        import_trace(tmp_path / "t.json", cleaning=Cleaning(since=1000.0))


def test_a_wild_date_is_not_the_base(tmp_path: Path) -> None:
    lines = [f"d{n},2020-02-0{n % 7 + 1} 01:00:00,2020-02-0{n % 7 + 1} 05:00:00\n" for n in range(20)]
    (tmp_path / "t.csv").write_text(
        "device,start_s,end_s\nd0,1991-01-01 00:00:00,2020-02-01 00:00:00\n" + "".join(lines)
    )
    found = import_trace(tmp_path / "t.csv")
    assert (found.base, found.stray) == (datetime(2020, 2, 1, tzinfo=UTC), 1)


def test_a_table_that_needs_no_import_is_told_so(tmp_path: Path) -> None:
    """Without a file to write: said, and nothing is written; anything else wants a name for the trace."""
    (tmp_path / "mine.csv").write_text("device,start_s,end_s\na,0,3600\n")
    done = fedsim("trace", "import", "mine.csv", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "mine.csv\n")
    assert (
        "mine.csv: has the form that scenarios read, so that it can be used as it is, without any import" in done.stderr
    )
    assert "Use it: availability: {kind: trace, file: mine.csv, base: THE INSTANT OF SECOND 0}" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.csv"]
    for more in (["--since", "0s"], ["--min-length", "60s"]):
        assert (
            "name the trace to write, such as mine.parquet"
            in fedsim("trace", "import", "mine.csv", *more, cwd=tmp_path).stderr
        )
    (tmp_path / "other.csv").write_text("id,from,to\na,2026-03-01T22:00:00Z,2026-03-02T05:00:00Z\n")
    asked = fedsim("trace", "import", "other.csv", "--columns", "device=id,start=from,end=to", cwd=tmp_path)
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "--out: name the trace to write, such as other.parquet" in " ".join(asked.stderr.split())


@pytest.mark.parametrize("out", ["mine.csv", "./mine.csv", "link.csv", "hard.csv"])
def test_an_import_does_not_replace_what_it_reads(tmp_path: Path, out: str) -> None:
    """``trace import X --out X`` replaced X by what was kept of it; under another name of the file too."""
    before = "device,start_s,end_s\na,0,3600\na,7200,7201\n"
    (tmp_path / "mine.csv").write_text(before)
    (tmp_path / "link.csv").symlink_to("mine.csv")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "mine.csv")
    (tmp_path / "more.csv").write_text("device,start_s,end_s\nb,0,3600\n")
    done = fedsim("trace", "import", "more.csv", "mine.csv", "--out", out, "--min-length", "60s", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is read, so that it would be lost; name another file" in " ".join(done.stderr.replace("│", " ").split())
    assert (tmp_path / "mine.csv").read_text() == before
