"""Import of traces in other forms, hostile files among them."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.availability.trace import Policy, TraceError, read_rows, write_trace
from fedsim.traces.imports import Form, Imported, import_trace


def imported(
    folder: Path, content: str | bytes, policy: Policy = "repair", form: Form = "auto", base: datetime | None = None
) -> Imported:
    path = folder / "t.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return import_trace(path, form, base, policy)


def spans(found: Imported, device: int, condition: str = "available") -> list[tuple[float, float]]:
    starts, ends = found.trace.spans[condition].of(device)
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def test_intervals_as_json(tmp_path: Path) -> None:
    """Zero lengths and overlaps as the public trace has them; a device without intervals is kept, and known."""
    found = imported(tmp_path, '{"x": [[5.0, 9.5], [0, 1e1], [20,20]],\n "\\u00fc": [ ], "z": [[-3, -1.25e0]]}')
    assert found.trace.names == ("x", "ü", "z")
    assert (spans(found, 0), spans(found, 1), spans(found, 2)) == ([(0, 10)], [], [(-3, -1.25)])
    counts = found.trace.report.counts()
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
        if longest[name] is not None:
            assert spans(found, device)[-1][1] == longest[name]


HOSTILE = [
    ("", "t.json:1:1: is empty"),
    ("  \n ", "is neither JSON"),
    ("hello", "t.json:1:1: is neither JSON"),
    ("[[0, 1]]", "t.json:1:1: a trace is"),
    ("{}", "has no devices"),
    ('{"a": [[0, 1]], "b": [[3, NaN]]}', "t.json:1:23: device 'b' has the interval [3, nan], which is impossible"),
    ('{"a": [[0, 1],\n[2, 3],\n [Infinity, 4]]}', "t.json:3:2: device 'a' has the interval [inf, 4]"),
    ('{"a": [[0, 1e308]]}', "[0, 1e+308], which is impossible"),
    ('{"a": [[0, 1e999999]]}', "[0, inf], which is impossible"),
    ('{"a": [[0, 1e9999999]]}', "t.json:1:8: expected an interval"),
    ('{"a": [[0, ' + "1" * 100_000 + "]]}", "t.json:1:8: expected an interval"),
    ("[" * 200_000, "a trace is"),
    ('{"a": ' + "[" * 200_000, "t.json:1:8: expected an interval"),
    ('{"a": ' * 50_000, "expected text or a number for 'a' of device 'a'"),
    ('{"a": {"b": ' + "[" * 100_000, "expected text or a number for 'b'"),
    ('{"a": [[0, 1]], "a": [[2, 3]]}', "t.json:1:17: device 'a' is there twice"),
    ('{"a": [[0, 1, 2]]}', "t.json:1:8: expected an interval [start, end] of device 'a'"),
    ('{"a": [[0]]}', "expected an interval"),
    ('{"a": [0, 1]}', "expected an interval"),
    ('{"a": [["0", "1"]]}', "expected an interval"),
    ('{"a": [[0, 1],]}', "t.json:1:15: expected an interval"),
    ('{"a": [[0, 1] [2, 3]]}', "t.json:1:15: expected , or ] after an interval"),
    ('{"a": [[0, 1]', "the file ends here"),
    ('{"a": [[0, 1]]', "t.json:1:15: expected , or } after a device (the file ends here)"),
    ('{"a": [[0, 1]]} {}', "t.json:1:17: expected nothing after the closing }"),
    ("{a: [[0, 1]]}", "t.json:1:2: expected the name of a device in double quotes"),
    ('{"a": null}', "expected the list of intervals of device 'a'"),
    ('{"a": 3}', "expected the list of intervals of device 'a'"),
    ('{"' + "a" * 5000 + '": []}', "expected the name of a device"),
    ('{"\\ud800": [[0, 1]]}', "expected text in UTF-8"),
    ('{"\\x": [[0, 1]]}', "expected text in UTF-8"),
    (b'{"\xff": [[0, 1]]}', "expected text in UTF-8"),
    ('{"a": [[5, 5]]}', "has no interval that could be used"),
    (b"\x80\x04\x95\x10", "is a Python pickle"),
    (b"\x1f\x8b\x08\x00\x00", "is not text"),
    ('{"a": [[0, 1]]}'.encode("utf-16"), "is not text"),
    ('{"a": {"x": 1}}', "device 'a' has no messages"),
    ('{"a": {"messages": 1}}', "must be text"),
    ('{"a": {"messages": "2020-01-31 00:00:00\\twifi"}, "b": [[0, 1]]}', "messages for others"),
]


@pytest.mark.parametrize(("content", "complaint"), HOSTILE, ids=[str(number) for number in range(len(HOSTILE))])
def test_hostile_json(tmp_path: Path, content: str | bytes, complaint: str) -> None:
    with pytest.raises(TraceError) as caught:
        imported(tmp_path, content)
    assert complaint in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_lenient_policy_drops_impossible_times(tmp_path: Path) -> None:
    found = imported(
        tmp_path, '{"a": [[0, NaN], [1e308, -Infinity], [1, 2], [4, null]], "b": [[null, null]]}', "lenient"
    )
    assert (found.trace.report.impossible, spans(found, 0), found.trace.names) == (3, [(1, 2)], ("a", "b"))


def test_a_million_intervals_of_one_device(tmp_path: Path) -> None:
    starts = np.arange(1_000_000) * 7
    text = ",".join(f"[{start},{start + 3}.5]" for start in starts.tolist())
    found = imported(tmp_path, '{"a": [' + text + "]}")
    assert found.trace.report.intervals == 1_000_000
    assert found.trace.spans["available"].ends[-1] == starts[-1] + 3.5


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
def test_events(tmp_path: Path, form: str) -> None:
    """The same events in three forms; what holds at the last line ends there."""
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
    assert spans(found, 0, "charging") == [(480 * minute, 540 * minute), (600 * minute, 660 * minute)]
    assert spans(found, 0, "network") == [(480 * minute, 530 * minute)]
    assert spans(found, 0, "idle") == [(490 * minute, 510 * minute), (520 * minute, 525 * minute)]
    assert (found.trace.report.unordered_events, found.trace.report.unknown_events) == (1, 1)
    with pytest.raises(TraceError, match="1 event out of order, sorted; 1 event of unknown meaning"):
        imported(tmp_path, content, "strict")


def test_a_folder_has_a_file_for_each_device(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.tsv").write_text("0\twifi\n60\tunknown\n")
    found = import_trace(tmp_path)
    assert (found.trace.names, found.base) == (("a", "b"), None)
    assert spans(found, 1, "network") == [(0, 60)]
    (tmp_path / "a.txt").write_text("0\twifi\n")
    with pytest.raises(TraceError, match="'a' is there twice"):
        import_trace(tmp_path)
    with pytest.raises(TraceError, match="trace in JSON is one file"):
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
