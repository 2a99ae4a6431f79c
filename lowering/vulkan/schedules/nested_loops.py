"""Loops of one invocation in each other, with the values that they carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder

Ranges = Sequence[tuple[Index, Index]]
"""First place and the one behind the last, of the outermost loop first."""
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
        (start, stop), *others = rest
        return b.reduce(start, stop, 1, old, lambda k, v: inner([*at, k], others, v), hint="k")

    return inner([], ranges, first)
