"""Matrices that grow, in the simulator: alone and in tables."""

from __future__ import annotations

import numpy as np
import pytest
from cache_programs import executor, fails, plain, program, same, step

import openinfer as oi
from openinfer.runtime.executor import BaseExecutor


def test_growth_keeps_the_old_part() -> None:
    ex = executor(
        program(
            "persistent { A(i, j): f32[2, 3] @auto_dim(i, j) @init(-2); }",
            "assign m: f32[_, _];",
            "cache.read A[a, b] >> m;",
            "op fill(m, value=1.0) >> m;",
            "cache.write m >> A[];",
            "cache.read A[c, 0] >> m;",
            "cache.read A[0, c] >> m;",
            "return m;",
        )
    )
    same(step(ex)["m"], np.ones((2, 3)))
    expected = np.full((3, 4), -2.0)
    expected[:2, :3] = 1
    same(step(ex, c=1)["m"], expected)
    same(step(ex, a=2)["m"], np.ones((4, 4)))
    same(ex.fetch("A"), np.ones((4, 4)))


def test_slots_that_do_not_grow() -> None:
    ex = executor(
        program(
            "persistent { A(i, j): f32[2, 3] @auto_dim(i, j); }",
            "assign m: f32[_, _]; assign row: f32[_]; assign col: f32[_]; assign line: f32[4];",
            "assign part: f32[_, _]; assign piece: f32[_]; assign whole: f32[_, _];",
            "cache.read A[1, 1] >> m;",
            "loop rows (r in 0..3) { op fill(line, value=r) >> line; cache.write line >> A[r, ]; }",
            "cache.read A[a, ] >> row; cache.read A[, b] >> col; cache.read A[1..-1, ] >> part;",
            "cache.read A[c, 1..3] >> piece; cache.read A[0..2+i, 0..3+j] >> whole;",
            "cache.read A[i, j] >> m; cache.read A >> m;",
            "return row, col, part, piece, whole, m;",
        )
    )
    rows = np.repeat(np.arange(3.0)[:, None], 4, axis=1)
    out = step(ex, a=2, b=3, c=1)
    same(out["row"], rows[2])
    same(out["col"], rows[:, 3])
    same(out["part"], rows[1:2])
    same(out["piece"], [1, 1])
    same(out["whole"], rows)
    same(out["m"], rows)


@pytest.mark.parametrize(
    ("use", "part"),
    [
        ("A[a, ]", "index i = -1 of A is negative"),
        ("A[, b]", "position 3 of A along j is outside 0..3"),
        ("A[0..b, ]", "position 0..3 of A along i is outside 0..2"),
        ("A[, ..-4]", "ends below 0"),
        ("A[a, 0]", "index i = -1 of A is negative"),
        ("A[2+i, ]", "position 2 of A along i is outside 0..2"),
        ("B[c, 0]", "B cannot grow by i = 5: the bound of @fixed(i=4) is 4"),
    ],
)
def test_positions_outside_of_a_matrix(use: str, part: str) -> None:
    ex = executor(
        program(
            "persistent { A(i, j): f32[2, 3] @auto_dim(i, j); "
            "B(i, j): f32[2, 3] @auto_dim(i, j) @fixed(i=4); }",
            f"assign t: f32[{'_' if use in ('A[a, ]', 'A[, b]', 'A[2+i, ]') else '_, _'}];",
            f"cache.read {use} >> t;",
            "return;",
        )
    )
    assert part in fails("OI0606", ex, a=-1, b=3, c=5)


def test_lines_are_stored_and_appended() -> None:
    ex = executor(
        program(
            "persistent { A(i, j): f32[2, 2] @auto_dim(i, j) @fixed(i=1); }",
            "branch c rows columns; return;",
            "} block rows { cache.write x >> A[a, ]; return;",
            "} block columns { cache.write x >> A[, a]; return;",
        )
    )
    step(ex, c=1, a=0, x=[1, 2])
    step(ex, c=1, a=2, x=[3, 4])
    same(ex.fetch("A"), [[1, 2], [0, 0], [3, 4]])
    step(ex, c=0, a=2, x=[7, 8, 9])
    same(ex.fetch("A"), [[1, 2, 7], [0, 0, 8], [3, 4, 9]])
    assert "the bound of @fixed(i=1) is 1" in fails("OI0606", ex, c=1, a=3, x=[0, 0, 0])
    assert "position 4 of A along j is outside 0..3" in fails("OI0606", ex, c=0, a=4, x=[0, 0, 0])
    assert "A[, 0]" in fails("OI0602", ex, c=0, a=0, x=[0, 0]).replace("..", "")
    same(ex.fetch("A"), [[1, 2, 7], [0, 0, 8], [3, 4, 9]])


def test_whole_matrices_are_written() -> None:
    ex = executor(
        program(
            "persistent { A(i): f32[2] @auto_dim(i); }",
            "branch c grow as_it_is; return;",
            "} block grow { cache.write x >> A[a]; return;",
            "} block as_it_is { cache.write x >> A; return;",
        )
    )
    step(ex, c=1, a=1, x=[1, 2, 3])
    step(ex, c=0, x=[4, 5, 6])
    same(ex.fetch("A"), [4, 5, 6])
    assert "A[2] takes f32[4], the value has shape [3]" in fails(
        "OI0602", ex, c=1, a=2, x=[1, 2, 3]
    )
    assert "takes f32[3]" in fails("OI0602", ex, c=0, x=[1])


def test_tables_of_matrices() -> None:
    ex = executor(
        program(
            "persistent { C(l, i, j): f32[1, 2] @table @auto_dim(i, j) @init(3); }",
            "assign m: f32[_, _]; assign all: f32[_, _, _]; assign cols: f32[_, _];",
            "cache.read C[0..0, 0, 0] >> all; cache.read C[0..0, 0, ] >> cols;",
            "cache.read C[a, b, c] >> m;",
            "branch b stack one; return m, all, cols;",
            "} block stack { cache.read C[0..2, 1, c] >> all; cache.read C[..2, 0, ] >> cols; return;",
            "} block one { cache.read C[a] >> m; cache.read C[a, i, j] >> m; return;",
        )
    )
    out = step(ex, a=0, b=0, c=2)
    same(out["m"], np.full((1, 4), 3))
    assert step(ex, a=1, b=0, c=0)["m"].shape == (1, 2)
    with pytest.raises(oi.InputError, match=r"OI0548.*different shapes"):
        ex.fetch("C")
    assert plain(ex.fetch("C[0]")).shape == (1, 4)
    assert plain(ex.fetch("C[1]")).shape == (1, 2)
    out = step(ex, a=1, b=1, c=2)
    same(out["all"], np.full((2, 2, 4), 3))
    same(out["cols"], np.full((2, 4), 3))
    assert plain(ex.fetch("C")).shape == (2, 2, 4)
    assert "[2, 4] and [1, 2]" in fails("OI0607", _uneven())


def _uneven() -> BaseExecutor:
    return executor(
        program(
            "persistent { C(l, i, j): f32[1, 2] @table @auto_dim(i, j); }",
            "assign m: f32[_, _]; assign all: f32[_, _, _];",
            "cache.read C[0, 1, 2] >> m; cache.read C[1] >> m;",
            "cache.read C[0..2, , ] >> all;",
            "return;",
        )
    )


def test_writes_and_resets_in_tables_of_matrices() -> None:
    ex = executor(
        program(
            "persistent { C(l, i): f32[1] @table @auto_dim(i); }",
            "assign all: f32[_, _];",
            "cache.write x >> C[a, N - 1];",
            "branch b forget keep; return;",
            "} block forget { cache.reset C[a]; return;",
            "} block keep { return;",
        )
    )
    step(ex, a=0, x=[1, 2])
    step(ex, a=2, x=[3, 4, 5])
    state = ex.snapshot()["C"]
    assert state.extents == (3,)
    assert sorted(state.entries) == [(0,), (2,)]
    step(ex, a=2, b=1, x=[3, 4, 5])
    assert ex.snapshot()["C"].extents == (1,)
    same(ex.fetch("C"), [[1, 2]])
    step(ex, a=2, x=[9])  # the counts of the entry are back at 0
    same(ex.fetch("C[2]"), [9])


def test_empty_slices_of_matrices_have_the_shape_of_one() -> None:
    ex = executor(
        program(
            "persistent { C(l, i, j): f32[1, 2] @table @auto_dim(i, j); }",
            "assign all: f32[_, _, _]; assign rows: f32[_, _];",
            "cache.read C[2..2, 3, 1] >> all; cache.read C[, 0, ] >> rows;",
            "return all, rows;",
        )
    )
    out = step(ex)
    assert out["all"].shape == (0, 4, 3)
    assert out["rows"].shape == (2, 2)
    assert ex.snapshot()["C"].extents == (2,)
