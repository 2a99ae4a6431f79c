"""Ops that move elements against NumPy, compiled and run; nothing is written beside the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.parser import Parser
from xdsl.rewriter import Rewriter

from openinfer.compiler.registry import make_context
from openinfer.dialects.nn import SizeOp
from openinfer.lowering.cpu.jit import compile_loops
from openinfer.lowering.cpu.schedules.lower_kernels import LowerKernels
from openinfer.lowering.verify_dominance import verify_dominance
from openinfer.runtime.devices.failures import PLACE

Array = np.ndarray[Any, Any]
ELEMENTS: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16,
    "i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8,
}  # fmt: skip
MARGIN = 64


def fresh(shape: Sequence[int], kind: Any) -> tuple[Array, Array]:
    """An array to write to, and the larger one around it that must stay as it is elsewhere."""
    count = int(np.prod(shape))
    whole = np.full(count + 2 * MARGIN, 77, kind)
    return whole[MARGIN : MARGIN + count].reshape(shape), whole


def untouched(whole: Array) -> bool:
    return bool((whole[:MARGIN] == 77).all() and (whole[-MARGIN:] == 77).all())


def random(shape: Sequence[int], element: str = "f32", seed: int = 0) -> Array:
    values = np.random.default_rng(seed).integers(0, 200, shape)
    return (
        values.astype(np.uint8).view(np.int8)
        if element == "i8"
        else values.astype(ELEMENTS[element])
    )


def lowered(text: str, target: str = "avx512", sizes: dict[str, int] | None = None) -> ModuleOp:
    """The module of a function's text after the pass; sizes that only the run knows get values."""
    whole = f'builtin.module attributes {{openinfer.target = "{target}"}} {{\n{text}\n}}'
    context = make_context()
    module = Parser(context, whole).parse_module()
    module.verify()
    LowerKernels().apply(context, module)
    for op in list(module.walk()):
        if isinstance(op, SizeOp):
            value = IntegerAttr.from_index_int_value(op.size.data.evaluate(sizes or {}))
            Rewriter.replace_op(op, ConstantOp(value))
    module.verify()
    verify_dominance(module)
    assert not any(op.name.startswith(("nn.", "linalg.")) for op in module.walk())
    return module


def run(
    op: str,
    arrays: Sequence[Array],
    elements: Sequence[str],
    dynamic: bool = False,
    target: str = "avx512",
    sizes: dict[str, int] | None = None,
) -> None:
    """Calls a function whose arguments are the operands %0, %1, … of one nn op."""
    types = [
        f"memref<{''.join('?x' if dynamic else f'{n}x' for n in array.shape)}{element}>"
        for array, element in zip(arrays, elements)
    ]
    arguments = ", ".join(f"%{i}: {t}" for i, t in enumerate(types))
    text = f"func.func @f({arguments}) {{ {op} : ({', '.join(types)}) -> ()\n func.return }}"
    compile_loops(lowered(text, target, sizes), "f")(*arrays)


def check(
    op: str,
    inputs: Sequence[Array],
    expected: Array,
    element: str = "f32",
    elements: Sequence[str] = (),
    **options: Any,
) -> None:
    """Runs an op on static and on dynamic shapes."""
    for dynamic in (False, True):
        result, whole = fresh(expected.shape, expected.dtype)
        kinds = [*(elements or [element] * len(inputs)), element]
        run(op, [*inputs, result], kinds, dynamic, **options)
        np.testing.assert_array_equal(result, expected)
        assert untouched(whole)


# Fill and count -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (5,), (64,), (3, 37), (2, 0, 4)])
def test_fill(shape: tuple[int, ...]) -> None:
    check("nn.fill() outs(%0) {value = 2.5 : f32}", [], np.full(shape, 2.5, np.float32))


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("target", ["avx512", "avx2", "generic"])
def test_fill_elements(element: str, target: str) -> None:
    kind = ELEMENTS[element]
    attribute = f"1.0 : {element}" if "f" in element else f"1 : {element}"
    one = 0x3F80 if element == "bf16" else 1
    op = f"nn.fill() outs(%0) {{value = {attribute}}}"
    check(op, [], np.full((7, 19), one, kind), element, target=target)


def test_fill_bools_and_wrapped_integers() -> None:
    check("nn.fill() outs(%0) {value = true}", [], np.ones((3, 5), np.int8), "i8")
    check("nn.fill() outs(%0) {value = 255 : i64}", [], np.full(70, -1, np.int8), "i8")
    check("nn.fill() outs(%0) {value = -3 : i64}", [], np.full(70, -3, np.float32))


def test_linalg_fill() -> None:
    text = """func.func @f(%v: f16, %y: memref<?x5xf16>) {
      linalg.fill ins(%v : f16) outs(%y : memref<?x5xf16>)
      func.return
    }"""
    y, whole = fresh((9, 5), np.float16)
    compile_loops(lowered(text), "f")(1.5, y)
    assert (y == 1.5).all()
    assert untouched(whole)


@pytest.mark.parametrize("element", ["f64", "f32", "f16", "i64", "i32", "i8"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((37,), 0), ((3, 20), 1), ((3, 20), 0), ((2, 3, 4), 1)]
)
def test_iota(element: str, shape: tuple[int, ...], axis: int) -> None:
    line = np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])
    expected = np.ascontiguousarray(np.broadcast_to(line, shape)).astype(ELEMENTS[element])
    check(f"nn.iota() outs(%0) {{axis = {axis} : i64}}", [], expected, element)


# Permute and repeat -------------------------------------------------------------------------------

ORDERS = [
    ((5, 37), (1, 0)), ((5, 37), (0, 1)), ((2, 3, 40), (1, 0, 2)), ((2, 3, 40), (2, 1, 0)),
    ((2, 1, 40), (1, 0, 2)), ((2, 5, 4, 32), (0, 2, 1, 3)), ((2, 5, 4, 32), (0, 2, 3, 1)),
    ((3, 0, 4), (2, 0, 1)), ((7,), (0,)), ((), ()),
    ((2, 37, 20), (0, 2, 1)), ((16, 3, 32), (2, 1, 0)), ((19, 8), (1, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "order"), ORDERS)
def test_transpose(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    x = random(shape)
    setting = f"array<i64: {', '.join(map(str, order))}>" if order else "array<i64>"
    op = f"nn.transpose(%0) outs(%1) {{permutation = {setting}}}"
    check(op, [x], np.transpose(x, order).copy())


@pytest.mark.parametrize("element", ELEMENTS)
def test_transpose_elements(element: str) -> None:
    x = random((4, 18, 33), element)
    for order in ((1, 0, 2), (0, 2, 1)):
        op = f"nn.transpose(%0) outs(%1) {{permutation = array<i64: {', '.join(map(str, order))}>}}"
        check(op, [x], np.transpose(x, order).copy(), element)


@pytest.mark.parametrize(
    ("have", "want"),
    [((37,), (3, 37)), ((3, 1), (3, 37)), ((1,), (5,)), ((), (4, 5)), ((2, 1, 8), (2, 6, 8)),
     ((1, 1), (1, 9)), ((3, 4), (3, 4)), ((1, 0), (5, 0))],
)  # fmt: skip
def test_broadcast(have: tuple[int, ...], want: tuple[int, ...]) -> None:
    x = random(have)
    result, whole = fresh(want, np.float32)
    run("nn.broadcast(%0) outs(%1)", [x, result], ["f32"] * 2)
    np.testing.assert_array_equal(result, np.broadcast_to(x, want))
    assert untouched(whole)


def test_broadcast_over_a_run_time_size() -> None:
    text = """func.func @f(%x: memref<?x1x12xf32>, %y: memref<?x?x12xf32>) {
      nn.broadcast(%x) outs(%y) : (memref<?x1x12xf32>, memref<?x?x12xf32>) -> ()
      func.return
    }"""
    x = random((3, 1, 12))
    y, whole = fresh((3, 4, 12), np.float32)
    compile_loops(lowered(text), "f")(x, y)
    np.testing.assert_array_equal(y, np.broadcast_to(x, (3, 4, 12)))
    assert untouched(whole)


def test_reshape() -> None:
    x = random((6, 35))
    check("nn.reshape(%0) outs(%1)", [x], x.reshape(3, 70))
    check("nn.reshape(%0) outs(%1)", [random((1, 1))], random((1, 1)).reshape(()))


# Cut and join -------------------------------------------------------------------------------------

SLICES = [
    ((10, 40), (2, 0), (1, 1), (5, 40)), ((10, 40), (0, 3), (1, 1), (10, 21)),
    ((10, 40), (1, 2), (3, 2), (3, 19)), ((10, 40), (9, 0), (-1, 1), (10, 40)),
    ((4, 6, 8), (1, 0, 0), (1, 1, 1), (2, 6, 8)), ((4, 6, 8), (0, 2, 0), (1, 1, 1), (4, 3, 8)),
    ((4, 6, 8), (3, 1, 7), (-2, 2, -3), (2, 3, 3)), ((12,), (5,), (1,), (1,)),
    ((12,), (0,), (1,), (12,)), ((5, 6), (2, 3), (1, 1), (0, 3)),
    ((3, 4, 5), (0, 0, 0), (2, 1, 1), (2, 4, 5)), ((), (), (), ()),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "starts", "steps", "sizes"), SLICES)
def test_slice(
    shape: tuple[int, ...],
    starts: tuple[int, ...],
    steps: tuple[int, ...],
    sizes: tuple[int, ...],
) -> None:
    x = random(shape)
    grids = [start + step * np.arange(size) for start, step, size in zip(starts, steps, sizes)]
    expected = x[np.ix_(*grids)] if shape else x
    for dynamic in (False, True):
        # A start that only the run knows, for some of them.
        spelled = [f'"{n}"' if i % 2 or not dynamic else f'"{n} + N"' for i, n in enumerate(starts)]
        settings = ", ".join(f"#graph.size<{s}>" for s in spelled)
        listed = f"array<i64: {', '.join(map(str, steps))}>" if steps else "array<i64>"
        op = f"nn.slice(%0) outs(%1) {{starts = [{settings}], steps = {listed}}}"
        result, whole = fresh(expected.shape, np.float32)
        run(op, [x, result], ["f32"] * 2, dynamic, sizes={"N": 0})
        np.testing.assert_array_equal(result, expected)
        assert untouched(whole)


@pytest.mark.parametrize(
    ("shapes", "axis"),
    [([(3, 16), (3, 21)], 1), ([(3, 16), (5, 16), (1, 16)], 0), ([(7,), (0,), (40,)], 0),
     ([(2, 3, 4), (2, 1, 4)], 1), ([(4, 1), (4, 1), (4, 1)], 1), ([(2, 5)], -1),
     ([(2, 3, 4), (2, 3, 9)], -1), ([(0, 3), (0, 2)], 1)],
)  # fmt: skip
def test_concat(shapes: list[tuple[int, ...]], axis: int) -> None:
    inputs = [random(shape, seed=i) for i, shape in enumerate(shapes)]
    names = ", ".join(f"%{i}" for i in range(len(inputs)))
    op = f"nn.concat({names}) outs(%{len(inputs)}) {{axis = {axis} : i64}}"
    check(op, inputs, np.concatenate(inputs, axis))


@pytest.mark.parametrize("element", ELEMENTS)
def test_concat_and_slice_elements(element: str) -> None:
    x, y = random((3, 70), element), random((3, 9), element, 1)
    op = "nn.concat(%0, %1) outs(%2) {axis = 1 : i64}"
    check(op, [x, y], np.concatenate([x, y], 1), element)
    starts = "[#graph.size<1>, #graph.size<2>]"
    op = f"nn.slice(%0) outs(%1) {{starts = {starts}, steps = array<i64: 1, 1>}}"
    check(op, [x], np.ascontiguousarray(x[1:, 2:69]), element)


# Gather -------------------------------------------------------------------------------------------

GATHERS = [
    ((30, 24), (5,), 0), ((30, 24), (2, 3), 0), ((4, 9), (6,), 1), ((3, 7, 5), (2, 2), 1),
    ((30,), (11,), 0), ((6, 384), (), 0), ((5, 8), (0,), 0), ((5, 1), (3,), 0),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "indexed", "axis"), GATHERS)
@pytest.mark.parametrize("kind", ["i64", "i32"])
def test_gather(shape: tuple[int, ...], indexed: tuple[int, ...], axis: int, kind: str) -> None:
    table = random(shape)
    rng = np.random.default_rng(1)
    indices = np.asarray(rng.integers(0, shape[axis], indexed), ELEMENTS[kind])
    op = f"nn.gather(%0, %1) outs(%2) {{axis = {axis} : i64}}"
    check(op, [table, indices], np.take(table, indices, axis), elements=["f32", kind])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("wrong", [-1, 10, 1 << 40])
def test_gather_reports_the_first_wrong_index(wrong: int, dynamic: bool) -> None:
    table = random((10, 20))
    indices = np.array([3, wrong, 99, 2], np.int64)
    result, whole = fresh((4, 20), np.float32)
    errors = np.zeros(4, np.int64)
    op = "nn.gather(%0, %1) outs(%2) scratch(errors = %3) {axis = 0 : i64, node = 41 : i64}"
    run(op, [table, indices, result, errors], ["f32", "i64", "f32", "i64"], dynamic)
    np.testing.assert_array_equal(errors, [42, wrong, 10, 2 * PLACE])
    np.testing.assert_array_equal(result, table[[3, 0, 0, 2]])
    assert untouched(whole)
    # An error that is there already stays.
    errors[:] = [7, 1, 2, 3]
    run(op, [table, indices, result, errors], ["f32", "i64", "f32", "i64"], dynamic)
    np.testing.assert_array_equal(errors, [7, 1, 2, 3])


@pytest.mark.parametrize("dynamic", [False, True])
def test_gather_from_an_empty_table(dynamic: bool) -> None:
    """No row can be read; the first index is reported, and no index at all is no error."""
    op = "nn.gather(%0, %1) outs(%2) scratch(errors = %3) {axis = 0 : i64, node = 0 : i64}"
    for count, expected in ((2, [1, 5, 0, PLACE]), (0, [0, 0, 0, 0])):
        indices = np.full(count, 5, np.int64)
        result, whole = fresh((count, 20), np.float32)
        errors = np.zeros(4, np.int64)
        arrays = [np.zeros((0, 20), np.float32), indices, result, errors]
        run(op, arrays, ["f32", "i64", "f32", "i64"], dynamic)
        np.testing.assert_array_equal(errors, expected)
        assert untouched(whole)


@pytest.mark.parametrize("element", ELEMENTS)
def test_gather_elements(element: str) -> None:
    table, indices = random((9, 75), element), np.array([8, 0, 3], np.int64)
    op = "nn.gather(%0, %1) outs(%2) {axis = 0 : i64}"
    check(op, [table, indices], table[indices], element, elements=[element, "i64"])
