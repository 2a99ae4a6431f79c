"""Breakpoints, expressions and the `Stepper` on both executors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import openinfer
from openinfer.lowering.reference.outline import outline_of
from openinfer.runtime.breakpoints import Breakpoint
from openinfer.runtime.conditions import Condition, Index, take
from openinfer.runtime.errors import InputError, Location, StepError
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.outline import Position
from openinfer.runtime.stepping import Stepper
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.trace import Event

PROGRAM = """\
dynamic { x: f32[B, 4]; }
volatile { W: f32[4, 4] @init(0.5); y: f32[B, 4]; ok: bool; }
block entry {
  transfer x >> y;
  loop a (i in 0..2) {
    loop b (j in 0..3) {
      op add(y, x) >> y;
    }
    scope "s" { op relu(y) >> y; }
    branch body;
  }
  op is_finite(y) >> ok;
  branch ok body other;
  return y;
}
block body {
  assign t: f32[B, 4];
  op matmul(y, W) >> t;
  op add(t, y) >> y;
  return;
}
block other { op relu(y) >> y; return; }
"""

X = np.ones((2, 4), np.float32)
Make = Callable[[str], BaseExecutor]


def simulator(text: str) -> BaseExecutor:
    return openinfer.Simulator(openinfer.graph(text)).make_executor()


def compiled(text: str) -> BaseExecutor:
    return openinfer.compile(openinfer.graph(text)).make_executor(1)


needs_cpu = pytest.mark.skipif(cpu_unavailable_reason() is not None, reason="no cpu device here")
BOTH = pytest.mark.parametrize(
    "make", [simulator, pytest.param(compiled, marks=needs_cpu)], ids=["simulator", "cpu"]
)


@BOTH
def test_declarations_are_passed(make: Make) -> None:
    """`step` and `next` go over `assign`; a breakpoint at one stops all the same."""
    stepper = openinfer.Stepper(make(DECLARES))
    for move, ops in ((stepper.step, 3), (stepper.next, 2)):
        stepper.begin(x=np.ones(4, np.float32))
        kinds: list[str] = []
        while (stop := move()).reason != "end":
            assert stop.event is not None
            kinds.append(stop.event.kind)
        assert "Assign" not in kinds
        assert kinds.count("OpExecute") == ops  # `next` does not stop inside of the loop
    stepper.add(openinfer.Breakpoint(op="assign"))
    stepper.begin(x=np.ones(4, np.float32))
    stop = stepper.resume()
    assert stop.event is not None
    assert (stop.reason, stop.event.kind) == ("breakpoint", "Assign")
    assert stepper.until(openinfer.Breakpoint(op="neg")).event is not None


DECLARES = """
dynamic { x: f32[4]; }
volatile { y: f32[4]; }
block entry {
  assign a: f32[4];
  assign b: f32[4];
  op neg(x) >> a;
  loop l (i in 0..1) { op add(a, x) >> b; }
  c = op add(a, b);
  transfer c >> y;
  return y;
}
"""

# Expressions


class Values:
    """A scope of a few arrays."""

    arrays: dict[str, AnyArray] = {
        "y": np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32),
        "bad": np.asarray([1.0, np.nan, np.inf]),
        "n": np.asarray(3, np.int32),
        "small": np.asarray([1, 2], np.uint8),
        "flags": np.asarray([True, False]),
        "empty": np.zeros((0, 2), np.float32),
        "max": np.asarray(7),
    }

    def value(self, name: str, slots: Sequence[Index] | None) -> AnyArray:
        if name not in self.arrays:
            raise InputError("OI0501", f"no variable is named {name!r}")
        return take(self.arrays[name], slots or (), name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y.max > 3", True),
        ("max(y) == 6 and min(y) == 1", True),
        ("1 < y.mean < 4", True),
        ("y[1, 0..2].sum == 9", True),
        ("y[, 2].max == 6", True),
        ("y[-1, -1] == 6", True),
        ("y[0..][0, 1] == 2", True),
        ("y[..1].size == 3", True),
        ("y[:1].size == 3 and y[0, 1:].sum == 5 and y[:, 2].max == 6 and y[1:2].size == 3", True),
        ("y[n - 2, 0] == 4", True),
        ("y.shape[1] == 3 and y.rank == 2", True),
        ("any(isnan(bad)) and not all(isfinite(bad))", True),
        ("bad.nan == 1 and bad.inf == 1", True),
        ("y.nan + y.inf == 0", True),
        ("isnan(n) or isinf(n)", False),
        ("n == 3 or nothing", True),
        ("n != 3 and nothing", False),
        ("not not n == 3", True),
        ("(small[0] - small[1]) == -1", True),
        ("count(flags) * 2 + 1 == 3", True),
        ("flags.sum == 1", True),
        ("--n == 3 and -n == -3 and +n == 3", True),
        ("n // 2 == 1 and n % 2 == 1 and n / 2 == 1.5", True),
        ("abs(-2.5e0) == 2.5 and sqrt(9) == n", True),
        ("std(y) > 1.7", True),
        ("bad.max == 0", False),
        ("bad[1] != nan and bad[2] == inf and true != false", True),
        ("18446744073709551615 > 1 and 99999999999999999999 > 1", True),
        ("max == 7 and max(y) == 6 and y.max == 6", True),
        ("any(empty) or empty.size", False),
        ("1_000 == 1e3", True),
    ],
)
def test_expressions(text: str, expected: bool) -> None:
    assert Condition(text).holds(Values()) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("y >", "expected a value, the text ends"),
        ("y = 3", "comparing is written `==`"),
        ("y.mx > 3", "`.mx` is no property"),
        ("maximum(y)", "there is no function `maximum`"),
        ("(y > 3", "expected `)`"),
        ("y[0", "expected `,`"),
        ("y > 3 4", "`4` is left over"),
        ("__import__('os')", "means nothing here"),
        ("y.__class__", "is no property"),
        ("y ! 3", "'!' means nothing here"),
        ("not", "expected a value"),
        ("(" * 40 + "y" + ")" * 40, "nested deeper"),
        ("y" * 1001, "longer than"),
    ],
)
def test_expressions_that_do_not_parse(text: str, message: str) -> None:
    with pytest.raises(InputError, match="column") as caught:
        Condition(text)
    assert caught.value.code == "OI0561"
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y > 3", r"one value is needed where shape \[2, 3\] was found"),
        ("y[2, 0] > 3", r"index 2 of axis 0 is outside 0..2"),
        ("y[0, 0, 0] > 3", "3 indices were written"),
        ("y[0.5]", "an index is one integer"),
        ("min(empty) > 0", "min of an empty value"),
        ("(y + bad[0..2]).max > 0", "could not be broadcast"),
        ("y and n", "one value is needed"),
    ],
)
def test_expressions_without_a_value(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Condition(text).holds(Values())
    assert caught.value.code == "OI0562"
    assert f"`{text}`" in caught.value.message


# Breakpoints of `iterate`


def hits(executor: BaseExecutor, *breakpoints: Breakpoint) -> list[Event]:
    executor.insert(x=X)
    return [node.event for node in executor.iterate(breakpoints)]


@BOTH
def test_break_at_an_op_with_a_condition(make: Make) -> None:
    with make(PROGRAM) as executor:
        executor.insert(x=X)
        seen: list[float] = []
        for node in executor.iterate([Breakpoint(op="add", when="y.max > 10")]):
            assert node.event.op_name == "add"
            seen.append(float(np.asarray(node.fetch("y")).max()))
        assert seen
        assert all(value > 10 for value in seen)
        assert np.asarray(executor.fetch("y")).max() == 135


@BOTH
def test_break_at_a_line(make: Make) -> None:
    with make(PROGRAM) as executor:
        for line in (12, "12", "<graph>:12"):
            found = hits(executor, Breakpoint(line=line))
            assert {event.op_name for event in found} == {"is_finite"}
        assert not hits(executor, Breakpoint(line=12, when="y.max < 0"))
        assert executor.finished_steps == 4


@BOTH
def test_break_at_a_node(make: Make) -> None:
    with make(PROGRAM) as executor:
        found = hits(executor, Breakpoint(node=11, once=True))
        assert [event.op_name for event in found] == ["matmul"]


@BOTH
def test_break_where_a_condition_becomes_true(make: Make) -> None:
    with make(PROGRAM) as executor:
        executor.insert(x=X)
        nodes = [
            (node.event.op_name, float(np.asarray(node.fetch("y")).max()))
            for node in executor.iterate([Breakpoint(when="y.max > 40")])
        ]
        assert nodes == [("add", 45.0)]


@BOTH
def test_a_step_can_be_left_at_a_breakpoint(make: Make) -> None:
    with make(PROGRAM) as executor:
        executor.insert(x=X)
        nodes = executor.iterate([Breakpoint(op="relu")])
        assert next(nodes).event.op_name == "relu"
        nodes.close()
        assert executor.finished_steps == 0
        assert np.asarray(executor.run(x=X)["y"]).max() == 135


@BOTH
def test_break_at_a_block(make: Make) -> None:
    executor = make(PROGRAM)
    found = hits(executor, Breakpoint(block="body"))
    assert [event.kind for event in found] == ["BlockEnter"] * 3
    assert len(hits(executor, Breakpoint(block="body", op="add"))) == 3
    assert not hits(executor, Breakpoint(block="other"))
    assert len(hits(executor, Breakpoint(line=3))) == 1


@BOTH
def test_break_at_other_forms(make: Make) -> None:
    executor = make(PROGRAM)
    for form, count in (("branch", 3), ("loop", 3), ("transfer", 1), ("return", 4), ("assign", 3)):
        assert len(hits(executor, Breakpoint(op=form))) == count, form


@BOTH
def test_loop_indices_and_counters_in_conditions(make: Make) -> None:
    executor = make(PROGRAM)
    found = hits(executor, Breakpoint(op="add", when="i == 1 and j == 2"))
    assert [event.block_name for event in found] == ["entry"]
    assert not hits(executor, Breakpoint(op="add", when="i == 2"))
    # The third step of this executor is the step 2.
    assert not hits(executor, Breakpoint(when="step == 1"))
    assert [e.kind for e in hits(executor, Breakpoint(when="step == 3"))] == ["BlockEnter"]
    assert len(hits(executor, Breakpoint(when="node == 11 and B == 2"))) == 3
    executor.reset()
    assert executor.finished_steps == 0


def test_variables_hide_counters() -> None:
    text = "dynamic { step: i32; } volatile { y: i32; }\nblock entry { op add(step, step) >> y; return; }"
    executor = simulator(text)
    executor.insert(step=np.asarray(4, np.int32))
    assert len(list(executor.iterate([Breakpoint(op="add", when="step == 4")]))) == 1


@BOTH
def test_volatile_values_before_they_are_written(make: Make) -> None:
    """A step resets them, also where the step before has left another value."""
    with make(PROGRAM) as executor:
        executor.run(x=X)
        executor.insert(x=X)
        values = {
            node.event.op_name or node.event.kind: bool(np.asarray(node.fetch("ok")))
            for node in executor.iterate([Breakpoint(node=0), Breakpoint(op="is_finite")])
        }
        assert values == {"Transfer": False, "is_finite": True}


@BOTH
def test_the_reset_of_a_new_step_is_no_change(make: Make) -> None:
    with make(PROGRAM) as executor:
        executor.run(x=X)
        stepper = Stepper(executor)
        stepper.watch("ok")
        stepper.begin(x=X)
        stop = stepper.resume()
        assert stop.reason == "watch"
        assert stop.event is not None
        assert stop.event.op_name == "is_finite"


@pytest.mark.parametrize(
    ("breakpoint", "code", "message"),
    [
        ({"block": "bodi"}, "OI0563", "the program has no block bodi"),
        ({"op": "matmull"}, "OI0563", "did you mean matmul?"),
        ({"node": 99}, "OI0563", "there is no node 99"),
        ({"line": 2}, "OI0563", "nothing runs at line 2"),
        ({"line": "other.oi:12"}, "OI0563", "nothing runs at line other.oi:12"),
        ({"when": "z.max > 3"}, "OI0562", "no variable, size or loop index is named z"),
        ({"op": "add", "when": "k == 3"}, "OI0562", "is named k"),
    ],
)
def test_breakpoints_that_do_not_fit(
    breakpoint: dict[str, str | int], code: str, message: str
) -> None:
    executor = simulator(PROGRAM)
    with pytest.raises(InputError) as caught:
        executor.iterate([Breakpoint(**breakpoint)])  # pyright: ignore[reportArgumentType]
    assert caught.value.code == code
    assert message in str(caught.value)
    assert executor.run(x=X)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs a block, op, line, node or condition"),
        ({"line": "twelve"}, "'twelve' is no line"),
        ({"line": 0}, "is no line"),
        ({"node": -1}, "nodes are numbered from 0"),
    ],
)
def test_impossible_breakpoints(arguments: dict[str, str | int], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Breakpoint(**arguments)  # pyright: ignore[reportArgumentType]
    assert caught.value.code == "OI0563"


def test_an_undecidable_condition_abandons_the_step() -> None:
    executor = simulator(PROGRAM)
    executor.insert(x=X)
    nodes = executor.iterate([Breakpoint(op="add", when="y > 3")])
    with pytest.raises(InputError, match="one value is needed"):
        list(nodes)
    assert executor.finished_steps == 0
    assert executor.run(x=X)


# The stepper


@BOTH
def test_step_goes_into_and_next_goes_over(make: Make) -> None:
    stepper = Stepper(make(PROGRAM))
    stepper.begin(x=X)
    kinds: list[str] = []
    while (stop := stepper.next()).reason != "end":
        assert stop.event is not None
        kinds.append(stop.event.kind)
    assert kinds == [
        "BlockEnter", "Transfer", "Loop", "OpExecute", "Branch", "Return", "BlockExit",
    ]  # fmt: skip
    assert stepper.step_number == 1
    stepper.begin(x=X)
    stop = stepper.step(5)
    assert stop.event is not None
    assert stop.event.op_name == "add"
    assert stepper.position.indices == {"i": 0, "j": 0}
    assert stepper.position.depth == (1, 2)


@BOTH
def test_finish_leaves_loops_and_blocks(make: Make) -> None:
    stepper = Stepper(make(PROGRAM))
    stepper.begin(x=X)
    stepper.until(Breakpoint(op="add"))
    assert stepper.position.depth == (1, 2)
    stop = stepper.finish()
    assert stop.event is not None
    assert stop.event.op_name == "relu"
    stepper.until(Breakpoint(op="matmul"))
    assert [frame.block for frame in stepper.position.frames] == ["entry", "body"]
    stop = stepper.finish()
    assert stop.event is not None
    assert (stop.event.kind, stop.event.block_name) == ("BlockExit", "body")
    assert stepper.end().reason == "end"


@BOTH
def test_resume_until_and_end(make: Make) -> None:
    with make(PROGRAM) as executor:
        stepper = Stepper(executor, [Breakpoint(op="is_finite")])
        stepper.begin(x=X)
        stop = stepper.until("y.max > 10")
        assert stop.reason == "step"
        assert stepper.evaluate("y.max") == 12
        assert np.array_equal(np.asarray(stepper.fetch("x")), X)
        stop = stepper.resume()
        assert stop.reason == "breakpoint"
        assert [b.op for b in stop.breakpoints] == ["is_finite"]
        assert stepper.active
        assert stepper.end().reason == "end"
        assert not stepper.active
        assert np.asarray(stepper.fetch("y")).max() == 135
        with pytest.raises(InputError, match="no step is active"):
            stepper.step()


@BOTH
def test_watch(make: Make) -> None:
    with make(PROGRAM) as executor:
        stepper = Stepper(executor)
        stepper.begin(x=X)
        stepper.until(Breakpoint(op="relu"))
        stepper.watch("y.max")
        stop = stepper.resume()
        assert stop.reason == "watch"
        (change,) = stop.changes
        assert change.text == "y.max"
        assert change.before is not None
        assert change.after is not None
        assert (change.before.item(), change.after.item()) == (4, 12)
        stepper.watches.clear()
        assert stepper.resume().reason == "end"


def test_a_nan_that_stays_is_no_change() -> None:
    executor = simulator(PROGRAM)
    stepper = Stepper(executor)
    stepper.begin(x=np.full((2, 4), np.nan, np.float32))
    stepper.until(Breakpoint(op="add"))
    stepper.watch("y")
    stop = stepper.resume()
    assert stop.reason == "end"


def test_once_interrupt_and_abandon() -> None:
    stepper = Stepper(simulator(PROGRAM), [Breakpoint(op="add", once=True)])
    stepper.begin(x=X)
    assert stepper.resume().reason == "breakpoint"
    assert stepper.breakpoints == []
    stepper.interrupt()
    assert stepper.resume().reason == "interrupt"
    with pytest.raises(InputError, match="being iterated"):
        stepper.begin(x=X)
    stepper.abandon()
    assert not stepper.active
    stepper.begin(x=X)
    assert stepper.resume().reason == "end"
    assert stepper.step_number == 1


def test_conditions_that_cannot_be_decided_stop_with_the_reason() -> None:
    stepper = Stepper(simulator(PROGRAM), [Breakpoint(op="add", when="y > 3")])
    stepper.begin(x=X)
    stop = stepper.resume()
    assert stop.reason == "breakpoint"
    assert "one value is needed" in stop.problems[0]
    assert stepper.active


def test_values_come_and_go() -> None:
    stepper = Stepper(simulator(PROGRAM))
    with pytest.raises(InputError, match="lives only inside a step"):
        stepper.evaluate("t")
    stepper.begin(x=X)
    stepper.until(Breakpoint(op="matmul"))
    assert stepper.evaluate("t.shape").tolist() == [2, 4]
    assert stepper.evaluate("t[0, 1..3]").tolist() == [8, 8]
    with pytest.raises(InputError, match="no loop over i is running"):
        stepper.evaluate("i")
    stepper.end()
    with pytest.raises(InputError, match="lives only inside a step"):
        stepper.evaluate("t")


@BOTH
def test_a_failing_step_is_over(make: Make) -> None:
    text = """\
dynamic { i: i32; x: f32[4]; }
volatile { y: f32[]; z: f32[4]; }
block entry {
  op relu(x) >> z;
  op gather(z, i, axis=0) >> y;
  return y;
}
"""
    with make(text) as executor:
        stepper = Stepper(executor)
        x = np.arange(4, dtype=np.float32)
        stepper.begin(i=np.asarray(7, np.int32), x=x)
        with pytest.raises(StepError, match="node 1"):
            stepper.resume()
        assert not stepper.active
        assert stepper.step_number == 0
        stepper.begin(i=np.asarray(3, np.int32), x=x)
        assert stepper.resume().reason == "end"
        assert stepper.fetch("y") == 3


@BOTH
def test_members_of_prefix_tables(make: Make) -> None:
    text = """\
dynamic { x: f32[2]; }
volatile { y: f32[2]; }
block entry { loop l (l in 0..2) { op add(y, x) >> y; } return y; }
"""
    with make(text) as executor:
        stepper = Stepper(executor)
        stepper.begin(x=np.ones(2, np.float32))
        stop = stepper.until("y.max >= 2")
        assert stop.reason == "step"
        assert stepper.evaluate("y[0..1]").tolist() == [2]


def test_state_is_visible_while_stepping() -> None:
    text = """\
dynamic { x: f32[4]; }
volatile { y: f32[2, 4]; }
persistent { n: i32 @init(0); K(l, t): f32[4] @table; A(i, j): f32[2, 3] @auto_dim(i, j); }
block entry {
  cache.increment n;
  loop l (l in 0..2) { cache.write x >> K[l, n - 1]; }
  cache.read K[, 0] >> y;
  return y;
}
"""
    executor = simulator(text)
    stepper = Stepper(executor, [Breakpoint(op="cache.write", when="l == 1")])
    x = np.arange(4, dtype=np.float32)
    stepper.begin(x=x)
    stop = stepper.resume()
    assert stop.event is not None
    assert stop.event.kind == "CacheWrite"
    assert stepper.evaluate("n") == 1
    assert stepper.evaluate("K[1, 0]").tolist() == x.tolist()
    assert stepper.evaluate("K[0, n - 1, 1..3]").tolist() == [1, 2]
    assert stepper.evaluate("K.shape").tolist() == [2, 1, 4]
    assert stepper.evaluate("A[1, 2]") == 0
    assert stepper.evaluate("A.shape").tolist() == [2, 3]
    stepper.abandon()
    assert executor.fetch("n") == 0


def test_yield_and_await_are_events() -> None:
    text = """\
dynamic { x: f32[4]; }
volatile { a: f32[4]; y: f32[4]; }
block entry {
  op relu(x) >> a;
  yield a;
  await a;
  op add(a, x) >> y;
  return y;
}
block worker { await a; op add(a, x) >> a; yield a; }
"""
    executor = simulator(text)
    x = np.ones(4, np.float32)
    executor.insert(x=x)
    nodes = executor.iterate([Breakpoint(op="yield"), Breakpoint(op="await")])
    assert sorted((n.event.block_name, n.event.kind) for n in nodes) == [
        ("entry", "Await"), ("entry", "Yield"), ("worker", "Await"), ("worker", "Yield"),
    ]  # fmt: skip
    assert np.asarray(executor.fetch("y")).tolist() == [3, 3, 3, 3]


# Positions of streams that leave nodes out


def test_position_without_loops_and_blocks_told() -> None:
    """Only computing nodes are told: the outline and the order give turns and stack."""
    outline = outline_of(openinfer.graph(PROGRAM).module)
    add, relu, matmul, finite = (outline.nodes[i] for i in (3, 5, 11, 7))
    position = Position(outline, lambda name: None)
    seen: list[tuple[list[str], dict[str, int | None]]] = []
    for node in [add, add, add, relu, matmul, add, add, add, relu, matmul, finite, matmul]:
        position.update(Event(node.kind, node.block, node.index, node.uuid, node.op))
        seen.append(([frame.block for frame in position.frames], position.indices))
    inner = [(["entry"], {"i": i, "j": j}) for i in (0, 1) for j in (0, 1, 2)]
    assert seen == [
        *inner[:3],
        (["entry"], {"i": 0}),
        (["entry", "body"], {}),
        *inner[3:],
        (["entry"], {"i": 1}),
        (["entry", "body"], {}),
        (["entry"], {}),
        (["entry", "body"], {}),
    ]


def test_position_without_an_outline() -> None:
    position = Position(None, lambda name: None)
    position.update(Event("OpExecute", "body", 3, "u", "add"))
    assert [frame.block for frame in position.frames] == ["entry", "body"]
    assert position.indices == {}
    assert position.depth == (2, 0)


def test_outline() -> None:
    outline = outline_of(openinfer.graph(PROGRAM).module)
    assert outline.loop_names == {"i", "j"}
    assert {"add", "loop", "scope", "branch", "transfer"} <= outline.forms
    assert outline.blocks["body"] == Location("<graph>", 16, 1)
    assert outline.nodes[3].loops == (1, 2)
    assert [outline.nodes[p].text for p in outline.nodes[5].parents] == [
        "loop a (i in 0..2)",
        'scope "s"',
    ]
    assert outline.lines()[:3] == [3, 4, 5]


@needs_cpu
def test_a_loaded_program_has_no_outline() -> None:
    program = openinfer.compile(openinfer.graph(PROGRAM))
    assert program.outline() is not None
    program.make_outline = None
    assert program.outline() is None
