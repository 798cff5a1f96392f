"""Parquet files put one after another without unpacking them: their row groups are copied, and their footers joined.

Source: Apache Parquet, *File format* and ``parquet.thrift``, whose field numbers stand here.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from fedsim.common.thrift import Struct, read_struct, write_struct

_MAGIC = b"PAR1"
_ZSTD = 6
_VERSION, _SCHEMA, _ROWS, _GROUPS = 1, 2, 3, 4  # of the footer
_COLUMNS, _GROUP_ROWS, _GROUP_AT, _ORDINAL = 1, 3, 5, 7  # of a row group
_CHUNK_AT, _META, _OFFSETS_AT, _OFFSETS_SIZE, _INDEX_AT, _INDEX_SIZE = 2, 3, 4, 5, 6, 7  # of a column in it
_CODEC, _SIZE, _DATA_AT, _DICTIONARY_AT = 4, 7, 9, 11  # of what is known of that
_PAGES, _PAGE_AT = 1, 1  # of the places of its pages


class OtherLayoutError(Exception):
    """A file is laid out in another way than polars does, or is not what can be joined."""


def join_groups(parts: Sequence[Path], out: BinaryIO, rows: int) -> None:
    """Write the file that polars would write if it had the tables of several files as one.

    Parameters
    ----------
    parts
        Files of the same columns as polars writes them, compressed with zstd: all but the last have row groups of
        `rows` rows.
    out
        Where to write.
    rows
        Rows of a row group.

    Raises
    ------
    OtherLayoutError
        If one of the files is another one; nothing has been written then.
    OSError
        If a file cannot be read or written.
    """
    with ExitStack() as opened:
        files = [opened.enter_context(path.open("rb")) for path in parts]
        try:
            footers = [_footer(file) for file in files]
            _check(footers, rows)
        except (LookupError, TypeError, ValueError) as error:
            raise OtherLayoutError(f"{type(error).__name__}: {error}") from None
        _write(files, footers, out)


def _footer(file: BinaryIO) -> Struct:
    """Return the footer of a file, and see that what is before it is known to the last byte."""
    end = file.seek(0, 2) - 8
    file.seek(max(end, 0))
    tail = file.read(8)
    size = int.from_bytes(tail[:4], "little")
    if not len(_MAGIC) + size <= end:
        raise ValueError(f"it ends at byte {end + 8}")
    file.seek(end - size)
    footer = read_struct(file.read(size))
    places: list[tuple[int, int]] = []
    for group in footer.structs(_GROUPS):
        for chunk in group.structs(_COLUMNS):
            first, length = _place(chunk)
            meta = len(write_struct(chunk.struct(_META)))
            places += [
                (first, length),
                (first + length, meta),  # written there once more
                (chunk.number(_INDEX_AT), chunk.number(_INDEX_SIZE)),
                (chunk.number(_OFFSETS_AT), chunk.number(_OFFSETS_SIZE)),
            ]
    at = len(_MAGIC)
    for first, length in sorted(places):
        if first != at:
            raise ValueError(f"byte {at} belongs to nothing")
        at += length
    if at != end - size or tail[4:] != _MAGIC:
        raise ValueError(f"byte {at} belongs to nothing")
    return footer


def _place(chunk: Struct) -> tuple[int, int]:
    """Return where the pages of a column in a row group are, and how many bytes they have."""
    meta = chunk.struct(_META)
    first = min(meta.number(place) for place in (_DATA_AT, _DICTIONARY_AT) if place in meta)
    return first, meta.number(_SIZE)


def _check(footers: Sequence[Struct], rows: int) -> None:
    """See that the files belong together, and that their row groups are those that one file would have."""
    for footer in footers:
        if footer[_SCHEMA] != footers[0][_SCHEMA] or footer[_VERSION] != footers[0][_VERSION]:
            raise ValueError("the columns are others")
        for group in footer.structs(_GROUPS):
            if any(chunk.struct(_META).number(_CODEC) != _ZSTD for chunk in group.structs(_COLUMNS)):
                raise ValueError("it is not compressed with zstd")
    sizes = [group.number(_GROUP_ROWS) for footer in footers for group in footer.structs(_GROUPS)]
    if any(size != rows for size in sizes[:-1]):
        raise ValueError("a row group is another one in the whole")


def _write(files: Sequence[BinaryIO], footers: Sequence[Struct], out: BinaryIO) -> None:
    at = out.write(_MAGIC)
    whole = footers[0]
    groups = [(file, group) for file, footer in zip(files, footers, strict=True) for group in footer.structs(_GROUPS)]
    whole[_ROWS] = sum(footer.number(_ROWS) for footer in footers)
    moves: list[int] = []
    for number, (file, group) in enumerate(groups):
        group[_GROUP_AT] = at
        if _ORDINAL in group:
            group[_ORDINAL] = number
        for chunk in group.structs(_COLUMNS):
            first, length = _place(chunk)
            move, meta = at - first, chunk.struct(_META)
            for place in (_DATA_AT, _DICTIONARY_AT):
                if place in meta:
                    meta[place] = meta.number(place) + move
            chunk[_CHUNK_AT] = chunk.number(_CHUNK_AT) + move
            at += out.write(_bytes(file, first, length))
            at += out.write(write_struct(meta))
            moves.append(move)
    chunks = [(file, chunk) for file, group in groups for chunk in group.structs(_COLUMNS)]
    for file, chunk in chunks:
        index = _bytes(file, chunk.number(_INDEX_AT), chunk.number(_INDEX_SIZE))
        chunk[_INDEX_AT] = at
        at += out.write(index)
    for (file, chunk), move in zip(chunks, moves, strict=True):
        offsets = read_struct(_bytes(file, chunk.number(_OFFSETS_AT), chunk.number(_OFFSETS_SIZE)))
        for page in offsets.structs(_PAGES):
            page[_PAGE_AT] = page.number(_PAGE_AT) + move
        chunk[_OFFSETS_AT] = at
        chunk[_OFFSETS_SIZE] = out.write(write_struct(offsets))
        at += chunk.number(_OFFSETS_SIZE)
    whole.put_structs(_GROUPS, [group for _, group in groups])
    footer = write_struct(whole)
    out.write(footer + len(footer).to_bytes(4, "little") + _MAGIC)


def _bytes(file: BinaryIO, first: int, length: int) -> bytes:
    file.seek(first)
    return file.read(length)
