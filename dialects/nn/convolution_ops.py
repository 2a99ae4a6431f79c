"""Convolution of `nn`: windows times kernels, added up, with what follows done on the sums."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IntegerAttr
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from openinfer.dialects.nn.checks import (
    Dims,
    expect_floats,
    expect_shape,
    fits,
    refuse,
    shape_of,
    text,
)
from openinfer.dialects.nn.epilogues import check_body, check_extras
from openinfer.dialects.nn.layouts import LayoutAttr, PanelsAttr, WinogradAttr
from openinfer.dialects.nn.tensor_ops import I64Array
from openinfer.dialects.nn.window_ops import WindowOp
from openinfer.runtime.sizes import Size


@irdl_op_definition
class ConvOp(WindowOp):
    """`y[n, o, h, w] = sum over c, i, j of w[o, c, i, j] * x[n, c, h*stride + i*dilation - top, …]`.

    x `[N, C, H, W]` floats, w `[O, C / groups, KH, KW]`, y `[N, O, OH, OW]`; padding is 0. Inputs:
    x, w; `extras`, body and `maps` are those of `nn.matmul`. With
    `layout`, w is what `nn.pack` makes of the matrices `[groups, C / groups * KH * KW, O / groups]`.
    All sizes but N are known. Scratch: the `planes` of x with its padding
    (`lowering/cpu/schedules/conv_planes.py`), one-dimensional and of the type that sums are kept in.
    """

    name = "nn.conv"
    kernel = prop_def(I64Array)
    groups = prop_def(IntegerAttr)
    layout = opt_prop_def(PanelsAttr | WinogradAttr)
    pool = opt_prop_def(IntegerAttr)
    maps = opt_prop_def(ArrayAttr[AffineMapAttr])
    ARITY: ClassVar[tuple[int, int | None]] = (2, 2)
    SCRATCH: ClassVar[tuple[str, ...]] = ("planes",)
    BODY: ClassVar[bool] = True

    def layout_at(self, index: int) -> LayoutAttr | None:
        return self.layout if index == 1 else None

    def check(self) -> None:
        self.check_window()
        if not self.known:
            refuse(self, "strides, paddings and dilations are known numbers")
        x, y = self.four("x", shape_of(self.inputs[0])), self.four("y", shape_of(self.output))
        for what, dims in (("x", x), ("the result", y)):
            if not all(isinstance(d, int) for d in dims[1:]):
                refuse(
                    self, f"{what} has shape {text(dims)}, expected known sizes but for the first"
                )
        expect_floats(self, self.inputs[:2])
        self._check_weight(x, y)
        if not fits(x[0], y[0]):
            refuse(self, f"x has shape {text(x)} and the result {text(y)}: batches differ")
        self._check_count(x, y)
        for value in self.scratch:
            expect_shape(self, "the scratch buffer", shape_of(value), (None,))
        check_extras(self, self.maps, y)
        check_body(self)
        if not self.body:
            expect_floats(self, [self.output])

    def _check_count(self, x: Dims, y: Dims) -> None:
        if self.pool is None:
            for axis in range(2):
                size = self.kernel.get_values()[axis]
                self.expect_windows("the result", y[2 + axis], x[2 + axis], size, axis)
            return
        side = self.pool.value.data
        if side < 1:
            refuse(self, f"pool {side} is not positive")
        for axis, (extent, size) in enumerate(zip(x[2:], self.kernel.get_values())):
            assert isinstance(extent, int)
            count = self.window(axis, size).count(Size.of(extent)) // side
            if count.constant != y[2 + axis]:
                refuse(self, f"the result has shape {text(y)}, expected {count} along {2 + axis}")

    def _check_weight(self, x: Dims, y: Dims) -> None:
        groups, kernel = self.groups.value.data, self.kernel.get_values()
        w, channels, outputs = shape_of(self.inputs[1]), x[1], y[1]
        if len(kernel) != 2 or any(size < 1 for size in kernel):
            refuse(self, f"kernel sizes are 2 numbers of 1 or more, found {list(kernel)}")
        assert isinstance(channels, int)
        assert isinstance(outputs, int)
        if groups < 1 or channels % groups or outputs % groups:
            refuse(self, f"{channels} and {outputs} channels do not divide into {groups} groups")
        if self.layout is None:
            expect_shape(self, "w", w, (outputs, channels // groups, *kernel))
            return
        depth = channels // groups * prod(kernel)
        expected = self.layout.shape((groups, depth, outputs // groups))
        expect_shape(self, f"w in {self.layout}", w, expected)
