"""Twins of batch norm, group norm and instance norm."""

from __future__ import annotations

import numpy as np

from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.storage import AnyArray


def _eps(call: Call) -> float:
    eps = call.settings["eps"]
    assert isinstance(eps, int | float)
    return float(eps)


@twin("batch_norm")
def _batch_norm(call: Call) -> AnyArray:
    x = call.exact()
    axis = call.settings["axis"]
    assert isinstance(axis, int)
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    mean, variance, *affine = (call.exact(i).reshape(shape) for i in range(1, len(call.inputs)))
    y = (x - mean) / np.sqrt(variance + _eps(call))
    if affine:
        y = y * affine[0]
    return y + affine[1] if len(affine) > 1 else y


@twin("instance_norm")
def _instance_norm(call: Call) -> AnyArray:
    return _by_groups(call, call.inputs[0].shape[1])


@twin("group_norm")
def _group_norm(call: Call) -> AnyArray:
    groups = call.settings["groups"]
    assert isinstance(groups, int)
    return _by_groups(call, groups)


def _by_groups(call: Call, groups: int) -> AnyArray:
    x = call.exact()
    batch, channels, *rest = x.shape
    if not x.size:
        return x
    parts = x.reshape(batch, groups, channels // groups, *rest)
    axes = tuple(range(2, parts.ndim))
    centred = parts - np.mean(parts, axis=axes, keepdims=True)
    variance = np.mean(centred * centred, axis=axes, keepdims=True)
    y = np.reshape(centred / np.sqrt(variance + _eps(call)), x.shape)
    shape = [channels] + [1] * len(rest)
    if len(call.inputs) > 1:
        y = y * call.exact(1).reshape(shape)
    return y + call.exact(2).reshape(shape) if len(call.inputs) > 2 else y
