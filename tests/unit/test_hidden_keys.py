"""Keys that a query does not see are no part of its result, whatever they and their values hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.api import compile as compile_program
from openinfer.runtime.tensors import Tensor

NAN = (np.nan, np.inf, -np.inf)
TOLERANCES = {"f32": 1e-5, "f64": 1e-10, "f16": 4e-3, "bf16": 3e-2}


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def program(dims: dict[str, str], settings: str, dtype: str = "f32", mask: str = "") -> str:
    declared = " ".join(f"{name}: {dtype}[{d}];" for name, d in dims.items())
    operands = "q, k, v, m" if mask else "q, k, v"
    return (
        f"dynamic {{ {declared} {mask} n: i64; }} volatile {{ y: {dtype}[{dims['q']}]; }} "
        f"block entry {{ op attention({operands}{settings}) >> y; return; }}"
    )


def spoiled(array: np.ndarray, keys: np.ndarray, seed: int = 0) -> np.ndarray:
    """The array with what is not finite at some keys, the axis before the last one."""
    found = array.copy()
    random = np.random.default_rng(seed)
    for key in keys:
        found[..., key, :] = random.choice([*NAN, 1.0], found[..., key, :].shape)
        found[..., key, 0] = np.nan
    return found


def check(
    text: str,
    given: dict[str, Any],
    clean: dict[str, Any],
    rows: slice | np.ndarray,
    dtype: str = "f32",
    **options: Any,
) -> None:
    """Rows of the result are those of clean operands; both executors agree about all of it."""
    threads = options.pop("threads", 1)
    tensors = [
        {n: a if n in ("m", "n") else Tensor.from_values(dtype, a) for n, a in arrays.items()}
        for arrays in (given, clean)
    ]
    found: list[np.ndarray] = []
    program_ = compile_program(text, None, **options)
    for executor in (oi.Simulator(text).make_executor(), program_.make_executor(threads)):
        with executor:
            both = [executor.run(**arrays)["y"] for arrays in tensors]
        dirty, pure = (a.values() if isinstance(a, Tensor) else np.asarray(a) for a in both)
        tolerance = TOLERANCES[dtype]
        np.testing.assert_allclose(dirty[..., rows, :], pure[..., rows, :], tolerance, tolerance)
        assert np.isfinite(dirty[..., rows, :]).all()
        found.append(dirty)
    if "precision" not in options:
        np.testing.assert_allclose(found[1], found[0], tolerance, tolerance)


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("length", [1, 7, 33, 40])
def test_causal(dtype: str, length: int) -> None:
    """Only the last queries see the last keys."""
    dims = dict.fromkeys("qkv", f"2, {length}, 24")
    q, k, v = (drawn(2, length, 24, seed=i) for i in range(3))
    keys = np.arange(length - 2, length) if length > 1 else np.arange(0)
    given = {"q": q, "k": spoiled(k, keys), "v": spoiled(v, keys, 1)}
    text = program(dims, ", causal=true", dtype).replace(" n: i64;", "")
    rows = slice(0, length - 2) if length > 1 else slice(None)
    check(text, given, {"q": q, "k": k, "v": v}, rows, dtype)


@pytest.mark.parametrize("causal", ["", ", causal=true"])
@pytest.mark.parametrize("window", ["3", "n"])
@pytest.mark.parametrize("length", ["37", "L"])
def test_windows(causal: str, window: str, length: str) -> None:
    """Keys in the middle: those far from them do not see them."""
    dims = {name: f"2, 1, {length}, 16" for name in "qkv"}
    q, k, v = (drawn(2, 1, 37, 16, seed=i) for i in range(3))
    keys = np.array([11, 20])
    given = {"q": q, "k": spoiled(k, keys), "v": spoiled(v, keys, 1), "n": np.int64(3)}
    clean = {"q": q, "k": k, "v": v, "n": np.int64(3)}
    far = np.array([i for i in range(37) if all(abs(i - key) > 2 for key in keys)])
    check(program(dims, f", window={window}{causal}"), given, clean, far)


@pytest.mark.parametrize("queries", [1, 5, 20])
@pytest.mark.parametrize("heads", [2, 4])
@pytest.mark.parametrize("shape", [(1, 1, 1, 19), (2, 4, 1, 19), (1, 1, 0, 19)])
def test_bool_masks(queries: int, heads: int, shape: tuple[int, ...]) -> None:
    shape = tuple(queries if n == 0 else n for n in shape)
    dims = {"q": f"2, 4, {queries}, 24", **dict.fromkeys("kv", f"2, {heads}, 19, 24")}
    q, k, v = drawn(2, 4, queries, 24), drawn(2, heads, 19, 24), drawn(2, heads, 19, 24, seed=1)
    keys = np.array([0, 7, 18])
    mask = np.random.default_rng(3).random(shape) < 0.8
    mask[..., keys] = False
    mask[..., 5] = True
    given = {"q": q, "k": spoiled(k, keys), "v": spoiled(v, keys, 1), "m": mask, "n": np.int64(0)}
    clean = {"q": q, "k": k, "v": v, "m": mask, "n": np.int64(0)}
    text = program(dims, "", mask=f"m: bool[{', '.join(map(str, shape))}];")
    check(text, given, clean, slice(None))


@pytest.mark.parametrize("options", [{"strict_math": True}, {"threads": 2}, {"optimise": False},
                                     {"precision": "bf16"}], ids=lambda o: next(iter(o)))  # fmt: skip
def test_ways_of_compiling(options: dict[str, Any]) -> None:
    dims = {"q": "1, 4, 40, 32", **dict.fromkeys("kv", "1, 2, 33, 32")}
    q, k, v = drawn(1, 4, 40, 32), drawn(1, 2, 33, 32), drawn(1, 2, 33, 32, seed=1)
    mask = np.ones((1, 1, 1, 33), np.bool_)
    mask[..., 28:] = False
    keys = np.arange(28, 33)
    given = {"q": q, "k": spoiled(k, keys), "v": spoiled(v, keys, 1), "m": mask, "n": np.int64(0)}
    clean = {"q": q, "k": k, "v": v, "m": mask, "n": np.int64(0)}
    text = program(dims, "", mask="m: bool[1, 1, 1, 33];")
    check(text, given, clean, slice(None), **dict(options))


def test_a_query_that_sees_nothing_gives_zeros() -> None:
    dims = {"q": "1, 6, 8", **dict.fromkeys("kv", "1, 3, 8")}
    q, k, v = drawn(1, 6, 8), drawn(1, 3, 8), np.full((1, 3, 8), np.inf)
    given = {"q": q, "k": k, "v": v}
    text = program(dims, ", causal=true").replace(" n: i64;", "")
    tensors = {n: Tensor.from_values("f32", a) for n, a in given.items()}
    for executor in (oi.Simulator(text).make_executor(), oi.compile(text).make_executor()):
        y = np.asarray(executor.run(**tensors)["y"])
        assert (y[0, :3] == 0).all()
        assert (y[0, 3:] == np.inf).all()


def test_what_is_seen_is_arithmetic() -> None:
    """A mask of floats is added: -inf gives a weight of 0, and 0 times infinity is NaN."""
    dims = dict.fromkeys("qkv", "1, 4, 8")
    q, k, v = (drawn(1, 4, 8, seed=i).astype(np.float32) for i in range(3))
    v[0, 2, 1], v[0, 3, 2] = np.inf, np.nan
    mask = np.zeros((4, 4), np.float32)
    mask[:, 2:] = -np.inf
    text = program(dims, ", causal=true", mask="m: f32[4, 4];").replace(" n: i64;", "")
    for executor in (oi.Simulator(text).make_executor(), oi.compile(text).make_executor()):
        y = np.asarray(executor.run(q=q, k=k, v=v, m=mask)["y"])
        nan = np.isnan(y[0])
        expected = np.zeros((4, 8), np.bool_)
        expected[2:, 1] = expected[3, 2] = True
        np.testing.assert_array_equal(nan, expected)


def test_a_split_query_and_a_cache() -> None:
    text = """dynamic { q: f32[5, 16]; k: f32[2, 8]; v: f32[2, 8]; at: i64; }
        persistent { K(i): f32[2, 8] @table; V(i): f32[2, 8] @table; }
        volatile { y: f32[5, 16]; a: f32[_, 2, 8]; b: f32[_, 2, 8]; }
        block entry {
          cache.write k >> K[at]; cache.write v >> V[at];
          cache.read K[] >> a; cache.read V[] >> b;
          op attention(q, a, b, causal=true) >> y;
          return;
        }"""
    q = drawn(5, 16).astype(np.float32)
    pair = [oi.Simulator(text).make_executor(), oi.compile(text).make_executor()]
    for at in range(9):
        k, v = drawn(2, 8, seed=at).astype(np.float32), drawn(2, 8, seed=at + 50).astype(np.float32)
        if at == 7:
            k, v = np.full_like(k, np.nan), np.full_like(v, np.inf)
        found = [executor.run(q=q, k=k, v=v, at=at)["y"] for executor in pair]
        np.testing.assert_allclose(found[1], found[0], 1e-5, 1e-5)
        if at >= 7:
            seen = np.isfinite(found[0]).all(axis=-1)
            assert seen.tolist() == [i + at - 4 < 7 for i in range(5)]
