"""Twins of the ops that choose, order or count along an axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from openinfer.lowering.reference.reduce import accumulator_of
from openinfer.lowering.reference.structured import check_indices
from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import AnyArray

_JOINS: dict[object, Callable[[AnyArray, AnyArray], AnyArray]] = {
    "set": lambda old, new: new,
    "add": lambda old, new: old + new,
    "min": np.fmin,
    "max": np.fmax,
}


def _axis(call: Call, extra: int = 0) -> int:
    """The axis counted from the front of operand 0, or of one with `extra` more axes."""
    axis = call.settings["axis"]
    assert isinstance(axis, int)
    return axis % (call.inputs[0].ndim + extra)


@twin("scatter")
def _scatter(call: Call) -> AnyArray:
    x, indices, updates = call.wide(0), call.inputs[1], call.wide(2)
    axis, count = _axis(call), indices.ndim
    check_indices(indices, x.shape[axis], f"axis {axis} of x")
    wanted = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    slices = np.moveaxis(  # (indices…, before…, behind…)
        np.broadcast_to(updates, wanted), range(axis, axis + count), range(count)
    )
    result = np.moveaxis(x, axis, 0).copy()  # (axis, before…, behind…)
    join = _JOINS[call.settings["mode"]]
    for place in np.ndindex(indices.shape):
        index = int(indices[place])
        result[index] = join(result[index], slices[place])
    return np.moveaxis(result, 0, axis)


def _order(x: AnyArray, axis: int, descending: bool) -> AnyArray:
    """Positions in sorted order; equal values stay in theirs, NaN is larger than all numbers."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backwards, axis)


def _results(call: Call, x: AnyArray, order: AnyArray, axis: int) -> list[AnyArray]:
    found = [np.take_along_axis(x, order, axis), order.astype(np.int64)]
    return found[: len(call.outputs)]


@twin("argsort")
def _argsort(call: Call) -> AnyArray:
    x, axis = call.inputs[0], _axis(call)
    return _order(x, axis, bool(call.settings["descending"])).astype(np.int64)


@twin("sort")
def _sort(call: Call) -> list[AnyArray]:
    x, axis = call.inputs[0], _axis(call)
    return _results(call, x, _order(x, axis, bool(call.settings["descending"])), axis)


@twin("topk")
def _topk(call: Call) -> list[AnyArray]:
    x, axis, k = call.inputs[0], _axis(call), call.settings["k"]
    assert isinstance(k, int)
    order = _order(x, axis, bool(call.settings["largest"]))
    return _results(call, x, np.take(order, range(k), axis=axis), axis)


@twin("cumsum")
def _cumsum(call: Call) -> AnyArray:
    def sums(x: AnyArray, axis: int) -> AnyArray:
        wide = np.float64 if x.dtype == np.float32 else x.dtype
        return np.cumsum(x, axis=axis, dtype=wide).astype(x.dtype)

    return _running(call, sums, 0)


@twin("cumprod")
def _cumprod(call: Call) -> AnyArray:
    def products(x: AnyArray, axis: int) -> AnyArray:
        return np.cumprod(x, axis=axis, dtype=x.dtype)

    return _running(call, products, 1)


def _running(call: Call, function: Callable[[AnyArray, int], AnyArray], start: int) -> AnyArray:
    """What `function` makes of the elements up to each place; `start` is what it makes of none."""
    x, axis = call.inputs[0].astype(DTYPES[accumulator_of(call)].value), _axis(call)
    backwards = bool(call.settings["reverse"])
    total = function(np.flip(x, axis) if backwards else x, axis)
    if call.settings["exclusive"] and x.shape[axis]:
        # What stands in front: the results one place on.
        first = np.full_like(np.take(total, [0], axis=axis), start)
        rest = np.take(total, range(x.shape[axis] - 1), axis=axis)
        total = np.concatenate([first, rest], axis=axis)
    return np.flip(total, axis) if backwards else total


@twin("one_hot")
def _one_hot(call: Call) -> AnyArray:
    indices, depth, axis = call.inputs[0], call.settings["depth"], _axis(call, 1)
    assert isinstance(depth, int)
    check_indices(indices, depth, "the new axis")
    places = np.arange(depth).reshape([-1 if d == axis else 1 for d in range(indices.ndim + 1)])
    here = np.expand_dims(indices.astype(np.int64), axis) == places
    on, off = call.settings["on_value"], call.settings["off_value"]
    assert isinstance(on, int | float)
    assert isinstance(off, int | float)
    kind = DTYPES[call.outputs[0]]
    wide = np.float64 if kind.is_float else kind.value
    return np.where(here, np.asarray(on).astype(wide), np.asarray(off).astype(wide))
