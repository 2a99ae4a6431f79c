"""Dimensions of persistent variables that name scalars: the simulator and compiled code agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both_executors import Inputs, agree, tensor

import openinfer as oi

F32 = np.float32
YES, NO = np.True_, np.False_


def given(**values: Any) -> dict[str, Any]:
    """The inputs of a step; whole numbers are i64."""
    return {n: np.int64(v) if isinstance(v, int) else v for n, v in values.items()}


def ramp(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=F32).reshape(shape) + 1


Steps = Sequence[Inputs | str]
PROGRAMS: dict[str, tuple[str, Steps]] = {
    "plain": (
        """dynamic { n: i64; d: f32; } persistent { K: f32[n, 2] @init(2); } volatile { z: f32; }
        block entry { assign t: f32[n, 2]; cache.read K >> t; op add(t, d) >> t; cache.write t >> K;
          op sum_axis(K, axes=[0, 1]) >> z; return; }""",
        [
            given(n=3, d=F32(1)), given(n=3, d=F32(2)), given(n=4, d=F32(2)), "restore",
            given(n=4, d=F32(2)), given(n=3, d=F32(1)), "reset", given(n=4, d=F32(2)),
            given(n=-1, d=F32(1)), given(n=0, d=F32(1)), "reset", given(n=0, d=F32(1)),
            given(n=-1, d=F32(1)), given(n=30, d=F32(1)), "reset", given(n=30, d=F32(1)),
        ],
    ),
    "a persistent scalar": (
        """dynamic { d: f32; } persistent { n: i32 @init(2); K: f32[n]; T(i): f32[n] @table; }
        volatile { z: f32; }
        block entry { assign t: f32[n]; cache.read K >> t; op add(t, d) >> t; cache.write t >> K;
          cache.write t >> T[2]; op sum_axis(K, axes=[0]) >> z; return; }""",
        [given(d=F32(1)), given(d=F32(2)), "restore", given(d=F32(1)), "reset", given(d=F32(1))],
    ),
    "a scalar that changes within a step": (
        """dynamic { c: bool; } persistent { n: i32 @init(2); K: f32[n, n + 1]; } volatile { z: f32; }
        block entry { op sum_axis(K, axes=[0, 1]) >> z; branch c a b;
          op sum_axis(K, axes=[0, 1]) >> z; return; }
        block a { cache.increment n; return; } block b { return; }""",
        [given(c=YES), given(c=NO), given(c=YES)],
    ),
    "a constant and a volatile scalar": (
        """constant { m: i64 @init(3); } volatile { n: i64 @init(1); z: f32[_]; y: f32[_]; }
        dynamic { d: i64; } persistent { K: f32[m]; L: f32[n]; }
        block entry { op add(n, d) >> n; cache.read K >> z; cache.read L >> y; cache.write y >> L;
          return; }""",
        [given(d=0), given(d=0), given(d=1), "restore", given(d=1), given(d=0)],
    ),
    "a table": (
        """dynamic { n: i64; i: i64; x: f32; } persistent { K(i): f32[n] @table @init(3); }
        volatile { o: f32[_]; p: f32[_, _]; }
        block entry { assign t: f32[n]; cache.read K[i] >> t; op add(t, x) >> t;
          cache.write t >> K[i]; cache.read K[i + 1] >> o; cache.read K[] >> p; return; }""",
        [
            given(n=3, i=0, x=F32(1)), given(n=3, i=2, x=F32(2)), given(n=2, i=0, x=F32(1)),
            given(n=3, i=1, x=F32(2)), "restore", given(n=3, i=5, x=F32(1)),
            given(n=4, i=5, x=F32(1)), "reset", given(n=4, i=1, x=F32(1)),
            given(n=4, i=-1, x=F32(1)),
        ],
    ),
    "a table with a bound, and entries that are reset": (
        """dynamic { n: i64; i: i64; } persistent { K(i): f32[n, 2] @table @fixed(i=4) @init(3); }
        volatile { o: f32[_, 2]; }
        block entry { cache.read K[i] >> o; op neg(o) >> o; cache.write o >> K[i]; cache.reset K[0];
          return; }""",
        [given(n=3, i=0), given(n=3, i=3), given(n=3, i=4), given(n=2, i=0), "restore",
         given(n=3, i=3), "reset", given(n=4, i=1)],
    ),
    "a table in a loop": (
        """dynamic { n: i64; } persistent { s: i64; K(l, t): f32[n, 2] @table; }
        volatile { o: f32[_, _, 2]; }
        block entry { loop a (l in 0..3) { assign v: f32[n, 2]; op fill(v, value=l) >> v;
          cache.write v >> K[l, s]; cache.read K[l, ] >> o; } cache.increment s; return; }""",
        [given(n=2), given(n=2), given(n=2), given(n=3), "restore", given(n=2)],
    ),
    "reset": (
        """dynamic { n: i64; c: bool; } persistent { K: f32[n] @init(3); T(i): f32[n] @table; }
        volatile { o: f32[_]; }
        block entry { branch c a b; cache.read K >> o; op neg(o) >> o; cache.write o >> K;
          cache.write o >> T[3]; return; }
        block a { cache.reset K; cache.reset T; return; } block b { return; }""",
        [given(n=3, c=NO), given(n=3, c=YES), given(n=3, c=NO), given(n=2, c=NO), "restore",
         given(n=2, c=YES), given(n=3, c=YES), "reset", given(n=2, c=YES)],
    ),
    "a step that only resets": (
        """dynamic { n: i64; } persistent { K: f32[n] @init(3); T(i): f32[n] @table;
          A(i): f32[n] @auto_dim(i); C(l, i): f32[n] @table @auto_dim(i); }
        block entry { cache.reset K; cache.reset T; cache.reset A; cache.reset C; return; }""",
        [given(n=3), given(n=3), given(n=2), "restore", given(n=2), given(n=3), "reset",
         given(n=20)],
    ),
    "open dimensions beside them": (
        """dynamic { n: i64; c: bool; x: f32[_, _]; }
        persistent { P: f32[_, n]; T(i): f32[n, _] @table; }
        volatile { o: f32[_, _]; p: f32[_, _, _]; }
        block entry { branch c a b; cache.read P >> o; cache.read T[] >> p; return; }
        block a { cache.write x >> P; cache.write x >> T[1]; return; } block b { return; }""",
        [
            given(n=3, c=NO, x=ramp(3, 3)), given(n=3, c=YES, x=ramp(3, 3)),
            given(n=3, c=NO, x=ramp(2, 3)), given(n=3, c=YES, x=ramp(2, 3)),
            given(n=3, c=YES, x=ramp(3, 3)), given(n=2, c=NO, x=ramp(2, 3)), "restore",
            given(n=2, c=NO, x=ramp(2, 3)), given(n=3, c=NO, x=ramp(2, 3)), "reset",
            given(n=2, c=YES, x=ramp(2, 2)),
        ],
    ),
    "a growing matrix": (
        """dynamic { n: i64; i: i64; }
        persistent { A(i, j): f32[n, 2] @auto_dim(i, j) @init(1) @fixed(i=3); }
        volatile { o: f32[_, _]; }
        block entry { cache.read A[i, 0] >> o; op add(o, o) >> o; cache.write o >> A[];
          cache.read A[0..n, ] >> o; return; }""",
        [
            given(n=3, i=0), given(n=3, i=2), given(n=3, i=4), given(n=2, i=1), "restore",
            given(n=3, i=1), given(n=2, i=1), "restore", given(n=2, i=2), given(n=2, i=3),
            "restore", given(n=1, i=1), "reset", given(n=20, i=1), given(n=20, i=3),
        ],
    ),
    "rows behind the last one": (
        """dynamic { n: i64; r: i64; x: f32[2]; }
        persistent { A(i, j): f32[n, 2] @auto_dim(i, j) @init(1); } volatile { o: f32[_, _]; }
        block entry { cache.write x >> A[r, ]; cache.read A[0..n + i, ] >> o; return; }""",
        [
            *(given(n=1, r=r, x=ramp(2)) for r in (0, 1, 2, 4)), "restore",
            given(n=2, r=3, x=ramp(2)), given(n=1, r=3, x=ramp(2)), "reset",
            given(n=0, r=0, x=ramp(2)), "restore", given(n=0, r=0, x=ramp(2)),
        ],
    ),
    "a table of matrices": (
        """dynamic { n: i64; l: i64; i: i64; } persistent { C(l, i): f32[n] @table @auto_dim(i) @init(1); }
        volatile { o: f32[_]; p: f32[_, _]; }
        block entry { cache.read C[l, i] >> o; op add(o, o) >> o; cache.write o >> C[l];
          cache.read C[0..2, 3] >> p; cache.read C[0..n] >> p; return; }""",
        [
            given(n=3, l=0, i=0), given(n=3, l=1, i=2), given(n=3, l=4, i=5), given(n=2, l=0, i=0),
            "restore", given(n=2, l=0, i=0), given(n=4, l=0, i=0), "restore",
            given(n=9, l=0, i=0), given(n=3, l=0, i=0), "reset", given(n=25, l=0, i=0),
        ],
    ),
    "sizes of the inputs beside them": (
        """dynamic { n: i64; x: f32[N]; } persistent { K: f32[N, n]; L: f32[N + n]; T(i): f32[n, N] @table; }
        volatile { o: f32[_, _]; p: f32[_]; }
        block entry { cache.read K >> o; cache.read L >> p; cache.read T[1] >> o; return; }""",
        [
            given(n=2, x=ramp(3)), given(n=2, x=ramp(3)), given(n=2, x=ramp(4)),
            given(n=1, x=ramp(4)), "restore", given(n=2, x=ramp(4)), given(n=2, x=ramp(3)),
            "reset", given(n=2, x=ramp(4)),
        ],
    ),
    "packed dtypes": (
        """dynamic { n: i64; x: i32[3]; } persistent { K: i4[n]; T(i): u1[n, 3] @table; }
        volatile { o: i4[_]; }
        block entry { assign t: i4[3]; op cast(x, to=i4) >> t; cache.write t >> K; cache.read K >> o;
          cache.reset T; assign u: u1[n, 3]; cache.read T[1] >> u; cache.write u >> T[2]; return; }""",
        [
            given(n=3, x=np.array([1, -2, 3], np.int32)),
            given(n=3, x=np.array([4, 5, -6], np.int32)),
            given(n=2, x=np.array([4, 5, -6], np.int32)), "restore",
            given(n=3, x=np.array([4, 5, -6], np.int32)),
        ],
    ),
    "results": (
        """dynamic { n: i64; x: f32[_]; } persistent { K: f32[n]; L: f32[_]; P: f32[n]; }
        block entry { cache.write x >> K; return K, L, P; }""",
        [given(n=3, x=ramp(3)), given(n=3, x=ramp(3)), given(n=2, x=ramp(3)), given(n=2, x=ramp(2))],
    ),
    "sizes that cannot be": (
        """dynamic { n: i64; } persistent { K: f32[12 / n]; M: f32[max(n, 2) - 2]; L: f32[n]; }
        volatile { z: f32; }
        block entry { op sum_axis(K, axes=[0]) >> z; op sum_axis(M, axes=[0]) >> z;
          op sum_axis(L, axes=[0]) >> z; return; }""",
        [given(n=0), given(n=2**40), given(n=5), given(n=6), given(n=4), "reset", given(n=4),
         given(n=-1)],
    ),
    "consumers": (
        """dynamic { n: i64; x: f32[3]; } persistent { K: f32[n]; L: f32[n]; }
        volatile { a: f32[_]; b: f32[_]; }
        block entry { assign h: f32[3]; op relu(x) >> h; yield h; await h; return; }
        block c1 { await h; cache.read K >> a; op add(a, h) >> a; cache.write a >> K; yield h; }
        block c2 { await h; cache.read L >> b; op add(b, h) >> b; cache.write b >> L; yield h; }""",
        [given(n=3, x=ramp(3)), given(n=3, x=ramp(3)), given(n=2, x=ramp(3)), "restore",
         given(n=3, x=ramp(3))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("way", ["plain", "watched", "not optimised"])
def test_both_executors_agree(name: str, way: str) -> None:
    text, steps = PROGRAMS[name]
    options: dict[str, Any] = {"optimise": False} if way == "not optimised" else {}
    agree(text, steps, watched=way == "watched", threads=2 if options else 1, **options)


FILLED = {
    "read": """block entry { branch c a b; cache.read K >> z; return; }
        block a { cache.reset K; return; } block b { return; }""",
    "written first": """block entry { branch c a b; return; }
        block a { assign t: f32[n + 1]; op fill(t, value=5) >> t; cache.write t >> K; return; }
        block b { cache.read K >> z; cache.reset K; return; }""",
    "volatile": """volatile { v: f32[2 * n] @ref("K"); } block entry { op neg(v) >> z; return; }
        block a { return; } block b { return; }""",
}


@pytest.mark.parametrize("body", FILLED)
def test_a_tensor_of_the_package_fills_a_variable(body: str) -> None:
    text = f"""dynamic {{ n: i64; c: bool; }} persistent {{ K: f32[n + 1]; }}
        volatile {{ z: f32[_]; }} {FILLED[body]}"""
    pairs = [(3, NO), (3, YES), (2, NO), (3, NO)], [(2, NO), (2, YES), (2, NO), (2, YES)]
    for steps in (*pairs, [(2, YES), (2, NO), (2, NO)]):
        calls: list[Inputs | str] = [given(n=n, c=c) for n, c in steps]
        agree(text, calls, tensors={"K": tensor("f32", [4], [1, 2, 3, 4])})


WAITING = """dynamic { n: i64; } constant { m: i64 @init(2); }
    persistent { s: i64 @init(4); P: f32[s] @init(7); Q: f32[m, s]; R: f32[n]; T(i): f32[s] @table;
      U(i): f32[s] @table @fixed(i=2); A(i): f32[s] @auto_dim(i); D: f32[2 / (s - 4)]; E: f32[3 - s]; }
    block entry { cache.increment s; return; }"""


def test_before_a_step_uses_it_the_shape_is_what_it_would_be() -> None:
    executors = [make(WAITING).make_executor() for make in (oi.Simulator, oi.compile)]
    for _ in range(2):
        for name in ("P", "Q", "R", "T", "U", "U[1]", "A"):
            values = [np.asarray(executor.fetch(name)) for executor in executors]
            np.testing.assert_array_equal(*values, err_msg=name)
        for executor in executors:
            with pytest.raises(oi.InputError) as caught:
                executor.fetch("E")
            assert caught.value.code == "OI0506"
            assert not executor.snapshot()["P"].entries
            executor.run(n=np.int64(3))
    executors[1].reset()
    with pytest.raises(oi.InputError) as caught:
        executors[1].fetch("D")
    assert "divides by zero" in caught.value.message


def test_sizes_that_no_step_has_given_yet() -> None:
    text = """dynamic { x: f32[N]; } persistent { s: i64 @init(1); K: f32[s + N]; }
        block entry { cache.write s >> s; return; }"""
    for make in (oi.Simulator, oi.compile):
        executor = make(text).make_executor()
        with pytest.raises(oi.InputError) as caught:
            executor.fetch("K")
        assert caught.value.code == "OI0508"
        executor.run(x=ramp(2))
        assert executor.fetch("K").shape == (3,)


def test_the_message_names_the_dimension() -> None:
    text = """dynamic { n: i64; } persistent { K: f32[2 * n, 3]; A(i): f32[n] @auto_dim(i); }
        volatile { z: f32; a: f32[_]; } block entry { cache.read A[0] >> a;
          op sum_axis(K, axes=[0, 1]) >> z; return; }"""
    executor = oi.compile(text).make_executor()
    executor.run(n=np.int64(3))
    with pytest.raises(oi.StepError) as caught:
        executor.run(n=np.int64(4))
    assert caught.value.code == "OI0608"
    assert "A: f32[n] has dimension n = 4 here, but holds values for 3" in caught.value.message
    assert "reset()" in (caught.value.hint or "")
    other = oi.compile(text).make_executor()
    other.restore(executor.snapshot())
    with pytest.raises(oi.StepError) as caught:
        other.run(n=np.int64(4))
    assert "of another size, from a snapshot" in caught.value.message


def test_programs_and_snapshots_in_files(tmp_path: Path) -> None:
    text = PROGRAMS["a table of matrices"][0]
    program = oi.compile(text)
    program.save(tmp_path / "p.oip")
    loaded = oi.load(tmp_path / "p.oip")
    first = loaded.make_executor()
    first.run(**given(n=2, l=1, i=2))
    first.snapshot().save(tmp_path / "s.safetensors")
    state = oi.State.load(tmp_path / "s.safetensors")
    assert state == first.snapshot()
    results: list[Any] = []
    for make in (oi.Simulator, oi.compile):
        executor = make(text).make_executor()
        executor.restore(state)
        results.append(executor.run(**given(n=2, l=0, i=1)))
    for name, value in results[0].items():
        np.testing.assert_array_equal(value, results[1][name])


def test_a_traced_step_says_their_shapes() -> None:
    text = """dynamic { n: i64; } persistent { K(i): f32[n, 2] @table; } volatile { z: f32[_, 2]; }
        block entry { cache.read K[2] >> z; return; }"""
    executor = oi.compile(text).make_executor(trace=True)
    executor.run(n=np.int64(3))
    (event,) = [e for e in executor.trace() if e.kind == "CacheRead"]
    assert event.shapes["K[2]"] == (3, 2)


def test_a_step_that_fails_does_not_fix_them() -> None:
    text = """dynamic { n: i64; i: i64; x: f32[3]; } persistent { K: f32[n]; } volatile { z: f32; y: f32; }
        block entry { op sum_axis(K, axes=[0]) >> z; assign j: i64[1]; op add(j, i) >> j;
          assign o: f32[1]; op gather(x, j) >> o; return; }"""
    agree(text, [given(n=3, i=7, x=ramp(3)), given(n=4, i=2, x=ramp(3)),
                 given(n=3, i=1, x=ramp(3))])  # fmt: skip


def test_the_limit_of_state() -> None:
    text = """dynamic { n: i64; } persistent { K(i): f32[n, 2] @table; } volatile { z: f32[_, 2]; }
        block entry { cache.read K[1] >> z; return; }"""
    for make in (oi.Simulator, oi.compile):
        executor = make(text).make_executor(max_state_bytes=4000)
        with pytest.raises(oi.StepError) as caught:
            executor.run(n=np.int64(300))
        assert caught.value.code == "OI0609"
        assert executor.run(n=np.int64(100))["z"].shape == (100, 2)
