"""Products of a few rows with matrices that are read once."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, FloatAttr, IntegerAttr, UnitAttr, i8
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def

from openinfer.dialects.nn.base import NNOp
from openinfer.dialects.nn.block_types import BlockType
from openinfer.dialects.nn.checks import (
    Dim,
    element,
    expect_element,
    expect_floats,
    expect_shape,
    refuse,
    shape_of,
    text,
)
from openinfer.dialects.nn.epilogues import check_body, check_extras
from openinfer.dialects.nn.layouts import BlocksAttr, LayoutAttr


@irdl_op_definition
class MatvecOp(NNOp):
    """`[…, M, K] x [N, K] -> […, M, N]` of a few rows, behind an RMS norm of the rows, or with two matrices.

    Inputs: x; the matrix, with `pair` two of them; with `eps` the weight `[K]` of the norm
    `x / sqrt(mean(x²) + eps) · weight`, which stands in for x and is not rounded. The body, extras and maps
    are those of `nn.matmul`, as are matrices in blocks, and their `layout`; with `pair` the body's first two
    arguments are the sums of both matrices. With `halves` columns are blocks of twice as many: the first two
    arguments are the sums of a column of the first half of a block and of the one beside it in the second
    half, the body yields the elements of both, and maps lead from the indices
    `[…, row, block, place in a half]`. With `interleaved` the columns of the second half stand behind those
    of the first one that they belong to.

        %g = nn.matvec(%x, %gate, %up, %weight) {pair, eps = 1.0e-05 : f64, maps = []} {
        ^bb0(%0: f32, %1: f32):
          … nn.yield %2 : f16 } : …
    """

    name = "nn.matvec"
    pair = opt_prop_def(UnitAttr)
    eps = opt_prop_def(FloatAttr)
    layout = opt_prop_def(LayoutAttr)
    halves = opt_prop_def(IntegerAttr)
    interleaved = opt_prop_def(UnitAttr)
    maps = opt_prop_def(ArrayAttr[AffineMapAttr])
    ARITY: ClassVar[tuple[int, int | None]] = (2, 4)
    BODY: ClassVar[bool] = True

    def layout_at(self, index: int) -> LayoutAttr | None:
        return self.layout if 0 < index <= len(self.rights) else None

    @property
    def left(self) -> SSAValue:
        return self.inputs[0]

    @property
    def rights(self) -> list[SSAValue]:
        """The matrices."""
        return list(self.inputs[1 : 2 + (self.pair is not None)])

    @property
    def weight(self) -> SSAValue | None:
        """The weight of the norm."""
        return self.inputs[-1] if self.eps is not None else None

    def check(self) -> None:
        count = 2 + (self.pair is not None) + (self.eps is not None)
        if len(self.inputs) != count:
            refuse(
                self, f"pair and eps say that there are {count} inputs, found {len(self.inputs)}"
            )
        x, result = shape_of(self.left), shape_of(self.output)
        if len(x) < 2:
            refuse(self, f"x has shape {text(x)}, expected rows of at least two dimensions")
        columns = result[-1] if result else None
        for value in self.rights:
            self._check_matrix(value, columns, x[-1])
        expect_shape(self, "the result", result, (*x[:-1], columns))
        if self.weight is not None:
            expect_shape(self, "the weight of the norm", shape_of(self.weight), (x[-1],))
        in_blocks = self.layout is not None or isinstance(element(self.rights[0]), BlockType)
        floats = [value for value in self.inputs if not in_blocks or value not in self.rights]
        expect_floats(self, (*floats, self.output))
        if len({element(value) for value in self.rights}) > 1:
            refuse(self, "both matrices have elements of one type")
        if self.pair is not None and not self.body:
            refuse(self, "two matrices need a body that joins their sums")
        if self.halves is None:
            if self.interleaved is not None:
                refuse(self, "interleaved says how halves of columns stand: there are no halves")
            check_extras(self, self.maps, result)
            check_body(self, len(self.rights))
            return
        half = self.halves.value.data
        if self.pair is not None or not self.body:
            refuse(self, "halves of columns need a body, and one matrix")
        if not isinstance(columns, int) or half < 1 or columns % (2 * half):
            refuse(self, f"{text((columns,))} columns are no blocks of two times {half}")
        check_extras(self, self.maps, (*x[:-1], columns // (2 * half), half))
        check_body(self, 2, results=2)

    def _check_matrix(self, value: SSAValue, columns: Dim, depth: Dim) -> None:
        if self.layout is None:
            expect_shape(self, "a matrix", shape_of(value), (columns, depth))
            return
        if not isinstance(self.layout, BlocksAttr):
            refuse(self, f"the matrices lie in {self.layout}, expected blocks")
        expect_element(self, f"a matrix in {self.layout}", element(value), i8)
        expected = self.layout.shape((depth, columns))
        expect_shape(self, f"a matrix in {self.layout}", shape_of(value), expected)
