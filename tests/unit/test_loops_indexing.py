"""Scatter, sort and cumsum against NumPy, compiled and run; nothing is written beside the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from openinfer.compiler.registry import make_context
from openinfer.lowering.cpu.jit import compile_loops
from openinfer.lowering.cpu.schedules.lower_kernels import LowerKernels
from openinfer.lowering.verify_dominance import verify_dominance
from openinfer.runtime.devices.failures import PLACE
from openinfer.runtime.errors import CompileError

Array = np.ndarray[Any, Any]
ELEMENTS: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32,
    "i16": np.int16, "i8": np.int8,
}  # fmt: skip
TARGETS = ("avx512", "avx2", "generic")
MARGIN = 64


def fresh(shape: Sequence[int], kind: Any) -> tuple[Array, Array]:
    """An array to write to, and the larger one around it that must stay as it is elsewhere."""
    count = int(np.prod(shape))
    whole = np.full(count + 2 * MARGIN, 77, kind)
    return whole[MARGIN : MARGIN + count].reshape(shape), whole


def untouched(whole: Array) -> bool:
    return bool((whole[:MARGIN] == 77).all() and (whole[-MARGIN:] == 77).all())


def drawn(shape: Sequence[int], element: str = "f32", seed: int = 0) -> Array:
    """Few different values, so that many are equal."""
    values = np.random.default_rng([seed, *shape]).integers(-4, 5, shape)
    return values.astype(ELEMENTS[element])


def lowered(text: str, target: str = "avx512") -> ModuleOp:
    whole = f'builtin.module attributes {{openinfer.target = "{target}"}} {{\n{text}\n}}'
    context = make_context()
    module = Parser(context, whole).parse_module()
    module.verify()
    LowerKernels().apply(context, module)
    module.verify()
    verify_dominance(module)
    assert not any(op.name.startswith("nn.") for op in module.walk())
    return module


def run(
    op: str,
    arrays: Sequence[Array],
    elements: Sequence[str],
    dynamic: bool = False,
    target: str = "avx512",
) -> None:
    """Calls a function whose arguments are the operands %0, %1, … of one nn op."""
    types = [
        f"memref<{''.join('?x' if dynamic else f'{n}x' for n in array.shape)}{element}>"
        for array, element in zip(arrays, elements)
    ]
    arguments = ", ".join(f"%{i}: {t}" for i, t in enumerate(types))
    text = f"func.func @f({arguments}) {{ {op} : ({', '.join(types)}) -> ()\n func.return }}"
    compile_loops(lowered(text, target), "f")(*arrays)


# Sort ---------------------------------------------------------------------------------------------


def sort(x: Array, axis: int, element: str, count: int | None = None, **options: Any) -> None:
    """Both orders, all of the axis or a part, on static and on dynamic shapes."""
    unsigned = element == "i8" and x.dtype == np.uint8
    shape = list(x.shape)
    shape[axis] = shape[axis] if count is None else count
    for descending in (False, True):
        backwards = np.argsort(np.flip(x, axis), axis, kind="stable")
        order = x.shape[axis] - 1 - np.flip(backwards, axis)
        if not descending:
            order = np.argsort(x, axis, kind="stable")
        order = np.take(order, range(shape[axis]), axis)
        for dynamic, chosen in ((False, False), (True, False), (False, True), (True, True)):
            values, around = fresh(shape, x.dtype)
            places, margin = fresh(shape, np.int64)
            # With scratch runs are merged, without it the first ones are chosen.
            scratch = [np.zeros(x.shape, np.int64) for _ in range(0 if chosen else 2)]
            settings = f"axis = {axis} : i64" + (", descending" if descending else "")
            settings += ", unsigned" if unsigned else ""
            rooms = "" if chosen else "scratch(home = %3, away = %4) "
            op = f"nn.sort(%0) outs(%1, %2) {rooms}{{{settings}}}"
            kinds = [element, element, *(["i64"] * (1 + len(scratch)))]
            run(op, [x, values, places, *scratch], kinds, dynamic, **options)
            np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))
            np.testing.assert_array_equal(places, order)
            assert untouched(around)
            assert untouched(margin)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 63, 64, 65, 257])
def test_sort_lengths(count: int) -> None:
    sort(drawn((count,)), 0, "f32")


@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 9), 1), ((9, 3), 0), ((2, 5, 4), 1), ((2, 0, 4), 1), ((0, 4), 1)]
)
def test_sort_shapes(shape: tuple[int, ...], axis: int) -> None:
    sort(drawn(shape), axis, "f32")


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("target", TARGETS)
def test_sort_elements(element: str, target: str) -> None:
    sort(drawn((2, 11), element), 1, element, target=target)


def test_sort_of_unsigned_integers_and_of_nan() -> None:
    sort(np.array([3, 200, 0, 255, 128, 127], np.uint8), 0, "i8")
    sort(np.array([3, np.nan, -np.inf, np.inf, np.nan, -0.0, 0.0], np.float32), 0, "f32")
    sort(np.array([np.nan, np.nan, 1, np.nan], np.float16), 0, "f16")


@pytest.mark.parametrize("count", [0, 1, 4, 9])
def test_the_first_ones(count: int) -> None:
    sort(drawn((3, 9)), 1, "f32", count)
    sort(drawn((9, 3)), 0, "f32", count)


def test_sort_needs_both_scratch_buffers() -> None:
    text = """func.func @f(%x: memref<4xf32>, %v: memref<4xf32>, %p: memref<4xi64>) {
      nn.sort(%x) outs(%v, %p) scratch(home = %p) {axis = 0 : i64}
        : (memref<4xf32>, memref<4xf32>, memref<4xi64>, memref<4xi64>) -> ()
      func.return
    }"""
    with pytest.raises(
        CompileError, match="without the scratch buffers that its schedule needs: away"
    ):
        lowered(text)


# Cumsum -------------------------------------------------------------------------------------------


def running(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    line = np.flip(x, axis) if reverse else x
    total = np.cumsum(line, axis, dtype=x.dtype)
    if exclusive:
        total = total - line
    return np.ascontiguousarray(np.flip(total, axis) if reverse else total)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((37,), 0), ((1,), 0), ((0,), 0), ((3, 20), 1), ((20, 37), 0), ((2, 3, 4), 1), ((0, 4), 1)],
)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum(shape: tuple[int, ...], axis: int, exclusive: bool, reverse: bool) -> None:
    x = drawn(shape)
    flags = (", exclusive" if exclusive else "") + (", reverse" if reverse else "")
    for dynamic in (False, True):
        result, whole = fresh(shape, np.float32)
        op = f"nn.cumsum(%0) outs(%1) {{axis = {axis} : i64{flags}}}"
        run(op, [x, result], ["f32", "f32"], dynamic)
        np.testing.assert_array_equal(result, running(x, axis, exclusive, reverse))
        assert untouched(whole)


@pytest.mark.parametrize("element", ["f64", "f32", "i64", "i32", "i16", "i8"])
@pytest.mark.parametrize("target", TARGETS)
def test_cumsum_elements(element: str, target: str) -> None:
    x = drawn((5, 37), element)
    for axis in (0, 1):
        result, whole = fresh(x.shape, x.dtype)
        op = f"nn.cumsum(%0) outs(%1) {{axis = {axis} : i64}}"
        run(op, [x, result], [element] * 2, target=target)
        np.testing.assert_array_equal(result, np.cumsum(x, axis, dtype=x.dtype))
        assert untouched(whole)


def test_negative_zero_stays() -> None:
    result, _ = fresh((2,), np.float32)
    run(
        "nn.cumsum(%0) outs(%1) {axis = 0 : i64}",
        [np.full(2, -0.0, np.float32), result],
        ["f32"] * 2,
    )
    assert np.signbit(result).all()


# Scatter ------------------------------------------------------------------------------------------

SCATTERS = [
    ((30, 24), (5,), 0), ((30, 24), (2, 3), 0), ((4, 9), (6,), 1), ((3, 7, 5), (2, 2), 1),
    ((30,), (11,), 0), ((6, 384), (), 0), ((5, 8), (0,), 0), ((5, 1), (3,), 0), ((2, 40), (70,), 0),
]  # fmt: skip


def scattered(x: Array, indices: Array, updates: Array, axis: int, mode: str) -> Array:
    result = np.moveaxis(x, axis, 0).copy()
    moved = np.moveaxis(updates, range(axis, axis + indices.ndim), range(indices.ndim))
    join = {"add": np.add, "min": np.minimum, "max": np.maximum}
    for place in np.ndindex(indices.shape):
        index = int(indices[place])
        if 0 <= index < len(result):
            new = moved[place]
            result[index] = new if mode == "set" else join[mode](result[index], new)
    return np.ascontiguousarray(np.moveaxis(result, 0, axis))


@pytest.mark.parametrize(("shape", "indexed", "axis"), SCATTERS)
@pytest.mark.parametrize("mode", ["set", "add", "min", "max"])
def test_scatter(shape: tuple[int, ...], indexed: tuple[int, ...], axis: int, mode: str) -> None:
    x = drawn(shape)
    updates = drawn((*shape[:axis], *indexed, *shape[axis + 1 :]), seed=1)
    indices = np.asarray(np.random.default_rng(1).integers(0, shape[axis], indexed), np.int64)
    for dynamic in (False, True):
        result, whole = fresh(shape, np.float32)
        op = f'nn.scatter(%0, %1, %2) outs(%3) {{axis = {axis} : i64, mode = "{mode}"}}'
        run(op, [x, indices, updates, result], ["f32", "i64", "f32", "f32"], dynamic)
        np.testing.assert_array_equal(result, scattered(x, indices, updates, axis, mode))
        assert untouched(whole)


@pytest.mark.parametrize("element", ["f64", "i64", "i32", "i16", "i8"])
@pytest.mark.parametrize("target", TARGETS)
def test_scatter_elements(element: str, target: str) -> None:
    x, updates = drawn((3, 37), element), drawn((9, 37), element, 1)
    indices = np.array([2, 0, 0, 1, 2, 2, 0, 1, 1], np.int32)
    for mode in ("set", "add", "min", "max"):
        result, whole = fresh(x.shape, x.dtype)
        op = f'nn.scatter(%0, %1, %2) outs(%3) {{axis = 0 : i64, mode = "{mode}"}}'
        kinds = [element, "i32", element, element]
        run(op, [x, indices, updates, result], kinds, target=target)
        np.testing.assert_array_equal(result, scattered(x, indices, updates, 0, mode))
        assert untouched(whole)


def test_scatter_of_unsigned_integers() -> None:
    x, updates = np.array([200, 3], np.uint8), np.array([100, 250], np.uint8)
    for mode, expected in (("max", [200, 250]), ("min", [100, 3])):
        result, _ = fresh((2,), np.uint8)
        op = f'nn.scatter(%0, %1, %2) outs(%3) {{axis = 0 : i64, mode = "{mode}", unsigned}}'
        run(op, [x, np.array([0, 1]), updates, result], ["i8", "i64", "i8", "i8"])
        assert result.tolist() == expected


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("wrong", [-1, 10, 1 << 40])
@pytest.mark.parametrize("mode", ["set", "add"])
def test_scatter_reports_the_first_wrong_index(wrong: int, dynamic: bool, mode: str) -> None:
    x, updates = drawn((10, 20)), drawn((4, 20), seed=1)
    indices = np.array([3, wrong, 99, 2], np.int64)
    result, whole = fresh((10, 20), np.float32)
    errors = np.zeros(4, np.int64)
    settings = f'axis = 0 : i64, mode = "{mode}", node = 41 : i64'
    op = f"nn.scatter(%0, %1, %2) outs(%3) scratch(errors = %4) {{{settings}}}"
    kinds = ["f32", "i64", "f32", "f32", "i64"]
    run(op, [x, indices, updates, result, errors], kinds, dynamic)
    np.testing.assert_array_equal(errors, [42, wrong, 10, 2 * PLACE])
    np.testing.assert_array_equal(result, scattered(x, indices, updates, 0, mode))
    assert untouched(whole)
    # An error that is there already stays.
    errors[:] = [7, 1, 2, 3]
    run(op, [x, indices, updates, result, errors], kinds, dynamic)
    np.testing.assert_array_equal(errors, [7, 1, 2, 3])


@pytest.mark.parametrize("dynamic", [False, True])
def test_scatter_into_nothing(dynamic: bool) -> None:
    """Any index is wrong, and no index at all is no error."""
    op = 'nn.scatter(%0, %1, %2) outs(%3) scratch(errors = %4) {axis = 0 : i64, mode = "set", node = 0 : i64}'
    for count, expected in ((2, [1, 5, 0, PLACE]), (0, [0, 0, 0, 0])):
        arrays = [np.zeros((0, 20), np.float32), np.full(count, 5), drawn((count, 20))]
        result, whole = fresh((0, 20), np.float32)
        errors = np.zeros(4, np.int64)
        kinds = ["f32", "i64", "f32", "f32", "i64"]
        run(op, [*arrays, result, errors], kinds, dynamic)
        np.testing.assert_array_equal(errors, expected)
        assert untouched(whole)
