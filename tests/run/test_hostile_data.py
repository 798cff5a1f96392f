"""Files of data that no run can train with or draw devices from are told before anything is simulated."""

import gzip
import json
import os
import struct
import zipfile
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.lib import format as npy

from tests.command import fedsim

ARRAYS: dict[str, Any] = {
    "x_train": np.arange(160.0).reshape(40, 4) / 160,
    "y_train": np.arange(40) % 4,
    "x_test": np.arange(32.0).reshape(8, 4) / 32,
    "y_test": np.arange(8) % 4,
}
OWNED = {**ARRAYS, "client_train": np.arange(40) % 8}
ROWS = {"client": np.arange(40) % 8, "x": ARRAYS["x_train"].tolist(), "y": np.arange(40) % 4}
NAN, INF = float("nan"), float("inf")
Made = Callable[[Path], None]
"""Writes what a case names."""


def changed(array: Any, row: int, value: Any) -> Any:
    """Return an array with another value in a row."""
    array = np.array(array)
    array[row] = value
    return array


def npz(**changes: Any) -> Made:
    """Write the archive with other arrays; without those that are None."""
    kept = {name: value for name, value in {**OWNED, **changes}.items() if value is not None}
    return lambda path: np.savez(path, **kept)


def raw(content: bytes) -> Made:
    def made(path: Path) -> None:
        path.write_bytes(content)

    return made


def member(head: Mapping[str, Any], data: bytes = b"") -> Made:
    """Write an archive whose x_train has this head."""

    def made(path: Path) -> None:
        npz()(path)
        with zipfile.ZipFile(path) as whole:
            parts = {name: whole.read(name) for name in whole.namelist()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as whole:
            for name, content in parts.items():
                with whole.open(name, "w") as file:
                    if name == "x_train.npy":
                        npy.write_array_header_1_0(file, dict(head))
                        file.write(data)
                    else:
                        file.write(content)

    return made


def cut(made: Made, share: float) -> Made:
    """Write only the first part of a file."""

    def part(path: Path) -> None:
        made(path)
        path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])

    return part


def flipped(made: Made, share: float) -> Made:
    """Write a file with sixteen bytes in its midst turned over."""

    def damaged(path: Path) -> None:
        made(path)
        content = bytearray(path.read_bytes())
        at = int(share * len(content))
        content[at : at + 16] = bytes(255 - each for each in content[at : at + 16])
        path.write_bytes(content)

    return damaged


def parquet(**changes: Any) -> Made:
    kept = {name: value for name, value in {**ROWS, **changes}.items() if value is not None}
    return lambda path: pl.DataFrame(kept, strict=False).write_parquet(path)


def idx(array: Any, *, code: int = 8, lengths: Any = None) -> bytes:
    lengths = array.shape if lengths is None else lengths
    head = struct.pack(f">BBBB{len(lengths)}I", 0, 0, code, len(lengths), *lengths)
    return head + bytes(array.tobytes())


IMAGES, LABELS = np.zeros((40, 2, 2), np.uint8), (np.arange(40) % 4).astype(np.uint8)
FOUR = {
    "train-images-idx3-ubyte": idx(IMAGES),
    "train-labels-idx1-ubyte": idx(LABELS),
    "t10k-images-idx3-ubyte": idx(IMAGES[:8]),
    "t10k-labels-idx1-ubyte": idx(LABELS[:8]),
}


def folder(**changes: bytes) -> Made:
    """Write the four files of MNIST, those that are named by their first letters otherwise."""

    def made(path: Path) -> None:
        path.mkdir()
        for name, content in FOUR.items():
            own = changes.get(name.replace("-", "_")[:8], content)
            (path / name).write_bytes(own)

    return made


def damaged_gzip(path: Path) -> None:
    folder()(path)
    packed = path / "t10k-labels-idx1-ubyte"
    packed.with_name(f"{packed.name}.gz").write_bytes(gzip.compress(packed.read_bytes())[:-2])
    packed.unlink()


def nothing(path: Path) -> None:
    assert not path.exists()


def as_folder(path: Path) -> None:
    path.mkdir()


def csv(text: str | bytes) -> Made:
    return raw(text if isinstance(text, bytes) else text.encode())


def column(values: Any, name: str = "w") -> Made:
    return csv("\n".join([name, *map(str, values)]) + "\n")


def frame(**columns: Any) -> Made:
    return lambda path: pl.DataFrame(columns, strict=False).write_parquet(path)


def trace(*rows: str, head: str = "device,start_s,end_s") -> Made:
    return csv("\n".join([head, *rows]) + "\n")


EIGHT = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
NPZ: dict[str, Made] = {
    "absent": nothing,
    "empty": raw(b""),
    "text": raw(b"no archive\n"),
    "folder": as_folder,
    "a pipe": os.mkfifo,
    "truncated": cut(npz(), 0.5),
    "a flipped array": flipped(npz(), 0.2),
    "no arrays": np.savez,
    "lacks y_train": npz(y_train=None),
    "objects": npz(x_train=ARRAYS["x_train"].astype(object)),
    "words for inputs": npz(x_train=np.full((40, 4), "a")),
    "dates": npz(x_train=np.full((40, 4), np.datetime64("2024-01-01"))),
    "nan": npz(x_train=changed(ARRAYS["x_train"], 7, NAN)),
    "nan to test on": npz(x_test=changed(ARRAYS["x_test"], 0, NAN)),
    "halves for labels": npz(y_train=ARRAYS["y_train"] / 2),
    "labels of one sample less": npz(y_train=ARRAYS["y_train"][:-1]),
    "negative labels": npz(y_train=changed(ARRAYS["y_train"], 0, -1)),
    "huge labels": npz(y_train=changed(ARRAYS["y_train"], 0, 10**12)),
    "huge test labels": npz(y_test=changed(ARRAYS["y_test"], 0, 2**62)),
    "huge unsigned labels": npz(y_train=changed(ARRAYS["y_train"].astype(np.uint64), 0, 2**64 - 1)),
    "labels as columns": npz(y_train=np.eye(4)[ARRAYS["y_train"]]),
    "test labels as columns": npz(y_test=np.eye(4, dtype=int)[ARRAYS["y_test"]]),
    "fractions to test on": npz(y_test=ARRAYS["y_test"] + 0.5),
    "a number for inputs": npz(x_train=np.float64(1)),
    "no samples": npz(x_train=np.zeros((0, 4)), y_train=np.zeros(0, int), client_train=np.zeros(0, int)),
    "nothing to test on": npz(x_test=np.zeros((0, 4)), y_test=np.zeros(0, int)),
    "other columns to test on": npz(x_test=np.zeros((8, 5))),
    "fewer clients": npz(client_train=np.arange(40) % 7),
    "fewer owners than samples": npz(client_train=np.arange(39) % 8),
    "owners in a table": npz(client_train=np.arange(80).reshape(40, 2) % 8),
    "one owner": npz(client_train=np.int64(3)),
    "too few samples to deal": npz(x_train=np.zeros((5, 4)), y_train=np.zeros(5, int), client_train=None),
    "a head of 10^18 rows": member({"descr": "<f8", "fortran_order": False, "shape": (10**18, 4)}),
    "a head of negative rows": member({"descr": "<f8", "fortran_order": False, "shape": (-5, 4)}),
    "a head of too many rows": member({"descr": "<f8", "fortran_order": False, "shape": (60, 4)}, bytes(320)),
    "a bomb": member({"descr": "<u1", "fortran_order": False, "shape": (2**34,)}, bytes(2**20)),
}
PARQUET: dict[str, Made] = {
    "absent": nothing,
    "empty": raw(b""),
    "text": raw(b"client,x,y\n"),
    "folder": as_folder,
    "truncated": cut(parquet(), 0.5),
    "flipped pages": flipped(parquet(), 0.1),
    "lacks y": parquet(y=None),
    "numbers for x": parquet(x=np.arange(40.0)),
    "words for x": parquet(x=[["a", "b"]] * 40),
    "digits as words for x": parquet(x=[["1", "2"]] * 40),
    "uneven x": parquet(x=[[1.0, 2.0]] * 39 + [[1.0]]),
    "null x": parquet(x=[[1.0, 2.0]] * 39 + [None]),
    "null in x": parquet(x=[[1.0, 2.0]] * 39 + [[1.0, None]]),
    "inf in x": parquet(x=[[1.0, 2.0]] * 39 + [[1.0, INF]]),
    "null y": parquet(y=[*([1] * 39), None]),
    "words for y": parquet(y=["cat"] * 40),
    "lists for y": parquet(y=[[1]] * 40),
    "null client": parquet(client=[None, *([1] * 39)]),
    "lists for clients": parquet(client=[[1]] * 40),
    "numbers for split": parquet(split=np.arange(40)),
    "null split": parquet(split=[*(["train"] * 39), None]),
    "nothing to train on": parquet(split=["test"] * 40),
    "nothing to test on": parquet(split=["train"] * 40),
    "no rows": lambda path: pl.read_parquet(_written(path, parquet())).clear().write_parquet(path),
    "fewer clients": parquet(client=np.arange(40) % 7),
    "a client with nothing to train on": parquet(split=["test" if i % 8 == 3 else "train" for i in range(40)]),
}
MNIST: dict[str, Made] = {
    "empty folder": as_folder,
    "an empty file": folder(train_im=b""),
    "text": folder(train_la=b"labels"),
    "truncated": folder(train_im=FOUR["train-images-idx3-ubyte"][:-9]),
    "longer than it says": folder(train_im=FOUR["train-images-idx3-ubyte"] + b"x"),
    "no axes": folder(train_im=struct.pack(">BBBB", 0, 0, 8, 0) + b"x"),
    "no images": folder(t10k_ima=idx(IMAGES[:0]), t10k_lab=idx(LABELS[:0])),
    "10^18 images": folder(train_im=idx(IMAGES, lengths=(2**32 - 1, 2**30, 1))),
    "fewer labels": folder(train_la=idx(LABELS[:-1])),
    "labels as images": folder(train_la=idx(IMAGES)),
    "negative labels": folder(train_la=idx(LABELS.astype(np.int8) - 1, code=9)),
    "nan": folder(train_im=idx(np.full((40, 2, 2), NAN, dtype=">f4"), code=0x0D)),
    "fractions for labels": folder(train_la=idx(LABELS.astype(">f4") / 2, code=0x0D)),
    "other images to test on": folder(t10k_ima=idx(np.zeros((8, 3, 2), np.uint8))),
    "a damaged gzip": damaged_gzip,
}
START: dict[str, Made] = {
    "absent": nothing,
    "empty": raw(b""),
    "folder": as_folder,
    "truncated": cut(lambda path: np.savez(path, model=np.zeros(3)), 0.5),
    "another model": lambda path: np.savez(path, other=np.zeros(3)),
    "another size": lambda path: np.savez(path, model=np.zeros(4)),
    "a table": lambda path: np.savez(path, model=np.zeros((3, 1))),
    "a number": lambda path: np.savez(path, model=np.float64(0)),
    "nan": lambda path: np.savez(path, model=np.array([0, NAN, 0])),
    "words": lambda path: np.savez(path, model=np.array(["a", "b", "c"])),
    "objects": lambda path: np.savez(path, model=np.array([None] * 3)),
}
CSV: dict[str, Made] = {
    "absent": nothing,
    "empty": raw(b""),
    "folder": as_folder,
    "another column": column(EIGHT, "v"),
    "head alone": column([]),
    "too few rows": column(EIGHT[:-1]),
    "too many rows": column([*EIGHT, 9.0]),
    "words": column([*EIGHT[:-1], "many"]),
    "a gap": csv("w,v\n" + "1,2\n" * 7 + ",2\n"),
    "nan": column([*EIGHT[:-1], "nan"]),
    "inf": column([*EIGHT[:-1], "inf"]),
    "zero": column([0.0, *EIGHT[1:]]),
    "negative": column([-1.0, *EIGHT[1:]]),
    "not UTF-8": csv(b"w\n" + b"\xff\xfe\n" * 8),
    "a column not UTF-8": csv(b"\xff\n" + b"1\n" * 8),
    "zeros": csv(bytes(64)),
    "gzip": csv(gzip.compress(b"w\n" + b"1\n" * 8)),
    "ragged": csv("w\n1\n2,3\n" + "1\n" * 6),
    "a quote left open": csv('w\n"1\n' + "1\n" * 7),
}
COLUMN: dict[str, Made] = {
    "truncated": cut(frame(w=EIGHT), 0.6),
    "another column": frame(v=EIGHT),
    "too few rows": frame(w=EIGHT[1:]),
    "words": frame(w=list("abcdefgh")),
    "lists": frame(w=[[1.0]] * 8),
    "null": frame(w=[*EIGHT[:-1], None]),
    "nan": frame(w=[*EIGHT[:-1], NAN]),
    "dates": frame(w=[date(2024, 1, 1)] * 8),
    "booleans": frame(w=[True] * 8),
}
TRACE: dict[str, Made] = {
    "absent": nothing,
    "empty": raw(b""),
    "folder": as_folder,
    "head alone": trace(),
    "another head": trace("a,0,1", head="who,from,to"),
    "words": trace("a,zero,one"),
    "nan": trace("a,nan,nan"),
    "inf": trace("a,0,inf"),
    "ends before it begins": trace("a,9,1"),
    "not UTF-8": csv(b"device,start_s,end_s\n\xff\xfe,0,1e5\n"),
    "ragged": trace("a,0,100000,9,9"),
    "too large": trace("a,0,1e300"),
    "zeros": csv(bytes(64)),
    "unknown condition": trace("a,0,100000,happy", head="device,start_s,end_s,condition"),
}


def _written(path: Path, made: Made) -> Path:
    made(path)
    return path


def _learning(kind: str, name: str) -> dict[str, Any]:
    problem = {"kind": "softmax_regression", "data": {"kind": kind, "path": name}}
    return {"learning": {"problem": problem, "optimizers": ["fedavg"], "step_size": 0.1}}


def _weights(name: str) -> dict[str, Any]:
    return {"population": [{"devices": 8, "weight": {"kind": "column", "file": name, "column": "w"}}]}


FORMS: dict[str, tuple[str, Mapping[str, Made], Any, str]] = {
    "npz": ("data.npz", NPZ, _learning("npz", "data.npz"), "learning.problem.data.path"),
    "parquet": ("data.parquet", PARQUET, _learning("parquet", "data.parquet"), "learning.problem.data.path"),
    "mnist": ("four", MNIST, _learning("mnist", "four"), "learning.problem.data.path"),
    "start": (
        "own.npz",
        START,
        {
            "learning": {
                "problem": {"kind": "quadratic", "dimension": 3},
                "optimizers": ["fedavg"],
                "step_size": 0.1,
                "start": {"path": "own.npz"},
            }
        },
        "learning.start",
    ),
    "csv": ("w.csv", CSV, _weights("w.csv"), "population[0].weight"),
    "column": ("w.parquet", COLUMN, _weights("w.parquet"), "population[0].weight"),
    "trace": (
        "t.csv",
        TRACE,
        {
            "population": [
                {"devices": 8, "availability": {"kind": "trace", "file": "t.csv", "base": "2026-01-05T00:00:00Z"}}
            ]
        },
        "population[0].availability",
    ),
}
CASES = [pytest.param(form, name, id=f"{form}: {name}") for form, known in FORMS.items() for name in known[1]]


def scenario(home: Path, form: str) -> Path:
    plain = {"stop": {"rounds": 5}, "population": [{"devices": 8}], "server": {"cohort": 3}}
    file = home / "case.fedsim.yaml"
    file.write_text(json.dumps({**plain, **FORMS[form][2]}))
    return file


def test_the_cases_are_many_and_what_they_damage_is_good(tmp_path: Path) -> None:
    good = {
        "npz": npz(),
        "parquet": parquet(),
        "mnist": folder(),
        "start": lambda path: np.savez(path, model=np.zeros(3)),
        "csv": column(EIGHT),
        "column": frame(w=EIGHT),
        "trace": trace("a,0,100000"),
    }
    assert len(CASES) > 100
    assert set(good) == set(FORMS)
    for form, made in good.items():
        made(tmp_path / FORMS[form][0])
        done = fedsim("validate", scenario(tmp_path, form))
        assert (done.returncode, form) == (0, form), done.stderr


@pytest.mark.parametrize(("form", "name"), CASES)
def test_bad_data_are_told_before_anything_is_simulated(form: str, name: str, tmp_path: Path) -> None:
    """By both commands alike: with the file and the key, without a traceback, a result, or a way to go on."""
    file, cases, _, key = FORMS[form]
    cases[name](tmp_path / file)
    said = []
    for command in (["validate"], ["run", "--out", tmp_path / "run"]):
        done = fedsim(command[0], scenario(tmp_path, form), *command[1:])
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        said.append(done.stderr)
    assert said[0] == said[1]
    assert "case.fedsim.yaml:1:" in said[0]
    assert f": error: {key}" in said[0]
    assert file in said[0]
    assert not [each for each in ("Traceback", "--resume", "Error(") if each in said[0]]
    assert len(said[0].splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_the_machine_s_data_are_looked_for_before_anything_is_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scenario that leaves to the machine where MNIST lies is no mistake, but no run either."""
    monkeypatch.delenv("FEDSIM_MNIST", raising=False)
    file = scenario(tmp_path, "mnist")
    file.write_text(file.read_text().replace(', "path": "four"', ""))
    assert fedsim("validate", file).returncode == 0
    done = fedsim("run", file, "--out", tmp_path / "run")
    assert (done.returncode, "FEDSIM_MNIST" in done.stderr, "--resume" in done.stderr) == (3, True, False)
    assert not (tmp_path / "run").exists()
    folder(train_la=b"")(tmp_path / "elsewhere")
    told = fedsim("validate", file, FEDSIM_MNIST=str(tmp_path / "elsewhere"))
    assert (told.returncode, "train-labels-idx1-ubyte is not an IDX file" in told.stderr) == (2, True)
