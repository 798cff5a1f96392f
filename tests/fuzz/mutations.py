"""Accidents that happen to files: to their bytes, JSON, tables, arrays, to lines of text, and to what is packed."""

import gzip
import json
import random
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

ODD: list[Any] = [
    *(None, True, -1, 0, 1e308, float("nan"), float("inf"), 2**63, 10**40, "", "x" * 5_000, "\x1b[2J\u202e\0", "²"),
    *([], {}, [[]], {"": None}, "\n::error::x", "../../etc/passwd", "0" * 64, [1] * 1_000),
]
WORDS = [
    *("0", "-1", "1e400", ".nan", "null", "[]", "{}", "9" * 400, "*a", "&a [*a]", "!!int x", '"\\e[2J\\u202e\\0"'),
    *("always", "groups", "os:system", "../x.csv", "1d12h", "0s", "9999-12-31T23:59:59Z", "{kind: zipf, exponent: 9}"),
    *("[1, 2]", "é漢", "'", "{a: {a: {a: 1}}}", "population[²]", "1 < 2", "a.b ==", "\t", "1_000_000_000_000"),
]


def of_bytes(draw: random.Random, path: Path) -> None:
    """Cut, empty, or change some bytes."""
    content = bytearray(path.read_bytes())
    match draw.randrange(4):
        case 0:
            content = content[: draw.randrange(len(content) + 1)]
        case 1 if content:
            for _ in range(draw.randint(1, 12)):
                content[draw.randrange(len(content))] = draw.randrange(256)
        case 2:
            at = draw.randrange(len(content) + 1)
            content[at:at] = draw.randbytes(draw.randint(1, 40))
        case _:
            at = draw.randrange(len(content) + 1)
            del content[at : at + draw.randint(1, 60)]
    path.write_bytes(bytes(content))


def of_lines(draw: random.Random, path: Path) -> None:
    """Change, take, double or swap lines, or the value in one."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for _ in range(draw.randint(1, 3)):
        at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
        line = lines[at]
        match draw.randrange(6):
            case 0 | 1:
                parts = [mark for mark in (":", ",", "\t") if mark in line]
                mark = draw.choice(parts) if parts else " "
                lines[at] = f"{line.rpartition(mark)[0]}{mark}{' ' if mark == ':' else ''}{draw.choice(WORDS)}"
            case 2:
                lines[at], lines[other] = lines[other], line
            case 3:
                lines.insert(at, line)
            case 4 if len(lines) > 1:
                del lines[at]
            case _:
                column = draw.randrange(len(line) + 1)
                lines[at] = line[:column] + draw.choice(WORDS) + line[column:]
    path.write_text("\n".join(lines), encoding="utf-8", errors="replace")


def of_json(draw: random.Random, path: Path) -> None:
    """Put something odd at a place in a JSON file, or take what is there away."""
    data = json.loads(path.read_text(encoding="utf-8"))
    _put(draw, data)
    path.write_text(json.dumps(data), encoding="utf-8")


def _put(draw: random.Random, data: Any) -> None:
    places: list[tuple[Any, Any]] = []

    def walk(at: Any) -> None:
        for key in list(at) if isinstance(at, dict) else range(len(at)):
            places.append((at, key))
            if isinstance(at[key], dict | list):
                walk(at[key])

    walk(data)
    for _ in range(draw.randint(1, 3)):
        at, key = draw.choice(places)
        if isinstance(at, dict) and draw.random() < 0.2:
            at.pop(key, None)
        elif isinstance(at, dict) or key < len(at):
            at[key] = draw.choice(ODD)


def of_packed(draw: random.Random, path: Path) -> None:
    """Let something happen to the bytes that are packed, and pack them again."""
    content = gzip.decompress(path.read_bytes())
    path.write_bytes(content)
    of_bytes(draw, path)
    path.write_bytes(gzip.compress(path.read_bytes(), 1))


def of_arrays(draw: random.Random, path: Path) -> None:
    """Change an array of an archive, or the bytes of one within it."""
    with np.load(path) as opened:
        arrays = dict(opened)
    name = draw.choice(sorted(arrays))
    array = arrays[name]
    ways: list[Callable[[], Any]] = [
        *(lambda: array[:0], lambda: array[:1], lambda: array.T, lambda: array[..., None], lambda: np.float64(1)),
        *(
            lambda: array.astype(draw.choice(["U3", "O", ">i2", "c16", "?", "M8[s]"])),
            lambda: array.astype(float) - 1e300,
        ),
        *(lambda: array * np.nan, lambda: np.concatenate([array, array]), lambda: np.zeros((0, 0))),
    ]
    if draw.random() < 0.1:
        del arrays[name]
    else:
        with suppress(TypeError, ValueError, IndexError), np.errstate(all="ignore"):
            arrays[name] = draw.choice(ways)()
    np.savez(path, **arrays)
    if draw.random() < 0.3:
        with zipfile.ZipFile(path) as members:
            inside = {member: members.read(member) for member in members.namelist()}
        member = draw.choice(sorted(inside))
        path.write_bytes(inside[member])
        of_bytes(draw, path)
        inside[member] = path.read_bytes()
        with zipfile.ZipFile(path, "w", draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as members:
            for each, content in inside.items():
                members.writestr(each, content)


def of_table(draw: random.Random, path: Path) -> None:
    """Change a Parquet table: no rows, no column, nulls, other values, another type, another order."""
    frame = pl.read_parquet(path)
    name = draw.choice(frame.columns)
    dtype = frame.schema[name]
    column = pl.col(name)
    match draw.randrange(8):
        case 0:
            frame = frame.clear()
        case 1:
            frame = frame.drop(name)
        case 2:
            frame = frame.with_columns(pl.lit(None, dtype).alias(name))
        case 3:
            frame = frame.with_columns(column.cast(pl.String))
        case 4 if dtype.is_float():
            frame = frame.with_columns(pl.lit(draw.choice([float("nan"), float("inf"), -1e300, -1.0])).alias(name))
        case 4 if dtype.is_integer():
            frame = frame.with_columns(
                pl.lit(draw.choice([-1, 2**30 if dtype == pl.Int32 else 2**62, 0]), dtype).alias(name)
            )
        case 5 if dtype == pl.String:
            frame = frame.with_columns(pl.lit(draw.choice(["", "x" * 10_000, "\x1b\0\u202e"])).alias(name))
        case 6:
            frame = pl.concat([frame, frame])
        case _:
            frame = frame.reverse()
    frame.write_parquet(path)


def mutate(draw: random.Random, path: Path) -> None:
    """Let one accident happen to a file, of a kind that its form knows, or to its bytes."""
    known: Sequence[Callable[[random.Random, Path], None]] = {
        ".json": (of_json, of_json, of_bytes),
        ".parquet": (of_table, of_table, of_bytes),
        ".yaml": (of_lines, of_lines, of_lines, of_bytes),
        ".csv": (of_lines, of_lines, of_bytes),
        ".tsv": (of_lines, of_lines, of_bytes),
        ".gz": (of_packed, of_packed, of_bytes),
        ".npz": (of_arrays, of_arrays, of_bytes),
    }.get(path.suffix, (of_bytes,))
    draw.choice(known)(draw, path)
