from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedsim.common.errors import RunError
from fedsim.common.files import join_tables, read_table, write_table
from fedsim.log.journal import StoredLog
from fedsim.trials.store import RUNS, read_runs


def test_damage_on_which_polars_panics_is_told_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A panic is no `Exception` of Python; some damaged files cause one, in whatever reads them."""
    (tmp_path / RUNS).mkdir()
    for path in (tmp_path / RUNS / "abc.parquet", tmp_path / "t.parquet", tmp_path / "rounds.parquet"):
        pl.DataFrame({"run_id": ["abc"]}).write_parquet(path)

    def panic(*_: Any, **__: Any) -> None:
        raise pl.exceptions.PanicException("range end index 313585 out of range")

    monkeypatch.setattr(pl, "read_parquet", panic)
    with pytest.raises(RunError, match=r"t\.parquet cannot be read: range end index 313585"):
        read_table(tmp_path / "t.parquet")
    with pytest.raises(RunError, match=r"abc\.parquet cannot be read: range end index"):
        read_runs(tmp_path)
    with pytest.raises(RunError, match="the log cannot be read: range end index"):
        StoredLog(tmp_path, 1.0)


@given(cuts=st.lists(st.integers(0, 1000), max_size=6), passing=st.booleans(), seed=st.integers(0, 1 << 30))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_joined_file_is_that_of_the_whole_table_however_it_was_cut(
    cuts: list[int], passing: bool, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsim.common.files.ROWS", 150)
    draws = np.random.default_rng(seed)
    gaps = pl.Series("gap", draws.integers(0, 1 << 30, 1000), dtype=pl.Int32)
    words = pl.Series(["reported", "late", None])
    whole = pl.DataFrame(
        {
            "round": np.arange(1000, dtype=np.int32) // 7,
            "gap": gaps.set(pl.Series(draws.random(1000) < 0.3), None),
            "time_s": draws.random(1000),
            "outcome": words.cast(pl.Enum(["reported", "late"])).gather(draws.integers(0, 3, 1000)),
            "word": words.gather(draws.integers(0, 3, 1000)),
            "nothing": pl.repeat(None, 1000, dtype=pl.Int64, eager=True),
        }
    )
    edges, parts = sorted([0, *cuts, 1000]), []
    for number, (first, last) in enumerate(pairwise(edges)):
        parts.append(tmp_path / f"{number}.parquet")
        write_table(parts[-1], whole[first:last], passing=passing)
    join_tables(tmp_path / "joined.parquet", parts)
    write_table(tmp_path / "whole.parquet", whole)
    assert (tmp_path / "joined.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
