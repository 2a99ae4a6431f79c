"""Elements of a product: widened to the accumulator's type, multiplied and added in any type.

Integers wrap in the accumulator's type, packed ones are added up in 32 bits; bools are i8 of 0 or 1
with `and` for times, `or` for plus.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FixedBitwidthType, Float64Type, f32, i32
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.extensions.arith import (
    ExtSIOp,
    ExtUIOp,
    FPToSIOp,
    SIToFPOp,
    TruncIOp,
    UIToFPOp,
)
from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import element_type, is_float, like, resize_float


def accumulator_of(kind: Attribute) -> Attribute:
    """The type that sums of `kind` are kept in: f32 for narrow floats, i32 for packed integers, else
    the type itself."""
    if isinstance(kind, AnyFloat) and not isinstance(kind, Float64Type):
        return f32
    return i32 if is_packed(kind) else kind


def convert(
    build: LoopBuilder, value: SSAValue, kind: Attribute, *, unsigned: bool = False
) -> SSAValue:
    """A scalar or vector with its elements turned into `kind`."""
    source = element_type(value)
    if source == kind:
        return value
    target = like(value, kind)
    if is_float(source):
        if is_float(kind):
            return resize_float(build, value, kind)
        return build.insert(FPToSIOp(value, target))
    if is_float(kind):
        return build.insert((UIToFPOp if unsigned else SIToFPOp)(value, target))
    assert isinstance(source, FixedBitwidthType)
    assert isinstance(kind, FixedBitwidthType)
    if source.bitwidth > kind.bitwidth:
        return build.insert(TruncIOp(value, target))
    extend = ExtUIOp if unsigned else ExtSIOp
    return build.insert(extend(value, target))


def multiply(build: LoopBuilder, a: SSAValue, b: SSAValue, *, boolean: bool = False) -> SSAValue:
    """a·b; of bools `a and b`."""
    if is_float(a):
        return build.insert(arith.MulfOp(a, b))
    return build.insert(arith.AndIOp(a, b) if boolean else arith.MuliOp(a, b))


def add(build: LoopBuilder, a: SSAValue, b: SSAValue, *, boolean: bool = False) -> SSAValue:
    """a + b; of bools `a or b`."""
    if is_float(a):
        return build.insert(arith.AddfOp(a, b))
    return build.insert(arith.OrIOp(a, b) if boolean else arith.AddiOp(a, b))


def multiply_add(
    build: LoopBuilder,
    a: SSAValue,
    b: SSAValue,
    total: SSAValue,
    *,
    fused: bool,
    boolean: bool = False,
) -> SSAValue:
    """total + a·b on vectors; of bools `total or (a and b)`."""
    if fused and is_float(a):
        return build.fma(a, b, total)
    return add(build, total, multiply(build, a, b, boolean=boolean), boolean=boolean)
