"""Arithmetic, comparison, logic and conversion, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable

from openinfer.compiler.importers.graph_writer import GraphWriter, Operand, Value
from openinfer.compiler.importers.onnx.node import Node, Result, literal_of, operator
from openinfer.compiler.importers.onnx.protos import element_dtype
from openinfer.compiler.importers.onnx.training import trained_dropout
from openinfer.dialects.ops.base import FLOATS, INTEGERS, SIGNED

_SAME = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "IsNaN": "is_nan",
    "Log": "log",
    "Neg": "neg",
    "Not": "not",
    "BitwiseNot": "not",
    "Reciprocal": "recip",
    "Round": "round_even",
    "Sigmoid": "sigmoid",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}
"""Operators of one operand that are an op of ours under another name."""


def _same(name: str) -> Callable[[Node], Result]:
    def handler(node: Node) -> Result:
        node.ignore("consumed_inputs")
        return node.g.op(name, node.x())

    return handler


for _operator, _op in _SAME.items():
    operator(_operator)(_same(_op))

_BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Equal": "eq",
    "Less": "lt",
    "Greater": "gt",
    "LessOrEqual": "le",
    "GreaterOrEqual": "ge",
    "And": "and",
    "Or": "or",
    "Xor": "xor",
    "BitwiseAnd": "and",
    "BitwiseOr": "or",
    "BitwiseXor": "xor",
}


def _binary(name: str) -> Callable[[Node], Result]:
    def handler(node: Node) -> Result:
        return node.g.op(name, *node.operands())

    return handler


for _operator, _op in _BINARY.items():
    operator(_operator)(_binary(_op))


@operator("Sum")
def sum_of(node: Node) -> Result:
    values = [node.x(place) for place in range(len(node.inputs))]
    total = values[0]
    for value in values[1:]:
        total = node.g.op("add", total, value)
    return total


@operator("Mean")
def mean_of(node: Node) -> Result:
    total = sum_of(node)
    assert isinstance(total, Value)
    return node.g.op("div", total, float(len(node.inputs)))


@operator("Max", "Min")
def extreme(node: Node) -> Result:
    name = "max" if node.op == "Max" else "min"
    values = [node.x(place) for place in range(len(node.inputs))]
    result = values[0]
    for value in values[1:]:
        result = with_nan(node.g, node.g.op(name, result, value), result, value)
    return result


def with_nan(g: GraphWriter, result: Value, *operands: Value) -> Value:
    """`result`, but NaN where an operand is: ONNX's extremes hand it on, ours take the other number."""
    if result.dtype not in FLOATS:
        return result
    for operand in operands:
        result = g.op("where", g.op("is_nan", operand), operand, result)
    return result


@operator("Clip")
def clip(node: Node) -> Result:
    x = node.x()
    if node.version < 11:
        limits: list[Operand | None] = [node.float_or_none("min"), node.float_or_none("max")]
    else:
        limits = [_limit(node, place) for place in (1, 2)]
    settings = {
        name: limit
        for name, limit in zip(("min", "max"), limits)
        if limit is not None and not isinstance(limit, Value) and abs(limit) != math.inf
    }
    result = node.g.op("clamp", x, **settings) if settings else x
    for name, limit in zip(("max", "min"), limits):
        if isinstance(limit, Value):
            result = node.g.op(name, result, limit)
    return with_nan(node.g, result, x) if result is not x else result


def _limit(node: Node, place: int) -> Operand | None:
    if not node.there(place):
        return None
    item = node.item(place)
    if item.numbers() is not None and item.content is not None and item.content.size == 1:
        return literal_of(item)
    value = item.value
    return (
        node.g.op("reshape", value, shape=[1] * node.item(0).rank) if node.item(0).rank else value
    )


@operator("Pow")
def power(node: Node) -> Result:
    base, exponent = node.operands()
    if isinstance(base, Value) and base.dtype in INTEGERS:
        return _integer_power(node, base, exponent)
    if isinstance(base, Value) and not isinstance(exponent, Value) and exponent == 2:
        return node.g.op("mul", base, base)
    if isinstance(exponent, Value) and isinstance(base, Value) and exponent.dtype != base.dtype:
        exponent = node.g.op("cast", exponent, to=base.dtype)
    return node.g.op("pow", base, exponent)


def _integer_power(node: Node, base: Value, exponent: Operand) -> Result:
    """In f64, which holds every result below 2**53 exactly."""
    g = node.g
    wide = g.op("cast", base, to="f64")
    if isinstance(exponent, Value):
        exponent = g.op("cast", exponent, to="f64")
    else:
        exponent = float(exponent)
    return g.op("cast", g.op("round", g.op("pow", wide, exponent)), to=base.dtype)


@operator("Mod")
def modulo(node: Node) -> Result:
    return node.g.op("rem" if node.flag("fmod") else "floor_mod", *node.operands())


@operator("Sign")
def sign(node: Node) -> Result:
    x = node.x()
    if x.dtype not in FLOATS and x.dtype not in SIGNED:
        return node.g.op("cast", node.g.op("ne", x, 0), to=x.dtype)
    return with_nan(node.g, node.g.op("cast", node.g.op("sign", x), to=x.dtype), x)


@operator("IsInf")
def is_inf(node: Node) -> Result:
    g, x = node.g, node.x()
    up, down = node.flag("detect_positive", True), node.flag("detect_negative", True)
    found = g.op("is_inf", x)
    if up and down:
        return found
    if not up and not down:
        return g.op("ne", x, x) if x.dtype not in FLOATS else g.op("and", found, g.op("not", found))
    return g.op("and", found, g.op("gt" if up else "lt", x, 0.0))


@operator("Where")
def where(node: Node) -> Result:
    condition = node.x(0)
    a, b = node.item(1), node.item(2)
    return node.g.op("where", *node.agreed([condition, a.value, b.value]))


@operator("BitShift")
def bit_shift(node: Node) -> Result:
    node.expect("direction", "LEFT", "RIGHT")
    name = "shift_left" if node.text("direction", "") == "LEFT" else "shift_right"
    return node.g.op(name, *node.operands())


@operator("Cast")
def cast(node: Node) -> Result:
    to = element_dtype(node.int("to", 0), "Cast")
    node.expect("round_mode", "up")
    return converted(node, node.x(), to, saturate=node.flag("saturate", True))


@operator("CastLike")
def cast_like(node: Node) -> Result:
    node.expect("round_mode", "up")
    return converted(node, node.x(), node.item(1).dtype, saturate=node.flag("saturate", True))


NARROW = ("f8", "f8e4m3")
_LARGEST = {"f8": 57344.0, "f8e4m3": 448.0}


def converted(node: Node, x: Value, to: str, *, saturate: bool = True) -> Value:
    """Another dtype as ONNX converts: integers wrap, floats of 8 bits saturate if they are told to."""
    g = node.g
    if x.dtype == to:
        return x
    if to in INTEGERS and (x.dtype in INTEGERS or int(to[1:]) < 8):
        return g.op("cast", x, to=to, saturate=False)
    if to == "bool" and x.dtype in FLOATS:
        return g.op("ne", x, 0.0)
    if to in NARROW and saturate and x.dtype in FLOATS:
        limit = _LARGEST[to]
        inside = g.op("clamp", x, min=-limit, max=limit)
        return g.op("cast", with_nan(g, inside, x), to=to)
    return g.op("cast", x, to=to)


@operator("Identity", "Dropout")
def identity(node: Node) -> Result | list[Result]:
    item = node.item(0)
    if node.op == "Identity":
        return item
    node.ignore("ratio", "seed", "is_test")
    if node.there(2):
        if node.number(2) and not (node.there(1) and node.number(1) == 0):
            return trained_dropout(node)
    node.need(not node.flag("training_mode"), "training_mode=1")
    if not node.wants(1):
        return item
    x = item.value
    return [item, node.g.op("eq", x, x) if x.dtype not in FLOATS else _all_true(node, x)]


def _all_true(node: Node, x: Value) -> Value:
    nan = node.g.op("is_nan", x)
    return node.g.op("or", nan, node.g.op("not", nan))


@operator("BitCast")
def bit_cast(node: Node) -> Result:
    to = element_dtype(node.int("to", 0), "BitCast")
    x = node.x()
    if x.dtype == to:
        return x
    # A bool is a byte of 0 or 1.
    return node.g.op("cast" if {x.dtype, to} == {"bool", "u8"} else "bit_cast", x, to=to)
