"""The models as ONNX graphs, from the same weights: standard operators, sizes left open.

The patterns (the erf form of GELU, layer norm after an addition, the additive mask) are those that
PyTorch's exporter writes, so that ONNX Runtime's own fusions find what they look for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
OPSET = 17
FORMAT = 8
HEADS = 12
EPSILON = 1e-12


class Graph:
    """Nodes and constants in order; every method gives the name of its result."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def op(self, kind: str, *operands: str, **settings: Any) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(operands), [name], name, **settings))
        return name

    def constant(self, name: str, value: Array) -> str:
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def transposed(self, name: str) -> str:
        """A stored (outputs, inputs) matrix as (inputs, outputs)."""
        return self.constant(f"{name}.T", self.weights[name].T)

    def number(self, name: str, value: float) -> str:
        return self.constant(name, np.array(value, np.float32))

    def numbers(self, name: str, *values: int) -> str:
        return self.constant(name, np.array(values, np.int64))

    def linear(self, x: str, name: str) -> str:
        product = self.op("MatMul", x, self.transposed(f"{name}.weight"))
        return self.op("Add", product, self.weight(f"{name}.bias"))

    def norm(self, x: str, name: str) -> str:
        scale, shift = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=EPSILON)

    def save(self, path: Path, inputs: Sequence[Any], output: Any) -> None:
        graph = helper.make_graph(
            self.nodes, path.stem, list(inputs), [output], list(self.constants.values())
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=FORMAT
        )
        onnx.checker.check_model(model)
        onnx.save(model, str(path))


def write_mlp(weights: Mapping[str, Array], path: Path) -> None:
    """`x` f32 [B, inputs] to `y` f32 [B, classes]; Gemm, as PyTorch exports a linear layer."""
    graph = Graph(weights)
    h = "x"
    for number in (1, 2, 3):
        h = graph.op("Gemm", h, graph.weight(f"W{number}"), graph.weight(f"b{number}"))
        h = graph.op("Relu", h) if number < 3 else h
    _name_result(graph, graph.op("Softmax", h, axis=-1), "y")
    wide, narrow = weights["W1"].shape[0], weights["W3"].shape[1]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", wide])
    graph.save(path, [given], helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", narrow]))


def write_minilm(weights: Mapping[str, Array], path: Path) -> None:
    """`tokens` and `mask` i64 [B, L] to `embedding` f32 [B, 384]."""
    graph = Graph(weights)
    layers = sum(name.endswith("attention.self.query.weight") for name in weights)
    width = weights["embeddings.LayerNorm.weight"].shape[0]

    words = graph.op("Gather", graph.weight("embeddings.word_embeddings.weight"), "tokens")
    length = graph.op("Shape", "tokens", start=1, end=2)
    zero, one = graph.numbers("zero", 0), graph.numbers("one", 1)
    places = graph.op(
        "Slice", graph.weight("embeddings.position_embeddings.weight"), zero, length, zero
    )
    # Every token is of the first type, so its row is part of the places.
    types = graph.constant("type", weights["embeddings.token_type_embeddings.weight"][:1])
    h = graph.op("Add", graph.op("Add", words, types), places)
    h = graph.norm(h, "embeddings.LayerNorm")

    given = graph.op("Cast", "mask", to=TensorProto.FLOAT)
    wide = graph.op("Unsqueeze", given, graph.numbers("mask_axes", 1, 2))
    hidden = graph.op("Sub", graph.number("all", 1.0), wide)
    hidden = graph.op("Mul", hidden, graph.number("lowest", float(np.finfo(np.float32).min)))

    for layer in range(layers):
        h = _layer(graph, h, hidden, f"encoder.layer.{layer}", width)

    weight = graph.op("Unsqueeze", given, graph.numbers("pool_axes", 2))
    total = graph.op("ReduceSum", graph.op("Mul", h, weight), one, keepdims=0)
    count = graph.op("ReduceSum", given, one, keepdims=1)
    mean = graph.op("Div", total, count)
    norm = graph.op("ReduceL2", mean, axes=[1], keepdims=1)
    _name_result(graph, graph.op("Div", mean, norm), "embedding")
    graph.save(
        path,
        [
            helper.make_tensor_value_info(n, TensorProto.INT64, ["B", "L"])
            for n in ("tokens", "mask")
        ],
        helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["B", width]),
    )


def _layer(graph: Graph, h: str, hidden: str, name: str, width: int) -> str:
    apart = graph.numbers("apart", 0, 0, HEADS, width // HEADS)
    together = graph.numbers("together", 0, 0, width)

    def heads(part: str, perm: list[int]) -> str:
        x = graph.linear(h, f"{name}.attention.self.{part}")
        return graph.op("Transpose", graph.op("Reshape", x, apart), perm=perm)

    q = heads("query", [0, 2, 1, 3])
    k = heads("key", [0, 2, 3, 1])
    v = heads("value", [0, 2, 1, 3])
    root = graph.number("root", float(np.sqrt(width // HEADS)))
    scores = graph.op("Div", graph.op("MatMul", q, k), root)
    scores = graph.op("Softmax", graph.op("Add", scores, hidden), axis=-1)
    seen = graph.op("Transpose", graph.op("MatMul", scores, v), perm=[0, 2, 1, 3])
    a = graph.linear(graph.op("Reshape", seen, together), f"{name}.attention.output.dense")
    h = graph.norm(graph.op("Add", a, h), f"{name}.attention.output.LayerNorm")

    f = graph.linear(h, f"{name}.intermediate.dense")
    error = graph.op("Erf", graph.op("Div", f, graph.number("root2", float(np.sqrt(2)))))
    f = graph.op("Mul", f, graph.op("Add", error, graph.number("unit", 1.0)))
    f = graph.op("Mul", f, graph.number("half", 0.5))
    d = graph.linear(f, f"{name}.output.dense")
    return graph.norm(graph.op("Add", d, h), f"{name}.output.LayerNorm")


def _name_result(graph: Graph, last: str, name: str) -> None:
    assert graph.nodes[-1].output[0] == last
    graph.nodes[-1].output[0] = name
