"""Products of rows that are normed on the way."""

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
    element,
    expect_element,
    expect_floats,
    expect_shape,
    refuse,
    shape_of,
    text,
)
from openinfer.dialects.nn.epilogues import check_body, check_extras
from openinfer.dialects.nn.layouts import LayoutAttr


@irdl_op_definition
class NormedMatmulOp(NNOp):
    """`[…, M, K] x [K, N] -> […, M, N]` behind a norm of the rows, which is rounded as if it were stored.

    Inputs: x; the matrix in `layout`; then weight and bias of the norm, `[K]`, as far as the flags say. The
    norm is `nn.layer_norm` with `centred`, else `nn.rms_norm`. The body, extras and maps are those of
    `nn.matmul`. With `gives_rows` the normed rows are a second output. `beside`: how many products of the
    same rows there are, which wait for nothing of each other.

        %f, %n = nn.normed_matmul(%x, %w, %g, %c) {centred, eps = 1.0e-12 : f64, gives_rows, has_bias,
            has_weight, layout = #nn.tiles<16>} :
            (tensor<128x384xf16>, tensor<96x24x256xf16>, tensor<384xf16>, tensor<384xf16>)
            -> (tensor<128x1536xf16>, tensor<128x384xf16>)
    """

    name = "nn.normed_matmul"
    beside = opt_prop_def(IntegerAttr[IntegerType])
    centred = opt_prop_def(UnitAttr)
    eps = prop_def(FloatAttr)
    gives_rows = opt_prop_def(UnitAttr)
    has_bias = opt_prop_def(UnitAttr)
    has_weight = opt_prop_def(UnitAttr)
    layout = prop_def(LayoutAttr)
    maps = opt_prop_def(ArrayAttr[AffineMapAttr])
    ARITY: ClassVar[tuple[int, int | None]] = (2, 4)
    BODY: ClassVar[bool] = True

    @property
    def left(self) -> SSAValue:
        return self.inputs[0]

    @property
    def rights(self) -> list[SSAValue]:
        """The matrix."""
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
    def rows(self) -> SSAValue | None:
        """Where the normed rows go."""
        return (self.outs or self.result)[1] if self.gives_rows is not None else None

    @property
    def output_count(self) -> int:
        return 1 + (self.gives_rows is not None)

    def layout_at(self, index: int) -> LayoutAttr | None:
        return self.layout if index == 1 else None

    def check(self) -> None:
        count = 2 + (self.has_weight is not None) + (self.has_bias is not None)
        if len(self.inputs) != count:
            refuse(self, f"its flags say that there are {count} inputs, found {len(self.inputs)}")
        x, result = shape_of(self.left), shape_of(self.output)
        if self.beside is not None and self.beside.value.data < 2:
            refuse(self, f"{self.beside.value.data} products beside each other, expected 2 or more")
        if len(x) < 2:
            refuse(self, f"x has shape {text(x)}, expected rows of at least two dimensions")
        columns = result[-1] if result else None
        expect_shape(self, "the result", result, (*x[:-1], columns))
        expected = self.layout.shape((x[-1], columns))
        expect_shape(self, f"the matrix in {self.layout}", shape_of(self.rights[0]), expected)
        for what, value in (("weight", self.weight), ("bias", self.bias)):
            if value is not None:
                expect_shape(self, f"the {what} of the norm", shape_of(value), (x[-1],))
        expect_floats(self, (*self.inputs, self.output))
        if self.rows is not None:
            expect_shape(self, "what the norm gives", shape_of(self.rows), x)
            expect_element(self, "what the norm gives", element(self.rows), element(self.left))
        check_extras(self, self.maps, result)
        check_body(self)
