"""Products of dequantised tensors are those of integers, exactly as `QLinearMatMul` and `QLinearConv` say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import openinfer as oi

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """A product between quantised tensors: activations of a dtype, a weight, perhaps a bias."""

    op: str
    codes: str
    weights: str = "int8"
    per_channel: bool = False
    biased: bool = False
    zero: int = 3
    weight_zero: int = 0
    relu: bool = False
    settings: dict[str, Any] | None = None


CASES = {
    "gemm": Case("Gemm", "uint8", biased=True, settings={"transB": 1}),
    "gemm of channels": Case(
        "Gemm", "uint8", per_channel=True, biased=True, settings={"transB": 1}
    ),
    "matmul": Case("MatMul", "uint8"),
    "matmul of i8": Case("MatMul", "int8", per_channel=True, zero=0),
    "weights of u8": Case("MatMul", "uint8", weights="uint8", weight_zero=130),
    "a zero point of i8": Case("MatMul", "int8", weight_zero=5, zero=-7),
    "conv": Case("Conv", "uint8", biased=True, relu=True, settings={"pads": [1, 0, 1, 2]}),
    "conv of channels": Case(
        "Conv", "uint8", per_channel=True, biased=True, settings={"strides": [2, 1]}
    ),
    "conv of groups": Case("Conv", "int8", per_channel=True, settings={"group": 2}),
}


def tensors_of(case: Case) -> dict[str, Array]:
    random = np.random.default_rng(21)
    low, high = (0, 256) if case.weights == "uint8" else (-128, 128)
    shape = {"Gemm": (6, 20), "MatMul": (20, 6), "Conv": (6, 4, 3, 3)}[case.op]
    if case.settings and "group" in case.settings:
        shape = (6, 2, 3, 3)
    w = random.integers(low, high, shape).astype(case.weights)
    count = 6 if case.per_channel else 1
    scale = random.uniform(0.001, 0.02, count).astype(np.float32)
    if not case.per_channel:
        scale = scale.reshape(())
    found = {
        "s": np.array(0.031, np.float32),
        "z": np.array(case.zero, case.codes),
        "w": w,
        "t": scale,
        "v": np.full(scale.shape, case.weight_zero, case.weights),
        "r": np.array(0.05, np.float32),
        "y0": np.array(case.zero, case.codes),
    }
    if case.biased:
        found["b"] = random.integers(-4000, 4000, 6).astype(np.int32)
        found["k"] = np.asarray(found["s"] * scale, np.float32)
    return found


def model_of(case: Case, tensors: dict[str, Array]) -> Any:
    helper = onnx.helper
    axis = {"axis": 1 if case.op == "MatMul" else 0} if case.per_channel else {}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "t", "v"], ["e"], **axis),
    ]
    operands = ["d", "e"]
    if case.biased:
        own = {"axis": 0} if case.per_channel else {}
        nodes.append(helper.make_node("DequantizeLinear", ["b", "k"], ["c"], **own))
        operands.append("c")
    nodes.append(helper.make_node(case.op, operands, ["u"], **(case.settings or {})))
    if case.relu:
        nodes.append(helper.make_node("Relu", ["u"], ["a"]))
    nodes += [
        helper.make_node("QuantizeLinear", ["a" if case.relu else "u", "r", "y0"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "r", "y0"], ["y"]),
    ]
    shape = ["N", 4, 7, 8] if case.op == "Conv" else ["N", 20]
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def defined(case: Case, tensors: dict[str, Array], x: Array) -> Array:
    """What the operators define, with sums in 64 bits: codes less zero points, one factor in f32."""
    limits = np.iinfo(case.codes)

    def codes(value: Array, scale: Array, zero: Array) -> Array:
        return np.clip(np.rint(value / scale) + zero, limits.min, limits.max)

    centred = codes(x, tensors["s"], tensors["z"]).astype(np.int64) - tensors["z"].astype(np.int64)
    w = tensors["w"].astype(np.int64) - case.weight_zero
    total = product(case, centred, w)
    spread = [-1, 1, 1] if case.op == "Conv" else [-1]
    if case.biased:
        total = total + tensors["b"].reshape(spread)
    factor = (tensors["s"] * tensors["t"]) / tensors["r"]
    scaled = total.astype(np.float32) * factor.reshape(spread if factor.ndim else ())
    if case.relu:
        scaled = np.maximum(scaled, 0)
    found = codes(scaled, np.ones((), np.float32), tensors["y0"])
    return (found - tensors["y0"]).astype(np.float32) * tensors["r"]


def product(case: Case, x: Array, w: Array) -> Array:
    settings = case.settings or {}
    if case.op != "Conv":
        return x @ (w.T if case.op == "Gemm" else w)
    top, left, bottom, right = settings.get("pads", [0] * 4)
    down, across = settings.get("strides", [1, 1])
    groups = settings.get("group", 1)
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    seen = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::down, ::across]
    parts = [
        np.einsum("nchwij,ocij->nohw", a, b)
        for a, b in zip(np.split(seen, groups, axis=1), np.split(w, groups))
    ]
    return np.concatenate(parts, axis=1)


@pytest.mark.parametrize("name", CASES)
def test_codes_are_those_that_the_operators_define(name: str) -> None:
    case = CASES[name]
    tensors = tensors_of(case)
    graph, package = oi.from_onnx(model_of(case, tensors))
    assert str(graph).count("acc=i32") == 1
    random = np.random.default_rng(5)
    shape = (2, 4, 7, 8) if case.op == "Conv" else (30, 20)
    x = (2 * random.standard_normal(shape)).astype(np.float32)
    want = defined(case, tensors, x)
    assert np.unique(want).size > 20
    for made in (oi.Simulator(graph, package), oi.compile(graph, package)):
        with made.make_executor() as executor:
            np.testing.assert_array_equal(np.asarray(executor.run(x=x)["y"]), want)


def test_the_floats_that_are_replaced_differ_by_one_code_at_most() -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    random = np.random.default_rng(6)
    for case in CASES.values():
        tensors = tensors_of(case)
        model = model_of(case, tensors)
        graph, package = oi.from_onnx(model)
        shape = (16, 4, 7, 8) if case.op == "Conv" else (200, 20)
        x = (2 * random.standard_normal(shape)).astype(np.float32)
        session = runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        (want,) = session.run(None, {"x": x})
        with oi.Simulator(graph, package).make_executor() as executor:
            found = np.asarray(executor.run(x=x)["y"])
        codes = np.abs(found - want) / tensors["r"]
        assert codes.max() < 1.01
        assert (codes > 0.5).mean() < 0.01


def test_what_is_not_proven_stays_a_product_of_floats() -> None:
    """A weight with a zero point in a convolution, and a bias that is no multiple of the scales."""
    case = Case("Conv", "uint8", weight_zero=4)
    graph, _ = oi.from_onnx(model_of(case, tensors_of(case)))
    assert "acc" not in str(graph)
    case = CASES["gemm"]
    tensors = {**tensors_of(case), "k": np.array(0.5, np.float32)}
    model = model_of(case, tensors)
    graph, package = oi.from_onnx(model)
    x = np.random.default_rng(8).standard_normal((3, 20), dtype=np.float32)
    with oi.Simulator(graph, package).make_executor() as executor:
        found = np.asarray(executor.run(x=x)["y"])
    with_bias = {**tensors, "b": np.round(tensors["b"] * 0.5 / (tensors["s"] * tensors["t"]))}
    np.testing.assert_allclose(found, defined(case, with_bias, x), atol=1.01 * 0.05)


DYNAMIC = """dynamic (float[N, L, 20] x) => (float[N, L, 6] y) {
    q, s, z = DynamicQuantizeLinear(x)
    n = MatMulInteger(q, w, z, v)
    f = Cast<to = 1>(n)
    r = Mul(s, t)
    y = Mul(f, r)
}"""


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 0), ("uint8", 121)])
def test_dynamic_quantisation(dtype: str, zero: int) -> None:
    random = np.random.default_rng(9)
    limits = np.iinfo(dtype)
    w = random.integers(limits.min, limits.max + 1, (20, 6)).astype(dtype)
    t, v = np.float32(0.01), np.array(zero, dtype)
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {DYNAMIC}')
    for name, one in (("w", w), ("t", t), ("v", v)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(one), name))
    graph, package = oi.from_onnx(model)
    assert "acc=i32" in str(graph)
    x = random.standard_normal((2, 3, 20), dtype=np.float32)
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    s = (high - low) / np.float32(255)
    z = np.rint(-low / s)
    codes = np.clip(np.rint(x / s) + z, 0, 255).astype(np.int64)
    total = (codes - int(z)) @ (w.astype(np.int64) - zero)
    want = total.astype(np.float32) * (s * t)
    for made in (oi.Simulator(graph, package), oi.compile(graph, package)):
        with made.make_executor() as executor:
            np.testing.assert_array_equal(np.asarray(executor.run(x=x)["y"]), want)
