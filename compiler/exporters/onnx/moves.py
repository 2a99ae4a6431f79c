"""Gathers, slices, shapes and what is made of indices in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from openinfer.compiler.exporters.onnx.calls import Call, axes_of, op
from openinfer.compiler.exporters.onnx.graph import NoForm, Value, element_number
from openinfer.dialects.ops.base import normal_axis
from openinfer.runtime.sizes import Size, SizeLike

_LAST = np.iinfo(np.int64).max


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
    axes = axes_of(call)
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
