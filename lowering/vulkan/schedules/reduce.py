"""Long reductions of `linalg.generic`: the invocations of a workgroup share them out.

Before:
    linalg.generic {indexing_maps = [#rows, #columns], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<?x300xf32>) outs(%y : memref<?xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = arith.addf %a, %o : f32
      linalg.yield %s : f32 }

After, where neighbours in memory are added up: a workgroup computes a result
    %part = scf.for %k = %thread to %c300 step %c128 iter_args(%s = %zero) { … }
    %sum = …                                  // of all invocations (`workgroup.py`)
    scf.if %first { memref.store … }

After, where neighbours in memory belong to different results: a workgroup computes 32 of them, eight
invocations each.

Requires: every output is joined by an op that any order suits, and mathematics are not strict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.nest_loops import Combiner, NestEmitter
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    each_group,
    groups_for,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.group_line import invocations_for, rounds
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup, barrier, shared_buffer

SHORT = 16
"""Elements that one invocation adds up by itself."""
RESULTS, PARTS = 32, 8
"""Neighbouring results of a workgroup, and the invocations that share each."""


def is_shared_out(b: LoopBuilder, emitter: NestEmitter) -> bool:
    """Whether several invocations compute a result."""
    nest = emitter.nest
    if not emitter.reductions or None in emitter.kernel.combiners or b.facts.strict_math:
        return False
    if any(out.uses(d) for out in nest.outputs for d in emitter.reductions):
        return False
    count = product(b, [nest.extents[d].value(b) for d in emitter.reductions])
    return not isinstance(count, int) or count > SHORT


def reduce_in_groups(
    b: LoopBuilder, emitter: NestEmitter, results: Callable[[LoopBuilder, HostValue], Index]
) -> Grid:
    """The kernel of a reduction; `results` counts its results, on the host."""
    along = any(a.has_unit_stride(d) for a in emitter.nest.inputs for d in emitter.reductions)
    form = _along if along else _across
    return form(b, emitter, results)


class _Reduction:
    """The parts of a reduction, built at one point."""

    def __init__(self, b: LoopBuilder, emitter: NestEmitter) -> None:
        self.b, self.emitter = b, emitter
        nest = emitter.nest
        self.extents = [nest.extents[d].value(b) for d in emitter.parallel]
        self.lengths = [nest.extents[d].value(b) for d in emitter.reductions]
        self.length = product(b, self.lengths)
        self.combiners = [c for c in emitter.kernel.combiners if c is not None]
        self.kinds = [a.kind.element_type for a in nest.outputs if a.kind is not None]

    def at(self, number: SSAValue) -> None:
        """Everything that follows belongs to the result of a number."""
        places = split(self.b, number, self.extents)
        for dim, place in zip(self.emitter.parallel, places):
            self.emitter.at[dim] = place

    def part(self, first: SSAValue, step: int) -> Sequence[SSAValue]:
        """What every `step`-th element gives, from `first` on."""
        b, emitter = self.b, self.emitter

        def one(k: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            for dim, place in zip(emitter.reductions, split(b, k, self.lengths)):
                emitter.at[dim] = place
            return emitter.compute([emitter.load(a) for a in emitter.nest.inputs], old)

        start = [b.constant(c.identity, kind) for c, kind in zip(self.combiners, self.kinds)]
        most = rounds(self.length, step)
        return b.reduce(first, self.length, step, start, one, hint="k", rounds=most)

    def join(self, combiner: Combiner) -> Callable[[SSAValue, SSAValue], SSAValue]:
        return lambda x, y: self.b.insert(combiner.join(x, y))

    def finish(self, values: Sequence[SSAValue]) -> None:
        """Joins the results with what the outputs hold."""
        for value, combiner, access in zip(values, self.combiners, self.emitter.nest.outputs):
            whole = self.join(combiner)(self.emitter.load(access), value)
            self.emitter.store(whole, access)


def _along(
    b: LoopBuilder, emitter: NestEmitter, results: Callable[[LoopBuilder, HostValue], Index]
) -> Grid:
    reduction = _Reduction(b, emitter)
    size = invocations_for(b, reduction.length)
    group = Workgroup(b, size)

    def one(number: SSAValue) -> None:
        reduction.at(number)
        parts = reduction.part(group.thread, size)
        values = [
            group.all_reduce(part, reduction.join(combiner))
            for part, combiner in zip(parts, reduction.combiners)
        ]
        b.when(b.compare("eq", group.thread, 0), lambda: reduction.finish(values))

    each_group(b, product(b, reduction.extents), one)
    return Grid(lambda host, value_of: groups_for(host, results(host, value_of)), size)


def _across(
    b: LoopBuilder, emitter: NestEmitter, results: Callable[[LoopBuilder, HostValue], Index]
) -> Grid:
    reduction = _Reduction(b, emitter)
    count = product(b, reduction.extents)
    group = Workgroup(b, RESULTS * PARTS)
    thread = group.thread
    buffers = [shared_buffer(b, kind, [PARTS, RESULTS], "parts") for kind in reduction.kinds]
    column, part = b.rem(thread, RESULTS), b.floordiv(thread, RESULTS)

    def one(group_of: SSAValue) -> None:
        number = b.add(b.mul(group_of, RESULTS), column)
        inside = b.compare("ult", number, count)

        def share() -> None:
            reduction.at(number)
            for value, buffer in zip(reduction.part(part, PARTS), buffers):
                b.store(value, buffer, [part, column])

        b.when(inside, share)
        barrier(b)

        def finish() -> None:
            reduction.at(number)
            values: list[SSAValue] = []
            for buffer, combiner in zip(buffers, reduction.combiners):
                value = b.load(buffer, [0, column])
                for row in range(1, PARTS):
                    value = reduction.join(combiner)(value, b.load(buffer, [row, column]))
                values.append(value)
            reduction.finish(values)

        first = b.compare("eq", part, 0)
        b.when(inside, lambda: (b.when(first, finish), ())[1])

    each_group(b, b.ceil_div(count, RESULTS), one)
    return Grid(
        lambda host, value_of: groups_for(host, host.ceil_div(results(host, value_of), RESULTS)),
        RESULTS * PARTS,
    )
