"""The NumPy twins of elementwise ops against PyTorch, at zeros, subnormals, limits and NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openinfer.lowering.reference.twins import evaluate

torch = pytest.importorskip("torch")

FLOATS = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
INTS = {"i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
        "u8": torch.uint8}  # fmt: skip
Unary = Callable[[Any], Any]

_MIXED = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.5, 3.0, -7.25, 20.0, -20.0, 88.0, -104.0]
_SPECIAL = [math.inf, -math.inf, math.nan]


def float_values(dtype: str) -> Any:
    info = torch.finfo(FLOATS[dtype])
    limits = [info.max, info.tiny, info.smallest_normal / 4, info.eps]
    both = [*_MIXED, *_SPECIAL, *limits, *(-x for x in limits)]
    return torch.tensor(both, dtype=torch.float64).to(FLOATS[dtype])


def int_values(dtype: str) -> Any:
    info = torch.iinfo(INTS[dtype])
    low, high = info.min, info.max
    wanted = [low, low + 1, -7, -2, -1, 0, 1, 2, 3, 7, high // 2, high - 1, high]
    return torch.tensor(sorted({n for n in wanted if low <= n <= high}), dtype=INTS[dtype])


def array_of(tensor: Any) -> Any:
    """The value array of a tensor: bf16 is held as float32."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def twin(op: str, dtype: str, *tensors: Any, **settings: Any) -> Any:
    arrays = [array_of(t) for t in tensors]
    return evaluate(op, arrays, [dtype] * len(arrays), settings)[0]


def close(found: Any, expected: Any, units: float, dtype: str, message: str) -> None:
    """Equal, or within some units in the last place of the dtype."""
    expected = array_of(expected)
    eps = float(torch.finfo(FLOATS[dtype]).eps) if dtype in FLOATS else 0.0
    tiny = float(torch.finfo(FLOATS[dtype]).smallest_normal) if dtype in FLOATS else 0.0
    np.testing.assert_allclose(
        found.astype(np.float64), expected.astype(np.float64), rtol=units * eps, atol=units * tiny
        * eps, equal_nan=True, err_msg=message,
    )  # fmt: skip


def pairs(values: Any) -> tuple[Any, Any]:
    count = len(values)
    return values.repeat(count), values.repeat_interleave(count)


EXACT: dict[str, Unary] = {
    "neg": torch.neg, "abs": torch.abs, "floor": torch.floor, "ceil": torch.ceil,
    "round_even": torch.round,
    "trunc": torch.trunc, "sqrt": torch.sqrt, "recip": torch.reciprocal, "relu": torch.relu,
}  # fmt: skip
FUNCTIONS: dict[str, Unary] = {
    "exp": torch.exp, "log": torch.log, "rsqrt": torch.rsqrt, "sin": torch.sin, "cos": torch.cos,
    "tanh": torch.tanh, "erf": torch.erf, "sigmoid": torch.sigmoid,
    "silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu,
    "softplus": lambda x: torch.nn.functional.softplus(x, threshold=1000),
    "expm1": torch.expm1, "log1p": torch.log1p, "tan": torch.tan, "atan": torch.atan,
    "asin": torch.asin, "acos": torch.acos, "sinh": torch.sinh, "cosh": torch.cosh,
    "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh,
    "elu": torch.nn.functional.elu, "celu": torch.nn.functional.celu,
    "selu": torch.nn.functional.selu, "mish": torch.nn.functional.mish,
    "hard_swish": torch.nn.functional.hardswish,
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", EXACT)
def test_exact_functions(op: str, dtype: str) -> None:
    x = float_values(dtype)
    expected = EXACT[op](x)
    if op == "relu":
        # The language: NaN stays, and the negative side is 0 also at -inf.
        expected = torch.where(torch.isnan(x), x, expected)
    found = twin(op, dtype, x)
    close(found, expected, 0, dtype, op)
    numbers = ~np.isnan(found)
    if op != "relu":
        signs = np.signbit(array_of(expected))
        np.testing.assert_array_equal(np.signbit(found)[numbers], signs[numbers], err_msg=op)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions(op: str, dtype: str) -> None:
    x = float_values(dtype)
    if op in ("sin", "cos", "tan"):
        x = x[torch.abs(x) < 1e4]
    if op == "hard_swish":
        x = x[torch.abs(x) < 1e300]  # Theirs multiplies first, and overflows.
    # PyTorch in f64: its own rounding does not count for f32.
    expected = FUNCTIONS[op](x.double())
    found = twin(op, dtype, x)
    close(found, expected.to(FLOATS[dtype]), 1 if dtype == "f32" else 16, dtype, op)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "min", "max"])
def test_arithmetic_of_floats(op: str, dtype: str) -> None:
    functions = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div,
                 "min": torch.fmin, "max": torch.fmax}  # fmt: skip
    x, y = pairs(float_values(dtype))
    close(twin(op, dtype, x, y), functions[op](x, y), 0, dtype, op)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_powers(dtype: str) -> None:
    x, y = pairs(float_values(dtype))
    close(twin("pow", dtype, x, y), torch.pow(x.double(), y.double()).to(x.dtype), 1, dtype, "pow")


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_angles_of_points(dtype: str) -> None:
    y, x = pairs(float_values(dtype))
    expected = torch.atan2(y.double(), x.double()).to(x.dtype)
    found = twin("atan2", dtype, y, x)
    close(found, expected, 1, dtype, "atan2")
    numbers = ~np.isnan(found)
    signs = np.signbit(array_of(expected))
    np.testing.assert_array_equal(np.signbit(found)[numbers], signs[numbers])


@pytest.mark.parametrize("slope", [(), (1,), (3,), (3, 1, 1), (4, 2), (2, 3, 1, 1)])
def test_prelu(slope: tuple[int, ...]) -> None:
    x = torch.randn(2, 3, 4, 2).double()
    x.flatten()[:5] = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan])
    w = torch.randn(slope).double()
    if len(slope) > 1:
        expected = torch.where(x > 0, x, w * x)
    else:
        expected = torch.nn.functional.prelu(x, w)
    close(twin("prelu", "f64", x, w), expected, 0, "f64", "prelu")


@pytest.mark.parametrize("alpha", [0.25, 1, 3, -0.5])
@pytest.mark.parametrize("op", ["elu", "celu"])
def test_alpha(op: str, alpha: float) -> None:
    x = float_values("f64")
    expected = getattr(torch.nn.functional, op)(x, alpha=alpha)
    close(twin(op, "f64", x, alpha=alpha), expected, 4, "f64", op)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max", "and", "or", "xor"])
def test_arithmetic_of_integers(op: str, dtype: str) -> None:
    functions = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "min": torch.minimum,
                 "max": torch.maximum, "and": torch.bitwise_and, "or": torch.bitwise_or,
                 "xor": torch.bitwise_xor}  # fmt: skip
    x, y = pairs(int_values(dtype))
    np.testing.assert_array_equal(twin(op, dtype, x, y), functions[op](x, y).numpy())


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", ["div", "floor_div", "rem"])
def test_division_of_integers(op: str, dtype: str) -> None:
    """Python's exact integers say what a quotient is; it wraps, and by 0 it is 0."""
    info = torch.iinfo(INTS[dtype])
    x, y = pairs(int_values(dtype))

    def exact(a: int, b: int) -> int:
        if b == 0:
            return 0
        truncated = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        value = {"div": truncated, "floor_div": a // b, "rem": a - truncated * b}[op]
        return (value - info.min) % (info.max - info.min + 1) + info.min

    expected = [exact(a, b) for a, b in zip(x.tolist(), y.tolist())]
    np.testing.assert_array_equal(twin(op, dtype, x, y), np.array(expected, x.numpy().dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(op: str, dtype: str) -> None:
    x, y = pairs(float_values(dtype) if dtype in FLOATS else int_values(dtype))
    np.testing.assert_array_equal(twin(op, dtype, x, y), getattr(torch, op)(x, y).numpy())


@pytest.mark.parametrize("dtype", FLOATS)
def test_tests_of_floats(dtype: str) -> None:
    x = float_values(dtype)
    np.testing.assert_array_equal(twin("is_nan", dtype, x), torch.isnan(x).numpy())
    np.testing.assert_array_equal(twin("is_inf", dtype, x), torch.isinf(x).numpy())
    np.testing.assert_array_equal(twin("is_neg", dtype, x), torch.signbit(x).numpy())
    assert not twin("is_finite", dtype, x)
    assert twin("is_finite", dtype, x[torch.isfinite(x)])


@pytest.mark.parametrize("dtype", FLOATS)
def test_reductions_of_lines_with_edges(dtype: str) -> None:
    values = float_values(dtype)
    lines = torch.stack([values.roll(n)[:5] for n in range(len(values))])
    for op, function in (("max_axis", torch.amax), ("min_axis", torch.amin)):
        close(twin(op, dtype, lines, axes=(1,)), function(lines, 1), 0, dtype, op)
    for op, function in (("argmax_axis", torch.argmax), ("argmin_axis", torch.argmin)):
        np.testing.assert_array_equal(twin(op, dtype, lines, axis=1), function(lines, 1).numpy())
    total = lines.double().sum(1).to(FLOATS[dtype]) if dtype != "f64" else lines.sum(1)
    calm = ~(lines.abs().double() > 1e4).any(1)
    close(twin("sum_axis", dtype, lines, axes=(1,))[calm.numpy()], total[calm], 4, dtype, "sum")


@pytest.mark.parametrize("dtype", ["i8", "i64", "u8"])
def test_means_of_extreme_integers(dtype: str) -> None:
    values = int_values(dtype)
    lines = torch.stack([values.roll(n)[:3] for n in range(len(values))])
    info = torch.iinfo(torch.int64)

    def mean(line: list[int]) -> int:
        total = (sum(line) - info.min) % (2**64) + info.min
        return abs(total) // 3 * (1 if total >= 0 else -1)

    expected = [mean(line) for line in lines.tolist()]
    np.testing.assert_array_equal(twin("mean_axis", dtype, lines, axes=(1,)), expected)
