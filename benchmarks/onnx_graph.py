"""Builds ONNX graphs of the workloads from their weights: standard operators, fixed shapes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import openinfer as oi
from benchmarks.workloads.base import Workload

Array = np.ndarray[Any, Any]
OPSET = 17
FORMAT = 8
NAME = "main_graph"


class Graph:
    """Nodes and constants in order; every method gives the name of its result."""

    def __init__(self, weights: Mapping[str, Any], peer: str = "") -> None:
        self.weights = weights
        self.peer = peer
        """Who will read the graph: some forms of narrow weights differ."""
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, self.kind(dtype), shape))
        return name

    def result(self, name: str, shape: tuple[int, ...]) -> None:
        """Makes the value of the last node the graph's only result."""
        assert self.nodes[-1].output[0] == name
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    @staticmethod
    def kind(dtype: Any) -> int:
        """ONNX's number of a NumPy dtype."""
        return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def op(self, kind: str, *operands: str, **settings: Any) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(operands), [name], name, **settings))
        return name

    def split(self, x: str, lengths: str, axis: int) -> tuple[str, str]:
        name = f"split_{len(self.nodes)}"
        names = [f"{name}_left", f"{name}_right"]
        self.nodes.append(helper.make_node("Split", [x, lengths], names, name, axis=axis))
        return names[0], names[1]

    def constant(self, name: str, value: Array) -> str:
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def transposed(self, name: str) -> str:
        """A stored (outputs, inputs) matrix as (inputs, outputs)."""
        value = self.weights[name]
        if isinstance(value, oi.Tensor):
            bits = np.ascontiguousarray(value.storage.T)
            self.constants[f"{name}.T"] = helper.make_tensor(
                f"{name}.T", TensorProto.BFLOAT16, bits.shape, bits.tobytes(), raw=True
            )
            return f"{name}.T"
        return self.constant(f"{name}.T", value.T)

    def number(self, name: str, value: float) -> str:
        return self.constant(name, np.array(value, np.float32))

    def numbers(self, name: str, *values: int) -> str:
        return self.constant(name, np.array(values, np.int64))

    def rows(self, x: str, name: str) -> str:
        """f32 `x` times a matrix whose rows are outputs, in the weights' float dtype."""
        value = self.weights[name]
        narrow = isinstance(value, oi.Tensor) or value.dtype == np.float16
        weight = self.transposed(name)
        if not narrow:
            return self.op("MatMul", x, weight)
        kind = TensorProto.BFLOAT16 if isinstance(value, oi.Tensor) else TensorProto.FLOAT16
        if self.peer.startswith("openvino"):
            # OpenVINO reads narrow weights as they are stored when they alone are narrow.
            return self.op("MatMul", x, self.op("Cast", weight, to=TensorProto.FLOAT))
        product = self.op("MatMul", self.op("Cast", x, to=kind), weight)
        return self.op("Cast", product, to=TensorProto.FLOAT)

    def scaled(self, x: str, name: str, scale: str) -> str:
        """f32 `x` times an i8 matrix whose rows are outputs, with a scale for each."""
        weight, scales = self.transposed(name), self.weight(scale)
        if self.peer == "onnxruntime-i8":
            return self.op("DynamicQuantizeMatMul", x, weight, scales, domain="com.microsoft")
        if self.peer == "onnxruntime":
            # With a DequantizeLinear it would round `x` to 8 bits, and its 8-bit blocks with f32
            # vectors take thirty times as long as the f32 weights that it makes of these.
            real = self.op("Cast", weight, to=TensorProto.FLOAT)
            return self.op("Mul", self.op("MatMul", x, real), scales)
        return self.op("MatMul", x, self.op("DequantizeLinear", weight, scales, axis=1))

    def gelu(self, f: str) -> str:
        """The erf form."""
        error = self.op("Erf", self.op("Div", f, self.number("root2", float(np.sqrt(2)))))
        f = self.op("Mul", f, self.op("Add", error, self.number("unit", 1.0)))
        return self.op("Mul", f, self.number("half", 0.5))

    def attention(
        self, q: str, k: str, v: str, heads: int, width: int, mask: str | None = None
    ) -> str:
        """[B, L, width] each, and an additive mask [B, 1, 1, L]; `width` is that of all heads."""
        apart = self.numbers("apart", 0, 0, heads, width // heads)

        def split(x: str, perm: list[int]) -> str:
            return self.op("Transpose", self.op("Reshape", x, apart), perm=perm)

        q, k, v = split(q, [0, 2, 1, 3]), split(k, [0, 2, 3, 1]), split(v, [0, 2, 1, 3])
        root = self.number("root", float(np.sqrt(width // heads)))
        scores = self.op("Div", self.op("MatMul", q, k), root)
        scores = scores if mask is None else self.op("Add", scores, mask)
        seen = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        together = self.numbers("together", 0, 0, width)
        return self.op("Reshape", self.op("Transpose", seen, perm=[0, 2, 1, 3]), together)

    def save(self, path: Path) -> None:
        graph = helper.make_graph(
            self.nodes, NAME, self.inputs, self.outputs, list(self.constants.values())
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)],
            ir_version=FORMAT,
        )
        onnx.save(model, str(path))


def write(workload: Workload, folder: Path, peer: str, path: Path) -> None:
    """The workload as an ONNX file for a peer."""
    graph = Graph(workload.weights(folder), peer)
    workload.onnx(graph)
    graph.save(path)
