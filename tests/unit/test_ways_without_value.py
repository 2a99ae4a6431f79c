"""Variables that have a shape on some ways only: a step fails where it takes another one, no sooner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from both_executors import agree

import openinfer as oi

YES, NO = np.True_, np.False_


def given(**values: Any) -> dict[str, Any]:
    """The inputs of a step; whole numbers are i64."""
    return {n: np.int64(v) if isinstance(v, int) else v for n, v in values.items()}


X = np.array([1, -2], np.float32)
PAIR = "dynamic { x: f32[2]; n: i64; c: bool; } persistent { P: f32[_]; s: i64; } volatile { z: f32[2]; }"
UNWRITTEN: dict[str, tuple[str, Sequence[tuple[int, Any]]]] = {
    "a block that is not called": (
        """block entry { assign h: f32[_]; branch c a b; op add(z, x) >> z; return; }
        block a { op relu(h) >> z; op neg(h) >> z; return; }
        block b { op relu(x) >> z; return; }""",
        [(0, NO), (0, YES), (0, NO)],
    ),
    "both blocks give it a shape": (
        """block entry { assign h: f32[_]; assign g: f32[_]; branch c a b; op relu(h) >> z; return; }
        block a { op relu(g) >> z; op relu(x) >> h; return; }
        block b { op neg(x) >> h; return; }""",
        [(0, NO), (0, YES), (0, NO)],
    ),
    "a loop without rounds": (
        """block entry { assign h: f32[_]; loop l (i in 0..n) { op add(h, x) >> z; }
        op add(z, x) >> z; return; }""",
        [(0, NO), (2, NO), (0, NO)],
    ),
    "state that was changed before": (
        """block entry { assign h: f32[_]; loop l (i in 0..n) { branch c a b; op add(z, x) >> z;
          cache.increment s; } op add(z, x) >> z; return; }
        block a { scope "s" { cache.increment s; cache.write h >> P; } cache.increment s; return; }
        block b { cache.write x >> P; return; }""",
        [(0, YES), (2, NO), (2, YES), (2, NO)],
    ),
    "behind a loop that leaves": (
        """block entry { assign h: f32[_]; loop l (i in 0..n) { op add(z, x) >> z; return; }
          op add(h, x) >> z; return; }""",
        [(0, NO), (2, NO), (0, NO), (1, NO)],
    ),
    "a value that is handed to a block": (
        """block entry { assign h: f32[_]; branch c a b; return; }
        block a { branch d; op add(z, x) >> z; return; }
        block b { op relu(x) >> h; branch d; return; }
        block d { op neg(h) >> z; return; }""",
        [(0, NO), (0, YES), (0, NO)],
    ),
    "a result in state": ("block entry { branch c a b; return P, s; } "
        "block a { cache.write x >> P; return; } block b { cache.increment s; return; }",
        [(0, NO), (0, YES), (0, NO)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNWRITTEN)
@pytest.mark.parametrize("watched", [False, True])
def test_open_dimensions_without_a_value(name: str, watched: bool) -> None:
    text, steps = UNWRITTEN[name]
    agree(f"{PAIR} {text}", [given(x=X, n=n, c=c) for n, c in steps], watched=watched)


ALWAYS = {
    "in entry": "block entry { assign h: f32[_]; op relu(h) >> z; return; }",
    "in a scope": 'block entry { assign h: f32[_]; scope "s" { op relu(h) >> z; } return; }',
    "in a loop": "block entry { assign h: f32[_]; loop l (i in 0..2) { op relu(h) >> z; } return; }",
    "in a block": "block entry { assign h: f32[_]; branch a; return; } "
    "block a { op relu(h) >> z; return; }",
}


@pytest.mark.parametrize("name", ALWAYS)
def test_what_no_step_can_run_is_refused(name: str) -> None:
    with pytest.raises(oi.ProgramError) as caught:
        oi.compile(f"{PAIR} {ALWAYS[name]}")
    (problem,) = caught.value.diagnostics
    assert problem.code == "OI0602"
    assert "h has an open dimension" in problem.message
    assert problem.hint == "write it before it is read"


# Temporaries whose dimensions name the index of a loop

HEAD = """dynamic { x: f32[_]; n: i64; c: bool; } persistent { P: f32[_]; } volatile { z: f32[_]; }
    block entry { assign o: f32[_]; cache.write x >> P; cache.read P >> o;"""
INDEXED: dict[str, tuple[str, Sequence[tuple[int, int, Any]]]] = {
    "written behind the loop": (
        """loop l (i in 0..n) { assign t: f32[i + 1]; } op relu(o) >> t; op add(t, o) >> z;
        return; }""",
        [(3, 3, YES), (3, 2, YES), (3, 0, YES), (2, 2, YES)],
    ),
    "written in a block": (
        """loop l (i in 0..n) { assign t: f32[i + 1]; op fill(t, value=1) >> t; } branch c a b;
        op relu(o) >> z; return; }
        block a { op relu(o) >> t; op add(t, o) >> o; return; } block b { return; }""",
        [(3, 3, YES), (3, 2, NO), (3, 2, YES), (3, 0, NO), (3, 0, YES)],
    ),
    "read behind the loop": (
        """loop l (i in 0..n) { assign t: f32[i + 1]; op fill(t, value=1) >> t; } op neg(t) >> z;
        return; }""",
        [(3, 3, YES), (3, 2, YES), (3, 0, YES)],
    ),
    "read in another loop": (
        """loop l (i in 0..n) { assign t: f32[i + 1]; } loop m (i in 2..4) { op relu(t) >> z; }
        return; }""",
        [(3, 3, YES), (3, 2, YES), (3, 0, YES)],
    ),
    "written in another loop": (
        """loop l (i in 0..n) { assign t: f32[i + 1]; } loop m (i in 2..3) { op neg(o) >> t; }
        op relu(t) >> z; return; }""",
        [(3, 3, YES), (3, 2, YES), (3, 0, YES), (2, 2, YES)],
    ),
    "a loop in a block": (
        """branch c a b; op neg(o) >> t; op add(t, t) >> z; return; }
        block a { loop l (i in 1..n) { assign t: f32[i + 1]; } return; } block b { return; }""",
        [(3, 3, YES), (3, 3, NO), (3, 2, YES), (3, 0, YES), (2, 2, YES)],
    ),
    "loops in loops": (
        """loop l (i in 0..n) { loop k (j in 0..i) { assign t: f32[i + j]; } } op relu(t) >> z;
        return; }""",
        [(3, 3, YES), (3, 2, NO), (3, 1, YES), (1, 0, YES)],
    ),
    "rounds that are known": (
        "loop l (i in 0..3) { assign t: f32[i + 1]; } op relu(o) >> t; op neg(t) >> z; return; }",
        [(3, 3, YES), (2, 2, NO)],
    ),
}


@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("watched", [False, True])
def test_dimensions_that_name_an_index(name: str, watched: bool) -> None:
    text, steps = INDEXED[name]
    calls = [given(x=np.arange(m, dtype=np.float32) - 1, n=n, c=c) for m, n, c in steps]
    agree(f"{HEAD} {text}", calls, watched=watched)


COUNTED = """dynamic { x: f32[3]; m: i64; c: bool; } persistent { n: i64 @init(3); P: f32[_]; }
    volatile { z: f32[_]; } block entry { assign o: f32[_]; cache.write x >> P; cache.read P >> o;"""
CHANGED: dict[str, tuple[str, Sequence[tuple[int, Any]]]] = {
    "read": (
        """branch c a b; cache.increment n; op relu(t) >> z; cache.decrement n; return; }
        block a { assign t: f32[n]; return; } block b { return; }""",
        [(0, NO), (0, YES)],
    ),
    "written": (
        """branch c a b; cache.increment n; op relu(o) >> t; op neg(t) >> z; return; }
        block a { assign t: f32[n]; return; } block b { return; }""",
        [(0, YES), (0, NO)],
    ),
    "assigned in each round": (
        """loop l (i in 0..m) { assign t: f32[n]; op fill(t, value=i) >> t; cache.increment n; }
        op neg(t) >> z; return; }""",
        [(0, NO), (1, NO), (3, NO), (0, NO)],
    ),
    "counted behind it": (
        """loop l (i in 0..m) { assign t: f32[n]; op fill(t, value=i) >> t; } op neg(t) >> z;
        cache.increment n; return; }""",
        [(0, NO), (1, NO), (3, NO), (0, NO)],
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_scalar_that_changes_behind_an_assign_that_may_not_run(name: str) -> None:
    text, steps = CHANGED[name]
    x = np.array([1, -2, 3], np.float32)
    agree(f"{COUNTED} {text}", [given(x=x, m=m, c=c) for m, c in steps])


def test_an_index_dimension_that_no_way_gives_is_refused() -> None:
    text = """branch c a b; return; } block a { return; } block b { return; }
        block unused { loop l (i in 0..n) { assign t: f32[i + 1]; } op relu(o) >> t; return; }"""
    oi.compile(f"{HEAD} {text}")
    refused = """loop l (i in 0..0) { assign t: f32[i + 1]; } op relu(o) >> t; return; }"""
    for make, error in ((oi.Simulator, oi.StepError), (oi.compile, oi.OpenInferError)):
        with pytest.raises(error) as caught:
            make(f"{HEAD} {refused}").make_executor().run(**given(x=X, n=0, c=YES))
        found = caught.value
        codes = [d.code for d in found.diagnostics] if isinstance(found, oi.ProgramError) else []
        assert "OI0603" in (getattr(found, "code", ""), *codes)
