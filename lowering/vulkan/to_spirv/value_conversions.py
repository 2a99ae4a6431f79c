"""How each op of `arith` and `math` is computed in SPIR-V: a row for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from xdsl.dialects import arith
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    AnyFloat,
    Float16Type,
    Float32Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    UnitAttr,
    f32,
    i1,
    i32,
)
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.spirv.composite_ops import ConstantOp
from openinfer.dialects.spirv.value_ops import VALUE_OPS
from openinfer.lowering.vulkan.to_spirv.kernel_module import KernelModule, lowered_type, width_of

NO_CONTRACTION = {"no_contraction": UnitAttr()}
"""What a program writes as a product and a sum is rounded twice, but where an op allows contraction."""


class Values:
    """Builds the values of a kernel: `put` inserts an op where the kernel is being built."""

    def __init__(self, kernel: KernelModule, put: Callable[[Operation], SSAValue]) -> None:
        self.kernel, self.put = kernel, put
        self.keeps = True
        """Whether what was rounded has to stay so; functions of elements of matrices add up in f32 anyway."""

    def op(
        self,
        name: str,
        *operands: SSAValue,
        result: Attribute | None = None,
        attributes: Mapping[str, Attribute] = {},
    ) -> SSAValue:
        """The value of an op by what stands behind `spirv.` in its name."""
        return self.put(VALUE_OPS[name].make(*operands, result=result, attributes=attributes))

    def constant(self, value: int | float, type_: Attribute) -> SSAValue:
        """A number of a type."""
        if isinstance(type_, AnyFloat):
            return self.put(ConstantOp(FloatAttr(value, type_)))
        assert isinstance(type_, IntegerType)
        return self.put(ConstantOp(IntegerAttr(int(value), type_)))

    def convert(self, op: Operation, operands: list[SSAValue]) -> SSAValue | None:
        """The value of an op of `arith` or `math`; None for one without a row."""
        if isinstance(op, arith.ConstantOp):
            return self._constant_op(op)
        result = lowered_type(op.results[0].type)
        self.kernel.need(result)
        truth = bool(operands) and operands[0].type == i1
        name = op.name
        if truth and name in _ON_TRUTHS:
            return self.op(_ON_TRUTHS[name], *operands)
        if name in _PLAIN:
            return self.op(_PLAIN[name], *operands)
        if name in _WRITTEN:
            as_written = {} if _may_contract(op) else NO_CONTRACTION
            return self.op(_WRITTEN[name], *operands, attributes=as_written)
        if name in _CASTS:
            if truth:
                return self.of_truth(name, operands[0], result)
            if self.keeps and name == "arith.extf" and _is_rounded(operands[0]):
                operands = [self.kept(operands[0])]
            return self.op(_CASTS[name], operands[0], result=result)
        row = _ROWS.get(name)
        return None if row is None else row(self, op, operands, result)

    def _constant_op(self, op: arith.ConstantOp) -> SSAValue:
        value, type_ = op.value, lowered_type(op.result.type)
        self.kernel.need(type_)
        assert isinstance(value, IntegerAttr | FloatAttr)
        if isinstance(value, FloatAttr):
            return self.put(ConstantOp(value))
        return self.constant(value.value.data, type_)

    def kept(self, value: SSAValue) -> SSAValue:
        """An f16 that was just rounded, so that it stays rounded: NVIDIA's driver takes the conversion to f16
        and back for nothing, in every rounding mode. Its bits are joined with the sign of the workgroup's
        number, which is 0, but a driver does not know it.
        """
        half = IntegerType(16)
        self.kernel.need(half)
        workgroup = self.kernel.built_in("WorkgroupId", 0)
        zero = self.op("ShiftRightLogical", workgroup, self.constant(31, i32))
        bits = self.op("UConvert", self.op("Bitcast", value, result=half), result=i32)
        joined = self.op("UConvert", self.op("BitwiseOr", bits, zero), result=half)
        return self.op("Bitcast", joined, result=value.type)

    def of_truth(self, name: str, value: SSAValue, result: Attribute) -> SSAValue:
        """A truth value as a number: 1, but -1 where its only bit is a sign."""
        one = -1 if name in ("arith.extsi", "arith.sitofp") else 1
        return self.op("Select", value, self.constant(one, result), self.constant(0, result))


def _is_rounded(value: SSAValue) -> bool:
    """Whether a value is an f16 that another float was rounded to."""
    made = value.owner
    rounded = isinstance(made, Operation) and made.name == "spirv.FConvert"
    return rounded and isinstance(value.type, Float16Type)


def _may_contract(op: Operation) -> bool:
    """Whether a product and a sum may be rounded once: in the polynomials of functions."""
    flags = op.properties.get("fastmath")
    return isinstance(flags, FastMathFlagsAttr) and FastMathFlag.ALLOW_CONTRACT in flags.data


Row = Callable[[Values, Operation, list[SSAValue], Attribute], SSAValue]
"""Builds the value of an op of operands that are converted, of a type that is."""


def _compare_integers(
    v: Values, op: Operation, operands: list[SSAValue], result: Attribute
) -> SSAValue:
    assert isinstance(op, arith.CmpiOp)
    number = op.predicate.value.data
    if operands[0].type == i1:
        if number < 2:
            return v.op(("LogicalEqual", "LogicalNotEqual")[number], *operands)
        operands = [v.of_truth("arith.extui", one, i32) for one in operands]
        number = number if number > 5 else number + 4
    return v.op(_INTEGER_PREDICATES[number], *operands)


_INTEGER_PREDICATES: Final = (
    *("IEqual", "INotEqual", "SLessThan", "SLessThanEqual", "SGreaterThan", "SGreaterThanEqual"),
    *("ULessThan", "ULessThanEqual", "UGreaterThan", "UGreaterThanEqual"),
)


def _compare_floats(
    v: Values, op: Operation, operands: list[SSAValue], result: Attribute
) -> SSAValue:
    assert isinstance(op, arith.CmpfOp)
    number = op.predicate.value.data
    if number in (0, 15):
        return v.constant(number // 15, i1)
    if number in (7, 14):
        either = v.op("LogicalOr", *(v.op("IsNan", one) for one in operands))
        return either if number == 14 else v.op("LogicalNot", either)
    return v.op(_FLOAT_PREDICATES[number], *operands)


_FLOAT_PREDICATES: Final = {
    number: name
    for number, name in enumerate(
        (
            *("", "FOrdEqual", "FOrdGreaterThan", "FOrdGreaterThanEqual", "FOrdLessThan"),
            *("FOrdLessThanEqual", "FOrdNotEqual", "", "FUnordEqual", "FUnordGreaterThan"),
            *("FUnordGreaterThanEqual", "FUnordLessThan", "FUnordLessThanEqual"),
            *("FUnordNotEqual", "", ""),
        )
    )
    if name
}


def _with_nan(name: str) -> Row:
    """The larger or smaller of two floats, NaN where one of them is."""

    def build(v: Values, op: Operation, operands: list[SSAValue], result: Attribute) -> SSAValue:
        x, y = operands
        found = v.op(name, x, y)
        found = v.op("Select", v.op("IsNan", y), y, found)
        return v.op("Select", v.op("IsNan", x), x, found)

    return build


def _index_cast(v: Values, op: Operation, operands: list[SSAValue], result: Attribute) -> SSAValue:
    (value,) = operands
    if value.type == result:
        return value
    if value.type == i1:
        return v.of_truth("arith.extui", value, result)
    name = "UConvert" if op.name == "arith.index_castui" else "SConvert"
    return v.op(name, value, result=result)


def _truncate(v: Values, op: Operation, operands: list[SSAValue], result: Attribute) -> SSAValue:
    (value,) = operands
    if result != i1:
        return v.op("UConvert", value, result=result)
    bit = v.op("BitwiseAnd", value, v.constant(1, value.type))
    return v.op("INotEqual", bit, v.constant(0, value.type))


def _remainder(v: Values, op: Operation, operands: list[SSAValue], result: Attribute) -> SSAValue:
    """What is left of a signed division: Vulkan leaves SRem of negative numbers open."""
    x, y = operands
    return v.op("ISub", x, v.op("IMul", y, v.op("SDiv", x, y)))


def _bitcast(v: Values, op: Operation, operands: list[SSAValue], result: Attribute) -> SSAValue:
    (value,) = operands
    return value if value.type == result else v.op("Bitcast", value, result=result)


def _copy_sign(v: Values, op: Operation, operands: list[SSAValue], result: Attribute) -> SSAValue:
    width = width_of(result)
    bits = IntegerType(width)
    v.kernel.need(bits)
    size, sign = (v.op("Bitcast", one, result=bits) for one in operands)
    top = 1 << width - 1
    joined = v.op(
        "BitwiseOr",
        v.op("BitwiseAnd", size, v.constant(top - 1, bits)),
        v.op("BitwiseAnd", sign, v.constant(-top, bits)),
    )
    return v.op("Bitcast", joined, result=result)


def _written(v: Values, name: str, x: SSAValue, y: SSAValue) -> SSAValue:
    return v.op(name, x, y, attributes=NO_CONTRACTION)


def _halves(v: Values, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Two numbers of 12 bits whose sum is x (Veltkamp)."""
    large = _written(v, "FMul", x, v.constant(4097, f32))
    high = _written(v, "FSub", large, _written(v, "FSub", large, x))
    return high, _written(v, "FSub", x, high)


def _left(v: Values, x: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    """x - a b, where a b is about x (Dekker): `Fma` of SPIR-V may round twice, and does on processors."""
    product = _written(v, "FMul", a, b)
    (a1, a2), (b1, b2) = _halves(v, a), _halves(v, b)
    error = _written(v, "FSub", _written(v, "FMul", a1, b1), product)
    for one, other in ((a1, b2), (a2, b1), (a2, b2)):
        error = _written(v, "FAdd", error, _written(v, "FMul", one, other))
    return _written(v, "FSub", _written(v, "FSub", x, product), error)


def _better(v: Values, first: SSAValue, second: SSAValue, least: float) -> SSAValue:
    """A corrected result where it is a number, else the one that it came from. Results up to `least` stay,
    too: what is left of them would be subnormal."""
    finite = v.op("FOrdLessThan", v.op("GL.FAbs", second), v.constant(math.inf, f32))
    enough = v.op("FOrdGreaterThan", v.op("GL.FAbs", first), v.constant(least, f32))
    return v.op("Select", v.op("LogicalAnd", finite, enough), second, first)


def _quotient(v: Values, x: SSAValue, y: SSAValue) -> SSAValue:
    """x / y, corrected by what is left, x - q y: Vulkan allows 2.5 units in the last place, and promises
    nothing of divisors beyond 2^126."""
    if not isinstance(x.type, Float32Type):
        return v.op("FDiv", x, y)
    large = v.op("FOrdGreaterThan", v.op("GL.FAbs", y), v.constant(2.0**100, f32))
    scale = v.op("Select", large, v.constant(2.0**-32, f32), v.constant(1, f32))
    x, y = _written(v, "FMul", x, scale), _written(v, "FMul", y, scale)
    found = v.op("FDiv", x, y)
    step = v.op("FDiv", _left(v, x, found, y), y)
    return _better(v, found, _written(v, "FAdd", found, step), 2.0**-100)


def _divide(v: Values, op: Operation, operands: list[SSAValue], result: Attribute) -> SSAValue:
    x, y = operands
    return _quotient(v, x, y)


def _corrected_root(v: Values, x: SSAValue) -> SSAValue:
    """The square root, corrected by the same step: s + (x - s s) / 2 s."""
    found = v.op("GL.Sqrt", x)
    if not isinstance(x.type, Float32Type):
        return found
    half = v.op("FDiv", v.constant(0.5, f32), found)
    step = _written(v, "FMul", _left(v, x, found, found), half)
    return _better(v, found, _written(v, "FAdd", found, step), 2.0**-48)


def _root(v: Values, op: Operation, operands: list[SSAValue], result: Attribute) -> SSAValue:
    return _corrected_root(v, operands[0])


def _reciprocal_root(
    v: Values, op: Operation, operands: list[SSAValue], result: Attribute
) -> SSAValue:
    return _quotient(v, v.constant(1, result), _corrected_root(v, operands[0]))


_PLAIN: Final = {
    "arith.addi": "IAdd",
    "arith.andi": "BitwiseAnd",
    "arith.divsi": "SDiv",
    "arith.divui": "UDiv",
    "arith.maxnumf": "GL.NMax",
    "arith.maxsi": "GL.SMax",
    "arith.maxui": "GL.UMax",
    "arith.minnumf": "GL.NMin",
    "arith.minsi": "GL.SMin",
    "arith.minui": "GL.UMin",
    "arith.muli": "IMul",
    "arith.negf": "FNegate",
    "arith.ori": "BitwiseOr",
    "arith.remui": "UMod",
    "arith.select": "Select",
    "arith.shli": "ShiftLeftLogical",
    "arith.shrsi": "ShiftRightArithmetic",
    "arith.shrui": "ShiftRightLogical",
    "arith.subi": "ISub",
    "arith.xori": "BitwiseXor",
    "math.absf": "GL.FAbs",
    "math.absi": "GL.SAbs",
    "math.ceil": "GL.Ceil",
    "math.ctpop": "BitCount",
    "math.exp2": "GL.Exp2",
    "math.floor": "GL.Floor",
    "math.fma": "GL.Fma",
    "math.roundeven": "GL.RoundEven",
    "math.trunc": "GL.Trunc",
}
"""Ops that are one of SPIR-V."""
_WRITTEN: Final = {"arith.addf": "FAdd", "arith.mulf": "FMul", "arith.subf": "FSub"}
"""Arithmetic that keeps its roundings."""
_ON_TRUTHS: Final = {
    "arith.addi": "LogicalNotEqual",
    "arith.andi": "LogicalAnd",
    "arith.muli": "LogicalAnd",
    "arith.ori": "LogicalOr",
    "arith.xori": "LogicalNotEqual",
}
"""What ops do to i1, which is no number in SPIR-V."""
_CASTS: Final = {
    "arith.extf": "FConvert",
    "arith.extsi": "SConvert",
    "arith.extui": "UConvert",
    "arith.fptosi": "ConvertFToS",
    "arith.fptoui": "ConvertFToU",
    "arith.sitofp": "ConvertSToF",
    "arith.truncf": "FConvert",
    "arith.uitofp": "ConvertUToF",
}
_ROWS: Final[dict[str, Row]] = {
    "arith.bitcast": _bitcast,
    "arith.cmpf": _compare_floats,
    "arith.divf": _divide,
    "arith.cmpi": _compare_integers,
    "arith.index_cast": _index_cast,
    "arith.index_castui": _index_cast,
    "arith.maximumf": _with_nan("GL.FMax"),
    "arith.minimumf": _with_nan("GL.FMin"),
    "arith.remsi": _remainder,
    "arith.trunci": _truncate,
    "math.copysign": _copy_sign,
    "math.rsqrt": _reciprocal_root,
    "math.sqrt": _root,
}

CONVERTED: Final = frozenset({"arith.constant", *_PLAIN, *_WRITTEN, *_CASTS, *_ROWS})
"""The ops that have a conversion."""
