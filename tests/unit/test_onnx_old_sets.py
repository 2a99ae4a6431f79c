"""Operators as older operator sets define them, against ONNX Runtime: from 7, what changed since."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

IMAGE = "float[1,2,4,6] x"
ROWS = "float[2,3,4] x"
CASES = [
    *[(version, ROWS, f"y = {name}(x)") for version in (7, 12) for name in ("Softmax", "Hardmax")],
    (11, ROWS, "y = LogSoftmax<axis=0>(x)"),
    (12, ROWS, "y = Softmax<axis=-1>(x)"),
    (13, ROWS, "y = Softmax<axis=1>(x)"),
    (7, ROWS, "y = Flatten<axis=2>(x)"),
    (7, "float[1,3,1,4] x", "y = Squeeze<axes=[0,2]>(x)"),
    (12, "float[1,3,1,4] x", "y = Squeeze(x)"),
    (11, ROWS, "y = Unsqueeze<axes=[0,-1]>(x)"),
    (12, ROWS, "y = ReduceSum<axes=[1], keepdims=0>(x)"),
    (17, ROWS, "y = ReduceMean<axes=[-1]>(x)"),
    (10, ROWS, "y = ReduceMax(x)"),
    (11, ROWS, "y = ArgMax<axis=1>(x)"),
    (7, ROWS, "y, z = Split<axis=2>(x)"),
    (12, ROWS, "y, z = Split<axis=1, split=[1,2]>(x)"),
    (17, ROWS, "y, z = Split<axis=0>(x)"),
    (7, ROWS, "y = Clip<min=-0.5, max=0.25>(x)"),
    (10, ROWS, "y = Clip<min=0.0>(x)"),
    (7, ROWS, "y = Pad<pads=[0,1,0,1,0,2], value=0.5>(x)"),
    (10, ROWS, 'y = Pad<mode="reflect", pads=[0,1,2,0,1,0]>(x)'),
    (9, ROWS, "y = Slice<axes=[1,2], starts=[1,0], ends=[3,-1]>(x)"),
    (9, ROWS, "y, z = TopK<axis=1, k=2>(x)"),
    (10, ROWS, "k = Constant<value=int64[1] {2}>() y, z = TopK<axis=2>(x, k)"),
    (7, IMAGE, 'y = Upsample<mode="nearest", scales=[1.0,1.0,2.0,3.0]>(x)'),
    (9, IMAGE, 's = Constant<value=float[4] {1,1,2,2}>() y = Upsample<mode="linear">(x, s)'),
    (10, IMAGE, 's = Constant<value=float[4] {1,1,2,0.5}>() y = Resize<mode="linear">(x, s)'),
    (10, IMAGE, "s = Constant<value=float[4] {1,1,1.5,2}>() y = Resize(x, s)"),
    (8, IMAGE, "y = BatchNormalization<spatial=1, momentum=0.5>(x, c, d, c, d)"),
    (14, IMAGE, "y = BatchNormalization(x, c, d, c, d)"),
    (7, IMAGE, "y = AveragePool<kernel_shape=[2,2], pads=[1,0,0,1]>(x)"),
    (8, IMAGE, "y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x)"),
    (7, IMAGE, "y = Dropout<ratio=0.3>(x)"),
    (12, IMAGE, "y = Dropout(x)"),
    (7, "float[2,4] x", "y = Gemm<transB=1, alpha=0.5>(x, w, e)"),
    (9, "float[2,4] x", "y = Scatter<axis=1>(x, i, u)"),
    (7, ROWS, "f = Cast<to=6>(x) y = Cast<to=1>(f)"),
    (8, "float[2,1,4] x", "s = Constant<value=int64[3] {2,3,4}>() y = Expand(x, s)"),
]
WEIGHTS = {
    "c": np.array([0.5, 2.0], np.float32),
    "d": np.array([1.5, 0.25], np.float32),
    "w": np.arange(12, dtype=np.float32).reshape(3, 4) / 8,
    "e": np.array([1.0, -2.0, 3.0], np.float32),
    "i": np.array([[1, 3], [0, 2]], np.int64),
    "u": np.array([[10.0, 20.0], [30.0, 40.0]], np.float32),
}


def model_of(version: int, inputs: str, nodes: str) -> Any:
    """Results are what is called y and z; weights those that the nodes name."""
    ends = ", ".join(
        f"float {name}" for name in "yz" if f"{name} =" in nodes or f"{name}, z" in nodes
    )
    ir = 3 if version == 7 else 7
    model = onnx.parser.parse_model(
        f'<ir_version: {ir}, opset_import: ["" : {version}]> one ({inputs}) => ({ends}) {{ {nodes} }}'
    )
    used = {name for node in model.graph.node for name in node.input}
    for name, array in WEIGHTS.items():
        if name in used and not any(name in node.output for node in model.graph.node):
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
            kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            if ir == 3:
                model.graph.input.append(
                    onnx.helper.make_tensor_value_info(name, kind, array.shape)
                )
    types = {"ArgMax": (7,), "TopK": (1, 7)}.get(model.graph.node[-1].op_type, (1, 1))
    for info, kind in zip(model.graph.output, types):
        info.CopyFrom(onnx.helper.make_tensor_value_info(info.name, kind, None))
    return model


@pytest.mark.parametrize(("version", "inputs", "nodes"), CASES)
def test_an_operator_means_what_its_set_says(version: int, inputs: str, nodes: str) -> None:
    model = model_of(version, inputs, nodes)
    shape = [int(one) for one in inputs.partition("[")[2].partition("]")[0].split(",")]
    x = np.random.default_rng(7).standard_normal(shape, dtype=np.float32)
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    graph, package = oi.from_onnx(model)
    with oi.Simulator(graph, package).make_executor() as executor:
        found = executor.run(x=x)
    for end, want in zip(session.get_outputs(), session.run(None, {"x": x})):
        one = np.asarray(found[end.name])
        assert one.dtype == want.dtype
        np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-6)
