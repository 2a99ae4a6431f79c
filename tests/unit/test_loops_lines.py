"""Softmax, norms, argmax and argmin against NumPy, compiled and run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.parser import Parser
from xdsl.passes import ModulePass

from openinfer.compiler.registry import make_context
from openinfer.lowering.cpu.jit import compile_loops
from openinfer.lowering.cpu.schedules.lower_kernels import LowerKernels
from openinfer.lowering.verify_dominance import verify_dominance
from openinfer.runtime.dtypes import dtype as dtype_row
from openinfer.runtime.storage import to_storage

Array = np.ndarray[Any, Any]
PASSES: tuple[ModulePass, ...] = (LowerKernels(),)
TOLERANCE = {"f64": 1e-13, "f32": 3e-6, "f16": 2e-3, "bf16": 2e-2}


def run(
    op: str, arrays: Sequence[Array], elements: Sequence[str], dynamic: bool, target: str
) -> None:
    """Calls a function whose arguments are the operands %0, %1, … of one op."""
    types = [
        f"memref<{''.join('?x' if dynamic else f'{n}x' for n in array.shape)}{element}>"
        for array, element in zip(arrays, elements)
    ]
    arguments = ", ".join(f"%{i}: {t}" for i, t in enumerate(types))
    text = f"""builtin.module attributes {{openinfer.target = "{target}"}} {{
      func.func @f({arguments}) {{
        {op} : ({", ".join(types)}) -> ()
        func.return
      }}
    }}"""
    context = make_context()
    module = Parser(context, text).parse_module()
    module.verify()
    for step in PASSES:
        step.apply(context, module)
    module.verify()
    verify_dominance(module)
    assert not any(inner.name.startswith("nn.") for inner in module.walk())
    compile_loops(module, "f")(*arrays)


def stored(values: Array, element: str) -> Array:
    return np.ascontiguousarray(to_storage(dtype_row(element), values))


def values_of(storage: Array, element: str) -> Array:
    """The float64 values of stored floats."""
    if element == "bf16":
        storage = (storage.astype(np.uint32) << 16).view(np.float32)
    return storage.astype(np.float64)


def random_floats(shape: Sequence[int], element: str, seed: int = 0) -> Array:
    values = np.random.default_rng(seed).normal(size=shape) * 3
    return stored(values if element == "f64" else values.astype(np.float32), element)


CASES = [
    ((3, 37), -1), ((64,), 0), ((1,), 0), ((2, 3, 128), 2), ((4, 1), 1), ((5, 100), 1),
    ((3, 7, 18), 1), ((6, 40), 0), ((2, 1, 5), 1), ((0, 8), 1), ((3, 0), 1), ((2, 5, 3, 4), 1),
]  # fmt: skip


def softmax(x: Array, axis: int, log: bool) -> Array:
    if not x.size:
        return x
    shifted = x - x.max(axis, keepdims=True)
    total = np.exp(shifted).sum(axis, keepdims=True)
    return shifted - np.log(total) if log else np.exp(shifted) / total


@pytest.mark.parametrize(("shape", "axis"), CASES)
@pytest.mark.parametrize("log", [False, True])
def test_softmax_shapes(shape: tuple[int, ...], axis: int, log: bool) -> None:
    x = random_floats(shape, "f32")
    setting = f"{{axis = {axis} : i64{', log' if log else ''}}}"
    for dynamic in (False, True):
        y = np.zeros_like(x)
        run(f"nn.softmax(%0) outs(%1) {setting}", [x, y], ["f32"] * 2, dynamic, "avx512")
        np.testing.assert_allclose(y, softmax(x.astype(np.float64), axis, log), 3e-6, 3e-6)


@pytest.mark.parametrize("element", ["f64", "f16", "bf16"])
@pytest.mark.parametrize("target", ["avx512", "avx2", "generic"])
def test_softmax_elements(element: str, target: str) -> None:
    x = random_floats((3, 45), element)
    for axis in (0, 1):
        y = np.zeros_like(x)
        op = f"nn.softmax(%0) outs(%1) {{axis = {axis} : i64}}"
        run(op, [x, y], [element] * 2, False, target)
        expected = softmax(values_of(x, element), axis, False)
        limit = TOLERANCE[element]
        np.testing.assert_allclose(values_of(y, element), expected, limit, limit / 100)


def test_softmax_extremes() -> None:
    """Large numbers do not overflow, masked places vanish, a NaN spoils its own row only."""
    x = np.random.default_rng(1).normal(size=(5, 40)).astype(np.float32)
    x[0] += 1e4
    x[1, 3:] = -np.inf
    x[2, 35] = np.nan
    x[3] = -np.inf
    x[4, 0] = np.inf
    y = np.zeros_like(x)
    run("nn.softmax(%0) outs(%1) {axis = 1 : i64}", [x, y], ["f32"] * 2, False, "avx512")
    with np.errstate(invalid="ignore"):
        expected = softmax(x.astype(np.float64), 1, False)
    np.testing.assert_allclose(y, expected, 3e-6, 1e-7)
    assert not y[1, 3:].any()


def test_softmax_in_place() -> None:
    for element in ("f32", "f16"):
        x = random_floats((4, 50), element)
        expected = softmax(values_of(x, element), 1, False)
        run("nn.softmax(%0) outs(%1) {axis = 1 : i64}", [x, x], [element] * 2, False, "avx512")
        limit = TOLERANCE[element]
        np.testing.assert_allclose(values_of(x, element), expected, limit, 1e-5)


def layer_norm(x: Array, eps: float, weight: Array | None, bias: Array | None) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    result = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


@pytest.mark.parametrize("shape", [(3, 37), (384,), (2, 3, 128), (4, 1), (0, 16), (1, 7, 200)])
@pytest.mark.parametrize("given", ["", "w", "b", "wb"])
def test_layer_norm(shape: tuple[int, ...], given: str) -> None:
    x = random_floats(shape, "f32")
    weight, bias = (random_floats(shape[-1:], "f32", seed) for seed in (1, 2))
    extra = [array for letter, array in (("w", weight), ("b", bias)) if letter in given]
    flags = {"w": ", has_weight", "b": ", has_bias"}
    names = ", ".join(f"%{i}" for i in range(1 + len(extra)))
    op = f"nn.layer_norm({names}) outs(%{1 + len(extra)}) {{eps = 1.0e-5 : f64"
    op += "".join(flags[letter] for letter in given) + "}"
    w, b = (weight if "w" in given else None), (bias if "b" in given else None)
    expected = layer_norm(x.astype(np.float64), 1e-5, w, b)
    for dynamic in (False, True):
        y = np.zeros_like(x)
        run(op, [x, *extra, y], ["f32"] * (2 + len(extra)), dynamic, "avx512")
        np.testing.assert_allclose(y, expected, 1e-5, 1e-5)


def test_layer_norm_does_not_cancel() -> None:
    """A large mean: the sum of squares minus the square of the sum would be noise."""
    x = (np.random.default_rng(3).normal(size=(2, 384)) + 1000).astype(np.float32)
    y = np.zeros_like(x)
    run("nn.layer_norm(%0) outs(%1) {eps = 1.0e-12 : f64}", [x, y], ["f32"] * 2, False, "avx512")
    expected = layer_norm(x.astype(np.float64), 1e-12, None, None)
    np.testing.assert_allclose(y, expected, atol=2e-4)


@pytest.mark.parametrize("element", ["f64", "f16", "bf16"])
@pytest.mark.parametrize("target", ["avx512", "avx2", "generic"])
def test_norm_elements(element: str, target: str) -> None:
    x, weight = random_floats((3, 45), element), random_floats((45,), "f32", 1)
    limit = TOLERANCE[element]
    y = np.zeros_like(x)
    elements = [element, "f32", element]
    if element == "f64":
        weight = weight.astype(np.float64)
        elements = ["f64"] * 3
    op = "nn.layer_norm(%0, %1) outs(%2) {eps = 1.0e-5 : f64, has_weight}"
    run(op, [x, weight, y], elements, False, target)
    expected = layer_norm(values_of(x, element), 1e-5, weight, None)
    np.testing.assert_allclose(values_of(y, element), expected, limit, limit)
    run("nn.rms_norm(%0, %1) outs(%2) {eps = 1.0e-5 : f64}", [x, weight, y], elements, True, target)
    wide = values_of(x, element)
    expected = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5) * weight
    np.testing.assert_allclose(values_of(y, element), expected, limit, limit)


def test_rms_norm_without_weight() -> None:
    x = random_floats((2, 3, 70), "f32")
    y = np.zeros_like(x)
    run("nn.rms_norm(%0) outs(%1) {eps = 1.0e-6 : f64}", [x, y], ["f32"] * 2, True, "avx512")
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(y, expected, 1e-5, 1e-6)


def position(x: Array, axis: int, kind: str, last: bool, keepdims: bool) -> Array:
    function = np.argmax if kind == "argmax" else np.argmin
    if last:
        found = x.shape[axis] - 1 - function(np.flip(x, axis), axis, keepdims=keepdims)
    else:
        found = function(x, axis, keepdims=keepdims)
    return np.asarray(found, np.int64)


def check_position(x: Array, element: str, axis: int, kind: str, target: str = "avx512") -> None:
    values = values_of(x, element) if element in TOLERANCE else x
    settings = f'axes = array<i64: {axis}>, kind = "{kind}"'
    unsigned = ", unsigned" if x.dtype.kind == "u" and element != "bf16" else ""
    for last in (False, True):
        keepdims = last == (axis == 0)
        expected = position(values, axis, kind, last, keepdims)
        flags = (", select_last" if last else "") + (", keepdims" if keepdims else "")
        y = np.full(expected.shape, -7, np.int64)
        op = f"nn.reduce(%0) outs(%1) {{{settings}{flags}{unsigned}}}"
        run(op, [x, y], [element, "i64"], last, target)
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(("shape", "axis"), [c for c in CASES if c[0] != (3, 0) and c[1] >= 0])
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_positions(shape: tuple[int, ...], axis: int, kind: str) -> None:
    # Few distinct values, so that equal ones occur.
    x = np.random.default_rng(4).integers(-3, 4, shape).astype(np.float32)
    check_position(x, "f32", axis, kind)


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_positions_of_nan_and_infinity(kind: str) -> None:
    x = np.random.default_rng(5).normal(size=(6, 50)).astype(np.float32)
    x[0, [7, 31, 49]] = np.nan
    x[1, :] = np.nan
    x[2, :] = -np.inf
    x[3, :] = np.inf
    x[4, 0] = np.nan
    x[5, [3, 40]] = [np.inf, -np.inf]
    check_position(x, "f32", 1, kind)
    check_position(np.ascontiguousarray(x.T), "f32", 0, kind)


@pytest.mark.parametrize("element", ["f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "u64"])
def test_positions_of_other_elements(element: str) -> None:
    row = dtype_row(element)
    rng = np.random.default_rng(6)
    if row.is_float:
        x = stored(rng.integers(-9, 9, (4, 75)).astype(np.float32), element)
    else:
        info = np.iinfo(row.value)
        x = rng.integers(info.min, info.max, (4, 75), dtype=row.value, endpoint=True)
        x[:, 70] = x[:, 2] = info.max
        x[:, 60] = x[:, 9] = info.min
    spelled = element.replace("u", "i")
    for axis in (0, 1):
        for target in ("avx512", "generic"):
            check_position(x, spelled, axis, "argmax", target)
        check_position(x, spelled, axis, "argmin")
