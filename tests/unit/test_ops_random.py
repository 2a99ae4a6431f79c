"""random_uniform: the published generator, and the same bits wherever it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dialects.opset import OpError, TensorSpec, find, infer_outputs
from openinfer.lowering.reference.random import GAMMA, mixed
from openinfer.lowering.reference.twins import evaluate
from openinfer.runtime.tensors import Tensor

DTYPES = ("f64", "f32", "f16", "bf16", "f8", "f8e4m3")
# The first outputs of SplitMix64 for seed 0 and 1234567, as its reference implementation gives them.
PUBLISHED = {
    0: (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F),
    1234567: (6457827717110365317, 3203168211198807973, 9817491932198370423),
}


@pytest.mark.parametrize("seed", PUBLISHED)
def test_the_generator_is_the_published_one(seed: int) -> None:
    place = np.arange(1, 4, dtype=np.uint64)
    found = mixed(np.uint64(seed) + place * np.uint64(GAMMA))
    assert found.tolist() == list(PUBLISHED[seed])


def twin(*shape: int, dtype: str = "f32", **settings: Any) -> Any:
    return evaluate("random_uniform", [], [], {"shape": shape, "dtype": dtype, **settings})[0]


def test_seed_0_begins_with_the_published_numbers() -> None:
    """The seed is mixed first, and 0 stays 0."""
    expected = [n >> 11 for n in PUBLISHED[0]]
    assert (twin(3, dtype="f64") * 2**53).tolist() == expected
    assert (twin(3) * 2**24).tolist() == [n >> 40 for n in PUBLISHED[0]]


def test_a_position_says_its_number() -> None:
    np.testing.assert_array_equal(twin(4, 5).reshape(-1), twin(20))
    np.testing.assert_array_equal(twin(30)[:20], twin(20))
    assert not (twin(20, seed=1) == twin(20, seed=2)).any()
    np.testing.assert_array_equal(twin(9, seed=-1), twin(9, seed=-1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_even(dtype: str) -> None:
    values = twin(20000, dtype=dtype, seed=3).astype(np.float64)
    assert values.min() >= 0
    assert values.max() < 1
    # The mean of a grid of steps of 2**-bits is half a step below a half.
    step = 2.0 ** -{"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8": 3, "f8e4m3": 4}[dtype]
    assert abs(values.mean() - (0.5 - step / 2)) < 0.01
    assert abs(values.std() - np.sqrt((1 - step**2) / 12)) < 0.01
    counts = np.bincount((values * 8).astype(int), minlength=8)
    assert counts.min() > 2300
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 0.02


def test_the_range() -> None:
    values = twin(1000, low=-3.0, high=5.0, seed=1)
    assert -3 <= values.min() < -2.9
    assert 4.9 < values.max() <= 5
    assert (twin(5, low=2.0, high=2.0) == 2).all()


def test_the_shape_is_that_of_the_output() -> None:
    spec = find("random_uniform")
    assert spec is not None
    declared = [TensorSpec.of("f16", ("N", 3))]
    assert str(infer_outputs(spec, [], {}, declared=declared)[0]) == "f16[N, 3]"
    assert str(infer_outputs(spec, [], {"shape": [4]}, declared=declared)[0]) == "f16[4]"
    with pytest.raises(OpError, match="is not declared"):
        infer_outputs(spec, [], {})
    with pytest.raises(OpError, match="is not declared"):
        infer_outputs(spec, [], {}, declared=[TensorSpec.of("f32", ("_",))])
    with pytest.raises(OpError, match="does not give i8"):
        infer_outputs(spec, [], {"shape": [4], "dtype": "i8"})
    with pytest.raises(OpError, match="lies below low"):
        infer_outputs(spec, [], {"shape": [4], "low": 2, "high": 1})


PROGRAM = """dynamic {{ x: f32[N]; s: i64; }}
    volatile {{ a: {dtype}[N, 33]; b: {dtype}[7]; c: {dtype}[N]; }}
    block entry {{
      op random_uniform(seed=11) >> a;
      op random_uniform(seed=s, low=-2.7, high=3.1) >> b;
      op random_uniform(seed=s) >> c;
      return;
    }}"""


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_same_bits_everywhere(dtype: str) -> None:
    graph = oi.graph(PROGRAM.format(dtype=dtype))
    inputs = {"x": np.zeros(40, np.float32), "s": np.array(5)}
    expected = oi.Simulator(graph).make_executor().run(**inputs)
    program = oi.compile(graph)
    for threads in (1, 2, 5):
        found = program.make_executor(threads=threads).run(**inputs)
        for name, value in expected.items():
            left, right = (v.values() if isinstance(v, Tensor) else v for v in (found[name], value))
            np.testing.assert_array_equal(left, right, err_msg=f"{name} {threads}")


def test_a_step_may_have_a_seed_of_its_own() -> None:
    graph = oi.graph(PROGRAM.format(dtype="f32"))
    executor = oi.compile(graph).make_executor()
    x = np.zeros(3, np.float32)
    first = executor.run(x=x, s=np.array(1))
    again = executor.run(x=x, s=np.array(1))
    other = executor.run(x=x, s=np.array(2))
    np.testing.assert_array_equal(first["b"], again["b"])
    np.testing.assert_array_equal(first["a"], other["a"])
    assert not np.equal(first["b"], other["b"]).any()
