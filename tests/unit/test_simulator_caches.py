"""Persistent variables in the simulator: every form of access, growth, bounds, rollback, events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cache_programs import executor, fails, plain, program, same, step

import openinfer as oi
from openinfer.lowering.reference.cache_nodes import stepped
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.tensors import Tensor

# Scalars and plain tensors


def test_scalars_count_and_reset() -> None:
    ex = executor(
        program(
            "persistent { n: i32 @init(5); }",
            "cache.increment n;",
            "cache.increment 10 n;",
            "cache.decrement 3 n;",
            "assign big: bool; assign now: i64; op cast(n, to=i64) >> now;",
            "op gt(now, a) >> big;",
            "branch big over under;",
            "return big;",
            "} block over { cache.reset n; return; } block under { return;",
        )
    )
    assert step(ex, a=100) == {"big": False}
    assert ex.fetch("n") == 13
    assert step(ex, a=20) == {"big": True}
    assert ex.fetch("n") == 5
    ex.reset()
    assert ex.fetch("n") == 5


@pytest.mark.parametrize(
    ("dtype", "start", "amount", "expected"),
    [
        ("i8", 127, 1, -128),
        ("i8", -128, -1, 127),
        ("u8", 255, 1, 0),
        ("u8", 0, -1, 255),
        ("i16", 0, 65537, 1),
        ("u16", 3, -4, 65535),
        ("i32", 2**31 - 1, 1, -(2**31)),
        ("u32", 1, -2, 2**32 - 1),
        ("i64", 2**63 - 1, 1, -(2**63)),
        ("u64", 0, -1, 2**64 - 1),
        ("u64", 2**64 - 1, 2**65 + 1, 0),
        ("f64", 0.5, 2**53, 2.0**53),
        ("f32", 2.0**24, 1, 2.0**24),
        ("f32", 1.5, -2, -0.5),
        ("f16", 2048.0, 1, 2048.0),
        ("f16", 65504.0, 65504, np.inf),
        ("bf16", 256.0, 1, 256.0),
        ("bf16", 256.0, 3, 260.0),
        ("f8", 8.0, 1, 8.0),
        ("f8", 8.0, 3, 12.0),
        ("f8e4m3", 448.0, 448, np.nan),
        ("f64", 0.0, 10**400, 1e308),
    ],
)
def test_counting_wraps_or_rounds_once(
    dtype: str, start: float, amount: int, expected: float
) -> None:
    array = np.asarray(start, DTYPES[dtype].value)
    result = stepped(array, dtype, amount)
    assert result.dtype == np.dtype(DTYPES[dtype].value)
    np.testing.assert_array_equal(result, np.asarray(expected, result.dtype))


def test_plain_tensors_are_read_by_name_too() -> None:
    ex = executor(
        program(
            "persistent { h: f32[N] @init(1.5); }",
            "assign t: f32[N];",
            "cache.read h >> t;",
            "op add(h, x) >> t;",
            "cache.write t >> h;",
            "cache.read h[] >> t;",
            "return t;",
        )
    )
    same(step(ex, x=[1, 2])["t"], [2.5, 3.5])
    same(step(ex, x=[1, 2])["t"], [3.5, 5.5])
    same(ex.fetch("h"), [3.5, 5.5])
    held = ex.fetch("h", copy=False)
    assert isinstance(held, np.ndarray)
    with pytest.raises(ValueError, match="read-only"):
        held[0] = 9


def test_the_first_touching_step_fixes_the_shape() -> None:
    text = program(
        "persistent { h: f32[N] @init(1); K(t): f32[N] @table; }",
        "branch c plain table; return;",
        "} block plain { assign t: f32[_]; cache.read h >> t; return;",
        "} block table { cache.write x >> K[a]; return;",
    )
    ex = executor(text)
    step(ex, c=1, x=[1, 2])
    message = fails("OI0608", ex, c=1, x=[1])
    assert "h: f32[N] is [1] in this step" in message
    assert "[2]" in message
    # Also in a step that does not use it: what it holds has no place there.
    assert "h: f32[N] is [3]" in fails("OI0608", ex, c=0, x=[1, 2, 3])
    step(ex, c=0, x=[1, 2])
    same(ex.fetch("K"), [[1, 2]])
    ex.reset()
    step(ex, c=0, x=[5, 6, 7])
    assert "K: f32[N] is [1]" in fails("OI0608", ex, c=1, x=[5])
    step(ex, c=1, x=[5, 6, 7])
    same(ex.fetch("h"), [1, 1, 1])


def test_a_reset_inside_of_a_step_keeps_the_shape() -> None:
    ex = executor(
        program(
            "persistent { h: f32[N] @init(2); K(t): f32[_] @table; }",
            "assign t: f32[N];",
            "cache.reset h; cache.reset K; cache.write x >> K[0]; cache.read h >> t; return t;",
        )
    )
    same(step(ex, x=[1, 2])["t"], [2, 2])
    assert "h: f32[N] is [1]" in fails("OI0608", ex, x=[3])
    ex.reset()
    same(step(ex, x=[3])["t"], [2])
    same(ex.fetch("K"), [[3]])


def test_a_reset_opens_what_a_write_has_settled() -> None:
    ex = executor(
        program(
            "persistent { K(t): f32[_] @table; }",
            "cache.reset K; cache.write x >> K[1]; return;",
        )
    )
    for x in ([1, 2], [3], [4, 5, 6]):
        step(ex, x=x)
        same(ex.fetch("K[1]"), x)


def test_open_dimensions_take_what_is_written() -> None:
    ex = executor(
        program(
            "persistent { h: f32[_]; K(t): f32[_] @table @init(7); }",
            "assign t: f32[_]; assign k: f32[_, _];",
            "branch a write only_read;",
            "cache.read h >> t; cache.read K[0..2] >> k;",
            "return t, k;",
            "} block write { cache.write x >> h; cache.write x >> K[b]; return;",
            "} block only_read { return;",
        )
    )
    assert "open dimension" in fails("OI0602", ex, a=0)
    same(step(ex, a=1, b=1, x=[1, 2])["t"], [1, 2])
    same(ex.fetch("K"), [[7, 7], [1, 2]])
    # A plain value may change its shape, the entries of a table all have one.
    assert "K[0] takes f32[2]" in fails("OI0602", ex, a=1, b=0, x=[1, 2, 3])
    same(step(ex, a=0)["k"], [[7, 7], [1, 2]])
    same(ex.fetch("h"), [1, 2])


# Tables


def test_table_growth_and_reads() -> None:
    ex = executor(
        program(
            "persistent { K(l, t): f32[2] @table @init(-1); }",
            "assign v: f32[2] ; assign all: f32[_, _, 2]; assign row: f32[_, 2];",
            "op fill(v, value=4.0) >> v;",
            "cache.write v >> K[a, b];",
            "cache.read K[] >> all;",
            "cache.read K[0, ] >> row;",
            "cache.read K[0] >> row;",
            "cache.read K[0, c..] >> row;",
            "return all, row;",
        )
    )
    out = step(ex, a=1, b=2)
    assert out["all"].shape == (2, 3, 2)
    same(out["all"][1, 2], [4, 4])
    same(out["all"][0], -np.ones((3, 2)))
    out = step(ex, a=0, b=0, c=3)
    assert out["row"].shape == (0, 2)
    out = step(ex, a=0, b=4, c=1)
    same(out["row"], [[-1, -1], [-1, -1], [-1, -1], [4, 4]])
    assert plain(ex.fetch("K")).shape == (2, 5, 2)
    same(ex.fetch("K[0, 4]"), [4, 4])
    assert plain(ex.fetch("K[1]")).shape == (5, 2)


def test_an_access_grows_each_axis_by_itself() -> None:
    ex = executor(
        program(
            "persistent { K(l, t): f32 @table; }",
            "assign v: f32; assign some: f32[_];",
            "cache.read K[a, b] >> v;",
            "cache.read K[c, 2..4] >> some;",
            "return some;",
        )
    )
    same(step(ex, a=2, b=0, c=0)["some"], [0, 0])
    assert plain(ex.fetch("K")).shape == (3, 4)
    assert sorted(ex.snapshot()["K"].entries) == [(0, 2), (0, 3), (2, 0)]


@pytest.mark.parametrize(
    ("slice_", "expected"),
    [
        ("..", range(10)),
        ("0..10", range(10)),
        ("..4", range(4)),
        ("4..", range(4, 10)),
        ("2..5", range(2, 5)),
        ("0..-3", range(7)),
        ("-0..-10", ()),
        ("10..", ()),
        ("a..b", range(3, 6)),
        ("a..b-7", range(3, 9)),
        ("10..12", (0, 0)),
    ],
)
def test_slices(slice_: str, expected: Any) -> None:
    ex = executor(
        program(
            "persistent { A(i): f32 @table; }",
            "assign v: f32; assign out: f32[_];",
            "loop fill (k in 0..10) { op fill(v, value=k) >> v; cache.write v >> A[k]; }",
            f"cache.read A[{slice_}] >> out;",
            "return out;",
        )
    )
    same(step(ex, a=3, b=6)["out"], list(expected))


@pytest.mark.parametrize(
    ("use", "part"),
    [
        ("A[a]", "index i = -1 of A is negative"),
        ("A[a..]", "starts below 0"),
        ("A[..-4]", "ends below 0: it counts from the present extent, which is 3"),
        ("A[2..-2]", "ends at 1, before its start"),
        ("A[b..1]", "slice 2..1 of index i of A ends at 1, before its start"),
        ("A[4..]", "slice 4.. of index i of A ends at 3, before its start"),
        ("B[c]", "index i = 4 of B is outside 0..4, the bound of @fixed(i=4)"),
        ("B[0..c + 1]", "index i = 0..5 of B is outside 0..4, the bound of @fixed(i=4)"),
    ],
)
@pytest.mark.parametrize("access", ["read", "write"])
def test_bad_indices(use: str, part: str, access: str) -> None:
    node = f"cache.read {use} >> out;" if access == "read" else f"cache.write out >> {use};"
    dims = "[_]" if ".." in use else ""
    ex = executor(
        program(
            "persistent { A(i): f32 @table; B(i): f32 @table @fixed(i=4); n: i32; }",
            f"assign v: f32; assign out: f32{dims};",
            "cache.write v >> A[2];",
            "cache.increment n;",
            "op fill(out, value=0.0) >> out;" if not dims else "op neg(x) >> out;",
            node,
            "return;",
        )
    )
    message = fails("OI0606", ex, a=-1, b=2, c=4)
    assert part in message
    assert "node" in message
    # Nothing of the failing step is left.
    assert ex.fetch("n") == 0
    assert plain(ex.fetch("A")).shape == (0,)
    assert not ex.snapshot()["A"].entries


def test_fixed_tables_start_at_their_bound() -> None:
    ex = executor(
        program(
            "persistent { D(i, j): f32 @table @fixed(i=3, j=2) @init(2); E(i, j): f32 @table "
            "@fixed(j=2); }",
            "assign all: f32[_, _]; assign e: f32[_, _]; assign v: f32;",
            "cache.read D[] >> all; cache.read E[] >> e;",
            "return all, e;",
        )
    )
    assert plain(ex.fetch("D")).shape == (3, 2)
    assert plain(ex.fetch("E")).shape == (0, 2)
    out = step(ex)
    same(out["all"], np.full((3, 2), 2))
    assert out["e"].shape == (0, 2)
    assert ex.snapshot()["D"].extents == (3, 2)


ROWS = """
dynamic { a: i64; b: i64; rows: f32[R, 2]; }
persistent { n: i64; K(l, t): f32[2] @table; }
block entry {
  assign all: f32[_, 2];
  cache.write rows >> K[a, n..n + b];
  loop count (i in 0..b) { cache.increment n; }
  cache.read K[a, ] >> all;
  return all;
}
"""


def test_slice_writes_append() -> None:
    ex = executor(ROWS)
    first, second = np.ones((2, 2), np.float32), np.full((3, 2), 2, np.float32)
    same(ex.run(a=1, b=2, rows=first)["all"], first)
    same(ex.run(a=1, b=3, rows=second)["all"], np.concatenate([first, second]))
    same(ex.run(a=0, b=0, rows=second[:0])["all"], np.zeros((5, 2)))
    assert plain(ex.fetch("K")).shape == (2, 5, 2)


def test_a_written_shape_must_fit() -> None:
    ex = executor(ROWS)
    ex.run(a=0, b=2, rows=np.ones((2, 2), np.float32))
    for rows in (np.ones((2, 2), np.float32), np.ones((4, 2), np.float32)):
        with pytest.raises(oi.StepError) as caught:
            ex.run(a=0, b=3, rows=rows)
        assert caught.value.code == "OI0602"
        text = f"K[0, 2..5] takes f32[3, 2], the value has shape [{len(rows)}, 2]"
        assert text in caught.value.message
    same(ex.fetch("K"), np.ones((1, 2, 2)))
    assert ex.fetch("n") == 2


def test_the_destination_must_fit() -> None:
    ex = executor(
        program(
            "persistent { K(t): f32[2] @table; n: i64; }",
            "assign rows: f32[n, 2];",
            "cache.increment n;",
            "cache.read K[a..b] >> rows;",
            "return rows;",
        )
    )
    # A dimension that names a variable has the value that it had where the declaration stands.
    assert step(ex, a=0, b=0)["rows"].shape == (0, 2)
    assert step(ex, a=0, b=1)["rows"].shape == (1, 2)
    message = fails("OI0602", ex, a=0, b=1)
    assert "rows is declared f32[n, 2] = [2, 2], the value has shape [1, 2]" in message


def test_written_values_belong_to_the_cache() -> None:
    ex = executor(
        program("persistent { K(t): f32[N] @table; }", "cache.write x >> K[a];", "return;")
    )
    array = np.array([1, 2], np.float32)
    ex.run(a=0, b=0, c=0, x=array)
    array[:] = 9
    same(ex.fetch("K"), [[1, 2]])
    fetched = ex.fetch("K")
    assert isinstance(fetched, np.ndarray)
    fetched[:] = 8
    same(ex.fetch("K"), [[1, 2]])


def test_reset_of_entries_prefixes_and_tables() -> None:
    ex = executor(
        program(
            "persistent { K(l, t): f32 @table @init(1); F(t): f32 @table @fixed(t=3); }",
            "assign v: f32; op fill(v, value=5.0) >> v;",
            "cache.write v >> K[0, 0]; cache.write v >> K[1, 3]; cache.write v >> K[2, 1];",
            "cache.write v >> F[1];",
            "branch b entry_ rest; return;",
            "} block entry_ { cache.reset K[1, 3]; cache.reset F[1]; return;",
            "} block rest { branch c prefix all; return;",
            "} block prefix { cache.reset K[a]; return;",
            "} block all { cache.reset K[]; cache.reset F; return;",
        )
    )
    step(ex, b=1)
    assert plain(ex.fetch("K")).shape == (3, 2)
    same(ex.fetch("F"), [0, 0, 0])
    step(ex, c=1, a=2)
    same(ex.fetch("K"), [[5, 1, 1, 1], [1, 1, 1, 5]])
    step(ex, c=1, a=7)  # nothing is there: nothing happens
    assert plain(ex.fetch("K")).shape == (3, 4)
    assert "index l = -1 of K is negative" in fails("OI0606", ex, c=1, a=-1)
    step(ex)
    assert plain(ex.fetch("K")).shape == (0, 0)
    same(ex.fetch("F"), [0, 0, 0])


def test_indices_name_whatever_holds_an_integer() -> None:
    ex = oi.Simulator(
        """
        dynamic { d: u8; e: bool[1]; }
        persistent { p: i32 @init(3); K(a, b, c, d_): f32 @table; }
        volatile { v: i16 @init(2); }
        block entry {
          assign one: f32;
          op fill(one, value=1.0) >> one;
          loop again (k in 1..2) { cache.write one >> K[p - k, v*2, d, e + S]; }
          return;
        }
        """,
        sizes={"S": 4},
    ).make_executor()
    ex.run(d=np.uint8(1), e=np.array([True]))
    assert list(ex.snapshot()["K"].entries) == [(2, 4, 1, 5)]
    same(ex.fetch("K[2, 4, 1, 5]"), 1)


def test_a_failing_step_leaves_all_as_it_was() -> None:
    ex = executor(
        program(
            "persistent { n: i32; h: f32[N]; K(t): f32[N] @table; M(i): f32[1] @auto_dim(i); }",
            "assign t: f32[_];",
            "cache.increment n; cache.write x >> h; cache.write x >> K[b];",
            "cache.read M[b] >> t; cache.reset K[0];",
            "cache.read M[a..1] >> t;",
            "return;",
        )
    )
    step(ex, b=1, x=[1, 2])
    before = ex.snapshot()
    fails("OI0606", ex, a=-1, b=3, x=[3, 4])
    assert ex.snapshot() == before
    # A step that is abandoned leaves nothing either.
    ex.insert(a=0, b=4, c=0, x=np.zeros(2, np.float32))
    for node in ex.iterate():
        if node.event.kind == "CacheWrite":
            assert node.fetch("n") == 2
            break
    assert ex.snapshot() == before
    step(ex, b=1, x=[1, 2])
    assert ex.fetch("n") == 2


# Dtypes


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_every_dtype_lives_in_every_kind_of_cache(dtype: str) -> None:
    row = DTYPES[dtype]
    ex = oi.Simulator(
        f"""
        dynamic {{ x: {dtype}[3]; at: i32; }}
        persistent {{ h: {dtype}[3]; K(t): {dtype}[3] @table; A(i): {dtype}[1] @auto_dim(i); }}
        block entry {{
          assign k: {dtype}[3]; assign all: {dtype}[_, 3];
          cache.write x >> h; cache.write x >> K[at]; cache.write x >> A[2];
          cache.read K[at] >> k; cache.read K[] >> all;
          return k, all;
        }}
        """
    ).make_executor()
    values = {"t1": [-1, 1, -1], "i1": [0, -1, -1]}.get(dtype, [0, 1, 1])
    x = Tensor.from_values(dtype, values)
    out = ex.run(x=x, at=1)
    zero = -1 if dtype == "t1" else 0
    same(out["k"], np.asarray(values, row.value))
    same(out["all"], np.asarray([[zero] * 3, values], row.value))
    for name, expected in (("h", values), ("K[1]", values), ("A", values)):
        same(ex.fetch(name), np.asarray(expected, row.value))
    assert plain(ex.fetch("K")).dtype == np.dtype(row.value)


# Limits


def test_growth_beyond_the_limit_is_refused_before_anything_is_made() -> None:
    text = program(
        "persistent { n: i32; K(t): f32[4] @table; A(i): f64[1] @auto_dim(i); }",
        "assign k: f32[4]; assign m: f64[_];",
        "cache.increment n;",
        "branch c table matrix; return;",
        "} block table { cache.read K[a] >> k; return;",
        "} block matrix { cache.read A[a] >> m; return;",
    )
    ex = executor(text, max_state_bytes=200)
    step(ex, c=1, a=3)
    step(ex, c=0, a=10)
    before = ex.snapshot()
    message = fails("OI0609", ex, c=1, a=7)
    assert (
        "K would grow: all state would take 220 bytes, more than max_state_bytes = 200" in message
    )
    fails("OI0609", ex, c=0, a=20)
    for huge in (10**6, 10**15, 2**62 - 2):
        fails("OI0609", ex, c=1, a=huge)
        fails("OI0609", ex, c=0, a=huge)
    assert ex.snapshot() == before
    # Without a number, half of the memory is the limit.
    fails("OI0609", executor(text), c=1, a=10**14)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "1", True, 2**57])
def test_unusable_limits(wrong: Any) -> None:
    with pytest.raises(oi.InputError) as caught:
        executor(program("", "return;"), max_state_bytes=wrong)
    assert caught.value.code == "OI0552"


def test_too_many_entries_for_the_simulator() -> None:
    ex = executor(
        program(
            "persistent { K(t): i8[0] @table; }",
            "assign k: i8[_, 0]; cache.read K[0..a] >> k; return;",
        ),
        max_state_bytes=1 << 40,
    )
    assert "not enough memory" in fails("OI0604", ex, a=1 << 30)


# Fetching


def test_fetch_before_the_first_step_and_of_what_is_not_there() -> None:
    ex = executor(
        program(
            "persistent { s: i32 @init(4); K(t): f32[2] @table @init(1); h: f32[N]; "
            "A(i): f32[2] @auto_dim(i); }",
            "assign t: f32[_]; cache.read K[a] >> t; cache.read h >> t; return;",
        )
    )
    assert ex.fetch("s") == 4
    assert plain(ex.fetch("K")).shape == (0, 2)
    same(ex.fetch("A"), [0, 0])
    with pytest.raises(oi.InputError) as caught:
        ex.fetch("h")
    assert caught.value.code == "OI0508"
    for name in ("K[0]", "K[0, 0]", "K[-1]", "s[0]", "A[0]"):
        with pytest.raises(oi.InputError) as caught:
            ex.fetch(name)
        assert caught.value.code == "OI0547", name
    step(ex, a=2)
    same(ex.fetch("K[1]"), [1, 1])  # inside, though nobody has touched it
    assert sorted(ex.snapshot()["K"].entries) == [(2,)]
    same(ex.fetch("h"), [0])
    with pytest.raises(oi.InputError) as caught:
        ex.fetch("K[x]")
    assert caught.value.code == "OI0547"


def test_fetch_while_a_step_is_iterated() -> None:
    ex = executor(
        program(
            "persistent { n: i32; K(t): f32[N] @table; }",
            "cache.increment n;",
            "cache.write x >> K[n];",
            "cache.increment n;",
            "return;",
        )
    )
    ex.insert(a=0, b=0, c=0, x=np.array([1], np.float32))
    seen = [(node.event.kind, int(plain(node.fetch("n"))), plain(node.fetch("K")).shape)
            for node in ex.iterate()]  # fmt: skip
    assert seen == [
        ("BlockEnter", 0, (0, 1)),
        ("CacheIncrement", 1, (0, 1)),
        ("CacheWrite", 1, (2, 1)),
        ("CacheIncrement", 2, (2, 1)),
        ("Return", 2, (2, 1)),
        ("BlockExit", 2, (2, 1)),
    ]


def test_persistent_values_are_results() -> None:
    ex = executor(program("persistent { n: i32; }", "cache.increment 2 n;", "return n;"))
    assert step(ex) == {"n": 2}
    assert step(ex) == {"n": 4}


# Events


def test_events_of_cache_nodes() -> None:
    ex = executor(
        program(
            "persistent { n: i64 @init(1); K(l, t): f16[2] @table; "
            "A(i, j): f32[2, 3] @auto_dim(i, j); }",
            "assign k: f16[2]; assign ks: f16[_, 2]; assign m: f32[_, _];",
            "loop layers (l in 1..2) { cache.write k >> K[l, n]; cache.read K[l, 0..n + 1] >> ks; }",
            "cache.read A[0..2+i, ] >> m;",
            "cache.increment 3 n; cache.decrement n;",
            "cache.reset K[1, a]; cache.reset n; barrier; dep after(add) before(cache.write);",
            "return;",
        )
    )
    step(ex)
    rows = [
        (e.kind, e.params, e.output, dict(e.shapes), dict(e.settings))
        for e in ex.trace()
        if e.kind not in ("Assign", "BlockEnter", "BlockExit", "Loop", "Return")
    ]
    assert rows == [
        ("CacheWrite", ("k",), ("K[l=1, n=1]",), {"k": (2,), "K[l=1, n=1]": (2,)}, {}),
        (
            "CacheRead",
            ("K[l=1, 0..2]",),
            ("ks",),
            {"K[l=1, 0..2]": (2, 2), "ks": (2, 2)},
            {},
        ),
        ("CacheRead", ("A[0..i + 2, ..]",), ("m",), {"A[0..i + 2, ..]": (2, 3), "m": (2, 3)}, {}),
        ("CacheIncrement", ("n",), ("n",), {"n": ()}, {"amount": 3}),
        ("CacheDecrement", ("n",), ("n",), {"n": ()}, {"amount": 1}),
        ("CacheReset", (), ("K[1, a=0]",), {}, {}),
        ("CacheReset", (), ("n",), {}, {}),
        ("Barrier", (), (), {}, {}),
        ("Dep", (), (), {}, {}),
    ]
    events = {e.kind: e for e in ex.trace()}
    assert events["CacheRead"].dtypes["m"] == "f32"
    assert events["CacheWrite"].dtypes == {"k": "f16", "K[l=1, n=1]": "f16"}
    assert all(e.location is not None for e in ex.trace())
