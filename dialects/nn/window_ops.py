"""Operations of `nn` over windows of two axes: unfolding, folding, pooling, resampling.

Tensors are `[N, C, H, W]`; what lies along both axes is given as two numbers, padding as four: top,
bottom, left, right. Numbers that only a run knows are size expressions, all of one setting then.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.irdl import BaseAttr, irdl_op_definition, opt_prop_def, prop_def

from openinfer.dialects.graph import SizeAttr
from openinfer.dialects.nn.base import NNOp
from openinfer.dialects.nn.checks import (
    Dim,
    Dims,
    element,
    expect_element,
    expect_floats,
    expect_shape,
    fits,
    is_integer,
    refuse,
    same,
    shape_of,
    text,
)
from openinfer.dialects.nn.tensor_ops import I64Array
from openinfer.dialects.ops.windows import Window
from openinfer.runtime.sizes import Size

POOLS = ("max", "average")
RESAMPLES = ("nearest", "bilinear")


Numbers = DenseArrayBase[IntegerType] | ArrayAttr[SizeAttr]
"""Numbers of a setting: known ones, or size expressions of which one at least names something."""

NUMBERS = I64Array | ArrayAttr.constr(BaseAttr(SizeAttr))


def window_numbers(sizes: Sequence[Size]) -> Numbers:
    """Sizes as the numbers of a setting."""
    known = [size.constant for size in sizes if size.constant is not None]
    if len(known) == len(sizes):
        return DenseArrayBase.from_list(i64, known)
    return ArrayAttr([SizeAttr(size) for size in sizes])


def sizes_in(numbers: Numbers) -> tuple[Size, ...]:
    """The numbers of a setting as sizes."""
    if isinstance(numbers, DenseArrayBase):
        return tuple(Size.of(number) for number in numbers.get_values())
    return tuple(item.data for item in numbers)


def known_numbers(numbers: Numbers) -> tuple[int, ...]:
    """The numbers of a setting, none of which may be left to the run."""
    found = tuple(size.constant for size in sizes_in(numbers))
    known = tuple(number for number in found if number is not None)
    assert len(known) == len(found)
    return known


def _numbers(op: NNOp, name: str, numbers: Numbers, count: int, least: int) -> None:
    values = sizes_in(numbers)
    below = [v for v in values if v.constant is not None and v.constant < least]
    if len(values) != count or below:
        shown = ", ".join(map(str, values))
        refuse(op, f"{name} are {count} numbers of {least} or more, found [{shown}]")


class WindowOp(NNOp):
    """Common to operations whose windows have a stride, a padding and a dilation."""

    stride = prop_def(NUMBERS)
    padding = prop_def(NUMBERS)
    dilation = prop_def(NUMBERS)

    def check_window(self) -> None:
        _numbers(self, "strides", self.stride, 2, 1)
        _numbers(self, "paddings", self.padding, 4, 0)
        _numbers(self, "dilations", self.dilation, 2, 1)

    @property
    def known(self) -> bool:
        """Whether stride, padding and dilation are all known."""
        return all(
            isinstance(n, DenseArrayBase) for n in (self.stride, self.padding, self.dilation)
        )

    def window(self, axis: int, kernel: int | Size) -> Window:
        """The windows along axis 0 (vertical) or 1 for a kernel of this size."""
        before, after = sizes_in(self.padding)[2 * axis : 2 * axis + 2]
        return Window(
            Size.of(kernel),
            sizes_in(self.stride)[axis],
            before,
            after,
            sizes_in(self.dilation)[axis],
        )

    def four(self, what: str, dims: Dims) -> Dims:
        if len(dims) != 4:
            refuse(self, f"{what} has shape {text(dims)}, expected [N, C, H, W]")
        return dims

    def expect_windows(
        self, what: str, found: Dim, extent: Dim, kernel: Dim, axis: int, *, ceil: bool = False
    ) -> None:
        """That as many windows as fit are there, as far as the sizes are known."""
        if found is None or extent is None or kernel is None or not self.known:
            return
        expected = self.window(axis, kernel).count(Size.of(extent), ceil=ceil)
        if not fits(found, _plain(expected)):
            refuse(self, f"{what} has {found} windows along axis {2 + axis}, expected {expected}")


def _plain(size: Size) -> Dim:
    return size if size.constant is None else size.constant


@irdl_op_definition
class UnfoldOp(WindowOp):
    """The windows of x: `y[n, c, i, j, h, w] = x[n, c, h*stride + i*dilation - top, …]`.

    x `[N, C, H, W]`, y `[N, C, KH, KW, OH, OW]`; padding is 0.
    """

    name = "nn.unfold"

    def check(self) -> None:
        self.check_window()
        source, target = self.four("x", shape_of(self.inputs[0])), shape_of(self.output)
        expect_element(self, "the result", element(self.output), element(self.inputs[0]))
        if len(target) != 6 or not same(target[:2], source[:2]):
            refuse(
                self,
                f"the result has shape {text(target)}, expected {text(source[:2])} and then kernel "
                "and windows, two sizes each",
            )
        for axis in range(2):
            self.expect_windows(
                "the result", target[4 + axis], source[2 + axis], target[2 + axis], axis
            )


@irdl_op_definition
class FoldOp(WindowOp):
    """The transpose of `nn.unfold`: windows are added where they lie, what falls outside is lost.

    x `[N, C, KH, KW, OH, OW]`, y `[N, C, H, W]`; sums are kept in the element type of both.
    """

    name = "nn.fold"

    def check(self) -> None:
        self.check_window()
        source, target = shape_of(self.inputs[0]), self.four("the result", shape_of(self.output))
        kind = element(self.inputs[0])
        expect_element(self, "the result", element(self.output), kind)
        if not isinstance(kind, AnyFloat) and not is_integer(kind):
            refuse(self, f"the windows have elements {kind}, which do not add up")
        if len(source) != 6 or not same(source[:2], target[:2]):
            refuse(
                self,
                f"x has shape {text(source)}, expected {text(target[:2])} and then kernel and "
                "windows, two sizes each",
            )


@irdl_op_definition
class PoolOp(WindowOp):
    """The largest element ("max") or the mean ("average") of each window of the kernel's size.

    NaN is the largest of all. A mean divides by the number of elements in x, with `count_padding`
    by those in x or its padding, or by `divisor`. With `ceil` a last window may reach over the end.
    Integers are signed unless there is `unsigned`.
    """

    name = "nn.pool"
    kind = prop_def(StringAttr)
    kernel = prop_def(NUMBERS)
    ceil = opt_prop_def(UnitAttr)
    count_padding = opt_prop_def(UnitAttr)
    divisor = opt_prop_def(IntegerAttr)
    unsigned = opt_prop_def(UnitAttr)

    def check(self) -> None:
        self.check_window()
        kind, kernel = self.kind.data, self.kernel
        if kind not in POOLS:
            refuse(self, f"unknown kind {kind!r}, expected one of {', '.join(POOLS)}")
        _numbers(self, "kernel sizes", kernel, 2, 1)
        if kind == "average":
            expect_floats(self, (*self.inputs, self.output))
        elif self.count_padding is not None or self.divisor is not None:
            refuse(self, "count_padding and divisor belong to kind 'average'")
        elif not isinstance(element(self.inputs[0]), AnyFloat):
            expect_element(self, "the result", element(self.output), element(self.inputs[0]))
        if self.divisor is not None and self.divisor.value.data == 0:
            refuse(self, "divisor is 0")
        source = self.four("x", shape_of(self.inputs[0]))
        target = self.four("the result", shape_of(self.output))
        expect_shape(self, "the result", target, (*source[:2], *target[2:]))
        if isinstance(kernel, DenseArrayBase):
            for axis, size in enumerate(sizes_in(kernel)):
                found, extent = target[2 + axis], source[2 + axis]
                self.expect_windows(
                    "the result", found, extent, size, axis, ceil=self.ceil is not None
                )


@irdl_op_definition
class ResampleOp(NNOp):
    """x `[N, C, H, W]` read at other distances: `nearest` below, or `bilinear` between neighbours.

    Position i stands for `i / scale`, of a bilinear result for `(i + 1/2) / scale - 1/2`, or with
    `corners` for `i * (H - 1) / (OH - 1)`. `scales` holds numerator and denominator of the scale of
    both axes; without it the scale is the ratio of the sizes.
    """

    name = "nn.resample"
    kind = prop_def(StringAttr)
    scales = opt_prop_def(I64Array)
    corners = opt_prop_def(UnitAttr)

    def check(self) -> None:
        kind = self.kind.data
        if kind not in RESAMPLES:
            refuse(self, f"unknown kind {kind!r}, expected one of {', '.join(RESAMPLES)}")
        if self.scales is not None:
            _numbers(self, "scales", self.scales, 4, 1)
        source, target = shape_of(self.inputs[0]), shape_of(self.output)
        if len(source) != 4 or len(target) != 4:
            refuse(self, f"x {text(source)} and the result {text(target)} are [N, C, H, W]")
        expect_shape(self, "the result", target, (*source[:2], *target[2:]))
        if kind == "bilinear":
            expect_floats(self, (*self.inputs, self.output))
            return
        expect_element(self, "the result", element(self.output), element(self.inputs[0]))
        if self.corners is not None:
            refuse(self, "corners belong to kind 'bilinear'")


OPS: tuple[type[NNOp], ...] = (UnfoldOp, FoldOp, PoolOp, ResampleOp)
