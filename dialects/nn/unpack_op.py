"""The values of weights in blocks, where a machine has no kernel that reads the blocks."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, i8
from xdsl.irdl import irdl_op_definition, opt_prop_def

from openinfer.dialects.nn.base import NNOp
from openinfer.dialects.nn.block_types import BlockType
from openinfer.dialects.nn.checks import element, expect_element, expect_shape, refuse, shape_of
from openinfer.dialects.nn.layouts import BlocksAttr, LayoutAttr


@irdl_op_definition
class UnpackBlocksOp(NNOp):
    """`[N, K]` of `!nn.block`, or its bytes in a layout, as floats, each value rounded once.

    %v = nn.unpack_blocks(%w) : (tensor<8x64x!nn.block<q8_0>>) -> tensor<8x64xf16>
    %v = nn.unpack_blocks(%w) {layout = #nn.blocks<q8_0, 16>} : (tensor<1x2x544xi8>) -> tensor<8x64xf16>
    """

    name = "nn.unpack_blocks"
    layout = opt_prop_def(LayoutAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (1, 1)

    def layout_at(self, index: int) -> LayoutAttr | None:
        return self.layout if index == 0 else None

    def check(self) -> None:
        (source,) = self.inputs
        result = shape_of(self.output)
        if not isinstance(element(self.output), AnyFloat):
            refuse(self, f"the result has elements {element(self.output)}, expected floats")
        if len(result) != 2:
            refuse(self, f"the result has {len(result)} dimensions, expected rows and columns")
        columns, depth = result
        if self.layout is None:
            if not isinstance(element(source), BlockType):
                refuse(self, f"the input has elements {element(source)}, expected blocks")
            expect_shape(self, "the input", shape_of(source), result)
            return
        if not isinstance(self.layout, BlocksAttr):
            refuse(self, f"blocks do not lie in {self.layout}")
        expect_element(self, f"the input in {self.layout}", element(source), i8)
        expected = self.layout.shape((depth, columns))
        expect_shape(self, f"the input in {self.layout}", shape_of(source), expected)
