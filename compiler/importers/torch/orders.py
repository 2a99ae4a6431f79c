"""Handlers of orders: sorted elements, the k-th of them, extremes so far."""

from __future__ import annotations

from math import prod
from typing import Any

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.torch.handlers import Call, Handler, end_of, handles
from openinfer.compiler.importers.torch.refusals import Refused
from openinfer.compiler.importers.torch.shapes import sliced
from openinfer.dialects.ops.base import FLOATS
from openinfer.runtime.sizes import Size


@handles("aten.topk.default")
def topk(call: Call) -> tuple[Value, Value]:
    x = call.tensor("self")
    settings: dict[str, Any] = {} if call.flag("largest") else {"largest": False}
    call.skip("sorted")
    axis = call.axis(max(x.rank, 1))
    if axis != x.rank - 1:
        settings["axis"] = axis
    values, places = call.g.ops("topk", x, results=2, k=call.size("k"), **settings)
    call.reader.nonnegative.add(places.name)
    return values, places


def _sorted(call: Call, x: Value, axis: int, **settings: Any) -> tuple[Value, Value]:
    """Values in order, and where they stood; equal ones, of which PyTorch takes any, in theirs."""
    values, places = call.g.ops("sort", x, results=2, axis=axis, **settings)
    call.reader.nonnegative.add(places.name)
    return values, places


@handles("aten.sort.default", "aten.sort.stable")
def sort(call: Call) -> tuple[Value, Value]:
    x = call.tensor("self")
    if "stable" in str(call.node.target):
        call.skip("stable")
    settings = {"descending": True} if call.flag("descending") else {}
    return _sorted(call, x, call.axis(max(x.rank, 1)), **settings)


@handles("aten.argsort.default", "aten.argsort.stable")
def argsort(call: Call) -> Value:
    x = call.tensor("self")
    if "stable" in str(call.node.target):
        call.skip("stable")
    settings = {"descending": True} if call.flag("descending") else {}
    found = call.g.op("argsort", x, axis=call.axis(max(x.rank, 1)), **settings)
    call.reader.nonnegative.add(found.name)
    return found


def _row(call: Call) -> tuple[Value, int, bool]:
    """What is looked through, along which axis, and whether that stays; without an axis all elements in a
    row, and a number as a row of one."""
    x = call.tensor("self")
    names = {argument.name for argument in call.node.target._schema.arguments}
    if x.rank == 0 or "dim" not in names:
        call.skip("dim", "keepdim")
        return call.reshape(x, [prod(x.dims, start=Size.of(1))]), 0, False
    return x, call.axis(x.rank), call.flag("keepdim")


def _without(call: Call, value: Value, axis: int, keep: bool) -> Value:
    return value if keep else call.g.op("squeeze", value, axes=[axis])


@handles("aten.kthvalue.default")
def kthvalue(call: Call) -> tuple[Value, ...]:
    x, axis, keep = _row(call)
    k = call.size("k")
    parts = [sliced(call.g, one, axis, k - 1, k) for one in _sorted(call, x, axis)]
    return tuple(_without(call, one, axis, keep) for one in parts)


@handles("aten.median.default", "aten.median.dim")
def median(call: Call) -> Value | tuple[Value, ...]:
    """The lower one of the middle two; a row with a NaN gives its first one."""
    g, (x, axis, keep) = call.g, _row(call)
    if x.dims[axis].constant == 0:
        raise Refused("a median of nothing")
    middle = (x.dims[axis] - 1) // 2
    value, place = (sliced(g, one, axis, middle, middle + 1) for one in _sorted(call, x, axis))
    if x.dtype in FLOATS:
        largest = g.op("max_axis", x, axes=[axis], keepdims=True)
        odd = g.op("is_nan", largest)
        value = g.op("where", odd, largest, value)
        place = g.op("where", odd, g.op("argmax_axis", x, axis=axis, keepdims=True), place)
    return _median(call, axis, keep, value, place)


@handles("aten.nanmedian.default", "aten.nanmedian.dim")
def nanmedian(call: Call) -> Value | tuple[Value, ...]:
    """The same of what is no NaN, which is sorted behind all numbers."""
    g, (x, axis, keep) = call.g, _row(call)
    if x.dtype not in FLOATS:
        return median(call)
    if x.dims[axis].constant == 0:
        raise Refused("a median of nothing")
    numbers = g.op("cast", g.op("not", g.op("is_nan", x)), to="i64")
    count = g.op("sum_axis", numbers, axes=[axis], keepdims=True)
    middle = g.op("max", g.op("floor_div", g.op("sub", count, 1), 2), 0)
    found = (g.op("gather_elements", one, middle, axis=axis) for one in _sorted(call, x, axis))
    return _median(call, axis, keep, *found)


def _median(call: Call, axis: int, keep: bool, value: Value, place: Value) -> Any:
    value = _without(call, value, axis, keep)
    return (value, _without(call, place, axis, keep)) if len(call.specs) == 2 else value


def _running(op: str) -> Handler:
    """The extreme of all elements up to each, and where its last one is: of each pair of positions the pairs
    that are in order, so that the work grows with the square of the axis."""

    def handler(call: Call) -> tuple[Value, Value]:
        g, x = call.g, call.tensor("self")
        none = call.expand(call.reader.scalar(0, "i64"), x.dims)
        axis = call.axis(max(x.rank, 1))
        if x.rank == 0 or x.dims[axis].constant == 0:
            return x, none
        x = call.cast(x, "u8") if x.dtype == "bool" else x
        length, behind = x.dims[axis], [Size.of(1)] * (x.rank - axis - 1)
        here = g.op("iota", shape=[length, 1, *behind], axis=0)
        there = g.op("iota", shape=[1, length, *behind], axis=1)
        each = g.op("unsqueeze", x, axes=[axis])
        before = g.op("le", there, here)
        among = g.op("where", before, each, end_of(x.dtype, largest=op == "min_axis"))
        values = g.op(op, among, axes=[axis + 1], keepdims=True)
        equal = g.op("eq", each, values)
        if x.dtype in FLOATS:
            equal = g.op("or", equal, g.op("is_nan", each))
        places = g.op("where", g.op("and", before, equal), there, 0)
        last = g.op("max_axis", places, axes=[axis + 1])
        call.reader.nonnegative.add(last.name)
        return g.op("squeeze", values, axes=[axis + 1]), last

    return handler


handles("aten.cummax.default")(_running("max_axis"))
handles("aten.cummin.default")(_running("min_axis"))
