"""Functions of f64 on a device: polynomials, against the C library's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi

FUNCTIONS: dict[str, Any] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
}
LIMITS = {"exp": 1.5, "log": 1.5}
"""Units of the last place; 4 for the others."""
ODD = [
    *(
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        -1.0,
        1.0,
        2.0,
        0.5,
        5e-324,
        -5e-324,
        2.3e-308,
        1e308,
        -1e308,
    ),
    *(
        709.7827128933841,
        709.79,
        -708.4,
        -745.1,
        -745.2,
        1024.0,
        1023.9999,
        -1074.0,
        -1075.5,
        1e-17,
        40.1,
    ),
]


def numbers() -> Any:
    draw = np.random.default_rng(4)
    parts = [draw.uniform(-750, 750, 3000), draw.uniform(-1, 2, 3000), draw.standard_normal(1000)]
    parts.append(10.0 ** draw.uniform(-320, 308, 1500) * draw.choice([1, 1, -1], 1500))
    return np.concatenate([*parts, 1 + draw.standard_normal(500) * 1e-6, ODD])


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    names = list(FUNCTIONS)
    calls = " ".join(f"assign {name}_: f64[N]; op {name}(x) >> {name}_;" for name in names)
    results = ", ".join(f"{name}_" for name in names)
    text = f"dynamic {{ x: f64[N]; }} block entry {{ {calls} return {results}; }}"
    program = oi.compile(text, device="vulkan", fallback=False)
    with program.make_executor() as executor:
        return {name: np.array(value) for name, value in executor.run(x=numbers()).items()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_f64(name: str, vulkan: None, found: dict[str, Any]) -> None:
    x = numbers()
    with np.errstate(all="ignore"):
        # In more digits than f64 has: the library's own error is no part of what is measured.
        exact = FUNCTIONS[name](x.astype(np.longdouble))
        wanted = exact.astype(np.float64)
    have = found[f"{name}_"]
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(have[~finite], wanted[~finite])
    zeros = finite & (wanted == 0) & (x == 0)
    np.testing.assert_array_equal(np.signbit(have[zeros]), np.signbit(wanted[zeros]))
    units = np.abs(have[finite] - exact[finite]) / np.spacing(np.abs(wanted[finite]))
    worst = int(np.argmax(units))
    assert units[worst] <= LIMITS.get(name, 4), (x[finite][worst], have[finite][worst])


TEXT = """
dynamic { x: f64[6, 70]; q: f64[1, 2, 5, 16]; k: f64[1, 2, 9, 16]; }
block entry {
    assign a: f64[6, 70]; assign b: f64[6, 70]; assign c: f64[6]; assign e: f64[6, 70];
    assign d: f64[1, 2, 5, 16];
    op softmax(x, axis=1) >> a; op silu(x) >> b; op logsumexp(x, axes=[1]) >> c;
    op attention(q, k, k) >> d; op softplus(x) >> e;
    return a, b, c, d, e;
}
"""


def test_ops_of_functions(everything_on_vulkan: None) -> None:
    draw = np.random.default_rng(9)
    inputs = {"x": draw.standard_normal((6, 70)) * 20}
    inputs |= {"q": draw.standard_normal((1, 2, 5, 16)), "k": draw.standard_normal((1, 2, 9, 16))}
    have = oi.compile(TEXT, device="vulkan", fallback=False).make_executor().run(**inputs)
    for name, value in oi.Simulator(TEXT).make_executor().run(**inputs).items():
        np.testing.assert_allclose(
            np.asarray(have[name]), value, rtol=1e-13, atol=1e-15, err_msg=name
        )
