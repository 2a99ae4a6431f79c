"""The file of a snapshot: `.safetensors` with one tensor of raw bytes for each variable.

Tensor `K.bytes` (U8) holds the stored bytes of the entries of `K`, one after the other, in
row-major order of their indices. The metadata has two texts: `openinfer.state`, the version of this
layout, and `variables`, a JSON object

    {"K": {"dtype": "f16", "extents": [2, 8], "present": [[0, 3], [8, 11]], "shapes": [[4]]}}

where `present` lists runs of row-major positions of the entries that are there, and `shapes` has the
one shape of all entries, or one for each. Nothing of a file is believed: every number is checked
against the file's length before memory is taken.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np

from openinfer.runtime.dtypes import DTYPES, DType
from openinfer.runtime.errors import ArtefactError, OpenInferError, PackageError
from openinfer.runtime.files import write_file
from openinfer.runtime.packages.base import MAX_EXTENT, check_shape
from openinfer.runtime.packages.mapped import MappedFile
from openinfer.runtime.state import State, StateValue
from openinfer.runtime.storage import AnyArray, clear_tail, element_count, find_invalid
from openinfer.runtime.tensors import Tensor

_VERSION = "1"
_KEY = "openinfer.state"
_HEADER_LIMIT = 100_000_000
_EMPTY_LIMIT = 1 << 20
"""Most entries without bytes: only these take memory that the file does not pay for."""

Index = tuple[int, ...]


def save_state(state: State, path: str | os.PathLike[str]) -> None:
    """Writes a snapshot, replacing `path` only when all is written. Raises ArtefactError OI0811."""
    target = _path(path)
    try:
        write_file(target, _chunks(state), durable=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArtefactError(
            "OI0811",
            f"{target}: cannot be written: {reason}",
            hint="check that the folder exists and has room",
        ) from None


def load_state(path: str | os.PathLike[str]) -> State:
    """Reads a snapshot into memory of its own. Raises ArtefactError OI0811, naming what is wrong."""
    place = _path(path)
    try:
        file = MappedFile(place)
    except OpenInferError as error:
        raise ArtefactError("OI0811", error.message, hint=error.hint) from None
    try:
        return _read(file)
    except _Damaged as error:
        raise ArtefactError(
            "OI0811",
            f"{place}: no usable snapshot: {error}",
            hint="take it anew with executor.snapshot().save(path)",
        ) from None
    except PackageError as error:
        raise ArtefactError("OI0811", error.message, hint="read it anew") from None
    except MemoryError as error:
        raise ArtefactError(
            "OI0812",
            f"{place}: not enough memory for the snapshot of {file.size} bytes",
            hint="free some memory",
        ) from error
    finally:
        file.close()


def _path(path: object) -> Path:
    if isinstance(path, str | os.PathLike):
        return Path(cast("str | os.PathLike[str]", path))
    raise ArtefactError(
        "OI0811", f"a {type(path).__name__} is no path of a snapshot", hint="give a path"
    )


class _Damaged(Exception):
    """What contradicts the layout."""


# Writing


def _chunks(state: State) -> Iterator[bytes]:
    rows: dict[str, Any] = {}
    header: dict[str, Any] = {}
    ordered: list[list[Tensor]] = []
    offset = 0
    for name in sorted(state):
        value = state[name]
        items = sorted(value.entries.items())
        rows[name] = {
            "dtype": value.dtype.name,
            "extents": list(value.extents),
            "present": _runs([_position(index, value.extents) for index, _ in items]),
            "shapes": _shapes([tensor.shape for _, tensor in items]),
        }
        ordered.append([tensor for _, tensor in items])
        end = offset + value.nbytes
        header[f"{name}.bytes"] = {
            "dtype": "U8",
            "shape": [end - offset],
            "data_offsets": [offset, end],
        }
        offset = end
    described = json.dumps(rows, sort_keys=True, separators=(",", ":"))
    header["__metadata__"] = {_KEY: _VERSION, "variables": described}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for tensors in ordered:
        for tensor in tensors:
            yield np.ascontiguousarray(tensor.storage).tobytes()


def _position(index: Index, extents: Index) -> int:
    place = 0
    for i, extent in zip(index, extents):
        place = place * extent + i
    return place


def _index(position: int, extents: Index) -> Index:
    found: list[int] = []
    for extent in reversed(extents):
        position, i = divmod(position, extent)
        found.append(i)
    return tuple(reversed(found))


def _runs(positions: list[int]) -> list[list[int]]:
    """Sorted positions as half-open runs."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and runs[-1][1] == position:
            runs[-1][1] += 1
        else:
            runs.append([position, position + 1])
    return runs


def _shapes(shapes: list[Index]) -> list[list[int]]:
    one = shapes[:1] if len(set(shapes)) <= 1 else shapes
    return [list(shape) for shape in one]


# Reading


def _read(file: MappedFile) -> State:
    header, start = _header(file)
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or _KEY not in metadata:
        raise _Damaged("it is none: the metadata does not name it")
    texts = cast(dict[str, Any], metadata)
    if texts[_KEY] != _VERSION:
        raise _Damaged(f"it has version {texts[_KEY]!r:.40}, this build reads {_VERSION}")
    rows = _object(texts.get("variables"), "the list of variables")
    if {f"{name}.bytes" for name in rows} != header.keys():
        raise _Damaged("the variables are not those of the tensors")
    _check_cover(header, file.size - start)
    values: dict[str, StateValue] = {}
    for name, row in rows.items():
        begin, end = header[f"{name}.bytes"]["data_offsets"]
        data = np.frombuffer(file.bytes(start + begin, end - begin), np.uint8)
        values[name] = _value(f"variable {name!r}", row, data)
    return State(values)


def _header(file: MappedFile) -> tuple[dict[str, Any], int]:
    """The header's object and the offset where data starts."""
    length = int.from_bytes(file.bytes(0, 8), "little") if file.size >= 8 else -1
    if not 0 <= length <= min(_HEADER_LIMIT, file.size - 8):
        raise _Damaged("its header does not fit into the file")
    try:
        text = file.bytes(8, length).decode("utf-8")
    except UnicodeDecodeError:
        raise _Damaged("its header is no text") from None
    return _object(text, "its header"), 8 + length


def _object(text: object, what: str) -> dict[str, Any]:
    """A JSON object that has no key twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise ValueError("a key occurs twice")
        return result

    try:
        found: Any = json.loads(text, object_pairs_hook=unique) if isinstance(text, str) else None
    except (ValueError, RecursionError) as error:
        raise _Damaged(f"{what} is no JSON: {error!s:.80}") from None
    if not isinstance(found, dict):
        raise _Damaged(f"{what} is no JSON object")
    return cast(dict[str, Any], found)


def _check_cover(header: dict[str, Any], room: int) -> None:
    """The tensors must follow each other without holes, from the first byte to the last."""
    spans: list[list[int]] = []
    for name, entry in header.items():
        fields = cast(dict[str, Any], entry) if isinstance(entry, dict) else {}
        span = _integers(fields.get("data_offsets"))
        shape = _integers(fields.get("shape"))
        if fields.get("dtype") != "U8" or span is None or len(span) != 2 or span[1] < span[0]:
            raise _Damaged(f"tensor {name!r} is not raw bytes")
        if shape != [span[1] - span[0]]:
            raise _Damaged(f"tensor {name!r} has another shape than length")
        spans.append(span)
    spans.sort()
    ends = [0, *(span[1] for span in spans)]
    if any(span[0] != end for span, end in zip(spans, ends)) or ends[-1] != room:
        raise _Damaged(f"the tensors do not fill the {room} bytes of the file")


def _value(what: str, row: Any, data: AnyArray) -> StateValue:
    fields = cast(dict[str, Any], row) if isinstance(row, dict) else {}
    name = fields.get("dtype")
    if not isinstance(name, str) or name not in DTYPES:
        raise _Damaged(f"{what} has an unknown dtype")
    dtype = DTYPES[name]
    extents = _integers(fields.get("extents"))
    if extents is None or len(extents) > 64:
        raise _Damaged(f"{what} has no usable extents")
    runs = _checked_runs(what, fields.get("present"), element_count(extents))
    count = sum(stop - start for start, stop in runs)
    shapes = _checked_shapes(what, fields.get("shapes"), dtype, count)
    lengths = [dtype.nbytes(element_count(shape)) for shape in shapes]
    wanted = lengths[0] * count if len(shapes) == 1 else sum(lengths)
    if wanted != data.size:
        raise _Damaged(f"{what} takes {wanted} bytes, the file has {data.size}")
    if count > data.size + _EMPTY_LIMIT:
        raise _Damaged(f"{what} has {count} entries without bytes")
    if len(shapes) == 1:
        shapes, lengths = shapes * count, lengths * count
    return StateValue(dtype, tuple(extents), _entries(what, dtype, extents, runs, shapes, data))


def _entries(
    what: str,
    dtype: DType,
    extents: list[int],
    runs: list[list[int]],
    shapes: list[Index],
    data: AnyArray,
) -> dict[Index, Tensor]:
    found: dict[Index, Tensor] = {}
    offset = 0
    positions = (position for start, stop in runs for position in range(start, stop))
    for position, shape in zip(positions, shapes, strict=True):
        count = element_count(shape)
        part = data[offset : offset + dtype.nbytes(count)].copy()
        offset += part.size
        storage = part.view(dtype.storage).reshape(part.size if dtype.packed else shape)
        problem = find_invalid(dtype, part.view(np.uint8), count)
        if problem:
            raise _Damaged(f"{what}: {problem}")
        storage = clear_tail(dtype, storage, count)
        found[_index(position, tuple(extents))] = Tensor(dtype, shape, storage)
    return found


def _checked_runs(what: str, value: Any, room: int) -> list[list[int]]:
    items = cast(list[Any], value) if isinstance(value, list) else [None]
    runs = [run for item in items if (run := _integers(item)) is not None and len(run) == 2]
    flat = [bound for run in runs for bound in run]
    rising = all(a < b for a, b in pairwise(flat))
    if len(runs) != len(items) or not rising or (flat and flat[-1] > room):
        raise _Damaged(f"{what} has entries outside of its extents")
    return runs


def _checked_shapes(what: str, value: Any, dtype: DType, count: int) -> list[Index]:
    items = cast(list[Any], value) if isinstance(value, list) else [None]
    shapes = [tuple(shape) for item in items if (shape := _integers(item)) is not None]
    if len(shapes) != len(items) or len(shapes) not in ({0} if count == 0 else {1, count}):
        raise _Damaged(f"{what} has no shape for each entry")
    for shape in shapes:
        if problem := check_shape(shape, dtype.bits):
            raise _Damaged(f"{what}: {problem}")
    return shapes


def _integers(value: Any) -> list[int] | None:
    """A JSON list of integers in 0..2**63-1, None when it is something else."""
    if not isinstance(value, list):
        return None
    numbers = cast(list[Any], value)
    if all(type(n) is int and 0 <= n <= MAX_EXTENT for n in numbers):
        return numbers
    return None
