"""`q4_k` and `q6_k` as they are written: no further from the values than ggml's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openinfer.compiler.tools.k_quants import q4_k, q6_k
from openinfer.runtime.blocks import BLOCKS
from openinfer.runtime.unpacking import unpacked

WRITERS: dict[str, Callable[[Any], Any]] = {"q4_k": q4_k, "q6_k": q6_k}
_GENERATOR = np.random.default_rng(11)
DRAWN = {
    name: values.astype(np.float32)
    for name, values in {
        "normal": _GENERATOR.standard_normal((100, 256)),
        "long tails": _GENERATOR.standard_t(4, (100, 256)),
        "uniform": _GENERATOR.uniform(-1, 1, (100, 256)),
        "small": _GENERATOR.laplace(size=(100, 256)) * 1e-3,
        "positive": _GENERATOR.exponential(size=(100, 256)),
        "columns": _GENERATOR.standard_normal((100, 256)) * np.exp(_GENERATOR.standard_normal(256)),
    }.items()
}
GGML = {
    ("q4_k", "normal"): 0.07160,
    ("q4_k", "long tails"): 0.08621,
    ("q4_k", "uniform"): 0.05444,
    ("q4_k", "small"): 0.08552,
    ("q4_k", "positive"): 0.05382,
    ("q4_k", "columns"): 0.09844,
    ("q6_k", "normal"): 0.01776,
    ("q6_k", "long tails"): 0.02302,
    ("q6_k", "uniform"): 0.01329,
    ("q6_k", "small"): 0.02358,
    ("q6_k", "positive"): 0.02156,
    ("q6_k", "columns"): 0.02700,
}
"""The relative error of `ggml_quantize_chunk` without an importance matrix on the same values (llama.cpp as
in xllamacpp 2026.10.11549)."""


def error(name: str, values: Any) -> float:
    """Root of the mean squared difference to that of the values."""
    found = unpacked(BLOCKS[name], WRITERS[name](values).reshape(-1)).astype(np.float64)
    wanted = values.reshape(-1).astype(np.float64)
    return float(np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2)))


@pytest.mark.parametrize(("name", "values"), GGML)
def test_no_worse_than_ggml(name: str, values: str) -> None:
    assert error(name, DRAWN[values]) <= GGML[name, values]


@pytest.mark.parametrize("name", WRITERS)
def test_values_that_have_codes_come_back(name: str) -> None:
    """Zeros; whole numbers that the scales hold; a block is the same alone and among others."""
    assert not unpacked(
        BLOCKS[name], WRITERS[name](np.zeros((1, 256), np.float32)).reshape(-1)
    ).any()
    whole = np.tile(np.arange(16, dtype=np.float32) - 8, (3, 16))
    found = unpacked(BLOCKS[name], WRITERS[name](whole).reshape(-1)).reshape(whole.shape)
    np.testing.assert_allclose(found, whole, atol=0.1)
    many = WRITERS[name](DRAWN["normal"])
    np.testing.assert_array_equal(WRITERS[name](DRAWN["normal"][90:91]), many[90:91])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("size", [1e-30, 1e-7, 65504.0])
def test_sizes_at_the_edge_of_f16(name: str, size: float) -> None:
    values = np.zeros((2, 256), np.float32)
    values[0] = size
    values[1, ::7] = -size
    found = unpacked(BLOCKS[name], WRITERS[name](values).reshape(-1)).reshape(2, 256)
    assert np.isfinite(found).all()
    assert np.abs(found - values).max() <= max(0.02 * size, 63 * 2.0**-24)


@pytest.mark.parametrize("name", WRITERS)
def test_one_value_far_from_the_others(name: str) -> None:
    values = DRAWN["normal"][:4].copy()
    values[:, 100] = 50
    found = unpacked(BLOCKS[name], WRITERS[name](values).reshape(-1)).reshape(values.shape)
    np.testing.assert_allclose(found[:, 100], 50, rtol=0.02)
