"""`nn.gather`: an invocation copies an element of the result, or 16 bytes of a row where rows lie together.

Before:
    nn.gather(%table, %at) outs(%y) {axis = 0 : i64}
      : (memref<9x4xf32>, memref<?xi64>, memref<?x4xf32>) -> ()

After:
    scf.if %inside {                     // %i, %j of the element
      %index = memref.load %at[%i] : memref<?xi64>
      %ok = arith.cmpi ult, %index, %nine : i64
      %row = arith.select %ok, %index, %zero
      %v = memref.load %table[%row, %j] : memref<9x4xf32>
      memref.store %v, %y[%i, %j] : memref<?x4xf32>
    }

Indices outside of the table are the host's to report (`nn.check_indices`); here they read row 0.
Requires: bufferised; no error record.
"""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import GatherOp
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import select
from openinfer.lowering.vulkan.schedules.grid import Grid, each_element
from openinfer.lowering.vulkan.schedules.indices import checked_index
from openinfer.lowering.vulkan.schedules.wide import common_lanes, load_wide, store_wide


def lower_gather(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a gather."""
    assert isinstance(op, GatherOp)
    table, indices = op.inputs
    assert isinstance(indices.type, MemRefType)
    assert isinstance(table.type, MemRefType)
    assert isinstance(op.output.type, MemRefType)
    axis = op.axis.value.data % table.type.get_num_dims()
    behind = axis + indices.type.get_num_dims()
    bound = b.dim(table, axis)

    # Neighbours of the result are neighbours in the table where whole rows are taken.
    rows = behind < len(op.output.type.get_shape())
    lanes = common_lanes(op, (table, op.output)) if rows else 1

    def element(place: list[SSAValue]) -> None:
        raw = b.load(indices, place[axis:behind])
        index, inside = checked_index(b, raw, bound, op.unsigned_indices is not None)
        row = select(b, inside, index, b.index(0))

        def copy() -> None:
            values = load_wide(b, table, [*place[:axis], row, *place[behind:]], lanes)
            store_wide(b, values, op.output, place)

        if isinstance(bound, int) and bound > 0:
            copy()
        else:
            # An empty table has no row 0.
            b.when(b.compare("ne", bound, 0), copy)

    return each_element(b, op.output, element, lanes)
