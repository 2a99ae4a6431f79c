"""Handlers that write elements of one tensor into another, each at a place of its own."""

from __future__ import annotations

from math import prod
from typing import Any

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.torch.handlers import Call, end_of, handles, number_of
from openinfer.compiler.importers.torch.refusals import Refused
from openinfer.compiler.importers.torch.shapes import permuted
from openinfer.dialects.ops.base import FLOATS
from openinfer.runtime.sizes import Size

_REDUCTIONS = {
    "sum": "add",
    "add": "add",
    "prod": "mul",
    "multiply": "mul",
    "amin": "min",
    "amax": "max",
    "mean": "add",
}
_OF_BOOLS = {"add": "max", "mul": "min"}
"""What sums and products of bools are when they are numbers 0 and 1."""


def _scattered(call: Call, x: Value, updates: Value, reduction: str | None) -> Value:
    if reduction is not None and x.dtype == "bool":
        numbers, more = (call.cast(one, "u8") for one in (x, updates))
        kind = _OF_BOOLS.get(reduction, reduction)
        return call.cast(_scattered(call, numbers, more, kind), "bool")
    index = call.tensor("index")
    axis = call.axis(max(x.rank, 1))
    for other in range(x.rank):
        if other != axis and index.dims[other] != x.dims[other]:
            raise Refused("an index that is smaller than the tensor", "narrow the tensor first")
        if updates.dims[other] != index.dims[other]:
            updates = call.g.op("slice", updates, axis=other, start=0, stop=index.dims[other])
    settings: dict[str, Any] = {"axis": axis} if axis else {}
    if reduction is not None:
        settings["reduction"] = reduction
    return call.g.op("scatter_elements", x, index, updates, **settings)


@handles("aten.scatter.src")
def scatter(call: Call) -> Value:
    return _scattered(call, call.tensor("self"), call.cast(call.tensor("src"), call.dtype), None)


@handles("aten.scatter.value")
def scatter_value(call: Call) -> Value:
    value = call.operand("value", call.dtype)
    assert not isinstance(value, Value)
    return _scattered(call, call.tensor("self"), _everywhere(call, value, call.dtype), None)


def _everywhere(call: Call, value: bool | int | float, dtype: str) -> Value:
    """A number for each index."""
    return call.expand(call.reader.scalar(value, dtype), call.tensor("index").dims)


@handles("aten.scatter_add.default")
def scatter_add(call: Call) -> Value:
    return _scattered(call, call.tensor("self"), call.cast(call.tensor("src"), call.dtype), "add")


@handles("aten.scatter_reduce.two", "aten.scatter.reduce")
def scatter_reduce(call: Call) -> Value:
    """Elements joined with those that are there; without `include_self` these stay where no index points."""
    call.must("reduce", *_REDUCTIONS)
    kind, x, updates = call.text("reduce"), call.tensor("self"), call.tensor("src")
    if kind == "mean" and x.dtype == "bool":
        raise Refused("a mean of bools", "cast them to an integer or a float first")
    alone = "two" in str(call.node.target) and not call.flag("include_self")
    if alone:
        neutral = _everywhere(call, _neutral(kind, x.dtype), x.dtype)
        x = _scattered(call, x, neutral, None)
    found = _scattered(call, x, updates, _REDUCTIONS[kind])
    if kind == "mean":
        return _mean(call, found, 0 if alone else 1)
    if kind in ("amin", "amax") and x.dtype in FLOATS:
        return _with_nan(call, found, x, updates)
    return found


def _neutral(kind: str, dtype: str) -> int | float:
    """What joining changes nothing."""
    if kind in ("amin", "amax"):
        return end_of(dtype, largest=kind == "amin")
    return number_of(1 if kind == "prod" else 0, dtype)


def _mean(call: Call, total: Value, own: int) -> Value:
    """Sums by how many elements are in them; of integers rounded down.

    PyTorch counts in the dtype of the sums and lets both wrap; a count that wraps to nothing is one.
    """
    g, dtype = call.g, total.dtype
    start = call.expand(call.reader.scalar(own, "i64"), total.dims)
    count = _scattered(call, start, _everywhere(call, 1, "i64"), "add")
    if dtype in FLOATS:
        return g.op("div", total, call.cast(count if own else g.op("max", count, 1), dtype))
    count = call.cast(count, dtype)
    return g.op("floor_div", total, g.op("where", g.op("eq", count, 0), 1, count))


def _with_nan(call: Call, found: Value, x: Value, updates: Value) -> Value:
    """The extremes with NaN where one of the elements is, which the op ignores."""
    g = call.g
    start, more = (call.cast(g.op("is_nan", one), "u8") for one in (x, updates))
    odd = _scattered(call, start, more, "max")
    return g.op("where", g.op("ne", odd, 0), float("nan"), found)


@handles("aten.masked_scatter.default")
def masked_scatter(call: Call) -> Value:
    """Where the mask is true the next element of a row; one that is too short is an error of the step.

    An element in front of the row is for what lies before the first true, so that an empty row has one, too.
    """
    g = call.g
    x = call.expand(call.tensor("self"), call.dims)
    mask = call.expand(call.tensor("mask"), call.dims)
    source = call.cast(call.tensor("source"), call.dtype)
    if 0 in (x.shape or ()):
        return x
    row = call.reshape(source, [prod(source.dims, start=Size.of(1))])
    row = g.op("pad", row, pads=[1, 0], axes=[0])
    flat = call.reshape(mask, [prod(x.dims, start=Size.of(1))])
    places = g.op("cumsum", call.cast(flat, "i64"), axis=0)
    return g.op("where", mask, call.reshape(g.op("gather", row, places), x.dims), x)


@handles("aten.diagonal_scatter.default")
def diagonal_scatter(call: Call) -> Value:
    """x with a diagonal replaced: a mask chooses it, and each row has its element in all columns."""
    g, x = call.g, call.tensor("self")
    first, second = call.axis(x.rank, "dim1"), call.axis(x.rank, "dim2")
    offset = call.integer("offset")
    order = [axis for axis in range(x.rank) if axis not in (first, second)] + [first, second]
    moved = permuted(g, x, order)
    rows, columns = moved.dims[-2:]
    source = call.cast(call.tensor("src"), x.dtype)
    if source.dims[-1].constant == 0:
        return x
    before = max(-offset, 0)
    behind = rows - before - source.dims[-1]
    if before or behind.constant != 0:
        source = g.op("pad", source, pads=[Size.of(before), behind], axes=[source.rank - 1])
    chosen = g.op(
        "eq",
        g.op("iota", shape=[rows, 1], axis=0, start=offset),
        g.op("iota", shape=[1, columns], axis=1),
    )
    column = g.op("unsqueeze", source, axes=[source.rank])
    found = g.op("where", chosen, column, moved)
    return permuted(g, found, [order.index(axis) for axis in range(x.rank)])
