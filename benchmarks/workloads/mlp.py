"""W1: multi-layer perceptrons, one with a classifier and two of square layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.workloads.base import EXAMPLES, PROGRAMS, Arrays, Workload, normal
from openinfer.runtime.packages.oinf_writer import OinfContent

if TYPE_CHECKING:
    import torch

    from benchmarks.onnx_graph import Graph

WIDTHS = (784, 512, 512, 10)


@dataclass(frozen=True)
class Classifier(Workload):
    """784-512-512-10 with relu, then softmax: the program of `examples/mlp.oi`."""

    batch: int

    group = "W1"
    result = "y"

    @property
    def program(self) -> Path:
        return EXAMPLES / "mlp.oi"

    @property
    def model(self) -> str:
        return "classifier"

    def content(self) -> OinfContent:
        random = np.random.default_rng(0)
        content = OinfContent({"inputs": WIDTHS[0], "hidden": WIDTHS[1], "classes": WIDTHS[-1]})
        for number, (wide, narrow) in enumerate(pairwise(WIDTHS), 1):
            content.tensors[f"W{number}"] = normal(random, wide, narrow, scale=(2 / wide) ** 0.5)
            content.tensors[f"b{number}"] = normal(random, narrow, scale=0.1)
        return content

    def sizes(self) -> dict[str, int]:
        return {"B": self.batch}

    def inputs(self) -> Arrays:
        return {"x": normal(np.random.default_rng(self.batch), self.batch, WIDTHS[0])}

    def operations(self) -> float:
        return 2.0 * self.batch * sum(wide * narrow for wide, narrow in pairwise(WIDTHS))

    def nbytes(self) -> float:
        weights = sum((wide + 1) * narrow for wide, narrow in pairwise(WIDTHS))
        return 4.0 * (weights + self.batch * (WIDTHS[0] + WIDTHS[-1]))

    def onnx(self, graph: Graph) -> None:
        h = graph.input("x", (self.batch, WIDTHS[0]))
        for number in (1, 2, 3):
            h = graph.op("Gemm", h, graph.weight(f"W{number}"), graph.weight(f"b{number}"))
            h = graph.op("Relu", h) if number < 3 else h
        graph.result(graph.op("Softmax", h, axis=-1), (self.batch, WIDTHS[-1]))

    def torch(self, w: Mapping[str, torch.Tensor]) -> Callable[..., torch.Tensor]:
        import torch as pytorch
        from torch.nn import functional as F

        # F.linear takes (outputs, inputs).
        turned = {name: value.t().contiguous() for name, value in w.items() if name[0] == "W"}

        def run(x: torch.Tensor) -> torch.Tensor:
            h = F.relu(F.linear(x, turned["W1"], w["b1"]))
            h = F.relu(F.linear(h, turned["W2"], w["b2"]))
            return pytorch.softmax(F.linear(h, turned["W3"], w["b3"]), -1)

        return run


@dataclass(frozen=True)
class Square(Workload):
    """Three layers of one width with relu."""

    width: int
    batch: int
    layers: int = 3

    tolerance = 3e-5
    group = "W1"
    result = "y"

    @property
    def program(self) -> Path:
        return PROGRAMS / "mlp3.oi"

    @property
    def model(self) -> str:
        return f"square-{self.width}"

    def content(self) -> OinfContent:
        random = np.random.default_rng(self.width)
        content = OinfContent({"width": self.width, "layers": self.layers})
        for layer in range(self.layers):
            scale = (2 / self.width) ** 0.5
            weight = normal(random, self.width, self.width, scale=scale)
            content.tensors[f"layers.{layer}.weight"] = weight
            content.tensors[f"layers.{layer}.bias"] = normal(random, self.width, scale=0.1)
        return content

    def sizes(self) -> dict[str, int]:
        return {"B": self.batch}

    def inputs(self) -> Arrays:
        return {"x": normal(np.random.default_rng(self.batch), self.batch, self.width)}

    def operations(self) -> float:
        return 2.0 * self.layers * self.batch * self.width**2

    def nbytes(self) -> float:
        return 4.0 * self.width * (self.layers * (self.width + 1) + 2 * self.batch)

    def onnx(self, graph: Graph) -> None:
        h = graph.input("x", (self.batch, self.width))
        for layer in range(self.layers):
            name = f"layers.{layer}"
            h = graph.op("Gemm", h, graph.weight(f"{name}.weight"), graph.weight(f"{name}.bias"))
            h = graph.op("Relu", h)
        graph.result(h, (self.batch, self.width))

    def torch(self, w: Mapping[str, torch.Tensor]) -> Callable[..., torch.Tensor]:
        from torch.nn import functional as F

        names = [f"layers.{layer}" for layer in range(self.layers)]
        pairs = [(w[f"{name}.weight"].t().contiguous(), w[f"{name}.bias"]) for name in names]

        def run(x: torch.Tensor) -> torch.Tensor:
            for weight, bias in pairs:
                x = F.relu(F.linear(x, weight, bias))
            return x

        return run


WORKLOADS: tuple[Workload, ...] = (
    *(Classifier(f"mlp-{b}", f"MLP 784-512-512-10, batch {b}", b) for b in (1, 64)),
    *(
        Square(f"mlp{width}-{b}", f"MLP 3 x {width}, batch {b}", width, b)
        for width in (512, 2048)
        for b in (1, 32, 128)
    ),
)
