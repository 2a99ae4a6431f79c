"""Float operands of different dtypes: they meet in the wider one, in f32 where both are as wide."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dialects import opset
from openinfer.dialects.opset import TensorSpec
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import round_values, to_storage, to_values
from openinfer.runtime.tensors import Tensor

FLOATS = [row.name for row in DTYPES.values() if row.is_float]
RANDOM = np.random.default_rng(7)


def both(text: str, **inputs: Any) -> list[dict[str, Any]]:
    """The results on each executor."""
    found: list[dict[str, Any]] = []
    for made in (oi.compile(text), oi.Simulator(text)):
        with made.make_executor() as executor:
            results = executor.run(**inputs)
            found.append(
                {k: v.values() if isinstance(v, Tensor) else v for k, v in results.items()}
            )
    return found


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        ("f16", "bf16", "f32"),
        ("f16", "f32", "f32"),
        ("f64", "bf16", "f64"),
        ("f8", "f16", "f16"),
        ("bf16", "f8e4m3", "bf16"),
        ("f8", "f8e4m3", "f32"),
        ("f16", "f16", "f16"),
    ],
)
def test_where_two_meet(left: str, right: str, wanted: str) -> None:
    for name in ("add", "concat", "matmul", "max"):
        spec = opset.find(name)
        assert spec is not None
        shape = (2, 2)
        for pair in ((left, right), (right, left)):
            (found,) = opset.infer_outputs(spec, [TensorSpec.of(d, shape) for d in pair])
            assert found.dtype == wanted


@pytest.mark.parametrize("pair", [*itertools.combinations(FLOATS, 2)], ids="-".join)
def test_every_pair_on_both_executors(pair: tuple[str, str]) -> None:
    """As if the narrower one had been cast: the same bits, whatever the order."""
    common = opset.promote_floats(pair)
    arrays = [Tensor.from_values(d, RANDOM.standard_normal(37)) for d in pair]
    wide = [round_values(DTYPES[common], a.values()) for a in arrays]
    x, y = (
        to_values(DTYPES[common], to_storage(DTYPES[common], w), w.shape).astype(np.float64)
        for w in wide
    )
    exact = {"add": x + y, "mul": x * y, "max": np.maximum(x, y), "sub": x - y}
    text = f"dynamic {{ x: {pair[0]}[N]; y: {pair[1]}[N]; }} block entry {{ "
    text += "".join(f"assign {name}: _; op {name}(x, y) >> {name}; " for name in exact)
    compiled, simulated = both(f"{text} return {', '.join(exact)}; }}", x=arrays[0], y=arrays[1])
    for name, value in exact.items():
        work = value if common == "f64" else value.astype(np.float32)
        np.testing.assert_array_equal(compiled[name], simulated[name])
        np.testing.assert_array_equal(simulated[name], round_values(DTYPES[common], work))


def test_other_ops_than_arithmetic() -> None:
    x = np.array([1.5, -2.0, 3.0], np.float16)
    y = np.array([1.5, 2.0, 1e-3], np.float32)
    c, i = np.array([True, False, True]), np.array([2, 0])
    wide = x.astype(np.float32)
    scattered = wide.copy()
    scattered[i] += y[i]
    wanted = {
        "lt(x, y)": wide < y,
        "eq(y, x)": wide == y,
        "where(c, x, y)": np.where(c, wide, y),
        "filter(y, x, c)": np.where(c, y, wide),
        "fma(x, y, x)": wide * y + wide,
        "concat(x, y, x)": np.concatenate([wide, y, wide]),
        "min(x, y)": np.minimum(wide, y),
        'scatter(x, i, u, mode="add")': scattered,
    }
    text = "dynamic { x: f16[N]; y: f32[N]; c: bool[N]; i: i64[M]; } block entry { "
    text += "assign u: f32[M]; op gather(y, i) >> u; "
    text += "".join(f"assign z{n}: _; op {call} >> z{n}; " for n, call in enumerate(wanted))
    text += f"return {', '.join(f'z{n}' for n in range(len(wanted)))}; }}"
    for found in both(text, x=x, y=y, c=c, i=i):
        for value, expected in zip(found.values(), wanted.values()):
            assert value.dtype == expected.dtype
            np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_the_declared_output_decides() -> None:
    text = "dynamic { x: f16[N]; y: bf16[N]; } volatile { z: f16[N]; } "
    text += "block entry { op add(x, y) >> z; return z; }"
    x = Tensor.from_values("f16", [1.0, 2.0])
    y = Tensor.from_values("bf16", [2.0**-12, 256.0])
    for found in both(text, x=x, y=y):
        assert found["z"].dtype == np.float16
        np.testing.assert_array_equal(
            found["z"], np.array([1 + 2.0**-12, 258], np.float32).astype("f2")
        )


def test_numbers_of_settings_are_in_the_common_dtype() -> None:
    """0.1 is rounded to f32, not to the f16 of the first operand."""
    text = (
        "dynamic { x: f16[N]; y: f32[N]; s: f64; } "
        "block entry { assign z: _; op div(x, y, div_by_zero_mask=s) >> z; return z; }"
    )
    for found in both(text, x=np.ones(2, np.float16), y=np.zeros(2, np.float32), s=0.1):
        np.testing.assert_array_equal(found["z"], np.full(2, 0.1, np.float32))


def test_on_a_device() -> None:
    text = (
        "dynamic { x: f16[N]; y: bf16[N]; } "
        "block entry { assign z: _; op mul(x, y) >> z; return z; }"
    )
    try:
        executor = oi.compile(text, device="vulkan:0").make_executor()
    except (oi.UnsupportedError, oi.InputError) as error:
        pytest.skip(str(error))
    x, y = RANDOM.standard_normal(50).astype(np.float16), RANDOM.standard_normal(50)
    with executor:
        other = Tensor.from_values("bf16", y)
        found = executor.run(x=x, y=other)["z"]
        np.testing.assert_array_equal(found, x.astype(np.float32) * other.values())


@pytest.mark.parametrize(("left", "right"), [("f32", "i32"), ("i8", "i32"), ("u8", "i8")])
def test_integers_and_floats_do_not_mix(left: str, right: str) -> None:
    text = (
        f"dynamic {{ x: {left}[N]; y: {right}[N]; }} "
        "block entry { assign z: _; op max(x, y) >> z; return z; }"
    )
    with pytest.raises(oi.ProgramError, match=f"x is {left} but y is {right}"):
        oi.compile(text)


def test_products_round_once_to_the_dtype_where_their_operands_meet() -> None:
    text = "dynamic { x: f8[3, 20]; y: f16[20, 4]; } "
    text += "block entry { assign z: _; op matmul(x, y) >> z; return z; }"
    x = Tensor.from_values("f8", RANDOM.standard_normal((3, 20)))
    y = RANDOM.standard_normal((20, 4)).astype(np.float16)
    exact = x.values().astype(np.float64) @ y.astype(np.float64)
    for found in both(text, x=x, y=y):
        assert found["z"].dtype == np.float16
        np.testing.assert_allclose(found["z"], exact, rtol=2e-3, atol=2e-3)
