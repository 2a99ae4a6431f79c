"""Loops of one invocation in each other, with the values that they carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder

Ranges = Sequence[tuple[Index, Index, int | None]]
"""First place, the one behind the last, and how many there are at most, of the outermost loop first."""
Values = Sequence[SSAValue]


def over(
    b: LoopBuilder,
    ranges: Ranges,
    first: Values,
    step: Callable[[list[SSAValue], Values], Values],
) -> Values:
    """`step(places, values)` at all places of some ranges; it gives the values of the next place."""

    def inner(at: list[SSAValue], rest: Ranges, old: Values) -> Values:
        if not rest:
            return step(at, old)
        (start, stop, most), *others = rest

        def turn(k: SSAValue, values: Values) -> Values:
            return inner([*at, k], others, values)

        return b.reduce(start, stop, 1, old, turn, hint="k", rounds=most)

    return inner([], ranges, first)
