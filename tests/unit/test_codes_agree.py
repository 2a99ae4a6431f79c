"""A program or a step that fails does so with one code on both executors, at the same node."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import openinfer as oi

X = np.ones(4, np.float32)
VOLATILE = "volatile { y: f32[4]; s: f32; z: i32[4]; m: f32[2, 2]; }\n"
STATE = """persistent {
  K(l): f32[4] @table;  G(i, j): f32[0, 0] @auto_dim(i, j);  B(l): f32[4] @table @fixed(l=3);
  P: f32[n];
}
"""
HEAD = f"dynamic {{ x: f32[4]; n: i64; }}\n{VOLATILE}{STATE}"


def body(text: str) -> str:
    return f"{HEAD}block entry {{ {text} return; }}"


def with_n(*values: int) -> list[Mapping[str, Any]]:
    return [{"x": X, "n": value} for value in values]


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


CASES: list[tuple[str, list[Mapping[str, Any]], list[str]]] = [
    # Indices and bounds of data.
    (body("op gather(x, n) >> s;"), with_n(4, -1, 2), ["OI0601", "OI0601", ""]),
    (body("assign t: f32[4]; op scatter(x, n, s) >> t;"), with_n(9), ["OI0601"]),
    (body("assign t: f32[4]; op one_hot(n, depth=4) >> t;"), with_n(9, -1), ["OI0601"] * 2),
    (
        body("assign t: f32[_]; op slice(x, start=0, stop=n) >> t;"),
        with_n(9, -9, -1),
        ["OI0602", "OI0602", ""],
    ),
    (body("assign t: f32[_]; op slice(x, start=n, stop=2) >> t;"), with_n(3), ["OI0602"]),
    (
        body("assign a: f32[_]; assign b: i64[_]; op topk(x, k=n) >> a, b;"),
        with_n(9, -1),
        ["OI0602"] * 2,
    ),
    # Sizes that a step computes.
    (body("assign t: f32[n]; op add(t, t) >> t;"), with_n(-2), ["OI0603"]),
    (body("assign t: f32[4 / n]; op add(t, t) >> t;"), with_n(0), ["OI0603"]),
    (body("loop l (i in 0..4 / n) { op relu(x) >> y; }"), with_n(0), ["OI0603"]),
    (body("assign t: f32[_, 4]; op expand(x, shape=[n, 4]) >> t;"), with_n(-1), ["OI0603"]),
    # Tables and matrices.
    (body("cache.write x >> K[n];"), with_n(-1, 2**40), ["OI0606", "OI0609"]),
    (body("cache.write x >> B[n];"), with_n(3), ["OI0606"]),
    (body("cache.read B[n] >> y;"), with_n(3), ["OI0606"]),
    (body("cache.reset K[n];"), with_n(-3), ["OI0606"]),
    (body("loop l (i in n..4) { cache.write x >> K[i]; }"), with_n(-2), ["OI0606"]),
    (body("assign t: f32[_, 4]; cache.read K[n..2] >> t;"), with_n(3, -1), ["OI0606"] * 2),
    (body("assign t: f32[_, 4]; cache.read K[0..n] >> t;"), with_n(-1), ["OI0606"]),
    (body("assign r: f32[_]; cache.read G[n, ] >> r;"), with_n(3), ["OI0606"]),
    (body("cache.write x >> G[n, ];"), with_n(3), ["OI0606"]),
    (body("assign r: f32[n]; cache.write r >> G[0, ];"), with_n(3), ["OI0602"]),
    (body("assign r: f32[n, 4]; cache.read K[0..2] >> r;"), with_n(3), ["OI0602"]),
    (body("assign r: f32[n]; cache.write r >> P;"), with_n(3, 2), ["", "OI0608"]),
    (body("assign r: f32[_]; cache.read P >> r;"), with_n(2**50, 2**40), ["OI0609"] * 2),
    (
        body("assign r: f32[_]; cache.read P >> r;"),
        with_n(3, 2**50, 3),
        ["", "OI0608", ""],
    ),
    # Dimensions that no memory holds, beside one that is 0.
    (
        "dynamic { x: f32[4]; n: i64; m: i64; } volatile { y: f32[4]; s: f32; }\n"
        "block entry { assign t: f32[n * m]; op add(t, t) >> t; op sum_axis(t, axes=[0]) >> s;\n"
        "op relu(x) >> y; return; }",
        [{"x": X, "n": 2**50, "m": 0}],
        [""],
    ),
    (body("assign t: f32[_, 4]; op expand(x, shape=[n, 4]) >> t; op sum_axis(t, axes=[0]) >> y;"),
     with_n(2**50, 2**44), ["OI0604"] * 2),
    (body("assign t: f32[_]; op pad(x, pads=[n, 0]) >> t; op sum_axis(t, axes=[0]) >> s;"),
     with_n(2**50, 2**44), ["OI0604"] * 2),
    (body("assign t: f32[_]; loop l (i in 0..n) { op relu(x) >> t; } op add(x, t) >> y;"),
     with_n(0), ["OI0602"]),
    # Shapes that only the inputs decide.
    (
        "dynamic { x: f32[N]; }\n"
        "block entry { assign a: f32[_]; assign b: f32[_]; op split(x, axis=0) >> a, b; return a; }",
        [{"x": ones(5)}, {"x": ones(6)}],
        ["OI0602", ""],
    ),
    (
        "dynamic { x: f32[4]; c: i32[N]; } volatile { y: f32[4]; }\n"
        "block entry { branch c a b; return; }\n"
        "block a { op relu(x) >> y; return; } block b { op neg(x) >> y; return; }",
        [{"x": X, "c": np.array(c, np.int32)} for c in ([1, 1], [0], [1], [])],
        ["OI0605", "", "", "OI0605"],
    ),
    (
        "dynamic { x: f32[1, 2, N]; w: f32[4, 2, 3]; }\n"
        "block entry { assign t: f32[1, 4, _]; op conv1d(x, w) >> t; return t; }",
        [{"x": ones(1, 2, 2), "w": ones(4, 2, 3)}],
        ["OI0602"],
    ),
    (
        "dynamic { x: f32[N]; } volatile { v: f32[N - 3]; }\n"
        "block entry { op add(v, v) >> v; return; }",
        [{"x": ones(2)}],
        ["OI0603"],
    ),
    (
        "dynamic { x: f32[N]; } volatile { v: f32[4 / N]; }\n"
        "block entry { op add(v, v) >> v; return; }",
        [{"x": ones(0)}],
        ["OI0526"],
    ),
]  # fmt: skip

OPEN_RANKS = [
    (
        "past",
        "dynamic { x: f32[2, 3, 4]; }\n"
        "block entry { assign past: f32[_, 4]; op relu(x) >> past; return; }",
    ),
    (
        "v",
        "dynamic { x: f32[2, 3, 4]; } volatile { v: f32[_, 4]; }\n"
        "block entry { op relu(x) >> v; return; }",
    ),
    (
        "q",
        "dynamic { x: f32[2, 4]; }\n"
        "block entry { assign past: f32[_, 4]; assign q: f32[_, _, 4];\n"
        "op relu(x) >> past; op add(past, x) >> q; return; }",
    ),
]


def errors_of(make: Callable[[], Any], steps: list[Mapping[str, Any]]) -> list[Any]:
    """The error of each step, or that of building; None where there is none."""
    try:
        executor = make().make_executor()
    except oi.OpenInferError as error:
        return [error]
    found: list[Any] = []
    for step in steps:
        try:
            executor.insert(**step)
            executor.step()
            found.append(None)
        except oi.OpenInferError as error:
            found.append(error)
    return found


@pytest.mark.parametrize(("text", "steps", "codes"), CASES)
def test_both_executors_fail_with_one_code_at_one_node(
    text: str, steps: list[Mapping[str, Any]], codes: list[str]
) -> None:
    simulated = errors_of(lambda: oi.Simulator(text), steps)
    compiled = errors_of(lambda: oi.compile(text), steps)
    assert [e.code if e else "" for e in simulated] == codes
    assert [e.code if e else "" for e in compiled] == codes
    for left, right in zip(simulated, compiled):
        nodes = re.findall(r"node \d+ in block \w+: [^:]+", str(left))
        if nodes:
            assert re.findall(r"node \d+ in block \w+: [^:]+", str(right)) == nodes
        assert "{" not in str(right)


@pytest.mark.parametrize(
    ("text", "n", "message"),
    [
        ("cache.write x >> K[n];", -1, "index l = -1 of K is negative"),
        ("cache.read B[n] >> y;", 3, "index l = 3 of B is outside 0..3, the bound of @fixed(l=3)"),
    ],
)
def test_an_index_of_a_table_is_told_alike(text: str, n: int, message: str) -> None:
    for make in (oi.Simulator, oi.compile):
        (error,) = errors_of(lambda make=make: make(body(text)), with_n(n))
        assert message in str(error)


TOLD = [
    (
        "assign t: f32[2, 3]; op gather(x, rows) >> t;",
        {"rows": np.array([[0, 1, 2], [3, -7, 0]])},
        ["index -7 at position [1, 1] of the indices is outside 0..4"],
    ),
    ("assign t: f32[4]; op scatter(x, n, s) >> t;", {"n": 9}, ["index 9 at position []"]),
    ("cache.read K[n..2] >> open;", {"n": 3}, ["3..2", "of index l of K"]),
    ("cache.read K[0..n] >> open;", {"n": -1}, ["-1", "of index l of K", "present extent"]),
    ("cache.read G[0..n, ] >> wide;", {"n": 3}, [" of G", "is outside 0..0"]),
    ("op add(O, x) >> y;", {}, ["O has an open dimension and was not written yet"]),
    ("cache.read R[n] >> y;", {}, ["R has an open dimension and was not written yet"]),
    (
        "assign t: f32[_]; loop l (i in 0..n) { op relu(x) >> t; } op add(x, t) >> y;",
        {},
        ["t has an open dimension and was not written yet"],
    ),
    ("cache.write x >> K[n];", {"n": 2**40}, ["node", "cache.write x >> K[n]", "K would grow"]),
    ("assign r: f32[n]; op add(r, r) >> r; op sum_axis(r, axes=[0]) >> s;", {"n": 2**50},
     ["assign r: f32[n]: not enough memory"]),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "given", "parts"), TOLD)
def test_both_executors_name_variable_index_and_bound(
    nodes: str, given: Mapping[str, Any], parts: list[str]
) -> None:
    head = HEAD.replace("n: i64;", "n: i64; rows: i64[2, 3];").replace(
        "P: f32[n];", "O: f32[_]; R(l): f32[_] @table;"
    )
    text = (
        f"{head}block entry {{ assign open: f32[_, 4]; assign wide: f32[_, _]; {nodes} return; }}"
    )
    step = {"x": X, "n": 0, "rows": np.zeros((2, 3), np.int64), **given}
    for make in (oi.Simulator, oi.compile):
        (error,) = errors_of(lambda make=make: make(text), [step])
        for part in parts:
            assert part in str(error)
        assert "capacity." not in str(error)


@pytest.mark.parametrize(("name", "text"), OPEN_RANKS)
def test_a_rank_is_held_against_an_open_declaration_before_anything_runs(
    name: str, text: str
) -> None:
    written = re.search(rf"\b{name}: (f32\[[_, 4]+\])", text)
    assert written is not None
    for make in (oi.Simulator, oi.compile):
        with pytest.raises(oi.ProgramError) as caught:
            make(text)
        assert caught.value.code == "OI0323"
        assert f"but {name} is declared {written.group(1)}" in str(caught.value)
