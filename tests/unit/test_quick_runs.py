"""A `run` like the last one in a single builtin: what takes that way, what does not, and what it leaves."""

from __future__ import annotations

import ctypes
import gc
import inspect
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
from interrupts import interrupted, raises

import openinfer as oi
from openinfer.runtime.devices.compiled.executor import CompiledExecutor
from openinfer.runtime.devices.compiled.quick_run import Workers
from openinfer.runtime.devices.cpu import native_call
from openinfer.runtime.devices.cpu.team import Team
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.results import Results

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)

PROGRAM = """
dynamic { a: f32[M, K]; b: f32[K, 5]; }
volatile { c: f32[M, 5]; total: f32[]; never: f32[2]; }
block entry { op matmul(a, b) >> c; op sum_axis(c, axes=[0, 1]) >> total; return c, total, never; }
"""
GATHER = """
dynamic { x: f32[8]; i: i64[4]; }
volatile { y: f32[4]; }
block entry { op gather(x, i, axis=0) >> y; return y; }
"""
LOOP = """
dynamic { n: i64[1]; x: f32[64, 64]; }
volatile { y: f32[64, 64]; }
block entry {
    op relu(x) >> y;
    loop k (k in 0..n[0]) { op matmul(y, x) >> y; }
    return y;
}
"""
COUNTS = LOOP.replace("volatile", "persistent { s: i64; last: f32[64, 64]; } volatile").replace(
    "op matmul(y, x) >> y;", "op matmul(y, x) >> y; cache.write y >> last; cache.increment s;"
)


def arrays(seed: int, rows: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "a": rng.integers(-9, 9, (rows, 4)).astype(np.float32),
        "b": rng.integers(-9, 9, (4, 5)).astype(np.float32),
    }


def check(results: Any, given: dict[str, Any]) -> None:
    product = np.asarray(given["a"]) @ np.asarray(given["b"])
    assert type(results) is Results
    assert list(results) == ["c", "total", "never"]
    np.testing.assert_array_equal(results["c"], product)
    assert results["total"] == product.sum()
    np.testing.assert_array_equal(results["never"], [0, 0])


class Counted:
    """The quick way of an executor, and how often it was tried and taken."""

    def __init__(self, executor: Any) -> None:
        self.tried = self.taken = 0
        self._follow = executor._follow
        assert self._follow is not None
        executor._follow = self

    def __call__(self, given: Any) -> Any:
        self.tried += 1
        results = self._follow(given)
        self.taken += results is not None
        return results


@pytest.fixture(scope="module")
def program() -> oi.Program:
    return oi.compile(oi.graph(PROGRAM))


@pytest.fixture(params=[1, 2])
def executor(program: oi.Program, request: pytest.FixtureRequest) -> Iterator[Any]:
    with program.make_executor(request.param) as runner:
        for number in range(3):
            check(runner.run(**arrays(number)), arrays(number))
        yield runner


def test_runs_like_the_last_one_take_the_quick_way(executor: Any) -> None:
    counted = Counted(executor)
    for number in range(20):
        check(executor.run(**arrays(number)), arrays(number))
    assert (counted.tried, counted.taken) == (20, 20)
    assert executor.finished_steps == 23
    np.testing.assert_array_equal(executor.fetch("c"), arrays(19)["a"] @ arrays(19)["b"])


def test_results_are_the_callers(executor: Any) -> None:
    kept = [executor.run(**arrays(number)) for number in range(9)]
    for number, results in enumerate(kept):
        check(results, arrays(number))
        for value in (results["c"], results["total"], results["never"]):
            assert value.base is None
            assert value.flags.owndata
            assert value.flags.writeable
        results["c"][:] = 7
    np.testing.assert_array_equal(executor.fetch("c"), arrays(8)["a"] @ arrays(8)["b"])
    with pytest.raises(oi.InputError) as caught:
        kept[0]["d"]
    assert caught.value.code == "OI0501"


OTHERS: dict[str, dict[str, Any]] = {
    "another shape": arrays(50, rows=7),
    "Fortran order": {**arrays(51), "a": np.asfortranarray(arrays(51)["a"])},
    "part of another": {**arrays(52), "b": np.repeat(arrays(52)["b"], 2, axis=0)[::2]},
    "unaligned": {
        **arrays(53),
        "a": np.frombuffer(bytearray(b"x" + arrays(53)["a"].tobytes()), np.float32, 12, 1).reshape(
            3, 4
        ),
    },
    "swapped": {**arrays(54), "a": arrays(54)["a"].astype(">f4")},
    "a list": {**arrays(55), "a": arrays(55)["a"].tolist()},
    "a subclass": {**arrays(56), "a": arrays(56)["a"].view(np.recarray)},
}
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "a missing one": ({"a": arrays(1)["a"]}, "OI0505"),
    "none": ({}, "OI0505"),
    "one too many": ({**arrays(1), "z": arrays(1)["a"]}, "OI0501"),
    "another name": ({"a": arrays(1)["a"], "z": arrays(1)["b"]}, "OI0501"),
    "another dtype": ({**arrays(1), "a": arrays(1)["a"].astype(np.float64)}, "OI0541"),
    "another rank": ({**arrays(1), "a": arrays(1)["a"][0]}, "OI0503"),
    "sizes that differ": ({**arrays(1), "a": np.ones((3, 6), np.float32)}, "OI0503"),
    "no array": ({**arrays(1), "a": None}, "OI0544"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_inputs_are_left_to_the_checked_way(executor: Any, name: str) -> None:
    counted = Counted(executor)
    check(executor.run(**OTHERS[name]), OTHERS[name])
    assert (counted.tried, counted.taken) == (1, 0)
    for number in range(3):
        check(executor.run(**arrays(number)), arrays(number))
        check(executor.run(**OTHERS[name]), OTHERS[name])
    assert executor.finished_steps == 10


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_said(executor: Any, name: str) -> None:
    given, code = MISTAKES[name]
    for _ in range(2):
        with pytest.raises(oi.InputError) as caught:
            executor.run(**given)
        assert caught.value.code == code
        assert executor._turn.slot
        check(executor.run(**arrays(4)), arrays(4))
        check(executor.run(**arrays(5)), arrays(5))
    with pytest.raises(oi.InputError) as caught:
        executor.run(arrays(1)["a"], **arrays(1))
    assert caught.value.code == "OI0501"
    assert executor.finished_steps == 7


class Odd(str):
    """A name that is equal to another one, which Python code decides."""

    __hash__ = str.__hash__

    def __init__(self, _: str) -> None:
        super().__init__()
        self.asked = lambda: None

    def __eq__(self, other: object) -> bool:
        self.asked()
        return str.__eq__(self, str(other))


def test_python_that_runs_inside_finds_somebody_inside(executor: Any) -> None:
    found: list[Any] = []
    odd = Odd("a")

    def asked() -> None:
        with pytest.raises(oi.InputError) as caught:
            executor.fetch("c")
        found.append(caught.value.code)

    odd.asked = asked
    given = {odd: arrays(3)["a"], "b": arrays(3)["b"]}
    check(executor.run(**given), arrays(3))
    assert set(found) <= {"OI0564"}
    check(executor.run(**arrays(4)), arrays(4))


def test_inputs_are_kept_while_a_worker_may_read_them(
    program: oi.Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (ctypes.c_int64 * 6)(8, 7, -1, 9, -1, -1)  # the next step, a worker, one more
    kept: list[Any] = []
    start = ctypes.addressof(words)
    monkeypatch.setattr(Team, "workers", lambda _: Workers(start, start + 8, 16, 2, kept))
    told: list[Any] = []
    with program.make_executor(2) as executor:
        runner: Any = executor
        for number in range(3):
            runner.run(**arrays(number))
        keep, counted = runner._first.keep, Counted(runner)
        runner._first.keep = lambda given: (told.append(dict(given)), keep(given))

        def is_told() -> bool:
            told.clear()
            given = arrays(4)
            check(runner.run(**given), given)
            assert not told or told[0].keys() == given.keys()
            return bool(told)

        assert not is_told()
        for late in (1, 3):
            words[late] -= 3
            assert is_told()
            words[late] += 3
            assert not is_told()
        kept.append("an input of before")
        assert is_told()
        assert counted.taken == 6


def test_where_workers_say_how_far_they_are(program: oi.Program) -> None:
    team = Team(cast("Any", program.loaded()), 3)
    sequence, left, stride, number, kept = team.workers()
    assert ctypes.c_int64.from_address(sequence).value == 1
    lefts = [ctypes.c_int64.from_address(left + stride * worker).value for worker in range(number)]
    assert lefts == [1 << 62] * 2
    assert kept == []


def test_what_others_do_between_two_runs_is_seen(executor: Any) -> None:
    """Each takes the turn, so that the next run looks at everything again."""
    uses = {
        "fetch": lambda: executor.fetch("c"),
        "insert": lambda: executor.insert(a=np.zeros((3, 4), np.float32)),
        "reset": executor.reset,
        "iterate": lambda: list(executor.iterate()),
    }
    for name, use in uses.items():
        executor.run(**arrays(1))
        executor.run(**arrays(2))
        counted = Counted(executor)
        if name == "iterate":
            executor.insert(**arrays(3))
        use()
        check(executor.run(**arrays(4)), arrays(4))
        assert counted.taken == 0, name
    executor.close()
    with pytest.raises(oi.InputError) as caught:
        executor.run(**arrays(1))
    assert caught.value.code == "OI0507"


def test_inputs_that_wait_are_not_forgotten(executor: Any) -> None:
    executor.insert(b=arrays(9)["b"])
    given = {"a": arrays(8)["a"], "b": arrays(9)["b"]}
    check(executor.run(a=given["a"]), given)


def test_a_run_while_a_step_is_iterated(executor: Any) -> None:
    executor.insert(**arrays(1))
    for _ in executor.iterate():
        with pytest.raises(oi.InputError) as caught:
            executor.run(**arrays(2))
        assert caught.value.code == "OI0509"
    check(executor.run(**arrays(2)), arrays(2))


def test_threads_get_their_own_results(executor: Any) -> None:
    def work(first: int) -> None:
        for number in range(first, first + 300):
            given = arrays(number % 40)
            check(executor.run(**given), given)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, 1000 * number) for number in range(4)]:
            done.result(60)
    assert executor.finished_steps == 1203


def test_another_thread_does_not_follow(executor: Any) -> None:
    """What this thread fetches is its own, or refused."""
    executor.run(**arrays(1))
    with ThreadPoolExecutor(1) as pool:
        check(pool.submit(lambda: executor.run(**arrays(2))).result(60), arrays(2))
        check(pool.submit(lambda: executor.run(**arrays(3))).result(60), arrays(3))
        with pytest.raises(oi.InputError) as caught:
            executor.fetch("c")
        assert caught.value.code == "OI0565"
        check(executor.run(**arrays(4)), arrays(4))


def test_a_step_that_fails_is_said_and_leaves_the_executor_usable() -> None:
    x = np.arange(8, dtype=np.float32)
    executor: Any
    with oi.compile(GATHER).make_executor(1) as executor:
        right = [executor.run(x=x, i=np.array([0, 1, 2, 3]))["y"] for _ in range(3)]
        counted = Counted(executor)
        for _ in range(3):
            with pytest.raises(oi.StepError) as caught:
                executor.run(x=x, i=np.array([0, 9, 2, 3]))
            assert "9" in str(caught.value)
            assert executor._turn.slot == {0: True}
            np.testing.assert_array_equal(
                executor.run(x=x, i=np.array([3, 2, 1, 0]))["y"], x[3::-1]
            )
        np.testing.assert_array_equal(right, [x[:4]] * 3)
        assert counted.tried
        assert executor.finished_steps == 6


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", [LOOP, COUNTS])
def test_an_interrupt_ends_a_step(text: str, threads: int) -> None:
    eye = np.eye(64, dtype=np.float32)
    executor: Any
    with oi.compile(text).make_executor(threads) as executor:
        for _ in range(3):
            executor.run(n=np.array([2]), x=eye)
        count = 6
        for _ in range(2):
            counted = Counted(executor)
            with pytest.raises(KeyboardInterrupt):
                interrupted(
                    lambda: executor.run(n=np.array([10**12]), x=2 * eye), raises(KeyboardInterrupt)
                )
            assert counted.tried == 1
            assert executor._turn.slot == {0: True}
            # The results of the step before are gone, and those of the one that was ended are none.
            np.testing.assert_array_equal(executor.fetch("y"), np.zeros((64, 64)))
            if text is COUNTS:
                np.testing.assert_array_equal(executor.fetch("last"), eye)
                assert executor.fetch("s") == count
            for _ in range(3):
                np.testing.assert_array_equal(executor.run(n=np.array([5]), x=eye)["y"], eye)
            count += 15
        assert executor.finished_steps == 9


def test_a_handler_that_raises_nothing_may_use_the_executor() -> None:
    """It finds it busy, or runs beside it; the step that it came into goes on."""
    eye = np.eye(64, dtype=np.float32)
    executor: Any = oi.compile(LOOP).make_executor(1)
    found: list[Any] = []

    def handler(number: int, frame: object) -> None:
        try:
            found.append(executor.run(n=np.array([1]), x=3 * eye)["y"][0, 0])
        except oi.InputError as error:
            found.append(error.code)

    def steps() -> None:
        while not found:
            results = executor.run(n=np.array([20_000]), x=eye)
            np.testing.assert_array_equal(results["y"], eye)

    executor.run(n=np.array([1]), x=eye)
    executor.run(n=np.array([1]), x=eye)
    interrupted(steps, handler)
    assert found in ([9.0], ["OI0564"])
    np.testing.assert_array_equal(executor.run(n=np.array([1]), x=2 * eye)["y"], 4 * eye)
    np.testing.assert_array_equal(executor.fetch("y"), 4 * eye)


def test_no_reference_is_lost(executor: Any) -> None:
    given = arrays(1)
    turn = executor._turn
    watched: list[Any] = [
        *given.values(),
        None,
        np.ndarray,
        np.empty,
        Results,
        executor,
        turn.stepper,
    ]
    watched += [
        given["a"].dtype,
        executor._first,
        turn,
        executor._first.quick.token,
        np.dtype("f4"),
    ]
    executor.run(**given)
    before = [sys.getrefcount(thing) for thing in watched]
    for _ in range(500):
        executor.run(**given)
        executor._follow({**given, "a": given["b"]})
        executor._follow({})
    assert max(abs(sys.getrefcount(t) - b) for t, b in zip(watched, before)) < 100
    blocks = sys.getallocatedblocks()
    for _ in range(500):
        executor.run(**given)
    assert abs(sys.getallocatedblocks() - blocks) < 100


def test_an_executor_that_nobody_holds_is_freed_at_once(program: oi.Program) -> None:
    gc.collect()
    gc.disable()
    try:
        runner = program.make_executor(1)
        for number in range(4):
            runner.run(**arrays(number))
        gone = weakref.ref(runner)
        del runner
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_the_child_of_a_fork_goes_on(program: oi.Program) -> None:
    executor: Any = program.make_executor(1)
    for number in range(3):
        executor.run(**arrays(number))
    child = os.fork()
    if not child:
        status = 1
        try:
            assert executor._first.quick is None
            threads = [
                threading.Thread(target=lambda: check(executor.run(**arrays(5)), arrays(5)))
                for _ in range(2)
            ]
            for thread in threads:
                thread.start()
            for number in range(20):
                check(executor.run(**arrays(number)), arrays(number))
            for thread in threads:
                thread.join(30)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    check(executor.run(**arrays(6)), arrays(6))


PLAIN = "dynamic { x: f32[4]; } volatile { y: f32[4]; } block entry { op add(x, x) >> y; return; }"


@pytest.mark.parametrize(
    ("text", "trace"),
    [
        (PLAIN.replace("4", "65536"), False),
        (PLAIN, True),
        (PLAIN.replace("f32", "i4"), False),
    ],
    ids=["large results", "traced", "packed"],
)  # fmt: skip
def test_programs_that_take_the_other_way(text: str, trace: bool) -> None:
    with oi.compile(text).make_executor(1, trace=trace) as executor:
        runner: Any = executor
        x: Any = oi.Tensor.from_values("i4", [1, 2, 3, 1]) if "i4" in text else np.ones(4)
        x = np.ones(65536, np.float32) if "65536" in text else x
        x = x.astype(np.float32) if isinstance(x, np.ndarray) else x
        for _ in range(5):
            value: Any = runner.run(x=x)["y"]
            assert (value.values() if isinstance(value, oi.Tensor) else value)[0] == 2
        assert runner._follow is None


def test_a_state_that_changes_with_every_run() -> None:
    text = (
        "dynamic { x: f32[4]; } persistent { s: f32[4]; } volatile { y: f32[4]; }"
        "block entry { op add(x, s) >> y; cache.write y >> s; return y; }"
    )
    with oi.compile(text).make_executor(1) as executor:
        x = np.ones(4, np.float32)
        kept: list[Any] = [executor.run(x=x)["y"] for _ in range(3)]
        counted = Counted(executor)
        kept += [executor.run(x=x)["y"] for _ in range(3)]
        assert counted.taken == 3
        assert [array[0] for array in kept] == [1, 2, 3, 4, 5, 6]
        state = executor.snapshot()
        executor.run(x=x)
        executor.run(x=x)
        executor.restore(state)
        assert np.asarray(executor.run(x=x)["y"])[0] == 7


def test_a_table_that_grows() -> None:
    """A step that asks for memory is run again, once it has it."""
    text = (
        "dynamic { x: f32[4]; at: i64[1]; } persistent { T(i): f32[4] @table; } volatile { y: f32[4]; }"
        "block entry { op add(x, x) >> y; cache.write y >> T[at[0]]; return y; }"
    )
    with oi.compile(text).make_executor(1) as executor:
        runner: Any = executor
        rows: list[float] = []

        def steps(count: int) -> None:
            for _ in range(count):
                x = np.full(4, len(rows), np.float32)
                np.testing.assert_array_equal(runner.run(x=x, at=np.array([len(rows)]))["y"], 2 * x)
                rows.append(2 * len(rows))

        steps(2)
        counted = Counted(runner)
        steps(38)
        assert counted.taken
        assert runner._follow is not None
        np.testing.assert_array_equal(np.asarray(runner.fetch("T"))[:, 0], rows)
        assert runner.finished_steps == 40


def test_results_that_move_with_an_arena_that_grows() -> None:
    """The rows that are read have a buffer, as large as the table may be."""
    text = """
    dynamic { x: f32[4]; at: i64[1]; }
    persistent { T(i): f32[4] @table; }
    volatile { y: f32[1, 4]; }
    block entry {
        cache.write x >> T[at[0]];
        h = op sort(T[0..at[0] + 1], axis=0);
        op mean_axis(h, axes=[0], keepdims=true) >> y;
        return y;
    }
    """
    with oi.compile(text).make_executor(1) as executor:
        runner: Any = executor
        for number in range(200):
            found = runner.run(x=np.full(4, number, np.float32), at=np.array([number]))["y"]
            np.testing.assert_allclose(found, np.full((1, 4), number / 2), rtol=1e-5)
        assert runner.arena_growths > 1


def test_programs_without_inputs() -> None:
    text = "volatile { x: f32[4]; y: f32[4]; } block entry { op add(x, 2.5) >> y; return y; }"
    with oi.compile(text).make_executor(1) as executor:
        runner: Any = executor
        kept = [runner.run()["y"] for _ in range(5)]
        assert runner._follow is not None
        with pytest.raises(oi.InputError):
            runner.run(x=1)
        kept[2][:] = 0
        np.testing.assert_array_equal(kept[3], np.full(4, 2.5))


def test_without_builtins(program: oi.Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_call, "_builtins", lambda: None)
    with program.make_executor(1) as executor:
        runner: Any = executor
        for number in range(5):
            check(runner.run(**arrays(number)), arrays(number))
        assert runner._follow is None


def test_arrays_that_lie_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without the interpreter's lock: Python looks at them, and steps ask for interrupts as ever."""
    module: Any = native_call
    monkeypatch.setattr(native_call, "_lies_as_read", lambda _: False)
    builtins = module._builtins.__wrapped__()
    monkeypatch.setattr(native_call, "_builtins", lambda: builtins)
    assert native_call.interrupted_address() == builtins.interrupted
    assert native_call.native_observer(print) is not None
    assert native_call.native_reader(lambda _, __: True) is not None
    assert native_call.native_place([], 0, None) is None
    eye = np.eye(64, dtype=np.float32)
    runner: Any
    with oi.compile(LOOP).make_executor(1) as runner:
        for _ in range(3):
            np.testing.assert_array_equal(runner.run(n=np.array([2]), x=eye)["y"], eye)
        assert runner._follow is None
        assert inspect.isfunction(type(runner).run)
        with pytest.raises(KeyboardInterrupt):
            interrupted(lambda: runner.run(n=np.array([10**12]), x=eye), raises(KeyboardInterrupt))
        np.testing.assert_array_equal(runner.run(n=np.array([2]), x=eye)["y"], eye)


def test_names_that_are_no_strings(executor: Any) -> None:
    given = arrays(1)
    mistakes: list[dict[Any, Any]] = [{1: given["a"], "b": given["b"]}, {**given, None: 1}]
    for mistake in mistakes:
        for _ in range(2):
            with pytest.raises(TypeError, match="keywords must be strings"):
                executor.run(**mistake)
            with pytest.raises(TypeError, match="keywords must be strings"):
                executor.run(given["a"], **mistake)
    check(executor.run(**given), given)


def test_an_executor_is_shown_as_what_it_stands_for(executor: Any) -> None:
    kind = type(executor)
    assert kind is not CompiledExecutor
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        assert getattr(kind, name) == getattr(CompiledExecutor, name)
    assert f"<{CompiledExecutor.__module__}.CompiledExecutor object" in repr(executor)
    assert "method run of CompiledExecutor object" in repr(executor.run)
    with pytest.raises(TypeError, match="'CompiledExecutor'"):
        kind.run(object())


def test_the_method_is_called_in_all_ways(executor: Any) -> None:
    given = arrays(7)
    counted = Counted(executor)
    ways = [
        lambda: executor.run(**given),
        lambda: executor.run(a=given["a"], b=given["b"]),
        lambda: executor.run(b=given["b"], a=given["a"]),
        lambda: type(executor).run(executor, **given),
        partial(executor.run, **given),
        partial(executor.run, a=given["a"], b=given["b"]),
        lambda bound=executor.run: bound(**given),
    ]
    for way in ways:
        check(way(), given)
    assert counted.taken == len(ways)
    assert str(inspect.signature(executor.run)) == "(*unnamed, **inputs)"
    assert "`fetch` reads the same memory" in executor.run.__doc__
    with pytest.raises(TypeError):
        type(executor).run(object(), **given)
    with pytest.raises(TypeError):
        type(executor).run()
    with pytest.raises(oi.InputError) as caught:
        executor.run()
    assert caught.value.code == "OI0505"


def test_a_method_that_is_kept_keeps_its_executor(program: oi.Program) -> None:
    run = program.make_executor(1).run
    for number in range(5):
        check(run(**arrays(number)), arrays(number))


def test_a_dict_that_another_thread_empties(executor: Any) -> None:
    """`partial` may hand its own dict to a method in machine code, which reads the arrays later."""
    shared = arrays(8)
    counted = Counted(executor)

    class Sly:
        def __init__(self, follow: Any) -> None:
            self.follow = follow

        def __call__(self, given: Any) -> Any:
            assert given is not shared
            return self.follow(given)

    executor._follow = Sly(counted)
    call: Any = ctypes.pythonapi.PyObject_Call
    call.restype = ctypes.py_object
    call.argtypes = [ctypes.py_object] * 3
    check(call(executor.run, (), shared), shared)
    assert counted.taken == 1


def test_whoever_waits_is_told(executor: Any) -> None:
    told: list[int] = []
    turn = executor._turn
    wake, turn.waiting = turn.wake, 1
    turn.wake = lambda: (told.append(1), wake())
    check(executor.run(**arrays(1)), arrays(1))
    assert told == [1]

    def raises_once() -> None:
        turn.waiting = 0
        raise KeyboardInterrupt

    turn.wake = raises_once
    with pytest.raises(KeyboardInterrupt):
        executor.run(**arrays(2))
    check(executor.run(**arrays(3)), arrays(3))
    assert executor.finished_steps == 6


def test_whoever_waits_is_told_of_a_run_that_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoRoom(MemoryError):
        pass

    made, lacking = np.empty, [False]
    raised: list[weakref.ref[NoRoom]] = []

    def empty(*given: Any, **named: Any) -> Any:
        if lacking[0]:
            error = NoRoom()
            raised.append(weakref.ref(error))
            raise error
        return made(*given, **named)

    # What makes the quick way takes the function from there.
    monkeypatch.setattr(np, "empty", empty)
    told: list[object] = []
    executor: Any
    with oi.compile(PLAIN).make_executor(1) as executor:
        x = np.ones(4, np.float32)

        def quick_run() -> None:
            lacking[0] = False
            turn.waiting = 0
            executor.run(x=x)
            executor.run(x=x)
            lacking[0], turn.waiting = True, 1
            before = counted.tried
            try:
                executor.run(x=x)
            finally:
                assert counted.tried == before + 1

        turn = executor._turn
        for _ in range(3):
            executor.run(x=x)
        counted = Counted(executor)
        turn.wake = lambda: told.append(dict(turn.slot))
        for _ in range(2):
            with pytest.raises(NoRoom):
                quick_run()
        assert told == [{0: True}] * 2

        def interrupted_wake() -> None:
            raise KeyboardInterrupt

        turn.wake = interrupted_wake
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                quick_run()
        lacking[0], turn.waiting = False, 0
        gc.collect()
        assert len(raised) == 4
        assert [error() for error in raised] == [None] * 4
        np.testing.assert_array_equal(executor.run(x=x)["y"], 2 * x)


def test_fields_of_arrays_that_lie_otherwise_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = native_call
    lies = module._lies_as_read
    assert lies(np.zeros((2, 3), np.float32))
    assert lies(np.zeros((4, 5, 6), np.int8)[::2])
    fields = [*module._Array._fields_]
    fields[2], fields[4] = fields[4], fields[2]

    class Swapped(ctypes.Structure):
        _fields_ = fields

    monkeypatch.setattr(native_call, "_Array", Swapped)
    assert not lies(np.zeros((2, 3), np.float32))
