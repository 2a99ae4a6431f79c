"""One architecture of the zoo: run on both executors and by `torch.compile`, against eager PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np
from architectures import Architecture, built
from zoo_library import torch

import openinfer as oi
from openinfer.compiler.importers.readable import readable
from openinfer.compiler.importers.torch.backend import openinfer as backend
from openinfer.compiler.importers.torch.export import import_module
from openinfer.runtime.errors import OpenInferError

BOUND = 1e-5
"""Largest error that is right, as a part of the largest number of a result."""


@dataclass
class Row:
    """What became of an architecture."""

    name: str
    family: str
    nodes: int = 0
    lines: int = 0
    loops: int = 0
    shapes: int = 0
    simulator: float | None = None
    compiled: float | None = None
    torch_compile: float | None = None
    seconds: float = 0
    """Of the import, behind `torch.export`."""
    why: str = ""

    @property
    def right(self) -> bool:
        errors = (self.simulator, self.compiled, self.torch_compile)
        return all(error is not None and error <= BOUND for error in errors)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def error_of(found: Sequence[Any], want: Sequence[Any]) -> float:
    """The largest error of all results, each as a part of the largest number of its result."""
    assert len(found) == len(want)
    errors = [0.0]
    for one, other in zip(found, want):
        right = other.detach().to(torch.float64).numpy()
        wrong = np.abs(np.asarray(one).astype(np.float64) - right).max(initial=0)
        errors.append(float(wrong / max(np.abs(right).max(initial=0), 1e-30)))
    return max(errors)


def results(value: Any) -> list[Any]:
    return [one for one in torch.utils._pytree.tree_leaves(value) if isinstance(one, torch.Tensor)]


def measured(architecture: Architecture) -> Row:
    """Imports and runs a model at three shapes; what fails is in `why`."""
    row = Row(architecture.name, architecture.family)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            _measure(architecture, row)
        except OpenInferError as error:
            row.why = str(error)
    return row


def _measure(architecture: Architecture, row: Row) -> None:
    model = built(architecture)
    inputs = [architecture.inputs(number) for number in range(3)]
    want = [results(model(**given)) for given in inputs]
    row.shapes = len(inputs)
    imported = import_module(model, inputs[0], architecture.dynamic)
    begin = perf_counter()
    graph, package, report = readable(imported)
    row.seconds = perf_counter() - begin
    row.nodes, row.lines, row.loops = imported.calls, report.lines, report.loops

    def error(run: Callable[[dict[str, Any]], Sequence[Any]]) -> float:
        return max(error_of(run(given), one) for given, one in zip(inputs, want))

    def executed(executor: oi.Executor) -> float:
        return error(
            lambda given: [np.array(one) for one in executor.run(**_plain(given)).values()]
        )

    row.simulator = executed(oi.Simulator(graph, package).make_executor())
    row.compiled = executed(oi.compile(graph, package).make_executor())
    torch._dynamo.reset()
    module = torch.compile(model, backend=backend)
    # PyTorch runs LSTM, GRU and RNN by itself otherwise.
    with torch._dynamo.config.patch(allow_rnn=True):
        row.torch_compile = error(lambda given: results(module(**given)))


def _plain(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value.numpy() for name, value in given.items()}
