"""The NumPy twins against results worked out by hand, by `math`, or by plain loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from openinfer.dialects.opset import OpError, names
from openinfer.lowering.program.value_arrays import narrow
from openinfer.lowering.reference.functions import erf
from openinfer.lowering.reference.twins import IndexFault, evaluate, twin_names
from openinfer.runtime.dtypes import DTYPES

INF, NAN = math.inf, math.nan


def value(data: Any, dtype: str) -> Any:
    return np.asarray(data, dtype=DTYPES[dtype].value)


def run(
    name: str, *inputs: Any, dtype: str = "f32", out: str | None = None, **settings: Any
) -> Any:
    """One result; each input is data of `dtype`, or a pair (data, dtype)."""
    pairs = [i if isinstance(i, tuple) else (i, dtype) for i in inputs]
    arrays = [value(data, kind) for data, kind in pairs]
    kinds = [kind for _, kind in pairs]
    return evaluate(name, arrays, kinds, settings, [out] if out else None)[0]


def same(found: Any, expected: Sequence[Any] | Any) -> None:
    np.testing.assert_array_equal(found, np.asarray(expected, dtype=found.dtype), strict=True)


def test_every_op_has_a_twin():
    assert twin_names() == frozenset(names())


@pytest.mark.parametrize(
    ("name", "dtype", "inputs", "settings", "expected"),
    [
        ("add", "i8", ([127, -128], [1, -1]), {}, [-128, 127]),
        ("add", "i4", ([7, -8], [1, -1]), {}, [-8, 7]),
        ("add", "u2", ([3], [2]), {}, [1]),
        ("add", "bool", ([True, False], [True, False]), {}, [True, False]),
        ("add", "bitset", ([255], [2]), {}, [1]),
        ("mul", "bool", ([True, True], [True, False]), {}, [True, False]),
        ("mul", "i64", ([2**62], [4]), {}, [0]),
        ("sub", "u8", ([0], [1]), {}, [255]),
        ("div", "i32", ([7, -7, 7, 5, -(2**31)], [2, 2, -2, 0, -1]), {}, [3, -3, -3, 0, -(2**31)]),
        ("div", "i32", ([7], [0]), {"div_by_zero_mask": -1}, [-1]),
        ("div", "i4", ([-8], [-1]), {}, [-8]),
        ("div", "u8", ([200], [3]), {}, [66]),
        ("div", "f32", ([1, -1, 0], [0, 0, 0]), {}, [INF, -INF, NAN]),
        ("div", "f32", ([1, 0], [0, 0]), {"div_by_zero_mask": 9}, [9, 9]),
        ("floor_div", "i32", ([7, -7, 7, -7, 1], [2, 2, -2, -2, 0]), {}, [3, -4, -4, 3, 0]),
        ("rem", "i32", ([7, -7, 7, 5, -(2**31)], [3, 3, -3, 0, -1]), {}, [1, -1, 1, 0, 0]),
        ("rem", "u64", ([2**64 - 1], [10]), {}, [5]),
        ("rem", "f32", ([7, -7, 2.0**90, 5], [3, 3, 7, INF]), {}, [1, -1, 2**90 % 7, 5]),
        ("floor_mod", "i32", ([7, -7, 7, 5, -(2**31)], [3, 3, -3, 0, -1]), {}, [1, 2, -2, 0, 0]),
        ("floor_mod", "f32", ([7, -7, 7, -6, 1], [3, 3, -3, 3, 0]), {}, [1, 2, -2, -0.0, NAN]),
        ("shift_left", "i8", ([1, 1, 1, 3], [7, 8, -1, 64]), {}, [-128, 0, 0, 0]),
        ("shift_right", "i8", ([-128, -128, -128, 64], [1, 8, -1, 100]), {}, [-64, -1, -1, 0]),
        ("shift_right", "u64", ([2**64 - 1, 2**63], [63, 64]), {}, [1, 0]),
        ("round_even", "f32", ([0.5, 1.5, -0.5, -2.5],), {}, [0, 2, -0.0, -2]),
        ("bit_cast", "f32", ([1.0, -0.0],), {"to": "u32"}, [0x3F800000, 1 << 31]),
        ("recip", "f32", ([4, 0, -0.0],), {}, [0.25, INF, -INF]),
        ("neg", "i8", ([-128, 5],), {}, [-128, -5]),
        ("abs", "i8", ([-128, -5],), {}, [-128, 5]),
        ("min", "f32", ([1, NAN, NAN], [2, 2, NAN]), {}, [1, 2, NAN]),
        ("max", "f32", ([1, NAN], [2, 2]), {}, [2, 2]),
        ("clamp", "f32", ([-5, 5, NAN, -INF],), {"min": -1, "max": 1}, [-1, 1, -1, -1]),
        ("clamp", "f32", ([INF, NAN],), {}, [INF, NAN]),
        ("clamp", "i8", ([-100, 100],), {"min": -1000, "max": 7}, [-100, 7]),
        ("round", "f32", ([0.5, 1.5, -0.5, -2.5, 0.49999997],), {}, [1, 2, -1, -3, 0]),
        ("trunc", "f32", ([1.7, -1.7],), {}, [1, -1]),
        ("not", "u4", ([0, 15],), {}, [15, 0]),
        ("not", "bool", ([True],), {}, [False]),
        ("xor", "i8", ([5], [-1]), {}, [-6]),
        ("shl", "i8", ([1, 1],), {"bits": 7}, [-128, -128]),
        ("shl", "u8", ([1],), {"bits": 64}, [0]),
        ("shl", "u8", ([1],), {"bits": 8}, [0]),
        ("shr", "u64", ([2**64 - 1],), {"bits": 64}, [0]),
        ("shr", "i64", ([-(2**63), 2**62],), {"bits": 200}, [-1, 0]),
        ("shr", "i8", ([-128],), {"bits": 1}, [-64]),
        ("relu", "f32", ([-INF, -2, 0, 3, NAN],), {}, [0, 0, 0, 3, NAN]),
        ("relu", "f32", ([-2, 9],), {"alpha": 0.5, "clamp_max": 6}, [-1, 6]),
        ("relu", "i8", ([-3, 3],), {}, [0, 3]),
        ("fill", "i4", ([1, 2],), {"value": -8}, [-8, -8]),
        ("fill", "u64", ([1],), {"value": 2**64 - 1}, [2**64 - 1]),
        ("fill_nan_like", "f32", ([1, 2],), {}, [NAN, NAN]),
        ("fill_nan_like", "f32", ([1, NAN],), {"value": 0.0}, [0, 0]),
        ("filter", "f32", ([1, 2], [3, 4], [0, 5]), {}, [3, 2]),
        ("softmax", "f32", ([[0, 0], [1000, -INF]],), {}, [[0.5, 0.5], [1, 0]]),
        ("max_axis", "f32", ([1, NAN, 3],), {"axes": [0]}, NAN),
        ("min_axis", "i8", ([1, -4, 3],), {"axes": [0]}, -4),
        ("sum_axis", "i8", ([100, 100],), {"axes": [0]}, -56),
        ("sum_axis", "i8", ([100, 100],), {"axes": [0], "acc": "i32"}, 200),
        ("mean_axis", "i8", ([100, 100, -1],), {"axes": [0]}, 66),
        ("mean_axis", "i8", ([-3, 0],), {"axes": [0]}, -1),
        ("mean_axis", "i32", ([1, 2],), {"axes": [0], "acc": ["i32", "f32"]}, 1.5),
        ("prod_axis", "f32", ([[2, 3], [4, 5]],), {"axes": [0, 1]}, 120),
        ("reshape", "f32", ([[1, 2], [3, 4]],), {"shape": [4]}, [1, 2, 3, 4]),
        ("transpose", "f32", ([[1, 2], [3, 4]],), {}, [[1, 3], [2, 4]]),
        ("slice", "f32", ([1, 2, 3, 4, 5],), {"start": -4, "stop": -1, "step": 2}, [2, 4]),
        ("slice", "f32", ([[1, 2], [3, 4]],), {"starts": [1, 0], "stops": [2, 1]}, [[3]]),
        ("expand", "f32", ([[1], [2]],), {"shape": [2, -1]}, [[1], [2]]),
        ("expand", "f32", ([1, 2],), {"shape": [2, 2]}, [[1, 2], [1, 2]]),
        ("concat", "i4", ([1, -2], [3], [4]), {}, [1, -2, 3, 4]),
        ("unsqueeze", "f32", ([1, 2],), {"axes": [1]}, [[1], [2]]),
        ("matmul", "i8", ([[100, 100]], [[1], [1]]), {}, [[-56]]),
        ("matmul", "i8", ([[100, 100]], [[1], [1]]), {"acc": "i32"}, [[200]]),
        ("matmul", "i4", ([[7, 7]], [[7], [7]]), {}, [[2]]),
        ("matmul", "bool", ([[True, False]], [[False], [True]]), {}, [[False]]),
        ("matmul", "i64", ([[2**62]], [[3]]), {}, [[-(2**62)]]),
        ("matmul", "f32", ([[1, 2]], [[3, 4]]), {"transpose_b": True}, [[11]]),
    ],
)  # fmt: skip
def test_values(
    name: str, dtype: str, inputs: tuple[Any, ...], settings: dict[str, Any], expected: Any
):
    same(run(name, *inputs, dtype=dtype, **settings), expected)


def test_results_of_another_dtype():
    same(run("sign", [-2.5, 0, NAN, 3]), [-1, 0, 0, 1])
    same(run("popcount", [-1, 3, 0], dtype="i4"), [4, 2, 0])
    same(run("popcount", [-1], dtype="i64"), [64])
    same(run("is_neg", [-0.0, 0.0, -NAN]), [True, False, True])
    assert not run("is_finite", [1, INF])
    same(run("eq", [NAN, 0.0], [NAN, -0.0]), [False, True])
    same(run("argmax_axis", [1, 3, 3], axis=0), 1)
    same(run("argmax_axis", [1, 3, 3], axis=0, select_first=False), 2)
    same(run("argmin_axis", [[1, NAN], [0, 2]], axis=1), [1, 0])
    same(run("where", ([1, 0], "bool"), [1, 2], [3, 4]), [1, 4])
    same(evaluate("iota", [], [], {"shape": (2, 3), "start": 5})[0], [[5, 6, 7], [5, 6, 7]])


@pytest.mark.parametrize(
    ("source", "to", "data", "settings", "expected"),
    [
        ("f32", "i8", [300, -300, NAN, 1.9, -1.9], {}, [127, -128, 0, 1, -1]),
        ("f32", "i8", [300, -1], {"saturate": False}, [44, -1]),
        ("f32", "u8", [-1, 255.5, INF], {}, [0, 255, 255]),
        ("f32", "u8", [-1, 256], {"saturate": False}, [255, 0]),
        ("f64", "i64", [1e19, -1e19, 2.0**62], {}, [2**63 - 1, -(2**63), 2**62]),
        ("f64", "u64", [1e20, -1, 2.0**63], {}, [2**64 - 1, 0, 2**63]),
        ("f32", "i32", [2.5, -2.5, 3.5], {"rounding_mode": "nearest"}, [3, -3, 4]),
        ("f32", "i32", [2.5, -2.5], {"rounding_mode": "floor"}, [2, -3]),
        ("f32", "i32", [2.5, -2.5], {"rounding_mode": "ceil"}, [3, -2]),
        ("i32", "i8", [200, -200], {}, [127, -128]),
        ("i32", "i8", [200, -200], {"saturate": False}, [-56, 56]),
        ("i8", "u4", [-1, 20], {}, [0, 15]),
        ("u64", "i8", [2**64 - 1], {}, [127]),
        ("i64", "f32", [2**24 + 1], {}, [2**24]),
        ("f32", "bool", [0, -0.0, NAN, 0.5], {}, [False, False, True, True]),
        ("bool", "i8", [True, False], {}, [1, 0]),
        ("bool", "f32", [True, False], {}, [1, 0]),
        ("f32", "f8", [1.9, 3.9, 0.999, 61440], {}, [2, 4, 1, INF]),
        ("f32", "bf16", [1.00390625, 1.01171875], {}, [1, 1.015625]),
        ("f32", "f16", [65520, 1e-8], {}, [INF, 0]),
    ],
)  # fmt: skip
def test_cast(source: str, to: str, data: list[Any], settings: dict[str, Any], expected: list[Any]):
    same(run("cast", data, dtype=source, to=to, **settings), expected)


def test_narrow_floats_round_once():
    # 1 + 2**-9 + 2**-9 is exact in f32; rounding each step to bf16 would lose both halves.
    tiny = 2.0**-9
    found = run("fma", [1], [tiny], [1.0 + 2.0**-7], dtype="bf16")
    same(found, narrow(np.asarray([tiny + 1.0 + 2.0**-7]), "bf16"))
    ones = np.full(4096, 1.0)
    same(run("sum_axis", ones, dtype="f16", axes=[0]), 4096)
    same(run("matmul", [ones], ones[:, None], dtype="bf16"), [[4096]])
    # A wider declared output sees the value before it was rounded.
    same(run("mul", [1.0009765625], [1.0009765625], dtype="f16", out="f32"), [1.001953125 + 2**-20])


def test_erf_is_exact_to_the_last_place():
    x = np.concatenate([np.linspace(-7, 7, 4001), [INF, -INF, 0.0, -0.0, 1e-300]])
    expected = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(erf(x), expected, rtol=4e-16, atol=0)
    assert math.isnan(erf(np.asarray([NAN]))[0])
    assert math.copysign(1, erf(np.asarray([-0.0]))[0]) == -1


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("exp", math.exp),
        ("tanh", math.tanh),
        ("sin", math.sin),
        ("cos", math.cos),
        ("erf", math.erf),
        ("sigmoid", lambda x: 1 / (1 + math.exp(-x))),
        ("silu", lambda x: x / (1 + math.exp(-x))),
        ("softplus", lambda x: math.log1p(math.exp(x))),
        ("gelu", lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2))),
    ],
)
def test_functions(name: str, function: Any):
    x = np.linspace(-8, 8, 97, dtype=np.float32)
    expected = [function(float(v)) for v in x]
    np.testing.assert_allclose(run(name, x), expected, rtol=2e-7, atol=1e-15)


def test_functions_of_positive_numbers():
    x = np.array([1e-30, 0.25, 1, 7, 1e30], dtype=np.float32)
    np.testing.assert_allclose(run("log", x), [math.log(float(v)) for v in x], rtol=1e-7)
    np.testing.assert_allclose(run("sqrt", x), [math.sqrt(float(v)) for v in x], rtol=1e-7)
    np.testing.assert_allclose(run("rsqrt", x), [1 / math.sqrt(float(v)) for v in x], rtol=1e-7)
    same(run("pow", [2, 0, -2], [10, 0, 3]), [1024, 1, -8])
    same(run("log", [0, -1]), [-INF, NAN])
    found = run("gelu", [-1.0, 1.0], approximate="tanh")
    np.testing.assert_allclose(found, [-0.15880801, 0.84119199], rtol=1e-6)


def test_normalisations():
    x = np.array([[1.0, 2.0, 3.0, 6.0]], dtype=np.float32)
    mean, variance = 3.0, (4 + 1 + 0 + 9) / 4
    expected = [[(v - mean) / math.sqrt(variance + 0.5) * 2 + 1 for v in x[0]]]
    found = run("layer_norm", x, [2] * 4, [1] * 4, eps=0.5)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    root = math.sqrt((1 + 4 + 9 + 36) / 4 + 1e-5)
    np.testing.assert_allclose(
        run("rms_norm", x, [3] * 4), [[3 * v / root for v in x[0]]], rtol=1e-6
    )
    total = sum(math.exp(v) for v in x[0])
    logs = [[float(v) - math.log(total) for v in x[0]]]
    np.testing.assert_allclose(run("log_softmax", x), logs, rtol=1e-6)
    both = run("layer_norm", np.ones((2, 3, 4)), axis=1)
    assert both.shape == (2, 3, 4)


def naive_attention(
    q: Any, k: Any, v: Any, causal: bool, window: int | None, scale: float, allowed: Any
) -> Any:
    """One head by loops: q (queries, size), k and v (keys, size), allowed (queries, keys)."""
    queries, keys = len(q), len(k)
    result = np.zeros((queries, v.shape[1]))
    for i in range(queries):
        here = i + keys - queries
        seen = [
            j
            for j in range(keys)
            if allowed[i, j]
            and (not causal or j <= here)
            and (window is None or abs(here - j) < window)
        ]
        weights = [math.exp(sum(a * b for a, b in zip(q[i], k[j])) * scale) for j in seen]
        for j, weight in zip(seen, weights):
            result[i] += weight / sum(weights) * v[j]
    return result


@pytest.mark.parametrize(
    ("causal", "window", "masked", "keys"),
    [
        (False, None, False, 3),
        (True, None, False, 3),
        (True, None, False, 5),
        (True, 2, False, 5),
        (False, 2, True, 4),
        (True, None, False, 2),
    ],
)
def test_attention(causal: bool, window: int | None, masked: bool, keys: int):
    draw = np.random.default_rng(7)
    q = draw.standard_normal((2, 4, 3, 8)).astype(np.float32)
    k = draw.standard_normal((2, 2, keys, 8)).astype(np.float32)
    v = draw.standard_normal((2, 2, keys, 5)).astype(np.float32)
    allowed = draw.random((2, 1, 1, keys)) > 0.4 if masked else np.ones((2, 1, 1, keys), bool)
    extra = [(allowed, "bool")] if masked else []
    found = run("attention", q, k, v, *extra, causal=causal, window=window or 99, scale=0.3)
    assert found.shape == (2, 4, 3, 5)
    for b in range(2):
        for h in range(4):
            rows = np.broadcast_to(allowed[b, 0], (3, keys))
            one = naive_attention(q[b, h], k[b, h // 2], v[b, h // 2], causal, window, 0.3, rows)
            np.testing.assert_allclose(found[b, h], one, rtol=1e-5, atol=1e-6)


def test_attention_masks_and_split_form():
    draw = np.random.default_rng(3)
    q, k, v = (draw.standard_normal((3, 4)).astype(np.float32) for _ in range(3))
    nothing = np.zeros((3, 3), dtype=bool)
    same(run("attention", q, k, v, (nothing, "bool")), np.zeros((3, 4)))
    hidden = np.where(np.eye(3, dtype=bool), 0, -INF)
    np.testing.assert_allclose(run("attention", q, k, v, hidden), v, rtol=1e-6)
    # The second edition's form: q [B, D], k and v [T, H, Dh], a projection [D, D].
    wide = draw.standard_normal((2, 8)).astype(np.float32)
    keys, values = (draw.standard_normal((5, 2, 4)).astype(np.float32) for _ in range(2))
    project = draw.standard_normal((8, 8)).astype(np.float32)
    heads = [
        naive_attention(
            wide[:, 4 * h : 4 * h + 4], keys[:, h], values[:, h], False, None, 0.5,
            np.ones((2, 5), bool),
        )
        for h in range(2)
    ]  # fmt: skip
    plain = np.concatenate(heads, axis=1)
    np.testing.assert_allclose(run("attn", wide, keys, values), plain, rtol=1e-5)
    np.testing.assert_allclose(
        run("attn", wide, keys, values, project), plain @ project, rtol=1e-4, atol=1e-5
    )


def test_matmul_broadcasts_batches():
    draw = np.random.default_rng(1)
    a = draw.standard_normal((2, 1, 3, 4)).astype(np.float32)
    b = draw.standard_normal((5, 4, 2)).astype(np.float32)
    found = run("matmul", a, b)
    assert found.shape == (2, 5, 3, 2)
    for i in range(2):
        for j in range(5):
            for m in range(3):
                for n in range(2):
                    exact = sum(float(x) * float(y) for x, y in zip(a[i, 0, m], b[j, :, n]))
                    assert found[i, j, m, n] == pytest.approx(exact, rel=1e-5, abs=1e-6)


def test_gather_names_index_and_bound():
    same(run("gather", [[1, 2], [3, 4]], ([1, 0, 1], "i32")), [[3, 4], [1, 2], [3, 4]])
    same(run("gather", [[1, 2], [3, 4]], (1, "u8"), axis=1), [2, 4])
    with pytest.raises(IndexFault, match=r"index 2 at position \[1\].*0\.\.2"):
        run("gather", [[1, 2], [3, 4]], ([0, 2], "i32"))
    with pytest.raises(IndexFault, match="index -1"):
        run("gather", [[1, 2], [3, 4]], ([-1], "i32"))


def test_split_gives_all_parts():
    parts = evaluate(
        "split", [value([1, 2, 3, 4, 5], "f32")], ["f32"], {"sizes": (2, 3)}, ["f32"] * 2
    )
    same(parts[0], [1, 2])
    same(parts[1], [3, 4, 5])


def test_empty_tensors():
    empty = np.zeros((0, 3))
    assert run("add", empty, [1, 2, 3]).shape == (0, 3)
    same(run("sum_axis", empty, axes=[0]), [0, 0, 0])
    assert run("matmul", empty, np.zeros((3, 2))).shape == (0, 2)
    same(run("matmul", np.zeros((2, 0)), np.zeros((0, 2))), [[0, 0], [0, 0]])
    assert run("softmax", empty).shape == (0, 3)
    assert run("reshape", empty, shape=[3, -1]).shape == (3, 0)


def test_evaluate_checks_the_rule_first():
    with pytest.raises(OpError, match="inner dimensions"):
        run("matmul", np.zeros((2, 3)), np.zeros((4, 2)))
    with pytest.raises(OpError, match="unknown op"):
        evaluate("nothing", [], [])


def test_a_root_of_f32_is_rounded_to_f32_whatever_holds_it() -> None:
    (found,) = evaluate("sqrt", [np.array([2.0], np.float32)], ["f32"], {}, ["f64"])
    assert found.dtype == np.float64
    assert found[0] == np.sqrt(np.float32(2.0))


def test_iota_of_floats_is_rounded_once() -> None:
    settings = {"shape": (4,), "dtype": "bf16", "start": 2**53 + 1, "step": 2**62}
    (found,) = evaluate("iota", [], [], settings)
    # 2**53 + 1 - 2**62 lies just above the middle of two numbers of bf16, and f64 would lose the 1.
    assert found[3] == -(2.0**62) + 2.0**54
