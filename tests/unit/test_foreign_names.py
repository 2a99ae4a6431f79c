"""Names of other frameworks: what the table tells to write is a program that does what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import openinfer as oi
from openinfer.dialects import opset
from openinfer.dialects.foreign_ops import ROWS, ForeignOp, fold, foreign_op
from openinfer.dialects.foreign_settings import ADVICE, NAMES, foreign_setting
from openinfer.runtime.errors import ProgramError


class Case(NamedTuple):
    """How a row is run: types of the operands, of results and temporaries, and what NumPy gives."""

    operands: str
    results: str
    numpy: Callable[..., Any]
    temporaries: str = ""


def erf(x: Any) -> Any:
    import math

    return np.vectorize(math.erf)(x)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normalised(x: Any, axes: Any) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def channels(v: Any) -> Any:
    return v[:, None, None]


def convolved(x: Any, w: Any) -> Any:
    p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(p, w.shape[2:], (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w)


def transposed(x: Any, w: Any) -> Any:
    y = np.zeros((1, w.shape[1], 8, 8))
    for i in range(4):
        for j in range(4):
            y[:, :, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2] += np.einsum(
                "nc,coij->noij", x[:, :, i, j], w
            )
    return y


def windows(x: Any) -> Any:
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2)


def rotated(x: Any) -> Any:
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[-2])[:, None] / 10000 ** (np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate(
        [a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1
    )


def attended(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v


def attended_by_two(q: Any, k: Any, v: Any) -> Any:
    halves = (slice(0, 4), slice(4, 8))
    return np.concatenate([attended(q[:, s], k[:, s], v[:, s]) for s in halves], -1)


def added_at(x: Any, i: Any, u: Any) -> Any:
    y = x.copy()
    np.add.at(y, i, u)
    return y


def put_at(x: Any, i: Any, u: Any) -> Any:
    y = x.copy()
    np.put_along_axis(y, i.astype(int), u, 0)
    return y


def shuffled(x: Any) -> Any:
    return x.reshape(1, 1, 2, 2, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(1, 1, 4, 4)


A, I32, B = "x: f32[4, 3]", "x: i32[4, 3]", "x: bool[4, 3]"
AA, II, BB = f"{A}; z: f32[4, 3]", f"{I32}; z: i32[4, 3]", f"{B}; z: bool[4, 3]"
Y, YI, YB = "y: f32[4, 3]", "y: i32[4, 3]", "y: bool[4, 3]"
IMAGE = "x: f32[1, 4, 4, 4]"
SAME = "f32[4, 3]"

CASES: dict[str, Case] = {
    "multiply": Case(AA, Y, np.multiply),
    "subtract": Case(AA, Y, np.subtract),
    "divide": Case(AA, Y, np.divide),
    "floordivide": Case(II, YI, np.floor_divide),
    "fmod": Case(II, YI, np.fmod),
    "remainder": Case(II, YI, np.remainder),
    "power": Case(AA, Y, np.power),
    "square": Case(A, Y, np.square),
    "maximum": Case(AA, Y, np.maximum),
    "minimum": Case(AA, Y, np.minimum),
    "negative": Case(A, Y, np.negative),
    "absolute": Case(A, Y, np.absolute),
    "reciprocal": Case(A, Y, np.reciprocal),
    "clip": Case(A, Y, lambda x: np.clip(x, -1, 1)),
    "rint": Case(A, Y, np.rint),
    "exp2": Case(A, Y, np.exp2, f"t: {SAME}"),
    "log2": Case(A, Y, np.log2, f"t: {SAME}"),
    "log10": Case(A, Y, np.log10, f"t: {SAME}"),
    "arctan": Case(A, Y, np.arctan),
    "arcsin": Case(A, Y, np.arcsin),
    "arccos": Case(A, Y, np.arccos),
    "arcsinh": Case(A, Y, np.arcsinh),
    "arccosh": Case(A, Y, np.arccosh),
    "arctanh": Case(A, Y, np.arctanh),
    "arctan2": Case(AA, Y, np.arctan2),
    "erfc": Case(A, Y, lambda x: 1 - erf(x), f"t: {SAME}"),
    "lerp": Case(f"{AA}; w: f32", Y, lambda x, z, w: x + (z - x) * w, f"d: {SAME}; p: {SAME}"),
    "addcmul": Case(f"{AA}; w: f32[4, 3]", Y, lambda x, z, w: x + z * w, f"t: {SAME}"),
    "equal": Case(II, YB, np.equal),
    "notequal": Case(II, YB, np.not_equal),
    "less": Case(AA, YB, np.less),
    "lessequal": Case(II, YB, np.less_equal),
    "greater": Case(AA, YB, np.greater),
    "greaterequal": Case(II, YB, np.greater_equal),
    "logicaland": Case(BB, YB, np.logical_and),
    "logicalor": Case(BB, YB, np.logical_or),
    "logicalxor": Case(BB, YB, np.logical_xor),
    "logicalnot": Case(B, YB, np.logical_not),
    "leftshift": Case(I32, YI, lambda x: x << 2),
    "rightshift": Case(I32, YI, lambda x: x >> 2),
    "isnan": Case(A, YB, np.isnan),
    "isinf": Case(A, YB, np.isinf),
    "isfinite": Case(A, "y: bool", lambda x: np.isfinite(x).all()),
    "signbit": Case(A, YB, np.signbit),
    "maskedfill": Case(f"{A}; m: bool[4, 3]", Y, lambda x, m: np.where(m, np.float32(-np.inf), x)),
    "sum": Case(A, "y: f32[3]", lambda x: x.sum(0)),
    "mean": Case(A, "y: f32[3]", lambda x: x.mean(0)),
    "prod": Case(A, "y: f32[3]", lambda x: x.prod(0)),
    "amax": Case(A, "y: f32[3]", lambda x: x.max(0)),
    "amin": Case(A, "y: f32[3]", lambda x: x.min(0)),
    "argmax": Case(A, "y: i64[3]", lambda x: x.argmax(0)),
    "argmin": Case(A, "y: i64[3]", lambda x: x.argmin(0)),
    "variance": Case(A, "y: f32[3]", lambda x: x.var(0, ddof=1)),
    "standarddeviation": Case(A, "y: f32[3]", lambda x: x.std(0, ddof=1)),
    "norm": Case(A, "y: f32[3]", lambda x: np.linalg.norm(x, axis=0), f"s: {SAME}; t: f32[3]"),
    "reducel1": Case(A, "y: f32[3]", lambda x: np.abs(x).sum(0), f"t: {SAME}"),
    "reducesumsquare": Case(A, "y: f32[3]", lambda x: (x * x).sum(0), f"t: {SAME}"),
    "reducelogsumexp": Case(A, "y: f32[3]", lambda x: np.log(np.exp(x).sum(0))),
    "normalize": Case(
        A,
        Y,
        lambda x: x / np.linalg.norm(x, axis=0),
        f"s: {SAME}; t: f32[1, 3]; n: f32[1, 3]",
    ),
    "dense": Case(f"{A}; w: f32[2, 3]; b: f32[2]", "y: f32[4, 2]", lambda x, w, b: x @ w.T + b),
    "gemm": Case(
        f"{A}; w: f32[3, 2]; b: f32[2]", "y: f32[4, 2]", lambda x, w, b: x @ w + b, "t: f32[4, 2]"
    ),
    "bmm": Case("x: f32[2, 4, 3]; w: f32[2, 3, 5]", "y: f32[2, 4, 5]", np.matmul),
    "mv": Case(f"{A}; w: f32[3]", "y: f32[4]", np.matmul, "c: f32[3, 1]; t: f32[4, 1]"),
    "tensordot": Case(
        f"{A}; w: f32[4, 2]", "y: f32[3, 2]", lambda x, w: np.tensordot(x, w, (0, 0))
    ),
    "outer": Case("x: f32[4]; w: f32[3]", Y, np.outer, "c: f32[4, 1]"),
    "view": Case("x: f32[2, 6]", Y, lambda x: x.reshape(4, 3)),
    "flatten": Case(A, "y: f32[12]", np.ravel),
    "t": Case(A, "y: f32[3, 4]", np.transpose),
    "swapaxes": Case(A, "y: f32[3, 4]", lambda x: x.swapaxes(0, 1)),
    "cat": Case(AA, "y: f32[8, 3]", lambda x, z: np.concatenate([x, z])),
    "chunk": Case(A, "y: f32[2, 3]; z: f32[2, 3]", lambda x: np.split(x, 2)),
    "unbind": Case(
        "x: f32[2, 3]", "y: f32[3]; z: f32[3]", lambda x: [x[0], x[1]], "a: f32[1, 3]; b: f32[1, 3]"
    ),
    "narrow": Case(A, "y: f32[2, 3]", lambda x: x[1:3]),
    "repeat": Case(A, "y: f32[8, 3]", lambda x: np.tile(x, (2, 1))),
    "repeatinterleave": Case(
        "x: f32[4]", "y: f32[8]", lambda x: np.repeat(x, 2), "a: f32[4, 1]; b: f32[4, 2]"
    ),
    "broadcastto": Case("x: f32[1, 3]", Y, lambda x: np.broadcast_to(x, (4, 3))),
    "expanddims": Case(A, "y: f32[1, 4, 3]", lambda x: x[None]),
    "fliplr": Case(A, Y, np.fliplr),
    "depthtospace": Case(
        "x: f32[1, 4, 2, 2]",
        "y: f32[1, 1, 4, 4]",
        shuffled,
        "a: f32[1, 1, 2, 2, 2, 2]; b: f32[1, 1, 2, 2, 2, 2]",
    ),
    "indexselect": Case(f"{A}; i: u8[2]", "y: f32[2, 3]", lambda x, i: x[i]),
    "indexadd": Case(f"{A}; i: u8[2]; u: f32[2, 3]", Y, added_at),
    "gatherelements": Case(
        f"{A}; i: u8[2, 3]", "y: f32[2, 3]", lambda x, i: np.take_along_axis(x, i.astype(int), 0)
    ),
    "scatterelements": Case(f"{A}; i: u8[1, 3]; u: f32[1, 3]", Y, put_at),
    "trilu": Case("x: f32[3, 3]", "y: f32[3, 3]", np.triu),
    "arange": Case("", "y: i64[4]", lambda: np.arange(2, 14, 3)),
    "linspace": Case("", "y: f32[5]", lambda: np.linspace(0, 1, 5), "t: f32[5]"),
    "zeros": Case("", Y, lambda: np.zeros((4, 3))),
    "ones": Case("", Y, lambda: np.ones((4, 3))),
    "full": Case("", Y, lambda: np.full((4, 3), 0.5)),
    "eye": Case("", "y: f32[3, 3]", lambda: np.eye(3), "i: i64[3, 3]; j: i64[3, 3]; m: bool[3, 3]"),
    "leakyrelu": Case(A, Y, lambda x: np.where(x >= 0, x, 0.01 * x)),
    "relu6": Case(A, Y, lambda x: np.clip(x, 0, 6)),
    "hardsigmoid": Case(A, Y, lambda x: np.clip(x / 6 + 0.5, 0, 1), f"t: {SAME}; u: {SAME}"),
    "logsigmoid": Case(A, Y, lambda x: np.log(sigmoid(x)), f"n: {SAME}; s: {SAME}"),
    "softsign": Case(A, Y, lambda x: x / (1 + np.abs(x)), f"a: {SAME}; t: {SAME}"),
    "glu": Case(
        "x: f32[4, 6]",
        Y,
        lambda x: x[:, :3] * sigmoid(x[:, 3:]),
        f"a: {SAME}; g: {SAME}; s: {SAME}",
    ),
    "swiglu": Case(
        "x: f32[4, 6]",
        Y,
        lambda x: x[:, :3] * sigmoid(x[:, :3]) * x[:, 3:],
        f"a: {SAME}; g: {SAME}; s: {SAME}",
    ),
    "gelunew": Case(
        A, Y, lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    ),
    "quickgelu": Case(A, Y, lambda x: x * sigmoid(1.702 * x), f"t: {SAME}; s: {SAME}"),
    "layernormalization": Case(
        f"{A}; w: f32[3]; b: f32[3]", Y, lambda x, w, b: normalised(x, -1) * w + b
    ),
    "rmsnormalization": Case(
        f"{A}; w: f32[3]",
        Y,
        lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w,
    ),
    "batchnormalization": Case(
        f"{IMAGE}; mean: f32[4]; variance: f32[4]; w: f32[4]; b: f32[4]",
        "y: f32[1, 4, 4, 4]",
        lambda x, m, v, w, b: (
            (x - channels(m)) / np.sqrt(channels(v) + 1e-5) * channels(w) + channels(b)
        ),
    ),
    "groupnormalization": Case(
        f"{IMAGE}; w: f32[4]; b: f32[4]",
        "y: f32[1, 4, 4, 4]",
        lambda x, w, b: (
            normalised(x.reshape(1, 2, 2, 4, 4), (2, 3, 4)).reshape(x.shape) * channels(w)
            + channels(b)
        ),
    ),
    "instancenorm": Case(IMAGE, "y: f32[1, 4, 4, 4]", lambda x: normalised(x, (2, 3))),
    "mulmatid": Case(
        "x: f32[4, 3]; w: f32[9, 5, 3]; experts: i32[4, 2]",
        "y: f32[4, 2, 5]",
        lambda x, w, experts: np.einsum("tk,tsnk->tsn", x, w[experts]),
    ),
    "multiheadattention": Case(
        "x: f32[3, 8]; k: f32[5, 8]; v: f32[5, 8]", "y: f32[3, 8]", attended_by_two
    ),
    "scaleddotproductattention": Case(
        "q: f32[2, 4, 3]; k: f32[2, 5, 3]; v: f32[2, 5, 3]", "y: f32[2, 4, 3]", attended
    ),
    "rotaryembedding": Case("x: f32[1, 2, 4, 6]", "y: f32[1, 2, 4, 6]", rotated),
    "conv": Case(f"{IMAGE}; w: f32[2, 4, 3, 3]", "y: f32[1, 2, 4, 4]", convolved),
    "convtranspose": Case(f"{IMAGE}; w: f32[4, 2, 2, 2]", "y: f32[1, 2, 8, 8]", transposed),
    "maxpool": Case(IMAGE, "y: f32[1, 4, 2, 2]", lambda x: windows(x).max((3, 5))),
    "avgpool": Case(IMAGE, "y: f32[1, 4, 2, 2]", lambda x: windows(x).mean((3, 5))),
    "lppool": Case(IMAGE, "y: f32[1, 4, 2, 2]", lambda x: np.sqrt((windows(x) ** 2).sum((3, 5)))),
    "globalaveragepool": Case(IMAGE, "y: f32[1, 4, 1, 1]", lambda x: x.mean((2, 3), keepdims=True)),
    "globalmaxpool": Case(IMAGE, "y: f32[1, 4, 1, 1]", lambda x: x.max((2, 3), keepdims=True)),
    "interpolate": Case(
        IMAGE, "y: f32[1, 4, 8, 8]", lambda x: x.repeat(2, axis=2).repeat(2, axis=3)
    ),
    "astype": Case(A, "y: f16[4, 3]", lambda x: x.astype(np.float16)),
    "quantizelinear": Case(A, "y: i8[4, 3]", lambda x: np.rint(x / 0.5)),
    "dequantizelinear": Case("x: i8[4, 3]", Y, lambda x: x * 0.5),
    "clone": Case(A, Y, np.copy),
}


def drawn(declaration: str) -> tuple[str, np.ndarray[Any, Any]]:
    """A name and positive values for it: floats in 0.5..2.5 without ties, integers from 1, bools."""
    name, _, kind = declaration.partition(": ")
    dtype, _, dims = kind.partition("[")
    shape = tuple(int(d) for d in dims.rstrip("]").split(",")) if dims else ()
    generator = np.random.default_rng(sum(map(ord, name)))
    if dtype == "bool":
        return name, generator.random(shape) < 0.5
    if dtype == "f32":
        return name, (generator.random(shape) * 2 + 0.5).astype(np.float32)
    highest = 3 if name == "i" else 9
    return name, generator.integers(1, highest, shape).astype(
        {"u8": np.uint8, "i8": np.int8, "i32": np.int32}[dtype]
    )


def program(row: ForeignOp, case: Case) -> str:
    assigns = [f"assign {one};" for one in case.temporaries.split("; ") if one]
    dynamic = f"dynamic {{ {case.operands}; }}" if case.operands else ""
    return "\n".join(
        [
            dynamic,
            f"volatile {{ {case.results}; }}",
            "block entry {",
            *assigns,
            *(row.write, "return;", "}"),
        ]
    )


WRITTEN = [row for row in ROWS if row.write]
COMPARED = [row for row in WRITTEN if "rand" not in row.names]
"""Those with an answer of NumPy's."""


@pytest.mark.parametrize("row", COMPARED, ids=lambda row: row.names[0])
def test_what_the_table_writes_does_what_the_name_means(row: ForeignOp) -> None:
    case = CASES[row.names[0]]
    inputs = dict(drawn(one) for one in case.operands.split("; ") if one)
    if row.names[0] in (
        "subtract",
        "less",
        "greater",
        "clip",
        "relu6",
        "leakyrelu",
    ):
        inputs["x"] = inputs["x"] - np.float32(1.5)  # Both signs.
    if row.names[0] in ("remainder", "fmod"):
        inputs["x"] = inputs["x"] - np.int32(5)
    with np.errstate(invalid="ignore"):
        wanted = case.numpy(*inputs.values())
    names = [one.partition(":")[0] for one in case.results.split("; ")]
    with oi.Simulator(program(row, case)).make_executor() as executor:
        executor.insert(**inputs)
        executor.step()
        found = [np.asarray(executor.fetch(name)) for name in names]
    for have, want in zip(found, wanted if len(names) > 1 else [wanted], strict=True):
        assert have.shape == np.shape(want)
        np.testing.assert_allclose(have.astype(np.float64), want, rtol=2e-6, atol=2e-6)


def test_drawn_numbers_are_in_their_range() -> None:
    row = foreign_op("rand")
    assert row is not None
    with oi.Simulator(program(row, Case("", "y: f32[1000]", np.zeros))).make_executor() as executor:
        executor.step()
        values = np.asarray(executor.fetch("y"))
    assert values.min() >= 0
    assert values.max() < 1
    assert 0.4 < values.mean() < 0.6


def test_the_table_is_whole() -> None:
    names = [name for row in ROWS for name in row.names]
    assert len(names) == len(set(names))
    assert len(ROWS) >= 100
    assert all(name == fold(name) for name in names)
    # A name of ours is no foreign one: its row would never be asked for.
    assert not [name for name in names if opset.find(name)]
    assert {row.names[0] for row in COMPARED} == CASES.keys()
    assert all(row.write or row.why for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.names[0])
def test_an_unknown_op_is_told_what_to_write(row: ForeignOp) -> None:
    for name in row.names:
        with pytest.raises(ProgramError, match="OI0214") as caught:
            oi.graph(
                f"volatile {{ x: f32[2]; }} block entry {{ op {name}(x) >> x; return; }}"
            ).check()
        assert caught.value.hint == row.advice


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *(("matmull", "matmul"), ("rleu", "relu"), ("sotfmax", "softmax"), ("sigmod", "sigmoid")),
        *(
            ("trasnpose", "transpose"),
            ("embeding", "embedding"),
            ("Slice", "slice"),
            ("mux", "max"),
        ),
        *(("Unsqueeze", "unsqueeze"), ("LayerNorm", "layer_norm"), ("MatMul", "matmul")),
        *(("TopK", "topk"), ("relo", "relu"), ("frobnicate", None), ("q", None), ("one", None)),
        *(("sub2", "sub"), ("adn", "and"), ("hello", None), ("hell", None), ("conv2", "conv2d")),
    ],
)
def test_near_misses_are_offered_only_where_they_are_near(written: str, meant: str | None) -> None:
    fix = opset.advice(written)
    assert fix == (None if meant is None else f"did you mean `{meant}`?")


@pytest.mark.parametrize(
    ("written", "wrong"),
    [("sum", "sub"), ("maximum", "matmul"), ("clip", "flip"), ("flatten", "trunc"), ("ones", "ne")],
)
def test_no_hint_leads_astray(written: str, wrong: str) -> None:
    assert "did you mean" not in str(opset.advice(written))
    assert opset.nearest(written) != wrong


# Settings.


@pytest.mark.parametrize("name", NAMES)
def test_each_foreign_setting_stands_for_one_of_ours(name: str) -> None:
    """Each of its candidates is the setting of some op that has no setting of the foreign name."""
    told = {
        foreign_setting(name, spec)
        for spec in map(opset.find, opset.names())
        if spec is not None and spec.setting(name) is None
    }
    assert fold(name) == name
    assert any(text and text.startswith("it is `") for text in told), name
    for ours in NAMES[name]:
        assert any(spec.setting(ours) for spec in map(opset.find, opset.names()) if spec), ours


@pytest.mark.parametrize(
    ("statement", "fix"),
    [
        ("sum_axis(x, dim=0)", "it is `axes` here; settings of `sum_axis`"),
        ("layer_norm(x, variance_epsilon=1)", "it is `eps` here"),
        ("max_pool2d(x, kernel_shape=2)", "it is `kernel_size` here"),
        ("matmul(x, x, transA=1)", "it is `transpose_a` here"),
        ("relu(x, inplace=true)", "leave it out: name the operand as the output"),
        ("attention(x, x, x, attn_mask=x)", "the mask is an operand"),
        ("softmax(x, axs=1)", "did you mean `axis`? settings of `softmax`"),
        ("softmax(x, frobnicate=1)", "settings of `softmax`: axis"),
        ("exp(x, dim=1)", "`exp` has no settings"),
    ],
)
def test_unknown_settings_are_told_ours(statement: str, fix: str) -> None:
    text = f"volatile {{ x: f32[2]; }} block entry {{ op {statement} >> x; return; }}"
    with pytest.raises(ProgramError) as caught:
        oi.graph(text).check()
    found = [d for d in caught.value.diagnostics if d.code == "OI0215"]
    assert len(found) == 1, found
    assert str(found[0].hint).startswith(fix)


@pytest.mark.parametrize(
    ("op", "alias"),
    [
        *(("softmax", "dim"), ("sum_axis", "keepdim"), ("sum_axis", "axis"), ("rope", "theta")),
        *(("layer_norm", "epsilon"), ("slice", "end"), ("conv2d", "strides"), ("concat", "dim")),
        *(("avg_pool2d", "kernel"), ("upsample2d", "scale_factor"), ("one_hot", "num_classes")),
    ],
)
def test_common_settings_are_taken_as_they_are(op: str, alias: str) -> None:
    spec = opset.find(op)
    assert spec is not None
    assert spec.setting(alias) is not None


def test_advice_names_no_setting_of_ours_that_is_gone() -> None:
    assert all(fold(name) == name and text for name, text in ADVICE.items())
