"""Small programs that the two executors once disagreed about; the fuzzer of tests/fuzz found them."""

from __future__ import annotations

import itertools
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from both_executors import Inputs, agree, tensor

import openinfer as oi


def floats(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape, dtype=int)) % 5 - 1).astype(np.float32).reshape(shape)


@pytest.mark.parametrize("declared", ["K(p): bool[4, M] @table @init(true)", "K: f32[M]"])
def test_a_state_that_no_step_uses_takes_any_size(declared: str) -> None:
    text = f"""
    dynamic {{ x: f32[M]; }}
    persistent {{ {declared}; }}
    block entry {{ return; }}
    """
    agree(text, [{"x": floats(33)}, {"x": floats(3)}, "restore", {"x": floats(5)}])


CHOSEN = """
dynamic { x: f32[M]; c: bool; }
persistent { K: f32[M]; T(p): f32[M] @table; }
block entry { branch c left right; return; }
block left { cache.write x >> K; cache.write x >> T[1]; return; }
block right { return; }
"""


def chosen(size: int, writes: bool) -> Inputs:
    return {"x": floats(size), "c": np.bool_(writes)}


def test_the_first_step_that_uses_a_state_gives_it_its_shape() -> None:
    no, yes = chosen(2, False), chosen(3, True)
    agree(CHOSEN, [no, chosen(4, False), yes, chosen(3, False), chosen(2, False), yes])
    agree(CHOSEN, [no, yes, "restore", chosen(2, False), yes, "reset", chosen(5, True)])
    agree(CHOSEN, [no, yes, chosen(4, True)], watched=True)


def test_a_step_that_fails_gives_a_state_no_shape() -> None:
    text = """
    dynamic { x: f32[M]; i: i32; }
    persistent { K(p): f32[M] @table; L: f32[M]; }
    block entry {
        assign t: f32;
        op gather(x, i) >> t;
        cache.write x >> L;
        return t;
    }
    """
    good = {"x": floats(3), "i": np.int32(0)}
    bad = {"x": floats(2), "i": np.int32(9)}
    agree(text, [bad, good, bad, good, {"x": floats(2), "i": np.int32(0)}, good])


def test_an_open_dimension_that_nothing_fixes() -> None:
    text = """
    dynamic { a: f32[M]; }
    persistent { n: u8; K(p): f32[M] @table; }
    block entry {
        assign t: f32[_, M];
        loop l (i in 0..n) { op group_norm(t, a, eps=0.1, groups=1) >> t; }
        return t;
    }
    """
    agree(text, [{"a": floats(2)}])


def test_a_temporary_of_a_block_that_gathers_one_element() -> None:
    text = """
    dynamic { a: f32[3, M]; c: bool; k: i32; }
    volatile { v: f32[4]; }
    block entry { branch c left right; return v; }
    block left { return; }
    block right {
        assign t: f32[3];
        op gather(a, k, axis=1) >> t;
        return;
    }
    """
    steps = [{"a": floats(3, 6), "c": np.bool_(False), "k": np.int32(0)}]
    agree(text, steps, watched=True)
    agree(text, steps)


def test_dimensions_that_the_sizes_make_negative() -> None:
    text = """
    dynamic { x: f32[N]; c: bool; }
    volatile { v: f32[N - 2]; }
    persistent { K: f32[N - 2]; }
    block entry { branch c left right; return; }
    block left { assign t: f32[N - 2]; op slice(x, starts=[2], ends=[N]) >> t; transfer t >> v; return; }
    block right { return; }
    """
    few, many = floats(1), floats(4)
    steps: list[Inputs] = [{"x": x, "c": np.bool_(c)} for x in (many, few) for c in (1, 0)]
    agree(text, steps)


def test_packed_results_keep_their_bits() -> None:
    text = """
    dynamic { x: u1[N]; }
    block entry { assign t: u1[N]; op not(x) >> t; return t; }
    """
    agree(text, [{"x": tensor("u1", [3], [1, 0, 1])}, {"x": tensor("u1", [0], [])}])


def test_counts_in_slots_are_those_of_the_entry() -> None:
    text = """
    dynamic { k: i32; }
    persistent { n: i16; C(p, a, b): f32[2, 1] @table @auto_dim(a, b) @init(-1.0); }
    block entry {
        assign t: f32[_, _];
        cache.read C[n, 0..2 + a, 0..] >> t;
        assign r: f32[_];
        cache.read C[n, a + 1, ] >> r;
        cache.increment n;
        assign u: f32[_, _];
        cache.read C[0, 2, 2 * n + 1] >> u;
        assign w: f32[_, _];
        cache.read C[k, a + 1, b] >> w;
        cache.reset C[2];
        return t, r, u, w;
    }
    """
    agree(text, [{"k": np.int32(k)} for k in (0, 1, 1, 3, 0)])
    every = """
    dynamic { k: i32; }
    persistent { C(p, a): f32[2] @table @auto_dim(a); }
    block entry {
        assign t: f32[_, _];
        cache.read C[0..k, a + 1] >> t;
        return t;
    }
    """
    agree(every, [{"k": np.int32(k)} for k in (2, 2, 0, 1, 3, 2)])


def test_a_dimension_whose_parts_are_negative() -> None:
    text = """
    dynamic { k: i32; x: f32[N]; }
    block entry {
        assign t: f32[k + 1, 2];
        assign u: f32[k + N, 2];
        op exp(t) >> t;
        op exp(u) >> u;
        return t, u;
    }
    """
    agree(text, [{"k": np.int32(k), "x": floats(2)} for k in (-1, 1, -2, -3, 2)])


def test_a_restored_table_that_no_step_uses_takes_any_size() -> None:
    text = """
    dynamic { x: f32[N]; }
    volatile { y: f32[N]; }
    persistent { C(p, q): bool[N] @table @fixed(p=4, q=4); n: i32; }
    block entry {
        op relu(x) >> y;
        cache.increment n;
        return;
    }
    """
    agree(text, [{"x": floats(6)}, "restore", {"x": floats(2)}, {"x": floats(5)}])


def test_state_of_the_dtype_that_has_no_zero() -> None:
    text = """
    dynamic { x: f32[N]; i: i32; }
    volatile { y: f32[N]; }
    persistent { s: t1[N]; C(p): t1[3] @table; K(q): t1[3] @auto_dim(q); n: i32; }
    block entry {
        assign c: t1[3];
        op relu(x) >> y;
        cache.increment n;
        cache.read C[i] >> c;
        return y, c;
    }
    """
    step = {"x": floats(3), "i": np.int32(2)}
    agree(text, [step, step, "restore", step])


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("rows", ["4", "N"])
def test_one_index_along_any_axis(axis: int, rows: str) -> None:
    left = ["3", rows, "5"]
    del left[axis]
    shape = f"[{', '.join(left)}]"
    text = f"""
    dynamic {{ x: f32[3, {rows}, 5]; i: i32; y: f32{shape}; }}
    block entry {{
        assign t: f32{shape};
        assign u: f32[3, {rows}, 5];
        op gather(x, i, axis={axis}) >> t;
        op scatter(x, i, y, axis={axis}) >> u;
        return t, u;
    }}
    """
    y = floats(*(4 if extent == "N" else int(extent) for extent in left)) + 7
    agree(text, [{"x": floats(3, 4, 5), "i": np.int32(i), "y": y} for i in (0, 2, 9)])


def test_a_table_does_not_start_from_a_tensor_of_its_name() -> None:
    text = """
    dynamic { i: i32; }
    persistent { C(p): f32[3] @table; }
    block entry {
        assign c: f32[3];
        cache.read C[i] >> c;
        return c;
    }
    """
    steps = [{"i": np.int32(i)} for i in (2, 0)]
    agree(text, steps, tensors={"C": oi.Tensor.from_values("f32", floats(3))})


@pytest.mark.parametrize("watched", [False, True])
def test_parts_of_matrices_of_different_shapes_are_stacked(watched: bool) -> None:
    text = """
    dynamic { k: i64; }
    persistent {
        C(p, q): f32[3] @table @auto_dim(q) @init(0.5);
        D(p, i, j): f32[1, 2] @table @auto_dim(i, j);
    }
    block entry {
        assign c: f32[_]; assign d: f32[_, _]; assign e: f32[_, _];
        assign some: f32[_, _]; assign one: f32[_, _]; assign parts: f32[_, _, _]; assign rows: f32[_, _];
        cache.read C[2, k] >> c;
        cache.read C[0..3, 0..k] >> some;
        cache.read C[0..3, 1..2] >> one;
        cache.read D[k, k, 1] >> d;
        cache.read D[0..2, 0..1, 0..2] >> parts;
        cache.read D[0..2, 0, 0..2] >> rows;
        cache.read D[0..2, 0..-1, 0] >> e;
        return c, some, one, parts, rows, e;
    }
    """
    for numbers in ((1, 2, 1), (0, 3, 4), (4, 1), (2, -1, 2), (5, 0, 1)):
        agree(text, [{"k": np.int64(k)} for k in numbers], watched=watched)
    alike = text.replace("cache.read D[0..2, 0..-1, 0] >> e;", "").replace(", rows, e;", ", rows;")
    for numbers in ((1, 2, 1), (0, 3, 4), (4, 1), (2, -1, 2), (5, 0, 1)):
        agree(alike, [{"k": np.int64(k)} for k in numbers], watched=watched)


@pytest.mark.parametrize("size", [0, 1])
def test_a_restored_matrix_has_its_shape_before_the_first_step(size: int) -> None:
    text = """
    dynamic { x: f32[M]; w: i32; }
    persistent { A(i, j): f32[M + w, w] @auto_dim(i, j); C(p, i): f32[M + w] @table @auto_dim(i); }
    block entry {
        assign a: f32[_, _]; assign c: f32[_];
        cache.read A[1, 0] >> a;
        cache.read C[1, 2] >> c;
        return a, c;
    }
    """
    makers = (oi.Simulator(text).make_executor, oi.compile(text).make_executor)
    with makers[0]() as first:
        first.run(x=floats(6), w=np.int32(size))
        state = first.snapshot()
        want = {name: first.fetch(name) for name in ("A", "C[1]")}
    for make in makers:
        with make() as executor:
            executor.restore(state)
            for name, value in want.items():
                np.testing.assert_array_equal(executor.fetch(name), value)


@pytest.mark.parametrize("number", [2**31, 2**62, 2**63 - 2])
def test_a_far_entry_is_reset(number: int) -> None:
    text = f"""
    dynamic {{ k: i64; }}
    persistent {{ K(p): f16[3] @table @init(2.0); C(p, q): f32[2, 3] @table; }}
    block entry {{
        assign c: f32[2, 3];
        assign t: f16[3];
        cache.read C[2, k] >> c;
        cache.read K[k] >> t;
        cache.reset K[{number}];
        cache.reset C[{number}];
        cache.reset C[1, {number}];
        return t;
    }}
    """
    agree(text, [{"k": np.int64(k)} for k in (1, 3)])


def test_a_consumer_waits_for_all_of_its_values() -> None:
    text = """
    volatile { a: f32[2]; b: f32; n: i64; }
    constant { one: i64 @init(1); }
    block entry {
        assign t: i64;
        yield a, t;
        await a, t;
        yield b, t;
        return n;
    }
    block counts { await a, t;  op add(n, one) >> n;  yield a, t; }
    """
    agree(text, [{}])
    assert oi.compile(text).make_executor().run()["n"] == 1


def test_what_may_not_have_been_assigned_keeps_the_dimensions_that_it_has_anyway() -> None:
    text = """
    dynamic { x: f32[N]; v: f32[2, 1, 1]; }
    persistent { rounds: i64 @init(2); }
    block entry {
        loop a (i in 0..max(N, 2)) {
            loop b (j in 0..rounds) { assign t: f32[1, 2, 2*i + 5]; }
            assign r: bool[2, 2, 2*i + 5];
            op eq(t, v) >> r;
            assign c: i64[2];
            return;
        }
        return;
    }
    """
    agree(text, [{"x": floats(3), "v": floats(2, 1, 1)}])


@pytest.mark.parametrize("number", [1, 8, 9, -1, -3])
def test_numbers_that_no_matrix_could_take_fail_where_there_is_none(number: int) -> None:
    text = """
    dynamic { k: i64; }
    persistent { C(p, q, n): f16[2] @table @auto_dim(n) @fixed(p=3, n=8); }
    block entry { assign t: f16[_, _, _]; cache.read C[, , k] >> t; return t; }
    """
    agree(text, [{"k": np.int64(number)}])


@pytest.mark.parametrize("slots", ["0.., .., ..-1", ", 0..1, ..-2", "2..2, ..0, ..w - 3"])
def test_slices_of_matrices_where_there_is_none(slots: str) -> None:
    text = f"""
    persistent {{ w: i32 @init(2); C(p, m, n): f32[1, w + 1] @table @auto_dim(m, n); }}
    block entry {{ assign t: f32[_, _, _]; cache.read C[{slots}] >> t; return t; }}
    """
    agree(text, [{}])


@pytest.mark.parametrize("slots", ["0.., 0, , j", "0.., 0, j, ", "0..0, 0.., j, "])
def test_lines_of_matrices_where_there_is_none(slots: str) -> None:
    rank = "_, _" if slots.count("..") < 2 else "_, _, _"
    text = f"""
    dynamic {{ j: i64; }}
    persistent {{ w: u8 @init(4); C(p, q, m, n): u8[w, w + 1] @table @auto_dim(m, n); }}
    block entry {{ assign t: u8[{rank}]; cache.read C[{slots}] >> t; return t; }}
    """
    agree(text, [{"j": np.int64(j)} for j in (0, 3, 4, 5, -1, 2**40)])


@pytest.mark.parametrize("op", ["eq", "ne"])
def test_nothing_is_finite_is_true_and_no_other_number(op: str) -> None:
    text = f"""
    dynamic {{ a: bool[2]; }}
    persistent {{ n: i64; }}
    block entry {{
        assign t: f32[n, 2, 1]; assign f: bool; assign r: bool[2];
        op is_finite(t) >> f; op {op}(f, a) >> r; return r;
    }}
    """
    agree(text, [{"a": np.array([False, True])}])


@pytest.mark.parametrize(
    "slots", ["m, ", ", n - 1", "m - 1..2, ", "0..m, ", "..-1, n..", "n - 2..2, ", "m - 2..-1, "]
)
def test_numbers_that_name_counts_select_the_same_lines_of_stacked_matrices(slots: str) -> None:
    rank = 1 + sum(".." in slot or not slot.strip() for slot in slots.split(","))
    text = f"""
    dynamic {{ a: i64; b: i64; c: i64; d: i64; }}
    persistent {{ C(p, m, n): f32[1, 2] @table @auto_dim(m, n) @init(1); }}
    block entry {{
        assign t: f32[_, _]; assign s: f32[{", ".join("_" * rank)}];
        cache.read C[0, a, b] >> t; cache.read C[1, c, d] >> t; cache.read C[0..2, {slots}] >> s;
        return s;
    }}
    """
    counts = itertools.product((0, 2), (0, 3), (0, 1, 2), (0, 3))
    steps = [dict(zip("abcd", map(np.int64, each))) for each in counts]
    agree(text, [each for step in steps for each in (step, "reset")])


@pytest.mark.parametrize("op", ["gather(x, k, axis=1) >> y", "scatter(x, k, y, axis=1) >> x"])
def test_indices_that_select_from_nothing_are_checked(op: str) -> None:
    result = op.rsplit(" ", 1)[1]
    text = f"""
    dynamic {{ v: f32[N, M]; k: i64[2]; }}
    block entry {{
        assign x: f32[N, M]; assign y: f32[N, 2];
        transfer v >> x; op {op}; return {result};
    }}
    """
    shapes = ((0, 6), (3, 6), (6, 0))
    indices = (np.array([1, 300]), np.array([1, 0]))
    agree(text, [{"v": floats(*shape), "k": k} for shape in shapes for k in indices])


@pytest.mark.parametrize("dtype", ["f8", "f8e4m3", "f16", "bf16", "f32"])
@pytest.mark.parametrize("amount", ["257", "2147483648"])
def test_amounts_are_not_rounded_before_they_are_added(dtype: str, amount: str) -> None:
    text = f"""
    dynamic {{ x: {dtype}; }}
    persistent {{ p: {dtype}; }}
    block entry {{ cache.write x >> p; cache.increment {amount} p; return p; }}
    """
    values = (1.0, 3.0, -0.0) if dtype == "f8e4m3" else (1.0, 3.0, -0.0, -np.inf)
    agree(text, [{"x": tensor(dtype, [], [value])} for value in values])


def test_a_table_without_entries_that_no_memory_holds_is_not_fetched() -> None:
    text = """
    dynamic { k: i64; }
    persistent { L(p, q, r): f32[2] @table; }
    block entry { assign t: f32[_, 2]; cache.read L[0.., k, k] >> t; return t; }
    """
    executor = oi.Simulator(text).make_executor()
    executor.run(k=np.int64(2**33))
    with pytest.raises(oi.InputError) as caught:
        executor.fetch("L")
    assert caught.value.code == "OI0506"


@pytest.mark.parametrize("rounds", ["1..1", "1..k", "0..k"])
def test_a_temporary_of_a_loop_that_never_runs_has_no_shape_behind_it(rounds: str) -> None:
    text = f"""
    dynamic {{ k: i64; }}
    persistent {{ K(p): f32[2] @table @fixed(p=3); }}
    block entry {{
        loop l (i in {rounds}) {{ assign t: f32[i, _]; cache.read K[0..i] >> t; }}
        return t;
    }}
    """
    agree(text, [{"k": np.int64(k)} for k in (1, 0, 3)])


@pytest.mark.parametrize("rounds", ["1..1", "1..k"])
def test_a_section_hands_on_a_temporary_that_it_may_not_have(rounds: str) -> None:
    text = f"""
    dynamic {{ x: f32[2]; k: i64; }}
    block entry {{
        assign s: f32[2];
        op exp(x) >> s;
        yield s;
        await s;
        yield s;
        await s;
        return s;
    }}
    block reader {{
        await s;
        loop l (i in {rounds}) {{
            assign t: f32[i + 1];
            loop m (j in 0..k) {{ op exp(t) >> t; }}
        }}
        yield s;
    }}
    """
    agree(text, [{"x": floats(2), "k": np.int64(k)} for k in (1, 0, 3)])


@pytest.mark.parametrize(
    "op",
    [
        "matmul(a, b, transpose_b=true)",
        "matmul(a, c)",
        "matmul(c, b, transpose_b=true)",
        "softmax(a)",
        "layer_norm(a, l, l)",
        "rms_norm(a, l)",
        "attention(a, b, a)",
        "sum_axis(a, axes=[0], keepdims=true)",
        "conv2d(x, w)",
        "conv2d(x, v)",
        "conv_transpose2d(x, w)",
    ],
)
@pytest.mark.parametrize("size", ["N", "7"])
def test_f64_is_computed_in_f64_also_for_a_result_of_f32(op: str, size: str) -> None:
    rank = 3 if op.startswith("conv") else 2
    text = f"""
    dynamic {{
        a: f64[{size}, 7]; b: f64[{size}, 7]; c: f32[7, 7]; l: f64[7];
        x: f64[2, {size}, 7]; w: f64[2, 2, 1, 2]; v: f32[2, 2, 1, 2];
    }}
    block entry {{ assign t: f32[{", ".join("_" * rank)}]; op {op} >> t; return t; }}
    """
    random = np.random.default_rng(5)
    shapes = {"a": (7, 7), "b": (7, 7), "l": (7,), "x": (2, 7, 7), "w": (2, 2, 1, 2)}
    step = {name: random.normal(size=shape) for name, shape in shapes.items()}
    agree(text, [step | {"c": floats(7, 7), "v": floats(2, 2, 1, 2)}], tolerance=0)


@pytest.mark.parametrize("watched", [False, True])
def test_a_table_without_entries_keeps_the_shape_of_its_first_use(watched: bool) -> None:
    text = """
    dynamic { x: f32[N, M]; }
    persistent { n: i64; A(p): f32 @table @fixed(p=2); K(p, q): f32[1, M] @table; }
    block entry {
        assign y: f32[N, M]; assign s: f32; assign t: f32[_, 1, M];
        op exp(x) >> y; cache.read K[0, ] >> t; cache.write t >> K[0, ];
        cache.read A[n] >> s; cache.increment n; return y;
    }
    """
    agree(text, [{"x": floats(1, m)} for m in (1, 1, 2, 1)], watched=watched)


def test_a_temporary_that_a_loop_writes_first_has_the_dimensions_of_its_assign() -> None:
    text = """
    dynamic { x: f32[4]; k: i64; }
    persistent { K(p): f32[k + 1] @table; }
    block entry {
        assign t: f32[_, k + 1];
        loop l (i in 0..k) {
            cache.read K[0..i] >> t;
            op exp(t) >> t;
        }
        return t;
    }
    """
    agree(text, [{"x": floats(4), "k": np.int64(k)} for k in (1, 1, 0)])


@pytest.mark.parametrize("dims", ["1, _", "_, 1", "_, _"])
def test_squeeze_without_axes_drops_what_a_step_gives_the_extent_1(dims: str) -> None:
    text = f"""
    dynamic {{ x: f32[M]; }}
    block entry {{
        assign t: f32[{dims}]; assign y: f32[M];
        op unsqueeze(x, axes=[{0 if dims != "_, 1" else 1}]) >> t;
        op squeeze(t) >> y;
        return y;
    }}
    """
    agree(text, [{"x": floats(m)} for m in (2, 1, 0, 3)])


@pytest.mark.parametrize("slots", ["0..w + q, ", "0..q, 0..r", "q..w + q, 0", "0..q + w, r..r + 3"])
@pytest.mark.parametrize("table", ["0..0", "..-1", "n..n"])
def test_counts_of_a_slice_that_selects_no_matrix_are_0(slots: str, table: str) -> None:
    rank = "_, _" if slots.endswith(" 0") else "_, _, _"
    text = f"""
    dynamic {{ k: i64; }}
    persistent {{ n: i64; w: i64 @init(1); C(p, q, r): f32[w, 3] @table @auto_dim(q, r); }}
    block entry {{
        assign grown: f32[_, _]; assign t: f32[{rank}];
        cache.read C[0, k, k] >> grown;
        cache.read C[{table}, {slots}] >> t;
        return grown, t;
    }}
    """
    agree(text, [{"k": np.int64(k)} for k in (2, 0, 3)])


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("inner", [0, 1])
def test_a_temporary_of_a_loop_that_does_not_run_has_any_dimensions(
    watched: bool, inner: int
) -> None:
    text = """
    dynamic { x: f32[N]; k: i64; inner: i64; }
    volatile { y: f32[N]; out: f32[_]; }
    block entry {
        loop l (i in 0..k) {
            op exp(x) >> y;
            loop m (j in 0..inner) {
                assign t: f32[N - 2];
                op slice(x, starts=[2], ends=[N], axes=[0]) >> t;
            }
            loop n (j in 0..inner) {
                op exp(t) >> t;
                transfer t >> out;
            }
        }
        transfer out >> out;
        return;
    }
    """
    steps = [{"x": floats(n), "k": np.int64(2), "inner": np.int64(inner)} for n in (3, 1, 2)]
    agree(text, steps, watched=watched, threads=2)


@pytest.mark.parametrize(("dtype", "indices"), [("u1", [0, 1, 0]), ("i1", [0, -1, 0])])
@pytest.mark.parametrize("op", ["gather(t, x)", "scatter(t, x, t2)"])
def test_indices_of_one_bit(op: str, dtype: str, indices: list[int]) -> None:
    size = 3 if op.startswith("gather") else 2
    text = f"""
    dynamic {{ t: f32[2]; t2: f32[3]; x: {dtype}[3]; }}
    block entry {{ assign y: f32[{size}]; op {op} >> y; return y; }}
    """
    agree(text, [{"t": floats(2), "t2": floats(3), "x": tensor(dtype, [3], indices)}])


def test_the_mean_of_large_numbers_is_summed_in_f32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its result is f64, its sums are not: the fuzzer's errors leave the range of f32, as a device does."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "fuzz"))
    noise = import_module("fuzzing.noise")
    text = """
    dynamic { x: f32[1, 1, 1, 2, 1]; }
    block entry { assign y: f64[1, 1, 1, 1, 1]; op adaptive_avg_pool3d(x, output_size=1) >> y; return y; }
    """
    x = np.full((1, 1, 1, 2, 1), 3.4e38, np.float32)
    exact = oi.Simulator(text).make_executor().run(x=x)["y"]
    assert np.isfinite(exact).all()
    found: list[bool] = []
    for seed in range(8):
        with noise.noisy(seed):
            found.append(bool(np.isinf(oi.Simulator(text).make_executor().run(x=x)["y"]).all()))
    assert any(found)
