"""Handlers of functions of one tensor: activations, roundings, conversions."""

from __future__ import annotations

from math import inf, log, pi

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.torch.handlers import Call, Handler, handles, number_of
from openinfer.compiler.importers.torch.refusals import Refused
from openinfer.dialects.ops.base import FLOATS, UNSIGNED


def _unary(op: str) -> Handler:
    """An op of one operand, in the dtype of the result: integers become floats where PyTorch says so."""

    def handler(call: Call) -> Value:
        return call.g.op(op, call.cast(call.tensor("self"), call.dtype))

    return handler


_SAME_NAME = "neg exp expm1 log log1p sqrt rsqrt sin cos tan atan tanh erf floor ceil trunc"
_INVERSE = "asin acos sinh cosh asinh acosh atanh"
for _op in f"{_SAME_NAME} {_INVERSE} sigmoid silu selu mish".split():
    handles(f"aten.{_op}.default")(_unary(_op))
for _name, _op in (
    ("reciprocal", "recip"),
    ("hardswish", "hard_swish"),
    ("relu", "relu"),
    ("abs", "abs"),
):
    handles(f"aten.{_name}.default")(_unary(_op))


def _composed(name: str, *steps: tuple[str, float | None], wide: bool = False) -> None:
    """Registers a function that is a chain of ops, each with the number behind the value or none; `wide` ones
    are computed in f64, so that `log2(8)` is 3 and not a little less."""

    def handler(call: Call) -> Value:
        x = call.cast(call.tensor("self"), "f64" if wide else call.dtype)
        for op, number in steps:
            x = call.g.op(op, x) if number is None else call.g.op(op, x, number)
        return call.cast(x, call.dtype)

    handles(f"aten.{name}.default")(handler)


_composed("log2", ("log", None), ("mul", 1 / log(2)), wide=True)
_composed("log10", ("log", None), ("mul", 1 / log(10)), wide=True)
_composed("exp2", ("mul", log(2)), ("exp", None), wide=True)
_composed("erfc", ("erf", None), ("neg", None), ("add", 1.0), wide=True)
_composed("log_sigmoid", ("neg", None), ("softplus", None), ("neg", None))
_composed("deg2rad", ("mul", pi / 180))
_composed("rad2deg", ("mul", 180 / pi))


@handles("aten.square.default")
def square(call: Call) -> Value:
    x = call.tensor("self")
    return call.g.op("mul", x, x)


@handles("aten.round.default")
def round_even(call: Call) -> Value:
    """Halves go to the even neighbour; the op `round` takes them away from zero."""
    x = call.tensor("self")
    return call.g.op("round_even", x) if x.dtype in FLOATS else x


@handles("aten.frac.default")
def frac(call: Call) -> Value:
    x = call.tensor("self")
    return call.g.op("sub", x, call.g.op("trunc", x))


@handles("aten.sign.default", "aten.sgn.default")
def sign(call: Call) -> Value:
    x = call.tensor("self")
    if x.dtype in UNSIGNED or x.dtype == "bool":
        return call.cast(call.g.op("ne", x, call.reader.scalar(0, x.dtype)), x.dtype)
    return call.cast(call.g.op("sign", x), x.dtype)


@handles("aten.signbit.default")
def signbit(call: Call) -> Value:
    """Whether the sign is set: of -0.0, too."""
    x = call.tensor("self")
    if x.dtype in UNSIGNED or x.dtype == "bool":
        return call.expand(call.reader.scalar(False, "bool"), x.dims)
    return call.g.op("is_neg", x)


@handles("aten.isnan.default")
def isnan(call: Call) -> Value:
    return _of_floats(call, "is_nan")


@handles("aten.isinf.default")
def isinf(call: Call) -> Value:
    return _of_floats(call, "is_inf")


def _of_floats(call: Call, op: str) -> Value:
    x = call.tensor("self")
    if x.dtype in FLOATS:
        return call.g.op(op, x)
    return call.expand(call.reader.scalar(False, "bool"), x.dims)


@handles("aten.gelu.default")
def gelu(call: Call) -> Value:
    call.must("approximate", "none", "tanh")
    how = call.text("approximate")
    settings = {} if how == "none" else {"approximate": how}
    return call.g.op("gelu", call.tensor("self"), **settings)


@handles("aten.softplus.default")
def softplus(call: Call) -> Value:
    """`log(1 + exp(beta * x)) / beta`; above the threshold PyTorch takes x, which is the same but for the
    rounding."""
    beta, _ = float(call.number("beta")), call.number("threshold")
    x = call.tensor("self")
    if beta == 1:
        return call.g.op("softplus", x)
    return call.g.op("div", call.g.op("softplus", call.g.op("mul", x, beta)), beta)


@handles("aten.elu.default")
def elu(call: Call) -> Value:
    call.must("scale", 1, 1.0)
    call.must("input_scale", 1, 1.0)
    return call.g.op("elu", call.tensor("self"), alpha=float(call.number("alpha")))


@handles("aten.celu.default")
def celu(call: Call) -> Value:
    return call.g.op("celu", call.tensor("self"), alpha=float(call.number("alpha")))


@handles("aten.leaky_relu.default")
def leaky_relu(call: Call) -> Value:
    slope = number_of(call.number("negative_slope"), call.dtype)
    return call.g.op("relu", call.tensor("self"), negative_slope=slope)


@handles("aten.prelu.default", "aten._prelu_kernel.default")
def prelu(call: Call) -> Value:
    return call.g.op("prelu", call.tensor("self"), call.tensor("weight"))


@handles("aten.hardtanh.default")
def hardtanh(call: Call) -> Value:
    low, high = (number_of(call.number(name), call.dtype) for name in ("min_val", "max_val"))
    if low == 0:
        return call.g.op("relu", call.tensor("self"), clamp_max=high)
    return call.g.op("clamp", call.tensor("self"), min=low, max=high)


@handles("aten.relu6.default")
def relu6(call: Call) -> Value:
    return call.g.op("relu", call.tensor("self"), clamp_max=number_of(6, call.dtype))


@handles("aten.hardsigmoid.default")
def hardsigmoid(call: Call) -> Value:
    """`min(max(x + 3, 0), 6) / 6`."""
    moved = call.g.op("add", call.tensor("self"), 3.0)
    return call.g.op("div", call.g.op("relu", moved, clamp_max=6.0), 6.0)


@handles("aten.threshold.default")
def threshold(call: Call) -> Value:
    g, x = call.g, call.tensor("self")
    limit, value = (number_of(call.number(name), x.dtype) for name in ("threshold", "value"))
    return g.op("where", g.op("le", x, limit), value, x)


@handles("aten.glu.default")
def glu(call: Call) -> Value:
    """The first half of an axis, by the sigmoid of the second."""
    x = call.tensor("self")
    left, right = call.g.ops("split", x, results=2, axis=call.axis(x.rank))
    return call.g.op("mul", left, call.g.op("sigmoid", right))


@handles("aten.nan_to_num.default")
def nan_to_num(call: Call) -> Value:
    x = call.tensor("self")
    if x.dtype not in FLOATS:
        call.skip("nan", "posinf", "neginf")
        return x
    from openinfer.compiler.importers.torch.library import torch, torch_dtype

    limits = torch().finfo(torch_dtype(x.dtype))
    g = call.g
    nan, high, low = (
        float(default if call.raw(name) is None else call.number(name))
        for name, default in (("nan", 0.0), ("posinf", limits.max), ("neginf", limits.min))
    )
    x = g.op("where", g.op("is_nan", x), nan, x)
    x = g.op("where", g.op("eq", x, inf), high, x)
    return g.op("where", g.op("eq", x, -inf), low, x)


@handles("aten._to_copy.default")
def to_copy(call: Call) -> Value:
    """Another dtype; where and how the copy lies says nothing."""
    call.raw("dtype")
    return call.cast(call.tensor("self"), call.dtype)


@handles(
    "aten.clone.default",
    "aten.alias.default",
    "aten.detach.default",
    "aten.contiguous.default",
    "aten.lift_fresh_copy.default",
    "aten.positive.default",
    "aten.conj.default",
    "aten.resolve_conj.default",
    "aten.resolve_neg.default",
)
def same(call: Call) -> Value:
    return call.tensor("self")


@handles("aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default")
def dropout(call: Call) -> Value:
    call.skip("p")
    if call.flag("train"):
        raise Refused("dropout of training is random", "export the module in eval mode: .eval()")
    return call.tensor("input")


@handles("aten.native_dropout.default")
def native_dropout(call: Call) -> tuple[Value, None]:
    call.skip("p")
    if call.flag("train"):
        raise Refused("dropout of training is random", "export the module in eval mode: .eval()")
    return call.tensor("input"), None
