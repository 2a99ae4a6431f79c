"""Quantised and fused operators of `com.microsoft` against ONNX Runtime, which defines them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx_contrib_models import RANDOM, Array, agree, f32, model_of

import openinfer as oi

Inputs = dict[str, Array | None]


def codes(dtype: str, *shape: int) -> Array:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)


def scale(*shape: int) -> Array:
    return np.asarray(RANDOM.uniform(0.005, 0.02, shape), np.float32)


def zero(dtype: str, value: int = 3) -> Array:
    return np.array(value, dtype)


def coded(name: str, x: Array) -> Inputs:
    """A tensor of codes with a scale and a zero point."""
    return {name: x, f"{name}_s": scale(), f"{name}_z": zero(x.dtype.name)}


def result(dtype: str, size: float = 0.02) -> Inputs:
    """Scale and zero point of a result."""
    return {"r_s": np.array(size, np.float32), "r_z": zero(dtype, 5)}


KIND = {"uint8": (2,), "int8": (3,)}


def within_one(
    op: str, inputs: Mapping[str, Array | None], activations: tuple[str, ...], **settings: Any
) -> str:
    """Both give the same codes, but for one where a value lies next to a half."""
    weights = tuple(n for n, a in inputs.items() if n not in activations and a is not None)
    dtype = next(a for a in inputs.values() if a is not None and a.dtype != np.bool_).dtype.name
    if dtype == "float32":
        dtype = "uint8"
    return agree(op, inputs, weights, rtol=0, atol=1.01, results=KIND[dtype], **settings)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_elementwise(dtype: str) -> None:
    a, b = codes(dtype, 2, 3, 8), codes(dtype, 3, 1)
    pair = coded("a", a) | coded("b", b)
    within_one("QLinearAdd", pair | result(dtype), ("a", "b"))
    within_one("QLinearMul", pair | result(dtype), ("a", "b"))
    within_one("QLinearSigmoid", coded("a", a) | result(dtype, 0.005), ("a",))
    within_one("QLinearLeakyRelu", coded("a", a) | result(dtype), ("a",), alpha=0.2)
    whole = coded("a", codes(dtype, 2, 8)) | result(dtype, 1 / 256)
    within_one("QLinearSoftmax", whole, ("a",), opset=13, axis=-1)
    flags: Inputs = {"c": RANDOM.integers(0, 2, (2, 3, 8)).astype(np.bool_)}
    if dtype == "uint8":
        parts = coded("a", codes(dtype, 2, 3, 8)) | coded("b", codes(dtype, 2, 3, 8))
        within_one("QLinearWhere", flags | parts | result(dtype), ("c", "a", "b"))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("last", [0, 1])
def test_pools(dtype: str, last: int) -> None:
    x = coded("x", codes(dtype, 1, 6, 7, 4))
    within_one("QLinearGlobalAveragePool", x | result(dtype, 0.01), ("x",), channels_last=last)
    settings: dict[str, Any] = {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [0, 1, 1, 1]}
    within_one(
        "QLinearAveragePool", x | result(dtype, 0.01), ("x",), channels_last=last, **settings
    )


def test_concat() -> None:
    parts = result("uint8") | coded("a", codes("uint8", 2, 3)) | coded("b", codes("uint8", 2, 5))
    within_one("QLinearConcat", parts, ("a", "b"), axis=1)


@pytest.mark.parametrize(("a", "b"), [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")])
def test_products(a: str, b: str) -> None:
    x, w = codes(a, 3, 20), codes(b, 20, 6)
    bias = RANDOM.integers(-3000, 3000, 6).astype(np.int32)
    floats: Inputs = coded("x", x) | coded("w", w)
    floats["c"] = bias
    text = agree("QGemm", floats, ("x_s", "x_z", "w", "w_s", "w_z", "c"))
    assert "acc=i32" in text
    turned = coded("x", x) | coded("w", np.ascontiguousarray(w.T))
    turned["c"] = bias
    turned |= result(a, 0.05)
    within_one("QGemm", turned, ("x",), transB=1)
    if a == "uint8":
        each: Inputs = {"x": x, "w": w, "x_s": scale(), "w_s": scale(6), "x_z": zero(a)}
        each |= {"w_z": np.full(6, 7, b)} if b == "uint8" else {"w_z": zero(b, 0)}
        weights = tuple(each)[1:]
        agree("MatMulIntegerToFloat", each, weights)
        agree("MatMulIntegerToFloat", each | {"c": f32(6)}, (*weights, "c"))
        more: Inputs = {"x": f32(3, 20), "w": w, "s": scale(), "z": zero(b), "c": f32(6)}
        assert "acc=i32" in agree("DynamicQuantizeMatMul", more, ("w", "s", "z", "c"))


@pytest.mark.parametrize("last", [0, 1])
def test_convolutions_of_channels_that_stand_last(last: int) -> None:
    x, w = codes("uint8", 1, 5, 6, 4), codes("int8", 3, 5 if not last else 4, 2, 2)
    inputs = coded("x", x) | coded("w", w) | result("uint8", 0.05)
    within_one("QLinearConv", inputs, ("x",), channels_last=last, pads=[0, 1, 0, 0])


def test_attention_of_integers() -> None:
    inputs: Inputs = {
        "x": codes("uint8", 2, 4, 12),
        "w": codes("int8", 12, 36),
        "b": f32(36),
        "x_s": scale(),
        "w_s": scale(),
        "seen": np.array([4, 2], np.int32),
        "x_z": zero("uint8", 128),
        "w_z": zero("int8", 0),
    }
    weights = tuple(name for name in inputs if name not in ("x", "seen"))
    text = agree("QAttention", inputs, weights, num_heads=3)
    assert "acc=i32" in text
    inputs["seen"] = None
    agree("QAttention", inputs, weights, num_heads=3, unidirectional=1)


def test_embeddings() -> None:
    tokens = RANDOM.integers(0, 20, (2, 5)).astype(np.int32)
    segments = RANDOM.integers(0, 2, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    inputs: Inputs = {"t": tokens, "s": segments, "words": f32(20, 16), "places": f32(8, 16)}
    inputs |= {"kinds": f32(2, 16), "g": f32(16), "b": f32(16), "m": mask}
    weights = ("words", "places", "kinds", "g", "b")
    agree("EmbedLayerNormalization", inputs, weights, outputs=0b111, results=(1, 6, 1))
    inputs |= {"s": None, "kinds": None, "m": None}
    inputs["p"] = RANDOM.integers(0, 8, (2, 5)).astype(np.int32)
    settings: dict[str, Any] = {"outputs": 0b11, "results": (1, 6), "epsilon": 1e-5}
    agree("EmbedLayerNormalization", inputs, ("words", "places", "g", "b"), **settings)
    quantised: Inputs = {"t": tokens, "s": segments}
    names = ("words", "places", "kinds", "g", "b")
    for name, shape in zip(names, ((20, 16), (8, 16), (2, 16), (16,), (16,))):
        quantised[name] = codes("uint8", *shape)
    quantised["m"] = mask
    quantised |= {f"{name}_s": scale() for name in names}
    quantised |= {f"{name}_z": zero("uint8", 120) for name in names}
    weights = tuple(name for name in quantised if name not in ("t", "s", "m"))
    agree("QEmbedLayerNormalization", quantised, weights, outputs=0b11, results=(1, 6), atol=1e-4)


def test_fused_convolutions_and_products() -> None:
    inputs: Inputs = {"x": f32(1, 3, 6, 5), "w": f32(4, 3, 3, 3), "b": f32(4)}
    settings: dict[str, Any] = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    agree("FusedConv", inputs, ("w", "b"), activation="Relu", **settings)
    clip: dict[str, Any] = {"activation": "Clip", "activation_params": [-0.5, 0.75]}
    agree("FusedConv", inputs | {"z": f32(1, 4, 6, 5)}, ("w", "b"), **clip, **settings)
    leaky: dict[str, Any] = {"activation": "LeakyRelu", "activation_alpha": 0.1}
    agree("FusedGemm", {"a": f32(3, 4), "b": f32(5, 4), "c": f32(5)}, transB=1, alpha=0.5, **leaky)
    agree("TransposeMatMul", {"a": f32(4, 3), "b": f32(4, 5)}, transA=1)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", ["relu", "silu", "gelu"])
def test_experts(count: int, name: str) -> None:
    inputs: Inputs = {
        "x": f32(5, 8),
        "scores": f32(5, 4),
        "one": f32(4, 12, 8),
        "one_b": f32(4, 12),
    }
    inputs |= {"two": f32(4, 8, 12), "two_b": f32(4, 8)}
    weights = ("one", "one_b", "two", "two_b")
    for normal in (0, 1):
        agree(
            "MoE", inputs, weights, k=count, activation_type=name, normalize_routing_weights=normal
        )


@pytest.mark.parametrize(
    ("bits", "block", "name"),
    [(4, 16, "silu"), (4, 0, "gelu"), (8, 0, "swiglu"), (4, 32, "swiglu")],
)
def test_experts_of_integers(bits: int, block: int, name: str) -> None:
    experts, width, inner = 4, 32, 64
    first = inner * (2 if name == "swiglu" else 1)

    def coded_weight(key: str, rows: int, depth: int) -> Inputs:
        scales = (experts, rows, depth // block) if block else (experts, rows)
        return {
            key: codes("uint8", experts, rows, depth * bits // 8),
            f"{key}_s": scale(*scales),
            f"{key}_b": f32(experts, rows),
        }

    layers = coded_weight("one", first, width) | coded_weight("two", width, inner)
    inputs = {"x": f32(2, 3, width), "scores": f32(6, experts)} | layers
    settings: dict[str, Any] = {"block_size": block} if block else {}
    if name == "swiglu":
        settings |= {"swiglu_fusion": 1}
    if block == 32:
        settings |= {"activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 2.0}
    settings |= {"k": 2, "expert_weight_bits": bits, "activation_type": name}
    agree("QMoE", inputs, tuple(layers), normalize_routing_weights=1, **settings)
    with pytest.raises(oi.ProgramError, match=r"OI1523.*normalize_routing_weights=0"):
        oi.from_onnx(model_of("QMoE", inputs, tuple(layers), 1, **settings))


def found(op: str, inputs: Inputs, weights: tuple[str, ...] = (), **settings: Any) -> Array:
    """What an operator gives that ONNX Runtime has on other devices only."""
    graph, package = oi.from_onnx(model_of(op, inputs, weights, 1, **settings))
    with oi.Simulator(graph, package).make_executor() as executor:
        feeds = {n: a for n, a in inputs.items() if a is not None and n not in weights}
        return np.asarray(executor.run(**feeds)["y0"])


def test_operators_of_other_devices() -> None:
    x, bias, skip = f32(2, 3, 8), f32(8), f32(2, 3, 8)
    inputs: Inputs = {"x": x, "b": bias, "s": skip}
    np.testing.assert_allclose(found("BiasAdd", inputs), x + bias + skip, rtol=1e-6)
    value, gate = np.split(x + bias, 2, axis=-1)
    erf = np.vectorize(math.erf)
    want = value * gate * 0.5 * (1 + erf(gate / math.sqrt(2)))
    np.testing.assert_allclose(found("BiasSplitGelu", {"x": x, "b": bias}), want, atol=1e-6)
    image, kernel = f32(1, 4, 5, 3), f32(2, 1, 1, 3)
    want = np.maximum(np.einsum("nhwc,oc->nhwo", image, kernel[:, 0, 0]), 0)
    y = found("NhwcFusedConv", {"x": image, "w": kernel}, ("w",), activation="Relu")
    np.testing.assert_allclose(y, want, atol=1e-6)
    whole = coded("x", codes("uint8", 2, 6)) | result("uint8", 0.01)
    weights = ("x_s", "x_z", "r_s", "r_z")
    y = found("QLinearReduceMean", whole, weights, results=(2,), axes=[1], keepdims=0)
    x, s, z = (np.asarray(whole[name], np.float32) for name in ("x", "x_s", "x_z"))
    want = np.clip(np.rint(((x - z) * s).mean(axis=1) / np.float32(0.01)) + 5, 0, 255)
    assert np.abs(y - want).max() <= 1


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize(
    ("dtype", "bits", "shape", "axes"),
    [
        ("uint8", 4, (10, 48), (0, 1)),
        ("uint8", 8, (10, 40), (0, 1)),
        ("uint4", 4, (6, 2, 32), (1, 2)),
        ("int4", 4, (40, 5), (1, 0)),
    ],
)
def test_tables_of_blocks(
    dtype: str, bits: int, shape: tuple[int, ...], axes: tuple[int, int], points: bool
) -> None:
    """Blocks of 16; those of bytes end in the middle of one where there are three, the last may be short."""
    axis, along = axes
    places = RANDOM.integers(-shape[axis], shape[axis], (2, 3))
    count = -(-shape[along] // 16)
    coarse = tuple(count if a == along else extent for a, extent in enumerate(shape))

    narrow = pytest.importorskip("ml_dtypes")

    def stored(dims: tuple[int, ...]) -> Array:
        if dtype != "uint8":
            low = -8 if dtype == "int4" else 0
            return RANDOM.integers(low, low + 16, dims).astype(getattr(narrow, dtype))
        return codes("uint8", *dims[:-1], -(-dims[-1] * bits // 8))

    inputs: Inputs = {"t": stored(shape), "i": places, "s": scale(*coarse)}
    inputs |= {"z": stored(coarse)} if points else {}
    weights = tuple(name for name in inputs if name != "i")
    settings = {"block_size": 16, "gather_axis": axis, "quantize_axis": along, "bits": bits}
    agree("GatherBlockQuantized", inputs, weights, **settings)
    damaged = inputs | {"s": scale(*coarse[:-1], coarse[-1] + 1)}
    with pytest.raises(oi.ProgramError, match="has scales"):
        oi.from_onnx(model_of("GatherBlockQuantized", damaged, weights, 1, **settings))
