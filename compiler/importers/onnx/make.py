"""Operators that make tensors: constants, ranges, identity matrices, random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from openinfer.compiler.importers.onnx.items import Array, number_of, numpy_dtype, our_dtype
from openinfer.compiler.importers.onnx.layout import expanded
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.protos import element_dtype
from openinfer.compiler.importers.onnx.refusals import DAMAGED, TYPE, Refusal
from openinfer.dialects.ops.base import INTEGERS
from openinfer.runtime.sizes import Size


@operator("Constant")
def constant(node: Node) -> Result:
    found: Array | None = node.attributes.get("value")
    node.ignore("value")
    if found is None:
        for name, dtype in (
            ("value_float", "f4"),
            ("value_int", "i8"),
            ("value_floats", "f4"),
            ("value_ints", "i8"),
        ):
            if node.has(name):
                found = np.asarray(node.attributes[name], dtype)
    if found is None:
        raise Refusal(TYPE, "Constant of texts or sparse elements is not supported")
    return node.reader.constant(node.outputs[0], found)


@operator("ConstantOfShape")
def constant_of_shape(node: Node) -> Result:
    node.ignore("value")
    fill = node.attributes.get("value")
    array: Array = np.zeros(1, np.float32) if fill is None else np.asarray(fill).reshape(-1)
    dtype = our_dtype(array)
    if dtype is None or len(array) != 1:
        raise Refusal(DAMAGED, "ConstantOfShape has no value of one element")
    shape = node.sizes(0)
    one = node.g.constant(array.reshape([1] * len(shape)), dtype, "fill")
    return expanded(node, one, shape)


@operator("Range")
def range_of(node: Node) -> Result:
    start, limit, delta = (node.item(place) for place in range(3))
    dtype = start.dtype
    if dtype in INTEGERS:
        first, last, step = node.sizes(0)[0], node.sizes(1)[0], node.ints_of(2)[0]
        if step == 0:
            raise Refusal(DAMAGED, "Range has a step of 0")
        reach = Size.of(last) - Size.of(first) if step > 0 else Size.of(first) - Size.of(last)
        count = (reach + (abs(step) - 1)) // abs(step)
        if not (first == 0 and count.nonnegative):
            count = Size.max(count, 0)
        settings: dict[str, Any] = {"shape": [number_of(count)], "step": step, "dtype": dtype}
        if isinstance(first, Size):
            return node.g.op("add", node.g.op("iota", **settings), node.x(0))
        return node.g.op("iota", start=first, **settings)
    numbers = [np.asarray(node.numbers(place), np.float64).item() for place in range(3)]
    count = max(int(np.ceil((numbers[1] - numbers[0]) / numbers[2])), 0) if numbers[2] else 0
    del limit, delta
    steps = node.g.op("iota", shape=[count], dtype=dtype)
    return node.g.op("add", node.g.op("mul", steps, numbers[2]), numbers[0])


@operator("EyeLike")
def eye_like(node: Node) -> Result:
    item = node.item(0)
    dtype = element_dtype(node.int("dtype", 0), "EyeLike") if node.has("dtype") else item.dtype
    diagonal = node.int("k", 0)
    rows = node.g.op("iota", shape=[number_of(item.dims[0]), 1], axis=0, start=diagonal)
    columns = node.g.op("iota", shape=[1, number_of(item.dims[1])], axis=1)
    return node.g.op("cast", node.g.op("eq", rows, columns), to=dtype)


@operator("OneHot")
def one_hot(node: Node) -> Result:
    g, indices = node.g, node.x(0)
    depth = node.sizes(1)[0] if node.item(1).dtype in INTEGERS else int(node.number(1))
    rank = indices.rank + 1
    axis = node.axis(node.int("axis", -1), rank)
    values = node.item(2)
    if indices.dtype not in INTEGERS:
        indices = g.op("cast", indices, to="i64")
    # Negative indices count from the end.
    wide = g.op("cast", indices, to="i64")
    positions = g.op("iota", shape=[depth if i == axis else 1 for i in range(rank)], axis=axis)
    spread = g.op("unsqueeze", wide, axes=[axis])
    hit = g.op(
        "eq",
        g.op(
            "where",
            g.op("lt", spread, 0),
            g.op("add", spread, depth if isinstance(depth, int) else 0),
            spread,
        ),
        positions,
    )
    off = g.op("slice", values.value, axis=0, start=0, stop=1)
    on = g.op("slice", values.value, axis=0, start=1, stop=2)
    shape = [1] * rank
    return g.op("where", hit, g.op("reshape", on, shape=shape), g.op("reshape", off, shape=shape))


@operator("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike", "Multinomial")
def random(node: Node) -> Result:
    node.need(node.op.startswith("RandomUniform"), "normal or drawn numbers")
    low, high = node.float("low", 0.0), node.float("high", 1.0)
    seed = int(node.float("seed", 0.0))
    if node.op == "RandomUniformLike":
        item = node.item(0)
        shape: list[Any] = [number_of(dim) for dim in item.dims]
        dtype = element_dtype(node.int("dtype", 1), node.op) if node.has("dtype") else item.dtype
    else:
        shape = list(node.ints("shape") or [])
        dtype = element_dtype(node.int("dtype", 1), node.op)
    return node.g.op("random_uniform", seed=seed, low=low, high=high, shape=shape, dtype=dtype)


MAX_WINDOW = 1 << 20
"""Elements of a window, which is a constant of the program."""


@operator("HannWindow", "HammingWindow", "BlackmanWindow")
def window(node: Node) -> Result:
    size = node.ints_of(0)[0]
    node.need(0 <= size <= MAX_WINDOW, f"{size} elements")
    dtype = element_dtype(node.int("output_datatype", 1), node.op)
    periodic = node.flag("periodic", True)
    length = size if periodic else size - 1
    angle = 2 * np.pi * np.arange(size) / max(length, 1)
    if node.op == "HannWindow":
        values = 0.5 - 0.5 * np.cos(angle)
    elif node.op == "HammingWindow":
        values = 25 / 46 - 21 / 46 * np.cos(angle)
    else:
        values = 0.42 - 0.5 * np.cos(angle) + 0.08 * np.cos(2 * angle)
    return node.reader.content(values.astype(numpy_dtype(dtype)), dtype, node.outputs[0])
