"""The programs of the documentation: all of them are read and run, with a package made for each.

The line that opens a program says what it needs: `B=2` is a size, `w:f32[D,D]` the type of a tensor
of the package (`f32` alone: a metadata number), `error=OI0249` that it is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.frontend import parse_text, print_program
from openinfer.compiler.tools.openinfer import main
from openinfer.dialects import graph
from openinfer.lowering.program.sources import member_name, package_name, pattern_of
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.packages.oinf_writer import OinfContent
from openinfer.runtime.sizes import Size
from openinfer.runtime.variables import NUMPY_DTYPES

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
NATIVE = {DTYPES[name].value for name in NUMPY_DTYPES}
MEMBERS = 4
"""How many tensors a family gets along each index."""


@dataclass
class Documented:
    """One program of a page."""

    page: str
    line: int
    text: str
    needs: dict[str, str]
    types: dict[str, str]


def programs() -> list[Documented]:
    """Every fenced piece that is marked as a program, or looks like one."""
    found: list[Documented] = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"^```(\w*) ?([^\n]*)\n(.*?)^```", text, re.M | re.S):
            language, words, body = match.groups()
            if language == "oi" or (language == "text" and "block entry {" in body):
                needs = dict(re.findall(r"(\w+)=(\S+)", words))
                types = dict(re.findall(r"(\S+?):(\S+)", words))
                line = text.count("\n", 0, match.start()) + 2
                found.append(Documented(page.name, line, body, needs, types))
    return found


PROGRAMS = programs()


def values(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Small values that no op minds; integers are 1."""
    row = DTYPES[dtype]
    if row.is_integer or row.kind == "bool":
        return np.ones(shape, row.value)
    drawn = np.random.default_rng(seed).uniform(0.25, 1, shape)
    return drawn.astype(row.value)


def shape_of(dims: tuple[Size, ...], sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(dim.evaluate(sizes) for dim in dims)


def package_of(program: Documented, folder: Path) -> oi.Package:
    """A package with everything that a program names."""
    sizes = {name: int(value) for name, value in program.needs.items()}
    content = OinfContent(dict(sizes))
    types = {name: parse_text(f"volatile {{ v: {t}; }} block entry {{ return; }}").module
             for name, t in program.types.items()}  # fmt: skip
    declared: list[tuple[str, graph.VariableOp]] = []
    for name, typed in types.items():
        assert typed is not None
        declared.append((name, next(op for op in typed.walk() if isinstance(op, graph.VariableOp))))
    module = parse_text(program.text).module
    assert module is not None
    for op in module.walk():
        if isinstance(op, graph.VariableOp) and op.memory.data == "constant":
            name = pattern_of(op) or package_name(op)
            # The line above the program says what is left open.
            if op.dtype.data != "_" and name not in types:
                declared.append((name, op))
    for seed, (name, op) in enumerate(declared):
        shape, dtype = shape_of(op.sizes, sizes), op.dtype.data
        indices = re.findall(r"\{(\w+)\}", name)
        if not indices and not shape:
            content.metadata[name] = oi.ScalarValue(0.5, dtype)
            continue
        for place in np.ndindex(*[MEMBERS] * len(indices)):
            member = member_name(name, dict(zip(indices, place)))
            content.tensors[member] = values(dtype, shape, seed)
    path = folder / "model.oinf"
    oi.write_oinf(content, path)
    return oi.open_model(path)


def inputs_of(program: Documented, sizes: dict[str, int]) -> dict[str, Any]:
    module = parse_text(program.text).module
    assert module is not None
    return {
        op.variable.data: values(op.dtype.data, shape_of(op.sizes, sizes), seed)
        for seed, op in enumerate(module.walk())
        if isinstance(op, graph.VariableOp) and op.memory.data == "dynamic"
    }


def identity(program: Documented) -> str:
    return f"{program.page}:{program.line}"


GOOD = [program for program in PROGRAMS if "error" not in program.needs]


def test_there_are_programs() -> None:
    assert len([p for p in PROGRAMS if p.page == "language.md"]) >= 10
    assert any(p.page == "README.md" for p in PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS, ids=identity)
def test_is_read(program: Documented) -> None:
    result = parse_text(program.text)
    if code := program.needs.get("error"):
        assert [d.code for d in result.errors] == [code], result.render()
        return
    assert result.module is not None, result.render()
    assert not result.diagnostics, result.render()
    again = parse_text(print_program(result.module))
    assert again.module is not None, again.render()
    assert again.module.is_structurally_equivalent(result.module)


@pytest.mark.parametrize("program", GOOD, ids=identity)
def test_runs_the_same_everywhere(program: Documented, tmp_path: Path) -> None:
    with package_of(program, tmp_path) as model:
        inputs = inputs_of(program, {"B": 2, **model.sizes})
        simulator = oi.Simulator(program.text, model).make_executor()
        wanted = [simulator.run(**inputs) for _ in range(3)]
        assert all(wanted)
        try:
            executor = oi.compile(program.text, model).make_executor()
        except (oi.ProgramError, oi.UnsupportedError) as error:
            if error.code.startswith("OI07"):
                pytest.skip(f"compiled programs: {error.message}")
            raise
        for outputs in wanted:
            found = executor.run(**inputs)
            assert found.keys() == outputs.keys()
            for name, value in outputs.items():
                np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


READ_FIRST = [program for program in GOOD if program.page in ("README.md", "language.md")]


@pytest.mark.parametrize("program", READ_FIRST, ids=identity)
def test_compare_agrees(
    program: Documented, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.oi"
    path.write_text(program.text)
    with package_of(program, tmp_path) as model:
        command = ["compare", str(path), "--model", str(model.path), "--steps", "2"]
        for name, value in inputs_of(program, {"B": 2, **model.sizes}).items():
            if str(value.dtype) in NATIVE:
                np.save(tmp_path / f"{name}.npy", value)
                command += ["--input", f"{name}={tmp_path / name}.npy"]
    code = main(command)
    captured = capsys.readouterr()
    if "error[OI07" in captured.err:
        pytest.skip(f"compiled programs: {captured.err}")
    assert code == 0, captured.err + captured.out
    assert "agree: 2 steps" in captured.out
