"""Wrong code that comparable projects produce: each kind of it is a test here.

Every program runs compiled and is compared with the simulator and with NumPy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.packages.oinf_writer import OinfContent

F32 = np.float32


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(F32)


def program(inputs: str, outputs: str, body: str, constants: str = "") -> str:
    section = f"constant {{ {constants} }}\n" if constants else ""
    return (
        f"dynamic {{ {inputs} }}\n{section}volatile {{ {outputs} }}\n"
        f"block entry {{\n{body}\nreturn;\n}}\n"
    )


def run(text: str, model: Any = None, *, tolerance: float = 2e-6, **inputs: Any) -> dict[str, Any]:
    """The results of the compiled program, which agree with those of the simulator."""
    expected: dict[str, Any] = dict(oi.Simulator(text, model).make_executor().run(**inputs))
    found: dict[str, Any] = {}
    for threads in (1, 2):
        found = dict(oi.compile(text, model).make_executor(threads=threads).run(**inputs))
        for name, value in expected.items():
            finite = value[np.isfinite(value)]
            scale = max(1.0, float(np.abs(finite.astype(np.float64)).max(initial=0)))
            np.testing.assert_allclose(
                found[name], value, rtol=0, atol=tolerance * scale, err_msg=f"{name}\n{text}"
            )
    return found


def softmax(x: Any) -> Any:
    power = np.exp(x - x.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


def attend(q: Any, k: Any, v: Any, scale: float, mask: Any = 0.0) -> Any:
    return softmax(q @ np.swapaxes(k, -1, -2) * scale + mask) @ v


# Attention


@pytest.mark.parametrize("scale", [0.05, 1.0, 3.0])
def test_the_scale_setting_of_attention_counts(scale: float) -> None:
    q, k, v = (drawn(2, 4, 9, 16, seed=s) for s in range(3))
    text = program(
        "q: f32[2, 4, N, 16]; k: f32[2, 4, N, 16]; v: f32[2, 4, N, 16];",
        "y: f32[2, 4, N, 16];",
        f"op attention(q, k, v, scale={scale}) >> y;",
    )
    found = run(text, q=q, k=k, v=v)["y"]
    np.testing.assert_allclose(found, attend(q, k, v, scale), atol=1e-5)


WRITTEN = {
    "1.0": ("", 1.0),
    "0.05": ("op mul(s, c) >> s;", 0.05),
    "1": ("op mul(c, s) >> s;", 1.0),
    "1/sqrt(d)": ("op mul(s, c) >> s;", 0.25),
    "divided": ("op div(s, c) >> s;", 4.0),
    "on q": ("", 0.3),
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("transposed", [True, False])
def test_attention_written_out_keeps_its_scale(name: str, transposed: bool) -> None:
    line, constant = WRITTEN[name]
    q, k, v = drawn(2, 9, 16), drawn(2, 7, 16, seed=1), drawn(2, 7, 16, seed=2)
    before = "op mul(q, c) >> p;" if name == "on q" else "transfer q >> p;"
    if transposed:
        product = "op matmul(p, k, transpose_b=true) >> s;"
    else:
        product = "assign t: f32[2, 16, M]; op transpose(k) >> t; op matmul(p, t) >> s;"
    text = program(
        "q: f32[2, N, 16]; k: f32[2, M, 16]; v: f32[2, M, 16];",
        "y: f32[2, N, 16];",
        f"assign p: f32[2, N, 16]; assign s: f32[2, N, M]; {before} {product} {line}\n"
        "op softmax(s) >> s; op matmul(s, v) >> y;",
        f"c: f32 @init({constant});",
    )
    factor = 1 / constant if name == "divided" else constant
    found = run(text, q=q, k=k, v=v)["y"]
    np.testing.assert_allclose(found, attend(q, k, v, factor), atol=1e-5)


def test_one_tensor_as_query_and_key_and_value() -> None:
    x = drawn(7, 8)
    text = program(
        "x: f32[N, 8];",
        "y: f32[N, 8]; z: f32[1, N, 8];",
        "assign s: f32[N, N]; op matmul(x, x, transpose_b=true) >> s;\n"
        "op softmax(s) >> s; op matmul(s, x) >> y;\n"
        "assign x3: f32[1, N, 8]; op reshape(x, shape=[1, N, 8]) >> x3;\n"
        "op attention(x3, x3, x3, scale=1.0) >> z;",
    )
    found = run(text, x=x)
    np.testing.assert_allclose(found["y"], attend(x, x, x, 1.0), atol=1e-5)
    np.testing.assert_allclose(found["z"][0], found["y"], atol=1e-5)


@pytest.mark.parametrize("length", [1, 7, 300, 512])
@pytest.mark.parametrize("written", [True, False])
def test_a_float_mask_of_any_kind_at_many_lengths(length: int, written: bool) -> None:
    q, k, v = (drawn(2, length, 16, seed=s) for s in range(3))
    mask = drawn(length, length, seed=4) * 3
    mask[0, : length // 2] = -np.inf
    if written:
        body = (
            "assign s: f32[2, N, N]; op matmul(q, k, transpose_b=true) >> s; op mul(s, c) >> s;\n"
            "op add(s, m) >> s; op softmax(s) >> s; op matmul(s, v) >> y;"
        )
    else:
        body = "op attention(q, k, v, m, scale=0.05) >> y;"
    text = program(
        "q: f32[2, N, 16]; k: f32[2, N, 16]; v: f32[2, N, 16]; m: f32[N, N];",
        "y: f32[2, N, 16];",
        body,
        "c: f32 @init(0.05);",
    )
    found = run(text, tolerance=1e-5, q=q, k=k, v=v, m=mask)["y"]
    np.testing.assert_allclose(found, attend(q, k, v, 0.05, mask), atol=1e-4)


def test_a_row_of_infinite_mask_is_nan_where_a_softmax_is_written() -> None:
    q, k, v = drawn(3, 8), drawn(5, 8, seed=1), drawn(5, 8, seed=2)
    mask = np.zeros((3, 5), F32)
    mask[1] = -np.inf
    text = program(
        "q: f32[3, 8]; k: f32[5, 8]; v: f32[5, 8]; m: f32[3, 5];",
        "y: f32[3, 8]; z: f32[3, 8];",
        "assign s: f32[3, 5]; op matmul(q, k, transpose_b=true) >> s; op add(s, m) >> s;\n"
        "op softmax(s) >> s; op matmul(s, v) >> y;\n"
        "op attention(q, k, v, m, scale=1.0) >> z;",
    )
    found = run(text, q=q, k=k, v=v, m=mask)
    assert np.isnan(found["y"][1]).all()
    assert not found["z"][1].any()


def test_probabilities_as_the_right_operand() -> None:
    a, x = drawn(5, 6), drawn(6, 9, seed=1)
    text = program(
        "a: f32[5, 6]; x: f32[6, 9];",
        "y: f32[5, 9];",
        "assign p: f32[6, 9]; op softmax(x) >> p; op matmul(a, p) >> y;",
    )
    np.testing.assert_allclose(run(text, a=a, x=x)["y"], a @ softmax(x), atol=1e-5)


def test_probabilities_as_both_operands() -> None:
    q = drawn(6, 8)
    text = program(
        "q: f32[6, 8];",
        "y: f32[6, 6];",
        "assign s: f32[6, 6]; op matmul(q, q, transpose_b=true) >> s; op softmax(s) >> s;\n"
        "op matmul(s, s) >> y;",
    )
    shares = softmax(q @ q.T)
    np.testing.assert_allclose(run(text, q=q)["y"], shares @ shares, atol=1e-5)


def test_probabilities_that_something_else_reads() -> None:
    q, v = drawn(6, 8), drawn(6, 8, seed=1)
    text = program(
        "q: f32[6, 8]; v: f32[6, 8];",
        "y: f32[6, 8]; p: f32[6, 6];",
        "assign s: f32[6, 6]; op matmul(q, q, transpose_b=true) >> s; op softmax(s) >> p;\n"
        "op matmul(p, v) >> y;",
    )
    found = run(text, q=q, v=v)
    np.testing.assert_allclose(found["p"], softmax(q @ q.T), atol=1e-6)
    np.testing.assert_allclose(found["y"], found["p"] @ v, atol=1e-5)


def test_probabilities_that_are_rounded_stay_rounded() -> None:
    q, v = drawn(6, 8), drawn(6, 8, seed=1)
    text = program(
        "q: f32[6, 8]; v: f32[6, 8];",
        "y: f32[6, 8];",
        "assign s: f32[6, 6]; assign p: f16[6, 6]; op matmul(q, q, transpose_b=true) >> s;\n"
        "op softmax(s) >> p; op matmul(p, v) >> y;",
    )
    expected = softmax(q @ q.T).astype(np.float16).astype(F32) @ v
    np.testing.assert_allclose(run(text, q=q, v=v)["y"], expected, atol=1e-5)


# Weights


@pytest.fixture
def weight(tmp_path: Path) -> oi.Package:
    oi.write_oinf(OinfContent(tensors={"W": drawn(40, 40, seed=9)}), tmp_path / "w.oinf")
    return oi.open_model(tmp_path / "w.oinf")


def test_one_weight_in_two_products_once_transposed(weight: oi.Package) -> None:
    x, w = drawn(5, 40), drawn(40, 40, seed=9)
    text = program(
        "x: f32[N, 40];",
        "y: f32[N, 40]; z: f32[N, 40]; t: f32[N, 40];",
        "op matmul(x, W) >> y; op matmul(x, W, transpose_b=true) >> z;\n"
        "assign u: f32[40, 40]; op transpose(W) >> u; op matmul(x, u) >> t;",
        "W: f32[40, 40];",
    )
    executor = oi.compile(text, weight).make_executor()
    for _ in range(3):
        found = executor.run(x=x)
        np.testing.assert_allclose(found["y"], x @ w, atol=1e-4)
        np.testing.assert_allclose(found["z"], x @ w.T, atol=1e-4)
        np.testing.assert_allclose(found["t"], x @ w.T, atol=1e-4)
    run(text, weight, x=x, tolerance=1e-5)


def test_one_weight_in_a_product_and_a_sum(weight: oi.Package) -> None:
    x, w = drawn(40, 40), drawn(40, 40, seed=9)
    text = program(
        "x: f32[40, 40];",
        "y: f32[40, 40]; z: f32[40, 40]; l: f32[40, 40];",
        "op matmul(x, W, transpose_b=true) >> y; op add(y, W) >> y; op add(x, W) >> z;\n"
        "op matmul(W, x) >> l;",
        "W: f32[40, 40];",
    )
    found = run(text, weight, x=x, tolerance=1e-5)
    np.testing.assert_allclose(found["y"], x @ w.T + w, atol=1e-4)
    np.testing.assert_allclose(found["z"], x + w)
    np.testing.assert_allclose(found["l"], w @ x, atol=1e-4)
    executor = oi.compile(text, weight).make_executor()
    executor.run(x=x)
    np.testing.assert_array_equal(executor.fetch("W"), w)


# Functions


def test_gelu_is_the_form_that_was_asked_for() -> None:
    x = np.linspace(-5, 5, 1001, dtype=F32)
    text = program(
        "x: f32[N];",
        "exact: f32[N]; formula: f32[N];",
        'op gelu(x) >> exact; op gelu(x, approximate="tanh") >> formula;',
    )
    found = run(text, x=x)
    wide = x.astype(np.float64)
    erf = np.vectorize(__import__("math").erf)
    np.testing.assert_allclose(found["exact"], wide * 0.5 * (1 + erf(wide / 2**0.5)), atol=2e-6)
    inner = (2 / np.pi) ** 0.5 * (wide + 0.044715 * wide**3)
    np.testing.assert_allclose(found["formula"], wide * 0.5 * (1 + np.tanh(inner)), atol=2e-6)
    assert np.abs(found["exact"] - found["formula"]).max() > 1e-4


def test_a_factor_of_a_sum_counts() -> None:
    # What other frameworks write as add(x, y, alpha=3).
    x, y = drawn(4, 5), drawn(4, 5, seed=1)
    text = program(
        "x: f32[4, 5]; y: f32[4, 5];",
        "z: f32[4, 5];",
        "assign t: f32[4, 5]; op mul(y, c) >> t; op add(x, t) >> z;",
        "c: f32 @init(3.0);",
    )
    np.testing.assert_allclose(run(text, x=x, y=y)["z"], x + 3 * y, atol=1e-5)


def test_an_unknown_setting_is_refused() -> None:
    text = program("x: f32[4]; y: f32[4];", "z: f32[4];", "op add(x, y, alpha=3) >> z;")
    with pytest.raises(oi.ProgramError, match="alpha"):
        oi.compile(text)


# Inputs


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(drawn(6, 8)),
        drawn(8, 6).T,
        drawn(12, 16)[::2, ::2],
        drawn(6, 8)[::-1],
        np.frombuffer(b"\0" + drawn(6, 8).tobytes(), np.uint8)[1:].view(F32).reshape(6, 8),
        np.broadcast_to(drawn(8), (6, 8)),
        drawn(6, 8).astype(">f4"),
    ],
    ids=["fortran", "transposed", "strided", "reversed", "unaligned", "broadcast", "big-endian"],
)
def test_arrays_in_any_layout_are_right_or_refused(array: Any) -> None:
    text = program("x: f32[N, 8];", "y: f32[N, 8];", "op neg(x) >> y;")
    executor = oi.compile(text).make_executor()
    for _ in range(2):
        executor.run(x=drawn(6, 8))
        try:
            found = executor.run(x=array)["y"]
        except oi.InputError:
            assert array.dtype != F32
            continue
        np.testing.assert_array_equal(found, -array.astype(F32))


def test_short_and_wide_arrays_are_refused() -> None:
    text = program("x: f32[N, 8]; z: f32[N, 8];", "y: f32[N, 8];", "op add(x, z) >> y;")
    executor = oi.compile(text).make_executor()
    good = drawn(6, 8)
    executor.run(x=good, z=good)
    for wrong in (
        good[:5],
        good[:, :7],
        good[0],
        good.astype(np.float64),
        good.astype(np.float16),
        good.astype(np.int32),
    ):
        with pytest.raises(oi.InputError):
            executor.run(x=good, z=wrong)
        np.testing.assert_array_equal(executor.run(x=good, z=good)["y"], good + good)


# Order and places


def test_a_barrier_between_what_would_be_fused_changes_no_value() -> None:
    x, w = drawn(5, 8), drawn(8, 8, seed=1)
    body = (
        "assign h: f32[N, 8]; op matmul(x, w) >> h; {0} op mul(h, c) >> h; {0}\n"
        "op relu(h) >> h; {0} op add(h, x) >> h; {0} op tanh(h) >> y;"
    )
    results = [
        run(
            program(
                "x: f32[N, 8]; w: f32[8, 8];", "y: f32[N, 8];", body.format(b), "c: f32 @init(2.0);"
            ),
            x=x,
            w=w,
        )["y"]
        for b in ("", "barrier;")
    ]
    np.testing.assert_allclose(results[0], results[1], atol=1e-6)
    np.testing.assert_allclose(results[0], np.tanh(np.maximum(2 * (x @ w), 0) + x), atol=1e-5)


IN_PLACE = {
    "second operand": ("op sub(x, h) >> h;", lambda x, h: x - h),
    "both operands": ("op sub(h, h) >> h;", lambda x, h: h - h),
    "matmul right": ("op matmul(x, h) >> h;", lambda x, h: x @ h),
    "matmul left": ("op matmul(h, x) >> h;", lambda x, h: h @ x),
    "matmul both": ("op matmul(h, h) >> h;", lambda x, h: h @ h),
    "matmul residual": ("op matmul(h, x) >> t; op add(t, h) >> h;", lambda x, h: h @ x + h),
    "transposed": ("op transpose(h) >> h;", lambda x, h: h.T),
    "sum with its transpose": ("op transpose(h) >> t; op add(h, t) >> h;", lambda x, h: h + h.T),
    "through two views": (
        "op reshape(h, shape=[2, 18]) >> r; op reshape(r, shape=[6, 6]) >> t;\n"
        "op transpose(t) >> t; op add(h, t) >> h;",
        lambda x, h: h + h.T,
    ),
    "reversed roles": (
        "transfer h >> t; op add(x, t) >> h; op mul(t, h) >> h;",
        lambda x, h: h * (x + h),
    ),
    "softmax": ("op softmax(h, axis=0) >> h;", lambda x, h: softmax(h.T).T),
    "layer norm": (
        "op layer_norm(h) >> h;",
        lambda x, h: (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5),
    ),
    "shifted rows": (
        "op slice(h, axis=0, start=1) >> a; op slice(h, axis=0, stop=1) >> b;\n"
        "op concat(a, b, axis=0) >> h;",
        lambda x, h: np.roll(h, -1, 0),
    ),
    "attention": ("op attention(h, x, h, scale=0.5) >> h;", lambda x, h: attend(h, x, h, 0.5)),
}


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("name", IN_PLACE)
def test_results_that_overwrite_their_operands(name: str, rounds: int) -> None:
    line, function = IN_PLACE[name]
    x, start = drawn(6, 6) / 2, drawn(6, 6, seed=1) / 2
    text = program(
        "x: f32[6, 6]; s: f32[6, 6];",
        "y: f32[6, 6];",
        "assign h: f32[6, 6]; assign t: f32[6, 6]; assign r: f32[2, 18];\n"
        "assign a: f32[5, 6]; assign b: f32[1, 6];\n"
        f"op exp(s) >> h; op neg(h) >> h; loop rounds (i in 0..{rounds}) {{ {line} }} transfer h >> y;",
    )
    expected = -np.exp(start)
    for _ in range(rounds):
        expected = function(x, expected)
    scale = max(1.0, np.abs(expected).max())
    found = run(text, tolerance=1e-5, x=x, s=start)["y"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * scale)


def test_values_that_change_places_in_a_loop() -> None:
    a, b, c = drawn(5), drawn(5, seed=1), drawn(5, seed=2)
    text = program(
        "a: f32[N]; b: f32[N]; c: f32[N];",
        "u: f32[N]; v: f32[N]; w: f32[N];",
        "assign t: f32[N]; transfer a >> u; transfer b >> v; transfer c >> w;\n"
        "loop l (i in 0..4) { transfer u >> t; transfer v >> u; transfer w >> v; transfer t >> w; }",
    )
    found = run(text, a=a, b=b, c=c)
    for name, value in zip("uvw", (b, c, a)):
        np.testing.assert_array_equal(found[name], value)


def test_two_results_of_one_value_are_two_results() -> None:
    x = drawn(3, 4)
    text = program(
        "x: f32[3, 4];",
        "y: f32[3, 4]; z: f32[3, 4]; r: f32[12]; w: f32[3, 4];",
        "op exp(x) >> y; transfer y >> z; op reshape(y, shape=[12]) >> r; op neg(z) >> z;\n"
        "transfer x >> w;",
    )
    executor = oi.compile(text).make_executor()
    executor.run(x=x)
    shared: Any = executor.fetch("y", copy=False)
    shared[:] = 0
    np.testing.assert_allclose(executor.fetch("r"), np.exp(x).reshape(12), rtol=1e-6)
    np.testing.assert_allclose(executor.fetch("z"), -np.exp(x), rtol=1e-6)
    shared = executor.fetch("w", copy=False)
    shared[:] = 0
    assert x.any()


# Arithmetic


def test_an_infinite_factor_of_a_product_is_no_scale() -> None:
    text = program(
        "a: f32[1, 2]; b: f32[2, 1];",
        "y: f32[1, 1];",
        "assign s: f32[1, 2]; op mul(a, c) >> s; op matmul(s, b) >> y;",
        "c: f32 @init(inf);",
    )
    found = run(text, a=np.array([[1, 2]], F32), b=np.array([[1], [-1]], F32))
    assert np.isnan(found["y"]).all()


def test_a_scaled_f32_operand_of_an_f64_product_is_rounded() -> None:
    a, b = drawn(3, 4), drawn(4, 5, seed=1).astype(np.float64)
    text = program(
        "a: f32[3, 4]; b: f64[4, 5];",
        "y: f64[3, 5];",
        "assign s: f32[3, 4]; op mul(a, c) >> s; op matmul(s, b) >> y;",
        "c: f32 @init(0.1);",
    )
    found = run(text, a=a, b=b, tolerance=1e-13)["y"]
    np.testing.assert_allclose(found, (a * F32(0.1)).astype(np.float64) @ b, rtol=1e-12)


def test_minus_zero_survives() -> None:
    text = program(
        "x: f32[2];",
        "a: f32[2]; s: f32[2]; t: f32[2]; m: f32[2];",
        "op add(x, zero) >> a; op sub(x, zero) >> s; op sub(x, minus) >> t; op mul(x, one) >> m;",
        "zero: f32 @init(0.0); minus: f32 @init(-0.0); one: f32 @init(1.0);",
    )
    x = np.array([-0.0, 0.0], F32)
    found = run(text, x=x)
    for name, expected in (("a", x + F32(0)), ("s", x), ("t", x - F32(-0.0)), ("m", x)):
        np.testing.assert_array_equal(np.signbit(found[name]), np.signbit(expected), err_msg=name)


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "i64", "u64"])
def test_the_mean_of_integers_does_not_wrap(dtype: str) -> None:
    kind = np.dtype({"i": "int", "u": "uint"}[dtype[0]] + dtype[1:])
    top = min(np.iinfo(kind).max, 2**62 // 8)
    x = np.full((3, 7), top, kind) - np.arange(7).astype(kind)
    text = program(
        f"x: {dtype}[N, 7];",
        f"y: {dtype}[N]; z: {dtype};",
        "op mean_axis(x, axes=[1]) >> y; op mean_axis(x, axes=[0, 1]) >> z;",
    )
    found = run(text, x=x)
    assert found["y"].tolist() == [int(top) - 3] * 3
    assert run(text, x=x[:0])["z"] == 0


def test_counting_past_the_end_of_a_dtype_wraps() -> None:
    text = program("x: f32[N];", "y: i8[N];", "op iota(shape=[N], start=100, dtype=i8) >> y;")
    found = run(text, x=np.zeros(40, F32))["y"]
    np.testing.assert_array_equal(found, np.arange(100, 140).astype(np.int8))


def test_a_product_of_integers_with_a_float_behind_it() -> None:
    a = (np.arange(12, dtype=np.int32).reshape(3, 4) - 5) * 100_003
    b = np.arange(20, dtype=np.int32).reshape(4, 5)
    text = program(
        "a: i32[3, 4]; b: i32[4, 5];",
        "y: f32[3, 5]; c: bool[3, 5];",
        "assign s: i32[3, 5]; op matmul(a, b) >> s; op cast(s, to=f32) >> y;\n"
        "assign r: i32[3, 5]; op matmul(a, b) >> r; op lt(r, s) >> c;",
    )
    np.testing.assert_array_equal(run(text, a=a, b=b)["y"], (a @ b).astype(F32))


def test_a_loop_bound_that_divides_by_zero_fails_before_the_step() -> None:
    text = (
        "dynamic { x: f32[B]; c: f32[C]; } volatile { y: f32[B]; } "
        "block entry { loop l (i in 0..B/C) { op add(y, x) >> y; } return y; }"
    )
    for executor in (oi.Simulator(text).make_executor(), oi.compile(text).make_executor()):
        x = np.ones(4, np.float32)
        with pytest.raises(oi.StepError):
            executor.run(x=x, c=np.zeros(0, np.float32))
        assert np.array_equal(executor.run(x=x, c=np.zeros(2, np.float32))["y"], 2 * x)
