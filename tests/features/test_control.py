"""Blocks, statements, loops and branches, forms of the first edition: rows 24 to 37."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from both import Make, close, equal, package, refused

import openinfer as oi

X = np.array([1, -2, 3], np.float32)


def test_blocks_run_in_order_from_entry(make: Make) -> None:
    executor = make(
        """
        block late { op mul(y, three) >> y; return; }
        constant { three: f32 @init(3); }
        block entry { op add(y, y) >> y; branch late; op add(y, x) >> y; return y; }
        dynamic { x: f32[3]; }
        volatile { y: f32[3] @init(1); }
        """
    )
    equal(executor.run(x=X)["y"], 6 + X)
    executor.insert(x=X)
    events = [node.event for node in executor.iterate()]
    assert [(e.kind, e.block_name) for e in events if e.kind.startswith("Block")] == [
        ("BlockEnter", "entry"),
        ("BlockEnter", "late"),
        ("BlockExit", "late"),
        ("BlockExit", "entry"),
    ]
    ran = [(e.block_name, e.op_name) for e in events if e.kind == "OpExecute"]
    assert ran == [("entry", "add"), ("late", "mul"), ("entry", "add")]
    refused("block start { return; }", "OI0213")


TEMPORARIES = """
dynamic { x: f32[3]; again: bool; }
block entry {
    assign t: f32[3];
    assign n: i32;
    op add(t, x) >> t;
    branch again more done;
    return t;
}
block more { assign own: f32[3]; op add(own, t) >> own; op add(own, t) >> t; return; }
block done { return; }
"""


def test_temporaries_are_zero_in_every_step_and_seen_by_all_blocks(make: Make) -> None:
    executor = make(TEMPORARIES)
    for _ in range(2):
        equal(executor.run(x=X, again=True)["t"], 2 * X)
        equal(executor.run(x=X, again=False)["t"], X)
    with pytest.raises(oi.InputError, match="own"):
        executor.fetch("own")
    refused("block entry { op neg(t) >> t; assign t: f32; return; }", "OI0211")


def test_ops_take_operands_settings_and_outputs(make: Make) -> None:
    executor = make(
        """
        dynamic { x: f32[3]; limit: f32; }
        block entry {
            assign y: f32[3]; assign a: f32[1]; assign b: f32[2];
            op relu(x, negative_slope=0.5, clamp_max=limit,) >> y;
            op split(y axis=-1 sizes=[1, 2]) >> a, b;
            return y, a, b;
        }
        """
    )
    found = executor.run(x=X, limit=2.5)
    equal(found["y"], [1, -1, 2.5])
    equal(found["a"], [1])
    equal(found["b"], [-1, 2.5])
    finding = refused("block entry { assign t: f32; op rellu(t) >> t; return; }", "OI0214")
    assert finding.hint is not None
    assert "relu" in finding.hint
    finding = refused(
        "block entry { assign t: f32; op relu(t, slope=1.0) >> t; return; }", "OI0215"
    )
    assert finding.hint is not None
    assert "negative_slope" in finding.hint


def test_first_edition_sections_and_definitions(make: Make, tmp_path: Path) -> None:
    model = package(
        tmp_path,
        sizevars={"num_layers": 2},
        metadata={"scale": 2.5},
        tensors={"W.0": np.eye(3, dtype=np.float32), "W.1": 2 * np.eye(3, dtype=np.float32)},
    )
    executor = make(
        """
        let (g, y) = graph! {
            model: model,
            inputs { x : f32 [1, 3]; }
            outputs { y : f32 [1, 3]; }
            block entry {
                h = op add(a=x, b=x);
                loop layers (l in 0..num_layers) {
                    block body {
                        h = op matmul(a=h, b=model[fmt("W.{l}")]);
                        h = op relu(x=h);
                    }
                }
                y = op mul(a=h, b=model["scale"]);
                return y;
            }
        };
        """,
        model,
    )
    found = executor.run(x=X[None])
    assert list(found) == ["y"]
    close(found["y"], np.maximum(X, 0)[None] * 10)


def test_every_block_ends_in_a_terminator(make: Make) -> None:
    finding = refused("block entry { assign t: f32; }", "OI0240")
    assert finding.hint is not None
    executor = make(
        """
        dynamic { x: f32[3]; }
        volatile { y: f32[3]; }
        block entry { branch set; loop l (i in 0..3) { branch set; return; } op neg(y) >> y; return; }
        block set { op add(y, x) >> y; return; op neg(y) >> y; return; }
        """
    )
    executor.insert(x=X)
    executor.step()
    equal(executor.fetch("y"), 2 * X)


def test_entry_returns_values_by_name(make: Make) -> None:
    text = """
    dynamic { x: f32[3]; early: bool; }
    block entry {
        assign a: f32[3]; assign b: f32[3];
        op neg(x) >> a;
        loop once (i in 0..2) { op add(b, a) >> b; branch early out stay; }
        return b, a;
    }
    block out { return; }
    block stay { op add(b, x) >> b; return; }
    """
    executor = make(text)
    found = executor.run(x=X, early=True)
    assert list(found) == ["b", "a"]
    equal(found["a"], -X)
    equal(found["b"], -2 * X)
    refused(text.replace("block out { return; }", "block out { return a; }"), "OI0242")


def test_loops_have_symbolic_bounds_and_nest(make: Make) -> None:
    executor = make(
        """
        dynamic { x: f32[N]; last: i32; }
        block entry {
            assign total: i64; assign one: i64; assign runs: i64; assign here: i64;
            op fill(one, value=1) >> one;
            loop outer (i in 0..N) {
                loop inner (j in i..max(last, 2*N - 3)) {
                    op fill(here, value=j) >> here;
                    op add(total, here) >> total;
                    op add(runs, one) >> runs;
                }
                loop never (j in i..i) { op add(runs, one) >> runs; }
                loop again (i in 0..2) { op add(runs, one) >> runs; }
                op fill(here, value=i) >> here;
                op add(total, here) >> total;
            }
            return total, runs;
        }
        """
    )
    for size, last in ((1, 0), (3, 2), (4, 9), (3, -5)):
        found = executor.run(x=np.zeros(size, np.float32), last=last)
        pairs = [(i, j) for i in range(size) for j in range(i, max(last, 2 * size - 3))]
        equal(found["total"], sum(j for _, j in pairs) + sum(range(size)))
        equal(found["runs"], len(pairs) + 2 * size)


def test_values_are_carried_through_loops(make: Make) -> None:
    """A variable that a round writes is what the next round reads; nothing is declared for it."""
    executor = make(
        """
        dynamic { n: i32; }
        block entry {
            assign a: i64; assign b: i64; assign t: i64;
            op fill(b, value=1) >> b;
            loop rounds (i in 0..n) {
                op add(a, b) >> t;
                transfer b >> a;
                transfer t >> b;
            }
            return a;
        }
        """
    )
    for n, wanted in ((0, 0), (1, 1), (10, 55)):
        equal(executor.run(n=n)["a"], wanted)


def test_branches_call_blocks(make: Make) -> None:
    executor = make(
        """
        dynamic { x: f32[3]; kind: i32; }
        volatile { y: f32[3]; }
        block entry {
            assign fine: bool;
            op is_finite(x) >> fine;
            branch fine good bad;
            branch kind twice none;
            branch good;
            return y;
        }
        block good { op add(y, x) >> y; return; }
        block bad { op fill_nan_like(x, value=0.5) >> y; return; }
        block twice { branch good; branch good; return; }
        block none { return; }
        """
    )
    equal(executor.run(x=X, kind=0)["y"], 2 * X)
    equal(executor.run(x=X, kind=-3)["y"], 4 * X)
    refused("block entry { branch a; return; } block a { branch entry; return; }", "OI0244")


ARITHMETIC = """
dynamic { n: i64; m: i64; x: f32[8]; }
persistent { K(t): f32 @table; }
block entry {
    assign y: f32; assign sum: f32; assign half: f32[n / m]; assign i: i32[0];
    loop rounds (i2 in 0..12 / m) {
        cache.write sum >> K[i2 / 2];
        cache.read K[max(i2 - m, 0) / (m * 1)] >> y;
        op add(sum, one) >> sum;
    }
    cache.read K[min(n, 5 * m - 1) / 2] >> y;
    return y, sum, half;
}
constant { one: f32 @init(1); }
"""


def test_index_expressions_divide_and_choose(make: Make) -> None:
    executor = make(ARITHMETIC)
    x = np.zeros(8, np.float32)
    found = executor.run(n=7, m=2, x=x)
    equal(found["sum"], 6)
    equal(found["y"], 0)
    assert found["half"].shape == (3,)
    equal(executor.fetch("K"), [1, 3, 5, 0])
    found = executor.run(n=5, m=5, x=x)
    equal(found["sum"], 2)
    equal(found["y"], 5)
    assert found["half"].shape == (1,)


@pytest.mark.parametrize(
    ("n", "m", "code"), [(7, 0, "OI0603"), (-(2**63), 0, "OI0611"), (-8, 3, "OI0603")]
)
def test_bad_index_expressions_fail_the_step(make: Make, n: int, m: int, code: str) -> None:
    executor = make(ARITHMETIC)
    with pytest.raises(oi.StepError) as caught:
        executor.run(n=n, m=m, x=np.zeros(8, np.float32))
    assert caught.value.code == code
    executor.run(n=2, m=1, x=np.zeros(8, np.float32))


def test_the_smallest_integer_divided_by_minus_one_is_no_crash(make: Make) -> None:
    executor = make(
        """
        dynamic { n: i64; m: i64; }
        block entry {
            assign y: i64; assign one: i64;
            op fill(one, value=1) >> one;
            loop rounds (i in 0..min(max(n / m, -3), 2)) { op add(y, one) >> y; }
            return y;
        }
        """
    )
    equal(executor.run(n=6, m=-2)["y"], 0)
    equal(executor.run(n=-7, m=-2)["y"], 2)
    with pytest.raises(oi.StepError) as caught:
        executor.run(n=-(2**63), m=-1)
    assert caught.value.code == "OI0611"


@pytest.mark.parametrize(
    ("n", "m", "rounds"),
    [
        (1_700_000_000_003, 1_700_000_000_000, 3),
        (1_700_000_000_000_000_003, 1_700_000_000_000_000_000, 3),
        (2**62 - 1, 2**61, 9),
        (-(2**61), 2**61 - 1, 0),
        (2**63 - 1, 2**62, None),
        (-(2**63), 2**63 - 1, None),
    ],
)
def test_large_numbers_of_the_data_do_not_wrap_around(
    make: Make, n: int, m: int, rounds: int | None
) -> None:
    """Right up to 2^62 - 1, an error beyond."""
    executor = make(
        """
        dynamic { n: i64; m: i64; }
        block entry {
            assign y: i64; assign one: i64;
            op fill(one, value=1) >> one;
            loop l (i in 0..min(n - m, 9)) { op add(y, one) >> y; }
            loop products (i in min(n * m / m - n, 0)..0) { op add(y, one) >> y; }
            return y;
        }
        """
    )
    if rounds is not None:
        equal(executor.run(n=n, m=m)["y"], rounds)
        return
    with pytest.raises(oi.StepError) as caught:
        executor.run(n=n, m=m)
    assert caught.value.code == "OI0611"
