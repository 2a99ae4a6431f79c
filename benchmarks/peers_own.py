"""Our compiled program and its definition of right; NumPy where the work is one call of it."""

from __future__ import annotations

from typing import Any

import openinfer as oi
from benchmarks.instruction_sets import HOST
from benchmarks.peers import Run, Setting
from benchmarks.workloads.base import Workload
from openinfer.compiler.api import compile as compiled


def openinfer(workload: Workload, setting: Setting) -> Run:
    """Our compiled program."""
    model = oi.open_model(workload.package(setting.folder))
    graph = oi.graph_file(workload.program)
    sizes = workload.sizes() or None
    options: dict[str, Any] = {"without": setting.without} if setting.without else {}
    if setting.target != HOST:
        options["target"] = setting.target
    if not setting.fallback:
        options["fallback"] = False
    if setting.precision is not None:
        options["precision"] = setting.precision
    program = compiled(graph, model, setting.device, sizes=sizes, **options)
    executor = program.make_executor(setting.threads)
    workload.start(executor)
    result = workload.result
    return lambda inputs: executor.run(**inputs)[result]


def simulator(workload: Workload, setting: Setting) -> Run:
    """The definition of right, never timed."""
    model = oi.open_model(workload.package(setting.folder))
    graph = oi.graph_file(workload.program)
    executor = oi.Simulator(graph, model, workload.sizes() or None).make_executor()
    workload.start(executor)
    return lambda inputs: executor.run(**inputs)[workload.result]


def numpy(workload: Workload, setting: Setting) -> Run:
    """One call of NumPy, with OpenBLAS's kernels for this processor."""
    return workload.numpy(workload.weights(setting.folder))
