"""W5: one step of a Llama-shaped stack whose cache holds the keys and values of 512 tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import openinfer as oi
from benchmarks.workloads.base import PROGRAMS, Array, Arrays, Workload, normal
from benchmarks.workloads.matvec import BYTES, converted
from openinfer.runtime.packages.oinf_writer import OinfContent

if TYPE_CHECKING:
    import torch

    from benchmarks.onnx_graph import Graph

PLACE = 512
"""Tokens in the cache when a timed step starts, and so the place of the next one."""
EPSILON = 1e-5
BASE = 10000.0


@dataclass(frozen=True)
class Decode(Workload):
    """Attention with grouped heads and rotated places, then a gated MLP, layer after layer.

    The caller of our program gives the place, so every timed step writes the same row of the cache.
    Peers are handed keys and values as arrays and add the new row to them, and know its angles.
    """

    dtype: str
    width: int
    layers: int
    heads: int
    groups: int
    inner: int
    place: int = PLACE

    group = "W5"
    result = "y"
    tolerance = 1e-4

    @property
    def size(self) -> int:
        """Elements of a head."""
        return self.width // self.heads

    @property
    def program(self) -> Path:
        return PROGRAMS / f"decode_{self.dtype}.oi"

    @property
    def model(self) -> str:
        return f"decode-{self.width}-{self.dtype}"

    def _matrices(self) -> dict[str, tuple[int, int]]:
        """(outputs, inputs) of a layer's weights."""
        width, inner, keys = self.width, self.inner, self.groups * self.size
        square = (width, width)
        return {
            **{"q": square, "k": (keys, width), "v": (keys, width), "o": square},
            **{"gate": (inner, width), "up": (inner, width), "down": (width, inner)},
        }

    def content(self) -> OinfContent:
        random = np.random.default_rng(self.width)
        sizes = {"dim": self.width, "layers": self.layers, "heads": self.heads}
        content = OinfContent({**sizes, "kv_heads": self.groups, "hidden": self.inner})
        tensors = content.tensors
        for layer in range(self.layers):
            for part, (outputs, inputs) in self._matrices().items():
                weight = normal(random, outputs, inputs, scale=inputs**-0.5)
                tensors[f"layers.{layer}.{part}"] = converted(weight, self.dtype)
            for part in ("attention_norm", "mlp_norm"):
                tensors[f"layers.{layer}.{part}"] = 1 + normal(random, self.width, scale=0.1)
        tensors["last_norm"] = 1 + normal(random, self.width, scale=0.1)
        return content

    def inputs(self) -> Arrays:
        x = normal(np.random.default_rng(1), 1, self.width)
        return {"x": x, "place": np.array(self.place, np.int32)}

    def call_sizes(self) -> dict[str, int]:
        return {"bound.place.0": self.place}

    def cached(self) -> list[tuple[Array, Array]]:
        """Keys and values of every layer, each [tokens, groups, size]."""
        random = np.random.default_rng(2)
        shape = (self.place, self.groups, self.size)
        return [(normal(random, *shape), normal(random, *shape)) for _ in range(self.layers)]

    def start(self, executor: oi.Executor) -> None:
        """Fills the tables as if `place` tokens had been read."""
        from openinfer.runtime.dtypes import dtype
        from openinfer.runtime.state import StateValue

        f32, shape = dtype("f32"), (self.groups, self.size)
        tables = {}
        for name, number in (("K", 0), ("V", 1)):
            entries = {
                (layer, place): oi.Tensor(f32, shape, np.ascontiguousarray(pair[number][place]))
                for layer, pair in enumerate(self.cached())
                for place in range(self.place)
            }
            tables[name] = StateValue(f32, (self.layers, self.place), entries)
        executor.restore(oi.State(tables))

    def peer_inputs(self) -> Arrays:
        given = {"x": self.inputs()["x"]}
        for layer, (keys, values) in enumerate(self.cached()):
            # [groups, tokens, size], as PyTorch's attention and ONNX's products take them.
            given[f"K{layer}"] = np.ascontiguousarray(keys.transpose(1, 0, 2))
            given[f"V{layer}"] = np.ascontiguousarray(values.transpose(1, 0, 2))
        return given

    def weights(self, folder: Path) -> dict[str, Any]:
        angles = dict(zip(("cos", "sin"), self.angles()))
        return {**super().weights(folder), **angles}

    def angles(self) -> tuple[Array, Array]:
        """Cosine and sine of the place, for each pair of a head's elements."""
        turns = self.place / BASE ** (np.arange(0, self.size, 2) / self.size)
        return np.cos(turns).astype(np.float32), np.sin(turns).astype(np.float32)

    def operations(self) -> float:
        weights = sum(outputs * inputs for outputs, inputs in self._matrices().values())
        attention = 2 * (self.place + 1) * self.width
        return 2.0 * self.layers * (weights + attention)

    def nbytes(self) -> float:
        weights = sum(outputs * inputs for outputs, inputs in self._matrices().values())
        cached = 2 * self.place * self.groups * self.size
        return float(self.layers * (weights * BYTES[self.dtype] + 4 * (cached + 2 * self.width)))

    def peer_tolerance(self, peer: str) -> float:
        exact = self.dtype == "f32" and not peer.endswith("-bf16")
        return self.tolerance if exact else self.loose_tolerance

    def onnx(self, graph: Graph) -> None:
        groups, size, width = self.groups, self.size, self.width
        cos, sin = graph.weight("cos"), graph.weight("sin")
        h = graph.input("x", (1, width))
        state: list[tuple[str, str]] = []
        for layer in range(self.layers):
            shape = (groups, self.place, size)
            state.append((graph.input(f"K{layer}", shape), graph.input(f"V{layer}", shape)))
        grouped = graph.numbers("grouped", groups, self.heads // groups, size)
        one = graph.numbers("one_key", groups, 1, size)
        flat = graph.numbers("flat", 1, width)

        def rotated(x: str) -> str:
            half = graph.numbers("half", size // 2, size // 2)
            left, right = graph.split(x, half, axis=-1)
            return graph.op(
                "Concat",
                graph.op("Sub", graph.op("Mul", left, cos), graph.op("Mul", right, sin)),
                graph.op("Add", graph.op("Mul", right, cos), graph.op("Mul", left, sin)),
                axis=-1,
            )

        def norm(x: str, name: str) -> str:
            square = graph.op("Pow", x, graph.number("two", 2.0))
            mean = graph.op("ReduceMean", square, axes=[-1], keepdims=1)
            root = graph.op("Sqrt", graph.op("Add", mean, graph.number("epsilon", EPSILON)))
            return graph.op("Mul", graph.op("Div", x, root), graph.weight(name))

        for layer, (keys, values) in enumerate(state):
            name = f"layers.{layer}"
            n = norm(h, f"{name}.attention_norm")
            q, k, v = (graph.rows(n, f"{name}.{part}") for part in "qkv")
            q = rotated(graph.op("Reshape", q, grouped))
            k = rotated(graph.op("Reshape", k, one))
            keys = graph.op("Concat", keys, k, axis=1)
            values = graph.op("Concat", values, graph.op("Reshape", v, one), axis=1)
            scores = graph.op("MatMul", q, graph.op("Transpose", keys, perm=[0, 2, 1]))
            scores = graph.op("Mul", scores, graph.number("scale", size**-0.5))
            a = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), values)
            h = graph.op("Add", h, graph.rows(graph.op("Reshape", a, flat), f"{name}.o"))
            n = norm(h, f"{name}.mlp_norm")
            gate = graph.rows(n, f"{name}.gate")
            gate = graph.op("Mul", gate, graph.op("Sigmoid", gate))
            gate = graph.op("Mul", gate, graph.rows(n, f"{name}.up"))
            h = graph.op("Add", h, graph.rows(gate, f"{name}.down"))
        graph.result(norm(h, "last_norm"), (1, width))

    def torch(self, w: Mapping[str, torch.Tensor]) -> Callable[..., torch.Tensor]:
        import torch as pytorch
        from torch.nn import functional as F

        cos, sin = w["cos"], w["sin"]

        def rotated(x: torch.Tensor) -> torch.Tensor:
            left, right = x.chunk(2, -1)
            return pytorch.cat([left * cos - right * sin, right * cos + left * sin], -1)

        def linear(x: torch.Tensor, name: str) -> torch.Tensor:
            weight = w[name]
            return F.linear(x.to(weight.dtype), weight).float()

        def norm(x: torch.Tensor, name: str) -> torch.Tensor:
            return F.rms_norm(x, (self.width,), w[name], EPSILON)

        def run(x: torch.Tensor, *state: torch.Tensor) -> torch.Tensor:
            for layer in range(self.layers):
                name, keys, values = f"layers.{layer}", *state[2 * layer : 2 * layer + 2]
                n = norm(x, f"{name}.attention_norm")
                q = rotated(linear(n, f"{name}.q").view(self.heads, 1, self.size))
                k = rotated(linear(n, f"{name}.k").view(self.groups, 1, self.size))
                v = linear(n, f"{name}.v").view(self.groups, 1, self.size)
                keys, values = pytorch.cat([keys, k], 1), pytorch.cat([values, v], 1)
                # The heads of a group are rows of one product with its keys.
                grouped = q.view(self.groups, self.heads // self.groups, self.size)
                a = F.scaled_dot_product_attention(grouped, keys, values)
                x = x + linear(a.reshape(1, self.width), f"{name}.o")
                n = norm(x, f"{name}.mlp_norm")
                gated = F.silu(linear(n, f"{name}.gate")) * linear(n, f"{name}.up")
                x = x + linear(gated, f"{name}.down")
            return norm(x, "last_norm")

        return run


WORKLOADS: tuple[Workload, ...] = tuple(
    Decode(
        f"decode-{width}-{dtype}",
        f"decode step, width {width}, {layers} layers, {dtype} weights",
        dtype,
        width,
        layers,
        *rest,
    )
    for width, layers, *rest in ((288, 6, 6, 2, 768), (2048, 4, 32, 4, 5632))
    for dtype in ("f32", "f16")
)
