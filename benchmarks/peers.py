"""The runtimes that race. Each makes a function from arrays to an array for a workload.

Libraries are imported inside the functions: a worker process loads only the runtime that it runs.
What a peer has to build ahead of time is kept in the bench folder, under a name that holds the
versions that it was made with.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from benchmarks.workloads.base import Arrays, Workload

OURS = "openinfer"
REFERENCE = "simulator"
Run = Callable[[Arrays], Any]
"""From the arrays of a call to the array of its result."""


@dataclass(frozen=True)
class Setting:
    """What a runtime is made with."""

    folder: Path
    """Packages, ONNX files and what peers built ahead of time."""
    threads: int
    without: frozenset[str] = frozenset()
    """Passes of our compiler that are left out, for the ablation."""
    precision: str | None = None
    """Our `precision`."""


Make = Callable[[Workload, Setting], Run]


@dataclass(frozen=True)
class Peer:
    """A runtime of the table."""

    name: str
    """As given on the command line."""
    title: str
    distribution: str
    """The installed package whose version is reported."""
    maker: str
    """`module:function`, a `Make`."""
    needs: tuple[str, ...] = ()
    """Modules that it cannot do without, beyond its own."""
    tool: str = ""
    """A program that it starts to compile its kernels."""
    narrow: bool = False
    """Whether it rounds f32 operands to bf16: no peer of f32 rows."""
    ours: bool = False
    extra: str = "bench"
    """The extra of openinfer that brings it."""
    slow: bool = False
    """Takes minutes to set up, or far longer than the rest for a call: takes part on request."""

    def missing(self) -> str | None:
        """Why it cannot run here, None when it can."""
        if self.version() is None:
            return f"`{self.distribution}` is not installed"
        for module in self.needs:
            if importlib.util.find_spec(module) is None:
                return f"it needs `{module}`, which is not installed"
        if self.tool and shutil.which(self.tool) is None:
            return f"it compiles its kernels with `{self.tool}`, which is not there"
        return None

    def version(self) -> str | None:
        """The installed version, None when it is not installed."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return None

    def make(self, workload: Workload, setting: Setting) -> Run:
        module, _, function = self.maker.partition(":")
        make: Make = getattr(import_module(module), function)
        return make(workload, setting)


_OWN = "benchmarks.peers_own:"
_ONNX = "benchmarks.peers_onnx:"
_TORCH = "benchmarks.peers_torch:"
_ALL = (
    Peer(OURS, "openinfer", OURS, f"{_OWN}openinfer", ours=True),
    Peer(
        "openinfer-bf16",
        "openinfer bf16",
        OURS,
        f"{_OWN}openinfer",
        ours=True,
        narrow=True,
    ),
    Peer("onnxruntime", "ONNX Runtime", "onnxruntime", f"{_ONNX}onnxruntime", ("onnx",)),
    Peer("openvino", "OpenVINO f32", "openvino", f"{_ONNX}openvino", ("onnx",)),
    Peer("aot", "AOTInductor", "torch", f"{_TORCH}aot", tool="g++", slow=True),
    Peer(
        "iree",
        "IREE",
        "iree-base-compiler",
        f"{_ONNX}iree",
        ("onnx", "iree.runtime"),
        extra="bench-more",
    ),
    Peer("torch", "PyTorch eager", "torch", f"{_TORCH}eager"),
    Peer("torch-compile", "torch.compile", "torch", f"{_TORCH}compiled", tool="g++", slow=True),
    Peer("tinygrad", "tinygrad", "tinygrad", f"{_ONNX}tinygrad", ("onnx",), "clang", slow=True),
    Peer("numpy", "NumPy", "numpy", f"{_OWN}numpy"),
    Peer(
        "openvino-bf16",
        "OpenVINO default",
        "openvino",
        f"{_ONNX}openvino_default",
        ("onnx",),
        narrow=True,
    ),
)
PEERS: Mapping[str, Peer] = {peer.name: peer for peer in _ALL}
"""In the order of the table's columns."""
SIMULATOR = Peer(REFERENCE, "simulator", OURS, f"{_OWN}simulator")
LEFT_OUT = {
    "llama.cpp": "runs whole language models from GGUF files, with embedding, vocabulary and its own "
    "choice of precision: not the step of layers that is timed here",
}


def takes_part(peer: Peer, workload: Workload) -> str | None:
    """Why a peer cannot run a workload, None when it can."""
    if peer.name == "numpy" and not workload.in_numpy:
        return "only single products are one call of NumPy"
    if peer.name == "openinfer-bf16" and workload.group not in ("W1", "W2", "W3"):
        return "compared with OpenVINO's default on W1 to W3"
    return workload.unsupported(peer.name)


def peer_inputs(peer: Peer, workload: Workload) -> Arrays:
    """The arrays of one call."""
    own = peer.ours or peer.name == REFERENCE
    return workload.inputs() if own else workload.peer_inputs()
