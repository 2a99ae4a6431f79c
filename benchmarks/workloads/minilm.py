"""W3: all-MiniLM-L6-v2 with its real weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import openinfer as oi
from benchmarks.workloads.base import EXAMPLES, Arrays, Workload
from examples.minilm.weights import find_weights
from openinfer.runtime.packages.oinf_writer import OinfContent

if TYPE_CHECKING:
    import torch

    from benchmarks.onnx_graph import Graph

HEADS, WIDTH, INNER, LAYERS = 12, 384, 1536, 6
EPSILON = 1e-12


@dataclass(frozen=True)
class MiniLM(Workload):
    """A sentence of `length` tokens to a unit vector. The length stays open in our program."""

    length: int

    group = "W3"
    result = "embedding"
    tolerance = 2e-5

    @property
    def program(self) -> Path:
        return EXAMPLES / "minilm" / "minilm.oi"

    @property
    def model(self) -> str:
        return "minilm"

    def content(self) -> OinfContent:
        raise NotImplementedError("the weights are installed, not made")

    def package(self, folder: Path) -> Path:
        """The installed file. Raises PackageError when there is none."""
        return find_weights() / "model.safetensors"

    def write_package(self, folder: Path) -> Path:
        return self.package(folder)

    def weights(self, folder: Path) -> dict[str, Any]:
        with oi.open_model(self.package(folder)) as package:
            return {name: np.array(package.read(name)) for name in package.tensors}

    def inputs(self) -> Arrays:
        random = np.random.default_rng(self.length)
        tokens = random.integers(1000, 30000, (1, self.length), np.int64)  # (batch, length)
        tokens[:, 0], tokens[:, -1] = 101, 102
        return {"tokens": tokens, "mask": np.ones_like(tokens)}

    def call_sizes(self) -> dict[str, int]:
        return {"B": 1, "L": self.length}

    def operations(self) -> float:
        products = 4 * WIDTH * WIDTH + 2 * WIDTH * INNER
        return 2.0 * LAYERS * self.length * (products + 2 * self.length * WIDTH)

    def nbytes(self) -> float:
        layer = 4 * WIDTH * WIDTH + 2 * WIDTH * INNER + 9 * WIDTH + INNER
        return 4.0 * (LAYERS * layer + 2 * self.length * WIDTH)

    def onnx(self, graph: Graph) -> None:
        """The patterns are those that PyTorch's exporter writes, so that fusions find them."""
        tokens = graph.input("tokens", (1, self.length), np.int64)
        mask = graph.input("mask", (1, self.length), np.int64)

        def linear(x: str, name: str) -> str:
            product = graph.op("MatMul", x, graph.transposed(f"{name}.weight"))
            return graph.op("Add", product, graph.weight(f"{name}.bias"))

        def norm(x: str, name: str) -> str:
            scale, shift = graph.weight(f"{name}.weight"), graph.weight(f"{name}.bias")
            return graph.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=EPSILON)

        words = graph.op("Gather", graph.weight("embeddings.word_embeddings.weight"), tokens)
        rows = graph.weights["embeddings.position_embeddings.weight"][: self.length]
        # Every token is of the first type, so its row is part of the places.
        types = graph.constant("type", graph.weights["embeddings.token_type_embeddings.weight"][:1])
        h = graph.op("Add", graph.op("Add", words, types), graph.constant("places", rows))
        h = norm(h, "embeddings.LayerNorm")
        given = graph.op("Cast", mask, to=graph.kind(np.float32))
        hidden = graph.op("Unsqueeze", given, graph.numbers("mask_axes", 1, 2))
        hidden = graph.op("Sub", graph.number("all", 1.0), hidden)
        hidden = graph.op("Mul", hidden, graph.number("lowest", -1e4))
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            q, k, v = (
                linear(h, f"{name}.attention.self.{part}") for part in ("query", "key", "value")
            )
            seen = graph.attention(q, k, v, HEADS, WIDTH, hidden)
            a = linear(seen, f"{name}.attention.output.dense")
            h = norm(graph.op("Add", a, h), f"{name}.attention.output.LayerNorm")
            f = graph.gelu(linear(h, f"{name}.intermediate.dense"))
            d = linear(f, f"{name}.output.dense")
            h = norm(graph.op("Add", d, h), f"{name}.output.LayerNorm")
        one = graph.numbers("one", 1)
        weight = graph.op("Unsqueeze", given, graph.numbers("pool_axes", 2))
        total = graph.op("ReduceSum", graph.op("Mul", h, weight), one, keepdims=0)
        mean = graph.op("Div", total, graph.op("ReduceSum", given, one, keepdims=1))
        length = graph.op("ReduceL2", mean, axes=[1], keepdims=1)
        graph.result(graph.op("Div", mean, length), (1, WIDTH))

    def torch(self, w: Mapping[str, torch.Tensor]) -> Callable[..., torch.Tensor]:
        from torch.nn import functional as F

        def linear(x: torch.Tensor, name: str) -> torch.Tensor:
            return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

        def norm(x: torch.Tensor, name: str) -> torch.Tensor:
            return F.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"], EPSILON)

        def run(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            batch, length = tokens.shape
            h = F.embedding(tokens, w["embeddings.word_embeddings.weight"])
            h = h + w["embeddings.token_type_embeddings.weight"][0]
            h = norm(
                h + w["embeddings.position_embeddings.weight"][:length], "embeddings.LayerNorm"
            )
            visible = mask.bool()[:, None, None, :]
            for layer in range(LAYERS):
                name = f"encoder.layer.{layer}"
                q, k, v = (
                    linear(h, f"{name}.attention.self.{part}")
                    .view(batch, length, HEADS, -1)
                    .transpose(1, 2)
                    for part in ("query", "key", "value")
                )
                a = F.scaled_dot_product_attention(q, k, v, visible)
                a = a.transpose(1, 2).reshape(batch, length, WIDTH)
                a = linear(a, f"{name}.attention.output.dense")
                h = norm(a + h, f"{name}.attention.output.LayerNorm")
                f = F.gelu(linear(h, f"{name}.intermediate.dense"))
                h = norm(linear(f, f"{name}.output.dense") + h, f"{name}.output.LayerNorm")
            weight = mask[..., None].to(h.dtype)
            mean = (h * weight).sum(1) / weight.sum(1)
            return F.normalize(mean, dim=1)

        return run


WORKLOADS: tuple[Workload, ...] = tuple(
    MiniLM(f"minilm-{length}", f"MiniLM, {length} tokens", length) for length in (16, 128, 512)
)
