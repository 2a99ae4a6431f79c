"""What conversions must give, by exact arithmetic that shares no code with the package.

Values are Python integers, or floats that hold them exactly. A narrow float is the table of its
codes; rounding looks for the two neighbours in it and compares with the middle between them, which
a float64 holds exactly.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BITS = {
    **{f"{sign}{bits}": bits for sign in "iu" for bits in (64, 32, 16, 8, 4, 2, 1)},
    **{"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "f8": 8, "f8e4m3": 8},
    **{"bool": 8, "bitset": 8, "t2": 2, "t1": 1},
}
MODES = ("trunc", "floor", "ceil", "nearest", "even")


def limits(dtype: str) -> tuple[int, int]:
    """The least and the largest value of a dtype that is no float."""
    if dtype in ("t2", "t1"):
        return -1, 1
    if dtype == "bool":
        return 0, 1
    bits = BITS[dtype]
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype[0] == "i" else (0, 2**bits - 1)


@cache
def codes(dtype: str) -> Array:
    """The value of every code of a float of 8 or 16 bits, as float64."""
    count = np.arange(2 ** BITS[dtype])
    if dtype == "f16":
        return count.astype(np.uint16).view(np.float16).astype(np.float64)
    if dtype == "bf16":
        with np.errstate(invalid="ignore"):  # Some codes are signalling NaN.
            return (count.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype == "f8":  # The upper half of an f16.
        return (count.astype(np.uint16) << 8).view(np.float16).astype(np.float64)
    return np.array([_e4m3(int(code)) for code in count])


def _e4m3(code: int) -> float:
    sign, exponent, fraction = code >> 7, (code >> 3) & 15, code & 7
    if exponent == 15 and fraction == 7:
        return math.nan
    size = fraction / 8 * 2.0**-6 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7)
    return -size if sign else size


def to_float(dtype: str, values: Array) -> Array:
    """float64 values, or Python integers of any size, rounded to nearest even."""
    if values.dtype == object:
        if max(abs(int(v)) for v in values) > 2**53:
            return np.array([_round_integer(dtype, int(v)) for v in values])
        values = values.astype(np.float64)
    if dtype == "f64":
        return values
    if dtype == "f32":  # One rounding by the machine.
        with np.errstate(all="ignore"):
            return values.astype(np.float32).astype(np.float64)
    table = codes(dtype)
    half = table[: table.size // 2]
    grid = half[np.isfinite(half)]  # Not negative, and in order.
    size = np.abs(values)
    above = np.searchsorted(grid, size)
    beyond = 2 * grid[-1] - grid[-2]  # What would follow the largest.
    upper = np.append(grid, beyond)[np.minimum(above, grid.size)]
    below = np.maximum(above - 1, 0)
    lower = grid[below]
    middle = (lower + upper) / 2
    # The code's last bit says which of the two neighbours is even.
    up = (size > middle) | ((size == middle) & (below % 2 == 1)) | (upper == size)
    rounded = np.where(up, upper, lower)
    overflow = math.nan if dtype == "f8e4m3" else math.inf
    rounded = np.where((rounded == beyond) | (size > beyond), overflow, rounded)
    rounded = np.where(np.isnan(values), math.nan, rounded)
    return np.copysign(rounded, values)


def _round_integer(dtype: str, value: int) -> float:
    """One rounding to the bits that the dtype keeps, by exact division."""
    kept = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8": 3, "f8e4m3": 4}[dtype]
    size = abs(value)
    step = Fraction(2) ** max(0, size.bit_length() - kept)
    rounded = int(round(Fraction(size) / step) * step)  # `round` of a fraction is to even.
    exact = np.array([math.copysign(float(rounded), value)])
    # What is left is whether it overflows.
    return float(exact[0]) if dtype in ("f64", "f32") else float(to_float(dtype, exact)[0])


def whole(mode: str, values: Array) -> Array:
    """float64 values without their fractions, as Python integers and infinities; 0 for NaN."""
    found: list[int | float] = []
    for value in values.tolist():
        if math.isnan(value):
            found.append(0)
        elif math.isinf(value):
            found.append(value)
        elif mode == "nearest":  # Halves away from zero; the difference is exact.
            size = math.floor(abs(value))
            found.append(int(math.copysign(1, value)) * (size + (abs(value) - size >= 0.5)))
        else:
            rule = {"trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "even": round}
            found.append(int(rule[mode](value)))
    return np.array(found, dtype=object)


def to_integer(dtype: str, values: Array, saturate: bool) -> Array:
    """Python integers or infinities in the range of a dtype that is no float, as int64 or uint64."""
    low, high = limits(dtype)
    kind = np.uint64 if high >= 2**63 else np.int64
    if dtype == "bool":
        return np.array([int(v != 0) for v in values], kind)
    fits = all(-(2**62) < v < 2**62 for v in values)
    if fits and high < 2**32 and dtype not in ("t2", "t1"):
        plain = values.astype(np.int64)
        return np.clip(plain, low, high) if saturate else (plain - low) % (high - low + 1) + low
    if dtype == "t1":
        return np.array([1 if v > 0 else -1 for v in values], kind)
    if saturate or dtype == "t2":
        return np.array([int(min(max(v, low), high)) for v in values], kind)
    span = high - low + 1
    limited = (int(min(max(v, -(2**63)), 2**64 - 1)) for v in values)
    return np.array([(v - low) % span + low for v in limited], kind)
