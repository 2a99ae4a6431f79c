"""Files that the original's own tools wrote wrongly: told apart from damage, and named.

These are the writers' defects that leave a trace in a file (others lose values before they are
written: a `float8` whose mantissa carried, tables that were set as attributes of an instance):

- The Python writer of version 2 computes offsets for data and quantisation records in turn, but
  writes all data first. A quantised tensor that stands before another one by name points at the
  wrong bytes, and so does everything behind it. `check_interleaved` recognises it.
- The Python writer stores -2 as `t2`, whose values are -1, 0 and 1. `mapped.py` names it where such a
  value is met.
- A loader of the original wants the length of a metadata array without its padding; a file made
  to please it contradicts the format. `oinf_decode.py` names it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from openinfer.runtime.dtypes import DType
from openinfer.runtime.errors import PackageError
from openinfer.runtime.packages.mapped import Cursor, MappedFile, align
from openinfer.runtime.packages.oinf_decode import read_quant
from openinfer.runtime.packages.oinf_format import HAS_DATA, HAS_QUANT


@dataclass(frozen=True)
class TensorPlaces:
    """An entry of the tensor index."""

    name: str
    row: DType
    shape: tuple[int, ...]
    flags: int
    data_nbytes: int
    data_offset: int
    quant_nbytes: int
    quant_offset: int


def check_interleaved(file: MappedFile, entries: Sequence[TensorPlaces]) -> None:
    """Raises PackageError OI0413 when the offsets alternate and the bytes do not.

    Certain, not guessed: every offset is where the alternating layout has it, and every record is
    found where the other layout has it.
    """
    alternating: list[tuple[TensorPlaces, int, int]] = []
    """Entry, kind of payload and length, in the order of the offsets."""
    for entry in entries:
        if entry.flags & HAS_DATA:
            alternating.append((entry, HAS_DATA, entry.data_nbytes))
        if entry.flags & HAS_QUANT:
            alternating.append((entry, HAS_QUANT, entry.quant_nbytes))
    if not alternating:
        return
    start = _offset(*alternating[0][:2])
    end = start
    for entry, kind, nbytes in alternating:
        if _offset(entry, kind) != end:
            return
        end += align(nbytes)
    written = sorted(alternating, key=lambda payload: payload[1])
    if written == alternating:
        return
    places = {
        (entry.name, kind): place
        for (entry, kind, _), place in zip(written, _places(written, start))
    }
    for entry, kind, nbytes in written:
        if kind == HAS_QUANT and not _is_record(file, entry, nbytes, places[entry.name, kind]):
            return
    wrong = [e.name for e, kind, _ in alternating if places[e.name, kind] != _offset(e, kind)]
    raise PackageError(
        "OI0413",
        f"{file.path}: the tensor index places data and quantisation records in turn, but the file "
        f"holds all data before the records, so {', '.join(map(repr, dict.fromkeys(wrong)))} point "
        "at the wrong bytes: a defect of the original's Python writer for version 2",
        hint="write the model again, with openinfer.write_oinf or `openinfer pack`",
    )


def _offset(entry: TensorPlaces, kind: int) -> int:
    return entry.data_offset if kind == HAS_DATA else entry.quant_offset


def _places(payloads: Sequence[tuple[TensorPlaces, int, int]], start: int) -> list[int]:
    """Where payloads lie that follow each other from `start`."""
    places: list[int] = []
    for _, _, nbytes in payloads:
        places.append(start)
        start += align(nbytes)
    return places


def _is_record(file: MappedFile, entry: TensorPlaces, nbytes: int, offset: int) -> bool:
    try:
        read_quant(Cursor(file, 0, file.size, ""), nbytes, offset, entry.shape)
    except (PackageError, struct.error, ValueError):
        return False
    return True
