"""Rows with hard values and shapes for every elementwise and reducing op, made from the registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from case import Case, Shapes

from openinfer.dialects.opset import OpSpec, find, names

_QUICK = ("f32", "i8")
"""The dtypes that run without being asked for; the others belong to the full table."""
_REQUIRED: dict[str, Any] = {"bits": 3, "value": 1}
_BROADCASTS: tuple[Shapes, ...] = (
    ((1,), (5,)), ((5,), (1,)), ((3, 1), (1, 4)), ((2, 1, 3), (1, 5, 1)), ((), (3,)), ((3,), ()),
    ((1, 1, 1), (2, 3, 4)), ((0,), (1,)), ((3, 0), (1,)), ((1, 0), (3, 1)), ((1,), (1, 1, 1)),
    ((33, 1), (33, 17)), ((7, 1, 19), (3, 1)), ((2, 3, 1, 1), (5, 65)),
)  # fmt: skip


_CONVERSIONS = ("cast", "bit_cast")


def rows() -> Iterator[Case]:
    specs = [spec for name in names() if (spec := find(name)) is not None]
    for spec in specs:
        if spec.family in ("elementwise", "compare") and spec.name not in _CONVERSIONS:
            yield from _elementwise(spec)
        elif spec.family == "reduce":
            yield from _reduction(spec)
    yield from _broadcasts()
    yield from _in_place()
    yield from _sizes()


def _elementwise(spec: OpSpec) -> Iterator[Case]:
    required = {s.name: _REQUIRED[s.name] for s in spec.settings if s.required}
    count = len(spec.operands)
    shape = (37,) if count == 1 else (457,)
    for dtype in spec.dtypes:
        dtypes = (dtype,) * count
        settings = {"value": -1} if spec.name == "fill" and dtype in ("i1", "t1") else required
        if spec.name == "where":
            dtypes = ("bool", dtype, dtype)
        if spec.name == "filter":
            dtypes = (dtype, dtype, "bool")
        yield Case(
            spec.name, (shape,) * count, dtypes, settings, draw="edges", full=dtype not in _QUICK
        )


def _reduction(spec: OpSpec) -> Iterator[Case]:
    if spec.setting("axes") is None and spec.setting("axis") is None:
        return  # It has no lines: `is_finite`.
    name = "axes" if spec.setting("axes") is not None else "axis"
    for dtype in spec.dtypes:
        for axis, shape in ((1, (14, 37)), (0, (37, 14))):
            settings = {name: [axis] if name == "axes" else axis}
            full = dtype not in _QUICK or axis == 0
            yield Case(spec.name, (shape,), (dtype,), settings, draw="edge rows", full=full)
    several: tuple[tuple[tuple[int, ...], list[int]], ...] = (
        ((1, 1, 1), [0, 1, 2]), ((2, 3, 5), [0, 2]), ((5, 1), [0]), ((65, 3), [0]), ((3, 65), [1]),
        ((2, 3, 4, 5), [1, 3]), ((7,), [0]), ((1, 33), [-1, 0]), ((0, 3), [1]), ((2, 0, 3), [2]),
    )  # fmt: skip
    for shape, axes in several:
        if name == "axis" and len(axes) > 1:
            continue
        for keepdims in (False, True):
            settings = {name: axes if name == "axes" else axes[0], "keepdims": keepdims}
            for dtype in ("f32", "i32"):
                if dtype in spec.dtypes:
                    yield Case(spec.name, (shape,), (dtype,), settings, full=True)
    if spec.name in ("sum_axis", "mean_axis", "prod_axis"):
        for dtype in ("f32", "f16", "i32", "u8"):
            # The sum of nothing.
            yield Case(spec.name, ((3, 0),), (dtype,), {"axes": [1]}, full=dtype != "f32")
            yield Case(spec.name, ((0, 3),), (dtype,), {"axes": [0]}, full=True)


def _broadcasts() -> Iterator[Case]:
    for op in ("sub", "div", "max", "lt", "filter"):
        for shapes in _BROADCASTS:
            operands = (*shapes, (1,)) if op == "filter" else shapes
            for dtype in ("f32", "i16"):
                full = op != "sub" or dtype != "f32"
                yield Case(op, operands, (dtype,) * len(operands), draw="nonzero", full=full)


def _in_place() -> Iterator[Case]:
    """The result written over each operand of its shape."""
    pair: Shapes = ((4, 17), (4, 17))
    for op in ("add", "sub", "mul", "div", "min", "max", "rem", "floor_div", "pow", "and"):
        dtype = "i32" if op in ("rem", "floor_div", "and") else "f32"
        draw = "positive" if op == "pow" else "nonzero"
        for operand in (0, 1):
            full = op not in ("sub", "rem")
            yield Case(op, pair, (dtype,) * 2, draw=draw, inplace=operand, full=full)
        if op == "sub":
            yield Case(op, ((4, 17), (17,)), (dtype,) * 2, inplace=0)
            yield Case(op, ((17,), (4, 17)), (dtype,) * 2, inplace=1)
            yield Case(op, ((1, 17), (4, 1)), (dtype,) * 2, full=True)
            yield Case(op, pair, ("f16", "f16"), inplace=1, runtime=True)
    for operand in range(3):
        yield Case("fma", ((3, 5),) * 3, ("f32",) * 3, inplace=operand, full=operand != 1)
        full = operand == 1
        yield Case("filter", ((3, 5),) * 3, ("i32",) * 3, draw="zeros", inplace=operand, full=full)
    for operand in (1, 2):
        dtypes = ("bool", "f32", "f32")
        yield Case("where", ((3, 5),) * 3, dtypes, inplace=operand, full=operand == 1)
    for operand in (0, 1):
        yield Case("matmul", ((7, 7), (7, 7)), ("f32", "f32"), inplace=operand)
        yield Case("matmul", ((2, 7, 7), (7, 7)), ("f32", "f32"), inplace=0, full=True)
        yield Case("matmul", ((33, 33), (33, 33)), ("i32", "i32"), inplace=operand, full=True)
    for op in ("relu", "neg", "exp", "softmax", "layer_norm", "flip", "cumsum", "fill", "clamp"):
        settings = {"value": 2.5} if op == "fill" else {}
        yield Case(op, ((5, 17),), ("f32",), settings, inplace=0, full=op in ("neg", "exp"))
    yield Case("transpose", ((9, 9),), ("f32",), inplace=0)
    yield Case("sort", ((5, 17),), ("f32",), inplace=0)
    yield Case("cumsum", ((5, 17),), ("i32",), {"reverse": True}, inplace=0)
    for operand in (0, 2):
        shapes: Shapes = ((6, 3), (6,), (6, 3))
        dtypes = ("f32", "i64", "f32")
        yield Case("scatter", shapes, dtypes, {"mode": "add"}, draw="indices", inplace=operand)
    yield Case("gather", ((6, 3), (6,)), ("f32", "i64"), draw="indices", inplace=0)
    yield Case("attention", ((2, 3, 5, 8),) * 3, ("f32",) * 3, inplace=2)


def _sizes() -> Iterator[Case]:
    """Sizes of 0 and 1 that only the run knows."""
    for count in (0, 1):
        shape, pair = (count, 5), ((count, 5), (count, 5))
        full = count == 1
        for op in ("neg", "exp", "softmax", "layer_norm", "flip", "cumsum", "sort"):
            yield Case(op, (shape,), ("f32",), runtime=True, full=full)
        for op in ("add", "lt", "div"):
            yield Case(op, pair, ("f32", "f32"), runtime=True, full=full)
        for op in ("sum_axis", "mean_axis", "max_axis"):
            yield Case(op, (shape,), ("f32",), {"axes": [1]}, runtime=True, full=full)
        yield Case("sum_axis", (shape,), ("f32",), {"axes": [0]}, runtime=True, full=full)
        yield Case("mean_axis", (shape,), ("i32",), {"axes": [0]}, runtime=True, full=full)
        yield Case("cumsum", (shape,), ("f32",), {"axis": 0}, runtime=True, full=full)
        yield Case("matmul", (shape, (5, 3)), ("f32", "f32"), runtime=True, full=full)
        yield Case("concat", ((count, 5), (3, 5)), ("f32", "f32"), runtime=True, full=full)
        yield Case("pad", (shape,), ("f32",), {"pads": [1, 0, 2, 1]}, runtime=True, full=full)
        yield Case("topk", (shape,), ("f32",), {"k": 2}, outputs=2, runtime=True, full=full)
