"""Yield and await, barrier, dep, transfer, scopes and hints: rows 38 to 44, 57, 58 and 100."""

from __future__ import annotations

import numpy as np
import pytest
from both import DEVICES, Make, close, equal, executor_on, refused
from xdsl.dialects.builtin import ModuleOp

import openinfer as oi
from openinfer.compiler.pipeline import run
from openinfer.compiler.registry import make_context
from openinfer.lowering.hints import hints_of

X = np.array([1, -2, 3, 4], np.float32)

EXCHANGE = """
dynamic { x: f32[4]; k: i32; }
volatile { low: f32; high: f32; read: f32[4]; other: f32[4]; }
block entry {
    assign a: f32[4]; assign b: f32[4];
    transfer x >> a;
    op add(x, x) >> b;
    yield a, b;
    op neg(x) >> other;
    await a, b;
    op add(a, b) >> a;
    return a, b, low, high, read, other;
}
block one { await a; op min_axis(a, axes=[0]) >> low; op mul(a, a) >> a; yield a; }
block two { await b; loop l (i in 0..k) { op add(b, b) >> b; } yield b; }
block three { await a, b; op max_axis(a, axes=[0]) >> high; op sub(b, a) >> read; yield a, b; }
"""


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("device", DEVICES)
def test_consumers_of_several_values(device: str, threads: int) -> None:
    """Two writers of two values and a reader of both; the reader sees what was yielded."""
    program = oi.Simulator(EXCHANGE) if device == "simulator" else oi.compile(EXCHANGE)
    with program.make_executor(threads) as executor:
        for step in range(4):
            x = X + step
            found = executor.run(x=x, k=step)
            close(found["a"], x * x + 2 * x * 2**step)
            close(found["b"], 2 * x * 2**step)
            close(found["low"], x.min())
            close(found["high"], x.max())
            close(found["read"], x)
            close(found["other"], -x)


@pytest.mark.parametrize(
    ("code", "old", "new"),
    [
        ("OI0249", "op neg(x) >> other;", "op neg(a) >> other;"),
        ("OI0263", "op sub(b, a) >> read;", "op sub(b, a) >> read; op neg(b) >> b;"),
        ("OI0264", "op mul(a, a) >> a;", "op mul(a, a) >> a; op neg(x) >> other;"),
        ("OI0247", "yield b; }", "return; }"),
    ],
)
def test_yielded_values_are_out_of_reach(code: str, old: str, new: str) -> None:
    finding = refused(EXCHANGE.replace(old, new, 1), code)
    assert finding.location is not None


ORDERED = """
dynamic { x: f32[4]; }
persistent { n: i32; log(i): f32[4] @table; }
block entry with { no_reorder = true } {
    assign h: f32[4];
    scope "body" with { group = "g" } {
        op add(x, x) >> h with { fuse = false, placement = "cpu" };
        barrier;
        dep after(add) before(cache.write);
        cache.write h >> log[n];
    }
    op relu(h) >> h;
    cache.increment n;
    return h;
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_barriers_deps_scopes_and_hints_run(device: str) -> None:
    graph = oi.graph(ORDERED)
    assert graph.check() == []
    executor = executor_on(device, graph)
    for step in range(3):
        equal(executor.run(x=X * step)["h"], np.maximum(2 * X * step, 0))
    equal(executor.fetch("log"), [2 * X * step for step in range(3)])


@pytest.mark.parametrize("device", DEVICES)
def test_events_are_in_the_order_of_the_text(device: str) -> None:
    executor = executor_on(device, ORDERED)
    executor.insert(x=X)
    events = [node.event for node in executor.iterate()]
    kinds = [e.kind for e in events]
    assert kinds == [
        *("BlockEnter", "Assign", "OpExecute", "Barrier", "Dep", "CacheWrite", "OpExecute"),
        *("CacheIncrement", "Return", "BlockExit"),
    ]
    scopes = {e.op_name or e.kind: e.scope for e in events}
    assert scopes["add"] == "body"
    assert scopes["relu"] == ""


def test_dep_names_what_is_there() -> None:
    finding = refused(ORDERED.replace("dep after(add)", "dep after(addd)"), "OI0214")
    assert finding.hint is not None


def test_hints_survive_the_graph_json() -> None:
    again = oi.graph_json(oi.graph(ORDERED).to_json())
    assert again.to_json() == oi.graph(ORDERED).to_json()
    for text in ('"no_reorder"', '"fuse"', '"placement"', '"group"', '"body"'):
        assert text in again.to_json()


def test_wishes_stay_and_change_no_result(make: Make) -> None:
    """With hints or without: the same values, and the hints on every level down to the kernels."""
    text = """
    dynamic { x: f32[4, 4]; }
    block entry with { placement = "cpu" } {
        assign h: f32[4, 4];
        scope "body" with { group = "g" } {
            op add(x, x) >> h with { fuse = true };
            op matmul(h, x) >> h;
        }
        op relu(h) >> h with { group = "last" };
        return h;
    }
    """
    x = np.arange(-8, 8, dtype=np.float32).reshape(4, 4)
    equal(make(text).run(x=x)["h"], np.maximum(2 * x @ x, 0))
    module = oi.graph(text).module.clone()
    wished: dict[str, set[str]] = {}

    def look(phase: str, module: ModuleOp) -> None:
        found = [hints_of(op) for op in module.walk()]
        wished[phase] = {f"{name} = {value}" for hints in found for name, value in hints.items()}

    run(module, make_context(), on_phase=look)
    for phase in ("nn", "linalg", "buffers", "kernels", "threads"):
        text = " ".join(wished[phase])
        for part in ('placement = "cpu"', '"g"', '"last"', "fuse = 1"):
            assert part in text or part.replace("1", "true") in text, (phase, part)
    assert wished["llvm"] == set()


def test_transfers_are_copies(make: Make) -> None:
    executor = make(
        """
        dynamic { x: f32[4]; }
        volatile { y: f32[4]; }
        block entry {
            assign a: f32[4]; assign b: f32[4];
            transfer x >> a;
            transfer a >> b;
            op neg(b) >> b;
            transfer a >> y;
            op add(y, y) >> y;
            return a, b, y;
        }
        """
    )
    found = executor.run(x=X)
    equal(found["a"], X)
    equal(found["b"], -X)
    equal(found["y"], 2 * X)
    for bad in ("transfer x >> n;", "transfer x >> m;"):
        text = "dynamic { x: f32[4]; } block entry { assign n: i32[4]; assign m: f32[3]; "
        with pytest.raises(oi.ProgramError):
            make(f"{text}{bad} return; }}")
