"""Twins of the ops in `dialects/ops/arrangement.py`."""

from __future__ import annotations

import numpy as np

from openinfer.lowering.reference.layout import ints
from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.storage import AnyArray


@twin("stack")
def _stack(call: Call) -> AnyArray:
    axis = call.settings["axis"]
    assert isinstance(axis, int)
    return np.stack(call.inputs, axis=axis)


@twin("tile")
def _tile(call: Call) -> AnyArray:
    return np.tile(call.inputs[0], ints(call.settings["repeats"]))


@twin("roll")
def _roll(call: Call) -> AnyArray:
    x, shifts, axes = call.inputs[0], ints(call.settings["shifts"]), call.settings["axes"]
    if axes is None:
        return _turned(x.reshape(-1), shifts[0], 0).reshape(x.shape)
    for shift, axis in zip(shifts, ints(axes)):
        x = _turned(x, shift, axis)
    return x


def _turned(x: AnyArray, shift: int, axis: int) -> AnyArray:
    """NumPy takes no shift that a word does not hold."""
    return np.roll(x, shift % max(x.shape[axis], 1), axis)


@twin("tril")
def _tril(call: Call) -> AnyArray:
    return np.where(_above(call) <= 0, call.inputs[0], np.zeros_like(call.inputs[0]))


@twin("triu")
def _triu(call: Call) -> AnyArray:
    return np.where(_above(call) >= 0, call.inputs[0], np.zeros_like(call.inputs[0]))


def _above(call: Call) -> AnyArray:
    """How far each element lies above the diagonal."""
    rows, columns = call.inputs[0].shape[-2:]
    diagonal = call.settings["diagonal"]
    assert isinstance(diagonal, int)
    # Beyond it there are no elements.
    diagonal = max(-rows, min(columns, diagonal))
    return np.arange(columns) - np.arange(rows)[:, None] - diagonal
