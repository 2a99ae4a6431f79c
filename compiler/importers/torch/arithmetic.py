"""Handlers of elementwise arithmetic and comparison."""

from __future__ import annotations

from math import copysign as copysign_of
from math import log

from openinfer.compiler.importers.graph_writer import Operand, Value
from openinfer.compiler.importers.torch.handlers import Call, Handler, handles, number_of
from openinfer.compiler.importers.torch.refusals import Refused
from openinfer.dialects.ops.base import FLOATS


def _binary(op: str) -> Handler:
    """An op of two operands in the dtype in which PyTorch computes."""

    def handler(call: Call) -> Value:
        _, operands = call.promoted("self", "other")
        return call.g.op(op, *operands)

    return handler


for _op in ("eq", "ne", "lt", "le", "gt", "ge"):
    handles(f"aten.{_op}.Tensor", f"aten.{_op}.Scalar")(_binary(_op))
for _name, _op in (
    ("mul", "mul"),
    ("bitwise_and", "and"),
    ("bitwise_or", "or"),
    ("bitwise_xor", "xor"),
):
    handles(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")(_binary(_op))
for _op in ("and", "or", "xor"):
    handles(f"aten.__{_op}__.Tensor", f"aten.__{_op}__.Scalar")(_binary(_op))
handles("aten.fmax.default")(_binary("max"))
handles("aten.fmin.default")(_binary("min"))


def _scaled_by_alpha(call: Call, name: str, dtype: str) -> Operand:
    """`alpha * name`."""
    (operand,) = [call.operand(name, dtype)]
    if isinstance(operand, Value):
        operand = call.cast(operand, dtype)
    alpha = call.number("alpha")
    if alpha == 1:
        return operand
    if isinstance(operand, Value):
        return call.g.op("mul", operand, float(alpha) if dtype in FLOATS else int(alpha))
    return operand * alpha


def _sum(call: Call, op: str, left: str, right: str) -> Value:
    dtype, operands = call.promoted("self", "other")
    first = operands[0 if left == "self" else 1]
    second = _scaled_by_alpha(call, right, dtype)
    if not isinstance(first, Value) and not isinstance(second, Value):
        raise Refused("both operands are numbers")
    return call.g.op(op, first, second)


@handles("aten.add.Tensor", "aten.add.Scalar")
def add(call: Call) -> Value:
    """`self + alpha * other`; a zero is left out."""
    if call.raw("other") == 0 and call.dtype == call.tensor("self").dtype:
        call.skip("alpha")
        return call.tensor("self")
    return _sum(call, "add", "self", "other")


@handles("aten.sub.Tensor", "aten.sub.Scalar")
def sub(call: Call) -> Value:
    """`self - alpha * other`."""
    return _sum(call, "sub", "self", "other")


@handles("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(call: Call) -> Value:
    """`other - alpha * self`."""
    return _sum(call, "sub", "other", "self")


@handles("aten.div.Tensor", "aten.div.Scalar")
def div(call: Call) -> Value:
    """True division: of integers in floats."""
    return call.g.op("div", *call.as_dtype(call.dtype, "self", "other"))


@handles("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_rounded(call: Call) -> Value:
    """Division whose result is rounded down ("floor") or toward zero ("trunc")."""
    mode = call.raw("rounding_mode")
    if mode is None:
        return div(call)
    if mode == "floor":
        return floor_divide(call)
    dtype, operands = call.promoted("self", "other")
    quotient = call.g.op("div", *operands)
    return call.g.op("trunc", quotient) if dtype in FLOATS else quotient


@handles("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(call: Call) -> Value:
    """The quotient rounded down. Of floats it is that of the exact remainder, as in Python: `1.0 // 0.1` is
    9, where the rounded quotient is 10."""
    dtype, (x, y) = call.promoted("self", "other")
    g = call.g
    if dtype not in FLOATS:
        return g.op("floor_div", x, y)
    quotient = g.op("div", x, y)
    if not isinstance(y, Value) and y == 0:
        return quotient
    rest = g.op("rem", x, y)
    whole = g.op("round_even", g.op("div", g.op("sub", x, rest), y))
    if not isinstance(y, Value):
        other_sign = g.op("lt" if y > 0 else "gt", rest, 0.0)
        return g.op("where", other_sign, g.op("sub", whole, 1.0), whole)
    apart = g.op("xor", g.op("lt", rest, 0.0), g.op("lt", y, 0.0))
    other_sign = g.op("and", g.op("ne", rest, 0.0), apart)
    found = g.op("where", other_sign, g.op("sub", whole, 1.0), whole)
    return g.op("where", g.op("eq", y, 0.0), quotient, found)


for _name, _op in (("remainder", "floor_mod"), ("fmod", "rem")):
    handles(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")(_binary(_op))
handles("aten.remainder.Scalar_Tensor")(_binary("floor_mod"))


@handles("aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def pow_tensor(call: Call) -> Value:
    """`self ** exponent`; of integers too, by repeated squaring where the exponent is a number."""
    dtype, operands = call.promoted("self", "exponent")
    if dtype not in FLOATS:
        raise Refused("powers of integers with a computed exponent", "cast to float first")
    return call.g.op("pow", *operands)


@handles("aten.pow.Tensor_Scalar")
def pow_number(call: Call) -> Value:
    exponent = call.number("exponent")
    x = call.cast(call.tensor("self"), call.dtype)
    if call.dtype in FLOATS:
        return _float_power(call, x, float(exponent))
    if exponent < 0 or exponent != int(exponent):
        raise Refused("an integer to a negative power")
    return _whole_power(call, x, int(exponent))


def _float_power(call: Call, x: Value, exponent: float) -> Value:
    """Powers that are another op, exactly as PyTorch computes them."""
    match exponent:
        case 1.0:
            return x
        case 2.0:
            return call.g.op("mul", x, x)
        case 3.0:
            return call.g.op("mul", call.g.op("mul", x, x), x)
        case 0.5:
            return call.g.op("sqrt", x)
        case -0.5:
            return call.g.op("rsqrt", x)
        case -1.0:
            return call.g.op("recip", x)
        case _:
            return call.g.op("pow", x, exponent)


def _whole_power(call: Call, x: Value, exponent: int) -> Value:
    """Repeated squaring; integers wrap."""
    result: Value | None = None
    while exponent:
        if exponent & 1:
            result = x if result is None else call.g.op("mul", result, x)
        exponent >>= 1
        if exponent:
            x = call.g.op("mul", x, x)
    if result is None:
        return call.expand(call.reader.scalar(1, x.dtype), x.dims)
    return result


def _extreme(op: str) -> Handler:
    """The larger or smaller one; a NaN wins in PyTorch, and is ignored by the op."""

    def handler(call: Call) -> Value:
        dtype, (x, y) = call.promoted("self", "other")
        if dtype == "bool":
            return call.g.op("or" if op == "max" else "and", x, y)
        found = call.g.op(op, x, y)
        if dtype not in FLOATS:
            return found
        for one in (x, y):
            if isinstance(one, Value):
                found = call.g.op("where", call.g.op("is_nan", one), one, found)
        return found

    return handler


handles("aten.maximum.default", "aten.max.other")(_extreme("max"))
handles("aten.minimum.default", "aten.min.other")(_extreme("min"))


@handles("aten.copysign.Tensor", "aten.copysign.Scalar")
def copysign(call: Call) -> Value:
    """The magnitude of self with the sign of other, which a zero and a NaN have, too."""
    g = call.g
    x, y = call.as_dtype(call.dtype, "self", "other")
    size = g.op("abs", x)
    if not isinstance(y, Value):
        return size if copysign_of(1.0, y) > 0 else g.op("neg", size)
    return g.op("where", g.op("is_neg", y), g.op("neg", size), size)


@handles("aten.atan2.default")
def atan2(call: Call) -> Value:
    return call.g.op("atan2", *call.as_dtype(call.dtype, "self", "other"))


def _logical(op: str) -> Handler:
    def handler(call: Call) -> Value:
        operands = [call.cast(call.tensor(name), "bool") for name in ("self", "other")]
        return call.g.op(op, *operands)

    return handler


for _op in ("and", "or", "xor"):
    handles(f"aten.logical_{_op}.default")(_logical(_op))


@handles("aten.logical_not.default")
def logical_not(call: Call) -> Value:
    return call.g.op("not", call.cast(call.tensor("self"), "bool"))


@handles("aten.bitwise_not.default")
def bitwise_not(call: Call) -> Value:
    return call.g.op("not", call.tensor("self"))


for _side in ("left", "right"):
    _overloads = [f"aten.bitwise_{_side}_shift.{kind}" for kind in ("Tensor", "Tensor_Scalar")]
    _short = [f"aten.__{_side[0]}shift__.{kind}" for kind in ("Tensor", "Scalar")]
    handles(*_overloads, *_short)(_binary(f"shift_{_side}"))


@handles("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def where(call: Call) -> Value:
    x, y = (_as(call, name, call.dtype) for name in ("self", "other"))
    if not isinstance(x, Value) and not isinstance(y, Value):
        x = call.reader.scalar(x, call.dtype)
    return call.g.op("where", call.cast(call.tensor("condition"), "bool"), x, y)


def _as(call: Call, name: str, dtype: str) -> Operand:
    operand = call.operand(name, dtype)
    return call.cast(operand, dtype) if isinstance(operand, Value) else operand


@handles("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(call: Call) -> Value:
    return call.g.op(
        "where", call.tensor("mask"), _as(call, "value", call.dtype), call.tensor("self")
    )


@handles("aten.clamp.default")
def clamp(call: Call) -> Value:
    return _limited(call, "min", "max")


def _limited(call: Call, *names: str) -> Value:
    """Limits; a NaN becomes a limit (PyTorch keeps it), but for a least value of 0, which is `relu`."""
    x = call.cast(call.tensor("self"), call.dtype)
    limits = {name: number_of(call.number(name), x.dtype) for name in names if call.given(name)}
    if x.dtype in FLOATS and limits.get("min") == 0 and limits.get("max", 0) >= 0:
        above = {"clamp_max": limits["max"]} if "max" in limits else {}
        return call.g.op("relu", x, **above)
    return call.g.op("clamp", x, **limits)


@handles("aten.clamp_min.default")
def clamp_min(call: Call) -> Value:
    return _limited(call, "min")


@handles("aten.clamp_max.default")
def clamp_max(call: Call) -> Value:
    return _limited(call, "max")


@handles("aten.clamp.Tensor", "aten.clamp_min.Tensor", "aten.clamp_max.Tensor")
def clamp_tensor(call: Call) -> Value:
    x = call.cast(call.tensor("self"), call.dtype)
    overload = str(call.node.target)
    if "max.Tensor" not in overload and call.given("min"):
        x = call.g.op("max", x, _as(call, "min", call.dtype))
    if "min.Tensor" not in overload and call.given("max"):
        x = call.g.op("min", x, _as(call, "max", call.dtype))
    return x


@handles("aten.addcmul.default")
def addcmul(call: Call) -> Value:
    """`self + value * tensor1 * tensor2`."""
    product = call.g.op("mul", *call.as_dtype(call.dtype, "tensor1", "tensor2"))
    return _accumulated(call, product)


@handles("aten.addcdiv.default")
def addcdiv(call: Call) -> Value:
    """`self + value * tensor1 / tensor2`."""
    quotient = call.g.op("div", *call.as_dtype(call.dtype, "tensor1", "tensor2"))
    return _accumulated(call, quotient)


def _accumulated(call: Call, term: Value) -> Value:
    value = call.number("value")
    if value != 1:
        term = call.g.op("mul", term, float(value) if call.dtype in FLOATS else int(value))
    return call.g.op("add", call.cast(call.tensor("self"), call.dtype), term)


@handles("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(call: Call) -> Value:
    """`self + weight * (end - self)`, from half of the way on `end - (1 - weight) * (end - self)`, as
    PyTorch: where one of them is infinite, that matters."""
    g = call.g
    x, end = call.as_dtype(call.dtype, "self", "end")
    weight = _as(call, "weight", call.dtype)
    way = g.op("sub", end, x)
    near = abs(weight) < 0.5 if not isinstance(weight, Value) else None
    parts: list[Value] = []
    if near is not False:
        parts.append(g.op("add", x, g.op("mul", way, weight)))
    if near is not True:
        rest = g.op("sub", 1.0, weight) if isinstance(weight, Value) else 1.0 - weight
        parts.append(g.op("sub", end, g.op("mul", way, rest)))
    if len(parts) == 1:
        return parts[0]
    assert isinstance(weight, Value)
    return g.op("where", g.op("lt", g.op("abs", weight), 0.5), *parts)


@handles("aten.logaddexp.default")
def logaddexp(call: Call) -> Value:
    """`max(x, y) + log(1 + exp(-|x - y|))`; of equal ones, which may be infinite, `x + log(2)`."""
    g = call.g
    x, y = call.as_dtype(call.dtype, "self", "other")
    apart = g.op("neg", g.op("abs", g.op("sub", x, y)))
    found = g.op("add", g.op("max", x, y), g.op("log1p", g.op("exp", apart)))
    return g.op("where", g.op("eq", x, y), g.op("add", x, log(2)), found)
