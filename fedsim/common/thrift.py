"""Thrift's compact protocol, as far as Parquet's footers need it: values read and written back to the same bytes.

Source: Apache Thrift, *Thrift Compact protocol encoding* (doc/specs/thrift-compact-protocol.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

Value: TypeAlias = Union[int, bytes, "Listed", "Struct"]
"""A number or a boolean, a text or the eight bytes of a double, a list, or a struct."""

_TRUE, _FALSE, _BYTE, _INT_16, _INT_32, _INT_64, _DOUBLE, _BINARY, _LIST, _SET, _, _STRUCT = range(1, 13)
_NUMBERS = (_INT_16, _INT_32, _INT_64)
_LONG = 15


@dataclass
class Listed:
    """A list or a set: the type of what is in it, and what is in it."""

    kind: int
    items: list[Value]


@dataclass
class Struct:
    """Fields by their number, in the order in which they are written, each with its type."""

    fields: dict[int, tuple[int, Value]]

    def __getitem__(self, number: int) -> Value:
        return self.fields[number][1]

    def __setitem__(self, number: int, value: Value) -> None:
        self.fields[number] = (self.fields[number][0], value)

    def __contains__(self, number: int) -> bool:
        return number in self.fields

    def number(self, number: int) -> int:
        """Return the value of a field that is a number."""
        value = self[number]
        if not isinstance(value, int):
            raise TypeError(f"field {number} is not a number")
        return value

    def struct(self, number: int) -> "Struct":
        """Return the value of a field that is a struct."""
        value = self[number]
        if not isinstance(value, Struct):
            raise TypeError(f"field {number} is not a struct")
        return value

    def structs(self, number: int) -> "list[Struct]":
        """Return what is in a field that is a list of structs."""
        value = self[number]
        if not isinstance(value, Listed):
            raise TypeError(f"field {number} is not a list")
        return [each for each in value.items if isinstance(each, Struct)]

    def put_structs(self, number: int, structs: "Sequence[Struct]") -> None:
        """Put other structs into a field that is a list of structs."""
        self[number] = Listed(_STRUCT, list(structs))


def read_struct(data: bytes) -> Struct:
    """Read the struct with which some bytes begin.

    Raises
    ------
    ValueError
        If it is not written in this protocol, or has a type that Parquet's footers do not use.
    IndexError
        If the bytes end before it does.
    """
    return _read_struct(data, 0)[0]


def write_struct(struct: Struct) -> bytes:
    """Return the bytes of a struct."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


def _read_struct(data: bytes, at: int) -> tuple[Struct, int]:
    fields: dict[int, tuple[int, Value]] = {}
    number = 0
    while head := data[at]:
        at += 1
        kind, step = head & 15, head >> 4
        if step:
            number += step
        else:
            number, at = _read_number(data, at)
        value: Value
        if kind in (_TRUE, _FALSE):
            value = int(kind == _TRUE)
        else:
            value, at = _read(data, at, kind)
        fields[number] = (kind, value)
    return Struct(fields), at + 1


def _read(data: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind in _NUMBERS:
        return _read_number(data, at)
    if kind in (_TRUE, _FALSE, _BYTE):
        return data[at], at + 1
    if kind in (_DOUBLE, _BINARY):
        size = 8
        if kind == _BINARY:
            size, at = _read_size(data, at)
        return data[at : at + size], at + size
    if kind in (_LIST, _SET):
        head, at = data[at], at + 1
        size = head >> 4
        if size == _LONG:
            size, at = _read_size(data, at)
        items = []
        for _ in range(size):
            item, at = _read(data, at, head & 15)
            items.append(item)
        return Listed(head & 15, items), at
    if kind == _STRUCT:
        return _read_struct(data, at)
    raise ValueError(f"{kind} is no type that a footer has")


def _read_size(data: bytes, at: int) -> tuple[int, int]:
    size, shift = 0, 0
    while True:
        byte = data[at]
        size, shift, at = size | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return size, at


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    twice, at = _read_size(data, at)
    return (twice >> 1) ^ -(twice & 1), at


def _write_struct(out: bytearray, struct: Struct) -> None:
    before = 0
    for number, (kind, value) in struct.fields.items():
        if kind in (_TRUE, _FALSE):
            kind = _TRUE if value else _FALSE  # noqa: PLW2901
        step = number - before
        if 0 < step <= _LONG:
            out.append(step << 4 | kind)
        else:
            out.append(kind)
            _write_number(out, number)
        if kind not in (_TRUE, _FALSE):
            _write(out, kind, value)
        before = number
    out.append(0)


def _write(out: bytearray, kind: int, value: Value) -> None:
    if isinstance(value, Struct):
        _write_struct(out, value)
    elif isinstance(value, Listed):
        size = len(value.items)
        out.append(min(size, _LONG) << 4 | value.kind)
        if size >= _LONG:
            _write_size(out, size)
        for item in value.items:
            _write(out, value.kind, item)
    elif isinstance(value, bytes):
        if kind == _BINARY:
            _write_size(out, len(value))
        out += value
    elif kind in _NUMBERS:
        _write_number(out, value)
    else:
        out.append(value)


def _write_size(out: bytearray, size: int) -> None:
    while size >= 128:
        out.append(size & 127 | 128)
        size >>= 7
    out.append(size)


def _write_number(out: bytearray, value: int) -> None:
    _write_size(out, value << 1 if value >= 0 else (-value << 1) - 1)
