"""W8: convolutional networks for images of 224 x 224 pixels, ResNet-18 and MobileNet-V2.

A network is written once, as calls of layers (`Layers`): for its weights and its count of operations, for
ONNX and for PyTorch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from benchmarks.workloads.base import PROGRAMS, Array, Arrays, Workload, normal
from openinfer.runtime.packages.oinf_writer import OinfContent

if TYPE_CHECKING:
    import torch

    from benchmarks.onnx_graph import Graph

CLASSES = 1000
STATISTICS = ("running_mean", "running_var", "weight", "bias")
V = TypeVar("V")


@dataclass(frozen=True)
class Window:
    """One convolution: sizes of `[outputs, inputs / groups, kernel, kernel]`."""

    inputs: int
    outputs: int
    kernel: int = 3
    stride: int = 1
    groups: int = 1

    @property
    def padding(self) -> int:
        return self.kernel // 2

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.outputs, self.inputs // self.groups, self.kernel, self.kernel)


class Layers(ABC, Generic[V]):
    """The layers that networks consist of, over values of one kind."""

    @abstractmethod
    def conv(self, x: V, weight: str, norm: str, window: Window) -> V:
        """A convolution without a bias, and the batch norm behind it."""

    @abstractmethod
    def relu(self, x: V, most: float | None = None) -> V: ...

    @abstractmethod
    def add(self, x: V, y: V) -> V: ...

    @abstractmethod
    def pool(self, x: V) -> V:
        """The largest of windows of 3x3, two apart."""

    @abstractmethod
    def classify(self, x: V, name: str, channels: int) -> V:
        """The mean of each channel, and a product."""


# The networks -------------------------------------------------------------------------------------


def resnet18(layers: Layers[V], h: V) -> V:
    """ResNet-18, with torchvision's names of tensors."""
    h = layers.relu(layers.conv(h, "conv1", "bn1", Window(3, 64, 7, 2)))
    h = layers.pool(h)
    width = 64
    for stage in range(1, 5):
        outputs = 32 << stage
        for block in range(2):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            first = Window(width, outputs, 3, stride)
            r = layers.relu(layers.conv(h, f"{name}.conv1", f"{name}.bn1", first))
            r = layers.conv(r, f"{name}.conv2", f"{name}.bn2", Window(outputs, outputs))
            if stride > 1:
                beside = Window(width, outputs, 1, stride)
                h = layers.conv(h, f"{name}.downsample.0", f"{name}.downsample.1", beside)
            h, width = layers.relu(layers.add(h, r)), outputs
    return layers.classify(h, "fc", width)


STAGES = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)
"""Of MobileNet-V2: how much wider, channels, blocks, stride."""


def mobilenet_v2(layers: Layers[V], h: V) -> V:
    """MobileNet-V2."""
    h = layers.relu(layers.conv(h, "enter.0", "enter.1", Window(3, 32, 3, 2)), 6)
    width = 32
    for stage, (times, outputs, blocks, stride) in enumerate(STAGES, 1):
        for block in range(blocks):
            name, wide, step = f"stage{stage}.{block}", width * times, 1 if block else stride
            r = h
            if times > 1:
                window = Window(width, wide, 1)
                r = layers.relu(layers.conv(r, f"{name}.widen.0", f"{name}.widen.1", window), 6)
            window = Window(wide, wide, 3, step, wide)
            r = layers.relu(layers.conv(r, f"{name}.each.0", f"{name}.each.1", window), 6)
            r = layers.conv(r, f"{name}.narrow.0", f"{name}.narrow.1", Window(wide, outputs, 1))
            h = layers.add(h, r) if step == 1 and width == outputs else r
            width = outputs
    h = layers.relu(layers.conv(h, "leave.0", "leave.1", Window(width, 1280, 1)), 6)
    return layers.classify(h, "classifier", 1280)


NETWORKS: dict[str, Callable[[Layers[Any], Any], Any]] = {
    "resnet18": resnet18,
    "mobilenet_v2": mobilenet_v2,
}

# What becomes of them -----------------------------------------------------------------------------


@dataclass
class Drawing(Layers[tuple[int, int]]):
    """Draws the tensors of a network and counts its products; values are (channels, side)."""

    random: np.random.Generator
    tensors: dict[str, Array] = field(default_factory=dict)
    products: int = 0

    def conv(self, x: tuple[int, int], weight: str, norm: str, window: Window) -> tuple[int, int]:
        inputs, outputs = x[0], window.outputs
        assert inputs == window.inputs
        depth = inputs // window.groups * window.kernel**2
        self.tensors[f"{weight}.weight"] = normal(
            self.random, *window.shape, scale=(1.5 / depth) ** 0.5
        )
        drawn = (
            normal(self.random, outputs, scale=0.1),
            self.random.uniform(0.5, 1.5, outputs).astype(np.float32),
            1 + normal(self.random, outputs, scale=0.1),
            normal(self.random, outputs, scale=0.1),
        )
        for name, value in zip(STATISTICS, drawn):
            self.tensors[f"{norm}.{name}"] = value.astype(np.float32)
        side = (x[1] + 2 * window.padding - window.kernel) // window.stride + 1
        self.products += side * side * outputs * depth
        return outputs, side

    def relu(self, x: tuple[int, int], most: float | None = None) -> tuple[int, int]:
        return x

    def add(self, x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
        assert x == y
        return x

    def pool(self, x: tuple[int, int]) -> tuple[int, int]:
        return x[0], (x[1] - 1) // 2 + 1

    def classify(self, x: tuple[int, int], name: str, channels: int) -> tuple[int, int]:
        # Scores of about 1, so that a difference is one of their last digits.
        scale = 0.1 * channels**-0.5
        self.tensors[f"{name}.weight"] = normal(self.random, CLASSES, channels, scale=scale)
        self.tensors[f"{name}.bias"] = normal(self.random, CLASSES, scale=0.1)
        self.products += CLASSES * channels
        return CLASSES, 1


@dataclass
class OnnxLayers(Layers[str]):
    """Nodes of a graph."""

    graph: Graph

    def conv(self, x: str, weight: str, norm: str, window: Window) -> str:
        graph = self.graph
        h = graph.op(
            "Conv",
            x,
            graph.weight(f"{weight}.weight"),
            kernel_shape=[window.kernel] * 2,
            strides=[window.stride] * 2,
            pads=[window.padding] * 4,
            group=window.groups,
        )
        mean, var, scale, shift = (graph.weight(f"{norm}.{name}") for name in STATISTICS)
        return graph.op("BatchNormalization", h, scale, shift, mean, var, epsilon=1e-5)

    def relu(self, x: str, most: float | None = None) -> str:
        if most is None:
            return self.graph.op("Relu", x)
        limits = self.graph.number("least", 0), self.graph.number("most", most)
        return self.graph.op("Clip", x, *limits)

    def add(self, x: str, y: str) -> str:
        return self.graph.op("Add", x, y)

    def pool(self, x: str) -> str:
        return self.graph.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)

    def classify(self, x: str, name: str, channels: int) -> str:
        graph = self.graph
        flat = graph.op("Flatten", graph.op("GlobalAveragePool", x), axis=1)
        weight, bias = graph.weight(f"{name}.weight"), graph.weight(f"{name}.bias")
        return graph.op("Gemm", flat, weight, bias, transB=1)


@dataclass
class TorchLayers(Layers["torch.Tensor"]):
    """Functions of PyTorch."""

    weights: Mapping[str, torch.Tensor]

    def conv(self, x: torch.Tensor, weight: str, norm: str, window: Window) -> torch.Tensor:
        from torch.nn import functional as F

        w = self.weights
        h = F.conv2d(
            x,
            w[f"{weight}.weight"],
            stride=window.stride,
            padding=window.padding,
            groups=window.groups,
        )
        mean, var, scale, shift = (w[f"{norm}.{name}"] for name in STATISTICS)
        return F.batch_norm(h, mean, var, scale, shift)

    def relu(self, x: torch.Tensor, most: float | None = None) -> torch.Tensor:
        from torch.nn import functional as F

        return F.relu(x) if most is None else F.hardtanh(x, 0.0, most)

    def add(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    def pool(self, x: torch.Tensor) -> torch.Tensor:
        from torch.nn import functional as F

        return F.max_pool2d(x, 3, 2, 1)

    def classify(self, x: torch.Tensor, name: str, channels: int) -> torch.Tensor:
        from torch.nn import functional as F

        w = self.weights
        return F.linear(x.mean((2, 3)), w[f"{name}.weight"], w[f"{name}.bias"])


@dataclass(frozen=True)
class Network(Workload):
    """A network with drawn weights and statistics."""

    network: str
    batch: int
    side: int = 224

    group = "W8"
    result = "y"

    @property
    def program(self) -> Path:
        return PROGRAMS / f"{self.network}.oi"

    @property
    def model(self) -> str:
        return f"{self.network}-{self.side}"

    def _drawn(self) -> Drawing:
        drawing = Drawing(np.random.default_rng(0))
        NETWORKS[self.network](drawing, (3, self.side))
        return drawing

    def content(self) -> OinfContent:
        depths = {f"depth{n}": 2 for n in range(1, 5)} if self.network == "resnet18" else {}
        content = OinfContent({"classes": CLASSES, "side": self.side, **depths})
        content.tensors.update(self._drawn().tensors)
        return content

    def sizes(self) -> dict[str, int]:
        return {"B": self.batch}

    def inputs(self) -> Arrays:
        random = np.random.default_rng(self.batch)
        return {"image": normal(random, self.batch, 3, self.side, self.side)}

    def operations(self) -> float:
        return 2.0 * self.batch * self._drawn().products

    def nbytes(self) -> float:
        weights = sum(tensor.nbytes for tensor in self._drawn().tensors.values())
        return weights + 4.0 * self.batch * (3 * self.side**2 + CLASSES)

    def onnx(self, graph: Graph) -> None:
        image = graph.input("image", (self.batch, 3, self.side, self.side))
        scores = NETWORKS[self.network](OnnxLayers(graph), image)
        graph.result(scores, (self.batch, CLASSES))

    def torch(self, w: Mapping[str, torch.Tensor]) -> Callable[..., torch.Tensor]:
        layers = TorchLayers(w)
        network = NETWORKS[self.network]

        def run(image: torch.Tensor) -> torch.Tensor:
            return network(layers, image)

        return run


WORKLOADS: tuple[Workload, ...] = tuple(
    Network(f"{name}-{batch}", f"{title}, 224 x 224 pixels, batch {batch}", network, batch)
    for name, title, network in (
        ("resnet18", "ResNet-18", "resnet18"),
        ("mobilenet", "MobileNet-V2", "mobilenet_v2"),
    )
    for batch in (1, 8)
)
