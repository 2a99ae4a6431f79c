"""Value arrays: widening before an op computes, rounding or wrapping once after it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import memory_holds
from openinfer.runtime.storage import AnyArray, round_values, value_range


def check_memory(shape: Sequence[int]) -> None:
    """Raises MemoryError for a shape that no memory holds, which NumPy may call something else.

    Asked before a twin counts up to it.
    """
    if not memory_holds(shape):
        raise MemoryError
    count = math.prod(shape)
    if count > _LARGE:
        np.empty(count, np.int8)


_LARGE = 1 << 32
"""Elements that may be more than there is room for."""


def wide(array: AnyArray, dtype: str) -> AnyArray:
    """The array as ops compute with it: f64 as float64, other floats as float32, else unchanged."""
    if not DTYPES[dtype].is_float:
        return array
    return array.astype(np.float64 if dtype == "f64" else np.float32, copy=False)


def narrow(array: AnyArray, dtype: str) -> AnyArray:
    """The value array of `dtype`: floats rounded once, integers wrapped, bool by `!= 0`."""
    row = DTYPES[dtype]
    if row.is_float:
        return round_values(row, array)
    if row.kind == "bool":
        return array if array.dtype == np.bool_ else np.asarray(array != 0)
    return wrap(array, dtype)


def wrap(array: AnyArray, dtype: str) -> AnyArray:
    """Integers (or bools) modulo two to the width of `dtype`, as its value array.

    Ternary values are limited to -1..1 instead; of t1, which has no 0, what is not above 0 is -1.
    """
    row = DTYPES[dtype]
    if row.kind == "ternary":
        positive = np.asarray(array > 0).astype(np.int8)
        below = np.ones_like(positive) if row.name == "t1" else np.asarray(array < 0)
        return positive - below.astype(np.int8) * (1 - positive)
    if row.bits >= 8:
        return array.astype(row.value)
    low = array.astype(np.int64) & ((1 << row.bits) - 1)
    if row.kind == "int":
        sign = 1 << (row.bits - 1)
        low = (low ^ sign) - sign
    return low.astype(row.value)


def into_range(limit: object, dtype: str) -> int | float:
    """A number setting brought into the range of an integer dtype; floats stay as they are."""
    assert isinstance(limit, int | float)
    bounds = value_range(DTYPES[dtype])
    if bounds is None:
        return limit
    return int(min(max(limit, bounds[0]), bounds[1]))


def pattern(array: AnyArray, dtype: str) -> AnyArray:
    """The bits of integers as uint64, those above the width of `dtype` cleared."""
    bits = DTYPES[dtype].bits
    raw = array.astype(np.int64).view(np.uint64) if array.dtype.kind == "i" else array
    return raw.astype(np.uint64) & np.uint64((1 << bits) - 1)
