"""`.gguf` files byte by byte, right or wrong: what the `gguf` package would not write."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, ARRAY, U64, I64, F64 = range(13)
_LAYOUTS = dict(zip((U8, I8, U16, I16, U32, I32, F32, BOOL, U64, I64, F64), "BbHhIifBQqd"))

Entry = tuple[str, int, Any]
"""Key, type, value; of an array the value is its element type and its elements."""


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def value(kind: int, content: Any) -> bytes:
    if kind == TEXT:
        return text(content)
    if kind == ARRAY:
        element, items = content
        return struct.pack("<iQ", element, len(items)) + b"".join(value(element, i) for i in items)
    return struct.pack("<" + _LAYOUTS[kind], content)


def tensor(name: str | bytes, dims: Sequence[int], kind: int, offset: int) -> bytes:
    """An entry of the table; `dims` in the order of the format, fastest first."""
    rank = len(dims)
    return text(name) + struct.pack(f"<I{rank}qiQ", rank, *dims, kind, offset)


def gguf_bytes(
    keys: Sequence[Entry] = (),
    tensors: Sequence[bytes] = (),
    data: bytes = b"",
    *,
    version: int = 3,
    counts: tuple[int, int] | None = None,
    alignment: int = 32,
) -> bytes:
    """A file; `counts` are what the header says of tensors and keys, if that is not the truth."""
    counts = counts or (len(tensors), len(keys))
    head = struct.pack("<4sIqq", b"GGUF", version, *counts)
    head += b"".join(text(key) + struct.pack("<i", kind) + value(kind, v) for key, kind, v in keys)
    head += b"".join(tensors)
    return head + bytes(-len(head) % alignment if data else 0) + data


def write(path: Path, *arguments: Any, **more: Any) -> Path:
    path.write_bytes(gguf_bytes(*arguments, **more))
    return path
