"""What every executor must do: the same calls on the simulator and on each device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openinfer as oi

DEVICES = ("simulator", "cpu", "unseen", "null", "vulkan")
"""`unseen` is the CPU with a memory that the host does not see (`unseen.py`). `null` runs no kernels: what
they compute has the right shape and dtype, and no right values."""

PROGRAM = """
dynamic { x: f32[B, 4]; k: i64[B]; }
constant { two: f32 @init(2.0); table: f32[3, 4] @init(0.5); }
volatile { y: f32[B, 4]; untouched: f32[4] @init(7.0); }
block entry {
    assign t: f32[B, 4];
    assign g: f32[B, 4];
    op mul(x, two) >> t;
    op gather(table, k) >> g;
    op add(t, g) >> y;
    loop twice (i in 0..2) { op add(y, y) >> y; }
    return t;
}
"""


class Make:
    """Makes executors of program texts on one device."""

    def __init__(self, device: str) -> None:
        self.device = device

    def __call__(self, text: str) -> Any:
        if self.device == "simulator":
            return oi.Simulator(text).make_executor()
        device = self.device if self.device in ("null", "vulkan") else "cpu"
        return oi.compile(text, device=device).make_executor()

    def same(self, found: Any, expected: Any) -> bool:
        """Whether a value is the expected one, as far as the device computes values."""
        if self.device == "null":
            return np.shape(found) == np.shape(expected)
        return np.array_equal(found, expected)


@pytest.fixture(params=DEVICES)
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "unseen":
        request.getfixturevalue("unseen_memory")
    if request.param == "vulkan":
        request.getfixturevalue("everything_on_vulkan")
    return Make(request.param)


def _inputs(batch: int = 3) -> dict[str, Any]:
    x = np.arange(batch * 4, dtype=np.float32).reshape(batch, 4)
    return {"x": x, "k": np.zeros(batch, np.int64)}


def _expected(inputs: dict[str, Any]) -> Any:
    return (inputs["x"] * 2 + np.float32(0.5)) * 4


def test_insert_step_fetch(make: Make) -> None:
    executor = make(PROGRAM)
    inputs = _inputs()
    executor.insert(**inputs)
    executor.step()
    assert make.same(executor.fetch("y"), _expected(inputs))
    assert make.same(executor.fetch("untouched"), np.full(4, 7, np.float32))
    assert executor.fetch("two") == 2


def test_run_gives_the_returned_values(make: Make) -> None:
    inputs = _inputs()
    result = make(PROGRAM).run(**inputs)
    assert list(result) == ["t"]
    assert make.same(result["t"], inputs["x"] * 2)


def test_numbers_are_operands(make: Make) -> None:
    text = """
dynamic { x: f32[B, 4]; k: i64[B]; }
block entry {
    y = op fma(x, 0.5, 1);
    y = op max(y, 2);
    n = op sub(1, k);
    return y, n;
}
"""
    inputs = _inputs()
    result = make(text).run(**inputs)
    assert make.same(result["y"], np.maximum(inputs["x"] / 2 + 1, 2))
    assert make.same(result["n"], np.ones(3, np.int64))


def test_sizes_may_change_between_steps(make: Make) -> None:
    executor = make(PROGRAM)
    for batch in (1, 5, 2, 5):
        inputs = _inputs(batch)
        executor.run(**inputs)
        assert make.same(executor.fetch("y"), _expected(inputs))


def test_fetch_copies_unless_told_otherwise(make: Make) -> None:
    executor = make(PROGRAM)
    executor.run(**_inputs())
    first = executor.fetch("y")
    first[:] = -1
    assert not np.array_equal(executor.fetch("y"), first)


def test_inputs_are_cleared_by_a_step(make: Make) -> None:
    executor = make(PROGRAM)
    executor.run(**_inputs())
    with pytest.raises(oi.InputError, match="not set: x"):
        executor.step()


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"z": np.zeros((3, 4), np.float32)}, "no variable is named 'z'"),
        ({"y": np.zeros((3, 4), np.float32)}, "volatile"),
        ({"x": np.zeros((3, 4), np.float64)}, "expected dtype f32, found float64"),
        ({"x": np.zeros((3, 5), np.float32)}, "dimension 1 is 5"),
        ({"x": np.zeros(4, np.float32)}, "dimensions"),
        ({"x": np.zeros((2, 4), np.float32), "k": np.zeros(3, np.int64)}, "B = 2"),
    ],
)
def test_wrong_inputs_are_refused_and_the_executor_stays_usable(
    make: Make, wrong: dict[str, Any], match: str
) -> None:
    executor = make(PROGRAM)
    with pytest.raises(oi.InputError, match=match):
        executor.insert(**wrong)
    inputs = _inputs()
    executor.run(**inputs)
    assert make.same(executor.fetch("y"), _expected(inputs))


def test_a_failing_step_names_node_index_and_bound(make: Make) -> None:
    executor = make(PROGRAM)
    inputs = _inputs()
    with pytest.raises(oi.StepError, match=r"gather.*9.*3"):
        executor.run(x=inputs["x"], k=np.array([0, 9, 1]))
    executor.run(**inputs)
    assert make.same(executor.fetch("y"), _expected(inputs))


def test_iterate_shows_every_node(make: Make) -> None:
    executor = make(PROGRAM)
    inputs = _inputs()
    executor.insert(**inputs)
    seen: list[str] = []
    for node in executor.iterate():
        if node.event.kind != "OpExecute":
            continue
        seen.append(node.event.op_name)
        if node.event.op_name == "mul":
            assert make.same(node.fetch("t"), inputs["x"] * 2)
    assert seen == ["mul", "gather", "add", "add", "add"]
    assert make.same(executor.fetch("y"), _expected(inputs))


def test_strided_and_fortran_inputs_mean_what_they_show(make: Make) -> None:
    executor = make(PROGRAM)
    wide = np.arange(24, dtype=np.float32).reshape(3, 8)
    for x in (wide[:, ::2], np.asfortranarray(wide[:, :4]), wide[::-1, 4:]):
        inputs = {"x": x, "k": np.zeros(3, np.int64)}
        executor.run(**inputs)
        assert make.same(executor.fetch("y"), _expected(inputs))


def test_a_closed_executor_says_so(make: Make) -> None:
    executor = make(PROGRAM)
    with executor:
        executor.run(**_inputs())
    with pytest.raises(oi.InputError, match="closed"):
        executor.run(**_inputs())


def test_executors_share_nothing(make: Make) -> None:
    first, second = make(PROGRAM), make(PROGRAM)
    first.run(**_inputs(2))
    second.run(**_inputs(3))
    assert make.same(first.fetch("y"), _expected(_inputs(2)))


COUNTING = """
dynamic { x: f32[2]; }
persistent { n: i32; K(t): f32[2] @table; }
block entry {
    assign y: f32[_, 2];
    loop l (i in 0..3) { cache.write x >> K[n]; cache.increment n; }
    cache.read K[] >> y;
    return y;
}
"""


def test_an_iterated_step_is_not_disturbed(make: Make) -> None:
    executor = make(COUNTING)
    x = np.array([1, 2], np.float32)
    executor.run(x=x)
    before = executor.snapshot()
    executor.insert(x=-x)
    for node in executor.iterate():
        if node.event.kind != "CacheIncrement":
            continue
        disturbances: list[Callable[[], object]] = [
            executor.reset,
            executor.snapshot,
            executor.step,
            lambda: executor.restore(before),
            lambda: executor.insert(x=x),
            lambda: executor.run(x=x),
            lambda: next(executor.iterate()),
        ]
        for disturb in disturbances:
            with pytest.raises(oi.InputError) as caught:
                disturb()
            assert caught.value.code == "OI0509"
    assert make.same(executor.fetch("y"), [*[x] * 3, *[-x] * 3])
    assert executor.fetch("n") == 6
    executor.restore(before)
    assert executor.fetch("n") == 3
    executor.reset()
    assert make.same(executor.run(x=x)["y"], [x] * 3)


def test_an_iteration_ends_with_its_executor(make: Make) -> None:
    executor = make(COUNTING)
    executor.insert(x=np.ones(2, np.float32))
    nodes = executor.iterate()
    for _ in range(4):
        next(nodes)
    executor.close()
    with pytest.raises(oi.InputError, match="closed"):
        next(nodes)
    with pytest.raises(oi.InputError, match="closed"):
        executor.fetch("n")


def test_what_a_step_has_not_written_yet_has_its_first_content(make: Make) -> None:
    executor = make(
        """
        dynamic { x: f32[N]; }
        constant { c: f32[2] @init(4); }
        volatile { v: f32[N] @init(5); }
        persistent { p: f32[N] @init(6); }
        block entry {
            assign t: f32[N]; assign q: i4[3];
            op add(t, x) >> t;
            branch later;
            return t;
        }
        block later { assign s: f32[2, N]; op neg(t) >> t; op add(s, t) >> s; return; }
        """
    )
    expected: dict[str, Any] = {"t": [0] * 3, "s": [[0] * 3] * 2}
    others: dict[str, Any] = {"q": [0] * 3, "v": [5] * 3, "p": [6] * 3, "c": [4] * 2}
    written: dict[str, tuple[str, Any]] = {
        "add(t, x)": ("t", [1] * 3),
        "neg(t)": ("t", [-1] * 3),
        "add(s, t)": ("s", [[-1] * 3] * 2),
    }
    executor.insert(x=np.ones(3, np.float32))
    for node in executor.iterate():
        for call, (name, values) in written.items():
            if call in node.event.description:
                expected[name] = values
        for name, values in {**expected, **others}.items():
            found = node.fetch(name)
            found = found if isinstance(found, np.ndarray) else found.values()
            assert make.same(found, values), (node.event.description, name)
    assert expected["s"] == [[-1] * 3] * 2
    assert executor.fetch("p").tolist() == [6] * 3
    with pytest.raises(oi.InputError, match="temporary"):
        executor.fetch("q")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (5, "OI0501"),
        (None, "OI0501"),
        ("", "OI0501"),
        ("nothing[0]", "OI0501"),
        ("n[0]", "OI0547"),
        ("K[", "OI0547"),
        ("K[0", "OI0547"),
        ("K[a]", "OI0547"),
        ("K[0..1]", "OI0547"),
        ("K[0, 0]", "OI0547"),
        ("K[-1]", "OI0547"),
        ("K[3]", "OI0547"),
        ("K[99999999999999999999]", "OI0547"),
    ],
)
def test_names_that_are_none_are_refused_alike(make: Make, name: Any, code: str) -> None:
    executor = make(COUNTING)
    executor.run(x=np.ones(2, np.float32))
    with pytest.raises(oi.InputError) as caught:
        executor.fetch(name)
    assert caught.value.code == code
    assert caught.value.hint
    assert executor.fetch("K[]").shape == executor.fetch("K").shape == (3, 2)
    assert executor.fetch("K[2]").tolist() == [1, 1]


def test_other_things_than_breakpoints_are_refused(make: Make) -> None:
    executor = make(COUNTING)
    executor.insert(x=np.ones(2, np.float32))
    mistake: Any = "cache.write"
    with pytest.raises(oi.InputError) as caught:
        list(executor.iterate([mistake]))
    assert caught.value.code == "OI0525"
    with pytest.raises(oi.InputError) as caught:
        executor.save_trace(None)
    assert caught.value.code == "OI0554"


def test_consumers_see_what_was_yielded_from_their_first_event_on(make: Make) -> None:
    executor = make(
        """
        dynamic { x: f32[2]; }
        volatile { m: f32; }
        block entry {
            assign a: f32[2]; assign b: f32[2];
            transfer x >> a;
            yield a, b;
            await a, b;
            op add(a, b) >> b;
            return b, m;
        }
        block first { await a, b; op add(a, a) >> a; op add(b, a) >> b; yield a, b; }
        block second { await a; op max_axis(a, axes=[0]) >> m; yield a; }
        """
    )
    executor.insert(x=np.array([1, 2], np.float32))
    seen: dict[str, list[list[float]]] = {"first": [], "second": [], "entry": []}
    for node in executor.iterate():
        seen[node.event.block_name].append(node.fetch("a").tolist())
    assert seen["second"] == [[1, 2]] * 5
    assert seen["first"] == [[1, 2]] * 2 + [[2, 4]] * 4
    assert seen["entry"][-3:] == [[2, 4]] * 3
    assert make.same(executor.fetch("b"), [4, 8])
    assert make.same(executor.fetch("m"), 2)
