"""Joined files are those that polars writes of the joined tables, and what is laid out otherwise is left to polars."""

import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedsim.common.files import join_tables, write_table
from fedsim.common.parquet_join import OtherLayoutError, join_groups
from fedsim.common.thrift import read_struct, write_struct

ROWS = 50


def table(rows: int, seed: int) -> pl.DataFrame:
    """Return columns of many kinds: repeated and distinct values, texts, booleans, nulls."""
    draws = np.random.default_rng(seed)
    gaps = pl.Series("gap", draws.integers(0, 1 << 40, rows))
    return pl.DataFrame(
        {
            "round": np.arange(rows) // 7,
            "gap": gaps.set(pl.Series(draws.random(rows) < 0.3), None),
            "time_s": draws.random(rows),
            "outcome": pl.Series(["reported", "late", None], dtype=pl.String).gather(draws.integers(0, 3, rows)),
            "on": draws.random(rows) < 0.5,
            "nothing": pl.repeat(None, rows, dtype=pl.Int64, eager=True),
        }
    )


def written(path: Path, frame: pl.DataFrame, compression: str = "zstd") -> Path:
    frame.write_parquet(path, compression=compression, row_group_size=ROWS)  # type: ignore[arg-type]
    return path


def joined(parts: list[Path]) -> bytes:
    out = io.BytesIO()
    join_groups(parts, out, ROWS)
    return out.getvalue()


@given(
    groups=st.lists(st.integers(0, 9), min_size=1, max_size=4), rest=st.integers(0, ROWS), seed=st.integers(0, 1 << 30)
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_joined_files_are_what_polars_writes_of_the_whole(
    groups: list[int], rest: int, seed: int, tmp_path: Path
) -> None:
    whole = table(ROWS * sum(groups) + rest, seed)
    sizes, first, parts = [ROWS * number for number in groups], 0, []
    sizes[-1] += rest
    for number, size in enumerate(sizes):
        parts.append(written(tmp_path / f"{number}.parquet", whole.slice(first, size)))
        first += size
    expected = written(tmp_path / "whole.parquet", whole)
    assert joined(parts) == expected.read_bytes()
    assert pl.scan_parquet(io.BytesIO(joined(parts))).filter(pl.col("round") >= 0).collect().equals(whole)


def test_what_cannot_be_copied_is_refused_and_joined_by_polars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsim.common.files.ROWS", ROWS)
    two = [table(ROWS, 1), table(ROWS, 2)]
    short = [written(tmp_path / "short.parquet", two[0].head(ROWS - 1)), written(tmp_path / "one.parquet", two[1])]
    packed = [written(tmp_path / "packed.parquet", two[0], "lz4"), short[1]]
    other = [written(tmp_path / "other.parquet", two[0].rename({"on": "off"})), short[1]]
    empty = tmp_path / "empty.parquet"
    empty.write_bytes(b"")
    more = tmp_path / "more.parquet"
    more.write_bytes(short[1].read_bytes()[:4] + b"more" + short[1].read_bytes()[4:])
    for parts in (short, packed, other, [empty], [more]):
        with pytest.raises(OtherLayoutError):
            joined(parts)
    for parts in (short, packed):
        join_tables(tmp_path / "joined.parquet", parts)
        write_table(tmp_path / "whole.parquet", pl.concat(pl.read_parquet(part) for part in parts))
        assert (tmp_path / "joined.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_every_kind_of_value_is_written_as_it_was_read() -> None:
    # Fields: true, false, a byte, numbers of three widths, a double, a text, a long list, a set of booleans, a struct,
    # and one whose number is far from the one before.
    data = bytes.fromhex("11 12 13 7f 14 01 15 80 01 16 ff ff ff ff 7f 17 0102030405060708 18 03 616263")
    data += bytes.fromhex("19 f8 10") + b"\x01x" * 16 + bytes.fromhex("1a 21 01 02 1c 15 03 00 05 e8 07 09 00")
    struct = read_struct(data)
    assert write_struct(struct) == data
    assert (struct.number(1), struct.number(2), struct.number(4), struct.number(6)) == (1, 0, -1, -(1 << 34))
    assert struct.struct(11).number(1) == -2
    assert struct.number(500) == -5
    for wrong in (struct.structs, struct.struct):
        with pytest.raises(TypeError, match="field 1 is not a"):
            wrong(1)
    with pytest.raises(TypeError, match="field 8 is not a number"):
        struct.number(8)
    with pytest.raises(ValueError, match="no type"):
        read_struct(bytes([0x1B, 0]))
