"""quantize and dequantize: twins against PyTorch and ONNX Runtime, compiled against twins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dialects.opset import OpError, TensorSpec, find, infer_outputs
from openinfer.lowering.reference.twins import evaluate
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import value_range
from openinfer.runtime.tensors import Tensor

CODES = ("i8", "u8", "i16", "u16", "i4", "u4", "i2", "u2", "i1", "u1", "i32", "u32")


def drawn(*shape: int, scale: float = 1.0) -> Any:
    return (np.random.default_rng(shape).standard_normal(shape) * scale).astype(np.float32)


def infer(op: str, *operands: tuple[Any, ...], **settings: Any) -> str:
    spec = find(op)
    assert spec is not None
    specs = [TensorSpec.of(d, dims) for d, *dims in operands]
    return str(infer_outputs(spec, specs, settings)[0])


def quantize(x: Any, *operands: tuple[Any, str], **settings: Any) -> Any:
    arrays = [x, *(np.asarray(a) for a, _ in operands)]
    return evaluate("quantize", arrays, ["f32", *(d for _, d in operands)], settings)[0]


def dequantize(x: Any, codes: str, *operands: tuple[Any, str], **settings: Any) -> Any:
    arrays = [x, *(np.asarray(a) for a, _ in operands)]
    return evaluate("dequantize", arrays, [codes, *(d for _, d in operands)], settings)[0]


def test_against_pytorch() -> None:
    torch = pytest.importorskip("torch")
    x = drawn(64, 5, scale=3)
    # PyTorch multiplies by the reciprocal: the same for powers of two.
    scale, zero = 0.03125, 11
    for name, low, high in (
        ("u8", 0, 255),
        ("i8", -128, 127),
        ("u4", 0, 15),
        ("i16", -32768, 32767),
    ):
        theirs = torch.fake_quantize_per_tensor_affine(torch.from_numpy(x), scale, zero, low, high)
        found = quantize(x, dtype=name, scale=scale, zero_point=zero)
        back = dequantize(found, name, scale=scale, zero_point=zero)
        np.testing.assert_array_equal(back, theirs.numpy())
    scales = np.array([0.5, 0.25, 0.125, 0.0625, 2.0], np.float32)
    zeros = np.array([0, 3, -4, 100, -100], np.int32)
    theirs = torch.fake_quantize_per_channel_affine(
        torch.from_numpy(x), torch.from_numpy(scales), torch.from_numpy(zeros), 1, -128, 127
    )
    operands = ((scales, "f32"), (zeros, "i32"))
    found = quantize(x, *operands, dtype="i8", axis=1)
    back = dequantize(found, "i8", *operands, axis=1)
    np.testing.assert_array_equal(back, theirs.numpy())


@pytest.mark.parametrize("codes", ["int8", "uint8", "int16", "uint16"])
def test_against_onnx_runtime(codes: str) -> None:
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    kinds = onnx.TensorProto
    kind = {"int8": kinds.INT8, "uint8": kinds.UINT8, "int16": kinds.INT16, "uint16": kinds.UINT16}
    name = codes.replace("uint", "u").replace("int", "i")
    x = np.concatenate([drawn(500, scale=30), np.arange(-40, 40) * 0.15]).astype(np.float32)
    scale, zero = np.array(0.3, np.float32), np.array(7, codes)
    helper = onnx.helper
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", kinds.FLOAT, x.shape),
        helper.make_tensor_value_info("s", kinds.FLOAT, ()),
        helper.make_tensor_value_info("z", kind[codes], ()),
    ]
    outputs = [
        helper.make_tensor_value_info("q", kind[codes], x.shape),
        helper.make_tensor_value_info("y", kinds.FLOAT, x.shape),
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    theirs = session.run(None, {"x": x, "s": scale, "z": zero})
    found = quantize(x, (scale, "f32"), (zero, name), dtype=name)
    np.testing.assert_array_equal(found, theirs[0])
    np.testing.assert_array_equal(dequantize(found, name, (scale, "f32"), (zero, name)), theirs[1])


def test_halves_go_to_even_and_the_zero_point_comes_after() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3.5], np.float32)
    assert quantize(x, dtype="i8", scale=1.0).tolist() == [0, 2, 2, 0, -2, 4]
    assert quantize(x, dtype="i8", scale=1.0, zero_point=1).tolist() == [1, 3, 3, 1, -1, 5]


@pytest.mark.parametrize("codes", CODES)
def test_limits(codes: str) -> None:
    bounds = value_range(DTYPES[codes])
    assert bounds is not None
    x = np.array([np.inf, -np.inf, 1e30, -1e30, np.nan], np.float32)
    low, high = bounds
    zero = 0 if low <= 0 <= high else low
    found = quantize(x, dtype=codes, scale=0.5, zero_point=zero)
    assert found.tolist() == [high, low, high, low, zero]


def test_a_scale_of_zero() -> None:
    x = np.array([1, -1, 0], np.float32)
    assert quantize(x, dtype="u8", scale=0.0, zero_point=9).tolist() == [255, 0, 9]


def test_wide_codes_are_exact() -> None:
    x = np.array([2**24 + 1, -(2**24)], np.float64)
    found = evaluate("quantize", [x], ["f64"], {"dtype": "i32", "scale": 1.0, "zero_point": 5})[0]
    assert found.tolist() == [2**24 + 6, -(2**24) + 5]
    back = evaluate("dequantize", [found], ["i32"], {"scale": 1.0, "zero_point": 5}, ["f64"])[0]
    assert back.tolist() == x.tolist()


WRONG: list[tuple[str, tuple[tuple[Any, ...], ...], dict[str, Any], str]] = [
    ("quantize", (("f32", 4),), {"scale": 1.0}, "needs the setting dtype"),
    ("quantize", (("f32", 4),), {"dtype": "i8"}, "there is no scale"),
    ("quantize", (("f32", 4),), {"dtype": "i64", "scale": 1.0}, "does not give i64"),
    ("quantize", (("f32", 4),), {"dtype": "f16", "scale": 1.0}, "does not give f16"),
    ("quantize", (("i8", 4),), {"dtype": "i8", "scale": 1.0}, "does not take i8"),
    ("quantize", (("f32", 4), ("f32",)), {"dtype": "i8", "scale": 1.0}, "an operand and a setting"),
    (
        "quantize",
        (("f32", 4), ("f32",), ("i8",)),
        {"dtype": "i8", "zero_point": 1},
        "an operand and a setting",
    ),
    ("quantize", (("f32", 4),), {"dtype": "u8", "scale": 1.0, "zero_point": -1}, "is 0..255"),
    ("quantize", (("f32", 4), ("f32", 4)), {"dtype": "u8"}, "give axis=…"),
    ("quantize", (("f32", 4, 5), ("f32", 4)), {"dtype": "u8", "axis": 1}, "has 5 positions"),
    ("quantize", (("f32", 4), ("i8",)), {"dtype": "u8"}, "scale is i8"),
    ("quantize", (("f32", 4), ("f32",), ("f32",)), {"dtype": "u8"}, "zero point is f32"),
    ("quantize", (("f32", 4), ("f32", 4)), {"dtype": "u8", "axis": 1}, "axis=1 is out of range"),
    ("dequantize", (("i8", 4),), {"scale": 1.0, "dtype": "i8"}, "does not give i8"),
    ("dequantize", (("i64", 4),), {"scale": 1.0}, "does not take i64"),
]


@pytest.mark.parametrize(("op", "operands", "settings", "message"), WRONG)
def test_refused(
    op: str, operands: tuple[tuple[Any, ...], ...], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(OpError) as caught:
        infer(op, *operands, **settings)
    assert message in str(caught.value) + str(caught.value.hint)


def same(found: Any, expected: Any, names: Sequence[str]) -> None:
    for name in names:
        left, right = (
            v.values() if isinstance(v, Tensor) else v for v in (found[name], expected[name])
        )
        np.testing.assert_array_equal(left, right, err_msg=name)


@pytest.mark.parametrize("codes", CODES)
def test_programs(codes: str) -> None:
    """Per tensor by settings, per axis by operands, and back, with a size that the run gives."""
    zero = 0 if codes[0] == "i" else 1
    graph = oi.graph(
        f"""dynamic {{ x: f32[N, 5]; s: f32[5]; z: {codes}[5]; }}
        volatile {{ a: {codes}[N, 5]; b: {codes}[N, 5]; c: f32[N, 5]; d: f16[N, 5]; }}
        block entry {{
          op quantize(x, scale=0.3, zero_point={zero}, dtype={codes}) >> a;
          op quantize(x, s, z, axis=1, dtype={codes}) >> b;
          op dequantize(a, scale=0.3, zero_point={zero}) >> c;
          op dequantize(b, s, z, axis=-1, dtype=f16) >> d;
          return;
        }}"""
    )
    bounds = value_range(DTYPES[codes])
    assert bounds is not None
    x = np.concatenate([drawn(8, 5), drawn(4, 5) * 1e6, [[np.nan, np.inf, -np.inf, -0.0, 0.45]]])
    inputs = {
        "x": x.astype(np.float32),
        "s": np.array([0.1, 0.5, 1.0, -0.25, 1e-3], np.float32),
        "z": Tensor.from_values(codes, [bounds[0], bounds[1], bounds[0], bounds[1], bounds[0]]),
    }
    expected = oi.Simulator(graph).make_executor().run(**inputs)
    same(oi.compile(graph).make_executor().run(**inputs), expected, "abcd")


def test_blocks_are_those_of_ggml() -> None:
    """Bytes as `gguf` writes them, and values as it reads them; compiled code gives the same bits."""
    gguf = pytest.importorskip("gguf")
    kind = gguf.GGMLQuantizationType.Q8_0
    x = drawn(7, 96, scale=3) * np.logspace(-4, 4, 7, dtype=np.float32)[:, None]
    x[2, :32] = 0
    (bytes_,) = evaluate("quantize_blocks", [x], ["f32"], {"format": "q8_0"})
    assert np.array_equal(bytes_, gguf.quantize(x, kind))
    (values,) = evaluate("dequantize_blocks", [bytes_], ["u8"], {"format": "q8_0"})
    assert np.array_equal(values, gguf.dequantize(bytes_, kind))
    most = np.abs(x).reshape(7, 3, 32).max(-1, keepdims=True)
    error = np.abs(values - x).reshape(7, 3, 32)
    assert (error <= most / 254 + most / 2048 + 2.0**-18).all()
    program = oi.compile(
        "dynamic { x: f32[T, 96]; } block entry { b = op quantize_blocks(x); "
        "y = op dequantize_blocks(b); return b, y; }"
    )
    with program.make_executor() as executor:
        found = executor.run(x=x)
    assert np.array_equal(found["b"], bytes_)
    assert np.array_equal(found["y"], values)


@pytest.mark.parametrize(
    ("op", "x", "said"),
    [
        ("quantize_blocks", ("f32", 3, 40), "no whole number of blocks"),
        ("quantize_blocks", ("f32",), "scalar"),
        ("dequantize_blocks", ("u8", 3, 40), "no whole number of blocks"),
        ("dequantize_blocks", ("u8",), "scalar"),
    ],
)
def test_rows_that_are_no_blocks(op: str, x: tuple[Any, ...], said: str) -> None:
    with pytest.raises(OpError, match=said):
        infer(op, x, format="q8_0")


def test_rows_of_a_length_that_only_the_step_knows() -> None:
    text = "dynamic { x: f32[2, K]; } block entry { b = op quantize_blocks(x); return b; }"
    with pytest.raises(oi.ProgramError, match=r"OI0712(.|\n)*known to the step alone"):
        oi.compile(text)
    with oi.Simulator(text).make_executor() as executor:
        assert executor.run(x=np.ones((2, 64), np.float32))["b"].shape == (2, 68)
        with pytest.raises(oi.StepError):
            executor.run(x=np.ones((2, 40), np.float32))
