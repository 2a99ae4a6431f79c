"""Operators of `com.microsoft` against ONNX Runtime, which defines them, in models of one node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_contrib_models import RANDOM, Array, agree, f32, model_of

import openinfer as oi
from openinfer.runtime.errors import ProgramError


def test_norms() -> None:
    x, skip, gamma, beta, bias = f32(2, 3, 16), f32(2, 3, 16), f32(16), f32(16), f32(16)
    agree("SimplifiedLayerNormalization", {"x": x, "gamma": gamma}, ("gamma",), epsilon=1e-3)
    weights = ("gamma", "beta", "bias")
    inputs: dict[str, Array | None] = {"x": x, "skip": skip, "gamma": gamma, "beta": beta}
    agree("SkipLayerNormalization", inputs, weights[:2], epsilon=1e-3)
    agree("SkipLayerNormalization", {**inputs, "bias": bias}, weights, outputs=0b1001)
    inputs = {"x": x, "skip": skip, "gamma": gamma}
    agree("SkipSimplifiedLayerNormalization", inputs, ("gamma",), outputs=0b1001, epsilon=1e-3)
    inputs["bias"] = bias
    agree("SkipSimplifiedLayerNormalization", inputs, ("gamma", "bias"))


def test_activations() -> None:
    x, bias = f32(3, 16), f32(16)
    agree("FastGelu", {"x": x})
    agree("FastGelu", {"x": x, "bias": bias})
    agree("BiasGelu", {"x": x, "bias": bias})
    agree("Gelu", {"x": x})
    assert "op silu" in agree("QuickGelu", {"x": x}, alpha=1.0)
    agree("QuickGelu", {"x": x})


def test_fused_products() -> None:
    agree("FusedMatMul", {"a": f32(2, 3, 4), "b": f32(2, 4, 5)}, alpha=0.25)
    agree("FusedMatMul", {"a": f32(2, 4, 3), "b": f32(2, 5, 4)}, transA=1, transB=1)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("depth", [64, 80])
def test_products_with_blocks(bits: int, depth: int) -> None:
    rows, block = 6, 32
    blocks = -(-depth // block)
    packed = RANDOM.integers(0, 256, (rows, blocks, block * bits // 8)).astype(np.uint8)
    scales = RANDOM.uniform(0.01, 0.1, (rows * blocks,)).astype(np.float32)
    zeros = RANDOM.integers(0, 256, (rows * -(-blocks * bits // 8),)).astype(np.uint8)
    settings: dict[str, Any] = {"K": depth, "N": rows, "bits": bits, "block_size": block}
    inputs: dict[str, Array | None] = {"a": f32(2, 3, depth), "w": packed, "s": scales}
    agree("MatMulNBits", inputs, ("w", "s"), rtol=2e-3, **settings)
    inputs |= {"z": zeros}
    agree("MatMulNBits", inputs, ("w", "s", "z"), rtol=2e-3, **settings)
    inputs |= {"g": None, "bias": f32(rows)}
    agree("MatMulNBits", inputs, ("w", "s", "z", "bias"), rtol=2e-3, **settings)


def test_weights_of_blocks_are_not_copied_wide() -> None:
    """More bytes than the importer looks into."""
    rows, depth = 1 << 13, 512
    packed = RANDOM.integers(0, 256, (rows, depth // 32, 16)).astype(np.uint8)
    scales = np.full(rows * depth // 32, 0.01, np.float32)
    inputs: dict[str, Array | None] = {"a": f32(1, depth), "w": packed, "s": scales}
    settings: dict[str, Any] = {"K": depth, "N": rows, "bits": 4, "block_size": 32}
    text = agree("MatMulNBits", inputs, ("w", "s"), rtol=2e-3, **settings)
    assert "u4[8192, 16, 32]" in text


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("offset", [False, True])
def test_rotary(interleaved: int, offset: bool) -> None:
    angles = RANDOM.uniform(0, 6, (32, 4))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    places = np.array([3]) if offset else RANDOM.integers(0, 32, (2, 5))
    inputs: dict[str, Array | None] = {"x": f32(2, 5, 24), "p": places, "cos": cos, "sin": sin}
    agree("RotaryEmbedding", inputs, ("cos", "sin"), interleaved=interleaved)
    inputs["x"] = f32(2, 3, 5, 8)
    agree("RotaryEmbedding", inputs, ("cos", "sin"), interleaved=interleaved)
    if not offset:
        inputs["x"] = f32(2, 5, 36)
        agree("RotaryEmbedding", inputs, num_heads=3, rotary_embedding_dim=8)


def test_multi_head_attention() -> None:
    q, k, v = f32(2, 3, 12), f32(2, 5, 12), f32(2, 5, 12)
    inputs: dict[str, Array | None] = {"q": q, "k": k, "v": v}
    agree("MultiHeadAttention", inputs, num_heads=3)
    inputs["bias"] = f32(36)
    agree("MultiHeadAttention", inputs, ("bias",), num_heads=3, scale=0.3)
    inputs["seen"] = np.array([[1, 1, 0, 1, 1], [1, 1, 1, 0, 0]], np.int32)
    agree("MultiHeadAttention", inputs, ("bias",), num_heads=3)
    inputs["seen"] = np.array([4, 2], np.int32)
    agree("MultiHeadAttention", inputs, ("bias",), num_heads=3)
    inputs |= {"seen": None, "added": f32(2, 3, 3, 5)}
    agree("MultiHeadAttention", inputs, ("bias",), num_heads=3)
    same: dict[str, Array | None] = {"q": q, "k": f32(2, 3, 12), "v": f32(2, 3, 12)}
    agree("MultiHeadAttention", same, num_heads=3, unidirectional=1)


def test_attention() -> None:
    inputs: dict[str, Array | None] = {"x": f32(2, 4, 12), "w": f32(12, 36), "b": f32(36)}
    agree("Attention", inputs, ("w", "b"), num_heads=3)
    agree("Attention", inputs, ("w", "b"), num_heads=3, unidirectional=1)
    inputs["seen"] = np.array([[1, 1, 0, 1], [1, 1, 1, 0]], np.int32)
    agree("Attention", inputs, ("w", "b"), num_heads=3)
    inputs["seen"] = np.array([4, 2], np.int32)
    agree("Attention", inputs, ("w", "b"), num_heads=3)


def grouped(
    past: int, length: int, *, packed: bool = False, batch: int = 2
) -> tuple[dict[str, Array | None], tuple[str, ...]]:
    """Four heads of 16 in two groups."""
    angles = RANDOM.uniform(0, 6, (32, 8))
    q, k, v = f32(batch, length, 64), f32(batch, length, 32), f32(batch, length, 32)
    inputs: dict[str, Array | None] = {
        "q": np.concatenate([q, k, v], 2) if packed else q,
        "k": None if packed else k,
        "v": None if packed else v,
        "past_k": f32(batch, 2, past, 16),
        "past_v": f32(batch, 2, past, 16),
        "last": np.full(batch, past + length - 1, np.int32),
        "total": np.array(past + length, np.int32),
        "cos": np.cos(angles).astype(np.float32),
        "sin": np.sin(angles).astype(np.float32),
    }
    return inputs, ("cos", "sin")


@pytest.mark.parametrize(
    ("past", "length", "packed", "settings"),
    [
        (0, 5, False, {}),
        (4, 1, False, {"do_rotary": 1}),
        (0, 5, True, {"do_rotary": 1, "rotary_interleaved": 1, "scale": 0.3}),
        (6, 1, True, {"do_rotary": 1, "softcap": 2.0}),
        (0, 6, False, {"local_window_size": 3}),
        (6, 1, False, {"local_window_size": 3}),
    ],
)
def test_grouped_attention(past: int, length: int, packed: bool, settings: Any) -> None:
    inputs, weights = grouped(past, length, packed=packed)
    if "do_rotary" not in settings:
        for name in weights:
            del inputs[name]
        weights = ()
    agree(
        "GroupQueryAttention",
        inputs,
        weights,
        outputs=0b111,
        num_heads=4,
        kv_num_heads=2,
        **settings,
    )


def test_sequences_of_other_lengths_are_an_error() -> None:
    inputs, weights = grouped(0, 5)
    inputs["last"] = np.array([4, 2], np.int32)
    model = model_of(
        "GroupQueryAttention", inputs, weights, 0b111, num_heads=4, kv_num_heads=2, do_rotary=1
    )
    graph, package = oi.from_onnx(model)
    feeds = {n: a for n, a in inputs.items() if a is not None and n not in weights}
    with (
        oi.Simulator(graph, package).make_executor() as executor,
        pytest.raises(oi.StepError, match="-2"),
    ):
        executor.run(**feeds)


def test_forms_that_are_refused() -> None:
    q = f32(2, 3, 12)
    past = f32(2, 3, 1, 4)
    inputs: dict[str, Array | None] = {"q": q, "k": q, "v": q}
    inputs |= dict.fromkeys(("bias", "seen", "added")) | {"past_k": past, "past_v": past}
    with pytest.raises(ProgramError, match="past keys and values"):
        oi.from_onnx(model_of("MultiHeadAttention", inputs, (), 0b111, num_heads=3))
    with pytest.raises(ProgramError, match="DecoderMaskedMultiHeadAttention"):
        oi.from_onnx(model_of("DecoderMaskedMultiHeadAttention", {"q": q}, (), 1, num_heads=3))
    bad: dict[str, Array | None] = {
        "a": f32(2, 64),
        "w": np.zeros((6, 2, 15), np.uint8),
        "s": f32(12),
    }
    with pytest.raises(ProgramError, match="MatMulNBits has weights"):
        oi.from_onnx(model_of("MatMulNBits", bad, ("w", "s"), 1, K=64, N=6, bits=4, block_size=32))
