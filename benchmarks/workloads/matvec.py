"""W4: vector times matrix, with weights that no cache holds, in four dtypes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import openinfer as oi
from benchmarks.workloads.base import PROGRAMS, Array, Arrays, Weights, Workload, normal
from openinfer.runtime.dtypes import dtype as find_dtype
from openinfer.runtime.packages.oinf_writer import OinfContent

if TYPE_CHECKING:
    import torch

    from benchmarks.onnx_graph import Graph

WIDTH = 4096
TOTAL = 1 << 28
"""Bytes of all layers together: several times a last-level cache."""
BYTES = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1}


@dataclass(frozen=True)
class Matvec(Workload):
    """A vector goes through layer after layer, all of one call; rows of a weight are outputs."""

    dtype: str
    width: int = WIDTH
    total: int = TOTAL

    group = "W4"
    in_numpy = True
    result = "y"
    tolerance = 2e-5

    @property
    def layers(self) -> int:
        return self.total // (self.width**2 * BYTES[self.dtype])

    @property
    def program(self) -> Path:
        return PROGRAMS / f"matvec_{self.dtype}.oi"

    @property
    def model(self) -> str:
        return f"matvec-{self.width}-{self.dtype}"

    def content(self) -> OinfContent:
        random = np.random.default_rng(0)
        content = OinfContent({"width": self.width, "layers": self.layers})
        for layer in range(self.layers):
            weight = normal(random, self.width, self.width, scale=self.width**-0.5)
            name = f"layers.{layer}"
            if self.dtype == "i8":
                scale = np.abs(weight).max(1) / np.float32(127)
                content.tensors[f"{name}.scale"] = scale
                content.tensors[f"{name}.weight"] = np.rint(weight / scale[:, None]).astype(np.int8)
            else:
                content.tensors[f"{name}.weight"] = converted(weight, self.dtype)
        return content

    def inputs(self) -> Arrays:
        return {"x": normal(np.random.default_rng(1), 1, self.width)}

    def operations(self) -> float:
        return 2.0 * self.layers * self.width**2

    def nbytes(self) -> float:
        scales = 4 * self.width if self.dtype == "i8" else 0
        weights = self.layers * (self.width**2 * BYTES[self.dtype] + scales)
        return float(weights + 8 * self.width)

    def peer_tolerance(self, peer: str) -> float:
        if self.dtype == "i8" and peer in ("onnxruntime-i8", "openvino-bf16"):
            return 4 * self.loose_tolerance  # the vector of each layer has 8 bits there
        exact = self.dtype == "f32" and not peer.endswith("-bf16")
        return self.tolerance if exact else self.loose_tolerance

    def unsupported(self, peer: str) -> str | None:
        if self.dtype == "bf16" and peer in ("onnxruntime", "numpy"):
            return "has no bf16 products on the CPU"
        if self.dtype != "f32" and peer == "numpy":
            return "converts the weights at every call"
        return None

    def onnx(self, graph: Graph) -> None:
        h = graph.input("x", (1, self.width))
        for layer in range(self.layers):
            name = f"layers.{layer}"
            if self.dtype == "i8":
                h = graph.scaled(h, f"{name}.weight", f"{name}.scale")
            else:
                h = graph.rows(h, f"{name}.weight")
        graph.result(h, (1, self.width))

    def torch(self, w: Mapping[str, torch.Tensor]) -> Callable[..., torch.Tensor]:
        import torch as pytorch
        from torch.nn import functional as F

        names = [f"layers.{layer}" for layer in range(self.layers)]
        weights = [w[f"{name}.weight"] for name in names]
        if self.dtype == "i8":
            scales = [w[f"{name}.scale"] for name in names]

            def scaled(x: torch.Tensor) -> torch.Tensor:
                for weight, scale in zip(weights, scales):
                    x = pytorch.ops.aten._weight_int8pack_mm(x, weight, scale)
                return x

            return scaled

        def run(x: torch.Tensor) -> torch.Tensor:
            h = x.to(weights[0].dtype)
            for weight in weights:
                h = F.linear(h, weight)
            return h.float()

        return run

    def numpy(self, w: Weights) -> Callable[[Arrays], Array]:
        weights = [w[f"layers.{layer}.weight"].T for layer in range(self.layers)]

        def run(given: Arrays) -> Array:
            h = given["x"]
            for weight in weights:
                h = h @ weight
            return h

        return run


def converted(array: Array, name: str) -> Any:
    """f32 numbers in another float dtype, as a package takes them."""
    if name == "f32":
        return array
    if name == "f16":
        return array.astype(np.float16)
    bits = array.view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to the nearest, ties to even
    return oi.Tensor(find_dtype("bf16"), array.shape, bits.astype(np.uint16))


_WORDS = {"i8": "i8 with scales"}
WORKLOADS: tuple[Workload, ...] = tuple(
    Matvec(f"matvec-{dtype}", f"matrix-vector 4096 x 4096, {_WORDS.get(dtype, dtype)}", dtype)
    for dtype in BYTES
)
