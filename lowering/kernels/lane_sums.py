"""The sums of the lanes of many vectors, as one vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, VectorType, i64
from xdsl.dialects.vector import ShuffleOp
from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import LoopBuilder


def lane_sums(
    build: LoopBuilder, lanes: int, vector_of: Callable[[int], SSAValue], bits: int
) -> SSAValue:
    """The vector whose lane i is the sum of the lanes of `vector_of(i)`; elements have `bits` bits.

    Two vectors become one: the even lanes of both plus the odd ones. That is done within parts of
    128 bits first, then with such parts, so that each shuffle is one instruction of every target;
    there are two of them for a lane in all, and few vectors are alive at a time.
    """
    part = min(lanes, 128 // bits)

    def joined(first: int, count: int) -> SSAValue:
        if count == 1:
            return vector_of(first)
        half = count // 2
        a, b = joined(first, half), joined(first + half, half)
        size, unit = (part, 1) if count <= part else (lanes, part)
        return _fold(build, a, b, lanes, size, unit)

    return joined(0, lanes)


def _fold(
    build: LoopBuilder, a: SSAValue, b: SSAValue, lanes: int, size: int, unit: int
) -> SSAValue:
    """Within each `size` lanes: the even groups of `unit` lanes of a, then of b, plus the odd ones."""
    places: list[list[int]] = []
    for odd in (0, unit):
        groups = range(odd, size, 2 * unit)
        places.append(
            [
                source + start + group + lane
                for start in range(0, lanes, size)
                for source in (0, lanes)
                for group in groups
                for lane in range(unit)
            ]
        )
    even, odd_ones = (_shuffle(build, a, b, lanes_of) for lanes_of in places)
    return build.insert(arith.AddfOp(even, odd_ones))


def lanes_apart(build: LoopBuilder, vectors: Sequence[SSAValue]) -> list[SSAValue]:
    """Vector i of the result has every lane i + n · count of the first vector, then of the next; `count`
    vectors, a power of two that divides the lanes.

    In a round vectors i and i + 1 of a pair become those of the even parts of both and of the odd parts.
    """
    count, kind = len(vectors), vectors[0].type
    assert isinstance(kind, VectorType)
    lanes = kind.get_shape()[0]
    if count == 1:
        return list(vectors)
    half = [lane for lane in range(2 * lanes) if lane % count < count // 2]
    other = [lane for lane in range(2 * lanes) if lane % count >= count // 2]
    low, high = (
        [_shuffle(build, a, b, part) for a, b in zip(vectors[::2], vectors[1::2])]
        for part in (half, other)
    )
    return [*lanes_apart(build, low), *lanes_apart(build, high)]


def _shuffle(build: LoopBuilder, a: SSAValue, b: SSAValue, lanes: Sequence[int]) -> SSAValue:
    assert isinstance(a.type, VectorType)
    mask = DenseArrayBase.from_list(i64, list(lanes))
    return build.insert(ShuffleOp(a, b, mask, result_type=a.type))
