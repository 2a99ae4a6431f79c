"""`linalg.generic` and `linalg.fill`: an invocation computes an element of the result.

Before:
    linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<?x32xf32>) outs(%y : memref<?x32xf32>) {
    ^bb0(%a: f32, %o: f32):
      %r = arith.negf %a : f32
      linalg.yield %r : f32 }

After:
    %i = number of the invocation
    scf.if %i < %n {
      %a = memref.load %x_flat[%i] : memref<?xf32>
      %r = arith.negf %a : f32
      memref.store %r, %y_flat[%i] : memref<?xf32>
    }

Short reductions are loops of the invocation, long ones are shared out (`reduce.py`). Neighbours that are no
neighbours in the result come through shared memory (`transpose.py`).
Requires: bufferised; inputs are buffers or scalars; every dimension walks some axis alone.
"""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import Operation, SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.generic_nest import body_of, combiner_of, nest_of
from openinfer.lowering.kernels.nest_loops import Kernel, NestEmitter
from openinfer.lowering.kernels.runs import collapse
from openinfer.lowering.vulkan.schedules.elements_at_once import elements_at_once, lanes_of
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    cleared,
    elements_grid,
    numbered,
    owned,
    packed_bits,
    padded,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.reduce import is_shared_out, reduce_in_groups
from openinfer.lowering.vulkan.schedules.transpose import by_turning, turn_of
from openinfer.lowering.vulkan.schedules.wide import aligned_operands


def lower_generic(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a `linalg.generic`."""
    assert isinstance(op, GenericOp)
    operands = (*op.inputs, *op.outputs)
    nest = nest_of(b, op, operands)
    for access in nest.accesses:
        access.materialise(b)
    arguments = op.body.block.args[len(op.inputs) :]
    kernel = Kernel(
        nest,
        body_of(op),
        1,
        reads_output=[bool(argument.uses) for argument in arguments],
        combiners=[combiner_of(a, n) for n, a in enumerate(arguments)],
        vectorisable=False,
    )
    emitter = NestEmitter(b, kernel)
    parallel = list(emitter.parallel)

    def outside(host: LoopBuilder, value_of: HostValue) -> list[Index]:
        there = nest_of(host, op, [value_of(operand) for operand in operands])
        return [there.extents[d].value(host) for d in parallel]

    def results(host: LoopBuilder, value_of: HostValue) -> Index:
        return product(host, outside(host, value_of))

    bits = min(filter(None, map(packed_bits, op.outputs)), default=0)
    if is_shared_out(b, emitter) and not bits:
        return reduce_in_groups(b, emitter, results)
    extents = [nest.extents[dim].value(b) for dim in parallel]
    lanes = lanes_of(emitter, aligned_operands(op))
    if lanes > 1:
        return elements_at_once(b, emitter, lanes, results)
    if not bits and (turn := turn_of(b, emitter)) is not None:
        return by_turning(b, emitter, turn, outside)

    def element(number: Index) -> None:
        for dim, place in zip(parallel, split(b, b.index(number), extents)):
            emitter.at[dim] = place
        if any(out.uses(d) for out in nest.outputs for d in emitter.reductions):
            emitter.parallel = []
            emitter.point_by_point()
        else:
            emitter.scalar_point()

    count = product(b, extents)

    def clear(place: SSAValue) -> None:
        """Behind the last element of what is packed; of those of more bits, the byte ends sooner."""
        for out in op.outputs:
            own = packed_bits(out)
            if own == bits:
                cleared(b, out)(place)
            elif own:
                inside = b.compare("ult", place, padded(b, count, own))
                b.when(inside, lambda out=out: cleared(b, out)(place))

    if bits:
        owned(b, count, bits, element, clear)
    else:
        numbered(b, count, element)
    return Grid(lambda host, value_of: elements_grid(host, results(host, value_of), bits))


def lower_fill(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a `linalg.fill`."""
    assert isinstance(op, FillOp)
    (value,), (buffer,) = op.inputs, op.outputs
    assert isinstance(buffer.type, MemRefType)
    axes = range(len(buffer.type.get_shape()))

    def count(builder: LoopBuilder, target: SSAValue) -> Index:
        return product(builder, [builder.dim(target, axis) for axis in axes])

    flat = collapse(b, buffer, [list(axes)])
    bits = packed_bits(buffer)

    def one(number: SSAValue) -> None:
        b.store(value, flat, [number])

    if bits:
        owned(b, count(b, buffer), bits, one, cleared(b, buffer))
    else:
        numbered(b, count(b, buffer), one)
    return Grid(lambda host, value_of: elements_grid(host, count(host, value_of(buffer)), bits))
