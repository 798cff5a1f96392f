"""What a run that ended anywhere may leave behind: files that are whole, and a manifest that is true."""

import json
from pathlib import Path

import polars as pl

from fedsim.log import fingerprint


def check_whole(directory: Path) -> None:
    """Every Parquet file of a run directory that is there can be read, and no manifest is a lie."""
    tables = {file.stem: pl.read_parquet(file) for file in directory.glob("*.parquet")}
    assert all(table.width > 1 for table in tables.values())
    if (directory / "manifest.json").exists():
        fingerprints = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))["fingerprints"]
        assert {name: fingerprint(tables[name]) for name in fingerprints} == fingerprints
