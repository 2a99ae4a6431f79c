"""The twin of `random_uniform`: SplitMix64 as `dialects/ops/random.py` defines it."""

from __future__ import annotations

import math

import numpy as np

from openinfer.dialects.ops.random import GAMMA, SIGNIFICANDS, STEPS
from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.storage import AnyArray


def mixed(z: AnyArray) -> AnyArray:
    """The mixing function on uint64 arrays."""
    for shift, factor in STEPS:
        z = z ^ (z >> np.uint64(shift))
        z = z if factor is None else z * np.uint64(factor)
    return z


@twin("random_uniform")
def _random_uniform(call: Call) -> AnyArray:
    seed, low, high = (call.settings[name] for name in ("seed", "low", "high"))
    assert isinstance(seed, int)
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    (shape,) = call.shapes
    place = np.arange(1, math.prod(shape) + 1, dtype=np.uint64)
    state = mixed(np.array([seed % 2**64], np.uint64)) + place * np.uint64(GAMMA)
    dtype = call.outputs[0]
    wide = np.dtype(np.float64 if dtype == "f64" else np.float32).type
    bits = SIGNIFICANDS[dtype]
    share = (mixed(state) >> np.uint64(64 - bits)).astype(wide) * wide(2.0**-bits)
    return (wide(low) + share * (wide(high) - wide(low))).reshape(shape)
