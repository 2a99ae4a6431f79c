"""Settings that name a variable, a loop index, a size or metadata: both executors agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.packages.oinf_writer import OinfContent, write_oinf
from openinfer.runtime.packages.values import ScalarValue
from openinfer.runtime.tensors import Tensor


def drawn(dtype: str, seed: int) -> Tensor:
    random = np.random.default_rng(seed)
    if dtype in ("f32", "f16", "f64"):
        values = random.standard_normal((3, 5)) * 3
        values[0, :4] = [np.nan, np.inf, -np.inf, -0.0]
        return Tensor.from_values(dtype, values)
    low, high = {"i8": (-128, 127), "u8": (0, 255)}[dtype]
    return Tensor.from_values(dtype, random.choice([low, high, 0, 1, 2, 7], (3, 5)))


INPUTS = (
    "x: f32[3, 5]; h: f16[3, 5]; i: i8[3, 5]; j: i8[3, 5]; u: u8[3, 5]; "
    "a: f32; d: f64[1]; k: i32; b: i64[1, 1]; f: bool;"
)
"""Tensors, then one-element variables of several dtypes and ranks."""


def inputs() -> dict[str, Any]:
    return {
        "x": drawn("f32", 0), "h": drawn("f16", 1), "i": drawn("i8", 2), "j": drawn("i8", 3),
        "u": drawn("u8", 4), "a": np.float32(0.3), "d": np.array([1e300]), "k": np.int32(3),
        "b": np.array([[1000]]), "f": np.array(True),
    }  # fmt: skip


def agree(text: str, model: Any = None, tolerance: float = 1e-5, **given: Any) -> dict[str, Any]:
    graph = oi.graph(text)
    expected = oi.Simulator(graph, model).make_executor().run(**given)
    found = oi.compile(graph, model).make_executor().run(**given)
    for name, value in expected.items():
        left, right = (v.values() if isinstance(v, Tensor) else v for v in (found[name], value))
        if left.dtype.kind == "f":
            np.testing.assert_allclose(left, right, tolerance, tolerance, err_msg=f"{name}\n{text}")
        else:
            np.testing.assert_array_equal(left, right, err_msg=f"{name}\n{text}")
    return expected


def program(output: str, body: str) -> str:
    return (
        f"dynamic {{ {INPUTS} }}\nvolatile {{ z: {output}; }}\n"
        f"block entry {{\n{body}\nreturn;\n}}\n"
    )


F32, F16, I8, U8 = "f32[3, 5]", "f16[3, 5]", "i8[3, 5]", "u8[3, 5]"
USES: list[tuple[str, str]] = [
    ("relu(x, negative_slope=a)", F32),
    ("relu(x, alpha=a, clamp_min=a, clamp_max=k)", F32),
    ("relu(x, alpha=0.5, clamp_max=d)", F32),
    ("relu(h, alpha=a, clamp_max=k)", F16),
    ("relu(i, alpha=k)", I8),
    ("relu(i, alpha=300, clamp_max=b)", I8),
    ("relu(i, alpha=b, clamp_max=k)", I8),
    ("clamp(x, min=a)", F32),
    ("clamp(x, min=a, max=k)", F32),
    ("clamp(x, max=d)", F32),
    ("clamp(h, min=0, max=a)", F16),
    ("clamp(i, min=k, max=b)", I8),
    ("clamp(u, min=k, max=b)", U8),
    ("div(i, j, div_by_zero_mask=b)", I8),
    ("div(x, x, div_by_zero_mask=a)", F32),
    ("floor_div(i, j, div_by_zero_mask=k)", I8),
    ("recip(x, div_by_zero_mask=k)", F32),
    ("shl(i, bits=k)", I8),
    ("shr(i, bits=k)", I8),
    ("shr(u, bits=b)", U8),
    ("fill(x, value=a)", F32),
    ("fill(x, value=d)", F32),
    ("fill(i, value=b)", I8),
    ("fill(u, value=k)", U8),
    ("fill_nan_like(h, value=a)", F16),
    ("iota(shape=[3, 5], start=k, step=b, dtype=f32)", F32),
    ("iota(shape=[3, 5], start=b, step=k, dtype=i8)", I8),
    ("layer_norm(j32, eps=a)", F32),
    ("rms_norm(j32, eps=a, axis=0)", F32),
    ("pad(x, pads=[1, 0, 0, 2], value=a)", "f32[4, 7]"),
    ("pad(i, pads=[1, 0, 0, 2], value=b)", "i8[4, 7]"),
    ("one_hot(k, depth=4, on_value=a, off_value=k)", "f32[4]"),
    ("one_hot(k, depth=4, on_value=b, dtype=i8)", "i8[4]"),
    ("quantize(x, scale=a, zero_point=k, dtype=i8)", I8),
    ("quantize(x, scale=a, zero_point=b, dtype=u8)", U8),
    ("dequantize(i, scale=a, zero_point=k)", F32),
    ("dequantize(i, scale=d, zero_point=b)", F32),
    ("random_uniform(seed=k, low=a, high=k)", F32),
    ("attention(j32, j32, j32, scale=a)", F32),
    ("attention(jh, jh, jh, scale=a)", F16),
    ("attention(j32, j32, j32, window=k)", F32),
    ("attention(jh, jh, jh, scale=a, window=k, causal=true)", F16),
    ("cast(x, to=i8, saturate=f)", I8),
    ("cast(x, to=i4, saturate=k)", "i4[3, 5]"),
    ("cast(i, to=u2, saturate=f)", "u2[3, 5]"),
    ("cast(x, to=f8, saturate=f)", "f8[3, 5]"),
    ('cast(x, to=u8, rounding_mode="floor", saturate=f)', U8),
    ("argmax_axis(i, axis=1, select_first=f)", "i64[3]"),
    ("argmin_axis(j, axis=0, select_first=k, keepdims=true)", "i64[1, 5]"),
    ("group_norm(j32, groups=5, eps=a)", F32),
    ("group_norm(jh, eps=k)", F16),
    ("rope(r, base=d, dims=4)", "f32[3, 6]"),
    ("rope(r, base=b, interleaved=true)", "f32[3, 6]"),
    ("batch_norm(j32, s, s, eps=a)", F32),
    ("batch_norm(j32, s, s, s, s, eps=k, axis=-1)", F32),
]


@pytest.mark.parametrize(("use", "output"), USES)
def test_variables(use: str, output: str) -> None:
    body = (
        "assign j32: f32[3, 5]; op cast(j, to=f32) >> j32;\n"
        "assign jh: f16[3, 5]; op clamp(h, min=-2, max=2) >> jh;\n"
        "assign r: f32[3, 6]; op random_uniform(seed=3, low=-1) >> r;\n"
        "assign s: f32[5]; op fill(s, value=0.7) >> s;\n"
        f"op {use} >> z;"
    )
    agree(program(output, body), tolerance=2e-3 if output == F16 else 1e-5, **inputs())


SWITCHES = """dynamic { x: f32[2, 9]; y: i8[2, 9]; f: FLAG; } volatile { a: i8[2, 9]; b: u4[2, 9];
    c: f8[2, 9]; d: i64[2]; e: i64[9]; g: bf16[2, 9]; }
    block entry {
      op cast(x, to=i8, saturate=f) >> a; op cast(y, to=u4, saturate=f) >> b;
      op cast(x, to=f8, saturate=f) >> c; op cast(x, to=bf16, saturate=f) >> g;
      op argmax_axis(y, axis=1, select_first=f) >> d;
      op argmin_axis(x, axis=0, select_first=f) >> e;
      return;
    }"""


@pytest.mark.parametrize("dtype", ["bool", "u8", "i64"])
@pytest.mark.parametrize("flag", [0, 1])
def test_switches(dtype: str, flag: int) -> None:
    x = np.array([[300, -300, 7, 7, 1e6, -1e6, 0.5, 2e30, np.nan]] * 2, np.float32)
    y = np.array([[1, 9, -7, 9, 0, -7, 3, 100, 100], [2] * 9], np.int8)
    agree(SWITCHES.replace("FLAG", dtype), x=x, y=y, f=Tensor.from_values(dtype, np.array(flag)))


@pytest.mark.parametrize("causal", ["true", "false"])
@pytest.mark.parametrize("dtype", ["i32", "u64"])
def test_windows_of_the_step(causal: str, dtype: str) -> None:
    """Also with a mask, in a loop, over lengths that only the step knows."""
    text = f"""dynamic {{ q: f32[2, 4, L, 8]; k: f32[2, 2, T, 8]; m: f32[L, T]; w: {dtype}; }}
        volatile {{ z: f32[2, 4, L, 8]; y: f32[2, 4, L, 8]; s: f32[2, 4, L, 8]; }}
        block entry {{
          op attention(q, k, k, window=w, causal={causal}) >> z;
          op attention(q, k, k, m, window=w, causal={causal}) >> y;
          loop n (i in 1..4) {{
            assign t: f32[2, 4, L, 8];
            op attention(q, k, k, window=i) >> t;
            op add(s, t) >> s;
          }}
          return;
        }}"""
    random = np.random.default_rng(5)
    for queries, keys in ((7, 7), (1, 20), (20, 3), (33, 40)):
        given = {
            "q": random.standard_normal((2, 4, queries, 8)).astype(np.float32),
            "k": random.standard_normal((2, 2, keys, 8)).astype(np.float32),
            "m": random.standard_normal((queries, keys)).astype(np.float32),
        }
        for window in (1, 3, 2**31, 2**63 if dtype == "u64" else 19):
            window = min(window, 2**31 - 1) if dtype == "i32" else window
            wide = np.uint64 if dtype == "u64" else np.int32
            agree(text, w=np.array(window, wide), q=given["q"], k=given["k"], m=given["m"])


def test_a_window_beyond_32_bits_is_no_window() -> None:
    text = """dynamic { x: f32[5, 8]; } volatile { y: f32[5, 8]; }
        block entry { op attention(x, x, x, window=4294967297) >> y; return; }"""
    agree(text, x=np.random.default_rng(1).standard_normal((5, 8)).astype(np.float32))


def test_heads_whose_size_only_the_step_knows() -> None:
    text = """dynamic { q: f16[L, D]; k: f16[T, D]; s: f32[2, H]; t: f32[T, 2, E]; }
        volatile { z: f16[L, D]; y: f32[2, H]; }
        block entry { op attention(q, k, k, causal=true) >> z; return; }"""
    random = np.random.default_rng(5)
    for size in (8, 5, 1, 0):
        q, k = (random.standard_normal((n, size)).astype(np.float16) for n in (3, 7))
        agree(
            text.replace("s: f32[2, H]; t: f32[T, 2, E];", "").replace("y: f32[2, H];", ""),
            tolerance=2e-3, q=q, k=k,
        )  # fmt: skip


FAULTS = [
    ("attention(x, x, x, window=n)", "f32[4, 4]", 0, "window=0 lets no position attend"),
    ("attention(x, x, x, window=n)", "f32[4, 4]", -3, "window=-3 lets no position attend"),
    ("batch_norm(x, s, s, eps=n)", "f32[4, 4]", -1, "is negative"),
    ("group_norm(x, eps=n)", "f32[4, 4]", -1, "is negative"),
    ("rope(x, base=n)", "f32[4, 4]", 0, "is not positive and finite"),
    ("rope(x, base=s)", "f32[4, 4]", 0, "is not positive and finite"),
    ("random_uniform(low=n)", "f32[4, 4]", 2, "lies below low"),
    ("shl(n, bits=n)", "i32", -1, "bits=-1 is negative"),
    ("shr(n, bits=n)", "i32", -(2**31), "bits=-2147483648 is negative"),
]


@pytest.mark.parametrize(("use", "output", "number", "message"), FAULTS)
def test_numbers_that_only_the_step_can_refuse(
    use: str, output: str, number: int, message: str
) -> None:
    scalar = "rope(x, base=s)" == use
    text = f"""dynamic {{ x: f32[4, 4]; n: i32; s: f32{"" if scalar else "[4]"}; }}
        persistent {{ p: i64; }} volatile {{ z: {output}; }}
        block entry {{ cache.increment p; op {use} >> z; return; }}"""
    s = np.float32(np.inf) if scalar else np.ones(4, np.float32)
    graph = oi.graph(text)
    for made in (oi.Simulator(graph), oi.compile(graph)):
        executor = made.make_executor()
        with pytest.raises(oi.StepError, match=message) as caught:
            executor.run(x=np.ones((4, 4), np.float32), n=np.int32(number), s=s)
        assert caught.value.code == "OI0602"
        assert "node 1" in str(caught.value)
        assert executor.fetch("p") == 0


@pytest.mark.parametrize("slope", [0.0, -0.0, 0.5, np.inf, np.nan])
def test_slopes(slope: float) -> None:
    text = """dynamic { x: f32[6]; s: f32; } volatile { z: f32[6]; }
        block entry { op relu(x, alpha=s) >> z; return; }"""
    x = np.array([-np.inf, -2, -0.0, 0, 3, np.nan], np.float32)
    agree(text, x=x, s=np.float32(slope))


@pytest.mark.parametrize("kind", ["volatile", "constant", "persistent"])
def test_other_memory(kind: str) -> None:
    text = f"""dynamic {{ x: f32[4]; }} {kind} {{ s: f32 @init(0.5); n: i32 @init(2); }}
        volatile {{ y: f32[4]; z: f32[4]; }}
        block entry {{ op relu(x, alpha=s) >> y; op fill(x, value=n) >> z; return; }}"""
    agree(text, x=np.array([-2, -1, 0, 1], np.float32))


def test_values_as_they_are_at_the_node() -> None:
    text = """dynamic { x: f32[4]; } volatile { s: f32 @init(1); y: f32[4]; z: f32[4]; }
        block entry {
          op clamp(x, max=s) >> y;
          op add(s, s) >> s;
          op clamp(x, max=s) >> z;
          return;
        }"""
    found = agree(text, x=np.array([0, 1, 2, 3], np.float32))
    assert found["y"].tolist() == [0, 1, 1, 1]
    assert found["z"].tolist() == [0, 1, 2, 2]


def test_loop_indices_and_sizes() -> None:
    text = """dynamic { x: f32[N, 2]; } volatile { y: f32[N, 2]; z: i8[3]; c: f32[N, 2]; r: f32[4]; }
        block entry {
          loop outer (i in 0..4) {
            assign t: f32[N, 2];
            op fill(x, value=i) >> t;
            op add(y, t) >> y;
            op fill(z, value=i) >> z;
            op random_uniform(seed=i) >> r;
          }
          op clamp(x, max=N) >> c;
          return;
        }"""
    found = agree(text, x=np.full((3, 2), 9, np.float32))
    assert (found["y"] == 6).all()
    assert (found["c"] == 3).all()


def test_a_branch_may_set_it() -> None:
    text = """dynamic { x: f32[3]; c: bool; } volatile { s: f32; z: f32[3]; }
        block entry { branch c big small; op fill(x, value=s) >> z; return; }
        block big { op fill(s, value=100) >> s; return; }
        block small { op fill(s, value=-1) >> s; return; }"""
    for condition in (True, False):
        found = agree(text, x=np.zeros(3, np.float32), c=np.array(condition))
        assert (found["z"] == (100 if condition else -1)).all()


def test_metadata(tmp_path: Path) -> None:
    content = OinfContent(
        metadata={
            "slope": ScalarValue(0.25, "f32"),
            "limit": ScalarValue(5, "i32"),
            "how": "tanh",
            "flag": True,
        }
    )
    path = tmp_path / "m.oinf"
    write_oinf(content, path)
    text = """dynamic { x: f32[7]; } volatile { y: f32[7]; g: f32[7]; s: f32; }
        block entry {
          op relu(x, negative_slope=slope, clamp_max=limit) >> y;
          op gelu(x, approximate=how) >> g;
          op sum_axis(x, axes=[0], keepdims=false) >> s;
          return;
        }"""
    x = np.linspace(-8, 8, 7).astype(np.float32)
    found = agree(text, oi.open_model(path), x=x)
    assert found["y"].tolist() == np.where(x < 0, x * 0.25, np.minimum(x, 5)).tolist()


# What is refused, by both

REFUSED = [
    ("clamp(i, max=a)", I8, "OI0304", "i8"),
    ("fill(i, value=a)", I8, "OI0304", "i8"),
    ("shl(i, bits=a)", I8, "OI0304", "an integer"),
    ("cast(x, to=i8, saturate=a)", I8, "OI0304", "a bool or an integer"),
    ("attention(x, x, x, causal=f)", F32, "OI0304", "when the program is compiled"),
    ("random_uniform(seed=a)", F32, "OI0304", "an integer"),
    ("gelu(x, approximate=k)", F32, "OI0304", "a string"),
    ("fill(x, value=x)", F32, "OI0308", "not a scalar"),
    ("fill(x, value=nothing)", F32, "OI0328", "nothing"),
]


@pytest.mark.parametrize(("use", "output", "code", "message"), REFUSED)
def test_refused(use: str, output: str, code: str, message: str) -> None:
    graph = oi.graph(program(output, f"op {use} >> z;"))
    for run in (lambda: oi.Simulator(graph), lambda: oi.compile(graph)):
        with pytest.raises(oi.ProgramError) as caught:
            run()
        assert code in str(caught.value)
        assert message in str(caught.value)


def test_settings_that_shape_the_program_need_a_constant() -> None:
    """What only the step knows cannot decide which code there is."""
    graph = oi.graph(program("f32[3]", "op sum_axis(x, axes=[1], keepdims=f) >> z;"))
    for run in (lambda: oi.Simulator(graph), lambda: oi.compile(graph)):
        with pytest.raises(oi.ProgramError, match="when the program is compiled"):
            run()
