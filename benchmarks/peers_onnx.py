"""Peers that read ONNX files: ONNX Runtime, OpenVINO, IREE, tinygrad."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.instruction_sets import HOST, RESTRICTIONS
from benchmarks.openvino_held import check_held, clip_products
from benchmarks.peers import ZIG, Run, Setting, tool_path
from benchmarks.workloads.base import Array, Arrays, Workload

BUILDER = Path(__file__).resolve().parent / "onnx_graph.py"
# Without the second one, activations before 8-bit weights are rounded to 8 bits too.
F32_ONLY = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
IREE_FLAGS = (
    "--iree-hal-target-backends=llvm-cpu",
    "--iree-opt-level=O1",
    "--iree-llvmcpu-stack-allocation-limit=262144",
)
IREE_TILING = "--iree-dispatch-creation-data-tiling"
"""Faster almost everywhere; IREE 3.13 computes the decoder's attention wrong with it."""


def onnx_file(workload: Workload, setting: Setting, peer: str) -> Path:
    """The workload as an ONNX file, written now if it is not there yet."""
    # Some forms of narrow weights differ from reader to reader, plain graphs do not.
    edition = workload.edition(BUILDER.read_text(encoding="utf-8"))
    path = setting.folder / f"{workload.name}-{peer}-{edition}.onnx"
    if not path.exists():
        from benchmarks import onnx_graph

        part = path.with_suffix(f".{os.getpid()}.part")
        onnx_graph.write(workload, setting.folder, peer, part)
        part.replace(path)
    return path


def onnxruntime(workload: Workload, setting: Setting) -> Run:
    """ONNX Runtime on the CPU with all its graph optimisations."""
    return _onnxruntime(workload, setting, "onnxruntime")


def onnxruntime_narrow(workload: Workload, setting: Setting) -> Run:
    """The same with vectors rounded to 8 bits at every product with 8-bit weights."""
    return _onnxruntime(workload, setting, "onnxruntime-i8")


def _onnxruntime(workload: Workload, setting: Setting, peer: str) -> Run:
    import onnxruntime as ort

    path, options = str(onnx_file(workload, setting, peer)), onnxruntime_options(setting)
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)[0]


def onnxruntime_options(setting: Setting) -> Any:
    """The `SessionOptions` that we race it with."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = setting.threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    return options


def openvino(workload: Workload, setting: Setting) -> Run:
    """OpenVINO in f32: its default on CPUs with bf16 instructions would round the products."""
    return OpenVino(workload, setting, F32_ONLY).run


def openvino_default(workload: Workload, setting: Setting) -> Run:
    """OpenVINO as it comes: bf16 products where the CPU has them."""
    return OpenVino(workload, setting, {}).run


class OpenVino:
    """A compiled model and one request for it."""

    def __init__(self, workload: Workload, setting: Setting, more: dict[str, Any]) -> None:
        import openvino as ov

        core = ov.Core()
        config = {"INFERENCE_NUM_THREADS": setting.threads, "NUM_STREAMS": 1, **more}
        config["PERFORMANCE_HINT"] = "LATENCY"
        model = core.read_model(str(onnx_file(workload, setting, "openvino")))
        if setting.target == HOST:
            self.compiled = core.compile_model(model, "CPU", config)
        else:
            clip_products(model)
            self.compiled = core.compile_model(model, "CPU", config)
            check_held(self.compiled)
        self._infer = self.compiled.create_infer_request().infer

    def run(self, inputs: Arrays) -> Array:
        """The result lies in the request's memory, which stays as it is until the next call."""
        return self._infer(inputs, share_inputs=True, share_outputs=True)[0]


def iree(workload: Workload, setting: Setting) -> Run:
    """IREE's llvm-cpu back end, compiled ahead of time for this processor or the setting's target."""
    return Iree(workload, setting).run


class Iree:
    """A module with a device of its own."""

    def __init__(self, workload: Workload, setting: Setting) -> None:
        import iree.runtime as rt

        if setting.threads > 1:
            rt.flags.parse_flags(f"--task_topology_group_count={setting.threads}")
        config = rt.Config("local-sync" if setting.threads == 1 else "local-task")
        path = _iree_module(workload, setting)
        module = rt.VmModule.mmap(config.vm_instance, str(path))
        self.allocator: Any = config.device.allocator
        self._call = rt.load_vm_module(module, config).main_graph

    def run(self, inputs: Arrays) -> Array:
        """Takes arrays to the device and the result back."""
        return self._call(*inputs.values()).to_host()


def _iree_module(workload: Workload, setting: Setting) -> Path:
    version = metadata.version("iree-base-compiler")
    source = onnx_file(workload, setting, "iree")
    flags = IREE_FLAGS if workload.group == "W5" else (*IREE_FLAGS, IREE_TILING)
    kind = ("" if IREE_TILING in flags else "-plain") + (
        "" if setting.target == HOST else f"-{setting.target}"
    )
    path = source.with_suffix(f".{version}{kind}.vmfb")
    if path.exists():
        return path
    text, part = path.with_suffix(".mlir"), path.with_suffix(f".{os.getpid()}.part")
    _tool("iree.compiler.tools.import_onnx", source, "-o", text, "--opset-version=17")
    cpu = f"--iree-llvmcpu-target-cpu={RESTRICTIONS[setting.target].iree_cpu}"
    _tool("iree.compiler.tools.scripts.iree_compile", text, "-o", part, *flags, cpu)
    text.unlink()
    part.replace(path)
    return path


def _tool(module: str, *arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"{module} ended with code {done.returncode}: {done.stderr[-1500:]}")


def _clang(folder: Path) -> str:
    """One word that starts clang: tinygrad takes no more."""
    found = tool_path("clang")
    if found is None:
        raise RuntimeError("there is no clang")
    if found != ZIG:
        return found
    package = find_spec(ZIG)
    assert package is not None
    assert package.origin is not None
    script, zig = folder / "clang-of-zig", Path(package.origin).with_name("zig")
    part = script.with_suffix(f".{os.getpid()}.part")
    part.write_text(f'#!/bin/sh\nexec "{zig}" clang "$@"\n', encoding="utf-8")
    part.chmod(0o755)
    part.replace(script)
    return str(script)


def tinygrad(workload: Workload, setting: Setting) -> Run:
    """tinygrad's CPU device, its kernels replayed by its JIT, without its search for better ones."""
    os.environ["CC"] = _clang(setting.folder)
    from tinygrad.engine.jit import TinyJit
    from tinygrad.nn.onnx import OnnxRunner
    from tinygrad.tensor import Tensor

    runner = OnnxRunner(str(onnx_file(workload, setting, "tinygrad")))
    names = list(workload.peer_inputs())

    @TinyJit
    def step(*tensors: Any) -> Any:
        results: dict[str, Any] = runner(dict(zip(names, tensors)))
        return next(iter(results.values())).realize()

    def call(inputs: Arrays) -> Any:
        return step(*(Tensor(np.asarray(array)).realize() for array in inputs.values())).numpy()

    call(workload.peer_inputs())  # the JIT records the second call and replays from the third on
    call(workload.peer_inputs())
    return call
