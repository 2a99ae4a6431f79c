"""The blocks of a weight, laid out in panels: units of all columns of a panel side by side.

Before:
    nn.pack(%w) outs(%p) {layout = #nn.blocks<q8_0, 16>, transposed} : (memref<64x68xi8>, memref<4x2x544xi8>)

After:
    scf.for %p = 0 to 4 { scf.for %column = 0 to 16 { scf.for %block = 0 to 2 {
      %v = vector.load %w[%row, %block * 34 + 2] : memref<64x68xi8>, vector<4xi8>
      vector.store %v, %p[%p, %block, 32 + 4 * %column] : memref<4x2x544xi8>, vector<4xi8> … }}}
"""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType, i8
from xdsl.ir import SSAValue

from openinfer.dialects.nn import BlocksAttr
from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.kernels.builder import Index, LoopBuilder


def pack_blocks(
    build: LoopBuilder, source: Matrix, panels: Matrix, columns: Index, layout: BlocksAttr
) -> None:
    """Copies rows of blocks, `[columns, bytes]`, into panels; columns that do not exist are zeros."""
    block, width = layout.format, layout.columns
    shape = panels.kind.get_shape()
    count, rows = shape[-3], shape[-2]

    def one(panel: SSAValue, column: SSAValue, number: SSAValue, *, there: bool) -> None:
        row = build.add(build.mul(panel, width), column)
        start = build.mul(number, block.nbytes)
        for part in block.parts:
            for unit in range(part.count):
                offset = part.offset + unit * part.unit
                if there:
                    place = source.at(row, build.add(start, offset))
                    value = build.vload(source.buffer, place, part.unit)
                else:
                    value = build.constant(0, VectorType(i8, [part.unit]))
                place = build.add(build.mul(column, part.unit), layout.place(part.name, unit))
                build.vstore(value, panels.buffer, panels.at(panel, number, place))

    def panel(number: SSAValue) -> None:
        def blocks(column: SSAValue, *, there: bool) -> None:
            build.loop(0, rows, 1, lambda k: one(number, column, k, there=there), hint="block")

        here = build.minimum(build.minus(columns, build.mul(number, width)), width)
        build.loop(0, here, 1, lambda c: blocks(c, there=True), hint="column")
        if not isinstance(columns, int) or columns % width:
            build.loop(here, width, 1, lambda c: blocks(c, there=False), hint="column")

    build.loop(0, count, 1, panel, parallel=True, hint="p")
