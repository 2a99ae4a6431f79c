"""Steps that one thread runs while others help with large kernels and with sections."""

from __future__ import annotations

import gc
import threading
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import openinfer
from openinfer.runtime.slots import SlotKind

DECODE = """
dynamic { x: f32[1, 256]; w: f32[256, 256]; }
persistent { n: i32; K(l, t): f32[256] @table; }
block entry {
  assign h: f32[1, 256];
  assign row: f32[256];
  assign ks: f32[n + 1, 256];
  assign kt: f32[256, n + 1];
  assign scores: f32[1, n + 1];
  op add(x, h) >> h;
  loop layers (l in 0..3) {
    op matmul(h, w) >> h;
    op tanh(h) >> h;
    op reshape(h, shape=[256]) >> row;
    cache.write row >> K[l, n];
    cache.read K[l, 0..n + 1] >> ks;
    op transpose(ks) >> kt;
    op matmul(h, kt) >> scores;
    op softmax(scores, axis=1) >> scores;
    op matmul(scores, ks) >> h;
  }
  cache.increment n;
  return h;
}
"""

CONSUMERS = """
dynamic { x: f32[64, 64]; w: f32[64, 64]; k: i64[3]; }
volatile { total: f32[64]; big: f32[64, 64]; rows: f32[3, 64]; rows2: f32[3, 64]; }
persistent { n: i32; }
block entry {
  assign h: f32[64, 64];
  op matmul(x, w) >> h;
  loop twice (i in 0..2) {
    yield h;
    op add(x, x) >> big;
    await h;
  }
  return h;
}
block one { await h; op mul(h, w) >> h; op matmul(h, w) >> h; op tanh(h) >> h; cache.increment n; yield h; }
block two { await h; op sum_axis(h, axes=[0]) >> total; yield h; }
block three { await h; op gather(h, k) >> rows; yield h; }
block four { await h; op gather(h, k) >> rows2; yield h; }
"""


def normal(*shape: int, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_kernels_are_shared_and_give_the_same_bits_on_any_number_of_threads() -> None:
    program = openinfer.compile(DECODE)
    assert any(slot.kind == SlotKind.JOB for slot in program.manifest.frame)
    executors = [program.make_executor(threads) for threads in (1, 2, 4)]
    simulator = openinfer.Simulator(DECODE).make_executor()
    w = normal(256, 256, seed=1) / 16
    for step in range(40):
        given = {"x": normal(1, 256, seed=step), "w": w}
        results = [executor.run(**given)["h"] for executor in executors]
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])
        if step < 5:
            np.testing.assert_allclose(results[0], simulator.run(**given)["h"], 1e-4, 1e-5)
    assert executors[0].snapshot() == executors[2].snapshot()
    for executor in executors:
        executor.close()


def test_consumers_run_side_by_side_with_the_results_of_any_order() -> None:
    program = openinfer.compile(CONSUMERS)
    simulator = openinfer.Simulator(CONSUMERS).make_executor()
    executors = [program.make_executor(threads) for threads in (1, 2, 4)]
    for step in range(50):
        given = {
            "x": normal(64, 64, seed=step),
            "w": normal(64, 64, seed=99) / 8,
            "k": np.array([step, 0, 63]),
        }
        expected = simulator.run(**given)["h"]
        for executor in executors:
            np.testing.assert_allclose(executor.run(**given)["h"], expected, 1e-4, 1e-4)
            for name in ("total", "big", "rows", "rows2", "n"):
                wanted = simulator.fetch(name)
                np.testing.assert_allclose(executor.fetch(name), wanted, 1e-4, 1e-4)


def test_the_first_failing_section_is_reported() -> None:
    executor = openinfer.compile(CONSUMERS).make_executor(4)
    given = {"x": normal(64, 64, seed=1), "w": normal(64, 64, seed=2)}
    for _ in range(20):
        with pytest.raises(openinfer.StepError, match=r"block three.*index 64"):
            executor.run(**given, k=np.array([1, 64, 2]))
        assert executor.fetch("n") == 0
    executor.run(**given, k=np.array([1, 63, 2]))
    assert executor.fetch("n") == 2


def test_sections_that_write_tables_run_one_by_one() -> None:
    text = """
    dynamic { x: f32[8]; }
    persistent { n: i32; A(i): f32[8] @table; B(i): f32[8] @table; }
    block entry { assign h: f32[8]; op exp(x) >> h; yield h; await h; cache.increment n; return h; }
    block one { await h; cache.write h >> A[n]; yield h; }
    block two { await h; cache.write h >> B[n]; yield h; }
    """
    program = openinfer.compile(text)
    assert not any(slot.kind == SlotKind.JOB for slot in program.manifest.frame)
    executor = program.make_executor(2)
    for i in range(20):
        executor.run(x=normal(8, seed=i))
    np.testing.assert_array_equal(executor.fetch("A"), executor.fetch("B"))
    table: Any = executor.fetch("A")
    np.testing.assert_allclose(table[7], np.exp(normal(8, seed=7)), 1e-6)


def test_executors_come_and_go() -> None:
    program = openinfer.compile(DECODE)
    w = normal(256, 256, seed=1) / 16
    before = threading.active_count()
    for _ in range(10):
        executor = program.make_executor(3)
        executor.run(x=normal(1, 256, seed=1), w=w)
        executor.close()
    executor = program.make_executor(2)
    executor.run(x=normal(1, 256, seed=1), w=w)
    del executor
    gc.collect()
    assert threading.active_count() <= before + 1


def test_every_order_of_the_consumers_gives_what_the_compiled_program_gives() -> None:
    given = {"x": normal(64, 64, seed=7), "w": normal(64, 64, seed=8) / 8, "k": np.array([5, 0, 9])}
    compiled = openinfer.compile(CONSUMERS).make_executor(2)
    found = compiled.run(**given)["h"]
    names = ("total", "big", "rows", "rows2", "n")
    for order in permutations(("one", "two", "three", "four", "entry")):
        simulator: Any = openinfer.Simulator(CONSUMERS).make_executor()
        simulator.consumer_order = lambda ready, order=order: min(ready, key=order.index)
        np.testing.assert_allclose(simulator.run(**given)["h"], found, 1e-4, 1e-4)
        for name in names:
            np.testing.assert_allclose(compiled.fetch(name), simulator.fetch(name), 1e-4, 1e-4)
