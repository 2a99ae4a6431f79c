"""Batch norm and group norm against PyTorch, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_runs import Draws, by_program, by_twin, to_torch, torch_functions

from openinfer.dialects.ops.base import OpDTypeError, OpError, SettingError, ShapeError
from openinfer.dialects.opset import TensorSpec, find, infer_outputs

DRAWS = Draws(3)
normal = DRAWS.normal


SHAPES = [(2, 6), (2, 6, 5), (3, 4, 2, 3), (1, 2, 3, 4, 2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_norms_are_pytorchs(shape: tuple[int, ...]):
    functions = torch_functions()
    x, channels = normal(*shape), shape[1]
    mean, variance, weight, bias = (normal(channels) for _ in range(4))
    variance = np.abs(variance)
    operands = [to_torch(v) for v in (mean, variance, weight, bias)]
    expected = functions.batch_norm(to_torch(x), *operands, training=False, eps=1e-3).numpy()
    (found,) = by_twin("batch_norm", [x, mean, variance, weight, bias], {"eps": 1e-3})
    np.testing.assert_allclose(found, expected, atol=1e-12)
    expected = functions.batch_norm(to_torch(x), *operands[:2]).numpy()
    np.testing.assert_allclose(by_twin("batch_norm", [x, mean, variance])[0], expected, atol=1e-12)
    for groups in (1, 2, channels):
        expected = functions.group_norm(to_torch(x), groups, *operands[2:]).numpy()
        (found,) = by_twin("group_norm", [x, weight, bias], {"groups": groups})
        np.testing.assert_allclose(found, expected, atol=1e-12)
    if len(shape) > 2:
        expected = functions.instance_norm(to_torch(x)).numpy()
        (found,) = by_twin("group_norm", [x], {"groups": channels})
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_compiled_norms_are_pytorchs():
    functions = torch_functions()
    x = normal(2, 6, 5, 7).astype(np.float32) * 3 + 100
    vectors = [normal(6).astype(np.float32) for _ in range(4)]
    vectors[0], vectors[1] = vectors[0] + 100, np.abs(vectors[1])
    names = {0: ["N", "6", "H", "W"]}
    operands = [to_torch(v) for v in vectors]
    expected = functions.batch_norm(to_torch(x), *operands).numpy()
    ((_, found),) = by_program("batch_norm", [x, *vectors], names=names)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    expected = functions.group_norm(to_torch(x), 3, *operands[2:]).numpy()
    ((_, found),) = by_program("group_norm", [x, *vectors[2:]], {"groups": 3}, names=names)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_channel_axis_of_batch_norm():
    x, vectors = normal(2, 3, 5), [normal(5), np.abs(normal(5))]
    (last,) = by_twin("batch_norm", [x, *vectors], {"axis": -1})
    (second,) = by_twin("batch_norm", [np.swapaxes(x, 1, 2), *vectors])
    np.testing.assert_array_equal(last, np.swapaxes(second, 1, 2))


def test_large_means_do_not_cancel():
    """x - mean is made first: x * factor - mean * factor would lose what is left."""
    x = np.float32(1e6) + np.arange(8, dtype=np.float32).reshape(1, 1, 8)
    mean, variance = np.full(1, 1e6, np.float32), np.ones(1, np.float32)
    ((_, found),) = by_program("batch_norm", [x, mean, variance], {"eps": 0.0})
    np.testing.assert_array_equal(found.ravel(), np.arange(8))


X, V = TensorSpec.of("f32", [2, 6, 5]), TensorSpec.of("f32", [6])


@pytest.mark.parametrize(
    ("op", "operands", "settings", "error", "message"),
    [
        ("batch_norm", [X, V, TensorSpec.of("f32", [5])], {}, ShapeError, "variance has shape [5]"),
        ("batch_norm", [X, V, TensorSpec.of("i32", [6])], {}, OpDTypeError, "variance is i32"),
        ("batch_norm", [X, V, V], {"axis": 3}, SettingError, "out of range"),
        ("batch_norm", [X, V, V], {"eps": -1.0}, SettingError, "negative"),
        ("batch_norm", [V, V, V], {}, ShapeError, "x is f32[6]"),
        ("group_norm", [X], {"groups": 4}, ShapeError, "6 channels of x do not divide by 4"),
        ("group_norm", [X], {"groups": 0}, SettingError, "groups=0 is not positive"),
        ("group_norm", [X, TensorSpec.of("f32", [5])], {}, ShapeError, "weight has shape [5]"),
        ("group_norm", [V], {}, ShapeError, "x is f32[6]"),
    ],
)  # fmt: skip
def test_refusals(
    op: str,
    operands: list[TensorSpec],
    settings: dict[str, Any],
    error: type[OpError],
    message: str,
):
    spec = find(op)
    assert spec is not None
    with pytest.raises(error) as raised:
        infer_outputs(spec, operands, settings)
    assert message in raised.value.message
