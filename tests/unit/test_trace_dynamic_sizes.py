"""Shapes that only the step knows, in traces of compiled programs and while a step is iterated."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.trace import Event

CALLS = """
dynamic { k: i32; }
volatile { n: i32; one: i32 @init(1); s: f32; }
block entry {
    transfer k >> n;
    branch b;
    op add(n, one) >> n;
    branch b;
    loop l (i in 0..2) { op add(n, one) >> n; branch b; }
    return s;
}
block b {
    assign t: f32[n, 2]; assign r: f32[_, 2]; assign z: f32;
    op fill(t, value=1.5) >> t;
    op exp(t) >> r;
    op sum_axis(r, axes=[0, 1]) >> z;
    op add(s, z) >> s;
    return;
}
"""
SLICES = """
dynamic { x: f32[N, 2]; i: i32; }
persistent { K(t): f32[2] @table; n: i32; A(q): f32[1] @auto_dim(q); }
block entry {
    assign y: f32[n + N, 2]; assign z: f32[_, 2]; assign w: f32[N - 1, 2]; assign m: f32[_];
    cache.write x >> K[n..n+N];
    cache.read K[0..n+N] >> y;
    cache.read K[i..n] >> z;
    op neg(z) >> z;
    op slice(x, axis=0, start=1) >> w;
    loop l (j in 0..N) { cache.increment n; }
    cache.read A[n] >> m;
    return y, z, w, m;
}
"""
CARRIED = """
dynamic { x: f32[N]; }
block entry {
    assign y: f32[_]; assign e: f32[1];
    transfer x >> y;
    loop l (i in 0..3) { op concat(y, e, axis=0) >> y; }
    return y;
}
"""


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


PROGRAMS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "calls": (CALLS, [{"k": 2}, {"k": 0}, {"k": 5}, {"k": 1}]),
    "slices": (SLICES, [{"x": ones(3, 2), "i": 0}, {"x": ones(1, 2), "i": 2}]),
    "carried": (CARRIED, [{"x": ones(3)}, {"x": ones(1)}]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_iterating_shows_what_the_simulator_shows(name: str) -> None:
    """A block that is called with several sizes shows each time what is there."""
    text, inputs = PROGRAMS[name]
    pair = [oi.Simulator(text).make_executor(), oi.compile(text).make_executor()]
    for given in inputs:
        shown: list[list[tuple[str, str, Any]]] = [[], []]
        for executor, rows in zip(pair, shown):
            executor.insert(**given)
            for node in executor.iterate():
                if node.event.kind in ("OpExecute", "CacheRead", "Transfer"):
                    for output in node.event.output:
                        value = node.fetch(output)
                        assert node.event.shapes[output] == value.shape
                        rows.append((node.event.description, output, value))
        assert [row[:2] for row in shown[0]] == [row[:2] for row in shown[1]]
        for (what, output, wanted), (_, _, found) in zip(*shown):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=f"{what}: {output}")


def _by_node(events: list[Event]) -> dict[str, dict[str, set[tuple[int, ...]]]]:
    found: dict[str, dict[str, set[tuple[int, ...]]]] = defaultdict(lambda: defaultdict(set))
    for event in events:
        for uuid in event.nodes or (event.node_uuid,):
            for name, shape in event.shapes.items():
                found[uuid][name.partition("[")[0]].add(tuple(shape))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_shape_of_a_trace_is_wrong(name: str) -> None:
    """Where a compiled step cannot say a shape it says none; all others are the simulator's."""
    text, inputs = PROGRAMS[name]
    pair = [oi.Simulator(text).make_executor(), oi.compile(text).make_executor(trace=True)]
    for given in inputs:
        for executor in pair:
            executor.clear_trace()
            executor.run(**given)
        known, found = (_by_node(executor.trace()) for executor in pair)
        for uuid, shapes in found.items():
            for variable, seen in shapes.items():
                if variable in known[uuid]:
                    assert seen <= known[uuid][variable], (variable, seen, known[uuid][variable])


def test_traces_have_the_shapes_that_the_step_fixes() -> None:
    executor = oi.compile(SLICES).make_executor(trace=True)
    for step, rows in enumerate((3, 1)):
        executor.clear_trace()
        executor.run(x=ones(rows, 2), i=0)
        shapes: dict[str, tuple[int, ...]] = {}
        for event in executor.trace():
            shapes.update(event.shapes)
        before = 3 * step
        assert shapes["y"] == (before + rows, 2)
        assert shapes["z"] == (before, 2)
        assert shapes["w"] == (rows - 1, 2)
        assert shapes["m"] == (1 + before + rows,)
