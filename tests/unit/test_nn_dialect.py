"""How the verifiers of `nn` compare sizes: known, named, and unknown ones of buffers."""

from __future__ import annotations

import pytest
from xdsl.dialects import test as made
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, TensorType, f32
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects import nn
from openinfer.dialects.nn.checks import (
    Dims,
    ceil_div,
    joined,
    plus,
    same,
    shape_of,
    stretches,
    text,
    times,
)
from openinfer.runtime.sizes import Size

N, M = Size.name("N"), Size.name("M")


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((4, 1), (8,), (4, 8)),
        ((), (3, 2), (3, 2)),
        ((), (), ()),
        ((N, 1), (1, M), (N, M)),
        ((N, 4), (M, 4), None),
        ((N,), (4,), None),
        ((None,), (4,), (4,)),
        ((None,), (1,), (None,)),
        ((4,), (None,), (4,)),
        ((3,), (4,), None),
    ],
)
def test_joined(left: Dims, right: Dims, expected: Dims | None) -> None:
    assert joined(left, right) == expected


def test_stretches_aligns_at_the_right() -> None:
    assert stretches((8,), (N, 8))
    assert stretches((1, 8), (N, 8))
    assert stretches((None, 8), (N, 8))
    assert not stretches((N, 8), (8,))
    assert not stretches((M, 8), (N, 8))
    assert not stretches((4,), (1,))


def test_sizes_are_compared_as_expressions() -> None:
    assert same((N * 2 + N,), (3 * N,))
    assert not same((N,), (M,))
    assert same((None, 4), (7, 4))
    assert not same((None,), (7, 4))


def test_arithmetic_keeps_what_is_unknown() -> None:
    assert times((2, N)) == 2 * N
    assert times((2, None)) is None
    assert times(()) == 1
    assert plus((N, -N + 3)) == 3
    assert plus((1, None)) is None
    assert ceil_div(20, 16) == 2
    assert ceil_div(0, 16) == 0
    assert ceil_div(None, 16) is None


def test_shape_of_tensors_and_buffers() -> None:
    tensor = made.TestOp(result_types=[nn.tensor_type(f32, (N, 8))]).results[0]
    assert shape_of(tensor) == (N, 8)
    assert text(shape_of(tensor)) == "[N, 8]"
    buffer = made.TestOp(result_types=[MemRefType(f32, [DYNAMIC_INDEX, 8])]).results[0]
    assert shape_of(buffer) == (None, 8)
    assert text(shape_of(buffer)) == "[?, 8]"
    scalar = made.TestOp(result_types=[f32]).results[0]
    with pytest.raises(VerifyException, match="expected a tensor or a memref, found f32"):
        shape_of(scalar)
    nameless = made.TestOp(result_types=[TensorType(f32, [DYNAMIC_INDEX])]).results[0]
    with pytest.raises(VerifyException, match=r"#nn\.dims that names them"):
        shape_of(nameless)
