"""Encodes single sizes, metadata values and tensors for the `.oinf` writer.

Every function takes the entry's name for its errors: PackageError for a value that the format
cannot hold, UnsupportedError for a dtype without an `.oinf` id.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from openinfer.runtime.dtypes import DTYPES, DType
from openinfer.runtime.dtypes import dtype as find_dtype
from openinfer.runtime.errors import InputError, PackageError, UnsupportedError
from openinfer.runtime.packages.base import MAX_EXTENT, check_shape
from openinfer.runtime.packages.mapped import align
from openinfer.runtime.packages.oinf_format import (
    MODES,
    QUANT,
    SCHEMES,
    TYPE_ARRAY,
    TYPE_BITSET,
    TYPE_STRING,
)
from openinfer.runtime.packages.values import (
    Bitset,
    MetadataValue,
    QuantParams,
    ScalarValue,
    TensorSpec,
    UninitializedTensor,
)
from openinfer.runtime.storage import clear_tail, converted, storage_dtype
from openinfer.runtime.tensors import Tensor, dtype_of, is_array, taken

_KEY = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Blob:
    """A payload: its exact length, and its bytes, or what makes them when they are written."""

    nbytes: int
    data: Any

    def content(self) -> Any:
        """The bytes, as something with the buffer protocol."""
        return self.data() if callable(self.data) else self.data


@dataclass(frozen=True)
class Entry:
    """A tensor entry; `data` and `quant` are None when the tensor has none."""

    dtype: DType
    shape: tuple[int, ...]
    data: Blob | None
    quant: Blob | None


def string(text: str) -> bytes:
    """Length, UTF-8 bytes, zero padding to a multiple of 8."""
    data = text.encode("utf-8")
    return (struct.pack("<I", len(data)) + data).ljust(align(4 + len(data)), b"\0")


def check_key(name: str) -> None:
    """Raise PackageError unless the format allows `name`."""
    if not _KEY.fullmatch(name):
        raise _bad(name, "a name consists of letters, digits, '.', '_' and '-'")


def _bad(name: str, message: str, hint: str | None = None) -> PackageError:
    return PackageError(
        "OI0412",
        f"entry {name!r} cannot be part of a package: {message}",
        hint=hint or "change the entry's value",
    )


def size(name: str, value: Any) -> int:
    """A size as Python integer in 0..2**63 - 1."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise _bad(name, f"a size is an integer, found {type(value).__name__}")
    if not 0 <= int(value) <= MAX_EXTENT:
        raise _bad(name, f"a size lies in 0..2**63 - 1, found {value}")
    return int(value)


def _row(name: str, dtype: DType | str) -> DType:
    if isinstance(dtype, DType):
        return dtype
    try:
        return find_dtype(dtype)
    except KeyError:
        raise _bad(name, f"there is no dtype {dtype!r}; known: {', '.join(DTYPES)}") from None


def _written_dtype(name: str, dtype: DType) -> DType:
    if dtype.oinf_id is None:
        hint = "convert it to f8 or bf16 first"
        if dtype.block is not None:
            hint = "unpack it: `openinfer pack --dtype f16`"
        raise UnsupportedError(
            "OI0743", f"entry {name!r}: dtype {dtype} has no id in the .oinf format", hint=hint
        )
    return dtype


def tensor_blob(tensor: Tensor) -> Blob:
    """The stored bytes of a tensor, unused bits of packed ones zero; not copied where possible."""
    clean = clear_tail(tensor.dtype, tensor.storage, tensor.size)
    stored = np.asarray(clean, dtype=storage_dtype(tensor.dtype), order="C")
    flat = stored.reshape(-1).view(np.uint8)
    return Blob(flat.nbytes, flat.data if flat.size else b"")


def _as_tensor(name: str, data: Any, dtype: DType | str | None) -> Tensor:
    """Array-like data as a tensor; without `dtype` a list takes NumPy's type for it."""
    try:
        if dtype is None:
            if isinstance(data, Tensor):
                return data
            return taken(data if is_array(data) else np.asarray(data), name=f"entry {name!r}")
        row = _row(name, dtype)
        if is_array(data) and not isinstance(data, np.ndarray):
            data = taken(data, name=f"entry {name!r}")
        if isinstance(data, Tensor):
            if data.dtype == row:
                return data
            data = data.values()
        elif dtype_of(data) == row and row.value != row.storage:
            # A type that NumPy has from elsewhere: its values, then rounded back exactly.
            data = np.asarray(data, dtype=row.value)
        return Tensor.from_values(row, data, name=f"entry {name!r}")
    except InputError as error:
        raise _bad(name, error.message, error.hint) from None
    except ValueError as error:
        raise _bad(name, str(error)) from None


@dataclass(frozen=True)
class Described:
    """A tensor of a package: what it is, and its values unless it is declared without data."""

    dtype: DType
    shape: tuple[int, ...]
    tensor: Tensor | None
    quant: QuantParams | None


def described(name: str, value: Any) -> Described:
    """What a `TensorSpec`, `UninitializedTensor`, `Tensor`, array or list says, checked."""
    if isinstance(value, UninitializedTensor):
        row, tensor = _row(name, value.dtype), None
        shape = tuple(int(extent) for extent in value.shape)
        if any(extent < 0 for extent in shape) or check_shape(shape, row.bits):
            raise _bad(name, f"{list(shape)} is no shape")
    else:
        value = value if isinstance(value, TensorSpec) else TensorSpec(value)
        tensor = _as_tensor(name, value.data, value.dtype)
        row, shape = tensor.dtype, tensor.shape
    problem = value.quant.problem(shape) if value.quant is not None else None
    if problem:
        raise _bad(name, problem)
    return Described(row, shape, tensor, value.quant)


def tensor_entry(name: str, value: Any, floats: DType | None = None) -> Entry:
    """The entry for a `TensorSpec`, `UninitializedTensor`, `Tensor`, array or list.

    `floats` is what float values are rounded to when they are written; a quantised tensor stays.
    """
    found = described(name, value)
    row = found.dtype
    if floats is not None and (row.is_float or row.block is not None) and found.quant is None:
        row = floats
    data = None
    if found.tensor is not None:
        stored = found.tensor
        data = tensor_blob(stored) if row == stored.dtype else _rounded_blob(stored, row)
    quant = quant_blob(name, found.quant, found.shape)
    return Entry(_written_dtype(name, row), found.shape, data, quant)


def _rounded_blob(tensor: Tensor, dtype: DType) -> Blob:
    """The bytes of a tensor in another float dtype, made when they are asked for."""

    def data() -> Any:
        stored = converted(tensor.dtype, tensor.storage, tensor.shape, dtype)
        return tensor_blob(Tensor(dtype, tensor.shape, stored)).data

    return Blob(dtype.nbytes(tensor.size), data)


def quant_blob(name: str, quant: QuantParams | None, shape: tuple[int, ...]) -> Blob | None:
    """The quantisation record of a tensor, None when it has none."""
    if quant is None:
        return None
    problem = quant.problem(shape)
    if problem:
        raise _bad(name, problem)
    ids = {text: number for number, text in SCHEMES.items()}
    modes = {text: number for number, text in MODES.items()}
    zero = quant.zero_point
    data = struct.pack(
        QUANT,
        ids[quant.scheme],
        modes[quant.scale.mode],
        modes[zero.mode] if zero else 0,
        0,
        quant.scale.axis,
        quant.scale.values.size,
        zero.axis if zero else 0,
        zero.values.size if zero else 0,
    )
    data += quant.scale.values.astype("<f4").tobytes()
    data += zero.values.astype("<i4").tobytes() if zero else b""
    return _padded(data)


def _padded(data: bytes) -> Blob:
    """A payload whose recorded length includes its padding."""
    data = data.ljust(align(len(data)), b"\0")
    return Blob(len(data), data)


def metadata_value(name: str, value: Any) -> MetadataValue:
    """A metadata value as readers give it, whatever a caller wrote for it."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise _bad(name, str(error)) from None
        return value
    if isinstance(value, Bitset):
        return value
    if isinstance(value, list | tuple | np.ndarray | Tensor | TensorSpec):
        return _metadata_array(name, value)
    return _scalar(name, value if isinstance(value, ScalarValue) else ScalarValue(value))


def metadata_entry(name: str, value: Any) -> tuple[int, Blob]:
    """Type id and payload of a metadata value."""
    found = metadata_value(name, value)
    if isinstance(found, str):
        return TYPE_STRING, _padded(string(found))
    if isinstance(found, Bitset):
        data = found.to_bytes()
        return TYPE_BITSET, _padded(struct.pack("<2I", len(found), len(data)) + data)
    if isinstance(found, Tensor):
        row = _written_dtype(name, found.dtype)
        rank = len(found.shape)
        head = struct.pack(f"<2I{rank}Q", row.oinf_id, rank, *found.shape)
        return TYPE_ARRAY, _padded(head + bytes(tensor_blob(found).data))
    tensor = _as_tensor(name, found.value, found.dtype)
    row = _written_dtype(name, tensor.dtype)
    assert row.oinf_id is not None
    if row.oinf_id == TYPE_BITSET:
        raise _bad(name, "a metadata number has no dtype bitset; use u8 or Bitset")
    return row.oinf_id, tensor_blob(tensor)


def _scalar(name: str, scalar: ScalarValue) -> ScalarValue:
    """A number or bool with its dtype, rounded to it."""
    value: Any = scalar.value
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, bool | int | float):
        raise _bad(
            name,
            f"no metadata value can be made of {type(value).__name__}",
            "for a tensor give a NumPy array, as np.asarray(value) makes one, or an object with "
            "DLPack; for metadata a number, a bool, a text, or a list of numbers",
        )
    dtype = scalar.dtype
    if dtype is None:
        if isinstance(value, bool):
            dtype = "bool"
        else:
            dtype = "f32" if isinstance(value, float) else _smallest(name, value, value, value >= 0)
    tensor = _as_tensor(name, value, dtype)
    return ScalarValue(tensor.values().item(), tensor.dtype)


def _metadata_array(name: str, value: Any) -> Tensor:
    if isinstance(value, TensorSpec):
        return _as_tensor(name, value.data, value.dtype)
    if isinstance(value, list | tuple):
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise _bad(name, str(error)) from None
        if array.dtype.kind == "f":
            return _as_tensor(name, array, "f32")
        if array.dtype.kind in "iu" and array.size:
            low, high = int(array.min()), int(array.max())
            return _as_tensor(name, array, _smallest(name, low, high, array.dtype.kind == "u"))
        if array.dtype.kind in "iu":
            return _as_tensor(name, array, "i8")
        return _as_tensor(name, array, None)
    return _as_tensor(name, value, None)


def _smallest(name: str, low: int, high: int, unsigned: bool) -> str:
    """The smallest integer dtype of that signedness for values in low..high."""
    for bits in (8, 16, 32, 64):
        if unsigned and high < 1 << bits:
            return f"u{bits}"
        if not unsigned and -(1 << (bits - 1)) <= low and high < 1 << (bits - 1):
            return f"i{bits}"
    raise _bad(name, f"{high if unsigned else low} needs more than 64 bits")
