"""Persistent scalars, tables, growing matrices and effects: rows 45 to 56 of the feature table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both import DEVICES, Make, equal, executor_on, package, plain, refused

import openinfer as oi
from openinfer.runtime.tensors import Tensor

X = np.array([1, 2, 3], np.float32)


def test_scalars_and_tensors_persist(make: Make) -> None:
    executor = make(
        """
        dynamic { x: f32[3]; }
        persistent { step: i32 @init(10); last: f32[3] @init(0.5); mean: f32; }
        block entry {
            assign before: f32[3];
            cache.read last >> before;
            op add(last, x) >> before;
            cache.write before >> last;
            cache.increment step;
            return before, step;
        }
        """
    )
    for n in range(1, 5):
        found = executor.run(x=X)
        equal(found["before"], 0.5 + n * X)
        equal(found["step"], 10 + n)
    equal(executor.fetch("mean"), 0)
    executor.reset()
    equal(executor.run(x=X)["step"], 11)
    refused("persistent { p: f32; } block entry { op neg(p) >> p; return; }", "OI0221")


def test_counting_by_any_number(make: Make) -> None:
    executor = make(
        """
        persistent { a: i8 @init(126); b: u16; c: f32 @init(0.5); d: i64; }
        block entry {
            cache.increment a; cache.increment 3 b; cache.decrement 5 b;
            cache.increment 2 c; cache.decrement d; cache.decrement 0 d;
            return;
        }
        """
    )
    executor.step()
    executor.step()
    found = [plain(executor.fetch(name)).item() for name in "abcd"]
    assert found == [-128, 2**16 - 4, 4.5, -2]


TABLE = """
dynamic { x: f32[3]; i: i32; j: i32; }
persistent { K(a, b): f32[3] @table @init(9); T(a, b): f16[2] @table @fixed(a=2, b=3); }
block entry {
    assign one: f32[3]; assign all: f32[_, _, 3]; assign row: f32[_, 3]; assign t: f16[_, 2];
    cache.write x >> K[i, j];
    cache.read K[i, j - j] >> one;
    cache.read K[] >> all;
    cache.read K[i, ] >> row;
    cache.read T[1, ] >> t;
    return one, all, row, t;
}
"""


def test_tables_grow_in_every_index(make: Make) -> None:
    executor = make(TABLE)
    found = executor.run(x=X, i=0, j=2)
    assert found["all"].shape == (1, 3, 3)
    equal(found["row"], [[9] * 3, [9] * 3, X])
    equal(found["one"], [9] * 3)
    found = executor.run(x=2 * X, i=3, j=0)
    assert found["all"].shape == (4, 3, 3)
    equal(found["all"][0, 2], X)
    equal(found["one"], 2 * X)
    wanted = np.full((4, 3, 3), 9, np.float32)
    wanted[0, 2], wanted[3, 0] = X, 2 * X
    equal(executor.fetch("K"), wanted)
    assert found["t"].shape == (3, 2)


@pytest.mark.parametrize(("i", "j"), [(2, 0), (0, 3), (-1, 0)])
def test_fixed_bounds_name_variable_index_and_value(make: Make, i: int, j: int) -> None:
    executor = make(
        """
        dynamic { i: i32; j: i32; v: f16[2]; }
        persistent { n: i32; T(a, b): f16[2] @table @fixed(a=2, b=3); }
        block entry { cache.increment n; cache.write v >> T[i, j]; return; }
        """
    )
    v = np.ones(2, np.float16)
    executor.run(i=1, j=2, v=v)
    with pytest.raises(oi.StepError) as caught:
        executor.run(i=i, j=j, v=v)
    assert caught.value.code == "OI0606"
    for part in ("T", "a" if i != 0 else "b", str(i if i != 0 else j)):
        assert part in caught.value.message
    equal(executor.fetch("n"), 1)
    executor.run(i=0, j=0, v=v)
    assert executor.fetch("T").shape == (2, 3, 2)


def test_slices_are_half_open(make: Make) -> None:
    executor = make(
        """
        dynamic { xs: f32[N, 2]; }
        persistent { A(i): f32[2] @table; }
        block entry {
            assign a: f32[_, 2]; assign b: f32[_, 2]; assign c: f32[_, 2]; assign d: f32[_, 2];
            assign e: f32[_, 2];
            cache.write xs >> A[0..N];
            cache.read A[] >> a;
            cache.read A[2..5] >> b;
            cache.read A[0..-3] >> c;
            cache.read A[..-N + 1] >> d;
            cache.read A[N - 1..] >> e;
            return a, b, c, d, e;
        }
        """
    )
    xs = np.arange(20, dtype=np.float32).reshape(10, 2)
    found = executor.run(xs=xs)
    for name, wanted in zip("abcde", (xs, xs[2:5], xs[:-3], xs[:1], xs[9:])):
        equal(found[name], wanted)


MATRIX = """
dynamic { a: i32; b: i32; v: f32[_]; }
persistent {
    A(i, j): f32[D, H] @auto_dim(i, j) @init(1);
    B(i, j): f32[1, 2] @auto_dim(i, j) @fixed(i=2);
    C(l, i, j): f32[1, 1] @table @auto_dim(i, j) @init(5);
}
block entry {
    assign grown: f32[_, _]; assign again: f32[_, _]; assign row: f32[_]; assign column: f32[_];
    assign part: f32[_, _]; assign stacked: f32[_, _, _]; assign one: f32[_, _];
    cache.read A[a, b] >> grown;
    cache.write v >> A[0, ];
    cache.read A[0..D+i, 0..H+j] >> again;
    cache.read A[0, ] >> row;
    cache.read A[, H + b - 1] >> column;
    cache.read A[..D, ] >> part;
    cache.read B[a, 1] >> one;
    loop l (l in 0..3) { cache.read C[l, a, 1] >> one; }
    cache.read C[0..3, a, 1] >> stacked;
    return grown, again, row, column, part, stacked;
}
"""


def test_matrices_grow_and_are_read_by_row_column_and_slice(make: Make) -> None:
    executor = make(MATRIX, None, D=2, H=3)
    found = executor.run(a=1, b=2, v=np.arange(5, dtype=np.float32))
    equal(found["grown"], np.ones((3, 5)))
    wanted = np.ones((3, 5), np.float32)
    wanted[0] = np.arange(5)
    equal(found["again"], wanted)
    equal(found["row"], wanted[0])
    equal(found["column"], wanted[:, 4])
    equal(found["part"], wanted[:2])
    equal(found["stacked"], np.full((3, 2, 2), 5))
    found = executor.run(a=2, b=0, v=np.zeros(5, np.float32))
    assert found["grown"].shape == (4, 5)
    equal(found["grown"][0], np.arange(5))
    equal(found["stacked"].shape, (3, 3, 2))
    with pytest.raises(oi.StepError, match="B"):
        executor.run(a=3, b=0, v=np.zeros(5, np.float32))
    assert executor.fetch("A").shape == (4, 5)
    assert executor.fetch("C").shape == (3, 3, 2)


RESETS = """
dynamic {{ l: i32; t: i32; what: i32; }}
persistent {{
    n: i32 @init(3); K(a, b): f32[2] @table @init(7); M(i): f32[1] @auto_dim(i);
}}
block entry {{
    assign m: f32[_]; assign v: f32[2];
    cache.increment n;
    cache.write v >> K[0, 1];
    cache.write v >> K[2, 0];
    cache.read M[4] >> m;
    branch what reset none;
    return;
}}
block reset {{ {} return; }}
block none {{ return; }}
"""


@pytest.mark.parametrize(
    ("statement", "n", "table", "matrix"),
    [
        ("cache.reset n;", 3, (3, 2), 5),
        ("cache.reset K;", 4, (0, 0), 5),
        ("cache.reset K[];", 4, (0, 0), 5),
        ("cache.reset K[2];", 4, (1, 2), 5),
        ("cache.reset K[l, t];", 4, (3, 1), 5),
        ("cache.reset M;", 4, (3, 2), 1),
    ],
)
def test_resets(make: Make, statement: str, n: int, table: tuple[int, int], matrix: int) -> None:
    executor = make(RESETS.format(statement))
    executor.run(l=0, t=1, what=1)
    equal(executor.fetch("n"), n)
    assert executor.fetch("K").shape == (*table, 2)
    assert executor.fetch("M").shape == (matrix,)
    executor.run(l=0, t=1, what=0)
    assert executor.fetch("K").shape == (3, 2, 2)


def test_effects_and_buffers_of_the_first_edition(make: Make, tmp_path: Path) -> None:
    model = package(tmp_path, sizevars={"B": 1, "T": 4, "D": 3})
    executor = make(
        """
        inputs { h: f32 [B, D]; step: i32 []; }
        state { cache: buffer(f32, [B, T, D]); }
        block entry {
            effect write(cache, index=step, value=h);
            h2 = effect read(cache, index=step - 1);
            return h2;
        }
        """,
        model,
    )
    equal(executor.run(h=X[None], step=1)["h2"], np.zeros((1, 3)))
    equal(executor.run(h=2 * X[None], step=2)["h2"], X[None])
    with pytest.raises(oi.StepError, match="cache"):
        executor.run(h=X[None], step=4)


@pytest.mark.parametrize("dtype", ["f8", "bf16", "i4", "u1", "t2", "bool", "bitset", "u64"])
def test_every_dtype_is_kept_in_tables(make: Make, dtype: str) -> None:
    executor = make(
        f"""
        dynamic {{ v: {dtype}[5]; }}
        persistent {{ n: i32; K(t): {dtype}[5] @table; }}
        block entry {{
            assign all: {dtype}[_, 5];
            cache.write v >> K[n]; cache.increment n; cache.read K[] >> all;
            return all;
        }}
        """
    )
    v = Tensor.from_values(dtype, [1, 0, 1, 1, 0])
    executor.run(v=v)
    equal(executor.run(v=v)["all"], [v.values(), v.values()])


def test_snapshots_go_between_executors_and_files(tmp_path: Path) -> None:
    text = TABLE.replace("cache.read T[1, ] >> t;", "").replace("row, t;", "row;")
    text = text.replace("T(a, b): f16[2] @table @fixed(a=2, b=3);", "")
    first, second = (executor_on(device, text) for device in DEVICES)
    for executor in (first, second):
        executor.run(x=X, i=1, j=2)
    assert first.snapshot() == second.snapshot()
    first.run(x=2 * X, i=5, j=0)
    first.snapshot().save(tmp_path / "state.safetensors")
    second.restore(tmp_path / "state.safetensors")
    equal(second.fetch("K"), first.fetch("K"))
    given: dict[str, Any] = {"x": X, "i": 2, "j": 3}
    equal(second.run(**given)["all"], first.run(**given)["all"])
