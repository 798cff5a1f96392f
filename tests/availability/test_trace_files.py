"""Trace files: what is read, repaired and refused, and how it is told."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim.availability.trace import CleanTrace, Policy, TraceError, TraceRows, clean, read_rows
from fedsim.traces.imports import write_trace


def read(path: Path, policy: Policy = "repair") -> CleanTrace:
    return clean(read_rows(path), policy)


def csv(folder: Path, text: str) -> Path:
    path = folder / "t.csv"
    path.write_text(text)
    return path


def test_csv_and_parquet_hold_the_same(tmp_path: Path) -> None:
    """Devices by text or number, in the order of the file; rows in any order; extra spaces and a BOM do no harm."""
    path = csv(tmp_path, "\ufeffdevice,start_s,end_s\n7, 5,10\n3,0,1e2\n7,1,2.5\n")
    table = pl.DataFrame({"end_s": [10.0, 100.0, 2.5], "device": [7, 3, 7], "start_s": [5, 0, 1]})
    table.write_parquet(tmp_path / "t.parquet")
    one, two = read(path), read(tmp_path / "t.parquet")
    for trace in (one, two):
        assert trace.names == ("7", "3")
        assert [times.tolist() for times in trace.spans["available"].of(0)] == [[1000, 5000], [2500, 10_000]]
        assert trace.report.faults() == []
    for name in ("again.csv", "again.parquet"):
        write_trace(tmp_path / name, one)
        assert read(tmp_path / name).spans["available"].starts_s.tolist() == [1, 5, 0]


FAULTY = """\
device,start_s,end_s,condition
a,0,10,charging
a,10,20,charging
a,15,30,charging
a,40,40,charging
a,60,50,idle
b,5,5,charging
b,,,charging
c,1,2,idle
"""


def test_faults_are_repaired_and_counted(tmp_path: Path) -> None:
    trace = read(csv(tmp_path, FAULTY))
    counts = {name: count for name, count in asdict(trace.report).items() if count}
    assert counts == {
        "rows": 7,
        "intervals": 2,
        "devices": 2,
        "touching": 1,
        "empty": 2,
        "negative": 1,
        "overlapping": 1,
        "devices_without": 1,
    }
    assert [times.tolist() for times in trace.spans["charging"].of(0)] == [[0], [30_000]]
    assert str(trace.report) == (
        "2 intervals of 2 devices; 2 intervals of zero length, dropped; 1 interval ending before the start, dropped; "
        "1 interval overlapping an earlier one, merged; 1 device without any interval"
    )


def test_a_strict_policy_refuses_what_another_repairs(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"t.csv:5:1: has faults, and the policy is strict: 2 intervals of zero"):
        read(csv(tmp_path, FAULTY), "strict")
    clean_text = "device,start_s,end_s\na,0,10\na,10,20\n"
    assert read(csv(tmp_path, clean_text), "strict").report.touching == 1


@pytest.mark.parametrize("time", ["NaN", "inf", "-inf", "1e308", "3.2e9", "-1e300", ""])
def test_impossible_times_are_refused_or_dropped(tmp_path: Path, time: str) -> None:
    """Refused with their line; dropped and counted by a lenient policy."""
    path = csv(tmp_path, f"device,start_s,end_s\na,0,10\na,20,{time}\n")
    for policy in ("repair", "strict"):
        with pytest.raises(TraceError, match=r"t.csv:3:1: device 'a' has the interval \[20, .*impossible.*lenient"):
            read(path, policy)
    report = read(path, "lenient").report
    assert (report.impossible, report.intervals) == (1, 1)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "t.csv:1:1: is empty"),
        ("device,start_s,end_s\n", "has no rows"),
        ("device,start_s\na,1\n", "t.csv:1:1: has no column 'end_s'"),
        ("device,start,end_s\na,1,2\n", "unknown column 'start'; did you mean 'start_s'?"),
        ("device,start_s,end_s,conditon\na,1,2,idle\n", "did you mean 'condition'?"),
        ("device,start_s,end_s,end_s\na,1,2,3\n", "has a column twice"),
        ("device,start_s,end_s\na,1,2\na,x3,4\n", "t.csv:3:3: start_s must be a number of seconds, not 'x3'"),
        ("device,start_s,end_s\na,1,2\n,3,4\n", "t.csv:3:1: device must not be empty"),
        ("device,start_s,end_s,condition\na,1,2,chargin\n", "t.csv:2:7: condition must be one of available,"),
        ("device,start_s,end_s,condition\na,1,2,\n", "condition must be one of available,"),
        ("device,start_s,end_s\na,1,2,3,4\n", "is not a readable CSV file"),
        ("device,start_s,end_s\n" + "d" * 2000 + ",1,2\n", "has a device name of 2,000 bytes"),
        ("device,start_s,end_s\na,2,2\n", "has no interval that could be used (1 written)"),
        ("{}" * 20, "unknown column"),
        (
            "id,from,to\na,1,2\n",
            "'id'; known are condition, cycle_s, device, end_s, seen_from_s, seen_to_s, start_s; fedsim trace import",
        ),
        (
            "device,start_s,end_s\na,2026-01-05,2\n",
            "not '2026-01-05'; fedsim trace import makes a trace of a table with d",
        ),
    ],
)
def test_mistakes_in_a_csv_file(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(csv(tmp_path, text))
    assert complaint in str(caught.value)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("content", [b"\x00\xff" * 500, b"PAR1" + b"\xff" * 90 + b"PAR1", b"\x80\x04\x95junk"])
def test_binary_files_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TraceError, match=r"not CSV text|is not a readable"):
        read(tmp_path / name)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there is no file"):
        read(tmp_path / "none.csv")
    with pytest.raises(TraceError, match="is not a file"):
        read(tmp_path)
    pl.DataFrame({"device": ["a"], "start_s": ["1"], "end_s": [2]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(TraceError, match="column 'start_s' holds String, not numbers"):
        read(tmp_path / "t.parquet")


def test_a_million_intervals_of_one_device() -> None:
    count = 1_000_000
    starts = np.linspace(0.0, 10.0 * count, count, endpoint=False)
    rows = TraceRows(("a",), np.zeros(count, np.int64), starts, starts + 5, np.zeros(count, np.int8))
    trace = clean(rows)
    assert trace.report.intervals == count
