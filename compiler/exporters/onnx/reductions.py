"""Reductions, norms and products in ONNX."""

from __future__ import annotations

import numpy as np

from openinfer.compiler.exporters.onnx.calls import Call, axes_of, op
from openinfer.compiler.exporters.onnx.graph import NoForm, Value, element_number

_REDUCTIONS = {
    **{"sum_axis": "ReduceSum", "mean_axis": "ReduceMean", "prod_axis": "ReduceProd"},
    **{"max_axis": "ReduceMax", "min_axis": "ReduceMin", "logsumexp": "ReduceLogSumExp"},
}


@op(*_REDUCTIONS)
def _reduce(call: Call) -> list[str]:
    if "acc" in call.settings:
        call.only(acc=None)
    if call.op == "mean_axis" and not call.is_float:
        raise NoForm("a mean of integers has no form in ONNX")
    keepdims = int(call.settings["keepdims"])
    return call.last(
        _REDUCTIONS[call.op], call.x.name, call.g.ints(axes_of(call)), keepdims=keepdims
    )


@op("any", "all")
def _any(call: Call) -> list[str]:
    x = call.x.name
    if call.x.dtype != "bool":
        x = call.node("Cast", x, to=element_number("bool"))
    number = call.node("Cast", x, to=element_number("i32"))
    found = call.node(
        "ReduceMax" if call.op == "any" else "ReduceMin",
        number,
        call.g.ints(axes_of(call)),
        keepdims=int(call.settings["keepdims"]),
    )
    return call.last("Cast", found, to=element_number("bool"))


@op("var", "std")
def _var(call: Call) -> list[str]:
    axes = axes_of(call)
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
