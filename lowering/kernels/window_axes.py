"""How the windows of planes `[N * C, H, W]` lie: strides, paddings, and what of them is inside."""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from openinfer.dialects.nn import ConvOp, FoldOp, PoolOp, SizeOp, UnfoldOp, sizes_in
from openinfer.dialects.nn.window_ops import Numbers
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.runs import collapse
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class Axis:
    """How windows lie along one axis: the first place of window i is `i * stride - before`."""

    stride: Index
    before: Index
    after: Index
    dilation: Index

    @property
    def inside(self) -> bool:
        """Whether no window can reach out of the plane."""
        return (
            isinstance(self.before, int)
            and isinstance(self.after, int)
            and (self.before == self.after == 0)
        )

    def offset(self, b: LoopBuilder, place: SSAValue) -> Index:
        """How far element `place` of window 0 lies from the start of the plane."""
        return b.minus(b.times(place, self.dilation), self.before)


def axes_of(b: LoopBuilder, op: UnfoldOp | FoldOp | PoolOp | ConvOp) -> tuple[Axis, Axis]:
    """Both axes; what only the run knows is read here, once."""
    stride, dilation = numbers_of(b, op.stride, 1), numbers_of(b, op.dilation, 1)
    top, bottom, left, right = numbers_of(b, op.padding, 0)
    return (
        Axis(stride[0], top, bottom, dilation[0]),
        Axis(stride[1], left, right, dilation[1]),
    )


def numbers_of(b: LoopBuilder, numbers: Numbers, least: int) -> tuple[Index, ...]:
    """The numbers of a setting. The step has checked that none is below `least`; that they cannot
    be, so that a division by them never ends the process, is seen here once more."""
    return tuple(
        b.insert(SizeOp(Size.max(size, least))) if size.constant is None else size.constant
        for size in sizes_in(numbers)
    )


def reached(
    b: LoopBuilder, offset: Index, step: Index, extent: Index, count: Index
) -> tuple[Index, Index]:
    """The range of i below `count` for which `0 <= i * step + offset < extent`."""
    first = b.ceil_div(b.maximum(b.minus(0, offset), 0), step)
    behind = b.ceil_div(b.maximum(b.minus(extent, offset), 0), step)
    return b.minimum(first, count), b.minimum(behind, count)


def planes(b: LoopBuilder, buffer: SSAValue) -> SSAValue:
    """`[N, C, …]` as `[N * C, …]`."""
    assert isinstance(buffer.type, MemRefType)
    rank = buffer.type.get_num_dims()
    return collapse(b, buffer, [[0, 1], *([axis] for axis in range(2, rank))])
