"""Rows that are rounded to blocks of bytes: what products with weights in blocks take on the left."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import i8
from xdsl.irdl import irdl_op_definition

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

ROW_ELEMENTS = 32
"""Elements of a block."""
ROW_BYTES = 48
"""Bytes of a block."""
ROW_SCALE, ROW_SUMS, ROW_SUM = 32, 36, 44
"""Where the scale stands in a block, the sums of its two halves, and that of all; all of four bytes."""


@irdl_op_definition
class QuantizeRowsOp(NNOp):
    """`[…, K]` floats as `[…, K / 32 * 48]` bytes: for 32 elements x a block of

        32 bytes    q, the elements as integers from -127 to 127: x / d, rounded to the nearest even
        f32         d, the scale: the largest absolute value, divided by 127
        i32, i32    -128 times the sums of q over the first half and over the second
        i32         -128 times the sum of q

    An infinite or NaN element makes d NaN, and all q zero.
    """

    name = "nn.quantize_rows"
    ARITY: ClassVar[tuple[int, int | None]] = (1, 1)

    def check(self) -> None:
        expect_floats(self, self.inputs)
        expect_element(self, "the result", element(self.output), i8)
        source = shape_of(self.inputs[0])
        if len(source) < 2 or not isinstance(source[-1], int) or source[-1] % ROW_ELEMENTS:
            refuse(self, f"rows are whole blocks of {ROW_ELEMENTS} elements, found {text(source)}")
        expect_shape(
            self, "the result", shape_of(self.output), (*source[:-1], row_bytes(source[-1]))
        )


def row_bytes(elements: int) -> int:
    """Bytes of a row of so many elements."""
    return elements // ROW_ELEMENTS * ROW_BYTES


def row_elements(nbytes: Dim) -> Dim:
    """Elements of a row of so many bytes; None where they are no whole blocks."""
    if not isinstance(nbytes, int) or nbytes % ROW_BYTES:
        return None
    return nbytes // ROW_BYTES * ROW_ELEMENTS
