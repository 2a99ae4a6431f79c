"""Elementary functions: polynomials against float64 over all of f32, the library for the rest."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from openinfer.lowering.cpu.jit import CompiledFunction, compile_loops

Array = np.ndarray[Any, Any]


@cache
def compiled(op: str, element: str = "f32", operands: int = 1) -> CompiledFunction:
    """The op on vectors of 16, and on numbers for what is left over."""
    arguments = ", ".join(f"%x{i}: memref<?x{element}>" for i in range(operands))
    vectors = ", ".join(f"%v{i}" for i in range(operands))
    numbers = ", ".join(f"%s{i}" for i in range(operands))
    memref, lanes = f"memref<?x{element}>", f"vector<16x{element}>"
    loads = "\n".join(f"%v{i} = vector.load %x{i}[%i] : {memref}, {lanes}" for i in range(operands))
    scalar_loads = "\n".join(f"%s{i} = memref.load %x{i}[%i] : {memref}" for i in range(operands))
    text = f"""
    func.func @f({arguments}, %y: {memref}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c16 = arith.constant 16 : index
      %n = memref.dim %x0, %c0 : {memref}
      %rest = arith.remsi %n, %c16 : index
      %full = arith.subi %n, %rest : index
      scf.for %i = %c0 to %full step %c16 {{
        {loads}
        %w = math.{op} {vectors} : {lanes}
        vector.store %w, %y[%i] : {memref}, {lanes}
      }}
      scf.for %i = %full to %n step %c1 {{
        {scalar_loads}
        %t = math.{op} {numbers} : {element}
        memref.store %t, %y[%i] : {memref}
      }}
      func.return
    }}"""
    return compile_loops(text, "f")


def sample() -> Array:
    """Floats of every exponent and both signs, and the special ones; the count leaves a rest."""
    bits = np.arange(0, 2**32, 9973, dtype=np.uint64).astype(np.uint32)
    special = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 88.722, 88.73, -87.3, 1e-45, 3.4e38],
        np.float32,
    )
    near = np.linspace(-20, 20, 20001).astype(np.float32)
    return np.concatenate([bits.view(np.float32), near, special])


def erf(x: Array) -> Array:
    return np.array([math.erf(value) for value in x])


# Largest relative error, and the value below which a result may be cut to 0.
FUNCTIONS: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "exp": (np.exp, 1e-7, 2.0**-125.5),
    "exp2": (np.exp2, 1e-7, 2.0**-125.5),
    "expm1": (np.expm1, 2e-7, 0.0),
    "tanh": (np.tanh, 2.5e-7, 0.0),
    "erf": (erf, 1.2e-7, 2.0**-126),
    "log": (np.log, 1.2e-7, 0.0),
    "log2": (np.log2, 2e-7, 0.0),
    "log1p": (np.log1p, 2e-7, 0.0),
    "atan": (np.arctan, 2e-7, 0.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(name: str) -> None:
    reference, bound, smallest = FUNCTIONS[name]
    x = sample()
    y = np.zeros_like(x)
    compiled(name)(x, y)
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64))
        rounded = exact.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(rounded))
    infinite = np.isinf(rounded)
    np.testing.assert_array_equal(y[infinite], rounded[infinite])
    assert np.isfinite(y[np.isfinite(rounded)]).all()
    normal = np.isfinite(rounded) & (abs(exact) >= max(smallest, 2.0**-126))
    error = abs(y[normal].astype(np.float64) - exact[normal]) / abs(exact[normal])
    assert error.max() <= bound, f"at {x[normal][error.argmax()]!r}: {error.max():.2e}"
    tiny = np.isfinite(rounded) & ~normal
    assert (abs(y[tiny] - exact[tiny]) <= max(smallest, 2.0**-149)).all()


def test_erfc_is_good_enough_for_gelu() -> None:
    x = sample()
    y = np.ones_like(x)
    compiled("erfc")(x, y)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(x))
    known = ~np.isnan(x)
    want = np.array([math.erfc(value) for value in x[known].tolist()])
    assert abs(y[known] - want).max() <= 1.5e-7
    assert (y[x > 9] == 0).all()
    assert (y[x < -5] == 2).all()


@pytest.mark.parametrize("name", ["expm1", "tanh", "erf", "log1p", "tan", "atan"])
def test_signed_zero(name: str) -> None:
    x = np.array([0.0, -0.0] * 9, np.float32)
    y = np.ones_like(x)
    compiled(name)(x, y)
    np.testing.assert_array_equal(y, 0)
    np.testing.assert_array_equal(np.signbit(y), np.signbit(x))


def test_no_call_is_left_on_vectors() -> None:
    for name in FUNCTIONS:
        text = compiled(name).llvm_text
        for line in text.splitlines():
            assert "call" not in line or "fabs" in line or "copysign" in line or "@f(" in line, line


def test_half_floats_are_widened() -> None:
    x = np.linspace(-4, 4, 37).astype(np.float16)
    y = np.zeros_like(x)
    compiled("exp", "f16")(x, y)
    np.testing.assert_array_equal(y, np.exp(x.astype(np.float64)).astype(np.float16))


UNARY: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "erf": erf,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
EXACT: dict[str, Callable[[Array], Array]] = {
    "absf": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "roundeven": np.rint,
    "sqrt": np.sqrt,
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_library_functions(name: str, element: str) -> None:
    kind = {"f32": np.float32, "f64": np.float64}[element]
    x = np.linspace(0.05, 0.95, 18).astype(kind)
    if name == "acosh":
        x += 1
    y = np.zeros_like(x)
    compiled(name, element)(x, y)
    tolerance = 3e-7 if element == "f32" else 1e-14
    np.testing.assert_allclose(y, UNARY[name](x.astype(np.float64)), rtol=tolerance)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_exact_functions(name: str, element: str) -> None:
    kind = {"f32": np.float32, "f64": np.float64}[element]
    values = [0.5, -0.5, 1.5, 2.5, -2.5, 1e9, -0.0, np.inf, np.nan, 0.25, -3.75, 7, 100.5, -1, 2, 3]
    x = np.array([*values, 2.5], kind)
    y = np.zeros_like(x)
    compiled(name, element)(x, y)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, EXACT[name](x))


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_binary_and_ternary_functions(element: str) -> None:
    kind = {"f32": np.float32, "f64": np.float64}[element]
    tolerance = 3e-7 if element == "f32" else 1e-14
    x = np.linspace(0.1, 3, 17).astype(kind)
    z = np.linspace(-2, 2, 17).astype(kind)
    y = np.zeros_like(x)
    compiled("powf", element, 2)(x, z, y)
    np.testing.assert_allclose(y, x.astype(float) ** z, rtol=tolerance)
    compiled("atan2", element, 2)(x, z, y)
    np.testing.assert_allclose(y, np.arctan2(x.astype(float), z), rtol=tolerance)
    compiled("copysign", element, 2)(x, z, y)
    np.testing.assert_array_equal(y, np.copysign(x, z))
    compiled("fma", element, 3)(x, z, x, y)
    np.testing.assert_allclose(y, x.astype(np.longdouble) * z + x, rtol=tolerance, atol=1e-7)


def test_absolute_integers() -> None:
    x = np.array([-3, 3, 0, -(2**31), 7], np.int32)
    y = np.zeros_like(x)
    compiled("absi", "i32")(x, y)
    np.testing.assert_array_equal(y, np.abs(x))
