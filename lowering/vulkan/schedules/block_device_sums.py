"""The pass `block-device-sums`: long sums of device kernels go in blocks, so that their error does not grow.

It is to the device what `block-sums` is to the processor: loops are found in the same way
(`lowering/kernels/sum_chains.py`), and blocks have the same lengths (`lowering/kernels/long_sums.py`). But a
device need not compute in f64: what blocks add up to is carried as a sum and what rounding took from it
(`exact_sums.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.math import FmaOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from openinfer.lowering.facts import Facts
from openinfer.lowering.kernels.builder import BESIDE, SUMS, Index, LoopBuilder
from openinfer.lowering.kernels.inserted import in_place_of
from openinfer.lowering.kernels.long_sums import ANY, PRODUCTS, Lengths
from openinfer.lowering.kernels.sum_chains import Chain, constant_of, rounds_of, sums_of
from openinfer.lowering.places import is_device_kernel
from openinfer.lowering.vulkan.schedules.exact_sums import ExactSum


@dataclass(frozen=True)
class BlockDeviceSums(ModulePass):
    """
    Turn loops of device kernels that add up many floats into loops over blocks, joined without error.

    Before:
        %s = scf.for %k = %c0 to %n step %c1 iter_args(%old = %zero) -> (f32) {
          … %new = arith.addf %old, %x : f32  scf.yield %new : f32 }

    After:
        %high, %low = scf.for %b = %c0 to %n step %c56 iter_args(%h = %zero, %l = %none) -> (f32, f32) {
          %part = scf.for %k = %b to %end step %c1 iter_args(%old = %nothing) -> (f32) { … }
          …                            // %h + %l + %part, as a sum and what rounding took from it
        }
        %s = …                         // %high + %low

    A loop around a loop whose rounds only the run knows has a block for each of its rounds.

    Requires: schedules of the device lowered to loops.
    Leaves: sums that are known to be short, that a schedule wants in order, of integers, of matrices of a
    subgroup; all sums of strict mathematics; the processor's kernels.
    """

    name: ClassVar[str] = "block-device-sums"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if Facts.of(op).strict_math:
            return
        for function in op.body.ops:
            if isinstance(function, FuncOp) and is_device_kernel(function):
                loops = [inner for inner in function.walk() if isinstance(inner, scf.ForOp)]
                for loop in loops:
                    if plan := _plan(loop):
                        with in_place_of(loop) as replace:
                            replace(_blocked(plan))


@dataclass(frozen=True)
class _Plan:
    """A loop that is to go in blocks."""

    loop: scf.ForOp
    sums: dict[int, Chain]
    rounds: int
    """Of a block."""


_LEFT = StringAttr("marks"), StringAttr("in order")
"""Notes of schedules on sums that stay one loop."""


def _plan(loop: scf.ForOp) -> _Plan | None:
    sums = sums_of(loop)
    if not sums or not constant_of(loop.step):
        return None
    if any(inner.attributes.get(SUMS) in _LEFT for inner in loop.walk()):
        return None
    lengths = _lengths(loop)
    each = max(chain.known for chain in sums.values())
    if any(chain.loops for chain in sums.values()):
        return _Plan(loop, sums, 1)
    rounds = rounds_of(loop)
    if rounds is not None and rounds * each <= lengths.most:
        return None
    return _Plan(loop, sums, max(1, lengths.block // each))


def _lengths(loop: scf.ForOp) -> Lengths:
    if not any(isinstance(inner, FmaOp) for inner in loop.walk()):
        return ANY
    beside = loop.attributes.get(BESIDE)
    if not isinstance(beside, IntegerAttr):
        return PRODUCTS
    return Lengths(max(PRODUCTS.block, PRODUCTS.most // beside.value.data), PRODUCTS.block)


def _blocked(plan: _Plan) -> list[SSAValue]:
    """Puts a loop over blocks around the loop; the final values."""
    loop, numbers = plan.loop, list(plan.sums)
    b = LoopBuilder(InsertPoint.after(loop))
    start, stop = (_known(value) for value in (loop.lb, loop.ub))
    step = constant_of(loop.step)
    assert step is not None
    inits = list(loop.iter_args)
    exact = {n: ExactSum(b, inits[n].type) for n in numbers}
    count = len(inits)

    def block(first: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        values, lows = list(carried[:count]), carried[count:]
        end = b.minimum(b.add(first, plan.rounds * step), stop)
        # What changes nothing that is added, a zero of either sign neither.
        starts = [
            b.constant(-0.0, value.type) if n in plan.sums else value
            for n, value in enumerate(values)
        ]
        loop.detach()
        loop.operands = [first, b.index(end), loop.step, *starts]
        b.do(loop)
        found: list[SSAValue] = list(loop.results)
        left: list[SSAValue] = []
        for n, low in zip(numbers, lows):
            found[n], rest = exact[n].more(loop.results[n], values[n], low)
            left.append(rest)
        return [*found, *left]

    zeros = [b.constant(0.0, inits[n].type) for n in numbers]
    results = b.reduce(start, stop, plan.rounds * step, [*inits, *zeros], block, hint="block")
    finals: list[SSAValue] = list(results[:count])
    for n, low in zip(numbers, results[count:]):
        finals[n] = exact[n].total(results[n], low)
    return finals


def _known(value: SSAValue) -> Index:
    number = constant_of(value)
    return value if number is None else number
