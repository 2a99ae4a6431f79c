"""Functions of f32 against float64 over the whole range, by the bounds that the table states."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_runs import skip_unless_it_runs

import openinfer as oi
from openinfer.lowering.kernels.accuracy import COMPOSED, FUNCTIONS, PAIRS, Bound, accuracy_table

Array = np.ndarray[Any, Any]
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "numerics.md"


def by_element(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.array([function(value) for value in x.tolist()])


EXACT: dict[str, Callable[[Array], Array]] = {
    "erf": by_element(math.erf),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * by_element(math.erfc)(-x / math.sqrt(2)) / 2,
    "softplus": lambda x: np.where(x > 40, x, np.log1p(np.exp(np.minimum(x, 40)))),
    "atan": np.arctan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: (
        1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))
    ),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(np.minimum(x, 700)))),
    "hard_swish": lambda x: x * (np.clip(x + 3, 0, 6) / 6),
}


def floats() -> Array:
    """Floats of every exponent and both signs, subnormal ones, edges, and many around 0."""
    bits = np.arange(0, 2**32, 49999, dtype=np.uint64).astype(np.uint32)
    powers = np.ldexp(np.float32(1), np.arange(-149, 128)).astype(np.float32)
    near = [np.nextafter(powers, to, dtype=np.float32) for to in (np.float32(0), np.inf)]
    special = [0.0, np.inf, np.nan, 88.722, 88.73, 87.3, 103.9, 104.0, 1e-45, 3.4e38, 709.0]
    quarters = (np.arange(1, 4000) * (np.pi / 2)).astype(np.float32)
    far = quarters * np.float32(2.0**18)
    both = np.concatenate([powers, *near, np.array(special, np.float32), quarters, far])
    around = np.linspace(-20, 20, 20001).astype(np.float32)
    return np.concatenate([bits.view(np.float32), both, -both, around])


@pytest.fixture(scope="module")
def results() -> dict[str, Array]:
    """The value of every function at `x`, from one program."""
    names = [bound.name for bound in FUNCTIONS] + list(COMPOSED)
    text = (
        "dynamic { x: f32[N]; } volatile {"
        + "".join(f" v_{name}: f32[N];" for name in names)
        + "} block entry {"
        + "".join(f" op {name}(x) >> v_{name};" for name in names)
        + " return; }"
    )
    x = floats()
    with oi.compile(oi.graph(text)).make_executor(1) as executor:
        found = {name[2:]: np.asarray(y) for name, y in executor.run(x=x).items()}
    return {"x": x, **found}


def exact(name: str, x: Array) -> Array:
    function = EXACT.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        return function(x.astype(np.float64))


@pytest.mark.parametrize("bound", FUNCTIONS, ids=lambda bound: bound.name)
def test_functions(bound: Bound, results: dict[str, Array]) -> None:
    x, y = results["x"], results[bound.name]
    check(bound, x, y, exact(bound.name, x))


def check(bound: Bound, x: Array, y: Array, want: Array) -> None:
    """Values y at x against what they are in float64."""
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(rounded))
    infinite = np.isinf(rounded)
    np.testing.assert_array_equal(y[infinite], rounded[infinite])
    finite = np.isfinite(rounded)
    assert np.isfinite(y[finite]).all()
    large = finite & (abs(want) >= bound.cut)
    unit = np.spacing(abs(rounded[large])).astype(np.float64)
    error = abs(y[large] - want[large]) / unit
    worst = int(error.argmax())
    assert error[worst] <= bound.units, f"{error[worst]:.3f} units at {x[large][worst]!r}"
    small = finite & ~large
    assert (abs(y[small] - want[small]) <= bound.cut).all()


@pytest.mark.parametrize("bound", PAIRS, ids=lambda bound: bound.name)
def test_functions_of_two(bound: Bound) -> None:
    """Each edge with each, points of every direction and size, and axes."""
    some = np.resize(floats(), 40000)
    edges = np.array([0, 1, 1e-45, 2.0**-126, 1e-20, 3e38, np.inf, 2.5, np.nan], np.float32)
    edges = np.concatenate([edges, -edges])
    near = np.linspace(-3, 3, 601).astype(np.float32)
    a = np.concatenate([some, np.repeat(edges, len(edges)), np.repeat(near, 9)])
    b = np.concatenate([np.roll(some[::-1], 7), np.tile(edges, len(edges)), np.tile(near, 9)])
    text = f"""
    dynamic {{ a: f32[N]; b: f32[N]; }}
    block entry {{ assign y: f32[N]; op {bound.name}(a, b) >> y; return y; }}
    """
    with oi.compile(oi.graph(text)).make_executor(1) as executor:
        y = np.asarray(executor.run(a=a, b=b)["y"])
    want = np.arctan2(a.astype(np.float64), b.astype(np.float64))
    check(bound, np.stack([a, b], 1), y, want)
    zeros = want == 0
    np.testing.assert_array_equal(np.signbit(y[zeros]), np.signbit(want[zeros]))


@pytest.mark.parametrize("name", COMPOSED)
def test_composed_functions(name: str, results: dict[str, Array]) -> None:
    x, y = results["x"], results[name]
    want = exact(name, x)
    with np.errstate(over="ignore"):
        finite = np.isfinite(x) & np.isfinite(want.astype(np.float32))
    error = abs(y[finite] - want[finite]) / np.maximum(1, abs(x[finite].astype(np.float64)))
    assert error.max() <= COMPOSED[name], f"{error.max():.3g} at {x[finite][error.argmax()]!r}"
    assert (np.isnan(y) == np.isnan(want))[~np.isinf(x)].all()


@pytest.mark.parametrize("name", ["sin", "tanh", "erf", "expm1", "log1p", "tan", "atan", "elu"])
def test_the_sign_of_zero_stays(name: str, results: dict[str, Array]) -> None:
    x, y = results["x"], results[name]
    np.testing.assert_array_equal(np.signbit(y[x == 0]), np.signbit(x[x == 0]))


@pytest.mark.parametrize("target", ["generic", "avx2"])
def test_circular_functions_on_other_targets(target: str) -> None:
    text = """
    dynamic { x: f32[N]; } volatile { s: f32[N]; c: f32[N]; }
    block entry { op sin(x) >> s; op cos(x) >> c; return; }
    """
    x = floats()[::7]
    x = x[np.isfinite(x)]
    program = oi.compile(oi.graph(text), target=target)
    skip_unless_it_runs(target)
    with program.make_executor(1) as executor:
        found = executor.run(x=x)
    for name, function in (("s", np.sin), ("c", np.cos)):
        want = function(x.astype(np.float64))
        unit = np.spacing(np.maximum(abs(want), 2.0**-126).astype(np.float32))
        assert (abs(np.asarray(found[name]) - want) <= 0.6 * unit).all()


def test_the_document_has_the_table() -> None:
    assert accuracy_table() in DOCUMENT.read_text(encoding="utf-8")
