"""Several threads in one step: the same bits, no lost wake-ups, nothing left behind."""

from __future__ import annotations

import ctypes
import gc
import threading
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.func import CallOp, FuncOp

import openinfer as oi
from openinfer.lowering.cpu.threads.team import TAKE

PROGRAM = """
dynamic { x: f32[B, L, 64]; w: f32[64, 96]; mask: bool[B, 1, 1, L]; }
block entry {
    assign h: f32[B, L, 96];
    assign q: f32[B, L, 3, 32];
    assign p: f32[B, 3, L, 32];
    assign a: f32[B, 3, L, 32];
    assign n: f32[B, 3, L, 32];
    assign s: f32[B, 3, 32];
    op matmul(x, w) >> h;
    op gelu(h) >> h;
    op reshape(h, shape=[B, L, 3, 32]) >> q;
    op transpose(q, perm=[0, 2, 1, 3]) >> p;
    op attention(p, p, p, mask) >> a;
    op add(a, p) >> a;
    op softmax(a) >> n;
    op sum_axis(n, axes=[2]) >> s;
    return s, n;
}
"""

BRANCHING = """
dynamic { x: f32[64]; go: bool; }
block entry { assign y: f32[64]; branch go up down; return y; }
block up { op exp(x) >> y; return; }
block down { op neg(x) >> y; return; }
"""


SCALARS = """
dynamic { x: f32[64, 64]; a: f32; b: f32; }
persistent { n: i32; }
volatile { s: f32; t: f32; c: f32[64]; y: f32[64, 64]; }
block entry {
    assign u: f32;
    op mul(a, b) >> s;
    op exp(s) >> t;
    op softmax(x, axis=1) >> y;
    op max_axis(y, axes=[0]) >> c;
    op add(s, t) >> u;
    op add(u, t) >> u;
    cache.increment n;
    op mul(y, u) >> y;
    return y, s, t, c;
}
"""


def _inputs(rng: np.random.Generator, batch: int, length: int) -> dict[str, Any]:
    mask = rng.random((batch, 1, 1, length)) < 0.8
    mask[..., 0] = True
    return {
        "x": rng.standard_normal((batch, length, 64), dtype=np.float32),
        "w": rng.standard_normal((64, 96), dtype=np.float32) / 8,
        "mask": mask,
    }


@pytest.fixture(scope="module")
def program() -> Any:
    return oi.compile(PROGRAM)


def test_the_number_of_threads_changes_no_bit(program: Any) -> None:
    rng = np.random.default_rng(7)
    executors = [program.make_executor(threads=n) for n in (1, 2, 3, 5)]
    for batch, length in ((1, 1), (2, 17), (3, 40), (1, 130), (4, 3)):
        inputs = _inputs(rng, batch, length)
        results = [executor.run(**inputs) for executor in executors]
        for other in results[1:]:
            for name, value in results[0].items():
                assert np.array_equal(value, other[name], equal_nan=True), (batch, length, name)


def test_many_steps_of_changing_sizes_agree_with_the_simulator(program: Any) -> None:
    rng = np.random.default_rng(8)
    executor = program.make_executor(threads=2)
    simulator = oi.Simulator(PROGRAM).make_executor()
    cases = [_inputs(rng, b, n) for b, n in ((1, 5), (2, 9), (1, 33), (3, 2))]
    expected = [simulator.run(**case) for case in cases]
    for number in range(400):
        case = number % len(cases)
        result = executor.run(**cases[case])
        for name, value in expected[case].items():
            np.testing.assert_allclose(result[name], value, rtol=2e-5, atol=2e-6)


def test_workers_sleep_and_wake(program: Any) -> None:
    rng = np.random.default_rng(9)
    executor = program.make_executor(threads=2)
    inputs = _inputs(rng, 2, 20)
    first = executor.run(**inputs)
    pause = threading.Event()
    for _ in range(5):
        # Long enough for a worker to go to sleep in the kernel.
        pause.wait(0.02)
        again = executor.run(**inputs)
        assert all(np.array_equal(first[name], again[name]) for name in first)


def test_executors_run_side_by_side(program: Any) -> None:
    rng = np.random.default_rng(10)
    cases = [_inputs(rng, 1, 10 + n) for n in range(3)]
    expected = [program.make_executor(threads=1).run(**case) for case in cases]
    wrong: list[int] = []

    def work(number: int) -> None:
        executor = program.make_executor(threads=2)
        for _ in range(30):
            result = executor.run(**cases[number])
            if any(not np.array_equal(result[k], v) for k, v in expected[number].items()):
                wrong.append(number)
        executor.close()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _workers() -> int:
    return sum(thread.name.startswith("openinfer-") for thread in threading.enumerate())


def test_closing_and_forgetting_an_executor_ends_its_workers(program: Any) -> None:
    rng = np.random.default_rng(11)
    gc.collect()
    before = _workers()
    closed = program.make_executor(threads=3)
    closed.run(**_inputs(rng, 1, 8))
    assert _workers() == before + 2
    closed.close()
    assert _workers() == before
    forgotten = program.make_executor(threads=3)
    forgotten.run(**_inputs(rng, 1, 8))
    del forgotten
    gc.collect()
    assert _workers() == before


def test_one_thread_starts_no_worker(program: Any) -> None:
    before = _workers()
    program.make_executor(threads=1).run(**_inputs(np.random.default_rng(12), 1, 8))
    assert _workers() == before


def test_control_flow_on_data_runs_on_one_thread() -> None:
    executor = oi.compile(BRANCHING).make_executor(threads=4)
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    np.testing.assert_allclose(executor.run(x=x, go=True)["y"], np.exp(x), rtol=1e-6)
    assert np.array_equal(executor.run(x=x, go=False)["y"], -x)


def test_few_rounds_on_many_threads_are_each_done_once() -> None:
    program = oi.compile("dynamic { x: f32[R, 33]; } block entry { assign y: f32[R, 33]; "
                         "op exp(x) >> y; return y; }")  # fmt: skip
    executors = [program.make_executor(threads=n) for n in (2, 3, 4, 7)]
    for rows in (1, 2, 3, 5, 8, 13):
        x = np.linspace(-1, 1, rows * 33, dtype=np.float32).reshape(rows, 33)
        for executor in executors:
            for _ in range(3):
                np.testing.assert_allclose(executor.run(x=x)["y"], np.exp(x), rtol=1e-6)


def _tally(executor: Any) -> memoryview:
    """Solo, both, left, until and settled of the only step, as `lowering/cpu/team.ll` has them."""
    address, nbytes = executor._first.team._tallies
    return memoryview((ctypes.c_int64 * (nbytes // 8)).from_address(address)).cast("B").cast("q")


def _run(executor: Any, inputs: dict[str, Any]) -> Any:
    """A run whose lead does not stay alone because the machine was busy before."""
    executor._first.team._set(50, 0)
    return executor.run(**inputs)


def _words(*values: int) -> memoryview:
    return memoryview((ctypes.c_int64 * len(values))(*values)).cast("B").cast("q")


def test_a_step_that_is_faster_alone_is_run_alone(program: Any) -> None:
    inputs = _inputs(np.random.default_rng(13), 1, 8)
    executor = program.make_executor(threads=2)
    expected = _run(executor, inputs)
    tally = _tally(executor)
    # The second of two trials: what they found before says that alone is faster.
    tally[0], tally[1], tally[2] = 1, 1 << 18, -1
    assert np.array_equal(_run(executor, inputs)["s"], expected["s"])
    assert tally[3] > 0, "the lead stays alone"
    assert tally[4] > tally[3], "and waits for its workers before it tries again"
    assert tally[1] == 0, "what sharing took is measured anew"
    assert tally[5] == 1 << 24, "not for long, the first time"
    tally[:4] = _words(1, 1 << 18, -1, 0)
    tally[4] = 0
    _run(executor, inputs)
    assert tally[5] == 1 << 25
    # For longer than this test takes.
    tally[3] = (1 << 63) - 1
    for _ in range(3):
        assert np.array_equal(_run(executor, inputs)["s"], expected["s"])
    assert tally[1] == 0


def test_a_step_that_is_slower_alone_is_shared(program: Any) -> None:
    inputs = _inputs(np.random.default_rng(14), 1, 8)
    executor = program.make_executor(threads=2)
    expected = _run(executor, inputs)
    tally = _tally(executor)
    tally[0], tally[1], tally[2], tally[5] = 1 << 60, 1, -1, 1 << 25
    assert np.array_equal(_run(executor, inputs)["s"], expected["s"])
    assert (tally[3], tally[2], tally[5]) == (0, 256, 0)
    _run(executor, inputs)
    assert tally[2] == 255
    # Long steps are shared without a trial.
    tally[0], tally[1], tally[2] = 1, 1 << 40, 0
    _run(executor, inputs)
    assert tally[3] == 0
    assert tally[1] < 1 << 40


def test_other_sizes_begin_without_a_tally(program: Any) -> None:
    rng = np.random.default_rng(15)
    executor = program.make_executor(threads=2)
    _run(executor, _inputs(rng, 1, 8))
    tally = _tally(executor)
    tally[0], tally[3] = 1, (1 << 63) - 1
    _run(executor, _inputs(rng, 2, 9))
    assert tally[3] == 0
    assert tally[1] > 0


def test_scalar_code_between_kernels_is_one_part_of_the_step() -> None:
    from openinfer.compiler import pipeline, registry
    from openinfer.lowering.options import PipelineOptions

    module = oi.graph(SCALARS).module.clone()
    options = PipelineOptions(target_name="avx2")
    pipeline.run(module, registry.make_context(), "cpu", stop="threads", options=options)
    step = next(f for f in module.body.ops if isinstance(f, FuncOp) and f.sym_name.data == "step")
    called = [op.callee.string_value() for op in step.walk() if isinstance(op, CallOp)]
    parts = [name for name in called if name == TAKE or not name.startswith("openinfer_")]
    # s and t; the kernels of y; the counter; the last kernel, with u in its body; the counter's commit.
    kernels = ["softmax_0", "fill_0", "reduce_0"]
    assert parts == [TAKE, *kernels, TAKE, "elementwise_0", TAKE]


def test_scalar_code_is_done_once_by_any_number_of_threads() -> None:
    program, simulator = oi.compile(SCALARS), oi.Simulator(SCALARS).make_executor()
    executors = [program.make_executor(threads=n) for n in (1, 2, 3, 5)]
    rng = np.random.default_rng(16)
    for step in range(1, 101):
        inputs: dict[str, Any] = {
            "x": rng.standard_normal((64, 64), dtype=np.float32),
            "a": np.float32(rng.standard_normal()),
            "b": np.float32(rng.standard_normal()),
        }
        results = [executor.run(**inputs) for executor in executors]
        for other in results[1:]:
            assert all(np.array_equal(value, other[name]) for name, value in results[0].items())
        if step % 20 == 1:
            for name, value in simulator.run(**inputs).items():
                np.testing.assert_allclose(results[0][name], value, rtol=2e-6, atol=1e-7)
        # A counter that two threads moved on would show it.
        assert [np.asarray(executor.fetch("n")).item() for executor in executors] == [step] * 4
