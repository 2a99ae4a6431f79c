"""W9: whole transformers with drawn weights: ViT-B/16, and GPT-2's smallest shape.

Both have norms in front of attention and MLP. What they share is one class; a model adds what lies before its
blocks and behind them.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.workloads.base import PROGRAMS, Array, Arrays, Workload, normal
from openinfer.runtime.packages.oinf_writer import OinfContent

if TYPE_CHECKING:
    import torch

    from benchmarks.onnx_graph import Graph

EPSILON = 1e-5
LOWEST = -1e9
"""What hides a later token, added to its score."""


@dataclass(frozen=True)
class Transformer(Workload):
    """`layers` blocks over `length` tokens."""

    length: int
    width: int = 768
    heads: int = 12
    layers: int = 12

    group = "W9"
    result = "y"
    tolerance = 5e-5
    stem = ""
    """Of the program's file."""

    @property
    def program(self) -> Path:
        return PROGRAMS / f"{self.stem}.oi"

    @property
    def causal(self) -> bool:
        """Whether a token sees those before it only."""
        return False

    @abstractmethod
    def ends(self, random: np.random.Generator) -> Arrays:
        """The tensors before and behind the blocks, but for the last norm."""

    @abstractmethod
    def outside(self) -> float:
        """Products before and behind the blocks."""

    def edition(self, *more: str) -> str:
        return super().edition(inspect.getsource(Transformer), *more)

    def _tensors(self) -> Arrays:
        random = np.random.default_rng(self.layers)
        tensors = self.ends(random)

        def norm(name: str) -> None:
            tensors[f"{name}.weight"] = 1 + normal(random, self.width, scale=0.1)
            tensors[f"{name}.bias"] = normal(random, self.width, scale=0.1)

        parts = {part: (self.width, self.width) for part in ("query", "key", "value", "output")}
        parts |= {"up": (4 * self.width, self.width), "down": (self.width, 4 * self.width)}
        for layer in range(self.layers):
            for part, shape in parts.items():
                name = f"layers.{layer}.{part}"
                tensors[f"{name}.weight"] = normal(random, *shape, scale=0.5 * shape[1] ** -0.5)
                tensors[f"{name}.bias"] = normal(random, shape[0], scale=0.1)
            norm(f"layers.{layer}.norm1")
            norm(f"layers.{layer}.norm2")
        norm("norm")
        return tensors

    def content(self) -> OinfContent:
        sizes = {"dim": self.width, "heads": self.heads, "layers": self.layers}
        return OinfContent({**sizes, **self.more_sizes()}, {}, self._tensors())

    def more_sizes(self) -> dict[str, int]:
        """Sizes of the package beyond those of the blocks."""
        return {}

    def operations(self) -> float:
        seen = (self.length + 1) / 2 if self.causal else self.length
        block = self.length * (12 * self.width**2 + 2 * seen * self.width)
        return 2.0 * (self.layers * block + self.outside())

    def nbytes(self) -> float:
        weights = self.layers * (12 * self.width**2 + 13 * self.width)
        return 4.0 * (weights + self.length * self.width)

    def onnx_blocks(self, graph: Graph, h: str) -> str:
        """The blocks and the last norm."""
        mask = None
        if self.causal:
            later = np.triu(np.full((self.length, self.length), LOWEST, np.float32), 1)
            mask = graph.constant("later", later[None, None])

        def linear(x: str, name: str) -> str:
            product = graph.op("MatMul", x, graph.transposed(f"{name}.weight"))
            return graph.op("Add", product, graph.weight(f"{name}.bias"))

        def norm(x: str, name: str) -> str:
            scale, shift = graph.weight(f"{name}.weight"), graph.weight(f"{name}.bias")
            return graph.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=EPSILON)

        for layer in range(self.layers):
            name = f"layers.{layer}"
            n = norm(h, f"{name}.norm1")
            q, k, v = (linear(n, f"{name}.{part}") for part in ("query", "key", "value"))
            seen = graph.attention(q, k, v, self.heads, self.width, mask)
            h = graph.op("Add", linear(seen, f"{name}.output"), h)
            f = graph.gelu(linear(norm(h, f"{name}.norm2"), f"{name}.up"))
            h = graph.op("Add", linear(f, f"{name}.down"), h)
        return norm(h, "norm")

    def torch_blocks(self, w: Mapping[str, torch.Tensor], h: torch.Tensor) -> torch.Tensor:
        """The blocks and the last norm."""
        from torch.nn import functional as F

        def linear(x: torch.Tensor, name: str) -> torch.Tensor:
            return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

        def norm(x: torch.Tensor, name: str) -> torch.Tensor:
            return F.layer_norm(x, (self.width,), w[f"{name}.weight"], w[f"{name}.bias"], EPSILON)

        batch, length, width = h.shape
        for layer in range(self.layers):
            name = f"layers.{layer}"
            n = norm(h, f"{name}.norm1")
            q, k, v = (
                linear(n, f"{name}.{part}").view(batch, length, self.heads, -1).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
            seen = seen.transpose(1, 2).reshape(batch, length, width)
            h = linear(seen, f"{name}.output") + h
            h = linear(F.gelu(linear(norm(h, f"{name}.norm2"), f"{name}.up")), f"{name}.down") + h
        return norm(h, "norm")


@dataclass(frozen=True)
class Vision(Transformer):
    """An image in patches, with a token in front whose last state is scored."""

    side: int = 224
    patch: int = 16
    classes: int = 1000

    stem = "vit_b"

    @property
    def model(self) -> str:
        return f"vit-{self.width}-{self.layers}-{self.side}"

    def more_sizes(self) -> dict[str, int]:
        more = {"side": self.side, "patch": self.patch, "classes": self.classes}
        return {**more, "patches": self.length - 1}

    def ends(self, random: np.random.Generator) -> Arrays:
        pixels = (3, self.patch, self.patch)
        depth = 3 * self.patch**2
        return {
            "patches.weight": normal(random, self.width, *pixels, scale=depth**-0.5),
            "patches.bias": normal(random, self.width, scale=0.1),
            "first": normal(random, 1, 1, self.width),
            "places": normal(random, self.length, self.width, scale=0.1),
            "scores.weight": normal(random, self.classes, self.width, scale=0.1 * self.width**-0.5),
            "scores.bias": normal(random, self.classes, scale=0.1),
        }

    def outside(self) -> float:
        patches = (self.length - 1) * 3 * self.patch**2 * self.width
        return float(patches + self.classes * self.width)

    def sizes(self) -> dict[str, int]:
        return {"B": 1}

    def inputs(self) -> Arrays:
        return {"image": normal(np.random.default_rng(1), 1, 3, self.side, self.side)}

    def onnx(self, graph: Graph) -> None:
        image = graph.input("image", (1, 3, self.side, self.side))
        weights = graph.weight("patches.weight"), graph.weight("patches.bias")
        sides: dict[str, list[int]] = {
            "kernel_shape": [self.patch] * 2,
            "strides": [self.patch] * 2,
        }
        cut = graph.op("Conv", image, *weights, **sides)
        flat = graph.op("Reshape", cut, graph.numbers("flat", 1, self.width, self.length - 1))
        rows = graph.op("Transpose", flat, perm=[0, 2, 1])
        h = graph.op("Concat", graph.weight("first"), rows, axis=1)
        h = self.onnx_blocks(graph, graph.op("Add", h, graph.weight("places")))
        first = graph.op("Flatten", graph.op("Gather", h, graph.numbers("zero", 0), axis=1))
        weight, bias = graph.weight("scores.weight"), graph.weight("scores.bias")
        graph.result(graph.op("Gemm", first, weight, bias, transB=1), (1, self.classes))

    def torch(self, w: Mapping[str, torch.Tensor]) -> Callable[..., torch.Tensor]:
        import torch as pytorch
        from torch.nn import functional as F

        def run(image: torch.Tensor) -> torch.Tensor:
            cut = F.conv2d(image, w["patches.weight"], w["patches.bias"], self.patch)
            rows = cut.flatten(2).transpose(1, 2)
            h = pytorch.cat((w["first"], rows), 1) + w["places"]
            h = self.torch_blocks(w, h)
            return F.linear(h[:, 0], w["scores.weight"], w["scores.bias"])

        return run


@dataclass(frozen=True)
class Language(Transformer):
    """A prompt of tokens to the scores of the one that follows; the head is the embedding."""

    words: int = 50257

    stem = "gpt2"

    @property
    def causal(self) -> bool:
        return True

    @property
    def model(self) -> str:
        return f"gpt2-{self.width}-{self.layers}-{self.words}"

    def more_sizes(self) -> dict[str, int]:
        return {"words": self.words, "most": 1024}

    def ends(self, random: np.random.Generator) -> Arrays:
        words: Array = normal(random, self.words, self.width, scale=0.1 * self.width**-0.5)
        return {"words": words, "places": normal(random, 1024, self.width, scale=0.1)}

    def outside(self) -> float:
        return float(self.words * self.width)

    def nbytes(self) -> float:
        return super().nbytes() + 4.0 * self.words * self.width

    def sizes(self) -> dict[str, int]:
        return {"B": 1, "L": self.length}

    def inputs(self) -> Arrays:
        random = np.random.default_rng(self.length)
        return {"tokens": random.integers(0, self.words, (1, self.length), np.int64)}

    def onnx(self, graph: Graph) -> None:
        tokens = graph.input("tokens", (1, self.length), np.int64)
        rows = graph.constant("near", graph.weights["places"][: self.length])
        h = graph.op("Add", graph.op("Gather", graph.weight("words"), tokens), rows)
        h = self.onnx_blocks(graph, h)
        place = graph.numbers("last", self.length - 1)
        last = graph.op("Flatten", graph.op("Gather", h, place, axis=1))
        scores = graph.op("MatMul", last, graph.transposed("words"))
        graph.result(scores, (1, self.words))

    def torch(self, w: Mapping[str, torch.Tensor]) -> Callable[..., torch.Tensor]:
        from torch.nn import functional as F

        def run(tokens: torch.Tensor) -> torch.Tensor:
            h = F.embedding(tokens, w["words"]) + w["places"][: self.length]
            return F.linear(self.torch_blocks(w, h)[:, -1], w["words"])

        return run


WORKLOADS: tuple[Workload, ...] = (
    Vision("vit-b", "ViT-B/16, 224 x 224 pixels, batch 1", 197),
    Language("gpt2-128", "GPT-2's shape, 124 M parameters, 128 tokens", 128),
)
