"""multinomial: the inverse of the distribution function, and the same indices wherever it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_runs import by_program, by_twin

import openinfer as oi
from openinfer.dialects.ops.random import MOST_CHOICES
from openinfer.dialects.opset import OpError, TensorSpec, find, infer_outputs
from openinfer.lowering.reference.twins import evaluate

RANDOM = np.random.default_rng(8)


def test_samples_are_where_the_sums_of_probabilities_pass_a_uniform_number() -> None:
    """By NumPy in f64, from the numbers of `random_uniform`; both cut the same bits."""
    p = RANDOM.random((3, 40))
    (found,) = by_twin("multinomial", [p], {"samples": 500, "seed": 3})
    settings = {"shape": (3, 500), "dtype": "f64", "seed": 3}
    (uniform,) = evaluate("random_uniform", [], [], settings)
    sums = np.cumsum(p, axis=1)
    for row, numbers, line in zip(found, uniform, sums):
        expected = np.searchsorted(line, numbers * line[-1], side="right")
        assert np.mean(row == expected) > 0.999


def test_each_index_comes_as_often_as_its_probability_says() -> None:
    p = np.array([0, 1, 2, 0, 4, 8, 1], np.float32)
    (found,) = by_twin("multinomial", [p], {"samples": 32000, "seed": 11})
    counts = np.bincount(found, minlength=7)
    expected = 2000 * p
    assert not counts[p == 0].any()
    spread = np.sum((counts - expected)[p > 0] ** 2 / expected[p > 0])
    assert spread < 18.5, "chi squared of 4 degrees of freedom, once in 1000"


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("shape", [(1,), (3, 17), (2, 2, 300)])
def test_the_same_indices_everywhere(shape: tuple[int, ...], dtype: Any) -> None:
    p = RANDOM.random(shape).astype(dtype)
    settings = {"samples": 33, "seed": 5}
    ((simulated, compiled),) = by_program("multinomial", [p], settings, names={0: "ABC"[: p.ndim]})
    np.testing.assert_array_equal(compiled, simulated)


def test_a_device_draws_the_same(everything_on_vulkan: None) -> None:
    text = """dynamic { p: f32[N, 50]; } volatile { y: i64[N, 40]; }
        block entry { op multinomial(p, samples=40, seed=9) >> y; return; }"""
    p = RANDOM.random((4, 50)).astype(np.float32)
    p[1], p[2, 3:] = 0, np.nan
    expected = oi.Simulator(text).make_executor().run(p=p)["y"]
    program = oi.compile(text, device="vulkan", fallback=False)
    np.testing.assert_array_equal(program.make_executor().run(p=p)["y"], expected)
    assert (np.asarray(expected)[1] == -1).all()
    assert np.asarray(expected)[2].max() == 2


def test_what_is_no_probability_is_never_drawn() -> None:
    p = np.array([[np.nan, -1, 0, 2], [1, np.inf, 3, np.inf], [0, -2, np.nan, -0.0]], np.float32)
    for found in by_program("multinomial", [p], {"samples": 100})[0]:
        assert set(found[0]) == {3}
        assert set(found[1]) == {1, 3}
        assert set(found[2]) == {-1}


def test_seed_and_samples_may_be_variables() -> None:
    text = """dynamic { p: f32[9]; s: i64; n: i32; } block entry {
        assign y: i64[_]; op multinomial(p, samples=n, seed=s) >> y; return y; }"""
    p = RANDOM.random(9).astype(np.float32)
    found: list[Any] = []
    for maker in (oi.Simulator(text), oi.compile(text)):
        with maker.make_executor() as executor:
            drawn = [executor.run(p=p, s=s, n=np.int32(20))["y"] for s in (1, 1, 2)]
            with pytest.raises(oi.StepError):
                executor.run(p=p, s=1, n=np.int32(-1))
        assert np.array_equal(drawn[0], drawn[1])
        assert not np.array_equal(drawn[0], drawn[2])
        found.append(drawn[0])
    np.testing.assert_array_equal(*found)
    (twin,) = by_twin("multinomial", [p], {"samples": 20, "seed": 1})
    np.testing.assert_array_equal(found[0], twin)


@pytest.mark.parametrize(
    ("dtype", "dims", "settings", "message"),
    [
        ("f32", [], {}, "a row for each draw"),
        ("f32", [3, 0], {}, "0 probabilities"),
        ("f32", [MOST_CHOICES + 1], {}, f"use 1 to {MOST_CHOICES}"),
        ("f32", [3], {"samples": -1}, "samples holds -1"),
        ("i32", [3], {}, "does not take i32"),
    ],
)
def test_refusals(dtype: str, dims: list[int], settings: dict[str, Any], message: str) -> None:
    spec = find("multinomial")
    assert spec is not None
    with pytest.raises(OpError) as raised:
        infer_outputs(spec, [TensorSpec.of(dtype, dims)], settings)
    assert message in str(raised.value) + str(raised.value.hint)
