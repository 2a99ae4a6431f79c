"""Python threads that share an executor, a program or a compiler get what is theirs, or an error."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from interrupts import interrupted, raises

import openinfer as oi
from openinfer.compiler.api import compile as compile_program
from openinfer.runtime import turns
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.options import available_cpus
from openinfer.runtime.stepping import Follower
from tests.sweeps import sweep

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)

Array = np.ndarray[Any, Any]
THREADS = 4
PRODUCT = """
dynamic { x: f32[N, 64]; w: f32[64, 64]; }
volatile { y: f32[N, 64]; total: f32[N]; }
block entry {
  assign h: f32[N, 64];
  op matmul(x, w) >> h;
  op tanh(h) >> y;
  op sum_axis(y, axes=[1]) >> total;
  return y, total;
}
"""
COUNTED = """
dynamic { d: i64; x: f32[N]; }
persistent { sum: i64; calls: i32; seen(t): i64 @table; }
volatile { y: f32[N]; now: i64; was: i32; }
block entry {
  cache.read calls >> was;
  cache.write d >> seen[calls];
  cache.increment calls;
  cache.read sum >> now;
  op add(now, d) >> now;
  cache.write now >> sum;
  op add(x, x) >> y;
  return y, now, was;
}
"""
GATHERED = """
dynamic { x: f32[N]; k: i64[3]; }
block entry { assign y: f32[3]; op gather(x, k) >> y; return y; }
"""


@pytest.fixture(autouse=True)
def quick_switches() -> Generator[None]:
    """The interpreter goes from thread to thread as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(work: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """What `work` gives in threads that start together; raises what one of them raised."""
    barrier = threading.Barrier(threads)

    def begin(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(begin, range(threads)))


def code(work: Callable[[], object]) -> str:
    """The code of what `work` raises, empty for nothing."""
    try:
        work()
    except oi.InputError as error:
        return error.code
    return ""


def product_inputs(seed: int, rows: int) -> dict[str, Array]:
    chance = np.random.default_rng(seed)
    shapes = {"x": (rows, 64), "w": (64, 64)}
    return {name: chance.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def wanted(program: oi.Program, calls: list[dict[str, Array]]) -> list[dict[str, Any]]:
    """What one thread gets, call by call."""
    with program.make_executor(1) as executor:
        return [dict(executor.run(**inputs)) for inputs in calls]


def same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    return all(np.array_equal(found[name], expected[name]) for name in expected)


def check_product(program: oi.Program, threads: int, rows: Callable[[int], int]) -> None:
    """One executor, several threads with inputs of their own: every result, to the bit."""
    calls = [product_inputs(seed, rows(seed)) for seed in range(4 * THREADS)]
    expected = wanted(program, calls)
    wrong: list[tuple[int, int]] = []
    with program.make_executor(threads) as executor:

        def work(number: int) -> None:
            for turn in range(100):
                seed = number * 4 + turn % 4
                found = executor.run(**calls[seed])
                if not same(found, expected[seed]):
                    wrong.append((number, turn))

        at_once(work)
        assert executor.finished_steps == 100 * THREADS
    assert not wrong, f"{len(wrong)} of {100 * THREADS} calls"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [1, 16, 600], ids=["small", "middle", "large"])
def test_each_thread_gets_its_own_results(rows: int, threads: int) -> None:
    check_product(oi.compile(PRODUCT), threads, lambda seed: rows)


@pytest.mark.parametrize("threads", [1, 2])
def test_each_thread_has_its_own_sizes(threads: int) -> None:
    check_product(oi.compile(PRODUCT), threads, lambda seed: 3 + 37 * (seed % 7))


def test_a_loaded_program(tmp_path: Path) -> None:
    oi.compile(PRODUCT).save(tmp_path / "product.oip")
    check_product(oi.load(tmp_path / "product.oip"), 2, lambda seed: 20 + seed)


def test_a_watched_build() -> None:
    check_product(compile_program(PRODUCT, observe=True), 2, lambda seed: 20)


def test_more_threads_than_processors_share_as_many_contexts() -> None:
    program = oi.compile(PRODUCT)
    calls = [product_inputs(seed, 200) for seed in range(12)]
    expected = wanted(program, calls)
    with program.make_executor(2) as executor:
        found = at_once(lambda n: [executor.run(**calls[n]) for _ in range(20)], len(calls))
        for results, right in zip(found, expected):
            assert all(same(result, right) for result in results)
        beside: Any = executor._beside  # pyright: ignore[reportPrivateUsage]
        assert len(beside.all) <= available_cpus() - 1
        assert len(beside.free) == len(beside.all)


def test_held_results_stay_whoever_runs() -> None:
    """Large results lie in the memory of a context, and are the caller's all the same."""
    program = oi.compile(PRODUCT)
    calls = [product_inputs(seed, 700) for seed in range(THREADS)]
    expected = wanted(program, calls)
    with program.make_executor(2) as executor:

        def work(number: int) -> list[Any]:
            held: list[Any] = []
            for _ in range(30):
                held = [*held[-3:], executor.run(**calls[number])]
                assert all(same(results, expected[number]) for results in held)
            return held

        for number, held in enumerate(at_once(work)):
            assert all(same(results, expected[number]) for results in held)


def count_up(executor: Any, rounds: int) -> None:
    """Each call is one whole: the state that it reads is that which the call before has left."""

    def work(number: int) -> list[tuple[int, int, int]]:
        x = np.full(8 * (number + 1), number, np.float32)
        found: list[tuple[int, int, int]] = []
        for turn in range(rounds):
            by = 1000 * number + turn
            results = executor.run(d=by, x=x)
            assert np.array_equal(results["y"], x + x)
            found.append((int(results["was"]), by, int(results["now"])))
        return found

    rows = sorted(row for part in at_once(work) for row in part)
    assert [was for was, _, _ in rows] == list(range(rounds * THREADS))
    assert [now for _, _, now in rows] == np.cumsum([by for _, by, _ in rows]).tolist()
    assert executor.fetch("calls") == rounds * THREADS
    assert np.array_equal(executor.fetch("seen"), [by for _, by, _ in rows])
    assert executor.finished_steps == rounds * THREADS


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_with_state_come_one_after_another(threads: int) -> None:
    with oi.compile(COUNTED).make_executor(threads) as executor:
        count_up(executor, 200)


def test_calls_of_the_simulator_come_one_after_another() -> None:
    count_up(oi.Simulator(COUNTED).make_executor(), 15)


def test_a_traced_executor() -> None:
    program = oi.compile(PRODUCT)
    calls = [product_inputs(seed, 5 + seed) for seed in range(THREADS)]
    expected = wanted(program, calls)
    with program.make_executor(2, trace=True) as executor:

        def work(number: int) -> None:
            for turn in range(20):
                assert same(executor.run(**calls[number]), expected[number])
                if turn % 5 == 0:
                    executor.trace()

        at_once(work)
        events = executor.trace()
        one = len([event for event in events if event.step == 0])
        assert [event.step for event in events] == [
            step for step in range(20 * THREADS) for _ in range(one)
        ]
        sizes = {event.shapes["x"][0] for event in events if "x" in event.shapes}
        assert sizes == {5, 6, 7, 8}


@pytest.mark.parametrize("make", [oi.compile, oi.Simulator])
def test_errors_stay_in_their_thread(make: Any) -> None:
    executor = make(GATHERED).make_executor()
    x = np.arange(12, dtype=np.float32)

    def work(number: int) -> list[str]:
        codes: list[str] = []
        for turn in range(60 if make is oi.compile else 10):
            bad = number == 1 and turn % 2
            try:
                if number == 2 and turn % 3 == 0:
                    executor.run(k=np.array([0, 1, 2]))  # x is missing
                found = executor.run(
                    x=x + number, k=np.array([number, 12 if bad else turn % 12, 0])
                )
                assert found["y"].tolist() == [2.0 * number, turn % 12 + number, number]
                codes.append("")
            except oi.OpenInferError as error:
                codes.append(error.code)
        return codes

    found = at_once(work)
    rounds = len(found[0])
    assert set(found[0]) == set(found[3]) == {""}
    assert found[1] == ["", "OI0601"] * (rounds // 2)
    assert found[2] == ["OI0505" if turn % 3 == 0 else "" for turn in range(rounds)]


# What is for one thread at a time

USES: dict[str, Callable[[Any], object]] = {
    "insert": lambda executor: executor.insert(d=1),
    "step": lambda executor: executor.step(),
    "fetch": lambda executor: executor.fetch("sum"),
    "iterate": lambda executor: next(executor.iterate()),
    "snapshot": lambda executor: executor.snapshot(),
    "restore": lambda executor: executor.restore(oi.State({})),
    "reset": lambda executor: executor.reset(),
    "close": lambda executor: executor.close(),
}


def inside(executor: Any, inputs: dict[str, Any], meanwhile: Callable[[], None]) -> Any:
    """Calls `meanwhile` while another thread is inside `run`, and gives what that got."""
    turn = executor._turn
    begun, gone = threading.Event(), threading.Event()
    run_step = executor._run_step

    def slow(*arguments: Any) -> None:
        begun.set()
        assert gone.wait(60)
        run_step(*arguments)

    executor._run_step = slow
    with ThreadPoolExecutor(1, thread_name_prefix="caller") as pool:
        result = pool.submit(lambda: executor.run(**inputs))
        try:
            assert begun.wait(60)
            assert turn.what == "run"
            meanwhile()
        finally:
            executor._run_step = run_step
            gone.set()
        return result.result(60)


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("make", [oi.compile, oi.Simulator])
def test_other_methods_are_refused_while_a_thread_is_inside(make: Any, name: str) -> None:
    executor = make(COUNTED).make_executor()
    x = np.ones(3, np.float32)
    executor.run(d=5, x=x)

    def meanwhile() -> None:
        with pytest.raises(oi.InputError) as caught:
            USES[name](executor)
        assert caught.value.code == "OI0564"
        assert f"{name} while another thread (caller_0) is inside run" in caught.value.message
        assert "executor for each thread" in (caught.value.hint or "")

    # Other sizes: not the quick way.
    results = inside(executor, {"d": 2, "x": np.ones(4, np.float32)}, meanwhile)
    assert int(results["now"]) == 7
    assert executor.fetch("sum") == 7
    assert int(executor.run(d=1, x=x)["now"]) == 8


@pytest.mark.parametrize("make", [oi.compile, oi.Simulator])
def test_an_iteration_with_breakpoints_is_for_one_thread_at_a_time(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = make(COUNTED).make_executor()
    executor.insert(d=5, x=np.ones(3, np.float32))
    nodes = executor.iterate([oi.Breakpoint(op="add")])
    begun, gone = threading.Event(), threading.Event()
    update = Follower.update

    def slow(self: Follower, event: Any) -> None:
        begun.set()
        assert gone.wait(60)
        update(self, event)

    monkeypatch.setattr(Follower, "update", slow)
    with ThreadPoolExecutor(1, thread_name_prefix="looker") as pool:
        first = pool.submit(lambda: next(nodes).event.op_name)
        try:
            assert begun.wait(60)
            for use in (lambda: next(nodes), nodes.close):
                with pytest.raises(oi.InputError, match=r"thread \(looker_0\) is inside") as caught:
                    use()
                assert caught.value.code == "OI0564"
        finally:
            gone.set()
        assert first.result(60) == "add"
    # Nothing of it is lost: the rest of the step runs for whoever goes on.
    assert [node.event.op_name for node in nodes] == ["add"]
    assert executor.fetch("sum") == 5


def test_run_waits_and_ctrl_c_ends_the_waiting() -> None:
    executor: Any = oi.compile(COUNTED).make_executor()
    x = np.ones(3, np.float32)

    def meanwhile() -> None:
        with pytest.raises(KeyboardInterrupt):
            interrupted(lambda: executor.run(d=100, x=x), raises(KeyboardInterrupt))

    assert int(inside(executor, {"d": 2, "x": x}, meanwhile)["now"]) == 2
    assert int(executor.run(d=1, x=x)["now"]) == 3


def test_ctrl_c_at_any_moment_leaves_the_executor_usable() -> None:
    class Stop(Exception):
        pass

    def stop(number: int, frame: object) -> None:
        raise Stop

    counted: Any = oi.compile(COUNTED).make_executor(1)
    plain: Any = oi.compile(PRODUCT).make_executor(1)
    x, inputs = np.ones(3, np.float32), product_inputs(1, 1)
    (expected,) = wanted(oi.compile(PRODUCT), [inputs])
    for _ in range(2):
        assert same(plain.run(**inputs), expected)
        counted.run(d=1, x=x)
    before = signal.signal(signal.SIGALRM, stop)
    chance = np.random.default_rng(7)
    stopped = 0
    try:
        for _ in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, float(chance.uniform(2e-5, 6e-4)))
                for _ in range(10_000):
                    plain.run(**inputs)
                    counted.run(d=1, x=x)
                    counted.fetch("sum")
            except Stop:
                stopped += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    # Python drops what a handler raises inside of a finaliser.
    assert stopped >= 390
    with ThreadPoolExecutor(1) as pool:
        # A token that was lost would keep another thread out.
        assert same(pool.submit(lambda: plain.run(**inputs)).result(30), expected)
        now = int(pool.submit(lambda: counted.run(d=1, x=x)["now"]).result(30))
    assert now == counted.fetch("sum") == counted.fetch("calls")
    assert np.array_equal(counted.fetch("seen"), np.ones(now))
    assert not plain._beside.all


def test_ctrl_c_behind_any_call_of_a_turn_gives_it_back() -> None:
    """Python runs handlers of signals where a function begins, and behind calls."""

    class Stop(Exception):
        pass

    place = turns.alone.__code__.co_filename

    def is_stopped(work: Callable[[], object], after: int) -> bool:
        left = after

        def profile(frame: FrameType, event: str, _: object) -> None:
            nonlocal left
            near = [one for one in (frame, frame.f_back) if one is not None]
            if event in ("call", "c_return") and place in [one.f_code.co_filename for one in near]:
                left -= 1
                if left < 0:
                    sys.setprofile(None)
                    raise Stop

        sys.setprofile(profile)
        try:
            work()
        except Stop:
            return True
        finally:
            sys.setprofile(None)
        return False

    executor: Any = oi.Simulator(COUNTED).make_executor()
    given = {"d": 1, "x": np.ones(2, np.float32)}
    works: list[tuple[Callable[[], object], int]] = [
        (lambda: executor.run(**given), 3),
        (lambda: executor.insert(**given), 2),
        (lambda: executor.fetch("sum"), 2),
        (lambda: list(executor.iterate()), 8),
        (executor.step, 2),
        (executor.snapshot, 2),
        (executor.reset, 2),
    ]
    for work, least in works:
        stopped = 0
        executor.insert(**given)
        while is_stopped(work, stopped):
            stopped += 1
            assert executor._turn.slot == {0: True}
            executor.insert(**given)
        assert stopped >= least
        assert executor._turn.slot == {0: True}


def test_a_call_inside_of_a_call_is_refused() -> None:
    """A signal handler that uses the executor must not wait for itself."""
    executor: Any = oi.Simulator(COUNTED).make_executor()
    codes: list[str] = []

    def handler(number: int, frame: object) -> None:
        codes.append(code(lambda: executor.run(d=1, x=np.ones(2, np.float32))))
        codes.append(code(lambda: executor.fetch("sum")))

    run_step = executor._run_step

    def interrupted(*arguments: Any) -> None:
        signal.raise_signal(signal.SIGALRM)
        run_step(*arguments)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        executor._run_step = interrupted
        assert int(executor.run(d=4, x=np.ones(2, np.float32))["now"]) == 4
    finally:
        signal.signal(signal.SIGALRM, before)
    assert codes == ["OI0564", "OI0564"]


@pytest.mark.parametrize("make", [oi.compile, oi.Simulator])
def test_inputs_are_for_the_thread_that_inserted_them(make: Any) -> None:
    executor = make(COUNTED).make_executor()
    x = np.ones(3, np.float32)
    with ThreadPoolExecutor(1) as other:
        for _ in range(3):
            executor.insert(d=1, x=x)
            for work in (
                lambda: executor.run(d=100, x=x),
                lambda: executor.insert(d=100),
            ):
                assert other.submit(code, work).result() == "OI0565"
            executor.step()
        assert executor.fetch("sum") == 3
        # Handed over: the inputs are all of one thread.
        executor.insert(d=1, x=x)
        other.submit(executor.step).result()
        assert executor.fetch("sum") == 4
        other.submit(lambda: executor.insert(d=1, x=x)).result()
    # That thread has ended.
    executor.insert(d=2)
    executor.step()
    assert executor.fetch("sum") == 6


def test_a_run_beside_inserted_inputs_and_an_iteration() -> None:
    """Without state, `run` in another thread has nothing to do with either."""
    if available_cpus() < 2:
        pytest.skip("one processor, one context")
    program = oi.compile(PRODUCT)
    mine, others = product_inputs(1, 4), product_inputs(2, 6)
    right = wanted(program, [mine, others])
    executor = program.make_executor(1)
    with ThreadPoolExecutor(1) as other:
        executor.insert(**mine)
        assert same(other.submit(lambda: executor.run(**others)).result(), right[1])
        executor.step()
        assert same({"y": executor.fetch("y")}, {"y": right[0]["y"]})
        assert np.array_equal(other.submit(lambda: executor.fetch("y")).result(), right[1]["y"])
        executor.insert(**mine)
        nodes = executor.iterate()
        for node in nodes:
            assert same(other.submit(lambda: executor.run(**others)).result(), right[1])
            assert code(lambda: executor.run(**others)) == "OI0509"
            if node.event.op_name == "tanh":
                assert np.array_equal(node.fetch("y"), right[0]["y"])
        assert same({"y": executor.fetch("y")}, {"y": right[0]["y"]})


@pytest.mark.parametrize("make", [oi.compile, oi.Simulator])
def test_results_are_for_the_thread_that_ran_the_step(make: Any) -> None:
    executor = make(COUNTED).make_executor()
    x = np.ones(3, np.float32)
    executor.insert(d=1, x=x)
    executor.step()
    with ThreadPoolExecutor(1) as other:
        # Handed over: this thread has run nothing.
        assert other.submit(lambda: executor.fetch("now")).result() == 1
        other.submit(lambda: executor.run(d=10, x=x)).result()
        assert code(lambda: executor.fetch("now")) == "OI0565"
        assert executor.fetch("sum") == 11, "state is everybody's"
        assert other.submit(lambda: executor.fetch("now")).result() == 11
        executor.run(d=100, x=x)
        assert executor.fetch("now") == 111
        assert other.submit(code, lambda: executor.fetch("now")).result() == "OI0565"
        other.submit(executor.reset).result()
        assert code(lambda: executor.fetch("now")) == "OI0565"
        other.submit(lambda: executor.run(d=7, x=x)).result()
    # What a thread has left that has ended is for whoever comes.
    assert executor.fetch("now") == 7


def test_no_mix_of_inserts_steps_and_fetches_is_silent() -> None:
    """Threads that do what they must not: each call is right or raises."""
    with oi.compile(PRODUCT).make_executor(2) as executor:
        calls = [product_inputs(seed, 2) for seed in range(THREADS)]
        expected = wanted(oi.compile(PRODUCT), calls)

        def work(number: int) -> list[str]:
            codes: list[str] = []
            for _ in range(300):
                try:
                    executor.insert(**calls[number])
                    executor.step()
                    found = executor.fetch("y")
                except oi.InputError as error:
                    codes.append(error.code)
                    continue
                assert np.array_equal(found, expected[number]["y"])
                codes.append("")
            return codes

        codes = {code for part in at_once(work) for code in part}
    assert codes <= {"", "OI0564", "OI0565", "OI0505"}
    assert "" in codes


def test_close_is_refused_while_a_run_is_under_way() -> None:
    with oi.compile(PRODUCT).make_executor(1) as executor:
        done = threading.Event()
        inputs = product_inputs(1, 3000)

        def work() -> int:
            count = 0
            while not done.is_set():
                executor.run(**inputs)
                count += 1
            return count

        codes: list[str] = []
        with ThreadPoolExecutor(2) as pool:
            running = [pool.submit(work) for _ in range(2)]
            for _ in range(200):
                codes.append(code(executor.reset))
                time.sleep(0.001)
            done.set()
            assert all(part.result() > 0 for part in running)
        assert "OI0564" in codes
        executor.close()
        assert code(lambda: executor.run(**inputs)) == "OI0507"


def ends_well(work: Callable[[], bool]) -> bool:
    """Whether `work` gives True in a child process, soon."""
    child = os.fork()
    if not child:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_process_has_executors_that_nobody_is_inside_of() -> None:
    program, counted = oi.compile(PRODUCT), oi.compile(COUNTED).make_executor(1)
    inputs, x = product_inputs(1, 300), np.ones(200_000, np.float32)
    (expected,) = wanted(program, [inputs])
    executor = program.make_executor(2)
    counted.run(d=1, x=x)
    done = threading.Event()

    def work(run: Callable[[], object]) -> None:
        while not done.is_set():
            run()

    def child() -> bool:
        # Whoever was inside of the one with state has left it in the middle of a step, or not.
        left = code(lambda: counted.run(d=1, x=x))
        return left in ("", "OI0507") and all(
            same(executor.run(**inputs), expected) for _ in range(3)
        )

    assert ends_well(child)
    with ThreadPoolExecutor(3) as pool:
        for _ in range(2):
            pool.submit(work, lambda: executor.run(**inputs))
        pool.submit(work, lambda: counted.run(d=1, x=x))
        try:
            for _ in range(5):
                assert ends_well(child)
        finally:
            done.set()
    assert same(executor.run(**inputs), expected)


# Watching, loading and compiling


def values_seen(executor: Any, inputs: dict[str, Array]) -> list[Array]:
    executor.insert(**inputs)
    return [
        node.fetch(node.event.output[0])
        for node in executor.iterate()
        if node.event.kind == "OpExecute"
    ]


def test_watched_executors_in_threads() -> None:
    program = oi.compile(PRODUCT)
    calls = [product_inputs(seed, 3 + seed) for seed in range(THREADS)]
    right = [values_seen(program.make_executor(1), inputs) for inputs in calls]
    assert len(right[0]) == 3

    def work(number: int) -> None:
        executor = program.make_executor(1)
        for _ in range(25):
            found = values_seen(executor, calls[number])
            assert len(found) == len(right[number])
            assert all(np.array_equal(a, b) for a, b in zip(found, right[number]))

    at_once(work)


def test_watched_executors_in_turn() -> None:
    program = oi.compile(PRODUCT)
    pair: list[Any] = [program.make_executor(1) for _ in range(2)]
    calls = [product_inputs(seed, 3 + seed) for seed in range(2)]
    for executor, inputs in zip(pair, calls):
        executor.insert(**inputs)
    for first, second in zip(pair[0].iterate(), pair[1].iterate(), strict=True):
        if first.event.kind == "OpExecute":
            name = first.event.output[0]
            assert first.event.shapes[name][0] == 3
            assert second.event.shapes[name][0] == 4
            assert len(first.fetch(name)) == 3
            assert len(second.fetch(name)) == 4


def test_what_a_program_needs_is_made_once() -> None:
    program = oi.compile(PRODUCT)
    assert len({id(part) for part in at_once(lambda number: program.loaded())}) == 1
    assert len({id(part) for part in at_once(lambda number: program.observed())}) == 1
    assert len({id(part) for part in at_once(lambda number: program.traced())}) == 1
    graph = oi.graph(PRODUCT)
    assert len({id(part) for part in at_once(lambda number: graph.module)}) == 1


def test_programs_compiled_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENINFER_CACHE", "off")
    same_graph = oi.graph(PRODUCT)
    ways: list[dict[str, Any]] = [
        {},
        {"strict_math": True},
        {"observe": True},
        {"optimise": False},
        {"target": "generic"},
        {"sizes": {"N": 4}},
    ]

    def code_of(number: int) -> list[dict[str, bytes]]:
        text = PRODUCT.replace("64", str(32 + 16 * number))
        return [
            *(compile_program(same_graph, **way).parts for way in ways[number::2]),
            oi.compile(text).parts,
        ]

    alone = [code_of(number) for number in range(2)]
    for _ in range(sweep(1, 4)):
        assert at_once(code_of, 2) == alone


def test_a_program_compiled_and_simulated_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENINFER_CACHE", "off")
    graph = oi.graph(PRODUCT)
    inputs = product_inputs(1, 5)

    def work(number: int) -> Any:
        made = oi.compile(graph) if number % 2 else oi.Simulator(graph)
        return made.make_executor(1).run(**inputs)["y"]

    found = at_once(work)
    assert np.array_equal(found[0], found[2])
    assert np.array_equal(found[1], found[3])
    np.testing.assert_allclose(found[0], found[1], 1e-4, 1e-5)
