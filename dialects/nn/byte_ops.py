"""Products of integers of a byte, several at once."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, UnitAttr, VectorType, i32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from openinfer.dialects.nn.checks import refuse

LANES = 4
"""Elements of an operand: a word of 32 bits."""


@irdl_op_definition
class DotBytesOp(IRDLOperation):
    """`sum + a[0]·b[0] + a[1]·b[1] + a[2]·b[2] + a[3]·b[3]`, modulo 2^32.

        %s = nn.dot_bytes %sum, %a, %b : vector<4xi8>
        %s = nn.dot_bytes unsigned %sum, %a, %b : vector<4xi8>

    The elements have a sign, unless they are `unsigned`. What integer dot products of devices compute.
    """

    name = "nn.dot_bytes"

    BYTES: ClassVar = VarConstraint("BYTES", VectorType.constr(base(IntegerType)))

    sum = operand_def(i32)
    a = operand_def(BYTES)
    b = operand_def(BYTES)
    unsigned = opt_prop_def(UnitAttr)
    result = result_def(i32)

    assembly_format = "(`unsigned` $unsigned^)? $sum `,` $a `,` $b attr-dict `:` type($a)"

    traits = traits_def(Pure())

    def __init__(self, sum: SSAValue, a: SSAValue, b: SSAValue, *, unsigned: bool = False) -> None:
        super().__init__(
            operands=[sum, a, b],
            result_types=[i32],
            properties={"unsigned": UnitAttr() if unsigned else None},
        )

    def verify_(self) -> None:
        kind = self.a.type
        assert isinstance(kind, VectorType)
        if kind.get_shape() != (LANES,) or kind.element_type != IntegerType(8):
            refuse(self, f"operands are vector<{LANES}xi8>, found {kind}")
