"""Participations of which only the latest rows are in memory."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.common.errors import RunError
from fedsim.log import PARTICIPATIONS
from fedsim.log.recorder import TemporaryParticipations


def part(first: int, count: int) -> pl.DataFrame:
    """Return participations that differ."""
    rows = pl.DataFrame({"client": range(first, first + count)}, schema={"client": pl.Int32})
    return rows.with_columns(**{name: pl.lit(None, kind) for name, kind in PARTICIPATIONS.items() if name != "client"})


@pytest.mark.long
@given(counts=st.lists(st.integers(0, 9), max_size=8), most=st.integers(1, 10))
def test_what_comes_back_is_what_was_put_in(counts: list[int], most: int) -> None:
    """In its order, from memory or from files, which hold so many rows each, and are gone in the end."""
    total = sum(counts)
    with TemporaryParticipations(most) as log:
        for number, count in enumerate(counts):
            log.add(part(sum(counts[:number]), count))
        participations = log.participations()
        assert participations.lazy().collect()["client"].to_list() == list(range(total))
        in_memory = total <= most
        assert isinstance(participations, pl.DataFrame) == in_memory
        if isinstance(participations, pl.LazyFrame):
            assert participations.select("client").slice(total - 1, 5).collect().to_series().to_list() == [total - 1]
            [folder] = {path.parent for path in log._files}
            assert all(len(pl.read_parquet(path)) == most for path in log._files[:-1])
            assert folder.exists()
    if not in_memory:
        assert not folder.exists()


def test_without_a_place_for_files_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with TemporaryParticipations(2) as log:
        log.add(part(0, 2))
        with pytest.raises(RunError, match=r"^no folder for temporary files can be made: .*missing"):
            log.add(part(2, 1))
