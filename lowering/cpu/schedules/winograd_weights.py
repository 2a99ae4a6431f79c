"""The kernels of a 3x3 convolution as Winograd's algorithm multiplies them, made when a program is loaded."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import f64
from xdsl.ir import SSAValue

from openinfer.dialects.nn import WinogradAttr
from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import element_type

SIDE = 3


def pack_winograd(
    build: LoopBuilder,
    source: Matrix,
    panels: Matrix,
    extents: tuple[Index, Index],
    layout: WinogradAttr,
    *,
    transposed: bool,
) -> None:
    """`panels[o / rows][place · channels + c][o % rows] = (G g Gᵀ)[place]` for the kernel g of o and c.

    `extents` are depth and columns of `source`, `[depth, columns]` or when `transposed` the reverse. Computed
    in f64 and rounded once; 0 where there is no such column.
    """
    depth, columns = extents
    rows, kind = layout.columns, element_type(panels.buffer)
    channels = build.ceil_div(depth, layout.TAPS)
    half = build.constant(0.5, f64)
    zero = build.constant(0, kind)

    def one(panel: SSAValue, c: SSAValue, row: SSAValue) -> None:
        column = build.add(build.mul(panel, rows), row)
        places = [
            panels.at(panel, build.add(build.mul(channels, number), c), row)
            for number in range(layout.PLACES)
        ]

        def kernel() -> None:
            first = build.mul(c, layout.TAPS)
            taps: list[SSAValue] = []
            for tap in range(layout.TAPS):
                k = build.add(first, tap)
                at = source.at(column, k) if transposed else source.at(k, column)
                taps.append(convert(build, build.load(source.buffer, at), f64))
            for value, place in zip(_transformed(build, taps, half), places):
                build.store(convert(build, value, kind), panels.buffer, place)

        def none() -> None:
            for place in places:
                build.store(zero, panels.buffer, place)

        build.when(build.compare("ult", column, columns), kernel, none)

    def over_channels(panel: SSAValue) -> None:
        build.loop(
            0,
            channels,
            1,
            lambda c: build.loop(0, rows, 1, lambda row: one(panel, c, row), hint="r"),
            hint="c",
        )

    build.loop(0, build.ceil_div(columns, rows), 1, over_channels, parallel=True, hint="p")


def _transformed(build: LoopBuilder, taps: Sequence[SSAValue], half: SSAValue) -> list[SSAValue]:
    """`G g Gᵀ` by rows, with G of the rows (1, 0, 0), (½, ½, ½), (½, -½, ½), (0, 0, 1)."""

    def across(a: SSAValue, b: SSAValue, c: SSAValue) -> list[SSAValue]:
        ends = build.insert(arith.AddfOp(a, c))
        more = build.insert(arith.MulfOp(build.insert(arith.AddfOp(ends, b)), half))
        less = build.insert(arith.MulfOp(build.insert(arith.SubfOp(ends, b)), half))
        return [a, more, less, c]

    columns = [across(*taps[j::SIDE]) for j in range(SIDE)]
    return [value for row in zip(*columns) for value in across(*row)]
