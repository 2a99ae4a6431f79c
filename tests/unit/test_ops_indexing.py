"""scatter, sort, topk, cumsum and one_hot: twins against PyTorch, compiled against twins."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dialects.opset import OpError, TensorSpec, find, infer_outputs
from openinfer.lowering.reference.twins import evaluate
from openinfer.runtime.tensors import Tensor

torch = pytest.importorskip("torch")

DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "u8": np.uint8, "i64": np.int64}


def drawn(shape: Sequence[int], dtype: str, seed: int = 0, *, special: bool = False) -> Any:
    """Few different values, so that many are equal."""
    random = np.random.default_rng([seed, *shape])
    values = random.integers(0, 7, shape).astype(DTYPES[dtype])
    if special:
        chosen = random.integers(0, 6, shape)
        for place, value in enumerate((np.nan, np.inf, -np.inf, -0.0)):
            values = np.where(chosen == place, np.float32(value), values)
    return values


def evaluated(op: str, *arrays: Any, outputs: int = 1, **settings: Any) -> list[Any]:
    names = {np.dtype(v): k for k, v in DTYPES.items()}
    return evaluate(op, arrays, [names[a.dtype] for a in arrays], settings, outputs=outputs)


def infer(op: str, *operands: tuple[Any, ...], outputs: int = 1, **settings: Any) -> str:
    spec = find(op)
    assert spec is not None
    found = infer_outputs(
        spec, [TensorSpec.of(d, dims) for d, *dims in operands], settings, outputs
    )
    return "; ".join(map(str, found))


def both(text: str, threads: int | None = None, **inputs: Any) -> dict[str, Any]:
    """The results of the compiled program, which are those of the simulator."""
    graph = oi.graph(text)
    expected: dict[str, Any] = oi.Simulator(graph).make_executor().run(**inputs)
    found: dict[str, Any] = oi.compile(graph).make_executor(threads=threads).run(**inputs)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    return found


# Against PyTorch

LINES = [((9,), -1), ((4, 33), -1), ((33, 4), 0), ((2, 5, 3), 1), ((3, 0), -1), ((0, 3), -1)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("shape", "axis"), LINES)
def test_sort(shape: tuple[int, ...], axis: int, descending: bool, dtype: str) -> None:
    x = drawn(shape, dtype, special=dtype in ("f32", "f64")).astype(DTYPES[dtype])
    found = evaluated("sort", x, outputs=2, axis=axis, descending=descending)
    expected = torch.sort(torch.from_numpy(x), dim=axis, descending=descending, stable=True)
    np.testing.assert_array_equal(found[0], expected.values.numpy())
    np.testing.assert_array_equal(found[1], expected.indices.numpy())


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [0, 1, 4, 9])
def test_topk(k: int, largest: bool) -> None:
    x = drawn((5, 9), "f32", special=True)
    values, places = evaluated("topk", x, outputs=2, k=k, largest=largest)
    expected = torch.topk(torch.from_numpy(x), k, largest=largest)
    np.testing.assert_array_equal(values, expected.values.numpy())
    np.testing.assert_array_equal(np.take_along_axis(x, places, 1), values)
    # Of equal values the first ones, in their order: PyTorch leaves that open.
    for row, line in zip(places, x):
        for a, b in itertools.pairwise(row):
            assert line[a] != line[b] or a < b


@pytest.mark.parametrize("dtype", ["f32", "f64", "i64"])
@pytest.mark.parametrize(("shape", "axis"), LINES)
def test_cumsum(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    x = drawn(shape, dtype)
    expected = torch.cumsum(torch.from_numpy(x), axis).numpy()
    (found,) = evaluated("cumsum", x, axis=axis)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    (found,) = evaluated("cumsum", x, axis=axis, exclusive=True)
    np.testing.assert_allclose(found, expected - x, rtol=1e-6)
    flipped = torch.flip(torch.cumsum(torch.flip(torch.from_numpy(x), [axis]), axis), [axis])
    (found,) = evaluated("cumsum", x, axis=axis, reverse=True)
    np.testing.assert_allclose(found, flipped.numpy(), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i64"])
@pytest.mark.parametrize(("shape", "axis"), LINES)
def test_cumprod(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    x = drawn(shape, dtype)
    expected = torch.cumprod(torch.from_numpy(x), axis).numpy()
    (found,) = evaluated("cumprod", x, axis=axis)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    (found,) = evaluated("cumprod", x, axis=axis, exclusive=True)
    np.testing.assert_allclose(found * x, expected, rtol=1e-5)
    flipped = torch.flip(torch.cumprod(torch.flip(torch.from_numpy(x), [axis]), axis), [axis])
    (found,) = evaluated("cumprod", x, axis=axis, reverse=True)
    np.testing.assert_allclose(found, flipped.numpy(), rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter(axis: int) -> None:
    x = drawn((4, 5, 6), "f64")
    indices = np.random.default_rng(1).integers(0, 4, 7)
    shape = list(x.shape)
    shape[axis] = 7
    updates = np.random.default_rng(2).standard_normal(shape)
    held, places, new = (torch.from_numpy(a) for a in (x, indices, updates))
    (found,) = evaluated("scatter", x, indices, updates, axis=axis, mode="add")
    np.testing.assert_allclose(found, held.index_add(axis, places, new).numpy(), rtol=1e-12)
    for mode, function in (("min", np.minimum), ("max", np.maximum)):
        expected = np.moveaxis(x, axis, 0).copy()
        function.at(expected, indices, np.moveaxis(updates, axis, 0))
        (found,) = evaluated("scatter", x, indices, updates, axis=axis, mode=mode)
        np.testing.assert_array_equal(found, np.moveaxis(expected, 0, axis), err_msg=mode)
    once = np.array([3, 0, 2])
    part = np.take(updates, range(3), axis)
    (found,) = evaluated("scatter", x, once, part, axis=axis)
    copied = held.index_copy(axis, torch.from_numpy(once), torch.from_numpy(part))
    np.testing.assert_array_equal(found, copied.numpy())


def test_scatter_by_many_indices_is_the_reverse_of_gather() -> None:
    x = np.zeros((6, 3), np.float32)
    indices = np.array([[5, 1], [0, 4]])
    updates = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    (found,) = evaluated("scatter", x, indices, updates)
    np.testing.assert_array_equal(evaluated("gather", found, indices)[0], updates)


def test_of_equal_indices_the_last_one_stays() -> None:
    x, updates = np.zeros(3, np.float32), np.array([1, 2, 3], np.float32)
    (found,) = evaluated("scatter", x, np.array([1, 1, 1]), updates)
    np.testing.assert_array_equal(found, [0, 3, 0])


def test_narrow_floats_add_up_in_f32() -> None:
    """2048 + 1 is 2048 in f16, so adding one by one would stay there."""
    x = np.array([2048], np.float16)
    updates = np.ones(10, np.float16)
    found = evaluate(
        "scatter", [x, np.zeros(10, np.int64), updates], ["f16", "i64", "f16"], {"mode": "add"}
    )[0]
    assert found[0] == 2058


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis: int) -> None:
    indices = np.array([[0, 3, 1], [2, 2, 0]])
    (found,) = evaluated("one_hot", indices, depth=4, axis=axis)
    expected = torch.nn.functional.one_hot(torch.from_numpy(indices), 4).numpy()
    np.testing.assert_array_equal(found, np.moveaxis(expected, -1, axis))


# What the rules refuse

WRONG: list[tuple[str, tuple[tuple[Any, ...], ...], dict[str, Any], str]] = [
    ("scatter", (("f32", 4, 3), ("f32", 2), ("f32", 2, 3)), {}, "indices are f32"),
    ("scatter", (("f32", 4, 3), ("i64", 2), ("i16", 2, 3)), {}, "x is f32 but updates is i16"),
    ("scatter", (("f32", 4, 3), ("i64", 2), ("f32", 3, 3)), {}, "dimension -2 is 2"),
    ("scatter", (("f32", 4, 3), ("i64", 2), ("f32", 5, 2, 3)), {}, "do not stretch to [2, 3]"),
    ("scatter", (("bool", 4), ("i64", 2), ("bool", 2)), {"mode": "add"}, "does not take bool"),
    ("scatter", (("f32", 4), ("i64", 2), ("f32", 2)), {"mode": "mul"}, '"set" or "add"'),
    ("scatter", (("f32", 4), ("i64", 2), ("f32", 2)), {"axis": 1}, "axis=1 is out of range"),
    ("topk", (("f32", 4),), {"k": 5}, "k=5 exceeds axis 0"),
    ("topk", (("f32", 4),), {"k": -1}, "k=-1 is negative"),
    ("topk", (("f32", 4),), {}, "needs the setting k"),
    ("topk", (("bool", 4),), {"k": 1}, "does not take bool"),
    ("sort", (("f32",),), {}, "axis=-1 is out of range"),
    ("sort", (("f32", 4),), {"descending": 3}, "descending must be true or false"),
    ("cumsum", (("f32", 4),), {"acc": "f16"}, "acc=[f16, f16] does not fit"),
    ("one_hot", (("f32", 4),), {"depth": 3}, "does not take f32"),
    ("one_hot", (("i64", 4),), {"depth": 0}, "depth=0 leaves no place"),
    ("one_hot", (("i64", 4),), {"depth": 3, "dtype": "i8", "on_value": 200}, "does not fit i8"),
    ("one_hot", (("i64", 4),), {"depth": 3, "dtype": "i8", "on_value": 0.5}, "write an int"),
]


@pytest.mark.parametrize(("op", "operands", "settings", "message"), WRONG)
def test_refused(
    op: str, operands: tuple[tuple[Any, ...], ...], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(OpError) as caught:
        infer(op, *operands, **settings)
    assert message in str(caught.value) + str(caught.value.hint)


def test_types_of_results() -> None:
    assert infer("sort", ("f16", "N", 4), outputs=2) == "f16[N, 4]; i64[N, 4]"
    assert infer("topk", ("i8", "N", 4), k=3) == "i8[N, 3]"
    assert infer("topk", ("i8", "N", 4), outputs=2, k=2, axis=0) == "i8[2, 4]; i64[2, 4]"
    assert infer("one_hot", ("u8", "N"), depth=5, axis=0, to="bool") == "bool[5, N]"
    assert infer("cumsum", ("i8", "N"), acc=["i32", "i64"]) == "i64[N]"
    with pytest.raises(OpError, match="1 or 2 outputs"):
        infer("sort", ("f32", 4), outputs=3)


# In programs


def test_k_and_depth_may_be_sizes() -> None:
    x = drawn((3, 9), "f32")
    text = """dynamic { x: f32[N, 9]; i: i64[D]; }
        volatile { v: f32[N, D]; p: i64[N, D]; h: f32[D, N]; }
        block entry {
          op topk(x, k=D) >> v, p;
          op one_hot(i, depth=N) >> h;
          return;
        }"""
    both(text, x=x, i=np.array([2, 0, 1, 2]))


def test_too_large_a_k_fails_the_step() -> None:
    text = """dynamic { x: f32[N]; y: f32[M]; }
        volatile { v: f32[M]; }
        block entry { op topk(x, k=M) >> v; return; }"""
    inputs = {"x": np.zeros(3, np.float32), "y": np.zeros(4, np.float32)}
    for maker in (oi.Simulator(text), oi.compile(text)):
        with pytest.raises(oi.StepError):
            maker.make_executor().run(**inputs)


SCATTER = """dynamic {{ x: f32[N, 3]; i: i64[M]; u: f32[M, 3]; }}
    volatile {{ y: f32[N, 3]; }}
    block entry {{ op scatter(x, i, u, mode="{mode}") >> y; return; }}"""


@pytest.mark.parametrize("mode", ["set", "add", "min", "max"])
@pytest.mark.parametrize("wrong", [-1, 4, 2**40])
def test_a_wrong_index_fails_the_step_and_writes_nothing(mode: str, wrong: int) -> None:
    text = SCATTER.format(mode=mode)
    good = {"x": np.ones((4, 3), np.float32), "u": np.full((2, 3), 2, np.float32)}
    for maker in (oi.Simulator(text), oi.compile(text)):
        executor = maker.make_executor()
        with pytest.raises(oi.StepError) as caught:
            executor.run(**good, i=np.array([0, wrong]))
        assert caught.value.code == "OI0601"
        assert f"index {wrong}" in str(caught.value)
        assert "0..4" in str(caught.value)
        # The executor stays usable.
        assert executor.run(**good, i=np.array([0, 3]))["y"].shape == (4, 3)


@pytest.mark.parametrize("wrong", [-1, 5])
def test_one_hot_checks_its_indices(wrong: int) -> None:
    text = """dynamic { i: i32[N]; } volatile { y: f32[N, 5]; }
        block entry { op one_hot(i, depth=5) >> y; return; }"""
    for maker in (oi.Simulator(text), oi.compile(text)):
        executor = maker.make_executor()
        with pytest.raises(oi.StepError) as caught:
            executor.run(i=np.array([0, wrong], np.int32))
        assert caught.value.code == "OI0601"
        found = np.asarray(executor.run(i=np.array([4], np.int32))["y"])
        assert found.tolist() == [[0, 0, 0, 0, 1]]


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_nothing(threads: int) -> None:
    random = np.random.default_rng(0)
    text = """dynamic { x: f32[N, 40]; i: i64[M]; u: f32[M, 40]; }
        volatile { v: f32[N, 40]; p: i64[N, 40]; w: f32[N, 40]; q: i64[N, 40]; c: f32[N, 40];
                   d: f32[N, 40]; s: f32[N, 40]; t: f32[N, 40]; j: i64[M]; o: i64[M]; e: i64[M]; }
        block entry {
          op sort(x) >> v, p; op sort(x, axis=0, descending=true) >> w, q;
          op cumsum(x) >> c; op cumsum(x, axis=0, exclusive=true, reverse=true) >> d;
          op sort(i) >> j, o; op cumsum(i) >> e;
          op scatter(x, i, u, mode="add") >> s; op scatter(s, i, u, mode="max") >> t;
          return;
        }"""
    both(
        text,
        threads,
        x=random.standard_normal((70, 40)).astype(np.float32),
        i=random.integers(0, 70, 200),
        u=random.standard_normal((200, 40)).astype(np.float32),
    )


def test_packed_integers_in_programs() -> None:
    text = """dynamic { x: i4[N]; i: u4[M]; u: i4[M]; }
        volatile { v: i4[N]; p: i64[N]; c: i4[N]; s: i4[N]; h: u2[M, 9]; }
        block entry {
          op sort(x) >> v, p; op cumsum(x) >> c; op scatter(x, i, u, mode="add") >> s;
          op one_hot(i, depth=9, dtype=u2, on_value=3) >> h;
          return;
        }"""
    inputs = {
        "x": Tensor.from_values("i4", [7, -8, 3, 0, -1, 7, 7, 2, -3]),
        "i": Tensor.from_values("u4", [0, 8, 8, 1]),
        "u": Tensor.from_values("i4", [5, -8, -7, 1]),
    }
    graph = oi.graph(text)
    expected = oi.Simulator(graph).make_executor().run(**inputs)
    found = oi.compile(graph).make_executor().run(**inputs)
    for name, value in expected.items():
        left, right = (v.values() if isinstance(v, Tensor) else v for v in (found[name], value))
        np.testing.assert_array_equal(left, right, err_msg=name)
