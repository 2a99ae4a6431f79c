"""The op table in the docs is what the registry makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import openinfer
from openinfer.compiler import limitations
from openinfer.compiler import ops_page as page
from openinfer.compiler.limitations import Limitation
from openinfer.compiler.op_examples import _accepted, example_of  # pyright: ignore[reportPrivateUsage]
from openinfer.compiler.ops_page import executors, ops_page
from openinfer.compiler.tools.values import drawn_inputs
from openinfer.dialects import opset
from openinfer.dialects.opset import OpSpec
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.tensors import as_tensor

needs_cpu = pytest.mark.skipif(cpu_unavailable_reason() is not None, reason="no cpu device here")

ROOT = Path(__file__).parents[2]


def test_the_page_is_current() -> None:
    written = (ROOT / "docs" / "ops.md").read_text(encoding="utf-8")
    assert written == ops_page(), "run `make docs`"


def test_every_op_stands_in_every_table() -> None:
    _, calls, settings, dtypes = ops_page().split("\n## ")[:4]
    for name in opset.names():
        spec = opset.find(name)
        assert spec is not None
        assert f"\n| `{name}` | `" in calls
        assert f"\n| `{name}` |" in dtypes
        for setting in spec.settings:
            assert f"\n| `{name}` | `{setting.name}`" in settings


@pytest.mark.parametrize("name", opset.names())
def test_examples_run(name: str) -> None:
    """The call of the page is a program that the simulator runs; its results have the types of the page."""
    example = example_of(name)
    assert example is not None, f"give `{name}` a row in compiler/op_examples.py"
    assert f" op {name}(" in f" {example.call}"
    graph = openinfer.graph(example.program)
    assert graph.check() == []
    executor = openinfer.Simulator(graph).make_executor()
    executor.insert(**drawn_inputs(executor, {}, {}, 0, 0))
    executor.step()
    for result, type_ in zip(example.results, example.types):
        value = as_tensor(executor.fetch(result), type_.partition("[")[0])
        assert f"{value.dtype}{list(value.shape)}" == type_


@needs_cpu
def test_examples_compile() -> None:
    """All calls that compiled programs take, in one program: it gives what the simulator gives."""
    sections: list[str] = []
    body: list[str] = []
    results: list[str] = []
    for name in opset.names():
        example = example_of(name)
        assert example is not None
        dtype = (example.operands[0][1] if example.operands else example.types[0]).partition("[")[0]
        if executors(spec_of(name), dtype) != "SC":
            continue
        for part in (*(operand for operand, _ in example.operands), *example.results):
            assert part.isidentifier()
        renamed = {n: f"{name}_{n}" for n in (*(o for o, _ in example.operands), *example.results)}
        sections += [f"{renamed[n]}: {type_};" for n, type_ in example.operands]
        operands = ", ".join(
            [*(renamed[n] for n, _ in example.operands), *filter(None, [example.settings])]
        )
        outputs = [renamed[n] for n in example.results]
        body += [f"assign {n}: {type_};" for n, type_ in zip(outputs, example.types)]
        body.append(f"op {name}({operands}) >> {', '.join(outputs)};")
        results += outputs
    body.append(f"return {', '.join(results)};")
    text = f"dynamic {{ {' '.join(sections)} }}\nblock entry {{ {' '.join(body)} }}"
    simulator = openinfer.Simulator(text).make_executor()
    compiled = openinfer.compile(text).make_executor(1)
    inputs = drawn_inputs(simulator, {}, {}, 0, 0)
    for executor in (simulator, compiled):
        executor.insert(**inputs)
        executor.step()
    for name in results:
        wanted, found = (np.asarray(e.fetch(name)) for e in (simulator, compiled))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=name)


def spec_of(name: str) -> OpSpec:
    spec = opset.find(name)
    assert spec is not None
    return spec


def test_an_op_without_a_row_gets_a_call() -> None:
    """What the type rule accepts, required settings filled in."""
    for name in ("conv2d", "expand", "concat", "topk", "where", "max_pool2d"):
        example = next(_accepted(spec_of(name)))
        assert openinfer.graph(example.program).check() == []


def test_limitations_show(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (Limitation("it is too hard", ops=("erf",), dtypes=("f8",)),)
    monkeypatch.setattr(limitations, "LIMITATIONS", rows)
    monkeypatch.setattr(page, "LIMITATIONS", rows)
    spec = opset.find("erf")
    assert spec is not None
    assert [executors(spec, dtype) for dtype in ("f32", "f8", "i8")] == ["SC", "S", ""]
    assert "| `erf` | f8 | it is too hard |" in ops_page()
