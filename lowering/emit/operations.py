"""How each op of `arith` and `math` is written in GLSL: a row for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, i1, i32
from xdsl.ir import Attribute, Operation

from openinfer.lowering.emit.expressions import (
    UNARY,
    Expression,
    binary,
    call,
    chain,
    conditional,
    float_number,
    number,
    product_of,
    sum_of,
    unary,
)
from openinfer.lowering.emit.shader import Shader
from openinfer.lowering.emit.types import is_float, unsigned, width_of

Row = Callable[[Shader, Operation, list[Expression]], Expression]
"""Writes the value of an op of operands that are written."""


def _kind(shader: Shader, op: Operation) -> str:
    """The type of the result."""
    return shader.type(op.results[0].type)


def _is_int(kind: Attribute) -> bool:
    """Whether arithmetic of a type is that of `int`."""
    return isinstance(kind, IndexType) or kind == i32


def constant(shader: Shader, op: arith.ConstantOp) -> Expression:
    """A number of a type."""
    value, kind = op.value, op.result.type
    if isinstance(value, FloatAttr):
        shader.type(kind)
        return shader.constant(float_number(value.value.data, width_of(kind)))
    assert isinstance(value, IntegerAttr)
    bits = value.value.data
    if kind == i1:
        return Expression("true" if bits else "false")
    if _is_int(kind):
        return number(bits - 2**32 if bits >= 2**31 else bits)
    scalar = shader.type(kind)
    if not -(2**31) <= bits < 2**31:
        # A literal of 64 bits keeps all of them only when it has no sign.
        return call(scalar, Expression(f"0x{bits % 2**64:x}UL"))
    return call(scalar, Expression(str(bits)))


# Integers


def _add(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
    if op.results[0].type == i1:
        return binary("!=", *operands)
    return sum_of(*operands) if _is_int(op.results[0].type) else binary("+", *operands)


def _subtract(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
    x, y = operands
    if y.number is not None and y.number != -(2**31):
        return sum_of(x, number(-y.number))
    return binary("-", x, y)


def _multiply(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
    if op.results[0].type == i1:
        return chain("&&", *operands)
    return product_of(*operands) if _is_int(op.results[0].type) else binary("*", *operands)


def _bitwise(operator: str, of_truths: str) -> Row:
    def row(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
        if op.results[0].type != i1:
            return chain(operator, *operands)
        if of_truths == "!=":
            return _differ(*operands)
        return chain(of_truths, *operands)

    return row


def _differ(x: Expression, y: Expression) -> Expression:
    """Whether one of two truth values holds, and not the other."""
    for one, other in ((x, y), (y, x)):
        if other.text in ("true", "false"):
            return unary("!", one) if other.text == "true" else one
    return binary("!=", x, y)


def _without_sign(
    shader: Shader, op: Operation, operands: list[Expression]
) -> tuple[list[Expression], str | None]:
    """The operands without a sign, and the type to go back to; as they are where none is negative."""
    if all(one.non_negative for one in operands):
        return operands, None
    kind = unsigned(shader.type(op.operands[0].type))
    return [call(kind, one) for one in operands], shader.type(op.operands[0].type)


def _unsigned(write: Callable[[Expression, Expression], Expression]) -> Row:
    """An operation on numbers without a sign."""

    def row(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
        numbers, back = _without_sign(shader, op, operands)
        found = write(*numbers)
        return replace(found, non_negative=True) if back is None else call(back, found)

    return row


def _operator(text: str) -> Callable[[Expression, Expression], Expression]:
    return lambda x, y: binary(text, x, y)


def _function(text: str) -> Callable[[Expression, Expression], Expression]:
    return lambda x, y: call(text, x, y)


def _divide_unsigned(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
    x, y = operands
    return x if y.number == 1 else _unsigned(_operator("/"))(shader, op, operands)


def _rest_unsigned(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
    if operands[1].number == 1:
        return number(0)
    return _unsigned(_operator("%"))(shader, op, operands)


def _signed_extreme(name: str) -> Row:
    def row(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
        signs = [one.non_negative for one in operands]
        known = any(signs) if name == "max" else all(signs)
        return replace(call(name, *operands), non_negative=known)

    return row


def _compare_integers(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
    assert isinstance(op, arith.CmpiOp)
    predicate = op.predicate.value.data
    truths = op.operands[0].type == i1
    if predicate > 1 and truths:
        operands = [call("int", one) for one in operands]
    elif predicate > 5:
        operands, _ = _without_sign(shader, op, operands)
    return binary(_INTEGER_PREDICATES[predicate], *operands)


_INTEGER_PREDICATES: Final = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")


# Floats


def _rounded(operator: str) -> Row:
    """Arithmetic that keeps its roundings."""

    def row(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
        return replace(binary(operator, *operands), rounds=True)

    return row


def _compare_floats(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
    assert isinstance(op, arith.CmpfOp)
    predicate = op.predicate.value.data
    x, y = operands
    if predicate in (0, 15):
        return Expression("true" if predicate else "false")
    if predicate in (7, 14):
        same = x.text == y.text
        either = call("isnan", x) if same else chain("||", call("isnan", x), call("isnan", y))
        return either if predicate == 14 else unary("!", either)
    if predicate == 6:
        return chain("||", binary("<", x, y), binary(">", x, y))
    if predicate == 8:
        return unary("!", chain("||", binary("<", x, y), binary(">", x, y)))
    if predicate in _ORDERED:
        return binary(_ORDERED[predicate], x, y)
    return unary("!", binary(_OPPOSITES[predicate], x, y))


_ORDERED: Final = {1: "==", 2: ">", 3: ">=", 4: "<", 5: "<=", 13: "!="}
_OPPOSITES: Final = {9: "<=", 10: "<", 11: ">=", 12: ">"}
"""What does not hold where the unordered comparison does."""


def _called(name: str) -> Row:
    """A function of GLSL."""
    return lambda shader, op, operands: call(name, *operands)


def _helped(name: str) -> Row:
    """A function that the shader brings along."""
    return lambda shader, op, operands: call(shader.helper(name, _kind(shader, op)), *operands)


def _log10(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
    scale = shader.constant(float_number(0.30102999566398119521, width_of(op.results[0].type)))
    return replace(binary("*", call("log2", *operands), scale), rounds=True)


# Conversions


def _select(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
    condition, x, y = operands
    found = conditional(condition, x, y)
    return replace(found, non_negative=x.non_negative and y.non_negative)


def _of_truth(shader: Shader, op: Operation, value: Expression) -> Expression:
    """A truth value as a number: 1, but -1 where its only bit is a sign."""
    found = call(_kind(shader, op), value)
    return unary("-", found) if op.name in ("arith.extsi", "arith.sitofp") else found


def _converted(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
    """By a constructor; of a number without a sign where the op says so."""
    (value,) = operands
    source, kind = op.operands[0].type, _kind(shader, op)
    if source == i1:
        return _of_truth(shader, op, value)
    if op.name in ("arith.extui", "arith.uitofp", "arith.index_castui") and not value.non_negative:
        value = call(unsigned(shader.type(source)), value)
    if op.name == "arith.fptoui":
        value = call(unsigned(kind), value)
    return call(kind, value)


def _index_cast(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
    (value,) = operands
    source, target = op.operands[0].type, op.results[0].type
    if _is_int(source) and _is_int(target):
        return value
    if source == i1:
        return call(_kind(shader, op), value)
    found = _converted(shader, op, operands)
    return replace(found, non_negative=value.non_negative)


def _truncate(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
    (value,) = operands
    if op.results[0].type != i1:
        return call(_kind(shader, op), value)
    kind = shader.type(op.operands[0].type)
    one, zero = (
        number(bit) if kind == "int" else call(kind, Expression(str(bit))) for bit in (1, 0)
    )
    return binary("!=", binary("&", value, one), zero)


def _bitcast(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
    (value,) = operands
    source, target = op.operands[0].type, op.results[0].type
    if source == target:
        return value
    _kind(shader, op)
    function = _BITCASTS.get((is_float(source), width_of(source)))
    return call(function, value) if function and is_float(source) != is_float(target) else value


_BITCASTS: Final = {
    (True, 16): "float16BitsToInt16",
    (True, 32): "floatBitsToInt",
    (True, 64): "doubleBitsToInt64",
    (False, 16): "int16BitsToFloat16",
    (False, 32): "intBitsToFloat",
    (False, 64): "int64BitsToDouble",
}


def _negate(shader: Shader, op: Operation, operands: list[Expression]) -> Expression:
    found = unary("-", *operands)
    return replace(found, precedence=UNARY)


ROWS: Final[dict[str, Row]] = {
    "arith.addf": _rounded("+"),
    "arith.addi": _add,
    "arith.andi": _bitwise("&", "&&"),
    "arith.bitcast": _bitcast,
    "arith.cmpf": _compare_floats,
    "arith.cmpi": _compare_integers,
    "arith.divf": lambda shader, op, operands: binary("/", *operands),
    "arith.divsi": lambda shader, op, operands: binary("/", *operands),
    "arith.divui": _divide_unsigned,
    "arith.extf": _converted,
    "arith.extsi": _converted,
    "arith.extui": _converted,
    "arith.fptosi": _converted,
    "arith.fptoui": _converted,
    "arith.index_cast": _index_cast,
    "arith.index_castui": _index_cast,
    "arith.maximumf": _helped("maximum"),
    "arith.maxnumf": _helped("max_number"),
    "arith.maxsi": _signed_extreme("max"),
    "arith.maxui": _unsigned(_function("max")),
    "arith.minimumf": _helped("minimum"),
    "arith.minnumf": _helped("min_number"),
    "arith.minsi": _signed_extreme("min"),
    "arith.minui": _unsigned(_function("min")),
    "arith.mulf": _rounded("*"),
    "arith.muli": _multiply,
    "arith.negf": _negate,
    "arith.ori": _bitwise("|", "||"),
    "arith.remf": _helped("remainder_float"),
    "arith.remsi": _helped("remainder"),
    "arith.remui": _rest_unsigned,
    "arith.select": _select,
    "arith.shli": lambda shader, op, operands: binary("<<", *operands),
    "arith.shrsi": lambda shader, op, operands: binary(">>", *operands),
    "arith.shrui": _unsigned(_operator(">>")),
    "arith.sitofp": _converted,
    "arith.subf": _rounded("-"),
    "arith.subi": _subtract,
    "arith.truncf": _converted,
    "arith.trunci": _truncate,
    "arith.uitofp": _converted,
    "arith.xori": _bitwise("^", "!="),
    "math.absf": _called("abs"),
    "math.absi": _called("abs"),
    "math.atan": _called("atan"),
    "math.atan2": _called("atan"),
    "math.ceil": _called("ceil"),
    "math.copysign": _helped("copy_sign"),
    "math.cos": _called("cos"),
    "math.ctpop": _called("bitCount"),
    "math.erf": _helped("erf"),
    "math.erfc": _helped("erfc"),
    "math.exp": _called("exp"),
    "math.exp2": _called("exp2"),
    "math.expm1": _helped("exp_minus_1"),
    "math.floor": _called("floor"),
    "math.fma": _called("fma"),
    "math.log": _called("log"),
    "math.log10": _log10,
    "math.log1p": _helped("log_of_1_plus"),
    "math.log2": _called("log2"),
    "math.powf": _helped("power"),
    "math.round": _helped("round_away"),
    "math.roundeven": _called("roundEven"),
    "math.rsqrt": _called("inversesqrt"),
    "math.sin": _called("sin"),
    "math.sqrt": _called("sqrt"),
    "math.tan": _called("tan"),
    "math.tanh": _called("tanh"),
    "math.trunc": _called("trunc"),
}
"""By the name of the op."""

TWICE: Final = frozenset({6, 7, 8, 14})
"""Predicates of floats whose text has each operand twice."""
HINTS: Final = {
    "arith.addf": "sum",
    "arith.subf": "difference",
    "arith.mulf": "product",
    "arith.divf": "quotient",
    "arith.cmpi": "inside",
    "arith.cmpf": "holds",
    "arith.andi": "both",
    "arith.index_cast": "index",
    "arith.addi": "place",
    "arith.subi": "rest",
    "arith.muli": "start",
    "arith.divui": "row",
    "arith.remui": "column",
    "arith.maxsi": "most",
    "arith.minsi": "least",
    "arith.select": "chosen",
    "arith.maximumf": "largest",
    "arith.minimumf": "smallest",
    "arith.extf": "value",
    "arith.truncf": "rounded",
    "arith.extsi": "value",
    "arith.extui": "value",
    "arith.trunci": "value",
    "arith.fptosi": "whole",
    "arith.sitofp": "value",
    "arith.ori": "either",
    "arith.remf": "rest",
    "math.absf": "size",
    "math.exp": "power",
    "math.fma": "total",
    "nn.dot_bytes": "total",
    "memref.load": "value",
    "vector.load": "values",
    "gpu.shuffle": "other",
    "gpu.block_id": "group",
    "gpu.grid_dim": "groups",
    "gpu.thread_id": "thread",
    "gpu.lane_id": "lane",
    "gpu.subgroup_id": "subgroup",
    "gpu.subgroup_mma_load_matrix": "tile",
    "gpu.subgroup_mma_constant_matrix": "zeros",
    "gpu.subgroup_mma_compute": "sums",
    "gpu.tensor_load": "part",
    "gpu.matrix_convert": "converted",
    "gpu.matrix_map": "finished",
    "gpu.matrix_reduce": "joined",
}
"""Names for values that the program gives none: by the op that computes them."""


def hint_of(op: Operation) -> str:
    """A name for a value without one."""
    return HINTS.get(op.name, "") or op.name.rpartition(".")[2]
