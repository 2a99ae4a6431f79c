"""Arithmetic on scalars and 1-D vectors alike, for schedules and scalar bodies.

A type is "like" another when both are scalars or both vectors of one length. Floats narrower than
32 bits are widened to f32 after a load and rounded once before a store.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    VectorType,
    f32,
    f64,
    i64,
)
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.extensions import arith as extended
from openinfer.dialects.extensions.vector import ReductionOp
from openinfer.lowering.attributes import vector_like
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.operations import VALUES
from openinfer.runtime.errors import UnsupportedError

REASSOCIATE = FastMathFlagsAttr((FastMathFlag.REASSOC,))
INF = float("inf")
_COMPUTED_IN_F32 = (Float32Type, Float16Type, BFloat16Type, Float8E5M2Type, Float8E4M3FNType)


def element_type(value: SSAValue | Attribute) -> Attribute:
    """The element type of a memref, tensor or vector; a scalar's own type."""
    kind: Attribute = value.type if value.__class__ in VALUES else value  # pyright: ignore
    # Before asking whether it is one of them, which takes longer where it is not.
    if type(kind) in _SCALARS:
        return kind
    if isinstance(kind, VectorType | MemRefType):
        return kind.element_type
    return kind


_SCALARS = frozenset({IntegerType, IndexType, Float16Type, BFloat16Type, Float32Type, Float64Type})


def like(kind: SSAValue | Attribute, element: Attribute) -> Attribute:
    """`element`, or the vector of it that is as long as `kind`."""
    kind = kind.type if isinstance(kind, SSAValue) else kind
    return vector_like(kind, element) if isinstance(kind, VectorType) else element


def is_float(value: SSAValue | Attribute) -> bool:
    return isinstance(element_type(value), AnyFloat)


def wide_type(element: Attribute) -> Attribute:
    """The type that values of a float type are computed in: f64 for f64, f32 for all others.

    Raises UnsupportedError OI0710 for what is no such float.
    """
    if isinstance(element, Float64Type):
        return f64
    if isinstance(element, _COMPUTED_IN_F32):
        return f32
    raise UnsupportedError(
        "OI0710", f"kernels do not compute in {element}", hint="cast to f32 before this op"
    )


def resize_float(b: LoopBuilder, value: SSAValue, element: Attribute) -> SSAValue:
    """A float value in another float type, rounded once to nearest even."""
    source = element_type(value)
    if source == element:
        return value
    assert isinstance(source, AnyFloat)
    assert isinstance(element, AnyFloat)
    if source.bitwidth == 64 and element.bitwidth <= 16:
        return resize_float(b, _round_to_odd(b, value), element)
    if min(source.bitwidth, element.bitwidth) == 8 and f32 not in (source, element):
        return resize_float(b, resize_float(b, value, f32), element)
    if element.bitwidth > source.bitwidth:
        return b.made(extended.ExtFOp, (value,), like(value, element))
    if source.bitwidth == element.bitwidth:
        # f16 and bf16 hold neither the other's range nor its precision.
        return resize_float(b, resize_float(b, value, f32), element)
    return b.made(extended.TruncFOp, (value,), like(value, element))


def _round_to_odd(b: LoopBuilder, value: SSAValue) -> SSAValue:
    """f64 → f32 such that rounding the result again gives what rounding once would.

    An inexact result takes the neighbour whose last bit is set. (There is no instruction for
    f64 → f16 in one step, only a call of the compiler's own library.)
    """
    i32 = like(value, IntegerType(32))
    near = b.insert(extended.TruncFOp(value, like(value, f32)))
    back = b.insert(extended.ExtFOp(near, value.type))
    exact = compare_floats(b, "ueq", back, value)
    too_large = compare_floats(b, "ogt", absolute(b, back), absolute(b, value))
    bits = b.insert(arith.BitcastOp(near, i32))
    one = b.constant(1, i32)
    lower = b.insert(arith.SubiOp(bits, one))
    odd = b.insert(arith.OrIOp(select(b, too_large, lower, bits), one))
    return b.insert(arith.BitcastOp(select(b, exact, bits, odd), near.type))


def absolute(b: LoopBuilder, value: SSAValue) -> SSAValue:
    from xdsl.dialects.math import AbsFOp

    return b.insert(AbsFOp(value))


def widen(b: LoopBuilder, value: SSAValue) -> SSAValue:
    """A float value in the type that it is computed in."""
    return resize_float(b, value, wide_type(element_type(value)))


def compare_floats(b: LoopBuilder, predicate: str, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.insert(extended.CmpfOp(x, y, predicate))


def compare_integers(b: LoopBuilder, predicate: str, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.insert(extended.CmpiOp(x, y, predicate))


def select(b: LoopBuilder, condition: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.insert(extended.SelectOp(condition, x, y))


def greater(b: LoopBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """`x > y ? x : y`: the machine's maximum, which gives y where one of them is NaN."""
    return select(b, compare_floats(b, "ogt", x, y), x, y)


def largest(b: LoopBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """The larger of two floats, NaN being the largest of all; zeros of both signs are equal."""
    return select(b, compare_floats(b, "uno", x, x), x, greater(b, x, y))


def reduction(b: LoopBuilder, kind: str, value: SSAValue) -> SSAValue:
    """The elements of a vector combined into one, in any order; in that of the lanes if strict."""
    sums = kind in ("add", "mul") and is_float(value)
    flags = REASSOCIATE if sums and not b.facts.strict_math else None
    return b.insert(ReductionOp(value, kind, fastmath=flags))


def index_to(b: LoopBuilder, value: SSAValue, element: Attribute) -> SSAValue:
    """An index value (scalar or vector) as an integer or float; integers wrap."""
    if isinstance(element, IndexType):
        return value
    if isinstance(element, IntegerType):
        return b.insert(extended.IndexCastOp(value, like(value, element)))
    whole = b.insert(extended.IndexCastOp(value, like(value, i64)))
    wide = b.insert(extended.SIToFPOp(whole, like(whole, wide_type(element))))
    return resize_float(b, wide, element)


def count_as(b: LoopBuilder, count: Index, element: Attribute) -> SSAValue:
    """A count as a scalar float."""
    if isinstance(count, int):
        return b.constant(count, element)
    return index_to(b, count, element)


def positions(b: LoopBuilder, start: SSAValue, lanes: int) -> SSAValue:
    """The index vector start, start + 1, …"""
    from openinfer.dialects.extensions.vector import StepOp

    step = b.insert(StepOp(VectorType(IndexType(), [lanes])))
    return b.insert(arith.AddiOp(b.splat(start, lanes), step))
