"""Parts of ONNX messages as Python values; what contradicts itself is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.compiler.importers.onnx.items import Array, numpy_dtype
from openinfer.compiler.importers.onnx.refusals import DAMAGED, LIMIT, TYPE, Refusal

if TYPE_CHECKING:
    from onnx import AttributeProto, TensorProto

    from openinfer.runtime.tensors import Tensor

_ELEMENTS = {
    "FLOAT": "f32",
    "UINT8": "u8",
    "INT8": "i8",
    "UINT16": "u16",
    "INT16": "i16",
    "INT32": "i32",
    "INT64": "i64",
    "BOOL": "bool",
    "FLOAT16": "f16",
    "DOUBLE": "f64",
    "UINT32": "u32",
    "UINT64": "u64",
    "BFLOAT16": "bf16",
    "FLOAT8E4M3FN": "f8e4m3",
    "FLOAT8E5M2": "f8",
    "UINT4": "u4",
    "INT4": "i4",
    "UINT2": "u2",
    "INT2": "i2",
}


def element_dtype(number: int, what: str) -> str:
    """Our name of an element type of ONNX. Raises Refusal for one that we lack."""
    from onnx import TensorProto

    try:
        name = TensorProto.DataType.Name(number)  # pyright: ignore[reportArgumentType]
    except ValueError:
        raise Refusal(DAMAGED, f"{what} has the unknown element type {number}") from None
    if name not in _ELEMENTS:
        raise Refusal(TYPE, f"{what} has elements of type {name}, which openinfer lacks")
    return _ELEMENTS[name]


def array_of(tensor: Tensor) -> Array:
    """The elements of a tensor of a file in the dtype that NumPy, or ml_dtypes, has for them."""
    values = np.asarray(tensor.values())
    dtype = numpy_dtype(tensor.dtype.name)
    return values if values.dtype == dtype else values.astype(dtype)


def attribute_value(proto: AttributeProto, array: Callable[[TensorProto], Array]) -> Any:
    """An attribute: int, float, bytes, array, GraphProto, or a list of them. Raises Refusal."""
    from onnx import AttributeProto as Kind

    match proto.type:
        case Kind.INT:
            return proto.i
        case Kind.FLOAT:
            return proto.f
        case Kind.STRING:
            return proto.s
        case Kind.TENSOR:
            return array(proto.t)
        case Kind.INTS:
            return list(proto.ints)
        case Kind.FLOATS:
            return list(proto.floats)
        case Kind.STRINGS:
            return list(proto.strings)
        case Kind.GRAPH:
            return proto.g
        case _:
            raise Refusal(
                LIMIT if proto.type == Kind.GRAPHS else TYPE,
                f"attribute {proto.name} has a type that is not supported",
            )
