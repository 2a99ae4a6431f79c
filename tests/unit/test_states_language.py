"""Programs whose sizes and effects only the step knows, compiled, against the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer

random = np.random.default_rng(11)


def f(*shape: int) -> Any:
    return random.normal(size=shape).astype(np.float32)


def values(found: Any) -> Any:
    return found.values() if isinstance(found, openinfer.Tensor) else found


SLICE_BY_LOOP_INDEX = """
dynamic { x: f32[B, 4]; }
block entry { assign y: f32[1,4]; assign z: f32[4];
 loop l (i in 0..B) { op slice(x, starts=[i, 0], stops=[i + 1, 4]) >> y;
   op reshape(y, shape=[4]) >> z; }
 return z; }
"""

GROWING_PREFIX = """
dynamic { x: f32[B, 4]; }
volatile { acc: f32[4]; }
block entry { assign s: f32[4];
 loop l (i in 0..B) { assign part: f32[i + 1, 4];
   op slice(x, starts=[0, 0], stops=[i + 1, 4]) >> part; op sum_axis(part, axes=[0]) >> s;
   op add(acc, s) >> acc; }
 return acc; }
"""

DIMS_BY_VOLATILE_SCALAR = """
dynamic { n: i32; m: i32; x: f32[4]; }
block entry { assign k: i32; op add(n, m) >> k; assign t: f32[k, 4]; op add(t, x) >> t;
   assign s: f32[4]; op sum_axis(t, axes=[0]) >> s; return s, t; }
"""

KV_DECODE_ATTENTION = """
dynamic { q: f32[1, H, 8]; knew: f32[H, 8]; vnew: f32[H, 8]; }
persistent { step: i32; K(l, t): f32[H, 8] @table; V(l, t): f32[H, 8] @table; }
block entry {
  assign ks: f32[step + 1, H, 8]; assign vs: f32[step + 1, H, 8]; assign o: f32[1, H, 8];
   assign h: f32[1, H, 8];
  assign k4: f32[1, H, step + 1, 8]; assign v4: f32[1, H, step + 1, 8];
   assign q4: f32[1, H, 1, 8]; assign o4: f32[1, H, 1, 8];
  op add(q, h) >> h;
  loop layers (l in 0..2) {
    cache.write knew >> K[l, step];
    cache.write vnew >> V[l, step];
    cache.read K[l, 0..step + 1] >> ks;
    cache.read V[l, 0..step + 1] >> vs;
    op reshape(h, shape=[1, H, 1, 8]) >> q4;
    assign kt: f32[H, step + 1, 8]; assign vt: f32[H, step + 1, 8];
    op permute(ks, order=[1, 0, 2]) >> kt; op permute(vs, order=[1, 0, 2]) >> vt;
    op reshape(kt, shape=[1, H, step + 1, 8]) >> k4;
   op reshape(vt, shape=[1, H, step + 1, 8]) >> v4;
    op attention(q4, k4, v4) >> o4;
    op reshape(o4, shape=[1, H, 8]) >> o;
    op add(h, o) >> h;
  }
  cache.increment step;
  return h;
}
"""

I8_TABLE_AND_F16 = """
dynamic { x: i8[4]; y: f16[3]; b: bool[2]; }
persistent { n: i32; T(i): i8[4] @table; U(i): f16[3] @table @init(2.0); P(i): bool[2] @table; }
block entry { assign t: i8[_, 4]; assign u: f16[_, 3]; assign p: bool[_, 2];
 cache.write x >> T[n]; cache.write y >> U[n + 1]; cache.write b >> P[n];
 cache.read T[] >> t; cache.read U[] >> u; cache.read P[] >> p; cache.increment n;
   return t, u, p; }
"""

YIELD_IN_LOOP = """
dynamic { x: f32[4]; }
volatile { a: f32[4]; b: f32[4]; }
block entry { assign h: f32[4]; op add(x, h) >> h;
 loop l (i in 0..3) { yield h; await h; }
 return h, a, b; }
block c1 { await h; op mul(h, h) >> h; yield h; }
block c2 { await h; op add(a, h) >> a; yield h; }
block c3 { await h; op sub(b, h) >> b; yield h; }
"""

RING_BUFFER_WINDOW = """
dynamic { x: f32[2]; }
persistent { n: i32; R(i): f32[2] @table; }
block entry { assign start: i32; assign four: i32; assign zero: i32; assign w: f32[_, 2];
 op fill(four, value=4) >> four; op fill(zero, value=0) >> zero;
 cache.write x >> R[n];
 op sub(n, four) >> start; op max(start, zero) >> start;
 cache.read R[start..n + 1] >> w;
 cache.increment n; return w; }
"""

BRANCH_ON_TABLE = """
dynamic { x: f32[2]; }
persistent { n: i32; R(i): f32[2] @table; }
block entry { assign c: bool; assign m: i32; assign two: i32; op fill(two, value=2) >> two;
   op rem(n, two) >> m; op eq(m, two) >> c; branch m odd even; cache.increment n; return x; }
block odd { cache.write x >> R[n]; return; }
block even { cache.write x >> R[0]; cache.reset R; return; }
"""

I4_TABLE = """
dynamic { x: i32[3]; }
persistent { n: i32; T(i): i4[3] @table; s: i4[3]; }
block entry { assign p: i4[3]; assign t: i4[_, 3]; assign r: i32[_, 3];
   op cast(x, to=i4) >> p; cache.write p >> T[n]; cache.write p >> s; cache.read T[] >> t;
   op cast(t, to=i32) >> r; cache.increment n; return r; }
"""

PROGRAMS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "slice by loop index": (SLICE_BY_LOOP_INDEX, [dict(x=f(3, 4)), dict(x=f(5, 4))]),
    "growing prefix": (GROWING_PREFIX, [dict(x=f(3, 4)), dict(x=f(5, 4))]),
    "dims by volatile scalar": (
        DIMS_BY_VOLATILE_SCALAR,
        [dict(n=np.int32(a), m=np.int32(b), x=f(4)) for a, b in ((1, 2), (0, 0), (30, 5), (2, 2))],
    ),
    "kv decode attention": (
        KV_DECODE_ATTENTION,
        [dict(q=f(1, 2, 8), knew=f(2, 8), vnew=f(2, 8)) for _ in range(20)],
    ),
    "i8 table and f16": (
        I8_TABLE_AND_F16,
        [
            dict(
                x=random.integers(-9, 9, 4).astype("i1"),
                y=f(3).astype("f2"),
                b=np.array([True, False]),
            )
            for _ in range(5)
        ],
    ),
    "yield in loop": (YIELD_IN_LOOP, [dict(x=f(4) * 0.5) for _ in range(2)]),
    "ring buffer window": (RING_BUFFER_WINDOW, [dict(x=f(2)) for _ in range(9)]),
    "branch on table": (BRANCH_ON_TABLE, [dict(x=f(2)) for _ in range(9)]),
    "i4 table": (I4_TABLE, [dict(x=np.array([i, -3, 7], "i4")) for i in range(4)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_agree_with_the_simulator(name: str) -> None:
    text, steps = PROGRAMS[name]
    simulator = openinfer.Simulator(text).make_executor()
    compiled = openinfer.compile(text).make_executor(1)
    for number, given in enumerate(steps):
        expected, got = simulator.run(**given), compiled.run(**given)
        for key, value in expected.items():
            np.testing.assert_allclose(
                np.asarray(values(got[key]), np.float64),
                np.asarray(values(value), np.float64),
                1e-5,
                1e-5,
                err_msg=f"step {number}, {key}",
            )


PACKED = """
dynamic { x: i32[3]; n: i32; }
persistent { T(i, j): i4[3] @table; U(k): u1[5] @table; M(i, j): t2[2, 2] @auto_dim(i, j);
   s: i2[3]; }
block entry { assign p: i4[3]; assign t: i4[_, _, 3]; assign r: i32[_, _, 3];
   assign q: i4[_, 3]; assign m: t2[_, _]; assign b: u1[5]; assign w: t2[_];
 op cast(x, to=i4) >> p; cache.write p >> T[n, 1]; cache.write p >> T[1, n];
   cache.read T[] >> t; op cast(t, to=i32) >> r; cache.read T[1, 0..n + 1] >> q;
 cache.read M[n, 1] >> m; cache.read M[1, ] >> w; cache.write w >> M[0, ];
   cache.read U[n] >> b; cache.write b >> U[n + 1];
 return r, q, m, b; }
"""


def test_packed_dtypes_in_tables_and_matrices() -> None:
    simulator = openinfer.Simulator(PACKED).make_executor()
    program = openinfer.compile(PACKED)
    compiled = program.make_executor(1)
    for i in range(6):
        given: dict[str, Any] = {
            "x": np.array([i, -3, 7], np.int32),
            "n": np.int32(i * 2 % 5),
        }
        expected, got = simulator.run(**given), compiled.run(**given)
        for key, value in expected.items():
            np.testing.assert_array_equal(values(got[key]), values(value))
    other = program.make_executor(1)
    simulator.restore(compiled.snapshot())
    other.restore(simulator.snapshot())
    for name in "TUMs":
        np.testing.assert_array_equal(values(compiled.fetch(name)), values(simulator.fetch(name)))
        np.testing.assert_array_equal(values(compiled.fetch(name)), values(other.fetch(name)))


def test_several_lengths_are_said_to_be_equal_where_an_op_needs_it() -> None:
    text = """
    dynamic { x: f32[2]; n: i32; }
    persistent { A(i): f32[2] @table; B(i): f32[2] @table; }
    block entry {
      assign a: f32[_, 2];
      assign b: f32[_, 2];
      assign c: f32[_, 2];
      cache.write x >> A[n];
      cache.write x >> B[2];
      cache.read A[] >> a;
      cache.read B[] >> b;
      op add(a, b) >> c;
      return c;
    }
    """
    compiled = openinfer.compile(text).make_executor(1)
    x = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(values(compiled.run(x=x, n=np.int32(2))["c"])[2], 2 * x)
    with pytest.raises(openinfer.StepError) as caught:
        compiled.run(x=x, n=np.int32(5))
    assert caught.value.code == "OI0602"
    assert compiled.fetch("A").shape == (3, 2)
