"""A tensor of an ONNX file, checked before anything is allocated for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from openinfer.compiler.importers.onnx.element_types import ELEMENT_TYPES, FOREIGN
from openinfer.compiler.importers.onnx.external_data import ExternalData
from openinfer.runtime.dtypes import DType
from openinfer.runtime.dtypes import dtype as find_dtype
from openinfer.runtime.errors import PackageError, UnsupportedError
from openinfer.runtime.packages.base import MAX_EXTENT
from openinfer.runtime.storage import (
    AnyArray,
    element_count,
    find_invalid,
    storage_dtype,
    stored_shape,
)
from openinfer.runtime.tensors import Tensor

_EXTERNAL = 1
_TYPED = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_HOLDS = {
    "float_data": {"f32"},
    "int32_data": {
        *("i32", "i16", "i8", "i4", "i2", "u16", "u8", "u4", "u2"),
        *("bool", "f16", "bf16", "f8", "f8e4m3"),
    },
    "int64_data": {"i64"},
    "double_data": {"f64"},
    "uint64_data": {"u32", "u64"},
}
_HINT = "write the model again"


def check_tensor(tensor: Any, where: str, outside: int | None = None) -> None:
    """Whether dimensions, dtype and data of a TensorProto go together; `outside` is the length of its data
    where that was left in the file.

    Raises PackageError OI1553, UnsupportedError OI1557. What external data says is looked at when it is read.
    """
    if tensor.data_type in FOREIGN:
        return
    row = row_of(tensor, where)
    shape = _shape(tensor, where)
    count = element_count(shape)
    filled = [field for field in _TYPED if len(getattr(tensor, field))]
    raw = len(tensor.raw_data) if outside is None else outside
    if tensor.data_location == _EXTERNAL:
        if filled or raw:
            raise _bad(where, "its data lies outside of the file and in it")
        return
    if len(filled) + bool(raw) > 1:
        raise _bad(where, f"it has data in {', '.join([*filled, *['raw_data'] * bool(raw)])}")
    if tensor.HasField("segment"):
        raise _bad(where, "it is a segment of a tensor, which nothing ever wrote")
    if not filled:
        if raw != row.nbytes(count):
            raise _bad(where, f"{_shown(row, shape)} takes {row.nbytes(count)} bytes, it has {raw}")
        return
    (field,) = filled
    if row.name not in _HOLDS.get(field, ()):
        raise _bad(where, f"{field} holds no values of {row}")
    entries, wanted = len(getattr(tensor, field)), row.nbytes(count) if row.packed else count
    if entries != wanted:
        raise _bad(
            where, f"{_shown(row, shape)} takes {wanted} entries of {field}, it has {entries}"
        )


def read_tensor(
    tensor: Any, where: str, external: ExternalData, inside: AnyArray | None = None
) -> Tensor:
    """The values of a tensor that `check_tensor` has let pass: a view where they lie aligned in a file.

    `inside` are its bytes where they were left in the model's file. Raises PackageError OI1553, OI1554;
    UnsupportedError OI1557 for a dtype that we lack.
    """
    if tensor.data_type in FOREIGN:
        raise UnsupportedError(
            "OI1557",
            f"{where}: its values are {FOREIGN[tensor.data_type]}",
            hint=f"dtypes of openinfer are {', '.join(sorted(ELEMENT_TYPES.values()))}",
        )
    row = row_of(tensor, where)
    shape = _shape(tensor, where)
    count = element_count(shape)
    element = storage_dtype(row)
    if tensor.data_location == _EXTERNAL:
        flat = external.bytes(tensor.external_data, row.nbytes(count), where).view()
    elif inside is not None:
        flat = inside
    else:
        filled = next((field for field in _TYPED if len(getattr(tensor, field))), None)
        if filled is None:
            flat = np.frombuffer(tensor.raw_data, np.uint8)
        else:
            flat = _from_field(getattr(tensor, filled), row, where)
    stored = flat.view(element).reshape(stored_shape(row, shape))
    problem = find_invalid(row, stored, count)
    if problem:
        raise _bad(where, problem)
    if not stored.flags.aligned or not element.isnative:
        stored = stored.astype(element.newbyteorder("="))
    stored.flags.writeable = False
    return Tensor(row, shape, stored)


def row_of(tensor: Any, where: str) -> DType:
    """The dtype of a TensorProto. Raises PackageError OI1553."""
    name = ELEMENT_TYPES.get(tensor.data_type)
    if name is None:
        raise _bad(where, f"there is no element type {tensor.data_type}")
    return find_dtype(name)


def _shape(tensor: Any, where: str) -> tuple[int, ...]:
    shape = tuple(tensor.dims)
    if any(dim < 0 for dim in shape):
        raise _bad(where, f"its dimensions are {list(shape[:8])}, one is negative")
    product = 1
    for dim in shape:
        product *= max(dim, 1)
        if product > MAX_EXTENT // 8:
            raise _bad(
                where, f"its dimensions are {list(shape[:8])}: more bytes than 64 bits count"
            )
    return shape


def _from_field(values: Any, row: DType, where: str) -> AnyArray:
    """The bytes of values that are entries of a list."""
    found = np.array(values)
    if row.is_float and found.dtype.kind == "f":
        return found.astype(storage_dtype(row)).view(np.uint8)
    bits = storage_dtype(row)
    if row.is_float or row.name == "bool":
        bits = np.dtype(f"<u{bits.itemsize}")
    limits = np.iinfo(bits)
    if found.size and not limits.min <= int(found.min()) <= int(found.max()) <= limits.max:
        raise _bad(where, f"an entry is no {row}: {int(found.min())} to {int(found.max())}")
    return found.astype(bits).view(np.uint8)


def _shown(row: DType, shape: tuple[int, ...]) -> str:
    return f"{row}{list(shape)}"


def _bad(where: str, message: str) -> PackageError:
    return PackageError("OI1553", f"{where}: {message}", hint=_HINT)
