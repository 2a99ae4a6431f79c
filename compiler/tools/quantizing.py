"""Weights of a `.gguf` model in a block format: which of them, into what, and their bytes.

The bytes are those that the `gguf` package makes, which are ggml's own; `q4_k` and `q6_k`, which it lacks,
are those of `k_quants.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np

from openinfer.compiler.tools.extras import missing_library
from openinfer.compiler.tools.k_quants import q4_k, q6_k
from openinfer.runtime.dtypes import BLOCK_DTYPES, DTYPES, DType
from openinfer.runtime.errors import PackageError, UnsupportedError
from openinfer.runtime.files import write_file
from openinfer.runtime.packages.base import TensorInfo
from openinfer.runtime.packages.gguf import GgufPackage
from openinfer.runtime.packages.gguf_writer import NewTensor, Piece, rewritten
from openinfer.runtime.storage import AnyArray, element_count, to_storage, to_values

_OWN = {"q4_k": q4_k, "q6_k": q6_k}
TYPES = ("q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "mxfp4", *_OWN)
"""The formats that can be written."""
_FILE_TYPES = {
    "q4_0": 2,
    "q4_1": 3,
    "q8_0": 7,
    "q5_0": 8,
    "q5_1": 9,
    "mxfp4": 38,
    "q4_k": 14,
    "q6_k": 18,
}
"""What `general.file_type` calls a file whose weights are mostly of a format."""
_SOURCES = ("f32", "f16", "bf16")
_KEPT = ("_norm.weight", "ffn_gate_inp.weight", "position_embd.weight", "token_types.weight")
"""How names of matrices end that stay as they are: what they hold is little and matters much."""
_PIECE = 1 << 22
"""About so many values are quantised at once."""
_LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class Outcome:
    """What becomes of a tensor, and why, where it is not what was asked for."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    before: int
    """Bytes of it in the source."""
    reason: str | None = None

    @property
    def after(self) -> int:
        return self.dtype.nbytes(element_count(self.shape))


def quantize(package: GgufPackage, path: Path, kind: str) -> list[Outcome]:
    """Writes the model to `path` with its matrices in block format `kind`, all of it or nothing.

    What becomes of each tensor, in the order of the source. Raises UnsupportedError OI0734 without the
    package `gguf`, OI0744 for a matrix in a block format, and for values that are not finite or beyond
    f16, PackageError OI0401 for a path that cannot be written.
    """
    try:
        import gguf
    except ImportError:
        raise missing_library("gguf", "llm") from None
    infos = [info for part in package.parts for info in part.tensors.values()]
    outcomes = [_outcome(info, BLOCK_DTYPES[kind]) for info in infos]
    tensors = [
        NewTensor(one.name, one.dtype, one.shape, partial(_data, gguf, package, one))
        for one in outcomes
    ]
    numbers = {"general.quantization_version": 2, "general.file_type": _FILE_TYPES[kind]}
    try:
        write_file(path, rewritten(package, numbers, tensors))
    except (OSError, ValueError) as error:
        raise PackageError(
            "OI0401",
            f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}",
            hint="check that the folder exists and has room",
        ) from None
    return outcomes


def _outcome(info: TensorInfo, wanted: DType) -> Outcome:
    """What becomes of a tensor. Raises UnsupportedError for one that no number can be read from."""
    same = Outcome(info.name, info.dtype, info.shape, info.nbytes)
    if len(info.shape) < 2 or not info.name.endswith(".weight") or info.name.endswith(_KEPT):
        return same
    if info.dtype.name not in _SOURCES:
        raise UnsupportedError(
            "OI0744",
            f"tensor {info.name!r} is {info.dtype}, weights are quantised from F32, F16 or BF16",
            hint="take the file of the model in full precision: what was rounded before loses more",
        )
    row = info.shape[-1]
    for dtype in (wanted, BLOCK_DTYPES["q8_0"], DTYPES["f16"]):
        if dtype.block is None or row % dtype.block.elements == 0:
            break
    reason = None
    if dtype != wanted:
        assert wanted.block is not None
        reason = f"its rows have {row} values, no multiple of {wanted.block.elements}"
    return Outcome(info.name, dtype, info.shape, info.nbytes, reason)


def _data(library: ModuleType, package: GgufPackage, one: Outcome) -> Iterator[Piece]:
    """The bytes of a tensor in its new type, some rows at a time."""
    source = package.info(one.name).dtype
    stored = package.read(one.name)
    if source == one.dtype:
        yield _bytes(stored)
        return
    width = one.shape[-1]
    rows = stored.reshape(-1, width)
    step = max(_PIECE // width, 1)
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        values = np.asarray(to_values(source, some, some.shape), np.float32)
        _check(one.name, values)
        if one.dtype.block is None:
            yield _bytes(to_storage(one.dtype, values))
        elif one.dtype.name in _OWN:
            yield _bytes(_OWN[one.dtype.name](values))
        else:
            kind = library.GGMLQuantizationType(one.dtype.block.gguf_id)
            yield _bytes(library.quantize(values, kind))


def _check(name: str, values: AnyArray) -> None:
    with np.errstate(invalid="ignore"):
        largest = float(np.abs(values).max())
    if not largest <= _LARGEST:
        raise UnsupportedError(
            "OI0744",
            f"tensor {name!r} holds {largest}: a scale in f16 reaches {_LARGEST:.0f}",
            hint="the model is damaged, or its training went wrong",
        )


def _bytes(array: AnyArray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def summary(outcomes: Iterable[Outcome]) -> dict[str, tuple[int, int]]:
    """Number of tensors and bytes of each dtype."""
    found: dict[str, tuple[int, int]] = {}
    for one in outcomes:
        count, nbytes = found.get(one.dtype.name, (0, 0))
        found[one.dtype.name] = count + 1, nbytes + one.after
    return found
