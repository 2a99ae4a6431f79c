"""W4: matrix products, of two arrays and with weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.workloads.base import PROGRAMS, Array, Arrays, Weights, Workload, normal
from openinfer.runtime.packages.oinf_writer import OinfContent

if TYPE_CHECKING:
    import torch

    from benchmarks.onnx_graph import Graph

CUBES = (64, 128, 256, 512, 1024, 2048)
LINEAR = (
    (1, 768, 3072),
    (1, 3072, 768),
    (16, 384, 1536),
    (16, 3072, 768),
    (127, 768, 768),
    (127, 1536, 384),
    (512, 384, 1536),
    (512, 3072, 768),
    (333, 271, 517),
)
"""Rows, inputs, outputs of layers; the last one is a multiple of no tile."""


@dataclass(frozen=True)
class Matmul(Workload):
    """`a @ b`: both given by the caller, or b as weights."""

    m: int
    k: int
    n: int
    constant: bool

    group = "W4"
    in_numpy = True
    result = "c"
    tolerance = 2e-5

    @property
    def program(self) -> Path:
        return PROGRAMS / ("linear.oi" if self.constant else "matmul.oi")

    @property
    def model(self) -> str:
        return f"linear-{self.k}x{self.n}" if self.constant else "matmul"

    def content(self) -> OinfContent:
        if not self.constant:
            return OinfContent()
        return OinfContent({"K": self.k, "N": self.n}, {}, {"W": self._second()})

    def _second(self) -> Array:
        """Scaled so that results are of size one, whatever K is."""
        random = np.random.default_rng(self.k * self.n)
        return normal(random, self.k, self.n, scale=self.k**-0.5)

    def sizes(self) -> dict[str, int]:
        return {"M": self.m} if self.constant else {"M": self.m, "K": self.k, "N": self.n}

    def inputs(self) -> Arrays:
        first = normal(np.random.default_rng(self.m), self.m, self.k)
        return {"a": first} if self.constant else {"a": first, "b": self._second()}

    def operations(self) -> float:
        return 2.0 * self.m * self.k * self.n

    def nbytes(self) -> float:
        return 4.0 * (self.m * self.k + self.k * self.n + self.m * self.n)

    def onnx(self, graph: Graph) -> None:
        a = graph.input("a", (self.m, self.k))
        b = graph.weight("W") if self.constant else graph.input("b", (self.k, self.n))
        graph.result(graph.op("MatMul", a, b), (self.m, self.n))

    def torch(self, w: Mapping[str, torch.Tensor]) -> Callable[..., torch.Tensor]:
        import torch as pytorch
        from torch.nn import functional as F

        if not self.constant:
            return lambda a, b: pytorch.mm(a, b)
        turned = w["W"].t().contiguous()
        return lambda a: F.linear(a, turned)

    def numpy(self, w: Weights) -> Callable[[Arrays], Array]:
        if not self.constant:
            return lambda given: given["a"] @ given["b"]
        weight = w["W"]
        return lambda given: given["a"] @ weight


WORKLOADS: tuple[Workload, ...] = (
    *(Matmul(f"matmul-{n}", f"matmul {n} cubed", n, n, n, False) for n in CUBES),
    *(
        Matmul(f"linear-{m}x{k}x{n}", f"matmul {m}x{k} by weights {k}x{n}", m, k, n, True)
        for m, k, n in LINEAR
    ),
)
