"""`nn.check_indices`: one workgroup looks for the first index outside, and notes it; few indices: one
invocation.

Before:
    nn.check_indices(%at) outs(%errors) {bound = #graph.size<9>, node = 3 : i64}
      : (memref<?xi64>, memref<4xi64>) -> ()

After:
    %mine = scf.for %n = %thread to %count step %c256 …   // the least place of an index outside, or 2^31 - 1
    %first = …                                            // that of the workgroup
    scf.if %thread_0 {
      scf.if %found {
        scf.if %nothing_noted { … memref.store %node, %errors[%c0] } } }

Places are numbers, and the least one is the same whoever finds it: the same error in every run. The record is
read only where something is wrong.
Requires: bufferised; the record in the memory of the device.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, MemRefType, i32, i64
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp
from openinfer.dialects.nn import CheckIndicesOp, SizeOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import compare_integers, index_to, select
from openinfer.lowering.vulkan.schedules.grid import Grid, numbered, product, split
from openinfer.lowering.vulkan.schedules.group_line import invocations_for
from openinfer.lowering.vulkan.schedules.indices import checked_index
from openinfer.lowering.vulkan.schedules.reduce import SHORT
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup
from openinfer.runtime.devices.failures import PLACE

_NOWHERE = (1 << 31) - 1


def lower_check_indices(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a check."""
    assert isinstance(op, CheckIndicesOp)
    indices, errors = op.inputs[0], op.output
    assert isinstance(indices.type, MemRefType)
    shape = [b.dim(indices, axis) for axis in range(indices.type.get_num_dims())]
    known = op.bound.data.constant
    bound: Index = b.insert(SizeOp(op.bound.data)) if known is None else known
    unsigned = op.unsigned_indices is not None

    def raw(number: SSAValue) -> SSAValue:
        return b.load(indices, split(b, number, shape))

    def earlier(number: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
        _, inside = checked_index(b, raw(number), bound, unsigned)
        here = select(b, inside, b.index(_NOWHERE), number)
        return [b.insert(arith.MinSIOp(old[0], here))]

    def note(first: SSAValue) -> None:
        place = b.mul(b.insert(IndexCastOp(first, i64)), b.constant(PLACE, i64))
        b.store(convert(b, raw(first), i64, unsigned=unsigned), errors, [1])
        b.store(index_to(b, b.index(bound), i64), errors, [2])
        b.store(b.add(place, b.constant(PLACE, i64)), errors, [3])
        node = op.node.value.data if op.node is not None else 0
        b.store(b.constant(1 + node, i64), errors, [0])

    def nothing_noted() -> SSAValue:
        return compare_integers(b, "eq", b.load(errors, [0]), b.constant(0, i64))

    def note_if_wrong(first: SSAValue) -> None:
        first.name_hint = "first"
        b.when(
            b.compare("ne", first, _NOWHERE), lambda: b.when(nothing_noted(), lambda: note(first))
        )

    count = product(b, shape)
    nowhere = b.index(_NOWHERE)
    if isinstance(count, int) and count <= SHORT:

        def alone() -> None:
            (first,) = b.reduce(0, count, 1, [nowhere], earlier, hint="n")
            note_if_wrong(first)

        numbered(b, 1, lambda _: alone())
        return Grid(lambda host, value_of: (1, 1, 1))
    group = Workgroup(b, invocations_for(b, count))
    (mine,) = b.reduce(group.thread, count, group.size, [nowhere], earlier, hint="n")
    least = group.all_reduce(
        b.insert(IndexCastOp(mine, i32)), lambda x, y: b.insert(arith.MinSIOp(x, y))
    )
    first = b.insert(IndexCastOp(least, IndexType()))
    b.when(b.compare("eq", group.thread, 0), lambda: note_if_wrong(first))
    return Grid(lambda host, value_of: (1, 1, 1), group.size)
