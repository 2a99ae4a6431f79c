"""Strides, paddings, dilations and kernels of pooling that only the step knows, on both executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from both_executors import agree

import openinfer as oi
from openinfer.runtime.tensors import Tensor

WINDOWS = (
    ("conv1d", {"x": (2, 4, 9), "w": (6, 2, 3)}, "stride=a, padding=b, dilation=c, groups=2"),
    ("conv2d", {"x": (1, 3, 8, 7), "w": (2, 3, 3, 2)}, "stride=[a, 2], padding=b, dilation=c"),
    ("conv2d", {"x": (3, 8, 7), "w": (2, 3, 3, 2)}, "stride=a, padding=[b, 0, 2*b, 1]"),
    ("conv2d", {"x": (1, 3, 5, 6), "w": (4, 3, 1, 1)}, "stride=a"),
    (
        "conv_transpose2d",
        {"x": (1, 2, 4, 3), "w": (2, 3, 3, 2)},
        "stride=a, padding=b, dilation=c, output_padding=[b, 0]",
    ),
    ("max_pool2d", {"x": (2, 3, 9, 40)}, "kernel_size=[c, 2], stride=[a, 1]"),
    ("max_pool2d", {"x": (1, 2, 9, 8)}, "kernel=3, stride=a, padding=b, dilation=c"),
    ("max_pool2d", {"x": (1, 2, 7, 9)}, "kernel=[a + 1, c], ceil_mode=true"),
    ("avg_pool2d", {"x": (1, 2, 9, 8)}, "kernel=2*c, stride=a, padding=b, count_include_pad=f"),
    (
        "avg_pool2d",
        {"x": (1, 2, 9, 8)},
        "kernel=2, stride=[a, 2], padding=[0, b, 1, 0], ceil_mode=1",
    ),
)
NUMBERS = "a: i64; b: i32; c: u8; f: bool;"
STEPS = ((2, 1, 1), (1, 0, 2), (3, 1, 2), (1, 2, 1), (2**40, 0, 1), (2, 1, 3), (2**62, 1, 1))
WRONG = ((0, 0, 1), (-1, 0, 1), (1, -1, 1), (1, 0, 0), (1, 0, 99), (-(2**62), 1, 1))


def written(op: str, shapes: Mapping[str, Sequence[int]], settings: str, dtype: str) -> str:
    """A program of one op whose result takes the shape that it has."""
    rank = len(shapes["x"])
    declared = " ".join(f"{name}: {dtype}{list(shape)};" for name, shape in shapes.items())
    return (
        f"dynamic {{ {declared} {NUMBERS} }} persistent {{ n: i64; }} "
        f"volatile {{ y: {dtype}[{', '.join('_' * rank)}]; }}\n"
        f"block entry {{ cache.increment n; op {op}({', '.join(shapes)}, {settings}) >> y; "
        "return; }"
    )


def drawn(shapes: Mapping[str, Sequence[int]], dtype: str, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    if dtype[0] in "iu":
        return {n: Tensor.from_values(dtype, random.integers(0, 9, s)) for n, s in shapes.items()}
    return {n: Tensor.from_values(dtype, random.standard_normal(s)) for n, s in shapes.items()}


def numbers(a: int, b: int, c: int, f: bool = True) -> dict[str, Any]:
    return {"a": np.int64(a), "b": np.int32(b), "c": np.uint8(c), "f": np.array(f)}


@pytest.mark.parametrize(("op", "shapes", "settings"), WINDOWS)
def test_every_step_has_its_own(
    op: str, shapes: Mapping[str, Sequence[int]], settings: str
) -> None:
    """Sizes grow and shrink; a step that is refused leaves state and executor as they were."""
    given = drawn(shapes, "f32")
    rows = [row for pair in zip(STEPS, (*WRONG, WRONG[0])) for row in pair]
    steps = [{**given, **numbers(*row, f=i % 2 == 0)} for i, row in enumerate(rows)]
    agree(written(op, shapes, settings, "f32"), steps)


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "f8", "i32", "u8", "i64"])
def test_dtypes(dtype: str) -> None:
    for op, shapes, settings in (WINDOWS[0], WINDOWS[4], WINDOWS[6], WINDOWS[8]):
        if op == "avg_pool2d" and dtype[0] in "iu":
            continue
        given = drawn(shapes, dtype)
        steps = [{**given, **numbers(*row)} for row in STEPS[:3]]
        tolerance = {"f16": 4e-3, "bf16": 3e-2, "f8": 0.3}.get(dtype, 1e-5)
        agree(written(op, shapes, settings, dtype), steps, tolerance=tolerance)


@pytest.mark.parametrize(
    "options",
    [{"optimise": False}, {"strict_math": True}, {"threads": 2}, {"watched": True}],
    ids=lambda options: next(iter(options)),
)
def test_ways_of_compiling(options: dict[str, Any]) -> None:
    for op, shapes, settings in (WINDOWS[1], WINDOWS[4], WINDOWS[8]):
        given = drawn(shapes, "f32")
        steps = [{**given, **numbers(*row)} for row in (*STEPS[:3], WRONG[0], STEPS[3])]
        agree(written(op, shapes, settings, "f32"), steps, **options)


X, W = (1, 2, 9), (3, 2, 3)


def one(settings: str, more: str = "", y: str = "_") -> str:
    return (
        f"dynamic {{ x: f32{list(X)}; w: f32{list(W)}; n: i64; {more} }} "
        f"volatile {{ y: f32[1, 3, {y}]; }} "
        f"block entry {{ op conv1d(x, w, {settings}) >> y; return; }}"
    )


def given(n: int = 1, **more: Any) -> dict[str, Any]:
    return {**drawn({"x": X, "w": W}, "f32"), "n": np.int64(n), **more}


def test_sizes_of_the_inputs() -> None:
    text = one("stride=S, padding=[S - 1, 2], dilation=S", "s: f32[S];")
    agree(text, [given(s=np.zeros(n, np.float32)) for n in (1, 2, 0, 3, 5, 2)])


def test_a_quotient_may_divide_by_zero() -> None:
    agree(one("stride=4/n, padding=n + 1"), [given(n) for n in (1, 2, 0, 4, 5, -1, -4)])


def test_same_padding_follows_the_dilation() -> None:
    agree(one('padding="same", dilation=n', y="9"), [given(n) for n in (1, 2, 3, 0, 100)])


def test_a_declared_size_is_compared() -> None:
    agree(one("stride=n", y="6/n + 1"), [given(n) for n in (1, 2, 3, 7)])


def test_what_no_memory_holds() -> None:
    """A padding beyond it is no padding of another size."""
    text = one("padding=n*n, dilation=n*n")
    agree(text, [given(n) for n in (1, 2**32, 2**62, 2)])


def test_loop_indices() -> None:
    text = """dynamic { x: f32[1, 2, 9]; w: f32[3, 2, 3]; n: i64; } volatile { y: f32[3]; }
        block entry {
          loop l (i in 1..n) {
            assign t: f32[1, 3, _]; assign u: f32[3];
            op conv1d(x, w, stride=i, padding=i - 1) >> t;
            op sum_axis(t, axes=[0, 2]) >> u;
            op add(y, u) >> y;
          }
          return;
        }"""
    agree(text, [given(n) for n in (4, 1, 7, 0)])


def test_numbers_that_the_step_computes() -> None:
    text = """dynamic { x: f32[1, 2, 9]; w: f32[3, 2, 3]; n: i64; c: bool; }
        persistent { k: i64 @init(1); } volatile { m: i64 @init(1); y: f32[1, 3, _]; }
        block entry { cache.increment k; branch c more less;
          op conv1d(x, w, stride=m, padding=k) >> y; return; }
        block more { op add(n, n) >> m; return; }
        block less { return; }"""
    agree(text, [given(n, c=np.array(c)) for n in (1, 2, 0) for c in (True, False)])


@pytest.mark.parametrize("kind", ["constant", "volatile"])
def test_what_has_one_value_is_a_number(kind: str) -> None:
    text = one("stride=2*m - 1").replace("volatile {", f"{kind} {{ m: i64 @init(2); }} volatile {{")
    agree(text, [given()])
    assert oi.compile(text).plan_text() == oi.compile(one("stride=3")).plan_text()


def test_a_mistake_where_no_step_comes_is_none() -> None:
    text = """dynamic { x: f32[1, 2, 9]; w: f32[3, 2, 3]; n: i64; c: bool; }
        volatile { zero: i64; y: f32[1, 3, _]; z: f32; }
        block entry { branch c wrong right; return; }
        block wrong { op conv1d(x, w, stride=zero) >> y; return; }
        block right { op fill(z, value=1) >> z; return; }"""
    agree(text, [given(c=np.array(c)) for c in (False, True, False)])


@pytest.mark.parametrize("dtype", ["f32", "bool"])
@pytest.mark.parametrize(("form", "code"), [("v", "OI0304"), ("[v, 1]", "OI0306")])
def test_they_are_integers(dtype: str, form: str, code: str) -> None:
    graph = oi.graph(one(f"padding={form}", f"v: {dtype};"))
    for make in (lambda: oi.Simulator(graph), lambda: oi.compile(graph)):
        with pytest.raises(oi.ProgramError) as caught:
            make()
        assert [d.code for d in caught.value.diagnostics] == [code]
