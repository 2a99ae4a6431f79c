"""What a workload is: a program, seeded weights, inputs, and how other runtimes build the same.

A family of workloads is a class in a file of this folder; a row of the table is one of its instances.
Weights lie in a package of their own, written once and shared by all rows that have the same model.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import openinfer as oi
from openinfer.runtime.packages.oinf_writer import OinfContent

if TYPE_CHECKING:
    import torch

    from benchmarks.onnx_graph import Graph

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Weights = Mapping[str, Any]
"""Tensors by name: NumPy arrays, and `openinfer.Tensor` for dtypes that NumPy lacks."""
ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / "benchmarks" / "programs"
EXAMPLES = ROOT / "examples"


@dataclass(frozen=True)
class Workload(ABC):
    """One row: a program with its sizes."""

    name: str
    """As given on the command line."""
    title: str
    """As shown to people."""

    group: ClassVar[str]
    """W1 to W6, W8 or W9, as on the command line."""
    result: ClassVar[str]
    """The variable that is compared and returned."""
    tolerance: ClassVar[float] = 1e-5
    """Largest difference from the simulator that still counts as the same answer."""
    in_numpy: ClassVar[bool] = False
    """Whether NumPy takes part: where it is a call of its own for each product, no more."""
    loose_tolerance: ClassVar[float] = 5e-2
    """The same for runtimes that round operands to bf16 or sums to f16."""

    @property
    @abstractmethod
    def program(self) -> Path:
        """The `.oi` file."""

    @property
    @abstractmethod
    def model(self) -> str:
        """Names the weights: rows with the same model share a package."""

    @abstractmethod
    def content(self) -> OinfContent:
        """Sizes and seeded weights of the model."""

    @abstractmethod
    def inputs(self) -> Arrays:
        """The arrays of one call of our program: always the same, drawn from a seed."""

    @abstractmethod
    def operations(self) -> float:
        """Floating point operations of the products of one call."""

    @abstractmethod
    def nbytes(self) -> float:
        """Bytes that one call has to read and write at least: weights, inputs, results."""

    def sizes(self) -> dict[str, int]:
        """Sizes that our compiler is told, beyond the package's. The others stay open."""
        return {}

    def call_sizes(self) -> dict[str, int]:
        """All sizes of one call, those that only its inputs fix too: what the memory plan depends on."""
        return self.sizes()

    def start(self, executor: oi.Executor) -> None:
        """Brings the state of an executor to where every timed call starts."""
        del executor

    def peer_inputs(self) -> Arrays:
        """The arrays of one call of a peer: ours, and the state that peers are handed."""
        return self.inputs()

    def unsupported(self, peer: str) -> str | None:
        """Why a peer cannot take part in this row, None where it can."""
        return None

    def peer_tolerance(self, peer: str) -> float:
        """What `difference` allows this peer."""
        return self.loose_tolerance if peer.endswith("-bf16") else self.tolerance

    @abstractmethod
    def onnx(self, graph: Graph) -> None:
        """Adds nodes to an ONNX graph, with fixed shapes; ends with `graph.result(…)`."""

    @abstractmethod
    def torch(self, w: Mapping[str, torch.Tensor]) -> Callable[..., torch.Tensor]:
        """A function of `peer_inputs` in their order; `w` are the weights under their names."""

    def numpy(self, w: Weights) -> Callable[[Arrays], Array]:
        """A function of the inputs in plain NumPy, where `in_numpy` says that there is one."""
        raise NotImplementedError(self.name)

    def package(self, folder: Path) -> Path:
        """The package file; `write_package` makes it where it is missing."""
        return folder / f"{self.model}-{self.edition()}.oinf"

    def edition(self, *more: str) -> str:
        """Changes when this family's source does, or one of `more`: files are made anew then."""
        texts = (inspect.getsource(type(self)), *more)
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:10]

    def write_package(self, folder: Path) -> Path:
        """The package file, written now if it was not there."""
        path = self.package(folder)
        if not path.exists():
            part = path.with_suffix(f".{os.getpid()}.part")
            oi.write_oinf(self.content(), part)
            part.replace(path)
        return path

    def weights(self, folder: Path) -> dict[str, Any]:
        """All tensors of the model, as copies in memory: what peers are built from."""
        with oi.open_model(self.package(folder)) as package:
            return {name: _copied(package.tensor(name)) for name in package.tensors}


def _copied(tensor: oi.Tensor) -> Any:
    if tensor.dtype.name == "bf16":
        return oi.Tensor(tensor.dtype, tensor.shape, np.array(tensor.storage))
    return np.array(tensor.storage)


def normal(random: np.random.Generator, *shape: int, scale: float = 1.0) -> Array:
    """f32 numbers from a normal distribution."""
    return random.standard_normal(shape, np.float32) * np.float32(scale)


def nbytes_of(tensors: Weights) -> int:
    """Bytes of all tensors."""
    return sum(
        value.storage.nbytes if isinstance(value, oi.Tensor) else value.nbytes
        for value in tensors.values()
    )
