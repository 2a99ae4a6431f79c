"""Kernels of attention: the loops run and agree with NumPy, for every target, layout and mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.parser import Parser

from openinfer.compiler.registry import make_context
from openinfer.dialects.nn import AttentionOp
from openinfer.lowering.cpu.jit import CompiledFunction, compile_loops
from openinfer.lowering.cpu.schedules.attention_schedule import attention_scratch
from openinfer.lowering.cpu.schedules.lower_kernels import LowerKernels
from openinfer.lowering.cpu.threads.share_loops import ShareLoops
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.errors import CompileError
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.target import named_target

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)

Array = np.ndarray[Any, Any]
LEVELS = ("generic", "avx2", "avx512")
TARGETS = LEVELS[: LEVELS.index(host_target().name) + 1] if not cpu_unavailable_reason() else ()
HOST = TARGETS[-1] if TARGETS else "generic"
WIDTHS = {"generic": 4, "avx2": 8, "avx512": 16}
IR_TYPES = {"float64": "f64", "float32": "f32", "float16": "f16", "bool": "i8"}


def memref(shape: Sequence[int | None], element: str) -> str:
    sizes = "".join(f"{'?' if size is None else size}x" for size in shape)
    return f"memref<{sizes}{element}>"


def in_layout(values: Array, layout: str) -> Array:
    """`[b, h, l, d]` as it lies in memory."""
    return np.ascontiguousarray(values if layout == "bhld" else np.swapaxes(values, 1, 2))


class Attention:
    """One compiled attention whose lengths only the run knows."""

    def __init__(
        self,
        heads: tuple[int, int],
        sizes: tuple[int, int],
        *,
        target: str = HOST,
        dtype: str = "float32",
        layouts: Sequence[str] = ("bhld",) * 4,
        settings: str = "",
        mask: tuple[Sequence[int | None], str] | None = None,
        lengths: tuple[int | None, int | None] = (None, None),
        scale: float = 0.3,
        vectors: int = 2,
    ) -> None:
        self.layouts, self.dtype = layouts, dtype
        self.width = vectors * WIDTHS[target] // (2 if dtype == "float64" else 1)
        wide = "f64" if dtype == "float64" else "f32"
        self.wide = "float64" if dtype == "float64" else "float32"
        (hq, hk), (dk, dv), (lq, lk) = heads, sizes, lengths
        element = IR_TYPES[dtype]
        shapes = [(None, hq, lq, dk), (None, hk, lk, dk), (None, hk, lk, dv), (None, hq, lq, dv)]
        types = [
            memref(s if layout == "bhld" else (s[0], s[2], s[1], s[3]), element)
            for s, layout in zip(shapes, layouts)
        ]
        inputs = types[:3] + ([memref(mask[0], IR_TYPES[mask[1]])] if mask else [])
        outs = [types[3], memref((1, dk, self.width), wide), memref((1, lk, self.width), wide)]
        names = [f"%arg{i}" for i in range(len(inputs) + len(outs))]
        parameters = ", ".join(f"{n}: {t}" for n, t in zip(names, [*inputs, *outs]))
        spelled = ", ".join(f'"{layout}"' for layout in layouts)
        masked = "masked, " if mask else ""
        text = f"""builtin.module attributes {{openinfer.target = "{target}"}} {{
        func.func @kernel({parameters}) {{
          nn.attention({", ".join(names[: len(inputs)])}) outs({names[-3]})
            scratch(queries = {names[-2]}, scores = {names[-1]})
            {{scale = {scale} : f64, {masked}{settings} layouts = [{spelled}]}}
            : ({", ".join([*inputs, *outs])}) -> ()
          func.return
        }} }}"""
        context = make_context()
        module = Parser(context, text).parse_module()
        module.verify()
        for step in (LowerKernels(), ShareLoops()):
            step.apply(context, module)
        module.verify()
        description = host_target() if target == HOST else named_target(target)
        # The code of other targets is as the lowering made it: half the time to compile.
        self.run: CompiledFunction = compile_loops(
            module, "kernel", target=description, opt_level=int(target == HOST)
        )

    def __call__(self, q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
        """The result for `[b, h, l, d]` operands, checked for stores outside of its buffers."""
        given = [in_layout(x, layout) for x, layout in zip((q, k, v), self.layouts)]
        if mask is not None:
            given.append(mask)
        b, h, lq, _ = q.shape
        shape = (b, h, lq, v.shape[3])
        if self.layouts[3] == "blhd":
            shape = (b, lq, h, v.shape[3])
        out = np.full(int(np.prod(shape)) + 256, 77, self.dtype)
        inner = out[128:-128].reshape(shape)
        queries = np.full((1, q.shape[3], self.width), np.nan, self.wide)
        scores = np.full((1, k.shape[2], self.width), np.nan, self.wide)
        self.run(*given, inner, queries, scores)
        assert (out[:128] == 77).all()
        assert (out[out.size - 128 :] == 77).all()
        return inner if self.layouts[3] == "bhld" else np.swapaxes(inner, 1, 2)


def reference(
    q: Array,
    k: Array,
    v: Array,
    *,
    scale: float = 0.3,
    mask: Array | None = None,
    causal: bool = False,
    window: int | None = None,
) -> Array:
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores = q @ np.swapaxes(k, 2, 3) * scale
    lq, lk = scores.shape[2:]
    distance = np.arange(lq)[:, None] + lk - lq - np.arange(lk)[None]
    if causal:
        scores = np.where(distance >= 0, scores, -np.inf)
    if window is not None:
        scores = np.where(np.abs(distance) < window, scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = scores.max(3, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weights.sum(3, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


def operands(
    b: int, heads: tuple[int, int], lengths: tuple[int, int], sizes: tuple[int, int], dtype: str
) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(lengths[0] * 100 + lengths[1])
    shapes = [
        (b, heads[0], lengths[0], sizes[0]),
        (b, heads[1], lengths[1], sizes[0]),
        (b, heads[1], lengths[1], sizes[1]),
    ]
    q, k, v = (random.standard_normal(shape).astype(dtype) for shape in shapes)
    return q, k, v


LENGTHS = (
    (0, 4),
    (1, 1),
    (1, 9),
    (3, 7),
    (8, 8),
    (16, 16),
    (17, 5),
    (32, 33),
    (45, 70),
    (50, 9),
    (5, 0),
)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(32, 32), (5, 7), (40, 70)])
def test_any_length(target: str, sizes: tuple[int, int]):
    attend = Attention((2, 2), sizes, target=target)
    for lengths in LENGTHS:
        q, k, v = operands(2, (2, 2), lengths, sizes, "float32")
        np.testing.assert_allclose(attend(q, k, v), reference(q, k, v), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_one_vector_of_queries(target: str):
    attend = Attention((2, 2), (8, 8), target=target, vectors=1)
    for lengths in LENGTHS:
        q, k, v = operands(1, (2, 2), lengths, (8, 8), "float32")
        np.testing.assert_allclose(attend(q, k, v), reference(q, k, v), rtol=2e-5, atol=2e-5)


ONE_QUERY = ((1, 3), (1, 16), (1, 37), (1, 64))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("heads", "sizes"), [((2, 2), (48, 48)), ((6, 2), (5, 7)), ((9, 1), (40, 70))]
)
def test_one_query(target: str, heads: tuple[int, int], sizes: tuple[int, int]):
    layouts = ("bhld", "blhd", "blhd", "bhld")
    attend = Attention(heads, sizes, target=target, layouts=layouts, lengths=(1, None))
    for lengths in ONE_QUERY:
        q, k, v = operands(2, heads, lengths, sizes, "float32")
        np.testing.assert_allclose(attend(q, k, v), reference(q, k, v), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["bool", "float32"])
@pytest.mark.parametrize("shape", [(None, 1, 1, None), (None, 4, None, None), (1, 4, None, 1)])
def test_one_query_with_a_mask(dtype: str, shape: tuple[int | None, ...]):
    settings = "causal, window = 30 : i64, "
    attend = Attention((4, 2), (16, 16), mask=(shape, dtype), settings=settings)
    for lengths in ONE_QUERY:
        sizes = [a if s is None else s for a, s in zip((2, 4, *lengths), shape)]
        values = np.random.default_rng(1).standard_normal(sizes)
        mask = values > 0 if dtype == "bool" else values.astype(dtype)
        q, k, v = operands(2, (4, 2), lengths, (16, 16), "float32")
        expected = reference(q, k, v, mask=mask, causal=True, window=30)
        np.testing.assert_allclose(attend(q, k, v, mask), expected, rtol=2e-5, atol=2e-5)


def test_one_query_that_may_attend_to_nothing():
    attend = Attention((2, 2), (8, 8), mask=((1, 2, 1, None), "bool"))
    q, k, v = operands(1, (2, 2), (1, 20), (8, 8), "float32")
    mask = np.ones((1, 2, 1, 20), bool)
    mask[0, 0] = False
    result = attend(q, k, v, mask)
    assert (result[0, 0] == 0).all()
    np.testing.assert_allclose(result, reference(q, k, v, mask=mask), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("lengths", [(1, 12), (16, 16), (20, 33), (32, 32), (64, 3)])
def test_known_lengths(lengths: tuple[int, int]):
    attend = Attention((2, 2), (8, 8), lengths=lengths)
    q, k, v = operands(1, (2, 2), lengths, (8, 8), "float32")
    np.testing.assert_allclose(attend(q, k, v), reference(q, k, v), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "layouts", [("blhd",) * 4, ("blhd", "bhld", "bhld", "blhd"), ("bhld", "blhd", "bhld", "bhld")]
)
@pytest.mark.parametrize("heads", [(3, 3), (6, 2), (4, 1)])
def test_layouts_and_grouped_heads(layouts: Sequence[str], heads: tuple[int, int]):
    attend = Attention(heads, (16, 16), layouts=layouts)
    for lengths in ((1, 6), (21, 34)):
        q, k, v = operands(2, heads, lengths, (16, 16), "float32")
        np.testing.assert_allclose(attend(q, k, v), reference(q, k, v), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("causal", "window"), [(True, None), (True, 4), (False, 3), (True, 1), (False, 1000)]
)
def test_causal_and_window(causal: bool, window: int | None):
    settings = ("causal, " if causal else "") + (f"window = {window} : i64, " if window else "")
    attend = Attention((2, 2), (8, 8), settings=settings)
    for lengths in LENGTHS:
        q, k, v = operands(1, (2, 2), lengths, (8, 8), "float32")
        expected = reference(q, k, v, causal=causal, window=window)
        np.testing.assert_allclose(attend(q, k, v), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["bool", "float32", "float16"])
@pytest.mark.parametrize(
    "shape", [(None, 1, 1, None), (None, 2, None, None), (None, None), (1, 2, None, 1), (None,)]
)
def test_masks(dtype: str, shape: tuple[int | None, ...]):
    attend = Attention((2, 2), (8, 8), mask=(shape, dtype))
    for lengths in ((1, 6), (19, 40), (35, 9)):
        actual = [2, 2, *lengths][4 - len(shape) :]
        sizes = [a if s is None else s for a, s in zip(actual, shape)]
        random = np.random.default_rng(1)
        values = random.standard_normal(sizes)
        mask = values > 0 if dtype == "bool" else values.astype(dtype)
        q, k, v = operands(2, (2, 2), lengths, (8, 8), "float32")
        result = attend(q, k, v, mask)
        np.testing.assert_allclose(result, reference(q, k, v, mask=mask), rtol=2e-5, atol=2e-5)


def test_mask_and_causal_together():
    attend = Attention((2, 2), (8, 8), mask=((1, 1, 1, None), "bool"), settings="causal, ")
    q, k, v = operands(2, (2, 2), (18, 20), (8, 8), "float32")
    mask = np.random.default_rng(1).random((1, 1, 1, 20)) < 0.6
    expected = reference(q, k, v, mask=mask, causal=True)
    np.testing.assert_allclose(attend(q, k, v, mask), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_a_query_that_may_attend_to_nothing_gives_zeros(dtype: str):
    attend = Attention((1, 1), (8, 8), mask=((None, None), dtype))
    q, k, v = operands(1, (1, 1), (5, 6), (8, 8), "float32")
    seen = np.ones((5, 6), bool)
    seen[2] = False
    mask = seen if dtype == "bool" else np.where(seen, 0, -np.inf).astype(dtype)
    result = attend(q, k, v, mask)
    assert (result[0, 0, 2] == 0).all()
    np.testing.assert_allclose(result, reference(q, k, v, mask=mask), rtol=2e-5, atol=2e-5)


def test_a_nan_stays_in_its_row():
    attend = Attention((1, 1), (8, 8))
    q, k, v = operands(1, (1, 1), (20, 6), (8, 8), "float32")
    q[0, 0, 3, 1] = np.nan
    result = attend(q, k, v)
    assert np.isnan(result[0, 0, 3]).all()
    assert np.isfinite(np.delete(result[0, 0], 3, 0)).all()


def test_large_scores_do_not_overflow():
    attend = Attention((1, 1), (8, 8))
    q, k, v = operands(1, (1, 1), (9, 12), (8, 8), "float32")
    q *= 200
    np.testing.assert_allclose(attend(q, k, v), reference(q, k, v), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("dtype", "eps"), [("float16", 2e-3), ("float64", 1e-12)])
def test_other_floats(dtype: str, eps: float):
    attend = Attention((2, 1), (24, 24), dtype=dtype)
    for lengths in ((1, 6), (1, 40), (21, 34)):
        q, k, v = operands(1, (2, 1), lengths, (24, 24), dtype)
        np.testing.assert_allclose(attend(q, k, v), reference(q, k, v), rtol=eps, atol=eps)


def test_scratch():
    text = """builtin.module attributes {openinfer.target = "avx512"} {
    func.func @f(%q: tensor<?x12x?x32xf16, #nn.dims<B, 12, L, 32>>,
                 %k: tensor<?x?x12x32xf16, #nn.dims<B, T, 12, 32>>) {
      %o = nn.attention(%q, %k, %k)
        {scale = 1.0 : f64, layouts = ["bhld", "blhd", "blhd", "bhld"]}
        : (tensor<?x12x?x32xf16, #nn.dims<B, 12, L, 32>>,
           tensor<?x?x12x32xf16, #nn.dims<B, T, 12, 32>>,
           tensor<?x?x12x32xf16, #nn.dims<B, T, 12, 32>>)
        -> tensor<?x12x?x32xf16, #nn.dims<B, 12, L, 32>>
      func.return
    } }"""
    module = Parser(make_context(), text).parse_module()
    op = next(op for op in module.walk() if isinstance(op, AttentionOp))
    found = [f"{s.name} {s.element} {' '.join(map(str, s.dims))}" for s in attention_scratch(op)]
    assert found == ["queries f32 openinfer.threads 32 32", "scores f32 openinfer.threads T 32"]


def test_missing_scratch_is_told():
    kind = "memref<1x1x4x8xf32>"
    text = f"""func.func @f(%q: {kind}, %o: {kind}) {{
      nn.attention(%q, %q, %q) outs(%o)
        {{scale = 1.0 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]}}
        : ({kind}, {kind}, {kind}, {kind}) -> ()
      func.return
    }}"""
    context = make_context()
    module = Parser(context, text).parse_module()
    with pytest.raises(CompileError, match="OI0955"):
        LowerKernels().apply(context, module)
