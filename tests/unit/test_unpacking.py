"""Values of blocks against those of the `gguf` package, bit for bit."""

from __future__ import annotations

from typing import Any

import gguf
import numpy as np
import pytest

from openinfer.runtime.blocks import BLOCKS
from openinfer.runtime.unpacking import unpacked

_SCALES = {
    **{name: [0] for name in ("q4_0", "q5_0", "q8_0", "iq4_nl", "iq4_xs")},
    **{name: [0, 2] for name in ("q4_1", "q5_1", "q4_k", "q5_k")},
    **{"q2_k": [80, 82], "q3_k": [108], "q6_k": [208], "mxfp4": []},
}
"""Where f16 scales stand in a block."""


def kind(name: str) -> Any:
    return gguf.GGMLQuantizationType(BLOCKS[name].gguf_id)


@pytest.mark.parametrize("name", BLOCKS)
def test_layout(name: str) -> None:
    block = BLOCKS[name]
    assert kind(name).name.lower() == name
    assert gguf.GGML_QUANT_SIZES[kind(name)] == (block.elements, block.nbytes)


@pytest.mark.parametrize("name", BLOCKS)
def test_values_of_any_bytes(name: str) -> None:
    """Every code and scale, with f16 scales of all sizes."""
    generator = np.random.default_rng(BLOCKS[name].gguf_id)
    count = 400
    data = generator.integers(0, 256, (count, BLOCKS[name].nbytes), np.uint8)
    for at in _SCALES[name]:
        # Subnormal, usual and large ones, of both signs.
        exponents = generator.integers(-24, 15, count)
        scales = np.ldexp(generator.uniform(-2, 2, count), exponents).astype(np.float16)
        data[:, at : at + 2] = scales[:, None].view(np.uint8)
    with np.errstate(over="ignore"):
        wanted = gguf.dequantize(data, kind(name)).reshape(-1)
    found = unpacked(BLOCKS[name], data.reshape(-1))
    np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("name", [name for name in BLOCKS if _SCALES[name]])
def test_scales_that_are_no_numbers(name: str) -> None:
    data = np.full((2, BLOCKS[name].nbytes), 0x55, np.uint8)
    for at in _SCALES[name]:
        data[0, at : at + 2] = np.array([np.inf], np.float16).view(np.uint8)
        data[1, at : at + 2] = np.array([np.nan], np.float16).view(np.uint8)
    with np.errstate(invalid="ignore"):
        wanted = gguf.dequantize(data, kind(name)).reshape(-1)
    np.testing.assert_array_equal(unpacked(BLOCKS[name], data.reshape(-1)), wanted)


@pytest.mark.parametrize("name", ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "mxfp4"])
def test_quantised_values_come_back(name: str) -> None:
    """What the writer rounded is near what it was given, and exact where it has a code for it."""
    x = np.random.default_rng(5).standard_normal((6, 64)).astype(np.float32)
    data = np.ascontiguousarray(gguf.quantize(x, kind(name))).reshape(-1)
    found = unpacked(BLOCKS[name], data).reshape(x.shape)
    error = np.sqrt(np.mean((found - x) ** 2) / np.mean(x**2))
    assert error < {"q8_0": 0.01, "mxfp4": 0.15}.get(name, 0.1)
