"""Graphs, simulator, steps, traces and graph JSON: rows 69 to 84 of the feature table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both import DEVICES, Make, close, equal, executor_on, package

import openinfer as oi
from openinfer.compiler.frontend import print_program
from openinfer.compiler.tools.openinfer import main
from openinfer.dialects import graph
from openinfer.runtime.tensors import Tensor, format_truncated

Capture = pytest.CaptureFixture[str]

TEXT = """
dynamic { x: f32[B]; }
volatile { a: f32[B] @init(2); y: f32[B] @init(5.0); n: i64[2] @init(3); }
persistent { steps: i32; }
block entry {
    assign t0: f32[B];
    scope "sum" { op add(x, a) >> t0; }
    op mul(y, t0) >> y;
    cache.increment steps;
    loop l (i in 0..2) { op relu(y, clamp_max=100.0) >> y; }
    return y;
}
"""
X = np.array([1, -2, 3], np.float32)
Y = np.maximum(5 * (X + 2), 0)


def test_nothing_runs_at_definition(tmp_path: Path) -> None:
    """A program that must fail in a step is defined, checked and bound without a word."""
    program = oi.graph(
        "dynamic { k: i64[1]; } constant { t: f32[2] @init(0); } "
        "block entry { assign y: f32[1]; op gather(t, k) >> y; return y; }"
    )
    assert not program.parsed
    program.check()
    for device in DEVICES:
        executor = executor_on(device, program)
        with pytest.raises(oi.StepError):
            executor.run(k=np.array([2]))


def test_graphs_are_built_as_data(make: Make) -> None:
    """As graph JSON, and as ops of the `graph` dialect."""
    described = {
        "vars": {
            "x": {"name": "x", "dtype": "F32", "dims": ["B"], "kind": "Dynamic"},
            "y": {"name": "y", "dtype": "F32", "dims": ["B"], "kind": "Volatile"},
        },
        "blocks": {
            "entry": {
                "name": "entry",
                "nodes": [
                    {
                        "kind": {
                            "Op": {
                                "op": "neg",
                                "attrs": {"items": []},
                                "inputs": ["x"],
                                "output": "y",
                            }
                        }
                    },
                    {"kind": "Return"},
                ],
            }
        },
    }
    executor = make(oi.graph_json(json.dumps(described)))
    equal(executor.run(x=X)["y"], -X)

    x, y = graph.RefAttr.of("x"), graph.RefAttr.of("y")
    from xdsl.dialects.builtin import ModuleOp

    module = ModuleOp(
        [
            graph.VariableOp("x", "dynamic", "f32", ["B"]),
            graph.VariableOp("y", "volatile", "f32", ["B"]),
            graph.BlockOp("entry", [graph.OpOp("neg", [x], [y]), graph.ReturnOp()]),
        ]
    )
    equal(make(print_program(module)).run(x=X)["y"], -X)


def test_graph_and_model_are_held_against_each_other(make: Make, tmp_path: Path) -> None:
    model = package(tmp_path, sizevars={"B": 3}, tensors={"a": np.ones(3, np.float32)})
    close(make(TEXT, model).run(x=X)["y"], np.maximum(5 * (X + 1), 0))
    with pytest.raises(oi.InputError, match="B"):
        make(TEXT, model, B=4)
    with pytest.raises(oi.InputError, match="C"):
        make(TEXT, model, C=4)
    other = package(tmp_path, sizevars={"B": 3}, tensors={"a": np.ones(4, np.float32)})
    with pytest.raises(oi.ProgramError, match="tensor 'a' of the model"):
        make(TEXT, other)
    with pytest.raises(oi.ProgramError, match="no_such"):
        make(TEXT.replace("@init(2)", '@ref("no_such")'), model)


def test_steps_keep_state(make: Make) -> None:
    executor = make(TEXT)
    for step in range(3):
        executor.insert(x=X + step)
        executor.step()
        equal(executor.fetch("steps"), step + 1)
        close(executor.fetch("y"), np.maximum(5 * (X + step + 2), 0))
    second = make(TEXT)
    assert list(second.run(x=X)) == ["y"]
    equal(second.fetch("steps"), 1)


@pytest.mark.parametrize("device", DEVICES)
def test_a_step_block_by_block_and_node_by_node(device: str) -> None:
    stepper = oi.Stepper(executor_on(device, TEXT))
    stepper.begin(x=X)
    seen: list[str] = []
    while (stop := stepper.step()).event is not None:
        seen.append(stop.event.kind)
    assert stop.reason == "end"
    assert seen[0] == "BlockEnter"
    assert seen[-1] == "BlockExit"
    assert seen.count("OpExecute") == 4
    close(stepper.executor.fetch("y"), Y)


@pytest.mark.parametrize("device", DEVICES)
def test_events_say_what_ran_with_which_shapes(device: str) -> None:
    executor = executor_on(device, TEXT)
    executor.insert(x=X)
    events = [node.event for node in executor.iterate()]
    kinds = {event.kind for event in events}
    assert {"BlockEnter", "OpExecute", "Loop", "Return", "BlockExit"} <= kinds
    (add,) = [event for event in events if event.op_name == "add"]
    assert add.block_name == "entry"
    assert add.scope == "sum"
    assert add.params == ("x", "a")
    assert add.output == ("t0",)
    assert add.shapes == {"x": (3,), "a": (3,), "t0": (3,)}
    assert add.dtypes["t0"] == "f32"
    assert add.location is not None
    assert add.location.line == 7
    relu = next(event for event in events if event.op_name == "relu")
    assert relu.settings["clamp_max"] == 100.0


@pytest.mark.parametrize("device", DEVICES)
def test_fetch_between_nodes(device: str) -> None:
    executor = executor_on(device, TEXT)
    executor.insert(x=X)
    values = {
        node.event.op_name: format_truncated(node.fetch("y"))
        for node in executor.iterate()
        if node.event.kind == "OpExecute"
    }
    assert values["add"] == "{5, 5, 5}"
    assert values["relu"] == "{15, 0, 25}"
    assert format_truncated(np.arange(10)) == "{0, 1 ... 8, 9}"


@pytest.mark.parametrize("device", DEVICES)
def test_tables_inside_of_a_step(device: str) -> None:
    """The simulator shows them node by node; of a compiled step what is read from them is shown."""
    executor = executor_on(
        device,
        """
        dynamic { x: f32[2]; }
        persistent { n: i32; K(t): f32[2] @table; }
        block entry {
            assign y: f32[_, 2];
            cache.write x >> K[n];
            cache.increment n;
            cache.read K[] >> y;
            return y;
        }
        """,
    )
    x = np.array([1, 2], np.float32)
    for step in range(2):
        executor.insert(x=x + step)
        for node in executor.iterate():
            if node.event.kind != "CacheRead":
                continue
            equal(node.fetch("n"), step + 1)
            equal(node.fetch("y"), [x, x + 1][: step + 1])
            if device == "simulator":
                equal(node.fetch("K"), [x, x + 1][: step + 1])
            else:
                with pytest.raises(oi.InputError) as caught:
                    node.fetch("K")
                assert caught.value.code == "OI0549"
        equal(executor.fetch("K"), [x, x + 1][: step + 1])


@pytest.mark.parametrize("device", DEVICES)
def test_tracing_and_timing_are_switched(device: str) -> None:
    program = oi.Simulator(TEXT) if device == "simulator" else oi.compile(TEXT)
    with program.make_executor(trace=False) as quiet:
        quiet.run(x=X)
        assert quiet.trace() == []
    with program.make_executor(trace=True) as executor:
        executor.run(x=X)
        timed = [event for event in executor.trace() if event.duration_ns > 0]
        assert timed
        executor.tracing = False
        executor.clear_trace()
        executor.run(x=X)
        assert executor.trace() == []


def _nodes(part: Any) -> Iterator[dict[str, Any]]:
    """The nodes of a graph JSON, those inside of loops too; a scope is none that runs."""
    if isinstance(part, dict):
        if "uuid" in part and not (isinstance(part["kind"], dict) and "Scope" in part["kind"]):
            yield part
        for value in part.values():
            yield from _nodes(value)
    elif isinstance(part, list):
        for value in part:
            yield from _nodes(value)


@pytest.mark.parametrize("device", DEVICES)
def test_traces_are_files(device: str, tmp_path: Path) -> None:
    program = oi.Simulator(TEXT) if device == "simulator" else oi.compile(TEXT)
    with program.make_executor(trace=True) as executor:
        executor.run(x=X)
        executor.save_trace(tmp_path / "t.json")
    rows: list[dict[str, Any]] = json.loads((tmp_path / "t.json").read_text())
    fields = ["block_name", "node_index", "node_uuid", "kind", "params", "output", "micros"]
    assert all(list(row)[:7] == fields for row in rows)
    ops = [row for row in rows if row["kind"] == "OpExecute"]
    assert all(row["params"] and row["output"] and len(row["micros"]) == 3 for row in ops)
    assert all(row["shapes"] == {n: [3] for n in (*row["params"], *row["output"])} for row in ops)
    # All nodes of the graph, by the uuids of its JSON, and each op as often as it ran.
    nodes = {node["uuid"]: node for node in _nodes(json.loads(oi.graph(TEXT).to_json()))}
    seen = [u for row in rows if row["node_index"] >= 0 for u in row["nodes"] or [row["node_uuid"]]]
    assert set(seen) == nodes.keys()
    ran = [nodes[u]["kind"]["Op"]["op"] for row in ops for u in row["nodes"] or [row["node_uuid"]]]
    assert ran == ["add", "mul", "relu", "relu"]
    times = [1000 * (1000 * row["micros"][0] + row["micros"][1]) + row["micros"][2] for row in ops]
    assert all(time > 0 for time in times)


@pytest.mark.parametrize(("level", "shown"), [("1", False), ("full", True)])
@pytest.mark.parametrize("device", DEVICES)
def test_log_lines(
    device: str, level: str, shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("OPENINFER_TRACE", level)
    executor = executor_on(device, TEXT)
    executor.run(x=X)
    lines = capsys.readouterr().err
    assert "[entry] -- op add(x, a) >> t0" in lines
    assert ("f32[3]" in lines) is shown
    assert ("{clamp_max=100.0}" in lines) is shown


def test_several_inputs_at_once_and_errors_as_exceptions(make: Make) -> None:
    executor = make(
        """
        dynamic { x: f32[2]; k: i32; }
        block entry { assign y: f32[2]; assign z: i32; op neg(x) >> y; op add(k, k) >> z; return y, z; }
        """
    )
    executor.insert(x=[1, 2], k=4)
    executor.step()
    y, z = (executor.fetch(name) for name in ("y", "z"))
    equal(y, [-1, -2])
    equal(z, 8)
    with pytest.raises(oi.InputError, match="did you mean k"):
        executor.insert(K=1)
    with pytest.raises(oi.InputError):
        executor.fetch("nothing")


def test_fetched_values_carry_their_type(make: Make) -> None:
    executor = make(
        """
        volatile { a: f16[2] @init(1); b: bf16[2] @init(1.5); c: bool @init(true); d: i4[3]; }
        block entry { return; }
        """
    )
    executor.step()
    assert executor.fetch("a").dtype == np.float16
    assert executor.fetch("c").dtype == np.bool_
    for name, dtype in (("b", "bf16"), ("d", "i4")):
        value = executor.fetch(name)
        assert isinstance(value, Tensor)
        assert str(value.dtype) == dtype


def test_graph_json_is_stable_and_runs(make: Make, tmp_path: Path, capsys: Capture) -> None:
    text = TEXT.replace("clamp_max=100.0", "clamp_max=inf, clamp_min=-inf")
    (tmp_path / "p.oi").write_text(text)
    written = [str(tmp_path / name) for name in ("one.json", "two.json")]
    for name in written:
        assert main(["export", str(tmp_path / "p.oi"), "-o", name]) == 0
    one, two = (Path(name).read_bytes() for name in written)
    assert one == two == f"{oi.graph(text).to_json()}\n".encode()
    again = oi.graph_file(written[0])
    assert again.to_json() == oi.graph(text).to_json()
    close(make(again).run(x=X)["y"], 5 * (X + 2))
    capsys.readouterr()
    assert main(["run", written[0], "--json", "--executor", "simulator"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"]["y"]


def test_runs_are_reproducible() -> None:
    """The same bits from every executor of a program, at every number of threads."""
    text = """
    dynamic { x: f32[B, 64]; w: f32[64, 64]; }
    block entry { assign y: f32[B, 64]; op matmul(x, w) >> y; op softmax(y) >> y; return y; }
    """
    generator = np.random.default_rng(0)
    given = {
        "x": generator.standard_normal((33, 64), np.float32),
        "w": generator.standard_normal((64, 64), np.float32),
    }
    program = oi.compile(text)
    results = [program.make_executor(threads).run(**given)["y"] for threads in (1, 2, 3)]
    for result in results[1:]:
        equal(result, results[0])
    simulated = [executor_on("simulator", text).run(**given)["y"] for _ in range(2)]
    equal(simulated[0], simulated[1])
