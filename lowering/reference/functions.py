"""Twins of the functions of one float, computed in float64 and rounded once."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from openinfer.lowering.program.value_arrays import wrap
from openinfer.lowering.reference.elementwise import limited
from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import AnyArray


@twin("exp")
def _exp(call: Call) -> AnyArray:
    return np.exp(call.exact())


@twin("expm1")
def _expm1(call: Call) -> AnyArray:
    return np.expm1(call.exact())


@twin("log1p")
def _log1p(call: Call) -> AnyArray:
    return np.log1p(call.exact())


@twin("log")
def _log(call: Call) -> AnyArray:
    return np.log(call.exact())


@twin("sqrt")
def _sqrt(call: Call) -> AnyArray:
    # Correctly rounded in the dtype of the operand, wherever the result is stored.
    return np.sqrt(call.wide())


@twin("rsqrt")
def _rsqrt(call: Call) -> AnyArray:
    return 1 / np.sqrt(call.exact())


@twin("pow")
def _pow(call: Call) -> AnyArray:
    return np.power(call.exact(0), call.exact(1))


@twin("sin")
def _sin(call: Call) -> AnyArray:
    return np.sin(call.exact())


@twin("cos")
def _cos(call: Call) -> AnyArray:
    return np.cos(call.exact())


@twin("tan")
def _tan(call: Call) -> AnyArray:
    return np.tan(call.exact())


@twin("atan")
def _atan(call: Call) -> AnyArray:
    return np.arctan(call.exact())


@twin("asin")
def _asin(call: Call) -> AnyArray:
    return np.arcsin(call.exact())


@twin("acos")
def _acos(call: Call) -> AnyArray:
    return np.arccos(call.exact())


@twin("sinh")
def _sinh(call: Call) -> AnyArray:
    return np.sinh(call.exact())


@twin("cosh")
def _cosh(call: Call) -> AnyArray:
    return np.cosh(call.exact())


@twin("asinh")
def _asinh(call: Call) -> AnyArray:
    return np.arcsinh(call.exact())


@twin("acosh")
def _acosh(call: Call) -> AnyArray:
    return np.arccosh(call.exact())


@twin("atanh")
def _atanh(call: Call) -> AnyArray:
    return np.arctanh(call.exact())


@twin("atan2")
def _atan2(call: Call) -> AnyArray:
    return np.arctan2(call.exact(0), call.exact(1))


@twin("tanh")
def _tanh(call: Call) -> AnyArray:
    return np.tanh(call.exact())


@twin("erf")
def _erf(call: Call) -> AnyArray:
    return erf(call.exact())


@twin("sigmoid")
def _sigmoid(call: Call) -> AnyArray:
    return sigmoid(call.exact())


@twin("silu")
def _silu(call: Call) -> AnyArray:
    x = call.exact()
    return x * sigmoid(x)


@twin("softplus")
def _softplus(call: Call) -> AnyArray:
    return np.logaddexp(0.0, call.exact())


@twin("gelu")
def _gelu(call: Call) -> AnyArray:
    x = call.exact()
    if call.settings["approximate"] == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        share = 0.5 * (1 + np.tanh(inner))
    else:
        share = 0.5 * (1 + erf(x / math.sqrt(2)))
    return x * share


@twin("relu")
def _relu(call: Call) -> AnyArray:
    x, settings = call.wide(), call.settings
    slope = settings["negative_slope"]
    assert isinstance(slope, int | float)
    if not DTYPES[call.dtypes[0]].is_float:
        # A product wraps, so its factor may.
        slope = int(wrap(np.asarray(int(slope)), call.dtypes[0]))
    # With slope 0 the negative side is 0, also at -inf; NaN is on that side and stays.
    below = np.where(x < 0, np.zeros_like(x), x) if slope == 0 else x * np.asarray(slope, x.dtype)
    result = np.where(x >= 0, x, below)
    if result.dtype.kind != "f":
        result = wrap(result, call.dtypes[0])
    clamped = limited(call, result, settings["clamp_min"], settings["clamp_max"])
    return np.where(np.isnan(result), result, clamped) if result.dtype.kind == "f" else clamped


def sigmoid(x: AnyArray) -> AnyArray:
    """`1 / (1 + exp(-x))`, with an exponential that cannot overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


_STEP = 64
_REACH = 6


def erf(x: AnyArray) -> AnyArray:
    """The error function in float64: Taylor series around the nearest multiple of 1/64."""
    table, bell = _erf_table()
    inside = np.where(np.isnan(x), 0.0, np.clip(x, -_REACH, _REACH))
    nearest = np.rint(inside * _STEP).astype(np.int64)
    centre = nearest / _STEP
    offset = inside - centre  # |offset| <= 1/128
    # The derivatives of exp(-t*t) are Hermite polynomials: H' = -2tH - 2nH''.
    series = np.zeros_like(inside)
    previous = np.zeros_like(inside)
    current = np.ones_like(inside)
    power = offset.copy()
    for order in range(1, 9):
        series = series + current * power
        previous, current = current, -2 * centre * current - 2 * (order - 1) * previous
        power = power * offset / (order + 1)
    value = table[nearest + _REACH * _STEP] + bell[nearest + _REACH * _STEP] * series
    # Odd, and so is its zero.
    value = np.copysign(np.where(np.abs(x) >= _REACH, 1.0, value), x)
    return np.where(np.isnan(x), x, value)


@cache
def _erf_table() -> tuple[AnyArray, AnyArray]:
    """erf and its derivative at the multiples of 1/64 in -6..6."""
    grid = [i / _STEP for i in range(-_REACH * _STEP, _REACH * _STEP + 1)]
    table = np.array([math.erf(x) for x in grid])
    bell = np.array([2 / math.sqrt(math.pi) * math.exp(-x * x) for x in grid])
    return table, bell
