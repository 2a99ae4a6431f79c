"""Input values of a dtype: ordinary ones, small whole ones, halves, extremes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import AnyArray, value_range
from openinfer.runtime.tensors import Tensor

MODES = ("normal", "normal", "normal", "normal", "small", "halves", "wide", "extreme")
_LARGEST = {"f64": 1.7e308, "f32": 3.4e38, "f16": 65504.0, "bf16": 3.38e38, "f8": 57344.0}
TINY = {"f64": 5e-324, "f32": 1e-45, "f16": 6e-8, "bf16": 9.2e-41, "f8": 1.5e-5, "f8e4m3": 2e-3}
"""The smallest numbers above zero, about."""


EDGES = (2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**40, 2**53 + 1, 2**62, 2**63 - 1)
"""Where numbers no longer fit: into 32 bits, a double, 64 bits."""
PRIMES = (7, 11, 13, 17, 31, 37)


def draw(dtype: str, shape: Sequence[int], mode: str, random: np.random.Generator) -> Tensor:
    """Values of a dtype, the same for the same generator state."""
    return Tensor.from_values(dtype, _values(dtype, shape, mode, random))


def draw_indices(
    dtype: str, shape: Sequence[int], random: np.random.Generator, *, most: int = 4
) -> Tensor:
    """Small whole numbers, at times a negative or a large one."""
    row = DTYPES[dtype]
    bounds = value_range(row)
    assert bounds is not None
    values = random.integers(0, most + 1, shape)
    kind = random.random()
    if kind < 0.06:
        values = values - 2
    elif kind < 0.1:
        values = values + 5
    elif kind < 0.11:
        values = values * 0 + 300
    return Tensor.from_values(dtype, np.clip(values, *bounds))


def draw_size(dtype: str, seed: int, random: np.random.Generator) -> Tensor:
    """What dimensions of persistent variables name: the same in most steps of a program."""
    value = 1 + seed % 4
    kind = random.random()
    if kind < 0.06:
        value = int(random.integers(0, 7))
    elif kind < 0.08 and dtype[0] == "i":
        value = -1
    return Tensor.from_values(dtype, np.array(value))


def draw_edge(dtype: str, random: np.random.Generator) -> Tensor:
    """One number at an edge of its dtype or of a wider one, at times a small one."""
    bounds = value_range(DTYPES[dtype])
    assert bounds is not None
    fitting = [n for n in (0, 1, -1, -(2**31), -(2**63), *EDGES) if bounds[0] <= n <= bounds[1]]
    value = fitting[int(random.integers(len(fitting)))]
    return Tensor.from_values(dtype, np.array(value, DTYPES[dtype].value))


def _values(dtype: str, shape: Sequence[int], mode: str, random: np.random.Generator) -> AnyArray:
    row = DTYPES[dtype]
    if row.kind == "bool":
        return random.random(shape) < 0.5
    if row.name == "t1":  # It has no 0.
        return 2 * random.integers(0, 2, shape) - 1
    if not row.is_float:
        bounds = value_range(row)
        assert bounds is not None
        low, high = bounds
        if mode == "extreme":
            edges = np.array([low, high, 0, min(high, 1), max(low, -1)], row.value)
            return edges[random.integers(0, len(edges), shape)]
        reach = 1 if mode == "small" else 100 if mode == "wide" else 9
        return random.integers(max(low, -reach), min(high, reach) + 1, shape)
    if mode == "small":
        return random.integers(-2, 3, shape).astype(np.float64)
    if mode == "halves":
        return random.integers(-9, 10, shape) / 2
    values = random.standard_normal(shape)
    if mode == "wide":
        return values * 20
    if mode == "extreme":
        most, tiny = _LARGEST.get(dtype, 448.0), TINY[dtype]
        edges = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, most, -most, tiny, -tiny, 1.0, 0.5])
        chosen = random.integers(0, 3 * len(edges), shape)
        return np.where(chosen < len(edges), edges[chosen % len(edges)], values)
    return values
