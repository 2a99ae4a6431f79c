"""Twins of the ops that move elements, and `iota`."""

from __future__ import annotations

import numpy as np

from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.storage import AnyArray


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def ints(value: object) -> tuple[int, ...]:
    assert isinstance(value, tuple)
    return tuple(_int(item) for item in value)


@twin("concat")
def _concat(call: Call) -> AnyArray:
    return np.concatenate(call.inputs, axis=_int(call.settings["axis"]))


@twin("split")
def _split(call: Call) -> list[AnyArray]:
    x, axis = call.inputs[0], _int(call.settings["axis"])
    if call.settings["sizes"] is None:
        return np.split(x, _int(call.settings["outputs"]), axis=axis)
    cuts = np.cumsum(ints(call.settings["sizes"]))[:-1]
    return np.split(x, cuts.tolist(), axis=axis)


@twin("slice")
def _slice(call: Call) -> AnyArray:
    x, settings = call.inputs[0], call.settings
    cuts = [slice(None)] * x.ndim
    lists = {n: settings[n] for n in ("starts", "stops", "steps") if settings[n] is not None}
    if settings["axes"] is None and not lists:
        start, stop = settings["start"], settings["stop"]
        cuts[_int(settings["axis"])] = slice(
            None if start is None else _int(start),
            None if stop is None else _int(stop),
            _int(settings["step"]),
        )
        return x[tuple(cuts)]
    count = max(len(ints(v)) for v in (*lists.values(), settings["axes"]) if v is not None)
    axes = range(count) if settings["axes"] is None else ints(settings["axes"])
    for number, axis in enumerate(axes):
        start, stop, step = (
            ints(lists[name])[number] if name in lists else None
            for name in ("starts", "stops", "steps")
        )
        cuts[axis] = slice(start, stop, step)
    return x[tuple(cuts)]


@twin("transpose")
def _transpose(call: Call) -> AnyArray:
    x, settings = call.inputs[0], call.settings
    if settings["perm"] is not None:
        return np.transpose(x, ints(settings["perm"]))
    first, second = (-2, -1) if settings["axes"] is None else ints(settings["axes"])
    return np.swapaxes(x, first, second)


@twin("permute")
def _permute(call: Call) -> AnyArray:
    return np.transpose(call.inputs[0], ints(call.settings["perm"]))


@twin("reshape")
def _reshape(call: Call) -> AnyArray:
    x, shape = call.inputs[0], list(ints(call.settings["shape"]))
    if -1 in shape and x.size == 0:
        rest = int(np.prod([n for n in shape if n != -1]))
        shape[shape.index(-1)] = x.size // rest
    return np.reshape(x, shape)


@twin("squeeze")
def _squeeze(call: Call) -> AnyArray:
    axes = call.settings["axes"]
    return np.squeeze(call.inputs[0], None if axes is None else ints(axes))


@twin("unsqueeze")
def _unsqueeze(call: Call) -> AnyArray:
    return np.expand_dims(call.inputs[0], ints(call.settings["axes"]))


@twin("expand")
def _expand(call: Call) -> AnyArray:
    x, shape = call.inputs[0], list(ints(call.settings["shape"]))
    lead = len(shape) - x.ndim
    kept = [x.shape[i - lead] if n == -1 else n for i, n in enumerate(shape)]
    return np.broadcast_to(x, kept)


@twin("iota")
def _iota(call: Call) -> AnyArray:
    shape, settings = ints(call.settings["shape"]), call.settings
    start, step = _int(settings["start"]), _int(settings["step"])
    if not shape:
        return np.asarray(start)
    axis = _int(settings["axis"]) % len(shape)
    line = start + step * np.arange(shape[axis], dtype=np.int64)
    line = line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.broadcast_to(line, shape)
