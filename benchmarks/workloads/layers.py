"""The layers of convolutional networks, over values of one kind: drawn, as ONNX, as PyTorch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from benchmarks.workloads.base import Array, normal

if TYPE_CHECKING:
    import torch

    from benchmarks.onnx_graph import Graph

STATISTICS = ("running_mean", "running_var", "weight", "bias")
EPSILON = 1e-6
"""Of norms over channels."""
V = TypeVar("V")


@dataclass(frozen=True)
class Window:
    """One convolution: sizes of `[outputs, inputs / groups, kernel, kernel]`."""

    inputs: int
    outputs: int
    kernel: int = 3
    stride: int = 1
    groups: int = 1
    border: int | None = None
    """Zeros around the image; None keeps its size, where there is no stride."""

    @property
    def padding(self) -> int:
        return self.kernel // 2 if self.border is None else self.border

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.outputs, self.inputs // self.groups, self.kernel, self.kernel)

    @property
    def depth(self) -> int:
        """Products in one sum."""
        return self.inputs // self.groups * self.kernel**2

    def products(self, side: int) -> int:
        """Multiplications for an image of so many pixels a side, by the quickest way that we know of.

        Winograd's F(2x2, 3x3) makes 16 of 36.
        """
        direct = side * side * self.outputs * self.depth
        quick = self.kernel == 3 and self.stride == self.groups == 1
        return direct * 16 // 36 if quick else direct


class Layers(ABC, Generic[V]):
    """The layers that networks consist of. Images are `[N, C, H, W]`, tensors have PyTorch's names."""

    @abstractmethod
    def conv(self, x: V, weight: str, norm: str, window: Window) -> V:
        """A convolution without a bias, and the batch norm behind it."""

    @abstractmethod
    def biased(self, x: V, name: str, window: Window) -> V:
        """A convolution with a bias."""

    @abstractmethod
    def widen(self, x: V, name: str, inputs: int, outputs: int) -> V:
        """Four pixels of each: a transposed convolution with a kernel of 2x2 and a bias."""

    @abstractmethod
    def relu(self, x: V, most: float | None = None) -> V: ...

    @abstractmethod
    def add(self, x: V, y: V) -> V: ...

    @abstractmethod
    def join(self, x: V, y: V) -> V:
        """The channels of x, then those of y."""

    @abstractmethod
    def pool(self, x: V, side: int = 3) -> V:
        """The largest of windows, two apart: of 3x3 with a border of 1, or of 2x2."""

    @abstractmethod
    def norm(self, x: V, name: str) -> V:
        """Layer norm over the channels of each pixel."""

    @abstractmethod
    def perceptron(self, x: V, name: str, width: int) -> V:
        """Of each pixel's channels: norm, four times as many, GELU, as many as before, a scale for
        each. The names are those of a block of ConvNeXt in torchvision."""

    @abstractmethod
    def mean(self, x: V) -> V:
        """`[N, C, 1, 1]`."""

    @abstractmethod
    def classify(self, x: V, name: str, channels: int) -> V:
        """A score for each class, of `[N, C, 1, 1]`."""


@dataclass
class Drawing(Layers[tuple[int, int]]):
    """Draws the tensors of a network and counts its products; values are (channels, side)."""

    random: np.random.Generator
    classes: int
    tensors: dict[str, Array] = field(default_factory=dict)
    products: int = 0

    def conv(self, x: tuple[int, int], weight: str, norm: str, window: Window) -> tuple[int, int]:
        inputs, outputs = x[0], window.outputs
        assert inputs == window.inputs
        self.tensors[f"{weight}.weight"] = normal(
            self.random, *window.shape, scale=(1.5 / window.depth) ** 0.5
        )
        drawn = (
            normal(self.random, outputs, scale=0.1),
            self.random.uniform(0.5, 1.5, outputs).astype(np.float32),
            1 + normal(self.random, outputs, scale=0.1),
            normal(self.random, outputs, scale=0.1),
        )
        for name, value in zip(STATISTICS, drawn):
            self.tensors[f"{norm}.{name}"] = value.astype(np.float32)
        return self._windows(x, window)

    def biased(self, x: tuple[int, int], name: str, window: Window) -> tuple[int, int]:
        assert x[0] == window.inputs
        self._matrix(name, window.shape, window.depth**-0.5)
        return self._windows(x, window)

    def widen(self, x: tuple[int, int], name: str, inputs: int, outputs: int) -> tuple[int, int]:
        assert x[0] == inputs
        shape = (inputs, outputs, 2, 2)
        self.tensors[f"{name}.weight"] = normal(self.random, *shape, scale=inputs**-0.5)
        self.tensors[f"{name}.bias"] = normal(self.random, outputs, scale=0.1)
        self.products += 4 * x[1] ** 2 * inputs * outputs
        return outputs, 2 * x[1]

    def relu(self, x: tuple[int, int], most: float | None = None) -> tuple[int, int]:
        return x

    def add(self, x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
        assert x == y
        return x

    def join(self, x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
        assert x[1] == y[1]
        return x[0] + y[0], x[1]

    def pool(self, x: tuple[int, int], side: int = 3) -> tuple[int, int]:
        return x[0], (x[1] - 1) // 2 + 1 if side == 3 else x[1] // 2

    def norm(self, x: tuple[int, int], name: str) -> tuple[int, int]:
        self.tensors[f"{name}.weight"] = (1 + normal(self.random, x[0], scale=0.1)).astype(
            np.float32
        )
        self.tensors[f"{name}.bias"] = normal(self.random, x[0], scale=0.1)
        return x

    def perceptron(self, x: tuple[int, int], name: str, width: int) -> tuple[int, int]:
        self.norm(x, f"{name}.block.2")
        self._matrix(f"{name}.block.3", (4 * width, width), width**-0.5)
        self._matrix(f"{name}.block.5", (width, 4 * width), (4 * width) ** -0.5)
        self.tensors[f"{name}.layer_scale"] = normal(self.random, width, 1, 1, scale=0.3)
        self.products += 8 * width * width * x[1] ** 2
        return x

    def mean(self, x: tuple[int, int]) -> tuple[int, int]:
        return x[0], 1

    def classify(self, x: tuple[int, int], name: str, channels: int) -> tuple[int, int]:
        # Scores of about 1, so that a difference is one of their last digits.
        self._matrix(name, (self.classes, channels), 0.1 * channels**-0.5)
        self.products += self.classes * channels
        return self.classes, 1

    def _matrix(self, name: str, shape: tuple[int, ...], scale: float) -> None:
        self.tensors[f"{name}.weight"] = normal(self.random, *shape, scale=scale)
        self.tensors[f"{name}.bias"] = normal(self.random, shape[0], scale=0.1)

    def _windows(self, x: tuple[int, int], window: Window) -> tuple[int, int]:
        side = (x[1] + 2 * window.padding - window.kernel) // window.stride + 1
        self.products += window.products(side)
        return window.outputs, side


@dataclass
class OnnxLayers(Layers[str]):
    """Nodes of a graph."""

    graph: Graph

    def conv(self, x: str, weight: str, norm: str, window: Window) -> str:
        h = self._conv(window, x, f"{weight}.weight")
        mean, var, scale, shift = (self.graph.weight(f"{norm}.{name}") for name in STATISTICS)
        return self.graph.op("BatchNormalization", h, scale, shift, mean, var, epsilon=1e-5)

    def biased(self, x: str, name: str, window: Window) -> str:
        return self._conv(window, x, f"{name}.weight", f"{name}.bias")

    def _conv(self, window: Window, x: str, *weights: str) -> str:
        return self.graph.op(
            "Conv",
            x,
            *map(self.graph.weight, weights),
            kernel_shape=[window.kernel] * 2,
            strides=[window.stride] * 2,
            pads=[window.padding] * 4,
            group=window.groups,
        )

    def widen(self, x: str, name: str, inputs: int, outputs: int) -> str:
        weights = self.graph.weight(f"{name}.weight"), self.graph.weight(f"{name}.bias")
        sides: dict[str, list[int]] = {"kernel_shape": [2, 2], "strides": [2, 2]}
        return self.graph.op("ConvTranspose", x, *weights, **sides)

    def relu(self, x: str, most: float | None = None) -> str:
        if most is None:
            return self.graph.op("Relu", x)
        limits = self.graph.number("least", 0), self.graph.number("most", most)
        return self.graph.op("Clip", x, *limits)

    def add(self, x: str, y: str) -> str:
        return self.graph.op("Add", x, y)

    def join(self, x: str, y: str) -> str:
        return self.graph.op("Concat", x, y, axis=1)

    def pool(self, x: str, side: int = 3) -> str:
        pads = [side // 3] * 4
        return self.graph.op("MaxPool", x, kernel_shape=[side] * 2, strides=[2, 2], pads=pads)

    def norm(self, x: str, name: str) -> str:
        last = self.graph.op("Transpose", x, perm=[0, 2, 3, 1])
        return self.graph.op("Transpose", self._normed(last, name), perm=[0, 3, 1, 2])

    def _normed(self, x: str, name: str) -> str:
        scale, shift = self.graph.weight(f"{name}.weight"), self.graph.weight(f"{name}.bias")
        return self.graph.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=EPSILON)

    def perceptron(self, x: str, name: str, width: int) -> str:
        graph = self.graph

        def linear(x: str, name: str) -> str:
            product = graph.op("MatMul", x, graph.transposed(f"{name}.weight"))
            return graph.op("Add", product, graph.weight(f"{name}.bias"))

        h = self._normed(graph.op("Transpose", x, perm=[0, 2, 3, 1]), f"{name}.block.2")
        h = linear(graph.gelu(linear(h, f"{name}.block.3")), f"{name}.block.5")
        h = graph.op("Transpose", h, perm=[0, 3, 1, 2])
        return graph.op("Mul", h, graph.weight(f"{name}.layer_scale"))

    def mean(self, x: str) -> str:
        return self.graph.op("GlobalAveragePool", x)

    def classify(self, x: str, name: str, channels: int) -> str:
        graph = self.graph
        flat = graph.op("Flatten", x, axis=1)
        weight, bias = graph.weight(f"{name}.weight"), graph.weight(f"{name}.bias")
        return graph.op("Gemm", flat, weight, bias, transB=1)


@dataclass
class TorchLayers(Layers["torch.Tensor"]):
    """Functions of PyTorch."""

    weights: Mapping[str, torch.Tensor]

    def conv(self, x: torch.Tensor, weight: str, norm: str, window: Window) -> torch.Tensor:
        from torch.nn import functional as F

        h = self._conv(window, x, self.weights[f"{weight}.weight"], None)
        mean, var, scale, shift = (self.weights[f"{norm}.{name}"] for name in STATISTICS)
        return F.batch_norm(h, mean, var, scale, shift)

    def biased(self, x: torch.Tensor, name: str, window: Window) -> torch.Tensor:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return self._conv(window, x, weight, bias)

    def _conv(
        self, window: Window, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        from torch.nn import functional as F

        return F.conv2d(x, weight, bias, window.stride, window.padding, groups=window.groups)

    def widen(self, x: torch.Tensor, name: str, inputs: int, outputs: int) -> torch.Tensor:
        from torch.nn import functional as F

        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return F.conv_transpose2d(x, weight, bias, stride=2)

    def relu(self, x: torch.Tensor, most: float | None = None) -> torch.Tensor:
        from torch.nn import functional as F

        return F.relu(x) if most is None else F.hardtanh(x, 0.0, most)

    def add(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    def join(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        import torch as pytorch

        return pytorch.cat((x, y), 1)

    def pool(self, x: torch.Tensor, side: int = 3) -> torch.Tensor:
        from torch.nn import functional as F

        return F.max_pool2d(x, side, 2, side // 3)

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return self._normed(x.permute(0, 2, 3, 1), name).permute(0, 3, 1, 2)

    def _normed(self, x: torch.Tensor, name: str) -> torch.Tensor:
        from torch.nn import functional as F

        scale, shift = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return F.layer_norm(x, scale.shape, scale, shift, EPSILON)

    def perceptron(self, x: torch.Tensor, name: str, width: int) -> torch.Tensor:
        from torch.nn import functional as F

        def linear(x: torch.Tensor, name: str) -> torch.Tensor:
            return F.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

        h = self._normed(x.permute(0, 2, 3, 1), f"{name}.block.2")
        h = linear(F.gelu(linear(h, f"{name}.block.3")), f"{name}.block.5")
        return self.weights[f"{name}.layer_scale"] * h.permute(0, 3, 1, 2)

    def mean(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3), keepdim=True)

    def classify(self, x: torch.Tensor, name: str, channels: int) -> torch.Tensor:
        from torch.nn import functional as F

        w = self.weights
        return F.linear(x.flatten(1), w[f"{name}.weight"], w[f"{name}.bias"])
