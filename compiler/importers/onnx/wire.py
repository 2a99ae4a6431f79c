"""Protocol buffers, byte by byte: the model without its large tensors, and where those lie in the file.

A message is fields: a varint `number << 3 | kind`, then a varint, 8 or 4 bytes, or a varint length and so
many bytes (https://protobuf.dev/programming-guides/encoding). The library would copy every tensor of a model;
it is given what is left without them, and they are read where the file is mapped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

LARGE = 4096
"""Bytes of data from which a tensor stays in the file."""

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9


class WireError(Exception):
    """The bytes are no message."""


class Span(NamedTuple):
    """Bytes of a file."""

    start: int
    stop: int


class _Field(NamedTuple):
    number: int
    kind: int
    begin: int
    """Where its tag stands."""
    start: int
    stop: int


def without_tensors(data: memoryview) -> tuple[bytes, dict[int, Span]]:
    """The message of a ModelProto without large `raw_data` of its graph's initializers, and where that lies,
    by position among the initializers. Raises WireError."""
    spans: dict[int, Span] = {}
    pieces: list[bytes | memoryview] = []
    graphs = 0
    for field in _fields(data, 0, len(data)):
        if field.number != _GRAPH or field.kind != _BYTES:
            pieces.append(data[field.begin : field.stop])
            continue
        graphs += 1
        if graphs > 1:
            raise WireError("it has two graphs")
        graph = _graph(data, field, spans)
        pieces += [_tag(_GRAPH), _varint(sum(map(len, graph))), *graph]
    return b"".join(pieces), spans


def _graph(data: memoryview, graph: _Field, spans: dict[int, Span]) -> list[bytes | memoryview]:
    pieces: list[bytes | memoryview] = []
    index = 0
    for field in _fields(data, graph.start, graph.stop):
        if field.number != _INITIALIZER or field.kind != _BYTES:
            pieces.append(data[field.begin : field.stop])
            continue
        kept: list[memoryview] = []
        for part in _fields(data, field.start, field.stop):
            if part.number == _RAW_DATA and part.kind == _BYTES and part.stop - part.start >= LARGE:
                if index in spans:
                    raise WireError(f"initializer {index} has data twice")
                spans[index] = Span(part.start, part.stop)
            else:
                kept.append(data[part.begin : part.stop])
        pieces += [_tag(_INITIALIZER), _varint(sum(map(len, kept))), *kept]
        index += 1
    return pieces


def _fields(data: memoryview, start: int, stop: int) -> Iterator[_Field]:
    at = start
    while at < stop:
        begin = at
        tag, at = _read_varint(data, at, stop)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            first = at
            _, at = _read_varint(data, at, stop)
        elif kind in (_EIGHT, _FOUR):
            first = at
            at += 8 if kind == _EIGHT else 4
        elif kind == _BYTES:
            length, first = _read_varint(data, at, stop)
            at = first + length
        else:
            raise WireError(f"a field at byte {begin} is of no known kind")
        if at > stop:
            raise WireError(f"a field at byte {begin} ends at {at}, beyond the end at {stop}")
        yield _Field(number, kind, begin, first, at)


def _read_varint(data: memoryview, at: int, stop: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= stop:
            raise WireError(f"a number is cut off at byte {at}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise WireError(f"a number before byte {at} has more than 64 bits")


def _tag(number: int) -> bytes:
    return _varint(number << 3 | _BYTES)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
