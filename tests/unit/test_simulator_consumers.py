"""Yield and await in the simulator: what consumers see, in every order in which they may run."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

import openinfer as oi
from openinfer.dialects import graph
from openinfer.lowering.reference.simulator import Simulator, SimulatorExecutor
from openinfer.runtime.tensors import Tensor

Order = Callable[[Sequence[str]], str]


def executor(text: str, order: Order | None = None) -> SimulatorExecutor:
    made = cast(SimulatorExecutor, oi.Simulator(text).make_executor())
    made.consumer_order = order
    return made


def shuffled(seed: int) -> Order:
    """Any block that can go on, node by node."""
    return random.Random(seed).choice


def ranked(names: Sequence[str]) -> Order:
    """Always the first of `names` that can go on."""
    return lambda ready: min(ready, key=names.index)


def alternating() -> Order:
    """Another block after every node, as far as there is one."""
    last = ""

    def pick(ready: Sequence[str]) -> str:
        nonlocal last
        last = next((name for name in ready if name > last), ready[0])
        return last

    return pick


def orders(blocks: Sequence[str], count: int = 25) -> list[Order]:
    """Every priority of the blocks, one that alternates, and `count` random ones."""
    priorities = [ranked(names) for names in itertools.permutations(blocks)]
    return [*priorities, alternating(), *map(shuffled, range(count))]


def snapshot(ex: SimulatorExecutor, names: Sequence[str]) -> dict[str, Any]:
    return {name: np.asarray(ex.fetch(name)).tolist() for name in names}


PIPELINE = """
dynamic { x: f32[N]; }
persistent { count: i32; K(t): f32[N] @table; log: i64; }
volatile { v: f32[N]; w: f32[N]; seen: f32[N]; also: f32[N]; own: f32[N]; after: f32[N]; }
constant { one: f32 @init(1.0); two: f32 @init(2.0); ten: f32 @init(10.0); }
block entry {
  transfer x >> v;
  transfer x >> w;
  yield v, w;
  op add(x, ten) >> own;
  op mul(own, ten) >> own;
  cache.increment log;
  await v;
  op add(v, own) >> after;
  await w;
  op add(after, w) >> after;
  op add(after, seen) >> after;
  return;
}
block writer {
  await v;
  op add(v, one) >> v;
  barrier;
  op mul(v, two) >> v;
  yield v;
}
block reader {
  await v, w;
  op add(v, w) >> seen;
  cache.write seen >> K[count];
  cache.increment count;
  yield v, w;
}
block other {
  await w, v;
  op neg(v) >> also;
  op mul(w, two) >> w;
  branch helper;
  yield v, w;
}
block helper {
  op add(w, one) >> w;
  return;
}
"""
NAMES = ("v", "w", "seen", "also", "own", "after", "K", "count", "log")


def expected(x: Any, steps: int) -> dict[str, Any]:
    v, w, own, seen = (x + 1) * 2, 2 * x + 1, (x + 10) * 10, 2 * x
    found = {"v": v, "w": w, "seen": seen, "also": -x, "own": own, "after": v + own + w + seen}
    values: dict[str, Any] = {name: array.tolist() for name, array in found.items()}
    return {**values, "K": [seen.tolist()] * steps, "count": steps, "log": steps}


@pytest.mark.parametrize("order", orders(["entry", "writer", "reader", "other"]))
def test_no_order_changes_a_result(order: Order) -> None:
    ex = executor(PIPELINE, order)
    x = np.array([1, -3, 0.5], np.float32)
    for number in (1, 2):
        ex.run(x=x)
        assert snapshot(ex, NAMES) == expected(x, number)


def test_without_an_order_consumers_run_when_they_can() -> None:
    ex = executor(PIPELINE)
    ex.run(x=np.ones(1, np.float32))
    kinds = [(e.kind, e.block_name) for e in ex.trace() if e.kind in ("BlockEnter", "BlockExit")]
    assert kinds == [
        ("BlockEnter", "entry"),
        *((kind, name) for name in ("writer", "reader") for kind in ("BlockEnter", "BlockExit")),
        ("BlockEnter", "other"),
        ("BlockEnter", "helper"),
        ("BlockExit", "helper"),
        ("BlockExit", "other"),
        ("BlockExit", "entry"),
    ]
    exchange = [
        (e.kind, e.block_name, e.params, e.output, dict(e.shapes))
        for e in ex.trace()
        if e.kind in ("Yield", "Await")
    ]
    both = {"v": (1,), "w": (1,)}
    assert exchange == [
        ("Yield", "entry", ("v", "w"), (), both),
        ("Await", "writer", (), ("v",), {"v": (1,)}),
        ("Yield", "writer", ("v",), (), {"v": (1,)}),
        ("Await", "reader", (), ("v", "w"), both),
        ("Yield", "reader", ("v", "w"), (), both),
        ("Await", "other", (), ("w", "v"), both),
        ("Yield", "other", ("v", "w"), (), both),
        ("Await", "entry", (), ("v",), {"v": (1,)}),
        ("Await", "entry", (), ("w",), {"w": (1,)}),
    ]


def test_entry_runs_beside_its_consumers() -> None:
    ex = executor(PIPELINE, ranked(["entry", "other", "reader", "writer"]))
    ex.run(x=np.ones(1, np.float32))
    places = [(e.block_name, e.kind) for e in ex.trace()]
    # Entry goes on to its await, and behind it as soon as the consumers of that value are done.
    start = places.index(("other", "BlockEnter"))
    assert places[start - 1] == ("entry", "CacheIncrement")
    assert places.index(("entry", "Await")) > places.index(("writer", "BlockExit"))


def test_consumers_run_once_for_all_that_they_await() -> None:
    text = """
    persistent { runs: i32; }
    volatile { a: i32; b: i32; n: i32; m: i32; }
    block entry {
      loop again (i in 0..3) {
        op fill(a, value=i) >> a;
        yield a;
        op fill(n, value=i) >> n;
        yield b;
        await a, b;
      }
      return;
    }
    block one { await a; op add(a, a) >> a; yield a; }
    block two { await b, a; op add(b, a) >> b; cache.increment runs; yield a, b; }
    """
    for order in orders(["entry", "one", "two"], 10):
        ex = executor(text, order)
        ex.run()
        # `two` adds what was yielded (0, 1, 2), not what `one` has made of it.
        assert snapshot(ex, ["a", "b", "n", "runs"]) == {"a": 4, "b": 3, "n": 2, "runs": 3}


def test_temporaries_are_yielded_and_made_by_consumers() -> None:
    text = """
    dynamic { x: f32[N]; }
    block entry {
      assign h: f32[N]; assign r: f32[N];
      op neg(x) >> h;
      yield h;
      await h;
      op add(h, r) >> h;
      return h;
    }
    block c { await h; op mul(h, h) >> h; yield h; }
    block d { await h; assign t: f32[N]; op add(h, h) >> t; op neg(t) >> r; yield h; }
    """
    for order in orders(["entry", "c", "d"], 5):
        out = executor(text, order).run(x=np.array([1, 3], np.float32))
        np.testing.assert_array_equal(cast(Any, out["h"]), [3, 15])


def test_values_without_a_writer_come_back_as_they_were() -> None:
    text = """
    dynamic { x: f32[N]; }
    constant { c: f32 @init(3.0); }
    volatile { y: f32[N]; z: f32; }
    block entry { yield x, c; await c; transfer c >> z; await x; op add(y, x) >> y; return; }
    block r { await x, c; op mul(x, c) >> y; yield x, c; }
    """
    for order in orders(["entry", "r"], 5):
        out = executor(text, order).run(x=np.array([1, 2], np.float32))
        np.testing.assert_array_equal(cast(Any, out["y"]), [4, 8])
        assert out["z"] == 3


def test_packed_values_are_yielded() -> None:
    text = """
    dynamic { k: i4[3]; }
    volatile { y: i4[3]; }
    block entry { transfer k >> y; yield y; await y; return; }
    block c { await y; op add(y, y) >> y; yield y; }
    """
    out = executor(text).run(k=Tensor.from_values("i4", [1, -2, 7]))["y"]
    assert isinstance(out, Tensor)
    np.testing.assert_array_equal(out.values(), [2, -4, -2])


def test_what_consumers_write_is_a_result() -> None:
    text = """
    volatile { a: i32; b: i32; never: i32; }
    block entry { yield a; await a; return; }
    block c { await a; op fill(b, value=7) >> b; branch d; yield a; }
    block d { op fill(a, value=2) >> a; return; }
    """
    assert executor(text).run() == {"a": 2, "b": 7}


def test_a_failing_consumer_fails_the_step() -> None:
    text = """
    dynamic { at: i64; }
    persistent { n: i32; m: i32; K(t): f32 @table @fixed(t=2); }
    volatile { v: i32; k: f32; }
    block entry { cache.increment n; yield v; await v; return; }
    block good { await v; cache.increment m; yield v; }
    block bad { await v; cache.read K[at] >> k; yield v; }
    """
    for order in orders(["entry", "good", "bad"], 5):
        ex = executor(text, order)
        ex.run(at=1)
        before = ex.snapshot()
        with pytest.raises(oi.StepError, match=r"node \d+ in block bad: cache\.read") as caught:
            ex.run(at=2)
        assert caught.value.code == "OI0606"
        assert ex.snapshot() == before
        ex.run(at=0)
        assert ex.fetch("n") == ex.fetch("m") == 2


def test_fetching_shows_what_the_running_block_sees() -> None:
    ex = executor(PIPELINE)
    ex.insert(x=np.ones(1, np.float32))
    seen: list[tuple[str, float]] = []
    for node in ex.iterate():
        if node.event.kind in ("OpExecute", "Yield", "Await"):
            seen.append((f"{node.event.block_name} {node.event.kind}", float(node.fetch("v")[0])))  # pyright: ignore
    assert seen[:5] == [
        ("entry Yield", 1.0),
        ("writer Await", 1.0),
        ("writer OpExecute", 2.0),
        ("writer OpExecute", 4.0),
        ("writer Yield", 4.0),
    ]
    assert ("reader Await", 1.0) in seen
    assert seen[-1] == ("entry OpExecute", 4.0)
    # An abandoned step leaves the executor usable.
    ex.insert(x=np.ones(1, np.float32))
    for node in ex.iterate():
        if node.event.block_name == "reader":
            break
    ex.run(x=np.ones(1, np.float32))
    assert ex.fetch("count") == 2


# Modules that no frontend has checked: the step says what the rules forbid.


def block(name: str, *nodes: Any) -> Any:
    return graph.BlockOp(name, nodes)


def fill(name: str, value: str = "one") -> Any:
    return graph.TransferOp(graph.RefAttr.of(value), graph.RefAttr.of(name))


def refused(code: str, *blocks: Any) -> None:
    variables = [
        graph.VariableOp("v", "volatile", "i32"),
        graph.VariableOp("w", "volatile", "i32"),
        graph.VariableOp("one", "constant", "i32", (), (), {"init": IntegerAttr(1, i64)}),
    ]
    with pytest.raises(oi.ProgramError) as caught:
        Simulator(ModuleOp([*variables, *blocks]))
    assert code in [d.code for d in caught.value.diagnostics]


def test_rules_of_programs_that_come_as_ir() -> None:
    give, take, done = graph.YieldOp, graph.AwaitOp, graph.ReturnOp
    use = graph.TransferOp(graph.RefAttr.of("v"), graph.RefAttr.of("w"))
    refused("OI0249", block("entry", give(["v"]), use, done()))
    refused("OI0249", block("entry", give(["v"]), fill("v"), done()))
    refused("OI0261", block("entry", give(["v"]), give(["v"]), done()))
    refused("OI0262", block("entry", take(["v"]), done()))
    refused(
        "OI0263",
        block("entry", give(["v"]), take(["v"]), done()),
        block("c", take(["v"]), fill("v"), give(["v"])),
        block("d", take(["v"]), fill("v"), give(["v"])),
    )
    refused(
        "OI0264",
        block("entry", give(["v", "w"]), take(["v", "w"]), done()),
        block("c", take(["v"]), fill("w"), give(["v"])),
    )
    refused(
        "OI0247",
        block("entry", give(["v", "w"]), take(["v", "w"]), done()),
        block("c", take(["v"]), take(["w"]), give(["v"])),
    )
    refused(
        "OI0248",
        block("entry", graph.BranchOp("c"), done()),
        block("c", take(["v"]), give(["v"])),
    )
    refused(
        "OI0247",
        block("entry", graph.BranchOp("c"), done()),
        block("c", give(["v"])),
    )


def test_values_that_are_away_at_the_end_come_back() -> None:
    module = ModuleOp(
        [
            graph.VariableOp("v", "volatile", "i32"),
            graph.VariableOp("w", "volatile", "i32"),
            graph.VariableOp("one", "constant", "i32", (), (), {"init": IntegerAttr(1, i64)}),
            block("entry", graph.YieldOp(["v"]), graph.ReturnOp()),
            block("c", graph.AwaitOp(["v"]), fill("v"), fill("w"), graph.YieldOp(["v"])),
        ]
    )
    ex = Simulator(module).make_executor()
    ex.consumer_order = ranked(["entry", "c"])
    ex.step()
    assert [e.block_name for e in ex.trace() if e.kind == "BlockEnter"] == ["entry", "c"]
    assert ex.fetch("v") == ex.fetch("w") == 1
