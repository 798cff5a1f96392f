"""Files of columns that are small where they lie and large when they are unpacked: refused before they are."""

import gzip
import zlib
from pathlib import Path

import polars as pl
import pytest

from fedsim.availability.trace import TraceError, read_rows
from fedsim.common import memory
from fedsim.learning.data import samples as arrays
from fedsim.learning.failures import LearningError
from fedsim.population import client_files as files
from fedsim.scenario.sources import Column

ROWS = b"p\n" + b"1.5\n" * 12
PACKED = {"gzip": gzip.compress(ROWS), "zlib": zlib.compress(ROWS), "zstd": b"\x28\xb5\x2f\xfd" + bytes(20)}


def numbers(path: Path) -> list[float]:
    column = Column(kind="column", file=path.name, column="p")
    return [float(each) for each in files.read_numbers(column, path.with_name).tolist()]


@pytest.mark.parametrize("how", PACKED)
def test_a_packed_file_is_no_csv(tmp_path: Path, how: str) -> None:
    """It was unpacked: 3 GB from 2.9 MB."""
    path = tmp_path / "p.csv"
    path.write_bytes(PACKED[how])
    with pytest.raises(ValueError, match=rf"p\.csv' is compressed \({how}\); unpack it, or write Parquet"):
        numbers(path)
    with pytest.raises(TraceError, match=rf"is compressed \({how}\)"):
        read_rows(path)
    path.write_bytes(ROWS)
    assert numbers(path) == [1.5] * 12


@pytest.mark.parametrize("name", ["x", "p", "PK"])
def test_a_column_may_be_called_anything(tmp_path: Path, name: str) -> None:
    path = tmp_path / "p.csv"
    path.write_text(f"{name}_,p\n1,2\n")
    assert numbers(path) == [2]


def test_rows_are_counted_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, parquet = tmp_path / "p.csv", tmp_path / "p.parquet"
    path.write_bytes(ROWS)
    pl.DataFrame({"p": [1.5] * 12}).write_parquet(parquet)
    monkeypatch.setattr(files, "MOST_CLIENTS", 10)
    for each in (path, parquet):
        with pytest.raises(ValueError, match="rows; a group has 10 devices at most"):
            numbers(each)


def test_rows_are_weighed_against_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace of 184 KB took 2.2 GB."""
    path, parquet, trace = tmp_path / "p.csv", tmp_path / "p.parquet", tmp_path / "t.parquet"
    path.write_bytes(ROWS)
    pl.DataFrame({"p": [1.5] * 12}).write_parquet(parquet)
    rows = pl.DataFrame({"device": ["a"] * 12, "start_s": [0.0] * 12, "end_s": [1.0] * 12})
    rows.write_parquet(trace)
    rows.write_csv(tmp_path / "t.csv")
    monkeypatch.setattr(memory, "free_bytes", lambda: 1_000)
    for each in (path, parquet):
        with pytest.raises(ValueError, match=r"rows, which would take 1\.[0-9] KiB of memory, and the budget is 800 B"):
            numbers(each)
    for each in (trace, tmp_path / "t.csv"):
        with pytest.raises(TraceError, match=r"rows, which would take 1\.[0-9] KiB of memory, and the budget is 800 B"):
            read_rows(each)


def test_a_first_line_has_an_end(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(b"p" + b",p" * 600_000 + b"\n1\n")
    with pytest.raises(ValueError, match=r"the first line of .* is longer than 1 MiB"):
        numbers(path)


def test_columns_of_lists_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    pl.DataFrame({"p": [[1, 2], [3]]}).write_parquet(path)
    with pytest.raises(ValueError, match="holds neither numbers nor text"):
        numbers(path)


def test_no_more_of_an_array_is_unpacked_than_its_head_says(tmp_path: Path) -> None:
    path = tmp_path / "zeros.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\x02" + bytes(10**7)))
    with pytest.raises(LearningError, match="has 11 bytes or more, where its head announces 10"):
        arrays.read_idx(path)
    path.write_bytes(gzip.compress(b"\0\0\x08\x03" + b"\xff" * 12))
    with pytest.raises(LearningError, match="is larger than 8192 MiB, unpacked to"):
        arrays.read_idx(path)
