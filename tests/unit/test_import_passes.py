"""Passes over imported graphs change no result: every case of their FileCheck files runs before and after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr

import openinfer as oi
from openinfer.compiler import registry
from openinfer.compiler.frontend.printer import print_program
from openinfer.compiler.ir_text import parse_ir
from openinfer.dialects.graph import PackageSizeOp, VariableOp
from openinfer.lowering.graph.imports.tensors import using_tensors
from openinfer.lowering.program.sources import member_name, pattern_of
from openinfer.runtime.dtypes import DTYPES

FOLDER = Path(__file__).resolve().parents[1] / "filecheck/lowering/imports"
SHAPES = ({"B": 2, "L": 5}, {"B": 1, "L": 1}, {"B": 3, "L": 8})
Arrays = dict[str, np.ndarray[Any, Any]]


def cases() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.mlir")):
        name = path.stem
        if name in registry.PASSES:
            for number, text in enumerate(path.read_text().split("// -----")):
                yield pytest.param(name, text, id=f"{name}-{number}")


def random(rng: np.random.Generator, dtype: str, shape: list[int]) -> np.ndarray[Any, Any]:
    """Numbers that every dtype holds, and every index of a table."""
    row = DTYPES[dtype]
    if row.is_float:
        return rng.standard_normal(shape).astype(row.value)
    return rng.integers(0, 2 if row.kind == "bool" else 3, shape).astype(row.value)


def tensor_names(op: VariableOp) -> list[str]:
    """The tensors that a declaration stands for, of a family the first eight."""
    ref, pattern = op.option("ref"), pattern_of(op)
    if pattern is not None:
        return [member_name(pattern, {"l": number}) for number in range(8)]
    return [ref.data] if isinstance(ref, StringAttr) else []


def results(module: ModuleOp, tensors: Arrays, inputs: Arrays) -> list[np.ndarray[Any, Any]]:
    graph = oi.graph(print_program(module))
    sizes = {
        o.size.data: o.value.data.evaluate({})
        for o in module.walk()
        if isinstance(o, PackageSizeOp)
    }
    executor = oi.Simulator(graph, {**tensors, **sizes}).make_executor()
    executor.insert(**inputs)
    executor.step()
    return [np.asarray(executor.fetch(name)) for name in executor.results]


@pytest.mark.parametrize(("name", "text"), list(cases()))
def test_a_pass_changes_no_result(name: str, text: str) -> None:
    rng = np.random.default_rng(3)
    before = parse_ir(text, f"{name}.mlir", registry.make_context()).module
    declared = [op for op in before.body.ops if isinstance(op, VariableOp)]
    tensors: Arrays = {}
    for op in declared:
        shape = [dim.evaluate({}) for dim in op.sizes] if op.memory.data != "dynamic" else []
        for name_of_tensor in tensor_names(op):
            tensors[name_of_tensor] = random(rng, op.dtype.data, shape)
    after = before.clone()
    changed = dict(tensors)
    with using_tensors(changed):
        registry.load(registry.PASSES[name])().apply(registry.make_context(), after)
    after.verify()
    for sizes in SHAPES:
        inputs = {
            op.variable.data: random(rng, op.dtype.data, [d.evaluate(sizes) for d in op.sizes])
            for op in declared
            if op.memory.data == "dynamic"
        }
        for old, new in zip(results(before, tensors, inputs), results(after, changed, inputs)):
            assert old.dtype == new.dtype
            np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-5)
