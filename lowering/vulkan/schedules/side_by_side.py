"""Several kernels in one: each has workgroups of its own, those of the next behind those of the one before.

    %number = …                              // of the workgroup, among all
    scf.if %number < %c1024 { … }            // the first kernel
    %behind = arith.cmpi uge, %number, %c1024
    scf.if %behind {
      %own = arith.subi %number, %c1024      // the number that the second one sees
      scf.if %own < %c256 { … } }

Requires: kernels with workgroups of one size (`starts_together`), as many as the types say, which are
numbered along one axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import gpu
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.inserted import keep_location
from openinfer.lowering.vulkan.schedules.grid import MOST_GROUPS, Grid, group_number, groups_for

Rule = Callable[[LoopBuilder, Operation], Grid]


def side_by_side(kernels: Sequence[Operation], rule_of: Callable[[Operation], Rule]) -> Grid:
    """Builds all kernels of a function, in front of the first of them."""
    b = LoopBuilder(InsertPoint.before(kernels[0]))
    number = group_number(b, MOST_GROUPS)
    first, sizes = 0, set[int]()
    for kernel in kernels:
        with keep_location(kernel):
            grid = _behind(b, number, first, kernel, rule_of(kernel))
        across, down, _ = grid.groups(b, lambda value: value)
        assert isinstance(across, int)
        assert isinstance(down, int)
        first += across * down
        sizes.add(grid.size)
    assert first <= MOST_GROUPS, "what `starts_together` refuses"
    (size,) = sizes
    return Grid(lambda host, _: groups_for(host, first), size)


def _behind(b: LoopBuilder, number: SSAValue, first: int, kernel: Operation, rule: Rule) -> Grid:
    """Builds a kernel whose workgroups are those from `first` on."""
    if first == 0:
        return rule(b, kernel)
    grids: list[Grid] = []

    def build() -> None:
        inside = LoopBuilder(b.builder.insertion_point)
        own, zero = inside.sub(number, first), inside.index(0)
        grids.append(rule(inside, kernel))
        for op in list(inside.builder.insertion_point.block.walk()):
            if isinstance(op, gpu.BlockIdOp):
                is_x = op.dimension.data == gpu.DimensionEnum.X
                Rewriter.replace_op(op, [], [own if is_x else zero])

    b.when(b.compare("uge", number, first), build)
    (grid,) = grids
    return grid
