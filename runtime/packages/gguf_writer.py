"""Writes a `.gguf` model anew: metadata as it stood, tensors in other types.

What is written follows the rules that the reader checks; the data of a tensor is made when its turn comes, so
that no more than one piece of it is in memory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from openinfer.runtime.dtypes import DType
from openinfer.runtime.packages.gguf import GgufPackage
from openinfer.runtime.packages.gguf_format import HEADER, MAGIC
from openinfer.runtime.storage import element_count

_VERSION = 3
_U32 = 4
Piece = bytes | memoryview


@dataclass(frozen=True)
class NewTensor:
    """A tensor to be written: its data are pieces that make `nbytes` together."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    data: Callable[[], Iterable[Piece]]

    @property
    def nbytes(self) -> int:
        return self.dtype.nbytes(element_count(self.shape))


def rewritten(
    package: GgufPackage, numbers: dict[str, int], tensors: Sequence[NewTensor]
) -> Iterator[Piece]:
    """The file in pieces: all keys of the model but those about parts, the u32 `numbers` in the place of
    what their keys said, and `tensors` in their order."""
    first = package.parts[0]
    entries = [
        first.entry(key)
        for key in package.fields
        if key not in numbers and not key.startswith("split.")
    ]
    entries += [_text(key) + struct.pack("<iI", _U32, value) for key, value in numbers.items()]
    alignment = first.alignment
    table: list[bytes] = []
    offset = 0
    for tensor in tensors:
        rank = len(tensor.shape)
        head = struct.pack(f"<I{rank}q", rank, *reversed(tensor.shape))
        table.append(_text(tensor.name) + head + struct.pack("<iQ", tensor.dtype.gguf_id, offset))
        offset += tensor.nbytes + -tensor.nbytes % alignment
    yield struct.pack(HEADER, MAGIC, _VERSION, len(tensors), len(entries))
    position = struct.calcsize(HEADER)
    for part in (*entries, *table):
        position += len(part)
        yield part
    yield bytes(-position % alignment)
    for tensor in tensors:
        yield from tensor.data()
        yield bytes(-tensor.nbytes % alignment)


def _text(text: str) -> bytes:
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data
