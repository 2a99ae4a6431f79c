"""ONNX's own tests of operators, which its Python package makes, and what became of each here."""

from __future__ import annotations

import os
import pickle
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import openinfer as oi
from openinfer.compiler.frontend.printer import print_program
from openinfer.compiler.importers.onnx.items import our_dtype
from openinfer.compiler.importers.onnx.reader import OnnxProgram, read_model
from openinfer.compiler.importers.onnx.refusals import RefusedModel
from openinfer.runtime.errors import OpenInferError, UnsupportedError

Array = np.ndarray[Any, Any]
EXPECTED = Path(__file__).parent / "expected.txt"
RANDOM = ("Bernoulli", "RandomUniformLike")
"""Operators whose results are drawn: shape and dtype are compared."""
ROUNDING = {"float16": 2.0**-9, "bfloat16": 2.0**-6}
"""Two units in the last place of narrow floats: what is rounded between two steps of a body is free."""

ZEROS = {"DFT": 1e-6}
"""What counts as zero where the results that a case wants are themselves rounded sums of f32."""


@dataclass(frozen=True)
class Case:
    """One test: a model, inputs with the results that they must give, and tolerances."""

    name: str
    model: bytes
    data: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float

    @property
    def proto(self) -> Any:
        from onnx import ModelProto

        return ModelProto.FromString(self.model)

    @property
    def operator(self) -> str:
        """The operator that the case is about: its only node, or the one whose body it is."""
        nodes = self.proto.graph.node
        if len(nodes) == 1:
            return nodes[0].op_type
        names = (one.output[0].partition("_test_")[0] for one in nodes if one.output)
        return next((name for name in names if name.isalnum()), nodes[-1].op_type)


@cache
def all_cases(folder: Path | None = None) -> dict[str, Case]:
    """All cases by name; making them takes ten seconds, so a folder keeps them."""
    import onnx

    kept = None if folder is None else folder / f"node-cases-{onnx.__version__}.pickle"
    if kept is not None and kept.exists():
        return pickle.loads(kept.read_bytes())
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made: list[Any] = load_model_tests(kind="node")
    cases = {
        one.name: Case(
            one.name,
            one.model.SerializeToString(),
            [_arrays(*data) for data in one.data_sets],
            one.rtol,
            one.atol,
        )
        for one in made
    }
    if kept is not None:
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_bytes(pickle.dumps(cases))
        part.replace(kept)
    return cases


def _arrays(inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    return [_array(one) for one in inputs], [_array(one) for one in outputs]


def _array(value: Any) -> Any:
    from onnx import TensorProto, numpy_helper

    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic | np.ndarray | int | float) else value


@dataclass(frozen=True)
class Expected:
    """A line of the list."""

    name: str
    operator: str
    result: str


def expected() -> list[Expected]:
    """The committed list."""
    lines = EXPECTED.read_text().splitlines()
    return [Expected(*line.split("\t")) for line in lines if line and not line.startswith("#")]


def in_tenth(name: str) -> bool:
    """Whether a case is among the tenth that CI compiles."""
    return zlib.crc32(name.encode()) % 10 == 0


def listed_version() -> str:
    """The version of `onnx` that the list is about."""
    return EXPECTED.read_text().split()[2]


def result_of(case: Case, device: str = "") -> str:
    """`pass`, or `refused: OIxxxx why`; on the simulator, or compiled for a device. Raises AssertionError for
    a wrong result."""
    try:
        _check(case, device)
    except (RefusedModel, UnsupportedError) as error:
        return f"refused: {error.code} {_reason(error)}"
    return "pass"


def _reason(error: OpenInferError) -> str:
    """The first reason, without the place."""
    return (
        error.message.removeprefix("model: ").partition(", at ")[0].partition(", 2 times")[0][:120]
    )


def imported(model: Any, feeds: dict[str, Any]) -> OnnxProgram:
    """The program of a model; inputs that shapes follow from are given as values."""
    values: dict[str, Any] = {}
    while True:
        try:
            return read_model(model, values=values)
        except RefusedModel as refused:
            more = {
                name: feeds[name] for name in refused.inputs if name in feeds and name not in values
            }
            if not more:
                raise
            values |= more


def _check(case: Case, device: str) -> None:
    model = case.proto
    constants = {one.name for one in model.graph.initializer}
    names = [one.name for one in model.graph.input if one.name not in constants]
    for inputs, outputs in case.data:
        feeds = dict(zip(names, inputs))
        program = imported(model, feeds)
        graph = oi.graph(print_program(program.imported.module))
        tensors = program.imported.tensors
        made = oi.compile(graph, tensors, device) if device else oi.Simulator(graph, tensors)
        with made.make_executor() as executor:
            found = executor.run(**{name: feeds[one] for one, name in program.inputs.items()})
        for info, want in zip(model.graph.output, outputs):
            result = found[program.outputs[info.name]]
            assert str(getattr(result, "dtype", "")) in (our_dtype(want), str(want.dtype)), (
                info.name
            )
            _compare(case, np.asarray(result), want)


def _compare(case: Case, result: Array, want: Array) -> None:
    assert result.shape == want.shape
    if case.operator in RANDOM:
        return
    if want.dtype.kind == "f" or "float" in want.dtype.name:
        rtol = max(case.rtol, ROUNDING.get(want.dtype.name, 0.0))
        np.testing.assert_allclose(
            result.astype(np.float64),
            want.astype(np.float64),
            rtol=rtol,
            atol=ZEROS.get(case.operator, case.atol),
        )
    else:
        np.testing.assert_array_equal(result.astype(np.int64), want.astype(np.int64))
