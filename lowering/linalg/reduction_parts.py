"""What reductions are made of: what they add up in, what they start from, how two parts are joined."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, f32, i1
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import dtype_name, is_packed
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.linalg.scalar_bodies import emit_body
from openinfer.runtime.sizes import Size


def element_count(
    b: LoopBuilder, count: Size, size_op: nn.SizeOp, element: Attribute, least: int
) -> SSAValue:
    """A number of elements, but not below `least`, in the type of what it divides."""
    if count.constant is not None:
        return b.constant(max(count.constant, least), element)
    number: SSAValue = size_op.value
    if least:
        number = b.insert(arith.MaxSIOp(number, b.index(least)))
    if isinstance(element, AnyFloat):
        wide = b.insert(arith.IndexCastOp(number, IntegerType(64)))
        return b.insert(arith.SIToFPOp(wide, element))
    return b.insert(arith.IndexCastOp(number, element))


def dtype_of(element: Attribute) -> str:
    """The dtype of a memory type; truth values are bytes."""
    return "i8" if element == i1 else dtype_name(element)


def emit_cast(b: LoopBuilder, value: SSAValue, dtype: str, element: Attribute) -> SSAValue:
    """An element of `dtype` in another memory type, as `op cast` does it."""
    if value.type == element:
        return value
    return emit_body(b, "cast", {}, [value], [dtype], dtype_of(element))


def accumulator(kind: str, source: Attribute, result: Attribute) -> Attribute:
    """f32 for floats narrower than it, else the wider float; for integers what the result is.

    The integers of a mean come in what they are to be summed in; packed ones are joined in 32 bits.
    """
    if isinstance(source, AnyFloat):
        wide = [t for t in (source, result) if isinstance(t, AnyFloat)]
        best = max(wide, key=lambda t: t.bitwidth)
        return best if best.bitwidth >= 32 else f32
    own = source if kind == "mean" else result
    return IntegerType(32) if is_packed(own) else own


def neutral(kind: str, element: Attribute, unsigned: bool) -> Attribute:
    """What a reduction starts from."""
    if isinstance(element, AnyFloat):
        number = {"prod": 1.0, "max": -math.inf, "min": math.inf}.get(kind, 0.0)
        return FloatAttr(number, 64)
    assert isinstance(element, IntegerType)
    bits = element.width.data
    largest = (1 << bits) - 1 if unsigned else (1 << (bits - 1)) - 1
    smallest = 0 if unsigned else -(1 << (bits - 1))
    number = {"prod": 1, "max": smallest, "min": largest}.get(kind, 0)
    if number >= 1 << 63:
        number -= 1 << 64
    return IntegerAttr(number, IntegerType(64))


Combine = Callable[[SSAValue, SSAValue], Operation]

_COMBINE_FLOATS: dict[str, Combine] = {
    "sum": arith.AddfOp,
    "mean": arith.AddfOp,
    "prod": arith.MulfOp,
    "max": arith.MaximumfOp,
    "min": arith.MinimumfOp,
}
_COMBINE_SIGNED: dict[str, Combine] = {
    "sum": arith.AddiOp,
    "mean": arith.AddiOp,
    "prod": arith.MuliOp,
    "max": arith.MaxSIOp,
    "min": arith.MinSIOp,
}
_COMBINE_UNSIGNED: dict[str, Combine] = {
    **_COMBINE_SIGNED,
    "max": arith.MaxUIOp,
    "min": arith.MinUIOp,
}


def combiner(kind: str, element: Attribute, unsigned: bool) -> Combine:
    """The op that joins two partial results of a reduction."""
    if isinstance(element, AnyFloat):
        return _COMBINE_FLOATS[kind]
    return (_COMBINE_UNSIGNED if unsigned else _COMBINE_SIGNED)[kind]
