"""Ops of single elements in ONNX.

NaN in `min`, `max` and `clamp` is ignored by us and kept by ONNX; of other values all results are equal.
"""

from __future__ import annotations

from typing import Any

from openinfer.compiler.exporters.onnx.calls import HANDLERS, Call, Handler, op
from openinfer.compiler.exporters.onnx.graph import NoForm, Value, element_number
from openinfer.dialects.ops.base import TensorSpec
from openinfer.runtime.dtypes import DTYPES, DType

_SAME = {
    **{"neg": "Neg", "abs": "Abs", "floor": "Floor", "ceil": "Ceil", "round_even": "Round"},
    **{"exp": "Exp", "log": "Log", "sqrt": "Sqrt", "recip": "Reciprocal", "erf": "Erf"},
    **{"sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan"},
    **{"sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh"},
    **{"tanh": "Tanh", "sigmoid": "Sigmoid", "softplus": "Softplus", "mish": "Mish"},
    **{"hard_swish": "HardSwish", "is_nan": "IsNaN", "is_inf": "IsInf"},
    **{"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow"},
    **{"min": "Min", "max": "Max", "where": "Where", "gather_elements": "GatherElements"},
    **{"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"},
}
_PLAIN = ("acc", "div_by_zero_mask")


def _same(name: str, target: str) -> Handler:
    def handler(call: Call) -> list[str]:
        call.only(**{key: None for key in _PLAIN if key in call.settings})
        if name == "where" and call.operands[0].dtype != "bool":
            raise NoForm("the condition must be bool")
        if name in ("add", "mul") and call.x.dtype in ("bool", "bitset"):
            return call.last("Or" if name == "add" else "And", *call.names)
        if name == "div" and not call.is_float:
            raise NoForm("integer division by 0 is 0 here, and an error there")
        extra = {"axis": call.axis()} if name == "gather_elements" else {}
        return call.last(target, *call.names, **extra)

    return handler


for _name, _target in _SAME.items():
    HANDLERS[_name] = _same(_name, _target)


@op("ne")
def _ne(call: Call) -> list[str]:
    return call.last("Not", call.node("Equal", *call.names))


@op("is_finite")
def _is_finite(call: Call) -> list[str]:
    odd = call.node("Or", call.node("IsNaN", call.x.name), call.node("IsInf", call.x.name))
    number = call.node("Cast", call.node("Not", odd), to=element_number("i32"))
    found = call.node("ReduceMin", number, keepdims=0)
    return call.last("Cast", found, to=element_number("bool"))


@op("filter")
def _filter(call: Call) -> list[str]:
    x, y, condition = call.operands
    if condition.dtype != "bool":
        raise NoForm("the condition must be bool")
    return call.last("Where", condition.name, x.name, y.name)


@op("quantize", "dequantize")
def _quantize(call: Call) -> list[str]:
    x, *given = call.operands
    for name in ("scale", "zero_point")[len(given) :]:
        number = call.settings[name]
        if number is None and name == "zero_point":
            break
        if not isinstance(number, int | float):
            raise NoForm(f"{name} must be a number or an operand")
        dtype = (
            ("f32" if call.op == "dequantize" else x.dtype)
            if name == "scale"
            else (x.dtype if call.op == "dequantize" else call.results[0].dtype)
        )
        given.append(Value(call.number(number, dtype), dtype, ()))
    if given[0].dtype != (call.results[0] if call.op == "dequantize" else x).dtype:
        raise NoForm(f"a scale of {given[0].dtype} has no form in ONNX")
    axis = call.settings["axis"]
    names = [x.name, *(value.name for value in given)]
    attributes: dict[str, Any] = {} if axis is None else {"axis": int(axis)}
    if call.op == "dequantize":
        return call.last("DequantizeLinear", *names, **attributes)
    if len(given) < 2:
        attributes["output_dtype"] = element_number(call.results[0].dtype)
    return call.last("QuantizeLinear", *names, **attributes)


@op("and", "or", "xor", "not")
def _bits(call: Call) -> list[str]:
    name = call.op.capitalize()
    return call.last(name if call.x.dtype == "bool" else f"Bitwise{name}", *call.names)


@op("rem")
def _rem(call: Call) -> list[str]:
    if not call.is_float:
        raise NoForm("an integer remainder of division by 0 is 0 here, and an error there")
    return call.last("Mod", *call.names, fmod=1)


@op("trunc", "round")
def _whole(call: Call) -> list[str]:
    size = call.node("Abs", call.x.name)
    whole = call.node("Floor", size)
    if call.op == "round":
        half = call.node("GreaterOrEqual", call.node("Sub", size, whole), call.number(0.5))
        whole = call.node("Add", whole, call.node("Cast", half, to=element_number(call.x.dtype)))
    return call.last("Mul", call.node("Sign", call.x.name), whole)


@op("rsqrt")
def _rsqrt(call: Call) -> list[str]:
    return call.last("Reciprocal", call.node("Sqrt", call.x.name))


@op("fma")
def _fma(call: Call) -> list[str]:
    x, y, z = call.names
    return call.last("Add", call.node("Mul", x, y), z)


@op("silu")
def _silu(call: Call) -> list[str]:
    return call.last("Mul", call.x.name, call.node("Sigmoid", call.x.name))


@op("gelu")
def _gelu(call: Call) -> list[str]:
    return call.last("Gelu", call.x.name, approximate=call.settings["approximate"])


@op("elu", "celu")
def _elu(call: Call) -> list[str]:
    return call.last(call.op.capitalize(), call.x.name, alpha=float(call.settings["alpha"]))


@op("selu")
def _selu(call: Call) -> list[str]:
    return call.last("Selu", call.x.name)


@op("prelu")
def _prelu(call: Call) -> list[str]:
    x, slope = call.operands
    name = slope.name
    if slope.rank == 1 and x.rank > 1:
        places = tuple(range(1, x.rank - 1))
        name = call.node("Unsqueeze", name, call.g.ints(places)) if places else name
    return call.last("PRelu", x.name, name)


@op("relu")
def _relu(call: Call) -> list[str]:
    slope, low, high = (call.settings[k] for k in ("negative_slope", "clamp_min", "clamp_max"))
    if slope and not call.is_float:
        raise NoForm("negative_slope of integers has no form in ONNX")
    limits = (low, high) != (None, None)
    stem = {} if limits else {"stem": call.stems[0]}
    if slope:
        found = call.g.node("LeakyRelu", call.x.name, alpha=float(slope), **stem)
    else:
        found = call.g.node("Relu", call.x.name, **stem)
    return _clipped(call, found, low, high) if limits else [found]


@op("clamp")
def _clamp(call: Call) -> list[str]:
    return _clipped(call, call.x.name, call.settings["min"], call.settings["max"])


def _clipped(call: Call, x: str, low: Any, high: Any) -> list[str]:
    limits = ["" if limit is None else call.number(limit) for limit in (low, high)]
    return call.last("Clip", x, *limits)


@op("cast")
def _cast(call: Call) -> list[str]:
    source, target = DTYPES[call.x.dtype], DTYPES[call.results[0].dtype]
    x = call.x.name
    attributes: dict[str, Any] = {}
    if source.is_float and target.is_integer:
        mode = call.settings["rounding_mode"]
        rounds = {"floor": "Floor", "ceil": "Ceil", "even": "Round"}
        if mode != "trunc" and mode not in rounds:
            raise NoForm(f"rounding_mode={mode} has no form in ONNX")
        if not call.settings["saturate"]:
            raise NoForm("the low bits of a float that is too large have no form in ONNX")
        x = call.node(rounds[mode], x) if mode in rounds else x
    if target.is_integer and call.settings["saturate"]:
        x = _limited(call, x, source, target)
    if target.name in ("f8", "f8e4m3"):
        # What is too large becomes infinite or NaN.
        attributes["saturate"] = 0
    return call.last("Cast", x, to=element_number(target.name), **attributes)


def _limited(call: Call, x: str, source: DType, target: DType) -> str:
    """The nearest values that the target holds: ONNX wraps integers, and says nothing of floats. Floats
    that do not fit 32 or 64 bits are left to it."""
    low, high = _limits(target)
    number = source.name
    if source.is_float:
        if target.bits > 16:
            return x
        if source.bits < 32:
            number = "f32"
    elif source.is_integer:
        least, most = _limits(source)
        low, high = (low if low > least else None), (high if high < most else None)
        if source.bits < 32:
            number = "i32"
    else:
        return x
    if (low, high) == (None, None):
        return x
    if number != source.name:
        x = call.node("Cast", x, to=element_number(number))
    limits = ["" if limit is None else call.number(limit, number) for limit in (low, high)]
    return call.node("Clip", x, *limits)


def _limits(dtype: DType) -> tuple[int, int]:
    signed = dtype.kind == "int"
    return (-(1 << (dtype.bits - 1)) if signed else 0), (1 << (dtype.bits - signed)) - 1


@op("fill", "fill_nan_like")
def _fill(call: Call) -> list[str]:
    return _filled(call, call.settings["value"], call.results[0])


def _filled(call: Call, value: float, result: TensorSpec) -> list[str]:
    number = call.number(value, result.dtype)
    return call.last("Expand", number, call.g.shape(result.dims))
