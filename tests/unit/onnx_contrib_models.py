"""Models of one node of `com.microsoft`, run here and by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import openinfer as oi

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(16)


def f32(*shape: int) -> Array:
    return RANDOM.standard_normal(shape, dtype=np.float32)


def model_of(
    op: str,
    inputs: Mapping[str, Array | None],
    weights: tuple[str, ...],
    outputs: int,
    results: tuple[int, ...] = (),
    **settings: Any,
) -> Any:
    """A node with these inputs, those of `weights` as initializers; None leaves an input out.

    `results` are the types of outputs that are no f32, as ONNX counts them.
    """
    helper = onnx.helper
    names = [name if array is not None else "" for name, array in inputs.items()]
    found = [f"y{place}" if outputs >> place & 1 else "" for place in range(outputs.bit_length())]
    node = helper.make_node(op, names, found, domain="com.microsoft", **settings)
    if op == "SimplifiedLayerNormalization":
        node.ClearField("domain")
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in inputs.items()
        if array is not None and name not in weights
    ]
    tensors = [onnx.numpy_helper.from_array(inputs[name], name) for name in weights]
    kinds = [*results, *[1] * len(found)]
    ends = [
        helper.make_tensor_value_info(name, kind, None) for name, kind in zip(found, kinds) if name
    ]
    graph = helper.make_graph([node], "one", infos, ends, tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def agree(
    op: str,
    inputs: Mapping[str, Array | None],
    weights: tuple[str, ...] = (),
    outputs: int = 1,
    rtol: float = 1e-4,
    atol: float = 2e-5,
    results: tuple[int, ...] = (),
    **settings: Any,
) -> str:
    """Both give the same; the text of the program."""
    model = model_of(op, inputs, weights, outputs, results, **settings)
    feeds = {n: a for n, a in inputs.items() if a is not None and n not in weights}
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    graph, package = oi.from_onnx(model)
    with oi.Simulator(graph, package).make_executor() as executor:
        found = executor.run(**feeds)
        for name, want in zip([o.name for o in session.get_outputs()], session.run(None, feeds)):
            one = np.asarray(found[name])
            assert one.dtype == want.dtype
            assert one.shape == want.shape
            np.testing.assert_allclose(
                one.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol
            )
    return str(graph)
