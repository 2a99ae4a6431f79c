"""Rows as blocks of bytes in a format of `BLOCKS`, and back: values that a program keeps so."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, StringAttr, f32
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from openinfer.dialects.nn.base import NNOp
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
from openinfer.runtime.blocks import BLOCKS, BlockFormat


class _BlocksOp(NNOp):
    block = prop_def(StringAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (1, 1)

    @property
    def format(self) -> BlockFormat:
        return BLOCKS[self.block.data]

    def check(self) -> None:
        if self.block.data not in BLOCKS:
            refuse(self, f"{self.block.data} is no format of blocks: {', '.join(BLOCKS)}")
        self.check_rows()

    def check_rows(self) -> None:
        """What operand and result have to be."""
        raise NotImplementedError


@irdl_op_definition
class QuantizeBlocksOp(_BlocksOp):
    """`[…, K]` floats as `[…, K / elements * bytes]` of a block: the rows in the format `block`, as bytes.

    `q8_0`: d = max |x| / 127 of 32 elements as f16, and x / d rounded to the nearest even; an element that
    is not finite makes d NaN and the integers 0.
    """

    name = "nn.quantize_blocks"

    def check_rows(self) -> None:
        expect_floats(self, self.inputs)
        source, block = shape_of(self.inputs[0]), self.format
        expect_bytes(self, self.output)
        if len(source) < 2 or (isinstance(source[-1], int) and source[-1] % block.elements):
            refuse(self, f"rows are blocks of {block.elements} elements, found {text(source)}")
        expected: Dim = None
        if isinstance(source[-1], int):
            expected = source[-1] // block.elements * block.nbytes
        expect_shape(self, "the result", shape_of(self.output), (*source[:-1], expected))


@irdl_op_definition
class DequantizeBlocksOp(_BlocksOp):
    """The f32 values of rows of blocks, `[…, n * bytes]` of a block to `[…, n * elements]`."""

    name = "nn.dequantize_blocks"

    def check_rows(self) -> None:
        source, block = shape_of(self.inputs[0]), self.format
        expect_bytes(self, self.inputs[0])
        expect_element(self, "the result", element(self.output), f32)
        if len(source) < 2 or (isinstance(source[-1], int) and source[-1] % block.nbytes):
            refuse(self, f"rows are blocks of {block.nbytes} bytes, found {text(source)}")
        expected: Dim = None
        if isinstance(source[-1], int):
            expected = source[-1] // block.nbytes * block.elements
        expect_shape(self, "the result", shape_of(self.output), (*source[:-1], expected))


def expect_bytes(op: NNOp, value: SSAValue) -> None:
    """Raises VerifyException unless the elements of a value are bytes."""
    kind = element(value)
    if not isinstance(kind, IntegerType) or kind.width.data != 8:
        refuse(op, f"blocks are bytes, found {kind}")
