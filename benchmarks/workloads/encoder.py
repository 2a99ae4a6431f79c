"""W2: one encoder block of a transformer in four sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import openinfer as oi
from benchmarks.workloads.base import PROGRAMS, Arrays, Workload, normal
from openinfer.runtime.packages.oinf_writer import OinfContent

if TYPE_CHECKING:
    import torch

    from benchmarks.onnx_graph import Graph

EPSILON = 1e-5
HEAD = 64


@dataclass(frozen=True)
class Encoder(Workload):
    """Attention and a four times wider MLP, each with its residual and layer norm."""

    width: int
    length: int
    plain: bool = False
    """Whether our program spells attention and layer norm out."""

    group = "W2"
    result = "y"
    tolerance = 2e-5

    @property
    def heads(self) -> int:
        return max(4, self.width // HEAD)

    @property
    def program(self) -> Path:
        return PROGRAMS / ("encoder_plain.oi" if self.plain else "encoder.oi")

    @property
    def model(self) -> str:
        return f"encoder-{self.width}"

    def content(self) -> OinfContent:
        random = np.random.default_rng(self.width)
        width, inner = self.width, 4 * self.width
        scale = oi.ScalarValue((width // self.heads) ** -0.5, "f32")
        content = OinfContent({"dim": width, "heads": self.heads}, {"scale": scale})
        shapes = {part: (width, width) for part in "qkvo"}
        shapes |= {"i": (width, inner), "d": (inner, width)}
        for part, (wide, narrow) in shapes.items():
            content.tensors[f"W{part}"] = normal(random, wide, narrow, scale=wide**-0.5)
            content.tensors[f"b{part}"] = normal(random, narrow, scale=0.1)
        for norm in ("norm1", "norm2"):
            content.tensors[f"{norm}_w"] = 1 + normal(random, width, scale=0.1)
            content.tensors[f"{norm}_b"] = normal(random, width, scale=0.1)
        return content

    def sizes(self) -> dict[str, int]:
        return {"B": 1, "L": self.length}

    def inputs(self) -> Arrays:
        return {"x": normal(np.random.default_rng(self.length), 1, self.length, self.width)}

    def operations(self) -> float:
        products = 12 * self.width**2 + 2 * self.length * self.width
        return 2.0 * self.length * products

    def nbytes(self) -> float:
        return 4.0 * (12 * self.width**2 + 13 * self.width + 2 * self.length * self.width)

    def onnx(self, graph: Graph) -> None:
        shape = (1, self.length, self.width)
        x = graph.input("x", shape)

        def linear(value: str, part: str) -> str:
            product = graph.op("MatMul", value, graph.weight(f"W{part}"))
            return graph.op("Add", product, graph.weight(f"b{part}"))

        def norm(value: str, name: str) -> str:
            scale, shift = graph.weight(f"{name}_w"), graph.weight(f"{name}_b")
            return graph.op("LayerNormalization", value, scale, shift, axis=-1, epsilon=EPSILON)

        q, k, v = (linear(x, part) for part in "qkv")
        seen = graph.attention(q, k, v, self.heads, self.width)
        h = norm(graph.op("Add", linear(seen, "o"), x), "norm1")
        f = graph.gelu(linear(h, "i"))
        graph.result(norm(graph.op("Add", linear(f, "d"), h), "norm2"), shape)

    def torch(self, w: Mapping[str, torch.Tensor]) -> Callable[..., torch.Tensor]:
        from torch.nn import functional as F

        turned = {part: w[f"W{part}"].t().contiguous() for part in "qkvoid"}

        def linear(x: torch.Tensor, part: str) -> torch.Tensor:
            return F.linear(x, turned[part], w[f"b{part}"])

        def norm(x: torch.Tensor, name: str) -> torch.Tensor:
            return F.layer_norm(x, (self.width,), w[f"{name}_w"], w[f"{name}_b"], EPSILON)

        def run(x: torch.Tensor) -> torch.Tensor:
            batch, length, width = x.shape
            q, k, v = (
                linear(x, part).view(batch, length, self.heads, -1).transpose(1, 2)
                for part in "qkv"
            )
            a = F.scaled_dot_product_attention(q, k, v)
            a = a.transpose(1, 2).reshape(batch, length, width)
            h = norm(linear(a, "o") + x, "norm1")
            return norm(linear(F.gelu(linear(h, "i")), "d") + h, "norm2")

        return run


WORKLOADS: tuple[Workload, ...] = tuple(
    Encoder(f"encoder-{width}", f"encoder block, width {width}, {length} tokens", width, length)
    for width, length in ((64, 32), (256, 128), (512, 256), (768, 512))
)
PLAIN = Encoder("encoder-256-plain", "the block of width 256, written out", 256, 128, True)
"""For the ablation: what finding attention and layer norm again is worth."""
