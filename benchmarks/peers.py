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

from benchmarks.instruction_sets import HOST
from benchmarks.workloads.base import Arrays, Workload
from openinfer.runtime.devices import DEFAULT_DEVICE

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
    target: str = HOST
    """The target that programs are compiled for, and peers are held to."""
    device: str = DEFAULT_DEVICE
    """The device that our programs run on."""
    fallback: bool = True
    """Whether the host runs what that device does not support."""


Make = Callable[[Workload, Setting], Run]


@dataclass(frozen=True)
class Asked:
    """What a runtime is asked about its memory."""

    peer: str
    workload: Workload
    setting: Setting
    run: Any
    """What its `Make` made: a function, or a method of something that knows more."""
    inputs: Arrays


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
    memory: str
    """Function of `benchmarks.memory` that finds out what a call allocates."""
    needs: tuple[str, ...] = ()
    """Modules that it cannot do without, beyond its own."""
    tool: str = ""
    """A program that it starts to compile its kernels."""
    narrow: bool = False
    """Whether it rounds f32 operands to fewer bits: no peer of f32 rows."""
    gain: float = 1.0
    """How much less it has to do than f32 for that, in bytes and in products."""
    only: frozenset[str] = frozenset()
    """The groups or rows that it takes part in, where these are few."""
    ours: bool = False
    extra: str = "bench"
    """The extra of openinfer that brings it."""
    slow: bool = False
    """Takes many seconds to set up in every run, or far longer than the rest for a call: takes part in
    samples, elsewhere on request."""

    def missing(self) -> str | None:
        """Why it cannot run here, None when it can."""
        # What runs this is there, also as a checkout in the path that nobody installed.
        if not self.ours and self.version() is None:
            return f"`{self.distribution}` is not installed"
        for module in self.needs:
            if importlib.util.find_spec(module) is None:
                return f"it needs `{module}`, which is not installed"
        if self.tool and tool_path(self.tool) is None:
            return f"it compiles its kernels with `{self.tool}`, which is not there"
        return None

    def version(self) -> str | None:
        """The installed version, None when it is not installed."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return None

    def make(self, workload: Workload, setting: Setting) -> Run:
        make: Make = _found(self.maker)
        return make(workload, setting)

    def allocated(self, asked: Asked) -> dict[str, int]:
        """Bytes that live at once in a call, as the runtime reports them."""
        tell: Callable[[Asked], dict[str, int]] = _found(f"benchmarks.memory:{self.memory}")
        return tell(asked)


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def tool_path(name: str) -> str | None:
    """A program on the path; clang also from the package `ziglang`, whose `zig clang` it is."""
    found = shutil.which(name)
    if found is None and name == "clang" and importlib.util.find_spec("ziglang") is not None:
        return ZIG
    return found


ZIG = "ziglang"
_NARROWED = 2.0
"""bf16 against f32, in bytes, and in products where the processor has an instruction for them."""
_OWN = "benchmarks.peers_own:"
_ONNX = "benchmarks.peers_onnx:"
_TORCH = "benchmarks.peers_torch:"
_ALL = (
    Peer(OURS, "openinfer", OURS, f"{_OWN}openinfer", "planned", ours=True),
    Peer(
        "openinfer-bf16",
        "openinfer bf16",
        OURS,
        f"{_OWN}openinfer",
        "planned",
        ours=True,
        narrow=True,
        gain=_NARROWED,
        only=frozenset({"W1", "W2", "W3"}),
    ),
    Peer(
        "onnxruntime",
        "ONNX Runtime",
        "onnxruntime",
        f"{_ONNX}onnxruntime",
        "onnxruntime",
        ("onnx",),
    ),
    Peer("openvino", "OpenVINO f32", "openvino", f"{_ONNX}openvino", "openvino", ("onnx",)),
    Peer("aot", "AOTInductor", "torch", f"{_TORCH}aot", "torch", tool="g++"),
    Peer(
        "iree",
        "IREE",
        "iree-base-compiler",
        f"{_ONNX}iree",
        "iree",
        ("onnx", "iree.runtime"),
        extra="bench-more",
    ),
    Peer("torch", "PyTorch eager", "torch", f"{_TORCH}eager", "torch"),
    Peer(
        "torch-compile",
        "torch.compile",
        "torch",
        f"{_TORCH}compiled",
        "torch",
        tool="g++",
        slow=True,
    ),
    Peer(
        "tinygrad",
        "tinygrad",
        "tinygrad",
        f"{_ONNX}tinygrad",
        "tinygrad",
        ("onnx",),
        "clang",
        extra="bench-more",
        slow=True,
    ),
    Peer(
        "llama.cpp",
        "llama.cpp",
        "xllamacpp",
        "benchmarks.peers_llama:llama",
        "llama",
        ("gguf",),
        extra="bench-more",
        only=frozenset({"W5"}),
    ),
    Peer("numpy", "NumPy", "numpy", f"{_OWN}numpy", "numpy", only=frozenset({"W4"})),
    Peer(
        "openvino-bf16",
        "OpenVINO default",
        "openvino",
        f"{_ONNX}openvino_default",
        "openvino",
        ("onnx",),
        narrow=True,
        gain=_NARROWED,
    ),
    Peer(
        "onnxruntime-i8",
        "ONNX Runtime, 8-bit vectors",
        "onnxruntime",
        f"{_ONNX}onnxruntime_narrow",
        "onnxruntime",
        ("onnx",),
        narrow=True,
        only=frozenset({"matvec-i8"}),
    ),
)
PEERS: Mapping[str, Peer] = {peer.name: peer for peer in _ALL}
"""In the order of the table's columns."""
SIMULATOR = Peer(REFERENCE, "simulator", OURS, f"{_OWN}simulator", "planned")


def takes_part(peer: Peer, workload: Workload) -> str | None:
    """Why a peer cannot run a workload, None when it can."""
    if not concerns(peer, workload):
        return f"takes part in {', '.join(sorted(peer.only))} only"
    if peer.name == "numpy" and not workload.in_numpy:
        return "only single products are one call of NumPy"
    return workload.unsupported(peer.name)


def concerns(peer: Peer, workload: Workload) -> bool:
    """Whether a workload is one that a peer is here for."""
    return not peer.only or workload.group in peer.only or workload.name in peer.only


def peer_inputs(peer: Peer, workload: Workload) -> Arrays:
    """The arrays of one call."""
    own = peer.ours or peer.name == REFERENCE
    return workload.inputs() if own else workload.peer_inputs()
