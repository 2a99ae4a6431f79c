"""Scatter, sort and cumsum as loops.

Before:
    nn.cumsum(%x) outs(%y) {axis = 0 : i64} : (memref<?x64xf32>, memref<?x64xf32>) -> ()

After:
    scf.for %j = %c0 to %c64 step %c16 {
      scf.for %k = %c0 to %rows step %c1 iter_args(%total = %zero) -> (vector<16xf32>) {
        %v = vector.load %x[%k, %j] : memref<?x64xf32>, vector<16xf32>
        %new = arith.addf %total, %v : vector<16xf32>
        vector.store %new, %y[%k, %j] : memref<?x64xf32>, vector<16xf32>
        scf.yield %new } } {openinfer.parallel}

Requires: bufferised; contiguous operands; the scratch buffers of `sort_scratch`. A scatter's
    second destination takes its errors.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i64
from xdsl.ir import Operation

from openinfer.dialects.nn import CumsumOp, ScatterOp, SortOp, dims_of, element_of
from openinfer.lowering.cpu.schedules.gathers import report_into
from openinfer.lowering.cpu.schedules.scatters import scatter
from openinfer.lowering.cpu.schedules.sorting import Sorter
from openinfer.lowering.cpu.vector_width import lanes_of
from openinfer.lowering.demands import Scratch
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.rules import Rule
from openinfer.lowering.kernels.running_sums import running_sums
from openinfer.lowering.kernels.scratch import scratch_of
from openinfer.lowering.kernels.sort_order import Order

MOST, FEW = 64, 16
"""How many are chosen one by one instead of sorting all: of many, and of any number."""


def sort_scratch(op: SortOp) -> list[Scratch]:
    """The scratch buffers (element type, sizes) that the lowering of `op` wants after its results.

    Two of positions, each in the shape of the input; none where few of many are asked for. `op` is
    on tensors.
    """
    dims, axis = dims_of(op.inputs[0]), op.axis.value.data
    taken, count = dims_of(op.result[0])[axis].constant, dims[axis].constant
    if taken is not None and taken <= MOST:
        if taken <= FEW or count is None or count >= 4 * taken:
            return []
    return [Scratch(name, i64, dims) for name in op.SCRATCH]


def _scatter(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, ScatterOp)
    node = op.node.value.data if op.node is not None else 0
    errors = op.room("errors")
    report = report_into(b, errors, node) if errors is not None else None
    x, indices, updates = op.inputs
    scatter(
        b,
        (x, indices, updates),
        op.output,
        op.axis.value.data,
        op.mode.data,
        lanes_of(op, element_of(op.output)),
        report,
        unsigned=op.unsigned is not None,
        unsigned_indices=op.unsigned_indices is not None,
    )
    return True


def _sort(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, SortOp)
    values, places = op.outs
    order = Order(op.descending is not None, op.unsigned is not None)
    sorter = Sorter(b, op.inputs[0], (values, places), op.axis.value.data, order)
    if op.scratch:
        home, away = scratch_of(op, "home", "away")
        sorter.merge((home, away))
    else:
        sorter.choose()
    return True


def _cumsum(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, CumsumOp)
    running_sums(
        b,
        op.inputs[0],
        op.output,
        op.axis.value.data,
        lanes_of(op, element_of(op.output)),
        exclusive=op.exclusive is not None,
        reverse=op.reverse is not None,
        product=op.product is not None,
    )
    return True


RULES: dict[str, Rule] = {ScatterOp.name: _scatter, SortOp.name: _sort, CumsumOp.name: _cumsum}
