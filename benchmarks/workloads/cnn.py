"""W6: a small convolutional network on images of 64 x 64 pixels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.workloads.base import PROGRAMS, Arrays, Workload, normal
from benchmarks.workloads.layers import Window
from openinfer.runtime.packages.oinf_writer import OinfContent

if TYPE_CHECKING:
    import torch

    from benchmarks.onnx_graph import Graph

SIDE, CLASSES = 64, 10
CHANNELS = (3, 32, 64, 64)


@dataclass(frozen=True)
class Convolutions(Workload):
    """Three 3x3 convolutions with relu, pooling after each, and a classifier."""

    batch: int

    group = "W6"
    result = "y"

    @property
    def program(self) -> Path:
        return PROGRAMS / "cnn.oi"

    @property
    def model(self) -> str:
        return "cnn"

    def content(self) -> OinfContent:
        random = np.random.default_rng(0)
        content = OinfContent({"classes": CLASSES})
        for number, (inputs, outputs) in enumerate(itertools.pairwise(CHANNELS), 1):
            scale = (2 / (9 * inputs)) ** 0.5
            content.tensors[f"W{number}"] = normal(random, outputs, inputs, 3, 3, scale=scale)
            content.tensors[f"b{number}"] = normal(random, outputs, scale=0.1)
        content.tensors["Wc"] = normal(random, CHANNELS[-1], CLASSES, scale=CHANNELS[-1] ** -0.5)
        content.tensors["bc"] = normal(random, CLASSES, scale=0.1)
        return content

    def sizes(self) -> dict[str, int]:
        return {"B": self.batch}

    def inputs(self) -> Arrays:
        random = np.random.default_rng(self.batch)
        return {"image": normal(random, self.batch, CHANNELS[0], SIDE, SIDE)}

    def operations(self) -> float:
        sides = (SIDE, SIDE // 2, SIDE // 4)
        windows = (Window(*channels) for channels in itertools.pairwise(CHANNELS))
        convolutions = sum(window.products(side) for window, side in zip(windows, sides))
        return 2.0 * self.batch * (convolutions + CHANNELS[-1] * CLASSES)

    def nbytes(self) -> float:
        weights = sum(9 * a * b + b for a, b in itertools.pairwise(CHANNELS))
        weights += (CHANNELS[-1] + 1) * CLASSES
        return 4.0 * (weights + self.batch * (CHANNELS[0] * SIDE * SIDE + CLASSES))

    def onnx(self, graph: Graph) -> None:
        h = graph.input("image", (self.batch, CHANNELS[0], SIDE, SIDE))
        around = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        for number in (1, 2, 3):
            h = graph.op(
                "Conv", h, graph.weight(f"W{number}"), graph.weight(f"b{number}"), **around
            )
            h = graph.op("Relu", h)
            if number < 3:
                h = graph.op("MaxPool", h, kernel_shape=[2, 2], strides=[2, 2])
        flat = graph.op("Flatten", graph.op("GlobalAveragePool", h), axis=1)
        y = graph.op("Gemm", flat, graph.weight("Wc"), graph.weight("bc"))
        graph.result(graph.op("Softmax", y, axis=1), (self.batch, CLASSES))

    def torch(self, w: Mapping[str, torch.Tensor]) -> Callable[..., torch.Tensor]:
        import torch as pytorch
        from torch.nn import functional as F

        turned = w["Wc"].t().contiguous()

        def run(image: torch.Tensor) -> torch.Tensor:
            h = image
            for number in (1, 2, 3):
                h = F.relu(F.conv2d(h, w[f"W{number}"], w[f"b{number}"], padding=1))
                h = F.max_pool2d(h, 2) if number < 3 else h.mean((2, 3))
            return pytorch.softmax(F.linear(h, turned, w["bc"]), 1)

        return run


WORKLOADS: tuple[Workload, ...] = (
    Convolutions("cnn", "CNN of three 3x3 convolutions on 64 x 64 pixels", 1),
)
