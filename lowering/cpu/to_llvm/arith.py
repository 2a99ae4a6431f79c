"""`arith` to `llvm`: one instruction or intrinsic per op, known index values folded."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
    f32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.extensions.arith import bool_type_like
from openinfer.dialects.extensions.llvm import FCmpOp, FPToSIOp, FPToUIOp, SelectOp, UIToFPOp
from openinfer.dialects.extensions.llvm_intrinsics import INTRINSICS
from openinfer.lowering.cpu.to_llvm.converter import (
    Converter,
    Int,
    Rule,
    fast_math,
    fast_math_of,
    in_word,
)
from openinfer.lowering.cpu.to_llvm.half import (
    emit_float,
    is_half,
    like,
    narrow,
    widen,
)
from openinfer.lowering.cpu.to_llvm.types import convert_type
from openinfer.lowering.cpu.to_llvm.views import buffer_from_parts, parts_of_buffer
from openinfer.lowering.operations import operands_of
from openinfer.runtime.errors import CompileError

_NO_FLAGS = IntegerAttr(0, 32)
_OVERFLOW = {
    frozenset[str](): _NO_FLAGS,
    frozenset(("nsw",)): IntegerAttr(1, 32),
    frozenset(("nuw",)): IntegerAttr(2, 32),
    frozenset(("nsw", "nuw")): IntegerAttr(3, 32),
}


def _constant(c: Converter, op: Operation) -> None:
    value = op.properties["value"]
    (result,) = op.results
    type = convert_type(result.type)
    if isinstance(value, IntegerAttr):
        if isinstance(result.type, IndexType):
            c.set(result, c.as_value(value.value.data))
            return
        if value.type is not type:
            value = IntegerAttr(value.value.data, cast(IntegerType, type))
    elif isinstance(value, DenseIntOrFPElementsAttr):
        if value.type is not type:
            value = DenseIntOrFPElementsAttr(type, value.data)  # pyright: ignore
    elif not isinstance(value, FloatAttr):
        raise CompileError("OI0980", f"'arith.constant' of {value} cannot be converted")
    c.set(result, c.constant(value, type))


def _integer_binary(
    target: type[Operation],
    fold: Callable[[Converter, Int, Int], Int] | None = None,
    overflow: bool = False,
) -> Rule:
    def convert(c: Converter, op: Operation) -> None:
        a, b = operands_of(op)
        (result,) = op.results
        if fold is not None and isinstance(result.type, IndexType):
            c.set_integer(result, fold(c, c.integer(a), c.integer(b)))
            return
        properties: dict[str, Attribute] = {}
        if overflow:
            flags = op.properties.get("overflowFlags")
            properties["overflowFlags"] = _OVERFLOW[flags.data] if flags else _NO_FLAGS  # pyright: ignore
        lhs = c.value(a)
        c.set(result, c.emit(target, (lhs, c.value(b)), lhs.type, properties))

    return convert


def _fold_divide(c: Converter, a: Int, b: Int) -> Int:
    if isinstance(a, int) and isinstance(b, int) and b != 0:
        quotient = abs(a) // abs(b)
        return in_word(quotient if (a < 0) == (b < 0) else -quotient)
    if b == 1:
        return a
    return c.emit(llvm.SDivOp, (c.as_value(a), c.as_value(b)), i64)


def _fold_remainder(c: Converter, a: Int, b: Int) -> Int:
    if isinstance(a, int) and isinstance(b, int) and b != 0:
        remainder = abs(a) % abs(b)
        return -remainder if a < 0 else remainder
    return c.emit(llvm.SRemOp, (c.as_value(a), c.as_value(b)), i64)


def _fold_extreme(name: str, choose: Callable[[int, int], int]) -> Callable[..., Int]:
    def fold(c: Converter, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return choose(a, b)
        return c.emit(INTRINSICS[name], (c.as_value(a), c.as_value(b)), i64)

    return fold


def _floor_divide(c: Converter, op: Operation) -> None:
    """floor(a / b) = trunc(a / b) - (remainder != 0 and signs differ)."""
    result = op.results[0]
    if isinstance(result.type, IndexType):
        x, y = c.integer(op.operands[0]), c.integer(op.operands[1])
        if isinstance(x, int) and isinstance(y, int) and y != 0:
            c.set_integer(result, in_word(x // y))
            return
        if y == 1:
            c.set_integer(result, x)
            return
    a, b = c.value(op.operands[0]), c.value(op.operands[1])
    c.set(result, _rounded_quotient(c, a, b, up=False))


def _ceil_divide(c: Converter, op: Operation) -> None:
    """ceil(a / b) = trunc(a / b) + (remainder != 0 and signs agree)."""
    result = op.results[0]
    if isinstance(result.type, IndexType):
        x, y = c.integer(op.operands[0]), c.integer(op.operands[1])
        if isinstance(x, int) and isinstance(y, int) and y != 0:
            c.set_integer(result, in_word(-(-x // y)))
            return
        if y == 1:
            c.set_integer(result, x)
            return
    a, b = c.value(op.operands[0]), c.value(op.operands[1])
    c.set(result, _rounded_quotient(c, a, b, up=True))


def _rounded_quotient(c: Converter, a: SSAValue, b: SSAValue, *, up: bool) -> SSAValue:
    type = a.type
    truth = bool_type_like(type)
    zero = c.splat(0, type)
    quotient = c.emit(llvm.SDivOp, (a, b), type)
    back = c.emit(llvm.MulOp, (quotient, b), type, {"overflowFlags": _NO_FLAGS})
    remainder = c.emit(llvm.SubOp, (a, back), type, {"overflowFlags": _NO_FLAGS})
    inexact = c.emit(llvm.ICmpOp, (remainder, zero), truth, {"predicate": IntegerAttr(1, 64)})
    signs = c.emit(llvm.XOrOp, (remainder, b), type)
    # The remainder has the sign of a; the xor is negative where the signs of a and b differ.
    wanted = IntegerAttr(5 if up else 2, 64)  # sge, slt
    rounds = c.emit(llvm.ICmpOp, (signs, zero), truth, {"predicate": wanted})
    both = c.emit(llvm.AndOp, (inexact, rounds), truth)
    step = c.emit(llvm.ZExtOp, (both,), type)
    target = llvm.AddOp if up else llvm.SubOp
    return c.emit(target, (quotient, step), type, {"overflowFlags": _NO_FLAGS})


def _ceil_divide_unsigned(c: Converter, op: Operation) -> None:
    """ceil(a / b) = a / b + (a % b != 0), unsigned."""
    a, b = c.value(op.operands[0]), c.value(op.operands[1])
    type = a.type
    quotient = c.emit(llvm.UDivOp, (a, b), type)
    remainder = c.emit(llvm.URemOp, (a, b), type)
    properties: dict[str, Attribute] = {"predicate": IntegerAttr(1, 64)}
    inexact = c.emit(llvm.ICmpOp, (remainder, c.splat(0, type)), bool_type_like(type), properties)
    step = c.emit(llvm.ZExtOp, (inexact,), type)
    c.set(op.results[0], c.emit(llvm.AddOp, (quotient, step), type, {"overflowFlags": _NO_FLAGS}))


def _float(target: type[Operation]) -> Rule:
    def convert(c: Converter, op: Operation) -> None:
        properties = {"fastmathFlags": fast_math_of(op)}
        c.set(op.results[0], emit_float(c, target, c.values(operands_of(op)), properties))

    return convert


def _intrinsic(name: str, fold: Callable[..., Int] | None = None) -> Rule:
    return _integer_binary(INTRINSICS[name], fold)


def _compare_integers(c: Converter, op: Operation) -> None:
    operands = c.values(operands_of(op))
    truth = bool_type_like(operands[0].type)
    properties = {"predicate": op.properties["predicate"]}
    c.set(op.results[0], c.emit(llvm.ICmpOp, operands, truth, properties))


def _compare_floats(c: Converter, op: Operation) -> None:
    operands = c.values(op.operands)
    if is_half(operands[0].type):
        operands = [widen(c, operand) for operand in operands]
    truth = bool_type_like(operands[0].type)
    properties = {"predicate": op.properties["predicate"], "fastmathFlags": fast_math_of(op)}
    c.set(op.results[0], c.emit(FCmpOp, operands, truth, properties))


def _select(c: Converter, op: Operation) -> None:
    type = op.results[0].type
    if isinstance(type, MemRefType):
        _select_buffer(c, op, type)
        return
    operands = c.values(op.operands)
    properties = {"fastmathFlags": fast_math(frozenset())}
    c.set(op.results[0], c.emit(SelectOp, operands, operands[1].type, properties))


def _select_buffer(c: Converter, op: Operation, type: MemRefType) -> None:
    """One of two buffers of one type: what it is passed as is chosen part by part."""
    condition = c.value(op.operands[0])
    a, b = (parts_of_buffer(c, c.buffer(value), type) for value in op.operands[1:])
    properties = {"fastmathFlags": fast_math(frozenset())}
    parts = [
        x if x is y else c.emit(SelectOp, (condition, x, y), x.type, properties)
        for x, y in zip(a, b, strict=True)
    ]
    c.set_buffer(op.results[0], buffer_from_parts(c, type, parts))


def _cast(target: type[Operation]) -> Rule:
    def convert(c: Converter, op: Operation) -> None:
        type = convert_type(op.results[0].type)
        c.set(op.results[0], c.emit(target, (c.value(op.operands[0]),), type))

    return convert


def _extend_float(c: Converter, op: Operation) -> None:
    value = c.value(op.operands[0])
    type = convert_type(op.results[0].type)
    if is_half(value.type):
        value = widen(c, value)
    if value.type != type:
        value = c.emit(llvm.FPExtOp, (value,), type)
    c.set(op.results[0], value)


def _truncate_float(c: Converter, op: Operation) -> None:
    value = c.value(op.operands[0])
    type = convert_type(op.results[0].type)
    if is_half(type):
        c.set(op.results[0], narrow(c, value, type))
        return
    c.set(op.results[0], c.emit(llvm.FPTruncOp, (value,), type))


def _integer_to_float(target: type[Operation]) -> Rule:
    def convert(c: Converter, op: Operation) -> None:
        value = c.value(op.operands[0])
        type = convert_type(op.results[0].type)
        if is_half(type):
            wide = c.emit(target, (value,), like(type, f32))
            c.set(op.results[0], narrow(c, wide, type))
            return
        c.set(op.results[0], c.emit(target, (value,), type))

    return convert


def _float_to_integer(target: type[Operation]) -> Rule:
    def convert(c: Converter, op: Operation) -> None:
        value = c.value(op.operands[0])
        if is_half(value.type):
            value = widen(c, value)
        c.set(op.results[0], c.emit(target, (value,), convert_type(op.results[0].type)))

    return convert


def _bits(type: Attribute) -> int:
    element = type.element_type if isinstance(type, VectorType) else type
    return cast(IntegerType, element).bitwidth


def _index_cast(extend: type[Operation]) -> Rule:
    def convert(c: Converter, op: Operation) -> None:
        source = c.value(op.operands[0])
        type = convert_type(op.results[0].type)
        before, after = _bits(source.type), _bits(type)
        if before == after:
            c.set(op.results[0], source)
            return
        known = c.integer(op.operands[0])
        if isinstance(known, int) and isinstance(type, IntegerType):
            wrapped = (known + (1 << (after - 1))) % (1 << after) - (1 << (after - 1))
            c.set(op.results[0], c.integer_constant(wrapped, type))
            return
        c.set(op.results[0], c.emit(extend if after > before else llvm.TruncOp, (source,), type))

    return convert


def _bitcast(c: Converter, op: Operation) -> None:
    source = c.value(op.operands[0])
    type = convert_type(op.results[0].type)
    c.set(op.results[0], source if source.type == type else c.emit(llvm.BitcastOp, (source,), type))


def _negate(c: Converter, op: Operation) -> None:
    source = c.value(op.operands[0])
    properties = {"fastmathFlags": fast_math_of(op)}
    c.set(op.results[0], emit_float(c, llvm.FNegOp, (source,), properties))


def _multiply_extended(extend: type[Operation]) -> Rule:
    def convert(c: Converter, op: Operation) -> None:
        a, b = c.values(op.operands)
        narrow = a.type
        bits = _bits(narrow)
        wide_element = IntegerType(2 * bits)
        wide: Attribute = wide_element
        if isinstance(narrow, VectorType):
            wide = VectorType(wide_element, narrow.shape)
        operands = [c.emit(extend, (value,), wide) for value in (a, b)]
        product = c.emit(llvm.MulOp, operands, wide, {"overflowFlags": _NO_FLAGS})
        high = c.emit(llvm.LShrOp, (product, c.splat(bits, wide)), wide)
        c.set(op.results[0], c.emit(llvm.TruncOp, (product,), narrow))
        c.set(op.results[1], c.emit(llvm.TruncOp, (high,), narrow))

    return convert


def _add_extended(c: Converter, op: Operation) -> None:
    a, b = c.values(op.operands)
    total = c.emit(llvm.AddOp, (a, b), a.type, {"overflowFlags": _NO_FLAGS})
    properties: dict[str, Attribute] = {"predicate": IntegerAttr(6, 64)}  # ult
    c.set(op.results[0], total)
    c.set(op.results[1], c.emit(llvm.ICmpOp, (total, a), bool_type_like(a.type), properties))


RULES: dict[str, Rule] = {
    "arith.constant": _constant,
    "arith.addi": _integer_binary(llvm.AddOp, Converter.add, overflow=True),
    "arith.subi": _integer_binary(llvm.SubOp, Converter.subtract, overflow=True),
    "arith.muli": _integer_binary(llvm.MulOp, Converter.multiply, overflow=True),
    "arith.divsi": _integer_binary(llvm.SDivOp, _fold_divide),
    "arith.divui": _integer_binary(llvm.UDivOp),
    "arith.remsi": _integer_binary(llvm.SRemOp, _fold_remainder),
    "arith.remui": _integer_binary(llvm.URemOp),
    "arith.floordivsi": _floor_divide,
    "arith.ceildivsi": _ceil_divide,
    "arith.ceildivui": _ceil_divide_unsigned,
    "arith.andi": _integer_binary(llvm.AndOp),
    "arith.ori": _integer_binary(llvm.OrOp),
    "arith.xori": _integer_binary(llvm.XOrOp),
    "arith.shli": _integer_binary(llvm.ShlOp, overflow=True),
    "arith.shrui": _integer_binary(llvm.LShrOp),
    "arith.shrsi": _integer_binary(llvm.AShrOp),
    "arith.minsi": _intrinsic("smin", _fold_extreme("smin", min)),
    "arith.maxsi": _intrinsic("smax", _fold_extreme("smax", max)),
    "arith.minui": _intrinsic("umin"),
    "arith.maxui": _intrinsic("umax"),
    "arith.mulsi_extended": _multiply_extended(llvm.SExtOp),
    "arith.mului_extended": _multiply_extended(llvm.ZExtOp),
    "arith.addui_extended": _add_extended,
    "arith.addf": _float(llvm.FAddOp),
    "arith.subf": _float(llvm.FSubOp),
    "arith.mulf": _float(llvm.FMulOp),
    "arith.divf": _float(llvm.FDivOp),
    "arith.remf": _float(llvm.FRemOp),
    "arith.negf": _negate,
    "arith.maximumf": _float(INTRINSICS["maximum"]),
    "arith.minimumf": _float(INTRINSICS["minimum"]),
    "arith.maxnumf": _float(llvm.VectorFMaxOp),
    "arith.minnumf": _float(llvm.VectorFMinOp),
    "arith.cmpi": _compare_integers,
    "arith.cmpf": _compare_floats,
    "arith.select": _select,
    "arith.extsi": _cast(llvm.SExtOp),
    "arith.extui": _cast(llvm.ZExtOp),
    "arith.trunci": _cast(llvm.TruncOp),
    "arith.extf": _extend_float,
    "arith.truncf": _truncate_float,
    "arith.sitofp": _integer_to_float(llvm.SIToFPOp),
    "arith.uitofp": _integer_to_float(UIToFPOp),
    "arith.fptosi": _float_to_integer(FPToSIOp),
    "arith.fptoui": _float_to_integer(FPToUIOp),
    "arith.index_cast": _index_cast(llvm.SExtOp),
    "arith.index_castui": _index_cast(llvm.ZExtOp),
    "arith.bitcast": _bitcast,
}
"""Rules by op name."""
