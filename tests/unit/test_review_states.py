"""Persistent values that change while something still looks at them, and threads beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer

HEAD = "dynamic { x: f32[4]; i: i64; }\n"
TABLE = HEAD + "persistent { T(k): f32[4] @table; }\n"
PLAIN = HEAD + "persistent { a: f32[4] @init(1.0); b: f32[4] @init(2.0); }\n"

PROGRAMS = {
    "two plain values are swapped in a loop": PLAIN
    + """block entry { loop q (k in 0..i) { assign t: f32[4]; assign u: f32[4];
       cache.read a >> t; cache.read b >> u; cache.write u >> a; op add(t, x) >> t;
       cache.write t >> b; } return a, b; }""",
    "two plain values are swapped in one arm": PLAIN
    + """block entry { branch i swap keep; return a, b; }
       block swap { assign t: f32[4]; assign u: f32[4]; cache.read a >> t; cache.read b >> u;
       cache.write u >> a; cache.write t >> b; return; }
       block keep { cache.write x >> a; return; }""",
    "an entry is read here and written in a called block": TABLE
    + """block entry { assign t: f32[4]; assign u: f32[4]; cache.read T[0] >> t; branch put;
       op add(t, x) >> u; return t, u; }
       block put { cache.write x >> T[0]; return; }""",
    "an entry is read in one arm and written behind both": TABLE
    + """block entry { assign t: f32[4]; assign u: f32[4]; branch i get put;
       cache.write x >> T[0]; op add(t, x) >> u; return t, u; }
       block get { cache.read T[0] >> t; return; }
       block put { cache.write x >> T[0]; cache.read T[0] >> t; return; }""",
    "a slice is stored one place further in its own table": TABLE
    + """block entry { assign t: f32[4, 4]; assign w: f32[_, 4]; cache.write x >> T[0];
       cache.read T[0..4] >> t; cache.write t >> T[1..5]; cache.read T[] >> w; return w, t; }""",
    "a loop carries an entry that its rounds overwrite": TABLE
    + """block entry { assign t: f32[4]; assign p: f32[4]; assign u: f32[4];
       loop q (k in 0..5) { transfer t >> p; cache.read T[k] >> t; op add(u, p) >> u;
       op add(u, x) >> u; cache.write u >> T[k]; cache.write u >> T[k + 1]; } return t, u, p; }""",
    "a loop carries a slice of changing length": TABLE
    + """block entry { assign t: f32[_, 4]; assign s: f32[4]; assign u: f32[4];
       cache.read T[0..1] >> t; loop q (k in 0..i) { op sum_axis(t, axes=[0]) >> s;
       op add(u, s) >> u; cache.write x >> T[k]; cache.read T[0..k + 1] >> t; } return u, t; }""",
    "an entry is read, then its table is reset": TABLE
    + """block entry { assign t: f32[4]; cache.write x >> T[i]; cache.read T[i] >> t;
       cache.reset T; return t; }""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_read_stays_what_it_was(name: str) -> None:
    simulator = openinfer.Simulator(PROGRAMS[name]).make_executor()
    program = openinfer.compile(PROGRAMS[name])
    compiled = [program.make_executor(threads) for threads in (1, 2)]
    random = np.random.default_rng(3)
    for i in range(6):
        given: dict[str, Any] = {"x": random.normal(size=4).astype(np.float32), "i": np.int64(i)}
        expected = simulator.run(**given)
        for executor in compiled:
            got = executor.run(**given)
            for key, value in expected.items():
                np.testing.assert_allclose(got[key], value, 1e-5, 1e-5, err_msg=f"{i} {key}")


SHARED = """
dynamic { x: f32[N, 256]; i: i64; }
volatile { W: f32[256, 256] @init(0.01); V: f32[256, 512] @init(0.02); a: f32[N, 256];
   b: f32[N, 256]; }
persistent { n: i64; K(t): f32[256] @table; }
block entry {
  assign h: f32[N, 256]; assign g: f32[N, 512]; assign r: f32[256]; assign p: f32[N, 256];
  assign e: f32[N, 256]; assign k: f32[_, 256];
  loop l (z in 0..3) {
    op matmul(x, W) >> h; op matmul(h, V) >> g; op softmax(g, axis=1) >> g;
    op slice(g, starts=[0, 0], stops=[N, 256]) >> h; op sum_axis(h, axes=[0]) >> r;
    cache.write r >> K[n]; cache.increment n;
  }
  op add(h, x) >> p;
  yield p; await p;
  op add(a, b) >> e; cache.write r >> K[i]; cache.read K[] >> k;
  return h, e, k;
}
block c1 { await p; op matmul(p, W) >> a; yield p; }
block c2 { await p; op softmax(p, axis=1) >> b; yield p; }
"""


def test_jobs_of_different_kernels_give_the_same_bits_for_any_number_of_threads() -> None:
    program = openinfer.compile(SHARED)
    executors = [program.make_executor(threads) for threads in (1, 2, 4)]
    random = np.random.default_rng(5)
    for number in range(25):
        rows = int(random.choice([1, 64, 65]))
        x = random.normal(size=(rows, 256)).astype(np.float32)
        # Every fifth step fails behind its jobs, and counts for nothing.
        i = np.int64(-1 if number % 5 == 4 else number)
        found: list[Any] = []
        for executor in executors:
            try:
                found.append(executor.run(x=x, i=i))
            except openinfer.StepError as error:
                found.append(error.code)
        if i < 0:
            assert found == ["OI0606"] * 3
            continue
        for other in found[1:]:
            for key, value in found[0].items():
                np.testing.assert_array_equal(other[key], value, err_msg=f"{number} {key}")
    first = executors[0].snapshot()
    assert all(executor.snapshot() == first for executor in executors[1:])
    for executor in executors:
        executor.close()
