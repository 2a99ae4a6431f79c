"""Traces of compiled programs: the nodes of every kernel, real times, the same nodes as simulated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

import openinfer as oi
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.devices.cpu.loaded import CpuProgram
from openinfer.runtime.devices.cpu.trace_record import TraceRecord
from openinfer.runtime.errors import ArtefactError
from openinfer.runtime.program import Program
from openinfer.runtime.trace import Event

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

BRANCHES = """\
dynamic { x: f32[B, 4]; }
volatile { y: f32[B, 4]; ok: bool; }
block entry {
    assign t: f32[B, 4];
    scope "first" {
        op exp(x) >> t;
        scope "inner" { op neg(t) >> t; }
    }
    op is_finite(t) >> ok;
    branch ok good bad;
    branch last;
    return y;
}
block good { op abs(t) >> y; return; }
block bad { op fill(y, value=1.0) >> y; return; }
block last {
    loop twice (i in 0..2) {
        loop again (i in 0..2) { op exp(y) >> y; barrier; op neg(y) >> y; }
    }
    return;
}
"""

STATE = """\
dynamic { x: f32[4]; }
persistent { n: i32; K(t): f32[4] @table; }
volatile { y: f32[4]; }
block entry {
    assign k: f32[_, 4];
    cache.write x >> K[n];
    cache.increment n;
    cache.read K[0..n] >> k;
    op sum_axis(k, axes=[0]) >> y;
    return;
}
"""


CONSUMERS = """\
dynamic { x: f32[4]; }
persistent { n: i32; K(t): f32[4] @table; }
volatile { low: f32[4]; high: f32[4]; }
block entry {
    assign past: f32[_, 4];
    cache.write x >> K[n];
    cache.increment n;
    cache.read K[] >> past;
    yield past;
    await past;
    return low, high;
}
block least { await past; op min_axis(past, axes=[0]) >> low; yield past; }
block most { await past; op max_axis(past, axes=[0]) >> high; yield past; }
"""

LEAVES = """\
dynamic { x: f32[4]; }
persistent { n: i32 @init(1); }
volatile { y: f32[4]; s: f32; t: f32[4]; }
block entry {
    branch early;
    op mul(y, x) >> t;
    cache.increment 2 n;
    cache.reset n;
    return;
}
block early {
    loop rounds (i in 0..n) { op exp(x) >> y; return; }
    op neg(x) >> y;
    return;
}
"""


def inputs_of(executor: oi.Executor, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for info in executor.variables.values():
        if info.memory == "dynamic":
            shape = [d.evaluate({**executor.sizes, **sizes}) for d in info.dims]
            found[info.name] = random.standard_normal(shape).astype(np.float32)
    return found


def both(name: str) -> tuple[Program, oi.Simulator]:
    model = oi.open_model(EXAMPLES / f"{name}.oinf")
    graph = oi.graph_file(EXAMPLES / f"{name}.oi")
    return oi.compile(graph, model), oi.Simulator(graph, model)


def nodes_of(events: list[Event]) -> set[str]:
    return {uuid for event in events for uuid in event.node_uuids}


def kinds(events: list[Event]) -> list[tuple[str, str, int]]:
    return [(event.kind, event.block_name, event.node_index) for event in events]


SIZES = {"mlp": {"B": 3}, "residual_mlp": {"B": 2}, "guard": {"B": 2}}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", SIZES)
def test_every_node_of_the_simulator_is_in_the_trace(name: str, threads: int) -> None:
    program, simulator = both(name)
    with program.make_executor(threads, trace=True) as traced, simulator.make_executor() as known:
        inputs = inputs_of(traced, SIZES[name])
        found, expected = traced.run(**inputs), known.run(**inputs)
        assert nodes_of(traced.trace()) == nodes_of(known.trace())
        plain = program.make_executor(threads).run(**inputs)
        for key in expected:
            # Stamps change nothing: the same kernels ran.
            np.testing.assert_array_equal(np.asarray(found[key]), np.asarray(plain[key]))
        # Blocks are entered and left in the same order, and nodes stand between.
        blocks = ("BlockEnter", "BlockExit")
        assert [k for k in kinds(traced.trace()) if k[0] in blocks] == [
            k for k in kinds(known.trace()) if k[0] in blocks
        ]


def test_the_traced_build_has_the_kernels_of_the_plain_one() -> None:
    for name in SIZES:
        program, _ = both(name)
        traced = program.traced()
        assert traced is program.traced()
        assert traced.traced() is traced
        assert not program.manifest.stamps
        assert [row.nbytes for row in traced.manifest.weights] == [
            row.nbytes for row in program.manifest.weights
        ]
        # The same buffers at the same places.
        plain = [(row.name, row.offset, row.size) for row in program.manifest.plan]
        assert [(row.name, row.offset, row.size) for row in traced.manifest.plan] == plain


def test_a_kernel_lists_its_nodes_and_has_a_time() -> None:
    program, _ = both("mlp")
    with program.make_executor(1, trace=True) as executor:
        executor.run(**inputs_of(executor, {"B": 64}))
        events = executor.trace()
    kernels = [event for event in events if event.kernel]
    assert [event.op_name for event in kernels] == [
        "matmul+add+relu", "matmul+add+relu", "matmul+add", "softmax",
    ]  # fmt: skip
    first = kernels[0]
    assert first.indices == (1, 2, 3)
    assert len(first.nodes) == 3
    assert first.node_uuid == first.nodes[-1]
    assert (first.params, first.output) == (("x", "W1", "b1"), ("h",))
    assert first.shapes == {"x": (64, 64), "W1": (64, 128), "b1": (128,), "h": (64, 128)}
    assert set(first.dtypes.values()) == {"f32"}
    assert [place.line for place in first.places] == [18, 19, 20]
    assert first.description.startswith("op matmul(x, W1) >> h; op add(h, b1) >> h")
    assert all(event.duration_ns > 0 for event in kernels)
    # Times lie inside of the step, one after the other.
    start, end = events[0].start_ns, events[-1].start_ns
    assert start <= kernels[0].start_ns
    for before, after in pairwise(kernels):
        assert before.start_ns + before.duration_ns <= after.start_ns
    assert kernels[-1].start_ns + kernels[-1].duration_ns <= end
    assert sum(event.duration_ns for event in kernels) <= end - start


def kernels_of(graph: oi.Graph, model: oi.Package, *, trace: bool) -> dict[str, str]:
    """The functions of level threads that the step calls."""
    from openinfer.compiler import pipeline, registry
    from openinfer.lowering.options import PipelineOptions

    module = graph.module.clone()
    options = PipelineOptions(package=model, trace=trace)
    pipeline.run(module, registry.make_context(), "cpu", stop="threads", options=options)
    found = {op.sym_name.data: str(op) for op in module.body.ops if isinstance(op, FuncOp)}
    return {name: text for name, text in found.items() if name != "step" and "{" in text}


@pytest.mark.parametrize("name", ["mlp", "residual_mlp"])
def test_kernels_are_the_same(name: str) -> None:
    graph = oi.graph_file(EXAMPLES / f"{name}.oi")
    model = oi.open_model(EXAMPLES / f"{name}.oinf")
    plain = kernels_of(graph, model, trace=False)
    assert plain
    assert kernels_of(graph, model, trace=True) == plain


def test_nodes_that_are_scalar_code_of_the_step_are_events_without_a_kernel() -> None:
    text = """
    dynamic { a: f32; x: f32[8]; }
    persistent { n: i32; }
    volatile { s: f32; t: f32; y: f32[8]; }
    block entry {
        op exp(a) >> s;
        op neg(s) >> t;
        op softmax(x) >> y;
        cache.increment n;
        return s, t, y;
    }
    """
    program, known = oi.compile(text), oi.Simulator(text).make_executor()
    inputs = {"a": np.float32(0.5), "x": np.arange(8, dtype=np.float32)}
    known.run(**inputs)
    scalars = ["op exp(a) >> s", "op neg(s) >> t", "cache.increment 1 n"]
    with program.make_executor(1, trace=True) as traced:
        traced.run(**inputs)
        assert nodes_of(traced.trace()) == nodes_of(known.trace())
        steps = [(e.description, e.kernel) for e in traced.trace() if e.kind != "Transfer"]
        order = [*scalars[:2], "op softmax(x) >> y", scalars[2]]
        assert [text for text, _ in steps if text in order] == order
        assert [text for text, kernel in steps if kernel] == ["op softmax(x) >> y"]
    with program.make_executor(1) as watched:
        watched.insert(**inputs)
        shown = {node.event.description: node.fetch for node in watched.iterate()}
        for text, name in zip(scalars, ("s", "t", "n")):
            np.testing.assert_allclose(shown[text](name), known.fetch(name), rtol=2e-6)


def test_recognised_patterns_keep_their_nodes() -> None:
    program, simulator = both("vit")
    with program.make_executor(2, trace=True) as traced, simulator.make_executor() as known:
        for executor in (traced, known):
            executor.run(**inputs_of(executor, {"B": 1}))
        assert nodes_of(traced.trace()) == nodes_of(known.trace())
    stamps = [row for row in program.traced().manifest.stamps if row.phase == "begin"]
    attention = next(row for row in stamps if row.what.startswith("attention"))
    texts = {row.index: row.text for row in program.traced().manifest.nodes}
    ops = [texts[n].removeprefix("op ").partition("(")[0] for n in attention.nodes]
    assert ops.count("matmul") == 2
    assert "softmax" in ops
    assert ops.count("transpose") == 4


def test_members_of_prefix_tables_name_their_index() -> None:
    program, simulator = both("residual_mlp")
    with program.make_executor(1, trace=True) as traced, simulator.make_executor() as known:
        inputs = inputs_of(traced, {"B": 2})
        for executor in (traced, known):
            executor.run(**inputs)
        used = [p for e in traced.trace() for p in e.params if p.startswith("W[")]
        assert used == [p for e in known.trace() for p in e.params if p.startswith("W[")]
        assert used[:2] == ["W[l=0]", "W[l=1]"]


@pytest.mark.parametrize("name", SIZES)
def test_iterating_gives_the_events_of_the_simulator(name: str) -> None:
    program, simulator = both(name)
    with program.make_executor(1) as compiled, simulator.make_executor() as known:
        inputs = inputs_of(compiled, SIZES[name])
        for executor in (compiled, known):
            executor.insert(**inputs)
        found = [node.event for node in compiled.iterate()]
        expected = [node.event for node in known.iterate()]
        assert kinds(found) == kinds(expected)
        for ours, theirs in zip(found, expected):
            assert (ours.params, ours.output) == (theirs.params, theirs.output)
            assert ours.node_uuid == theirs.node_uuid
            assert ours.location == theirs.location
            assert ours.scope == theirs.scope
            if ours.kind == "OpExecute":
                assert ours.shapes == theirs.shapes
                assert ours.dtypes == theirs.dtypes


@pytest.mark.parametrize("bad", [False, True])
def test_branches_loops_and_scopes(bad: bool) -> None:
    graph = oi.graph(BRANCHES)
    program = oi.compile(graph)
    x = np.array([[1, 2, 3, np.inf if bad else 4]], np.float32)
    with program.make_executor(1, trace=True) as traced:
        known = oi.Simulator(graph).make_executor()
        traced.run(x=x)
        known.run(x=x)
        entered = [e.block_name for e in traced.trace() if e.kind == "BlockEnter"]
        assert entered == [e.block_name for e in known.trace() if e.kind == "BlockEnter"]
        assert entered == ["entry", "bad" if bad else "good", "last"]
        assert nodes_of(traced.trace()) == nodes_of(known.trace())
        scopes = {n: e.scope for e in known.trace() for n in e.node_uuids}
        assert {"first", "first/inner"} <= set(scopes.values())
        for event in traced.trace():
            if event.kernel:
                assert event.scope == scopes[event.node_uuid]
        # A barrier is an event of every round.
        assert sum(e.kind == "Barrier" for e in traced.trace()) == 4
        assert sum(e.kind == "Loop" for e in traced.trace()) == 3
        traced.insert(x=x)
        assert kinds([n.event for n in traced.iterate()]) == kinds(known.trace())


def test_steps_with_state() -> None:
    graph = oi.graph(STATE)
    with oi.compile(graph).make_executor(1, trace=True) as traced:
        known = oi.Simulator(graph).make_executor()
        x = np.arange(4, dtype=np.float32)
        for step in range(3):
            # The state grows: a step that ran out of memory runs again, and leaves one trace.
            found, expected = traced.run(x=x)["y"], known.run(x=x)["y"]
            np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
            entered = [e for e in traced.trace() if e.kind == "BlockEnter"]
            assert [e.step for e in entered] == list(range(step + 1))
        assert nodes_of(traced.trace()) == nodes_of(known.trace())
        assert any(e.kind == "CacheWrite" and e.duration_ns for e in traced.trace())


@pytest.mark.parametrize("text", [STATE, CONSUMERS, LEAVES], ids=["state", "consumers", "leaves"])
def test_forms(text: str) -> None:
    graph = oi.graph(text)
    program, known = oi.compile(graph), oi.Simulator(graph).make_executor()
    x = np.arange(4, dtype=np.float32)
    with program.make_executor(2, trace=True) as traced:
        for step in range(3):
            known.clear_trace()
            traced.clear_trace()
            known.run(x=x + step)
            traced.run(x=x + step)
            assert nodes_of(traced.trace()) == nodes_of(known.trace())
            blocks = ("BlockEnter", "BlockExit", "Yield", "Await", "Return")
            assert [k for k in kinds(traced.trace()) if k[0] in blocks] == [
                k for k in kinds(known.trace()) if k[0] in blocks
            ]
        for executor in (traced, known):
            executor.insert(x=x)
        found = [node.event for node in traced.iterate()]
        expected = [node.event for node in known.iterate()]
        assert kinds(found) == kinds(expected)
        for ours, theirs in zip(found, expected):
            assert (ours.params, ours.output) == (theirs.params, theirs.output)
            assert theirs.shapes.items() <= ours.shapes.items()


def test_compare_finds_nodes_that_run_in_another_order(capsys: pytest.CaptureFixture[str]) -> None:
    program = EXAMPLES / "pipeline.oi"
    assert main(["compare", str(program), "--json"]) == 0
    _, simulator = both("pipeline")
    with simulator.make_executor() as known:
        known.run(**inputs_of(known, {"B": 2}))
        giving = [e for e in known.trace() if e.output and e.kind != "Assign"]
    # All of them, but what only a cache holds: that is compared where it is read.
    cached = [e for e in giving if e.kind == "CacheWrite"]
    found = json.loads(capsys.readouterr().out)["nodes"]
    assert len(giving) - len(cached) <= found <= len(giving)


def test_switching() -> None:
    program, _ = both("mlp")
    with program.make_executor(1, trace=True) as executor:
        inputs = inputs_of(executor, {"B": 2})
        assert executor.tracing
        executor.run(**inputs)
        count = len(executor.trace())
        executor.tracing = False
        executor.run(**inputs)
        assert len(executor.trace()) == count
        executor.tracing = True
        executor.run(**inputs)
        assert len(executor.trace()) == 2 * count
        assert [e.step for e in executor.trace()][count:] == [2] * count
        executor.clear_trace()
        assert executor.trace() == []
        assert executor.dropped_events == 0


def test_the_plain_build_leaves_no_trace() -> None:
    program, _ = both("mlp")
    with program.make_executor(1) as executor:
        inputs = inputs_of(executor, {"B": 2})
        assert not executor.tracing
        executor.run(**inputs)
        assert executor.trace() == []
        with pytest.raises(oi.InputError) as caught:
            executor.tracing = True
        assert caught.value.code == "OI0553"
        # An iteration is asked for: it leaves its events, and those once.
        executor.insert(**inputs)
        events = [node.event for node in executor.iterate()]
        assert kinds(executor.trace()) == kinds(events)


def test_a_step_that_fills_the_record_counts_what_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CpuProgram, "make_record", lambda _: TraceRecord(5))
    program, _ = both("mlp")
    with program.make_executor(1, trace=True) as executor:
        executor.run(**inputs_of(executor, {"B": 2}))
        # Enter, assign, and begin and end of one kernel fit; the next begin has no end.
        assert [e.kind for e in executor.trace()] == ["BlockEnter", "Assign", "OpExecute"]
        assert executor.dropped_events == 8


def test_a_saved_program(tmp_path: Path) -> None:
    program, _ = both("mlp")
    model = oi.open_model(EXAMPLES / "mlp.oinf")
    plain, traced = tmp_path / "plain.oip", tmp_path / "traced.oip"
    program.save(plain)
    program.traced().save(traced)
    with pytest.raises(oi.UnsupportedError) as caught:
        oi.load(plain, model).make_executor(1, trace=True)
    assert caught.value.code == "OI0731"
    with oi.load(traced, model).make_executor(1, trace=True) as executor:
        executor.run(**inputs_of(executor, {"B": 2}))
        assert any(event.kernel for event in executor.trace())


def test_log_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    program, _ = both("mlp")
    monkeypatch.setenv("OPENINFER_TRACE", "full")
    with program.make_executor(1) as executor:
        executor.run(**inputs_of(executor, {"B": 2}))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 9
    assert "[entry] -- op matmul(x, W1) >> h; op add(h, b1) >> h; op relu(h) >> h -- (" in lines[2]
    assert "as matmul_0 x: f32[2, 64]" in lines[2]


def test_log_lines_are_no_reason_to_refuse_a_saved_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, _ = both("mlp")
    program.save(tmp_path / "plain.oip")
    monkeypatch.setenv("OPENINFER_TRACE", "1")
    loaded = oi.load(tmp_path / "plain.oip", oi.open_model(EXAMPLES / "mlp.oinf"))
    with loaded.make_executor(1) as executor:
        executor.run(**inputs_of(executor, {"B": 2}))
    assert "[ERROR] -- this program was saved without" in capsys.readouterr().err


def test_files(tmp_path: Path) -> None:
    program, _ = both("mlp")
    with program.make_executor(1, trace=True) as executor:
        executor.run(**inputs_of(executor, {"B": 2}))
        executor.save_trace(tmp_path / "t.json")
        executor.save_trace(tmp_path / "t.chrome", format="chrome")
    rows = json.loads((tmp_path / "t.json").read_text())
    assert all(len(row["micros"]) == 3 for row in rows)
    kernel = next(row for row in rows if row["kernel"])
    assert kernel["params"] == ["x", "W1", "b1"]
    assert len(kernel["nodes"]) == 3
    chrome = json.loads((tmp_path / "t.chrome").read_text())["traceEvents"]
    assert {row["ph"] for row in chrome} == {"B", "E", "X"}
    assert chrome[0]["ts"] == 0


def test_damaged_stamps_are_refused() -> None:
    program, _ = both("mlp")
    data = json.loads(program.traced().manifest.to_json())
    data["stamps"][0]["nodes"] = "no list"
    from openinfer.runtime.manifest import Manifest

    with pytest.raises(ArtefactError):
        Manifest.from_json(json.dumps(data))
