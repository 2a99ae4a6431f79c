"""Twins of `random_uniform` and `multinomial`: SplitMix64 as `dialects/ops/random.py` defines it."""

from __future__ import annotations

import math

import numpy as np

from openinfer.dialects.ops.random import GAMMA, SIGNIFICANDS, STEPS, WEIGHT_BITS
from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.storage import AnyArray


def mixed(z: AnyArray) -> AnyArray:
    """The mixing function on uint64 arrays."""
    for shift, factor in STEPS:
        z = z ^ (z >> np.uint64(shift))
        z = z if factor is None else z * np.uint64(factor)
    return z


def _outputs(seed: int, count: int) -> AnyArray:
    """The first outputs of the generator."""
    place = np.arange(1, count + 1, dtype=np.uint64)
    return mixed(mixed(np.array([seed % 2**64], np.uint64)) + place * np.uint64(GAMMA))


@twin("random_uniform")
def _random_uniform(call: Call) -> AnyArray:
    seed, low, high = (call.settings[name] for name in ("seed", "low", "high"))
    assert isinstance(seed, int)
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    (shape,) = call.shapes
    dtype = call.outputs[0]
    wide = np.dtype(np.float64 if dtype == "f64" else np.float32).type
    bits = SIGNIFICANDS[dtype]
    share = (_outputs(seed, math.prod(shape)) >> np.uint64(64 - bits)).astype(wide) * wide(
        2.0**-bits
    )
    return (wide(low) + share * (wide(high) - wide(low))).reshape(shape)


@twin("multinomial")
def _multinomial(call: Call) -> AnyArray:
    (p,), (shape,), seed = call.inputs, call.shapes, call.settings["seed"]
    assert isinstance(seed, int)
    wide = np.float64 if call.dtypes[0] == "f64" else np.float32
    rows = p.astype(wide).reshape(-1, p.shape[-1])
    numbers = _outputs(seed, math.prod(shape)).reshape(len(rows), shape[-1])
    found = np.empty(numbers.shape, np.int64)
    for row, drawn, target in zip(rows, numbers, found):
        row = np.where(row > 0, row, wide(0))
        top = row.max()
        shares = np.where(row == top, wide(1), row / top) if top > 0 else row
        sums = np.cumsum((shares * wide(2.0**WEIGHT_BITS)).astype(np.int64))
        total = int(sums[-1])
        for place, number in enumerate(drawn):
            threshold = (int(number) * total) >> 64
            target[place] = np.searchsorted(sums, threshold, side="right") if total else -1
    return found.reshape(shape)
