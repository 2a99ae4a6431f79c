"""Twins of the ops with an index for each element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from openinfer.lowering.reference.structured import check_indices
from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.storage import AnyArray

_JOINS: dict[object, Callable[[AnyArray, AnyArray], AnyArray]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": np.fmin,
    "max": np.fmax,
}


def _axis(call: Call) -> int:
    axis = call.settings["axis"]
    assert isinstance(axis, int)
    return axis % call.inputs[0].ndim


@twin("gather_elements")
def _gather_elements(call: Call) -> AnyArray:
    x, indices = call.inputs
    axis = _axis(call)
    check_indices(indices, x.shape[axis], f"axis {axis} of x")
    lines = tuple(slice(n) if d != axis else slice(None) for d, n in enumerate(indices.shape))
    return np.take_along_axis(x[lines], indices.astype(np.int64), axis=axis)


@twin("scatter_elements")
def _scatter_elements(call: Call) -> AnyArray:
    x, indices, updates = call.wide(0), call.inputs[1], call.wide(2)
    axis = _axis(call)
    check_indices(indices, x.shape[axis], f"axis {axis} of x")
    y = x.copy()
    join = _JOINS[call.settings["reduction"]]
    for place in np.ndindex(indices.shape):
        target = (*place[:axis], int(indices[place]), *place[axis + 1 :])
        y[target] = join(y[target], updates[place])
    return y
