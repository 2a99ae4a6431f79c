"""Element types of `nn` tensors: from the dtype table to IR types and back."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    bf16,
    f16,
    f32,
    f64,
    i1,
)
from xdsl.ir import Attribute

from openinfer.runtime.dtypes import DTYPES

_FLOATS: dict[str, Attribute] = {"f64": f64, "f32": f32, "f16": f16, "bf16": bf16}


def element_type(dtype: str) -> Attribute | None:
    """The IR type of a dtype, or None when compiled code has none for it.

    bool is `i1`, signed integers are signless, unsigned ones `uiN`.
    """
    if dtype in _FLOATS:
        return _FLOATS[dtype]
    if dtype == "bool":
        return i1
    row = DTYPES[dtype]
    if not row.is_integer or row.packed:
        return None
    return IntegerType(row.bits, Signedness.UNSIGNED if row.kind == "uint" else Signedness.SIGNLESS)


def dtype_name(element: Attribute) -> str:
    """The dtype of an element type made by `element_type`."""
    match element:
        case Float64Type():
            return "f64"
        case Float32Type():
            return "f32"
        case Float16Type():
            return "f16"
        case BFloat16Type():
            return "bf16"
        case IntegerType():
            if element == i1:
                return "bool"
            unsigned = element.signedness.data is Signedness.UNSIGNED
            return f"{'u' if unsigned else 'i'}{element.width.data}"
        case _:
            raise TypeError(f"{element} is no element type of a tensor")


def memory_type(element: Attribute) -> Attribute:
    """What an element is in memory and in arithmetic: bool takes a byte, signs are in the ops."""
    if element == i1:
        return IntegerType(8)
    if isinstance(element, IntegerType):
        return IntegerType(element.width.data)
    return element
