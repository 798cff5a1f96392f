"""Files of a few megabytes that unpack to gigabytes, for commands with 1.5 GiB of address space (``ulimit -v``)."""

import gzip
import io
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.command import answers_within

SCENARIO = "stop: {rounds: 3}\npopulation: [{devices: 2GROUP}]\nserver: {cohort: 1}\n"
LEARNING = "learning: {problem: {kind: softmax_regression, data: DATA}, optimizers: [fedavg], step_size: 0.1}\n"
MILLION = 10**6
# By name: the scenario, the exit code of `run`, and what is said.
CASES = {
    "gzip": (", weight: {kind: column, file: g.csv, column: p}", 2, "g.csv' is compressed (gzip)"),
    "column": (", weight: {kind: column, file: p.parquet, column: p}", 2, "has 200,000,000 rows"),
    "trace": (', availability: {kind: trace, file: t.parquet, base: "2026-01-05T00:00:00Z"}', 2, "20,000,000 rows"),
    "long trace": (
        ', availability: {kind: trace, file: l.parquet, base: "2026-01-05T00:00:00Z"}',
        2,
        "has 9,900,000 rows, which would take ",
    ),
    # It is over the budget of memory, too, of which less is free in the second command.
    "archive": ("{kind: npz, path: z.npz}", 2, "400,000,000 "),
    # No more is unpacked than its head announces, four numbers of 30 million.
    "archive that lies": ("{kind: npz, path: lie.npz}", 2, "goes by labels, and the targets are none"),
    "images": ("{kind: mnist, path: idx}", 2, "is larger than 8192 MiB, unpacked to 3,000,000,000 floats"),
}


def _archive(path: Path, shape: tuple[int, ...]) -> None:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as members:
        for name in ("x_train", "y_train", "x_test", "y_test"):
            members.writestr(f"{name}.npy", head.getvalue() + bytes(30 * MILLION))


def _files(folder: Path) -> None:
    (folder / "g.csv").write_bytes(gzip.compress(b"p\n") + gzip.compress(b"1\n" * MILLION) * 1500)
    for name, rows in (("t", 20 * MILLION), ("l", 9_900_000)):
        one = pl.DataFrame({"device": ["d"], "start_s": [0.0], "end_s": [1.0]})
        one.select(pl.all().repeat_by(rows).explode()).write_parquet(folder / f"{name}.parquet")
    pl.select(p=pl.repeat(1.5, 200 * MILLION)).write_parquet(folder / "p.parquet")
    _archive(folder / "z.npz", (400 * MILLION, 1))
    _archive(folder / "lie.npz", (2, 2))
    (folder / "idx").mkdir()
    raw = struct.pack(">BBBBIII", 0, 0, 8, 3, 30_000, 1_000, 100) + bytes(MILLION)
    (folder / "idx" / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(raw) + gzip.compress(bytes(MILLION)) * 99)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are Linux's")
def test_what_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    _files(tmp_path)
    assert max(path.stat().st_size for path in tmp_path.rglob("*")) < 3 * MILLION
    commands = {}
    for name, (what, _, _) in CASES.items():
        path = tmp_path / f"{name}.fedsim.yaml"
        learning = what.startswith("{")
        path.write_text(SCENARIO.replace("GROUP", "" if learning else what) + LEARNING.replace("DATA", what) * learning)
        commands[f"{name}: run"] = ["run", str(path), "--out", str(tmp_path / f"out {name}")]
        if name != "archive that lies":
            commands[f"{name}: validate"] = ["validate", str(path)]
    for name, code, said, _ in answers_within(3 * 2**29, commands):
        _, expected, words = CASES[name.partition(":")[0]]
        assert (code, words in said, "Traceback" in said) == (expected, True, False), (name, code, said)
