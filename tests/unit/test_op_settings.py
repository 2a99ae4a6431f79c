"""Every setting of every op that language.md names, on both executors; they agree.

`OPENINFER_CASES=full` runs all dtypes and all ops with each pair of dtypes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import value_range
from openinfer.runtime.tensors import Tensor
from tests.sweeps import FULL

INTS = ("i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "i4", "u4", "i2", "u2", "i1", "u1")
FLOATS = ("f32", "f64", "f16", "bf16", "f8")
WITH_SETTINGS = (*INTS, *FLOATS) if FULL else ("i64", "i8", "u64", "u8", "i4", "i1", "f32", "bf16")
TOLERANCES = {"f64": 1e-12, "f32": 2e-5, "f16": 4e-3, "bf16": 3e-2, "f8": 0.3}


def drawn(dtype: str, shape: Sequence[int], seed: int = 0, *, mild: bool = False) -> Tensor:
    """Of integers limits, zeros and ones; of floats normal numbers, and zeros unless `mild`."""
    random = np.random.default_rng([seed, *shape])
    row = DTYPES[dtype]
    if row.kind == "bool":
        return Tensor.from_values(dtype, random.random(shape) < 0.5)
    if row.is_float:
        values = random.standard_normal(shape) * 2
        return Tensor.from_values(dtype, values if mild else np.where(values > 2, 0.0, values))
    bounds = value_range(row)
    assert bounds is not None
    low, high = bounds
    wanted = {n for n in (low, high, high // 2, -1, 0, 1, 2, 3) if low <= n <= high}
    choices = np.array(sorted(wanted), row.value)
    return Tensor.from_values(dtype, choices[random.integers(0, len(choices), shape)])


def declared(variables: dict[str, tuple[str, tuple[int, ...]]]) -> str:
    return " ".join(f"{n}: {d}{list(s) if s else ''};" for n, (d, s) in variables.items())


class Program:
    """Ops on given inputs, collected into one program so that it is compiled once."""

    def __init__(self, **inputs: Tensor) -> None:
        self.inputs = inputs
        self.outputs: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.lines: list[str] = []
        self.exact: dict[str, bool] = {}

    def op(
        self, use: str, dtype: str, shape: Sequence[int], count: int = 1, *, exact: bool = True
    ) -> None:
        """One op whose outputs, `count` of them, are all of one type."""
        names = [f"r{len(self.outputs) + i}" for i in range(count)]
        for name in names:
            self.outputs[name] = (dtype, tuple(shape))
            self.exact[name] = exact
        self.lines.append(f"op {use} >> {', '.join(names)};")

    def check(self, accuracy: str | None = None) -> dict[str, Any]:
        """Runs both; results that are not exact are as good as their dtype, or as `accuracy`."""
        shown = {n: (t.dtype.name, tuple(t.shape)) for n, t in self.inputs.items()}
        text = (
            f"dynamic {{ {declared(shown)} }}\nvolatile {{ {declared(self.outputs)} }}\n"
            "block entry {\n" + "\n".join(self.lines) + "\nreturn;\n}\n"
        )
        graph = oi.graph(text)
        expected = oi.Simulator(graph).make_executor().run(**self.inputs)
        found = oi.compile(graph).make_executor().run(**self.inputs)
        for (name, (dtype, _)), line in zip(self.outputs.items(), self._lines_of_outputs()):
            left, right = (
                v.values() if isinstance(v, Tensor) else np.asarray(v)
                for v in (found[name], expected[name])
            )
            if self.exact[name]:
                np.testing.assert_array_equal(left, right, err_msg=line)
            else:
                limit = max(TOLERANCES[dtype], TOLERANCES[accuracy or dtype])
                np.testing.assert_allclose(left, right, limit, limit, err_msg=line)
        return expected

    def _lines_of_outputs(self) -> list[str]:
        return [line for line in self.lines for _ in line.rpartition(">>")[2].split(",")]


# Accumulation -------------------------------------------------------------------------------------

_SIGNED = [
    *((narrow, wide) for narrow in ("i1", "i2", "i4") for wide in ("i8", "i16", "i32", "i64")),
    *(("i8", w) for w in ("i16", "i32", "i64")), ("i16", "i32"), ("i16", "i64"), ("i32", "i64"),
]  # fmt: skip
PAIRS = [*_SIGNED, *((a.replace("i", "u"), b.replace("i", "u")) for a, b in _SIGNED)]


def test_there_are_36_pairs() -> None:
    assert len(set(PAIRS)) == 36


@pytest.mark.parametrize(("source", "wide"), PAIRS)
def test_integers_accumulate_in_a_wider_one(source: str, wide: str) -> None:
    p = Program(x=drawn(source, (5, 11)), y=drawn(source, (5, 11), 1), m=drawn(source, (11, 3)))
    number = PAIRS.index((source, wide))
    uses: list[tuple[str, tuple[int, ...]]] = [
        (f"{op}(x, y, acc={wide})", (5, 11)) for op in ("add", "sub", "mul")
    ]
    uses.append((f"matmul(x, m, acc={wide})", (5, 3)))
    for op in ("sum_axis", "mean_axis", "prod_axis"):
        uses.append((f"{op}(x, axes=[-1], acc={wide})", (5,)))
    # By turns, so that each op meets many pairs.
    for place, (use, shape) in enumerate(uses):
        if FULL or (place + number) % 3 == 0:
            p.op(use, wide, shape)
    if source[0] == "i":
        p.op(f"abs(x, acc=[{wide}, {wide}])", wide, (5, 11))
    p.check()


LISTS = [("i32", "i32"), ("i32", "i64"), ("i64", "i64"), ("i64", "i32"), ("i32", "i16")]


@pytest.mark.parametrize(("inner", "result"), LISTS)
@pytest.mark.parametrize("sign", ["i", "u"])
def test_an_accumulator_and_another_result(inner: str, result: str, sign: str) -> None:
    """The accumulator wraps, also where the result is wider."""
    inner, result = inner.replace("i", sign), result.replace("i", sign)
    for source in (f"{sign}8", f"{sign}32"):
        p = Program(x=drawn(source, (5, 11)), m=drawn(source, (11, 3)))
        acc = f"acc=[{inner}, {result}]"
        p.op(f"matmul(x, m, {acc})", result, (5, 3))
        for op in ("sum_axis", "prod_axis", "mean_axis"):
            p.op(f"{op}(x, axes=1, {acc})", result, (5,))
        for real in ("f32", "f64"):
            p.op(f"mean_axis(x, axes=[1], acc=[{inner}, {real}])", real, (5,), exact=False)
        p.check()


def test_a_wrapping_accumulator_shows() -> None:
    p = Program(x=Tensor.from_values("i32", np.full((1, 4), 2**30, np.int32)))
    p.op("sum_axis(x, axes=[1], acc=[i32, i64])", "i64", (1,))
    p.op("sum_axis(x, axes=[1], acc=[i64, i64])", "i64", (1,))
    found = p.check()
    assert found["r0"].tolist() == [0]
    assert found["r1"].tolist() == [2**32]


@pytest.mark.parametrize("source", ["f32", "f16", "bf16", "f64"])
@pytest.mark.parametrize(("inner", "result"), [("f32", "f32"), ("f32", "f64"), ("f64", "f64"),
                                               ("f64", "f32"), ("f32", "f16")])  # fmt: skip
def test_floats_accumulate_in_a_wider_one(source: str, inner: str, result: str) -> None:
    if (source, inner) == ("f64", "f32"):
        pytest.skip("an accumulator is not narrower than the operands")
    p = Program(x=drawn(source, (5, 11), mild=True), m=drawn(source, (11, 3), mild=True))
    acc = f"acc=[{inner}, {result}]"
    p.op(f"matmul(x, m, {acc})", result, (5, 3), exact=False)
    for op in ("sum_axis", "mean_axis"):
        p.op(f"{op}(x, axes=[1], {acc})", result, (5,), exact=False)
    # What an f32 accumulator gives is not better than f32.
    p.check(inner)


def test_f64_accumulates_in_f64() -> None:
    """1 + 2**-30 is lost in f32."""
    x = np.array([[1, 2.0**-30]], np.float32)
    p = Program(x=Tensor.from_values("f32", x), m=Tensor.from_values("f32", np.ones((2, 1))))
    p.op("matmul(x, m, acc=[f64, f64])", "f64", (1, 1))
    p.op("sum_axis(x, axes=[1], acc=f64)", "f64", (1,))
    p.op("matmul(x, m, acc=[f32, f64])", "f64", (1, 1))
    found = p.check()
    assert found["r0"].item() == found["r1"].item() == 1 + 2.0**-30
    assert found["r2"].item() == 1


# Elementwise settings -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", WITH_SETTINGS)
def test_elementwise_settings(dtype: str) -> None:
    row, shape = DTYPES[dtype], (29,)
    zeros = Tensor.from_values(
        dtype, np.array([0, 1, 0] * 9 + [0, 0]) * (1 if dtype != "i1" else -1)
    )
    p = Program(x=drawn(dtype, shape), y=zeros)
    bounds = value_range(row)
    if row.is_float:
        masks = ["7", "-3.5", "inf", "-inf", "nan", "0.1"]
        limits = ["min=-0.5", "max=0.5", "min=-inf, max=inf", "min=1, max=-1", "max=nan"]
        slopes = ["0.1", "0", "1", "-0.5", "inf", "nan"]
        clamps = ["clamp_max=inf", "clamp_min=-inf, clamp_max=1", "clamp_min=0.25", "clamp_max=nan"]
        values = ["0", "1.5", "-2", "inf", "-inf", "nan", "1e-45", "70000", "1e300"]
    else:
        assert bounds is not None
        low, high = bounds
        # A literal is a signed integer of 64 bits.
        high = min(high, 2**63 - 1)
        masks = [str(low), str(high), "0"]
        limits = ["max=1", f"min={high}", f"min={max(low, -1)}, max={high}", "max=1000000"]
        slopes, clamps = ["0", "1", "3", "300"], ["clamp_max=1", "clamp_min=0, clamp_max=1"]
        if low < 0:
            limits += ["min=-2", "min=-inf", "max=inf", "min=-1000, max=-1"]
            slopes, clamps = [*slopes, "-1", "2.0"], [*clamps, "clamp_min=-2"]
        values = [str(low), str(high), "0"]
        for places in (0, 1, row.bits - 1, row.bits, 63, 64, 65, 2**40):
            if row.bits > 1:
                p.op(f"shl(x, bits={places})", dtype, shape)
                p.op(f"shr(x, bits={places})", dtype, shape)
        if row.bits > 1:
            p.op("popcount(x)", "u8", shape)
    for mask in masks:
        for op in ("div",) if row.is_float else ("div", "floor_div"):
            p.op(f"{op}(x, y, div_by_zero_mask={mask})", dtype, shape)
        if row.is_float:
            p.op(f"recip(y, div_by_zero_mask={mask})", dtype, shape)
    for limit in ("", *(f", {limit}" for limit in limits)):
        p.op(f"clamp(x{limit})", dtype, shape)
    if row.kind != "uint":
        for slope in slopes:
            p.op(f"relu(x, negative_slope={slope})", dtype, shape)
            p.op(f"relu(x, alpha={slope}, {clamps[0]})", dtype, shape)
        for clamp in clamps:
            p.op(f"relu(x, {clamp})", dtype, shape)
    for value in values:
        p.op(f"fill(x, value={value})", dtype, shape)
        if row.is_float:
            p.op(f"fill_nan_like(x, value={value})", dtype, shape)
    if row.is_float:
        p.op("fill_nan_like(x)", dtype, shape)
    p.check()


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, "f8e4m3"])
def test_iota(dtype: str) -> None:
    p = Program(x=drawn("f32", (1,)))
    p.op("fill(x, value=0)", "f32", (1,))
    for settings in ("start=3, step=-2", "start=200, step=100", "axis=0", "axis=-2, start=1"):
        p.op(f"iota(shape=[3, 5], dtype={dtype}, {settings})", dtype, (3, 5))
    p.check()


@pytest.mark.parametrize("mode", ["trunc", "floor", "ceil", "nearest", "even"])
@pytest.mark.parametrize("saturate", ["true", "false"])
def test_rounding_modes(mode: str, saturate: str) -> None:
    values = [
        0.5,
        1.5,
        2.5,
        -0.5,
        -1.5,
        126.5,
        127.5,
        -128.5,
        255.5,
        3e9,
        -3e9,
        1e20,
        np.nan,
        np.inf,
    ]
    p = Program(x=Tensor.from_values("f32", np.array(values)), h=Tensor.from_values("f64", values))
    for target in ("i8", "u8", "i32", "u32", "i64", "u64", "i4", "u2"):
        for source in ("x", "h"):
            use = f'cast({source}, to={target}, rounding_mode="{mode}", saturate={saturate})'
            p.op(use, target, (len(values),))
    p.check()


# Axes ---------------------------------------------------------------------------------------------

AXES = [("axes=[-1]", (2,)), ("axes=[0, -1]", (0, 2)), ("axis=1", (1,)), ("dims=[0, 1, 2]", (0, 1, 2)),
        ("axes=[-1, 2]", (2,)), ("axes=1", (1,)), ("axes=[-3]", (0,))]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "i4", *(["f16", "i32", "u8"] if FULL else [])])
def test_axes(dtype: str) -> None:
    shape = (3, 4, 5)
    p = Program(x=drawn(dtype, shape, mild=True))
    for text, axes in AXES:
        for keep in ("", "keepdims=true", "keepdim=1", "keepdims=false"):
            kept = [1 if i in axes else n for i, n in enumerate(shape)]
            left = kept if keep in ("keepdims=true", "keepdim=1") else [
                n for i, n in enumerate(shape) if i not in axes
            ]  # fmt: skip
            more = f", {keep}" if keep else ""
            for op in ("sum_axis", "mean_axis", "max_axis", "min_axis"):
                exact = op in ("max_axis", "min_axis") or dtype not in FLOATS
                p.op(f"{op}(x, {text}{more})", dtype, left, exact=exact)
            if len(axes) == 1 and "axes" not in text and "dims" not in text:
                for op in ("argmax_axis", "argmin_axis"):
                    for which in ("", ", select_first=true", ", select_first=false"):
                        p.op(f"{op}(x, {text}{more}{which})", "i64", left)
    p.check()


@pytest.mark.parametrize("dtype", ["u8", "u16", "u64", "i8", "f32", "bf16", "u4"])
def test_the_place_of_an_extreme(dtype: str) -> None:
    """Unsigned integers above the half of their range are large, not negative."""
    p = Program(x=drawn(dtype, (6, 40)))
    for op in ("argmax_axis", "argmin_axis"):
        for first in ("true", "false"):
            p.op(f"{op}(x, axis=1, select_first={first})", "i64", (6,))
            p.op(f"{op}(x, dim=0, select_first={first}, keepdims=true)", "i64", (1, 40))
    p.check()


def test_splits_and_aliases() -> None:
    p = Program(
        x=drawn("f32", (4, 9)), c=drawn("bool", (4, 9)), t=drawn("f32", (7, 3)),
        i=Tensor.from_values("u8", np.array([0, 6, 3, 3])),
    )  # fmt: skip
    p.op("split(x, axis=-1)", "f32", (4, 3), 3)
    p.op("split(x, dim=0)", "f16", (2, 9), 2)
    p.op("split(x, axis=1, sizes=[9])", "f32", (4, 9))
    p.op("embedding(t, i)", "f32", (4, 3))
    p.op("gather(t, i, dim=-2)", "bf16", (4, 3))
    p.op("select(c, x, x)", "f32", (4, 9))
    p.op("filter(x, x, c)", "f32", (4, 9))
    p.op("swish(x)", "f32", (4, 9), exact=False)
    p.op("permute(x, dims=[1, 0])", "f32", (9, 4))
    p.op("transpose(x, order=[1, 0])", "f32", (9, 4))
    p.op("slice(x, dim=1, start=-4, end=-1)", "f32", (4, 3))
    p.op("slice(x, starts=[1, -6], ends=[3, -1], steps=[1, 2])", "f32", (2, 3))
    p.op("softmax(x, dim=0)", "f32", (4, 9), exact=False)
    p.op("layer_norm(x, epsilon=0.1)", "f32", (4, 9), exact=False)
    p.op("cast(x, dtype=i8)", "i8", (4, 9))
    p.check()


# Attention ----------------------------------------------------------------------------------------

SETTINGS = ("", "scale=0.3", "scale=0", "causal=true", "window=2", "is_causal=true, window=3")
SHAPES = {
    "equal heads": ((2, 4, 5, 8), (2, 4, 5, 8), (2, 4, 5, 8)),
    "grouped heads": ((2, 4, 3, 8), (2, 2, 7, 8), (2, 2, 7, 6)),
    "one head of keys": ((2, 4, 3, 8), (2, 1, 7, 8), (2, 1, 7, 8)),
    "more queries than keys": ((2, 4, 9, 8), (2, 4, 3, 8), (2, 4, 3, 8)),
    "no batch": ((4, 9, 8), (2, 3, 8), (2, 3, 8)),
    "no heads": ((9, 8), (3, 8), (3, 8)),
    "two batches": ((2, 2, 4, 5, 8), (2, 2, 4, 5, 8), (2, 2, 4, 5, 8)),
    "split, many keys": ((3, 8), (5, 2, 4), (5, 2, 4)),
    "split, one key": ((3, 8), (2, 4), (2, 4)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_attention(name: str) -> None:
    q, k, v = SHAPES[name]
    p = Program(q=drawn("f32", q, 1, mild=True), k=drawn("f32", k, 2, mild=True),
                v=drawn("f32", v, 3, mild=True), w=drawn("f32", (q[-1], q[-1]), 4, mild=True))  # fmt: skip
    result = q if name.startswith("split") else (*q[:-1], v[-1])
    for number, settings in enumerate(SETTINGS):
        op = ("attention", "attn", "sdpa")[number % 3]
        more = f", {settings}" if settings else ""
        p.op(f"{op}(q, k, v{more})", "f32", result, exact=False)
        if name.startswith("split"):
            p.op(f"{op}(q, k, v, w{more})", "f32", result, exact=False)
    p.check()


@pytest.mark.parametrize("mask", [(5, 5), (1, 5), (2, 1, 1, 5), (4, 5, 5), (2, 4, 5, 5), (5, 1)])
def test_masks(mask: tuple[int, ...]) -> None:
    x = [drawn("f32", (2, 4, 5, 8), n, mild=True) for n in range(3)]
    p = Program(q=x[0], k=x[1], v=x[2], m=drawn("f32", mask, mild=True), b=drawn("bool", mask))
    p.op("attention(q, k, v, m)", "f32", (2, 4, 5, 8), exact=False)
    p.op("attention(q, k, v, b, causal=true)", "f32", (2, 4, 5, 8), exact=False)
    p.op("attention(q, k, v, m, window=2, scale=0.5)", "f32", (2, 4, 5, 8), exact=False)
    p.check()


MIXTURES = [("f16", "f32", "bf16"), ("f32", "bf16", "bf16"), ("bf16", "f32", "f32"),
            ("f64", "f32", "f32"), ("f32", "f64", "f32"), ("f32", "f32", "f64")]  # fmt: skip


@pytest.mark.parametrize("dtypes", MIXTURES)
def test_mixed_floats(dtypes: tuple[str, str, str]) -> None:
    """They compute in f32, or in f64 where q is that, and round once."""
    shape = (2, 4, 5, 8)
    x = [drawn(d, shape, n, mild=True) for n, d in enumerate(dtypes)]
    w = drawn(dtypes[1], (8, 8), 7, mild=True)
    s = [drawn(d, (3, 8) if n == 0 else (5, 2, 4), n, mild=True) for n, d in enumerate(dtypes)]
    p = Program(q=x[0], k=x[1], v=x[2], a=s[0], b=s[1], c=s[2], w=w)
    result = dtypes[0] if dtypes[0] != "f64" else "f32"
    p.op("attention(q, k, v, causal=true)", result, shape, exact=False)
    p.op("attention(q, k, v)", "f32", shape, exact=False)
    p.op("attention(a, b, c, w)", result, (3, 8), exact=False)
    p.check()


def test_lengths_that_only_the_run_knows() -> None:
    text = """dynamic { q: f32[B, 4, L, 8]; k: f32[B, 2, T, 8]; v: f32[B, 2, T, 8]; }
        volatile { z: f32[B, 4, L, 8]; }
        block entry { op attention(q, k, v, causal=true, window=3) >> z; return; }"""
    graph = oi.graph(text)
    program = oi.compile(graph)
    for batch, queries, keys in ((2, 3, 7), (1, 1, 1), (3, 5, 5), (1, 0, 4), (0, 3, 3)):
        given = {
            "q": drawn("f32", (batch, 4, queries, 8), mild=True),
            "k": drawn("f32", (batch, 2, keys, 8), mild=True),
            "v": drawn("f32", (batch, 2, keys, 8), 1, mild=True),
        }
        expected = oi.Simulator(graph).make_executor().run(**given)["z"]
        found = program.make_executor().run(**given)["z"]
        np.testing.assert_allclose(found, expected, 2e-5, 2e-5)
