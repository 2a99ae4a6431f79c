"""`strict_math`: sums in the order of indices, products rounded before they are added, functions
rounded once; the same bits on every target."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_runs import skip_unless_it_runs

import openinfer as oi
from openinfer.lowering.cpu.jit import compile_loops
from openinfer.runtime.packages.base import Package
from openinfer.runtime.packages.oinf_writer import OinfContent

Array = np.ndarray[Any, Any]
TARGETS = ("generic", "avx2", "host")


def in_order(terms: Array, axis: int) -> Array:
    """The sum of f32 terms one after another."""
    return np.add.accumulate(terms, axis=axis, dtype=np.float32).take(-1, axis)


def rounded(function: Callable[[Array], Array], x: Array) -> Array:
    """A function computed in f64 and rounded once."""
    return function(x.astype(np.float64)).astype(np.float32)


def run(
    text: str, inputs: dict[str, Array], package: Package | None = None, **options: Any
) -> dict[str, Array]:
    program = oi.compile(oi.graph(text), package, strict_math=True, **options)
    skip_unless_it_runs(options.get("target", "host"))
    with program.make_executor(2) as executor:
        return {name: np.asarray(value) for name, value in executor.run(**inputs).items()}


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Package:
    path = tmp_path_factory.mktemp("strict") / "w.oinf"
    tensors = {"W": normal(37, 19, seed=1), "V": normal(19, 37, seed=2), "b": normal(19, seed=3)}
    oi.write_oinf(OinfContent({}, {}, tensors), path)
    return oi.open_model(path)


MATMUL = """
dynamic { x: f32[M, 37]; }
constant { W: f32[37, 19]; V: f32[19, 37]; b: f32[19]; }
volatile { y: f32[M, 19]; t: f32[M, 19]; g: f32[M, M]; }
block entry {
    op matmul(x, W) >> y;
    op add(y, b) >> y;
    op matmul(x, V, transpose_b=true) >> t;
    op matmul(x, x, transpose_b=true) >> g;
    return;
}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_products_are_summed_in_order(weights: Package, target: str, rows: int) -> None:
    x = normal(rows, 37)
    w, v, b = (weights.read(name) for name in ("W", "V", "b"))
    found = run(MATMUL, {"x": x}, weights, target=target)
    np.testing.assert_array_equal(found["y"], in_order(x[:, :, None] * w[None], 1) + b)
    np.testing.assert_array_equal(found["t"], in_order(x[:, :, None] * v.T[None], 1))
    np.testing.assert_array_equal(found["g"], in_order(x[:, :, None] * x.T[None], 1))


def test_an_order_that_shows(weights: Package) -> None:
    # From left to right the ones are lost; in any other order some are not.
    x = np.ones((1, 64), np.float32)
    x[0, 0], x[0, -1] = 2.0**24, -(2.0**24)
    text = """
    dynamic { x: f32[1, 64]; ones: f32[64, 1]; } volatile { s: f32[1]; m: f32[1]; p: f32[1, 1]; }
    block entry {
        op sum_axis(x, axis=1) >> s;
        op mean_axis(x, axis=1) >> m;
        op matmul(x, ones) >> p;
        return;
    }
    """
    inputs = {"x": x, "ones": np.ones((64, 1), np.float32)}
    found = run(text, inputs)
    assert [found[name].item() for name in ("s", "m", "p")] == [0.0, 0.0, 0.0]
    with oi.compile(oi.graph(text)).make_executor(1) as executor:
        assert np.asarray(executor.run(**inputs)["s"]).item() != 0.0


@pytest.mark.parametrize("target", TARGETS)
def test_a_product_is_rounded_before_it_is_added(target: str) -> None:
    text = """
    dynamic { a: f32[33]; b: f32[33]; c: f32[33]; } volatile { y: f32[33]; }
    block entry { op mul(a, b) >> y; op add(y, c) >> y; return; }
    """
    a, b = normal(33), normal(33, seed=1)
    # What a fused multiply-add gives is the rounding error of the product.
    found = run(text, {"a": a, "b": b, "c": -(a * b)}, target=target)
    np.testing.assert_array_equal(found["y"], 0)


LINES = """
dynamic { x: f32[M, 37]; w: f32[37]; b: f32[37]; }
volatile { soft: f32[M, 37]; across: f32[M, 37]; layer: f32[M, 37]; rms: f32[M, 37]; all: f32[1]; }
block entry {
    op softmax(x, axis=1) >> soft;
    op softmax(x, axis=0) >> across;
    op layer_norm(x, w, b, eps=0.00001) >> layer;
    op rms_norm(x, w, eps=0.00001) >> rms;
    op sum_axis(x, axes=[0, 1]) >> all;
    return;
}
"""


def softmax(x: Array, axis: int) -> Array:
    powers = rounded(np.exp, x - x.max(axis, keepdims=True))
    return powers / np.expand_dims(in_order(powers, axis), axis)


@pytest.mark.parametrize("target", TARGETS)
def test_lines_are_walked_in_order(target: str) -> None:
    x, w, b = normal(5, 37), normal(37, seed=1), normal(37, seed=2)
    text = LINES.replace("all: f32[1]", "all: f32[]")
    found = run(text, {"x": x, "w": w, "b": b}, target=target)
    np.testing.assert_array_equal(found["soft"], softmax(x, 1))
    np.testing.assert_array_equal(found["across"], softmax(x, 0))
    count, eps = np.float32(37), np.float32(1e-5)
    centred = x - (in_order(x, 1) / count)[:, None]
    root = np.sqrt(in_order(centred * centred, 1) / count + eps)[:, None]
    np.testing.assert_array_equal(found["layer"], centred / root * w + b)
    root = np.sqrt(in_order(x * x, 1) / count + eps)[:, None]
    np.testing.assert_array_equal(found["rms"], x / root * w)
    np.testing.assert_array_equal(found["all"], in_order(x.reshape(-1), 0))


CONV = """
dynamic { x: f32[2, 3, 9, 8]; w: f32[5, 3, 3, 3]; }
volatile { y: f32[2, 5, 7, 6]; }
block entry { op conv2d(x, w) >> y; return; }
"""


@pytest.mark.parametrize("target", TARGETS)
def test_a_convolution_goes_over_channels_then_taps(target: str) -> None:
    x, w = normal(2, 3, 9, 8), normal(5, 3, 3, 3, seed=1)
    terms = [
        x[:, None, c, i : i + 7, j : j + 6] * w[None, :, c, i, j, None, None]
        for c in range(3)
        for i in range(3)
        for j in range(3)
    ]
    found = run(CONV, {"x": x, "w": w}, target=target)["y"]
    np.testing.assert_array_equal(found, in_order(np.stack(terms), 0))


ANY = """
dynamic {{ x: f32[T, 32]; k: f32[T, 32]; }}
volatile {{ y: f32[T, 32]; }}
block entry {{ {body} return; }}
"""


@pytest.mark.parametrize(
    "body",
    [
        "op gelu(x) >> y;",
        "op silu(x) >> y;",
        "op cumsum(x, axis=1) >> y;",
    ],
)
def test_functions_are_the_same_bits_on_every_target(body: str) -> None:
    inputs = {"x": normal(6, 32), "k": normal(6, 32, seed=1)}
    first, *others = (run(ANY.format(body=body), inputs, target=t)["y"] for t in TARGETS)
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_a_recurrence_is_the_same_bits_on_every_target() -> None:
    text = """
    dynamic { x: f32[5, 2, 7]; w: f32[40, 7]; r: f32[40, 10]; h0: f32[2, 10]; c0: f32[2, 10]; }
    volatile { y: f32[5, 2, 10]; }
    block entry {
        assign h: f32[2, 10]; assign c: f32[2, 10];
        op lstm(x, h0, c0, w, r) >> y, h, c;
        return;
    }
    """
    inputs = {
        "x": normal(5, 2, 7),
        "w": normal(40, 7, seed=1),
        "r": normal(40, 10, seed=2),
        "h0": normal(2, 10, seed=3),
        "c0": normal(2, 10, seed=4),
    }
    first, *others = (run(text, inputs, target=target)["y"] for target in TARGETS)
    for other in others:
        np.testing.assert_array_equal(first, other)


# Functions

FUNCTIONS: dict[str, Callable[[float], float]] = {
    name: getattr(math, name)
    for name in (
        *("exp", "expm1", "log", "log2", "log10", "log1p", "erf", "sin", "cos", "tan", "asin"),
        *("acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp2", "cbrt"),
    )
    if hasattr(math, name)
} | {"rsqrt": lambda x: 1 / math.sqrt(x)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_within_one_unit_of_the_last_place(name: str) -> None:
    text = f"""
    builtin.module attributes {{openinfer.strict_math}} {{
    func.func @f(%x: memref<?xf32>, %y: memref<?xf32>) {{
      %c0 = arith.constant 0 : index
      %c8 = arith.constant 8 : index
      %n = memref.dim %x, %c0 : memref<?xf32>
      scf.for %i = %c0 to %n step %c8 {{
        %v = vector.load %x[%i] : memref<?xf32>, vector<8xf32>
        %w = math.{name} %v : vector<8xf32>
        vector.store %w, %y[%i] : memref<?xf32>, vector<8xf32>
      }}
      func.return
    }}}}"""
    function = compile_loops(text, "f")
    bits = np.arange(0, 2**32, 2**32 // 2048, dtype=np.uint64) + np.arange(2048, dtype=np.uint64)
    near = np.linspace(-9, 9, 1024).astype(np.float32)
    x = np.concatenate([bits.astype(np.uint32).view(np.float32), near])
    y = np.zeros_like(x)
    function(x, y)
    found = 0
    for value, result in zip(x.tolist(), y):
        try:
            exact = FUNCTIONS[name](value)
        except (ValueError, OverflowError, ZeroDivisionError):
            continue
        if not math.isfinite(exact) or abs(exact) > 3.4e38:
            continue
        found += 1
        unit = float(np.spacing(np.float32(abs(exact))))
        assert abs(float(result) - exact) <= 0.51 * unit, (value, result, exact)
    assert found > 50


def test_half_floats_are_rounded_at_the_end() -> None:
    text = """
    dynamic { x: f16[64]; } volatile { y: f16[64]; } block entry { op exp(x) >> y; return; }
    """
    x = np.linspace(-4, 4, 64).astype(np.float16)
    expected = np.exp(x.astype(np.float64)).astype(np.float32).astype(np.float16)
    np.testing.assert_array_equal(run(text, {"x": x})["y"], expected)


def test_no_flag_allows_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from openinfer.compiler.tools.opt_driver import drive

    path = tmp_path / "p.oi"
    path.write_text(LINES.replace("all: f32[1]", "all: f32[]"), encoding="utf-8")
    arguments = [str(path), "--pipeline", "cpu", "-t", "llvm-ir", "--target-cpu", "avx512"]
    assert drive([*arguments, "--strict-math"]) == 0
    text = capsys.readouterr().out
    for word in ("reassoc", "contract", "afn", "arcp", "@llvm.fma", "@llvm.exp.f32", " fast "):
        assert word not in text, word
    assert drive(arguments) == 0
    assert "contract" in capsys.readouterr().out
