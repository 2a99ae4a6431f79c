"""W8: convolutional networks: ResNet-18, MobileNet-V2, ConvNeXt-tiny and a small U-Net.

A network is written once, as calls of layers (`Layers`): for its weights and its count of operations, for
ONNX and for PyTorch. Its program is a text of its own in `benchmarks/programs/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.workloads.base import PROGRAMS, Arrays, Workload, normal
from benchmarks.workloads.layers import Drawing, Layers, OnnxLayers, TorchLayers, V, Window
from openinfer.runtime.packages.oinf_writer import OinfContent

if TYPE_CHECKING:
    import torch

    from benchmarks.onnx_graph import Graph


def resnet18(layers: Layers[V], h: V, net: Network) -> V:
    """ResNet-18, with torchvision's names of tensors."""
    h = layers.relu(layers.conv(h, "conv1", "bn1", Window(3, 64, 7, 2)))
    h = layers.pool(h)
    width = 64
    for stage in range(1, 5):
        outputs = 32 << stage
        for block in range(net.depths[stage - 1]):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            first = Window(width, outputs, 3, stride)
            r = layers.relu(layers.conv(h, f"{name}.conv1", f"{name}.bn1", first))
            r = layers.conv(r, f"{name}.conv2", f"{name}.bn2", Window(outputs, outputs))
            if stride > 1:
                beside = Window(width, outputs, 1, stride)
                h = layers.conv(h, f"{name}.downsample.0", f"{name}.downsample.1", beside)
            h, width = layers.relu(layers.add(h, r)), outputs
    return layers.classify(layers.mean(h), "fc", width)


STAGES = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)
"""Of MobileNet-V2: how much wider, channels, blocks, stride."""


def mobilenet_v2(layers: Layers[V], h: V, net: Network) -> V:
    """MobileNet-V2."""
    del net
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
    return layers.classify(layers.mean(h), "classifier", 1280)


def convnext(layers: Layers[V], h: V, net: Network) -> V:
    """ConvNeXt, with torchvision's names of tensors."""
    width = net.width
    h = layers.biased(h, "features.0.0", Window(3, width, 4, 4, border=0))
    h = layers.norm(h, "features.0.1")
    for stage, depth in enumerate(net.depths):
        if stage:
            h = layers.norm(h, f"features.{2 * stage}.0")
            halved = Window(width, 2 * width, 2, 2, border=0)
            h, width = layers.biased(h, f"features.{2 * stage}.1", halved), 2 * width
        for block in range(depth):
            name = f"features.{2 * stage + 1}.{block}"
            r = layers.biased(h, f"{name}.block.0", Window(width, width, 7, groups=width))
            h = layers.add(layers.perceptron(r, name, width), h)
    h = layers.norm(layers.mean(h), "classifier.0")
    return layers.classify(h, "classifier.2", width)


def unet(layers: Layers[V], h: V, net: Network) -> V:
    """A U-Net of four levels: down by pooling, up by transposed convolutions."""
    width = net.width

    def double(x: V, name: str, inputs: int, outputs: int) -> V:
        x = layers.relu(layers.conv(x, f"{name}.conv1", f"{name}.norm1", Window(inputs, outputs)))
        return layers.relu(
            layers.conv(x, f"{name}.conv2", f"{name}.norm2", Window(outputs, outputs))
        )

    h = double(h, "down1", 3, width)
    kept: list[V] = []
    for level in (2, 3, 4):
        kept.append(h)
        h, width = double(layers.pool(h, 2), f"down{level}", width, 2 * width), 2 * width
    for level in (3, 2, 1):
        half = width // 2
        h = layers.join(kept.pop(), layers.widen(h, f"up{level}.widen", width, half))
        h, width = double(h, f"up{level}", width, half), half
    return layers.biased(h, "out", Window(width, net.classes, 1))


@dataclass(frozen=True)
class Network(Workload):
    """A network with drawn weights and statistics."""

    network: str
    batch: int
    side: int = 224
    classes: int = 1000
    width: int = 0
    """Channels of the first stage, where the program leaves them open."""
    depths: tuple[int, ...] = ()
    """Blocks of each stage, where the program leaves them open."""

    group = "W8"
    result = "y"

    @property
    def program(self) -> Path:
        return PROGRAMS / f"{self.network}.oi"

    @property
    def model(self) -> str:
        sizes = (self.side, *(self.width,)[: self.width], *self.depths)
        return "-".join((self.network, *map(str, sizes)))

    def run(self, layers: Layers[V], image: V) -> V:
        """The scores of an image, in layers of one kind."""
        return NETWORKS[self.network](layers, image, self)

    def _drawn(self) -> Drawing:
        drawing = Drawing(np.random.default_rng(0), self.classes)
        self.run(drawing, (3, self.side))
        return drawing

    def content(self) -> OinfContent:
        depths = {f"depth{n}": depth for n, depth in enumerate(self.depths, 1)}
        width = {"width": self.width} if self.width else {}
        content = OinfContent({"classes": self.classes, "side": self.side, **depths, **width})
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
        return weights + 4.0 * self.batch * 3 * self.side**2 + 4.0 * np.prod(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the result: a score for each class, of each image or of each of its pixels."""
        image = (self.batch, self.classes)
        return (*image, self.side, self.side) if self.network == "unet" else image

    def onnx(self, graph: Graph) -> None:
        image = graph.input("image", (self.batch, 3, self.side, self.side))
        graph.result(self.run(OnnxLayers(graph), image), self.shape)

    def torch(self, w: Mapping[str, torch.Tensor]) -> Callable[..., torch.Tensor]:
        layers = TorchLayers(w)
        return lambda image: self.run(layers, image)


NETWORKS: dict[str, Callable[[Layers[Any], Any, Network], Any]] = {
    "resnet18": resnet18,
    "mobilenet_v2": mobilenet_v2,
    "convnext": convnext,
    "unet": unet,
}

_ROWS = (
    Network("resnet18", "ResNet-18", "resnet18", 1, depths=(2, 2, 2, 2)),
    Network("mobilenet", "MobileNet-V2", "mobilenet_v2", 1),
    Network("convnext", "ConvNeXt-tiny", "convnext", 1, width=96, depths=(3, 3, 9, 3)),
    Network("unet", "U-Net", "unet", 1, side=128, classes=2, width=32),
)
WORKLOADS: tuple[Workload, ...] = tuple(
    replace(
        row,
        name=f"{row.name}-{batch}",
        title=f"{row.title}, {row.side} x {row.side} pixels, batch {batch}",
        batch=batch,
    )
    for row in _ROWS
    for batch in (1, 8)
)
