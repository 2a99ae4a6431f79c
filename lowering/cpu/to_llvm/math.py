"""`math` to `llvm`: an instruction or intrinsic where the machine has one, else the C library.

`expand-math` has replaced the f32 functions that matter by polynomials before. What is left here is
computed by the library, one element at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerAttr,
    VectorType,
    f32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.extensions.llvm import ExtractElementOp, PoisonOp
from openinfer.dialects.extensions.llvm_intrinsics import INTRINSICS
from openinfer.lowering.cpu.to_llvm.converter import Converter, Rule, fast_math_of
from openinfer.lowering.cpu.to_llvm.half import emit_float, is_half, narrow, widen
from openinfer.runtime.errors import CompileError


def _intrinsic(target: type[Operation]) -> Rule:
    def convert(c: Converter, op: Operation) -> None:
        properties = {"fastmathFlags": fast_math_of(op)}
        c.set(op.results[0], emit_float(c, target, c.values(op.operands), properties))

    return convert


def _reciprocal_root(c: Converter, op: Operation) -> None:
    source = c.value(op.operands[0])
    type = source.type
    if is_half(type):
        source = widen(c, source)
    properties = {"fastmathFlags": fast_math_of(op)}
    root = c.emit(llvm.FSqrtOp, (source,), source.type, properties)
    one = c.splat(1.0, source.type)
    result = c.emit(llvm.FDivOp, (one, root), source.type, properties)
    c.set(op.results[0], narrow(c, result, type) if is_half(type) else result)


def _absolute_integer(c: Converter, op: Operation) -> None:
    source = c.value(op.operands[0])
    properties: dict[str, Attribute] = {"overflowFlags": IntegerAttr(0, 32)}
    negated = c.emit(llvm.SubOp, (c.splat(0, source.type), source), source.type, properties)
    c.set(op.results[0], c.emit(INTRINSICS["smax"], (source, negated), source.type))


def _library(name: str) -> Rule:
    """A call of libm per element; half-width floats are widened to f32 for it."""

    def convert(c: Converter, op: Operation) -> None:
        operands = c.values(op.operands)
        type = operands[0].type
        if not isinstance(type, VectorType):
            c.set(op.results[0], _call_library(c, name, operands))
            return
        lanes = cast("VectorType[Attribute]", type)
        result: SSAValue = c.in_entry(PoisonOp.create(result_types=(lanes,)))
        for lane in range(lanes.get_shape()[0]):
            position = c.as_value(lane)
            elements = [
                c.emit(ExtractElementOp, (operand, position), lanes.element_type)
                for operand in operands
            ]
            value = _call_library(c, name, elements)
            result = c.emit(llvm.InsertElementOp, (result, value, position), lanes)
        c.set(op.results[0], result)

    return convert


def _call_library(c: Converter, name: str, operands: Sequence[SSAValue]) -> SSAValue:
    type = operands[0].type
    if isinstance(type, Float64Type):
        return c.call_outside(name, operands, type)
    if isinstance(type, Float32Type):
        return c.call_outside(f"{name}f", operands, type)
    if isinstance(type, Float16Type | BFloat16Type):
        wide = [widen(c, operand) for operand in operands]
        return narrow(c, c.call_outside(f"{name}f", wide, f32), type)
    raise CompileError("OI0980", f"the C library has no {name} for {type}")


RULES: dict[str, Rule] = {
    "math.absf": _intrinsic(llvm.FAbsOp),
    "math.absi": _absolute_integer,
    "math.ceil": _intrinsic(llvm.FCeilOp),
    "math.copysign": _intrinsic(llvm.FCopySignOp),
    "math.cos": _intrinsic(llvm.FCosOp),
    "math.exp": _intrinsic(llvm.FExpOp),
    "math.exp2": _intrinsic(llvm.FExp2Op),
    "math.floor": _intrinsic(llvm.FFloorOp),
    "math.fma": _intrinsic(llvm.FMAOp),
    "math.log": _intrinsic(llvm.FLogOp),
    "math.log10": _intrinsic(INTRINSICS["log10"]),
    "math.log2": _intrinsic(llvm.FLog2Op),
    "math.powf": _intrinsic(llvm.FPowOp),
    "math.round": _intrinsic(INTRINSICS["round"]),
    "math.roundeven": _intrinsic(INTRINSICS["roundeven"]),
    "math.rsqrt": _reciprocal_root,
    "math.sin": _intrinsic(llvm.FSinOp),
    "math.sqrt": _intrinsic(llvm.FSqrtOp),
    "math.trunc": _intrinsic(INTRINSICS["trunc"]),
} | {
    f"math.{name}": _library(name)
    for name in (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cosh", "erf"),
        *("erfc", "expm1", "log1p", "sinh", "tan", "tanh"),
    )
}
"""Rules by op name."""
