"""Twins of the activations in `dialects/ops/activations.py`, computed in float64 and rounded once."""

from __future__ import annotations

import numpy as np

from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.storage import AnyArray


def _alpha(call: Call) -> float:
    alpha = call.settings["alpha"]
    assert isinstance(alpha, int | float)
    return float(alpha)


@twin("elu")
def _elu(call: Call) -> AnyArray:
    x = call.exact()
    return np.where(x > 0, x, _alpha(call) * np.expm1(x))


@twin("celu")
def _celu(call: Call) -> AnyArray:
    x, alpha = call.exact(), _alpha(call)
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


@twin("selu")
def _selu(call: Call) -> AnyArray:
    x = call.exact()
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return scale * np.where(x > 0, x, alpha * np.expm1(x))


@twin("mish")
def _mish(call: Call) -> AnyArray:
    x = call.exact()
    return x * np.tanh(np.logaddexp(0.0, x))


@twin("hard_swish")
def _hard_swish(call: Call) -> AnyArray:
    x = call.exact()
    return x * (np.clip(x + 3, 0, 6) / 6)


@twin("prelu")
def _prelu(call: Call) -> AnyArray:
    x, slope = call.exact(0), call.exact(1)
    if slope.ndim == 1 and slope.size != 1 and x.ndim > 1:
        slope = slope.reshape(-1, *[1] * (x.ndim - 2))
    elif slope.size == 1:
        slope = slope.reshape(())
    return np.where(x > 0, x, slope * x)
