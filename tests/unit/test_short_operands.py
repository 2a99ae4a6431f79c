"""Ops, ranges and reads as operands, sizes of bodies: what they stand for, against NumPy, and mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.frontend import parse_program, parse_text, print_program
from openinfer.compiler.frontend.layout import formatted
from openinfer.runtime.errors import OpenInferError

HEAD = """
dynamic { x: f32[N, 4]; firsts: i32[S]; counts: i32[S]; n: i32; }
persistent { K(s, t): f32[4] @table; c: i32; }
constant { W(l): f32[4, 4] @init(1) @pattern("W.{l}"); }
"""
PROGRAM = (
    HEAD
    + """
block entry {
    h = op add(x, mul(x, relu(sub(x, 9.0))));
    loop sequences (i in 0..S) {
        size first = firsts[i], last = first + counts[i];
        cache.write mul(h[first..last], 2.0) >> K[i, 0..last - first];
    }
    size before = c;
    cache.increment 3 c;
    size behind = c;
    a = op concat(K[0, 0..2], K[1, 0..1], axis=0);
    b = op mul(h[-1, 1..3], h[0, n..n + 2]);
    d = op sub(behind, before);
    e = op neg(h[, 0]);
    return a, b, d, e;
}
"""
)


def run(executor: oi.Executor, **inputs: Any) -> dict[str, Any]:
    return {name: np.asarray(value) for name, value in executor.run(**inputs).items()}


@pytest.mark.parametrize("make", [oi.Simulator, oi.compile])
def test_short_forms_compute_what_they_stand_for(make: Any) -> None:
    x = np.random.default_rng(3).integers(0, 20, (5, 4)).astype(np.float32)
    h = x + x * np.maximum(x - 9, 0)
    executor = make(PROGRAM, {"W.0": np.ones((4, 4), np.float32)}).make_executor()
    for _ in range(2):
        found = run(
            executor,
            x=x,
            firsts=np.array([3, 0], np.int32),
            counts=np.array([2, 3], np.int32),
            n=np.int32(1),
        )
        np.testing.assert_array_equal(found["a"], 2 * np.concatenate([h[3:5], h[:1]]))
        np.testing.assert_array_equal(found["b"], h[-1, 1:3] * h[0, 1:3])
        assert found["d"] == 3
        np.testing.assert_array_equal(found["e"], -h[:, 0])


def test_what_short_forms_stand_for_is_printed() -> None:
    printed = print_program(parse_program(PROGRAM))
    for line in (
        "op sub(x, 9.0) >> h_sub;",
        "op relu(h_sub) >> h_relu;",
        "op slice(h, start=firsts_i, stop=counts_i + firsts_i) >> K_h;",
        "cache.write K_mul >> K[i, 0..counts_i];",
        "cache.read K[0, 0..2] >> a_K;",
        "op cast(c, to=i64) >> before_c;",
    ):
        assert line in printed
    assert print_program(parse_program(printed)) == printed
    text = formatted(PROGRAM, "p")
    assert formatted(text, "p") == text
    assert "    size first = firsts[i], last = first + counts[i];\n" in text


def test_hints_hold_for_ops_inside() -> None:
    text = HEAD + "block entry { y = op add(relu(x), x[0..1]) with { fuse = false }; return y; }"
    assert print_program(parse_program(text)).count("with { fuse = false }") == 3


def test_elements_at_elements_that_change_are_read_anew() -> None:
    text = """
    dynamic { a: i32[3]; x: f32[4]; }
    block entry {
        b = op add(a, 0);
        one = op slice(x, start=a[b[0]], stop=a[b[0]] + 1);
        b = op add(b, 1);
        two = op slice(x, start=a[b[0]], stop=a[b[0]] + 1);
        return one, two;
    }
    """
    for make in (oi.Simulator, oi.compile):
        found = run(
            make(text).make_executor(),
            a=np.array([0, 2, 1], np.int32),
            x=np.arange(4, dtype=np.float32),
        )
        assert (found["one"], found["two"]) == (0, 2)


@pytest.mark.parametrize(
    ("statement", "code", "message"),
    [
        ("y = op relu(neg(x, x));", "OI0217", "neg"),
        ("y = op relu(reluu(x));", "OI0214", "did you mean `relu`?"),
        ("y = op relu(op neg(x));", "OI0120", "write `neg(…)`"),
        ("y = op relu(W(0));", "OI0120", "write `W[…]`"),
        ("y = op relu(W[0, 0..2]);", "OI0232", "a slice"),
        ("y = op relu(nothing[0..2]);", "OI0210", "nothing"),
        ("size x = 4; y = op neg(x);", "OI0286", "has the name of a variable"),
        ("size N = 4; y = op neg(x);", "OI0286", "has the name of a size of the program"),
        ("size a = 4, a = 5; y = op neg(x[0..a]);", "OI0286", "that is defined above"),
        ("size a = 1; loop l (a in 0..2) { y = op neg(x); }", "OI0258", "the name of a size"),
        (
            "loop l (i in 0..2) { size a = i + 1; loop m (i in 0..2) { y = op neg(x[0..a]); } }",
            "OI0292",
            "give one of the two loops another index",
        ),
        ("size a = nothing; y = op neg(x[0..a]);", "OI0306", "nothing"),
        ("loop l (i in 0..2) { size a = 2; } y = op neg(x[0..a]);", "OI0306", "a"),
    ],
)
def test_mistakes(statement: str, code: str, message: str) -> None:
    result = parse_text(f"{HEAD}block entry {{ {statement} return; }}")
    found = {d.code for d in result.errors}
    if code == "OI0306" and not found:
        with pytest.raises(OpenInferError, match=message):
            oi.compile(
                f"{HEAD}block entry {{ {statement} return; }}", {"W.0": np.ones((4, 4), np.float32)}
            )
        return
    assert code in found, result.render()
    assert message in result.render()
