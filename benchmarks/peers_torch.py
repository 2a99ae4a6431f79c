"""PyTorch three times: eager, torch.compile, and AOTInductor; weights frozen where that helps it."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

import openinfer as oi
from benchmarks.peers import Run, Setting
from benchmarks.workloads.base import Array, Arrays, Workload


def eager(workload: Workload, setting: Setting) -> Run:
    """PyTorch, eager, in inference mode."""
    torch.set_num_threads(setting.threads)
    return _run(workload.torch(tensors(workload, setting)))


def compiled(workload: Workload, setting: Setting) -> Run:
    """torch.compile of the exported program, frozen: weights are constants that it may pack."""
    torch.set_num_threads(setting.threads)
    torch.compiler.reset()
    # As an option of torch.compile it would reach Inductor alone: what captures the graph before it
    # makes weights inputs then, and nothing is frozen. No other peer has this process.
    config: Any = import_module("torch._inductor.config")
    config.freezing = True
    return _run(torch.compile(exported(workload, setting).module()))


def aot(workload: Workload, setting: Setting) -> Run:
    """AOTInductor: a library compiled ahead of time for this number of threads, frozen."""
    torch.set_num_threads(setting.threads)
    name = f"{workload.name}-aot{setting.threads}-{torch.__version__}-{workload.edition()}.pt2"
    path = setting.folder / name
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}.pt2")
        with torch.no_grad():
            import_module("torch._inductor").aoti_compile_and_package(
                exported(workload, setting),
                package_path=str(part),
                inductor_configs={"freezing": True},
            )
        part.replace(path)
    return _run(import_module("torch._inductor").aoti_load_package(str(path)))


def _run(function: Callable[..., Any]) -> Run:
    def run(inputs: Arrays) -> Array:
        with torch.inference_mode():
            return function(*(torch.from_numpy(array) for array in inputs.values())).numpy()

    return run


def tensors(workload: Workload, setting: Setting) -> dict[str, torch.Tensor]:
    """The weights; bf16, which NumPy lacks, from their bits."""
    return {name: tensor_of(value) for name, value in workload.weights(setting.folder).items()}


def tensor_of(value: Any) -> torch.Tensor:
    if isinstance(value, oi.Tensor):
        return torch.from_numpy(value.storage.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(value)


class Model(torch.nn.Module):
    """A workload's function with its weights as buffers, which export and freezing want."""

    def __init__(self, workload: Workload, weights: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self._workload = workload
        self._names = {name: name.replace(".", "_") for name in weights}
        for name, value in weights.items():
            self.register_buffer(self._names[name], value)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        weights = {name: getattr(self, buffer) for name, buffer in self._names.items()}
        return self._workload.torch(weights)(*inputs)


def exported(workload: Workload, setting: Setting) -> Any:
    """The program of one call, shapes fixed."""
    model = Model(workload, tensors(workload, setting)).eval()
    given = tuple(torch.from_numpy(array) for array in workload.peer_inputs().values())
    with torch.no_grad():
        return torch.export.export(model, given, strict=False)
