"""Products of some rows with all that their kernel takes in."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    UnitAttr,
)
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from openinfer.dialects.nn.base import NNOp
from openinfer.dialects.nn.checks import (
    Dims,
    element,
    expect_element,
    expect_floats,
    expect_shape,
    refuse,
    shape_of,
    text,
)
from openinfer.dialects.nn.epilogues import check_body, check_extras
from openinfer.dialects.nn.layouts import LayoutAttr, TilesAttr


@irdl_op_definition
class RowMatmulOp(NNOp):
    """`[…, M, K] x [K, N] -> […, M, N]`, of several matrices, or behind a norm of the rows.

    Inputs: x; the matrix in `layout`; then weight and bias of the norm, `[K]`, as far as the flags say. With
    `eps` there is a norm, `nn.layer_norm` with `centred`, else `nn.rms_norm`, which is rounded as if it were
    stored; with `gives_rows` the normed rows are the last output. The body, extras and maps are those of
    `nn.matmul`. With `parts` so many matrices lie one behind the other, and each has an output of its own;
    the number of the part is the first dimension of the maps. With `tiled_left` x lies in the squares of
    `layout`, each of them row by row, `[…, M / 16, K / 16, 256]`, and with `tiled_result` the result does.

        %q, %k, %n = nn.row_matmul(%x, %w, %g) extras(%b) {gives_rows, has_weight, eps = 1.0e-05 : f64,
            layout = #nn.tiles<16>, maps = [affine_map<(p, m, n) -> (p, n)>], parts = 2 : i64} {…} :
            (tensor<128x384xf16>, tensor<2x24x24x256xf16>, tensor<384xf16>, tensor<2x384xf16>)
            -> (tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>)
    """

    name = "nn.row_matmul"
    centred = opt_prop_def(UnitAttr)
    eps = opt_prop_def(FloatAttr)
    gives_rows = opt_prop_def(UnitAttr)
    has_bias = opt_prop_def(UnitAttr)
    has_weight = opt_prop_def(UnitAttr)
    layout = prop_def(LayoutAttr)
    maps = opt_prop_def(ArrayAttr[AffineMapAttr])
    parts = opt_prop_def(IntegerAttr[IntegerType])
    tiled_left = opt_prop_def(UnitAttr)
    tiled_result = opt_prop_def(UnitAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (2, 4)
    BODY: ClassVar[bool] = True

    @property
    def left(self) -> SSAValue:
        return self.inputs[0]

    @property
    def rights(self) -> list[SSAValue]:
        """The matrix, or all of them."""
        return [self.inputs[1]]

    @property
    def weight(self) -> SSAValue | None:
        """The weight of the norm."""
        return self.inputs[2] if self.has_weight is not None else None

    @property
    def bias(self) -> SSAValue | None:
        """The bias of the norm."""
        return self.inputs[-1] if self.has_bias is not None else None

    @property
    def products(self) -> list[SSAValue]:
        """The output of each product."""
        return list(self.outs or self.result)[: self.count]

    @property
    def rows(self) -> SSAValue | None:
        """Where the normed rows go."""
        return (self.outs or self.result)[-1] if self.gives_rows is not None else None

    @property
    def count(self) -> int:
        """How many products there are."""
        return self.parts.value.data if self.parts is not None else 1

    @property
    def output_count(self) -> int:
        return self.count + (self.gives_rows is not None)

    def layout_at(self, index: int) -> LayoutAttr | None:
        return self.layout if index == 1 else None

    def check(self) -> None:
        count = 2 + (self.has_weight is not None) + (self.has_bias is not None)
        if len(self.inputs) != count:
            refuse(self, f"its flags say that there are {count} inputs, found {len(self.inputs)}")
        norm = (self.centred, self.gives_rows, self.has_bias, self.has_weight)
        if self.eps is None and any(flag is not None for flag in norm):
            refuse(self, "its flags belong to a norm, which has eps")
        if self.parts is not None and self.count < 2:
            refuse(self, f"{self.count} parts, expected 2 or more")
        x = self._plain(self.left, is_tiled=self.tiled_left is not None)
        result = self._plain(self.output, is_tiled=self.tiled_result is not None)
        if self.tiled_left is not None and self.eps is not None:
            refuse(self, "the norm of rows that lie in squares")
        if len(x) < 2:
            refuse(self, f"x has shape {text(x)}, expected rows of at least two dimensions")
        columns = result[-1] if result else None
        for value in self.products:
            found = self._plain(value, is_tiled=self.tiled_result is not None)
            expect_shape(self, "the result", found, (*x[:-1], columns))
            expect_element(self, "the result", element(value), element(self.output))
        parts = () if self.parts is None else (self.count,)
        expected = (*parts, *self.layout.shape((x[-1], columns)))
        expect_shape(self, f"the matrix in {self.layout}", shape_of(self.rights[0]), expected)
        for what, value in (("weight", self.weight), ("bias", self.bias)):
            if value is not None:
                expect_shape(self, f"the {what} of the norm", shape_of(value), (x[-1],))
        expect_floats(self, (*self.inputs, self.output))
        if self.rows is not None:
            expect_shape(self, "what the norm gives", shape_of(self.rows), x)
            expect_element(self, "what the norm gives", element(self.rows), element(self.left))
        check_extras(self, self.maps, (*parts, *result))
        check_body(self)

    def _plain(self, value: SSAValue, *, is_tiled: bool) -> Dims:
        """The dimensions of rows, also of those that lie in squares."""
        found = shape_of(value)
        if not is_tiled:
            return found
        layout = self.layout
        if not isinstance(layout, TilesAttr):
            refuse(self, f"rows in squares, but a matrix in {layout}")
        side = layout.data
        *leading, down, across, width = found if len(found) > 2 else (None,) * 3
        if not isinstance(down, int) or not isinstance(across, int) or width != layout.width:
            refuse(
                self,
                f"rows in squares have shape {text(found)}, expected […, M, K, {layout.width}]",
            )
        return (*leading, down * side, across * side)
