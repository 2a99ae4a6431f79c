"""One architecture of the zoo against eager PyTorch: by `torch.export`, by ONNX, and by `torch.compile`."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from architectures import Architecture, Inputs, built
from zoo_library import torch

import openinfer as oi
from openinfer.compiler.importers.onnx.reader import read_model
from openinfer.compiler.importers.readable import readable
from openinfer.compiler.importers.torch.backend import openinfer as backend
from openinfer.compiler.importers.torch.export import import_module
from openinfer.runtime.errors import OpenInferError

BOUND = 1e-5
"""Largest error that is right, as a part of the largest number of a result."""
EXECUTORS = ("simulator", "cpu")
"""What runs a program where nobody asks for more; devices by their names."""


@dataclass
class Program:
    """What became of a model by one way in."""

    nodes: int = 0
    lines: int = 0
    loops: int = 0
    errors: dict[str, float] = field(default_factory=dict[str, float])
    """By what ran it: the simulator, a device, `torch.compile`."""
    seconds: float = 0
    """Of processor time for the import, behind PyTorch's export."""
    exporter: str = ""
    """Of ONNX: "dynamo", or "script" where that fails."""
    why: dict[str, str] = field(default_factory=dict[str, str])
    """What failed, by who failed."""

    @property
    def right(self) -> bool:
        return not self.why and all(error <= BOUND for error in self.errors.values())

    def add(self, other: Program) -> None:
        """Takes what other executors gave, and the numbers of the import where they are known."""
        self.errors |= other.errors
        self.why |= other.why
        if other.lines:
            self.nodes, self.lines, self.loops = other.nodes, other.lines, other.loops
            self.seconds, self.exporter = other.seconds, other.exporter


@dataclass
class Row:
    """What became of an architecture: its programs by `torch.export` and by ONNX."""

    name: str
    family: str
    torch: Program | None = None
    onnx: Program | None = None

    @property
    def right(self) -> bool:
        found = [one for one in (self.torch, self.onnx) if one is not None]
        return bool(found) and all(one.right for one in found)

    def add(self, other: Row) -> None:
        """Takes what another run measured of the same architecture."""
        for way in ("torch", "onnx"):
            one, more = getattr(self, way), getattr(other, way)
            if one is not None and more is not None:
                one.add(more)
            else:
                setattr(self, way, one or more)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, described: Mapping[str, Any]) -> Row:
        """The row that `as_json` described."""
        row = cls(described["name"], described["family"])
        row.torch, row.onnx = (
            None if described[way] is None else Program(**described[way])
            for way in ("torch", "onnx")
        )
        return row


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


@dataclass
class _Model:
    """A model with its inputs at three shapes, and what eager PyTorch gives."""

    architecture: Architecture
    module: Any
    inputs: list[Inputs]
    want: list[list[Any]]

    def error(self, run: Callable[[Inputs], Sequence[Any]]) -> float:
        return max(error_of(run(given), one) for given, one in zip(self.inputs, self.want))


def measured(
    architecture: Architecture,
    ways: Sequence[str] = ("torch", "compile"),
    executors: Sequence[str] = EXECUTORS,
) -> Row:
    """Imports and runs a model at three shapes; what fails is in `why`.

    `ways`: "torch", "onnx", "compile" (`torch.compile`). `executors`: "simulator", and devices.
    """
    row = Row(architecture.name, architecture.family)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        module = built(architecture)
        inputs = [architecture.inputs(number) for number in range(3)]
        model = _Model(architecture, module, inputs, [results(module(**given)) for given in inputs])
        if "onnx" in ways:
            row.onnx = Program()
            _tried(row.onnx, "import", partial(_by_onnx, model, row.onnx, executors))
        if "torch" in ways:
            row.torch = Program()
            _tried(row.torch, "import", partial(_by_export, model, row.torch, executors))
        if "compile" in ways:
            program = row.torch = row.torch or Program()
            _tried(program, "torch.compile", partial(_by_compile, model, program))
    return row


def _tried(program: Program, who: str, work: Callable[[], None]) -> None:
    try:
        work()
    except OpenInferError as error:
        program.why[who] = str(error)
    # A defect of ours is a row of the table, and the rest goes on.
    except Exception as error:
        program.why[who] = f"{type(error).__name__}: {error}"


def _by_export(model: _Model, program: Program, executors: Sequence[str]) -> None:
    imported = import_module(model.module, model.inputs[0], model.architecture.dynamic)
    program.nodes = imported.calls
    _run(model, program, imported, executors, lambda given: given, list)


def _by_onnx(model: _Model, program: Program, executors: Sequence[str]) -> None:
    program.exporter, proto = exported_to_onnx(
        model.module, model.inputs[0], model.architecture.dynamic
    )
    if not proto:
        program.why["export"] = program.exporter
        return
    found = read_model(proto)
    program.nodes = found.imported.calls
    _run(
        *(model, program, found.imported, executors),
        lambda given: {inner: given[name] for name, inner in found.inputs.items()},
        lambda names: list(found.outputs.values()),
    )


def exported_to_onnx(
    module: Any, given: Inputs, dynamic: Mapping[str, Sequence[str | None]]
) -> tuple[str, bytes]:
    """Which exporter of PyTorch made a model, and its bytes; where neither does, what it says and none."""
    axes = {
        name: {axis: one for axis, one in enumerate(dynamic.get(name, ())) if one} for name in given
    }
    try:
        made = torch.onnx.export(
            module, (), kwargs=given, dynamic_shapes=axes, dynamo=True, verbose=False
        )
        return "dynamo", made.model_proto.SerializeToString()
    # PyTorch raises whatever it meets.
    except Exception as error:
        reason = str(error)
    written = io.BytesIO()
    try:
        torch.onnx.export(
            *(module, (given,), written),
            **{"dynamo": False, "dynamic_axes": axes, "input_names": list(given)},
        )
    except Exception:
        return f"PyTorch: {reason}", b""
    return "script", written.getvalue()


def _by_compile(model: _Model, program: Program) -> None:
    torch._dynamo.reset()
    module = torch.compile(model.module, backend=backend)
    # PyTorch runs LSTM, GRU and RNN by itself otherwise.
    with torch._dynamo.config.patch(allow_rnn=True):
        program.errors["torch.compile"] = model.error(lambda given: results(module(**given)))


def _run(
    model: _Model,
    program: Program,
    imported: Any,
    executors: Sequence[str],
    inputs: Callable[[dict[str, Any]], dict[str, Any]],
    outputs: Callable[[dict[str, Any]], list[str]],
) -> None:
    begin = process_time()
    graph, package, report = readable(imported)
    program.seconds = process_time() - begin
    program.lines, program.loops = report.lines, report.loops
    for name in executors:
        _tried(
            program, name, partial(_execute, model, program, graph, package, name, inputs, outputs)
        )


def _execute(
    model: _Model,
    program: Program,
    graph: Any,
    package: Any,
    name: str,
    inputs: Callable[[dict[str, Any]], dict[str, Any]],
    outputs: Callable[[dict[str, Any]], list[str]],
) -> None:
    made = oi.Simulator(graph, package) if name == "simulator" else oi.compile(graph, package, name)
    with made.make_executor() as executor:

        def run(given: Inputs) -> list[Any]:
            plain = {key: value.numpy() for key, value in given.items()}
            found = executor.run(**inputs(plain))
            return [np.array(found[one]) for one in outputs(found)]

        program.errors[name] = model.error(run)
