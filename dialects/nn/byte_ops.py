"""Products of integers of a byte, several at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, UnitAttr, VectorType, i8, i32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from openinfer.dialects.late_syntax import op_definition
from openinfer.dialects.nn.checks import refuse

LANES = 4
"""Elements of an operand: a word of 32 bits."""
TABLE = 16
"""Bytes of a table."""


@op_definition
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


@op_definition
class DotWordsOp(IRDLOperation):
    """In each lane: `sum + a[0]·b[0] + a[1]·b[1] + a[2]·b[2] + a[3]·b[3]` of the four bytes of its words.

        %s = nn.dot_words %sum, %a, %b : vector<16xi32>
        %s = nn.dot_words unsigned %sum, %a, %b : vector<16xi32>
        %s = nn.dot_words unsigned small %sum, %a, %b : vector<16xi32>

    The bytes of b have a sign, and are above -128 where those of a have one, too, as they do if they are not
    `unsigned`;
    `small` ones are below 128. Sums wrap. What `vpdpbusd` computes, and `vpmaddubsw` of small bytes.
    """

    name = "nn.dot_words"

    WORDS: ClassVar = VarConstraint("WORDS", VectorType.constr(base(IntegerType)))

    sum = operand_def(WORDS)
    a = operand_def(WORDS)
    b = operand_def(WORDS)
    unsigned = opt_prop_def(UnitAttr)
    small = opt_prop_def(UnitAttr)
    result = result_def(WORDS)

    assembly_format = (
        "(`unsigned` $unsigned^)? (`small` $small^)? $sum `,` $a `,` $b attr-dict `:` type($sum)"
    )

    traits = traits_def(Pure())

    def __init__(
        self,
        sum: SSAValue,
        a: SSAValue,
        b: SSAValue,
        *,
        unsigned: bool = False,
        small: bool = False,
    ) -> None:
        super().__init__(
            operands=[sum, a, b],
            result_types=[sum.type],
            properties={
                "unsigned": UnitAttr() if unsigned else None,
                "small": UnitAttr() if small else None,
            },
        )

    def verify_(self) -> None:
        kind = self.sum.type
        assert isinstance(kind, VectorType)
        if len(kind.get_shape()) != 1 or kind.element_type != i32:
            refuse(self, f"operands are vectors of i32, found {kind}")
        if self.small is not None and self.unsigned is None:
            refuse(self, "only unsigned bytes are said to be small")


@op_definition
class LookUpBytesOp(IRDLOperation):
    """The bytes of a table of 16 for the bytes of words, which are below 16.

        %t = nn.look_up_bytes %words in [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, …] : vector<16xi32>

    What `pshufb` computes.
    """

    name = "nn.look_up_bytes"

    WORDS: ClassVar = VarConstraint("WORDS", VectorType.constr(base(IntegerType)))

    words = operand_def(WORDS)
    table = prop_def(DenseArrayBase.constr(i8))
    result = result_def(WORDS)

    assembly_format = "$words `in` $table attr-dict `:` type($words)"

    traits = traits_def(Pure())

    def __init__(self, words: SSAValue, table: Sequence[int]) -> None:
        super().__init__(
            operands=[words],
            result_types=[words.type],
            properties={"table": DenseArrayBase.from_list(i8, list(table))},
        )

    def verify_(self) -> None:
        kind = self.words.type
        assert isinstance(kind, VectorType)
        if len(kind.get_shape()) != 1 or kind.element_type != i32:
            refuse(self, f"words are a vector of i32, found {kind}")
        if len(self.table) != TABLE:
            refuse(self, f"a table has {TABLE} bytes, found {len(self.table)}")
