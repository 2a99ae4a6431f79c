"""The shortest chain of a view gives what the chain that it was made of gives, element by element."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

from openinfer.lowering.graph.imports.views import Dims, Reshape, Slice, Step, Transpose, View
from openinfer.runtime.sizes import Size

B = {"B": 3}
Array = np.ndarray[Any, Any]


def numbers(dims: Sequence[Size]) -> list[int]:
    return [dim.evaluate(B) for dim in dims]


def done(array: Array, steps: Sequence[Step]) -> Array:
    """What NumPy makes of the steps."""
    for step in steps:
        match step:
            case Reshape():
                array = array.reshape(numbers(step.dims))
            case Transpose():
                array = array.transpose(step.order)
            case Slice():
                start, stop = numbers([step.start, step.stop])
                array = array.take(range(start, stop), axis=step.axis)
    return array


def a_step(draw: random.Random, dims: Dims) -> Step:
    """A step that a chain may go on with: axes joined, split, moved, or one of equal parts of an axis."""
    axis = draw.randrange(len(dims))
    extent = dims[axis].constant
    match draw.randrange(4):
        case 0 if len(dims) > 1:
            axis = draw.randrange(len(dims) - 1)
            return Reshape((*dims[:axis], dims[axis] * dims[axis + 1], *dims[axis + 2 :]))
        case 1 if len(dims) < 6:
            factor = draw.choice([1, 2, 3, 4])
            if (dims[axis] // factor) * factor == dims[axis]:
                parts = [Size.of(factor), dims[axis] // factor]
                draw.shuffle(parts)
                return Reshape((*dims[:axis], *parts, *dims[axis + 1 :]))
        case 2 if extent is not None:
            length = draw.choice([one for one in range(1, extent + 1) if extent % one == 0])
            start = length * draw.randrange(extent // length)
            return Slice(axis, Size.of(start), Size.of(start + length))
        case _:
            pass
    return Transpose(tuple(draw.sample(range(len(dims)), len(dims))))


def after(dims: Dims, step: Step) -> Dims:
    match step:
        case Reshape():
            return step.dims
        case Transpose():
            return tuple(dims[axis] for axis in step.order)
        case Slice():
            return (*dims[: step.axis], step.stop - step.start, *dims[step.axis + 1 :])


@pytest.mark.parametrize("seed", range(4))
def test_the_shortest_chain_is_the_same_view(seed: int) -> None:
    draw = random.Random(seed)
    shorter = found = 0
    for _ in range(250):
        first: Dims = tuple(map(Size.of, draw.choice([("B", 4, 12), (6, "B", 8), ("B", 1, 24)])))
        array = np.arange(prod(numbers(first))).reshape(numbers(first))
        view, dims, chain = View.of(first), first, list[Step]()
        for _ in range(draw.randrange(1, 7)):
            step = a_step(draw, dims)
            chain.append(step)
            dims = after(dims, step)
            if not view.apply(step):
                break
        else:
            assert view.result == dims
            steps = view.steps(dims)
            if steps is not None:
                np.testing.assert_array_equal(done(array, steps), done(array, chain))
                found += 1
                shorter += len(steps) < len(chain)
    assert found > 100
    assert shorter > 50


def test_a_view_of_rows_of_another_length() -> None:
    """What is told of an operand holds for a product, whose last axis is another one."""
    dims = tuple(map(Size.of, ("B", 5, 8)))
    view = View.of(dims)
    assert view.apply(Transpose((1, 0, 2)))
    assert view.keeps_last
    wide = view.with_last(Size.of(12))
    assert wide.result == tuple(map(Size.of, (5, "B", 12)))
    assert wide.apply(Slice(2, Size.of(4), Size.of(8)))
    result = tuple(map(Size.of, (5, "B", 4)))
    x = np.arange(3 * 5 * 12).reshape(3, 5, 12)
    steps = wide.steps(result)
    assert steps is not None
    np.testing.assert_array_equal(done(x, steps), x.transpose(1, 0, 2)[:, :, 4:8])
    assert not wide.keeps_last
    assert view.keeps_last
