"""Files that are whole or absent, and fingerprints of what tables say."""

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fedsim.common.errors import RunError
from fedsim.common.files import write_table, write_text
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.log import fingerprint, has_fingerprint

TABLE = pl.DataFrame({"number": [1, None, 3], "real": [0.5, 1.5, None], "word": ["a", None, "c"]})


def test_tables_are_written_whole(tmp_path: Path) -> None:
    write_table(tmp_path / "t.parquet", TABLE)
    assert_frame_equal(pl.read_parquet(tmp_path / "t.parquet"), TABLE)
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.json"
    write_text(path, "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunError, match=r"metrics\.json cannot be written: No space left on device"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.json"]


def test_a_table_cannot_be_written_into_nowhere(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be written"):
        write_table(tmp_path / "none" / "t.parquet", TABLE)


@pytest.mark.parametrize(
    "other",
    [
        TABLE.with_columns(number=pl.Series([1, 0, 3])),
        TABLE.with_columns(real=pl.Series([0.5, 1.5, 0.0])),
        TABLE.with_columns(word=pl.Series(["a", "", "c"])),
        TABLE.rename({"word": "words"}),
        TABLE.with_columns(pl.col("number").cast(pl.Int32)),
        TABLE.with_columns(pl.col("word").cast(pl.Enum(["a", "c"]))),
        TABLE.reverse(),
        TABLE.head(2),
    ],
)
def test_a_fingerprint_tells_tables_apart(other: pl.DataFrame) -> None:
    assert fingerprint(TABLE) != fingerprint(other)


def test_words_that_came_later_count_where_they_occur() -> None:
    """So locks of logs without them stay valid."""
    words = list(SESSION_OUTCOMES)
    log = pl.DataFrame({"outcome": ["reported", "late", None]})
    now, before = (log.cast({"outcome": pl.Enum(some)}) for some in (words, words[:5]))
    assert fingerprint(now) == fingerprint(before)
    assert fingerprint(pl.DataFrame({"outcome": ["failed"]}).cast({"outcome": pl.Enum(words)})) != fingerprint(
        pl.DataFrame({"outcome": ["failed"]}).cast({"outcome": pl.Enum([*words[:4], "failed"])})
    )


def test_the_fingerprint_of_0_2_is_still_known() -> None:
    of_0_2 = "39bc0ee8c7f73ea3f05ff8ec98888fb58e1b0ebf943ad9f7517f894f62aa8aa2"
    assert has_fingerprint(TABLE, of_0_2)
    assert has_fingerprint(TABLE, fingerprint(TABLE))
    assert fingerprint(TABLE) != of_0_2
    assert not has_fingerprint(TABLE.reverse(), of_0_2)


def test_a_fingerprint_survives_the_file(tmp_path: Path) -> None:
    TABLE.write_parquet(tmp_path / "t.parquet", compression="snappy", row_group_size=1)
    assert fingerprint(pl.read_parquet(tmp_path / "t.parquet")) == fingerprint(TABLE)


def test_a_fingerprint_does_not_depend_on_how_many_rows_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = fingerprint(TABLE)
    TABLE.write_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr("fedsim.common.files.ROWS", 2)
    assert fingerprint(TABLE) == fingerprint(pl.scan_parquet(tmp_path / "t.parquet")) == expected
