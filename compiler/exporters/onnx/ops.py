"""What ops become in ONNX, a function each. What they do not say is refused, never said otherwise.

NaN in `min`, `max` and `clamp` is ignored by us and kept by ONNX; of other values all results are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openinfer.compiler.exporters.onnx.graph import GraphWriter, NoForm, Value, element_number
from openinfer.dialects.ops.base import TensorSpec, normal_axis
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size, SizeLike

_LAST = np.iinfo(np.int64).max


@dataclass
class Call:
    """One use of an op."""

    g: GraphWriter
    op: str
    operands: list[Value]
    settings: Mapping[str, Any]
    results: list[TensorSpec]
    stems: list[str]
    """What the results are called."""

    @property
    def names(self) -> list[str]:
        return [value.name for value in self.operands]

    @property
    def x(self) -> Value:
        return self.operands[0]

    @property
    def is_float(self) -> bool:
        return DTYPES[self.x.dtype].is_float

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A node on the way to the result."""
        return self.g.node(op, *inputs, **attributes)

    def last(self, op: str, *inputs: str, **attributes: Any) -> list[str]:
        """The node that gives the result."""
        return [self.g.node(op, *inputs, stem=self.stems[0], **attributes)]

    def number(self, value: float, dtype: str | None = None) -> str:
        return self.g.constant(value, dtype or self.x.dtype)

    def only(self, **allowed: object) -> None:
        """Raises NoForm for a setting with another value than this."""
        for name, value in allowed.items():
            if self.settings[name] != value:
                raise NoForm(f"{name}={self.settings[name]} has no form in ONNX")

    def axis(self, name: str = "axis") -> int:
        return normal_axis(self.settings[name], self.x.rank)


Handler = Callable[[Call], list[str]]
HANDLERS: dict[str, Handler] = {}


def op(*names: str) -> Callable[[Handler], Handler]:
    def enter(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return enter


# Elements

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
    source, target = call.x.dtype, call.results[0].dtype
    x = call.x.name
    if DTYPES[source].is_float and DTYPES[target].is_integer:
        mode = call.settings["rounding_mode"]
        rounds = {"floor": "Floor", "ceil": "Ceil", "even": "Round"}
        if mode != "trunc" and mode not in rounds:
            raise NoForm(f"rounding_mode={mode} has no form in ONNX")
        x = call.node(rounds[mode], x) if mode in rounds else x
    return call.last("Cast", x, to=element_number(target))


@op("fill", "fill_nan_like")
def _fill(call: Call) -> list[str]:
    return _filled(call, call.settings["value"], call.results[0])


def _filled(call: Call, value: float, result: TensorSpec) -> list[str]:
    number = call.number(value, result.dtype)
    return call.last("Expand", number, call.g.shape(result.dims))


# Along axes

_REDUCTIONS = {
    **{"sum_axis": "ReduceSum", "mean_axis": "ReduceMean", "prod_axis": "ReduceProd"},
    **{"max_axis": "ReduceMax", "min_axis": "ReduceMin", "logsumexp": "ReduceLogSumExp"},
}


def _axes(call: Call) -> tuple[int, ...]:
    given = call.settings["axes"]
    if given is None:
        return tuple(range(call.x.rank))
    axes = given if isinstance(given, tuple) else (given,)
    return tuple(normal_axis(axis, call.x.rank) for axis in axes)


@op(*_REDUCTIONS)
def _reduce(call: Call) -> list[str]:
    if "acc" in call.settings:
        call.only(acc=None)
    if call.op == "mean_axis" and not call.is_float:
        raise NoForm("a mean of integers has no form in ONNX")
    keepdims = int(call.settings["keepdims"])
    return call.last(_REDUCTIONS[call.op], call.x.name, call.g.ints(_axes(call)), keepdims=keepdims)


@op("any", "all")
def _any(call: Call) -> list[str]:
    x = call.x.name
    if call.x.dtype != "bool":
        x = call.node("Cast", x, to=element_number("bool"))
    number = call.node("Cast", x, to=element_number("i32"))
    found = call.node(
        "ReduceMax" if call.op == "any" else "ReduceMin",
        number,
        call.g.ints(_axes(call)),
        keepdims=int(call.settings["keepdims"]),
    )
    return call.last("Cast", found, to=element_number("bool"))


@op("var", "std")
def _var(call: Call) -> list[str]:
    axes = _axes(call)
    count = 1
    for axis in axes:
        count *= call.x.dims[axis].constant or 0
    if count <= call.settings["correction"]:
        raise NoForm("the number of elements must be known, and above the correction")
    mean = call.node("ReduceMean", call.x.name, call.g.ints(axes), keepdims=1)
    away = call.node("Sub", call.x.name, mean)
    keepdims = int(call.settings["keepdims"])
    squares = call.node("ReduceSumSquare", away, call.g.ints(axes), keepdims=keepdims)
    rest = call.number(count - call.settings["correction"])
    if call.op == "var":
        return call.last("Div", squares, rest)
    return call.last("Sqrt", call.node("Div", squares, rest))


@op("argmax_axis", "argmin_axis")
def _argmax(call: Call) -> list[str]:
    return call.last(
        "ArgMax" if call.op == "argmax_axis" else "ArgMin",
        call.x.name,
        axis=call.axis(),
        keepdims=int(call.settings["keepdims"]),
        select_last_index=int(not call.settings["select_first"]),
    )


@op("softmax", "log_softmax")
def _softmax(call: Call) -> list[str]:
    name = "Softmax" if call.op == "softmax" else "LogSoftmax"
    return call.last(name, call.x.name, axis=call.axis())


@op("cumsum")
def _cumsum(call: Call) -> list[str]:
    call.only(acc=None)
    flags = {key: int(call.settings[key]) for key in ("exclusive", "reverse")}
    return call.last("CumSum", call.x.name, call.g.constant(call.axis(), "i64"), **flags)


@op("topk")
def _topk(call: Call) -> list[str]:
    stems = [*call.stems, "positions"][:2]
    found = call.g.several(
        "TopK",
        call.x.name,
        call.g.size(call.settings["k"]),
        stems=stems,
        axis=call.axis(),
        largest=int(call.settings["largest"]),
    )
    return found[: len(call.results)]


# Norms


@op("layer_norm")
def _layer_norm(call: Call) -> list[str]:
    axis = call.axis()
    _, weight, bias = [*call.names, "", ""][:3]
    if not weight:
        shape = Value("", call.x.dtype, call.x.dims[axis:]).shape
        weight = call.g.constant(np.ones(shape), call.x.dtype)
    epsilon = float(call.settings["eps"])
    return call.last("LayerNormalization", call.x.name, weight, bias, axis=axis, epsilon=epsilon)


@op("rms_norm")
def _rms_norm(call: Call) -> list[str]:
    axes = call.g.ints(range(call.axis(), call.x.rank))
    mean = call.node("ReduceMean", call.node("Mul", call.x.name, call.x.name), axes, keepdims=1)
    root = call.node("Sqrt", call.node("Add", mean, call.number(float(call.settings["eps"]))))
    if len(call.operands) == 1:
        return call.last("Div", call.x.name, root)
    return call.last("Mul", call.node("Div", call.x.name, root), call.names[1])


@op("batch_norm")
def _batch_norm(call: Call) -> list[str]:
    call.only(axis=1)
    x, mean, variance, *affine = call.names
    channels = Value("", call.x.dtype, call.operands[1].dims)
    for number in (1.0, 0.0)[len(affine) :]:
        affine.append(call.g.constant(np.full(channels.shape, number), call.x.dtype))
    epsilon = float(call.settings["eps"])
    return call.last("BatchNormalization", x, *affine, mean, variance, epsilon=epsilon)


@op("group_norm", "instance_norm")
def _group_norm(call: Call) -> list[str]:
    x, *affine = call.names
    channels = Value("", call.x.dtype, (call.x.dims[1],))
    for number in (1.0, 0.0)[len(affine) :]:
        affine.append(call.g.constant(np.full(channels.shape, number), call.x.dtype))
    epsilon = float(call.settings["eps"])
    if call.op == "instance_norm":
        return call.last("InstanceNormalization", x, *affine, epsilon=epsilon)
    groups = call.settings["groups"]
    return call.last("GroupNormalization", x, *affine, epsilon=epsilon, num_groups=groups)


# Products


def _turned(call: Call, value: Value) -> str:
    """With the last two axes in each other's place."""
    order = [*range(value.rank - 2), value.rank - 1, value.rank - 2]
    return call.node("Transpose", value.name, perm=order)


@op("matmul")
def _matmul(call: Call) -> list[str]:
    call.only(acc=None)
    a, b = call.operands
    if a.dtype not in ("f64", "f32", "f16", "bf16", "i32", "i64", "u32", "u64"):
        raise NoForm(f"a product of {a.dtype} has no form in ONNX")
    left = _turned(call, a) if call.settings["transpose_a"] else a.name
    right = _turned(call, b) if call.settings["transpose_b"] else b.name
    return call.last("MatMul", left, right)


@op("linear")
def _linear(call: Call) -> list[str]:
    call.only(acc=None)
    x, w, *bias = call.operands
    if not call.is_float or w.dtype != x.dtype:
        raise NoForm(f"a linear layer of {x.dtype} and {w.dtype} has no form in ONNX")
    if x.rank == 2:
        return call.last("Gemm", *call.names, transB=1)
    product = _turned(call, w)
    if not bias:
        return call.last("MatMul", x.name, product)
    return call.last("Add", call.node("MatMul", x.name, product), bias[0].name)


@op("einsum")
def _einsum(call: Call) -> list[str]:
    return call.last("Einsum", *call.names, equation=call.settings["equation"])


# Moves


@op("gather")
def _gather(call: Call) -> list[str]:
    return call.last("Gather", call.names[0], _wide(call, call.operands[1]), axis=call.axis())


def _wide(call: Call, indices: Value) -> str:
    """Indices as ONNX takes them."""
    if indices.dtype in ("i32", "i64"):
        return indices.name
    return call.node("Cast", indices.name, to=element_number("i64"))


@op("scatter_elements")
def _scatter_elements(call: Call) -> list[str]:
    x, indices, updates = call.operands
    reduction = call.settings["reduction"]
    name = _wide(call, indices)
    return call.last(
        "ScatterElements", x.name, name, updates.name, axis=call.axis(), reduction=reduction
    )


@op("concat")
def _concat(call: Call) -> list[str]:
    return call.last("Concat", *call.names, axis=call.axis())


@op("stack")
def _stack(call: Call) -> list[str]:
    axis = normal_axis(call.settings["axis"], call.x.rank + 1)
    parts = [call.node("Unsqueeze", name, call.g.ints([axis])) for name in call.names]
    return call.last("Concat", *parts, axis=axis)


@op("split")
def _split(call: Call) -> list[str]:
    axis = call.axis()
    sizes = call.g.shape([result.dims[axis] for result in call.results])
    return call.g.several("Split", call.x.name, sizes, stems=call.stems, axis=axis)


@op("slice")
def _slice(call: Call) -> list[str]:
    given = call.settings
    if given["starts"] is not None or given["stops"] is not None or given["axes"] is not None:
        lists = {key: _listed(given[key]) for key in ("starts", "stops", "axes", "steps")}
        count = max(len(found) for found in lists.values())
        axes = lists["axes"] or list(range(count))
        steps = lists["steps"] or [1] * count
        starts, stops = lists["starts"] or [None] * count, lists["stops"] or [None] * count
    else:
        axes, steps = [given["axis"]], [given["step"]]
        starts, stops = [given["start"]], [given["stop"]]
    g = call.g
    return call.last(
        "Slice",
        call.x.name,
        g.shape([0 if start is None else start for start in starts]),
        g.shape([_LAST if stop is None else stop for stop in stops]),
        g.ints(axes),
        g.shape(steps),
    )


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, tuple) else [value]


@op("flip")
def _flip(call: Call) -> list[str]:
    axes = _axes(call)
    count = len(axes)
    g = call.g
    first = g.ints([np.iinfo(np.int64).min] * count)
    return call.last(
        "Slice", call.x.name, g.ints([-1] * count), first, g.ints(axes), g.ints([-1] * count)
    )


@op("transpose", "permute")
def _transpose(call: Call) -> list[str]:
    order = call.settings["perm"]
    if order is None:
        swapped = call.settings.get("axes")
        first, second = swapped if swapped is not None else (-2, -1)
        order = list(range(call.x.rank))
        order[first], order[second] = order[second], order[first]
    return call.last("Transpose", call.x.name, perm=[normal_axis(a, call.x.rank) for a in order])


@op("reshape")
def _reshape(call: Call) -> list[str]:
    return _reshaped(call, call.x.name, call.results[0].dims)


def _reshaped(call: Call, name: str, dims: Sequence[SizeLike], stem: str = "") -> list[str]:
    sizes = [Size.of(dim) for dim in dims]
    open_ = [size for size in sizes if size.constant is None]
    known = [size.constant for size in sizes]
    if len(open_) == 1 and 0 not in known:
        shape = call.g.ints([-1 if n is None else n for n in known])
    else:
        shape = call.g.shape(sizes)
    # A 0 is a dimension without elements, as here.
    zero = 1 if 0 in known else None
    return [call.g.node("Reshape", name, shape, stem=stem or call.stems[0], allowzero=zero)]


@op("squeeze", "unsqueeze")
def _squeeze(call: Call) -> list[str]:
    axes = call.settings["axes"]
    if call.op == "squeeze" and axes is None:
        return _reshaped(call, call.x.name, call.results[0].dims)
    rank = max(call.x.rank, call.results[0].rank)
    places = [normal_axis(axis, rank) for axis in _listed(axes)]
    return call.last(call.op.capitalize(), call.x.name, call.g.ints(places))


@op("expand")
def _expand(call: Call) -> list[str]:
    return call.last("Expand", call.x.name, call.g.shape(call.results[0].dims))


@op("tile")
def _tile(call: Call) -> list[str]:
    repeats = _listed(call.settings["repeats"])
    if len(repeats) != call.x.rank:
        raise NoForm("repeats must have a number for each axis")
    return call.last("Tile", call.x.name, call.g.shape(repeats))


@op("tril", "triu")
def _tril(call: Call) -> list[str]:
    diagonal = call.g.constant(call.settings["diagonal"], "i64")
    return call.last("Trilu", call.x.name, diagonal, upper=int(call.op == "triu"))


@op("pad")
def _pad(call: Call) -> list[str]:
    mode = call.settings["mode"]
    value = call.number(call.settings["value"]) if mode == "constant" else ""
    pads = [call.x.name, call.g.shape(_listed(call.settings["pads"])), value]
    axes = _listed(call.settings["axes"])
    return call.last("Pad", *pads, *([call.g.ints(axes)] if axes else []), mode=mode)


@op("iota")
def _iota(call: Call) -> list[str]:
    (result,) = call.results
    axis = normal_axis(call.settings["axis"], result.rank)
    start, step = call.settings["start"], call.settings["step"]
    g = call.g
    zero, one = g.constant(0, "i64"), g.constant(1, "i64")
    count = call.node("Squeeze", g.size(result.dims[axis]), g.ints([0]))
    places = call.node("Range", zero, count, one)
    if result.dtype != "i64":
        places = call.node("Cast", places, to=element_number(result.dtype))
    for name, number, plain in (("Mul", step, 1), ("Add", start, 0)):
        if isinstance(number, Size):
            places = call.node(name, places, _as(call, g.size(number), result.dtype))
        elif number != plain:
            places = call.node(name, places, call.number(number, result.dtype))
    if result.rank > 1:
        lined = [-1 if place == axis else 1 for place in range(result.rank)]
        places = call.node("Reshape", places, g.ints(lined))
    return call.last("Expand", places, g.shape(result.dims))


def _as(call: Call, name: str, dtype: str) -> str:
    return name if dtype == "i64" else call.node("Cast", name, to=element_number(dtype))


@op("one_hot")
def _one_hot(call: Call) -> list[str]:
    dtype = call.results[0].dtype
    values = call.g.constant([call.settings["off_value"], call.settings["on_value"]], dtype)
    axis = normal_axis(call.settings["axis"], call.x.rank + 1)
    depth = call.g.size(call.settings["depth"])
    return call.last("OneHot", _wide(call, call.x), depth, values, axis=axis)
