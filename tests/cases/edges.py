"""The values at which arithmetic goes wrong, for each dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import value_range

# Smallest subnormal, largest subnormal, smallest normal and largest number.
_LIMITS = {
    "f64": (5e-324, 2.225073858507201e-308, 2.2250738585072014e-308, 1.7976931348623157e308),
    "f32": (2.0**-149, 2.0**-126 - 2.0**-149, 2.0**-126, float(np.finfo(np.float32).max)),
    "f16": (2.0**-24, 2.0**-14 - 2.0**-24, 2.0**-14, 65504.0),
    "bf16": (2.0**-133, 2.0**-126 - 2.0**-133, 2.0**-126, (2 - 2.0**-7) * 2.0**127),
    "f8": (2.0**-16, 3 * 2.0**-16, 2.0**-14, 57344.0),
    "f8e4m3": (2.0**-9, 7 * 2.0**-9, 2.0**-6, 448.0),
}


def edge_values(dtype: str) -> Any:
    """Both zeros, subnormals, limits, halves, infinities and NaN; of integers limits and ones."""
    row = DTYPES[dtype]
    if row.is_float:
        tiny, below, normal, largest = _LIMITS[dtype]
        positive = (0.0, tiny, below, normal, largest, 0.5, 1.0, 1.5, 2.5, np.inf)
        return np.array([*positive, *(-x for x in positive), np.nan])
    if row.kind == "bool":
        return np.array([False, True])
    if dtype == "t1":
        return np.array([-1, 1])
    bounds = value_range(row)
    assert bounds is not None
    low, high = bounds
    wanted = (low, low + 1, high, high - 1, high // 2, -3, -2, -1, 0, 1, 2, 3, 7)
    return np.array(sorted({n for n in wanted if low <= n <= high}), row.value)


def edges(dtype: str, number: int, shape: Sequence[int]) -> Any:
    """Operand `number`: each edge of one operand meets each of the others, for long enough shapes."""
    values = edge_values(dtype)
    place = np.arange(int(np.prod(shape))).reshape(shape)
    count = len(values)
    return values[(place // count**number + (place if number > 1 else 0)) % count]


def edge_rows(dtype: str, shape: Sequence[int]) -> Any:
    """Lines to reduce: what a line holds is told from its result, whatever the order of sums."""
    if not DTYPES[dtype].is_float:
        return edges(dtype, 0, shape)
    tiny, below, normal, largest = _LIMITS[dtype]
    kinds = (
        (0.0, -0.0, tiny, -below, normal),
        (1.0, -0.5, np.inf, 2.5),
        (1.0, -0.5, -np.inf, -0.0),
        (largest,),
        (np.inf, 1.0, -np.inf),
        (1.5, np.nan, -np.inf),
        (-0.0,),
    )
    place = np.arange(int(np.prod(shape))).reshape(shape)
    line = place // shape[-1] if shape else place
    found = np.zeros(shape)
    for number, kind in enumerate(kinds):
        chosen = np.array(kind)[place % len(kind)]
        found = np.where(line % len(kinds) == number, chosen, found)
    return found
