"""The runtimes that race: each makes a function from arrays to an array for a problem.

Libraries are imported inside the functions: a worker process loads only the runtime that it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.problems import PROGRAMS, RESULTS, Problem, package_path, weights

Array = np.ndarray[Any, Any]
Run = Callable[[dict[str, Array]], Array]
Make = Callable[[Problem, Path, int], Run]


def openinfer(problem: Problem, folder: Path, threads: int) -> Run:
    """Our compiled program."""
    import openinfer as oi

    model = oi.open_model(package_path(problem.model, folder))
    program = oi.compile(oi.graph_file(PROGRAMS[problem.model]), model)
    executor = program.make_executor(threads)
    result = RESULTS[problem.model]
    return lambda inputs: np.asarray(executor.run(**inputs)[result])


def simulator(problem: Problem, folder: Path, threads: int) -> Run:
    """The definition of right, never timed."""
    import openinfer as oi

    model = oi.open_model(package_path(problem.model, folder))
    executor = oi.Simulator(oi.graph_file(PROGRAMS[problem.model]), model).make_executor()
    result = RESULTS[problem.model]
    return lambda inputs: np.asarray(executor.run(**inputs)[result])


def onnxruntime(problem: Problem, folder: Path, threads: int) -> Run:
    """ONNX Runtime on the CPU with all its graph optimisations."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    path = str(folder / f"{problem.model}.onnx")
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda inputs: np.asarray(session.run(None, inputs)[0])


def torch(problem: Problem, folder: Path, threads: int) -> Run:
    """PyTorch, eager, in inference mode."""
    import torch as pytorch

    from benchmarks import torch_models

    pytorch.set_num_threads(threads)
    function = getattr(torch_models, problem.model)(weights(problem.model, folder))

    def run(inputs: dict[str, Array]) -> Array:
        with pytorch.inference_mode():
            return function(**{n: pytorch.from_numpy(a) for n, a in inputs.items()}).numpy()

    return run


def openvino(problem: Problem, folder: Path, threads: int) -> Run:
    """OpenVINO in f32: its default on CPUs with bf16 instructions would round the products."""
    import openvino as ov

    core = ov.Core()
    config = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
    }
    compiled = core.compile_model(str(folder / f"{problem.model}.onnx"), "CPU", config)
    request = compiled.create_infer_request()
    return lambda inputs: np.array(request.infer(inputs)[0])


PEERS: dict[str, Make] = {
    "openinfer": openinfer,
    "onnxruntime": onnxruntime,
    "torch": torch,
    "openvino": openvino,
}
REFERENCE = "simulator"
MAKERS: dict[str, Make] = {**PEERS, REFERENCE: simulator}
TITLES = {
    "openinfer": "openinfer",
    "onnxruntime": "ONNX Runtime",
    "torch": "PyTorch eager",
    "openvino": "OpenVINO f32",
}


def version(peer: str) -> str | None:
    """The installed version of a peer, None when it is not installed."""
    try:
        return metadata.version(peer)
    except metadata.PackageNotFoundError:
        return None
