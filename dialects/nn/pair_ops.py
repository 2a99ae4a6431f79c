"""Arithmetic on pairs of bf16, for products whose operands are rounded to it."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import BFloat16Type, Float32Type, VectorType, bf16
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from openinfer.dialects.late_syntax import op_definition
from openinfer.dialects.nn.checks import refuse


@op_definition
class DotPairsOp(IRDLOperation):
    """`sums[i] + a[2i + 1]·b[2i + 1] + a[2i]·b[2i]`, each sum rounded to f32.

        %s = nn.dot_pairs %sums, %a, %b : vector<32xbf16>, vector<16xf32>

    What `vdpbf16ps` computes, in its order. Products of bf16 are exact in f32; subnormal operands,
    products and sums may count as zero, as that instruction has it.
    """

    name = "nn.dot_pairs"

    PAIRS: ClassVar = VarConstraint("PAIRS", VectorType.constr(base(BFloat16Type)))
    SUMS: ClassVar = VarConstraint("SUMS", VectorType.constr(base(Float32Type)))

    sums = operand_def(SUMS)
    a = operand_def(PAIRS)
    b = operand_def(PAIRS)
    result = result_def(SUMS)

    assembly_format = "$sums `,` $a `,` $b attr-dict `:` type($a) `,` type($sums)"

    traits = traits_def(Pure())

    def __init__(
        self, sums: SSAValue | Operation, a: SSAValue | Operation, b: SSAValue | Operation
    ) -> None:
        super().__init__(operands=[sums, a, b], result_types=[SSAValue.get(sums).type])

    def verify_(self) -> None:
        pairs, sums = self.a.type, self.sums.type
        assert isinstance(pairs, VectorType)
        assert isinstance(sums, VectorType)
        lanes = sums.get_shape()
        if len(lanes) != 1 or pairs.get_shape() != (2 * lanes[0],):
            refuse(self, f"{sums} adds up as many pairs of bf16, found {pairs}")


@op_definition
class RoundPairsOp(IRDLOperation):
    """Two vectors rounded to bf16, element by element side by side: `a[0], b[0], a[1], b[1], …`

        %p = nn.round_pairs %a, %b : vector<16xf32>, vector<32xbf16>

    To nearest even; subnormal numbers may become zero, as `vcvtne2ps2bf16` has it.
    """

    name = "nn.round_pairs"

    FLOATS: ClassVar = VarConstraint("FLOATS", VectorType.constr(base(Float32Type)))

    a = operand_def(FLOATS)
    b = operand_def(FLOATS)
    result = result_def(VectorType.constr(base(BFloat16Type)))

    assembly_format = "$a `,` $b attr-dict `:` type($a) `,` type($result)"

    traits = traits_def(Pure())

    def __init__(self, a: SSAValue | Operation, b: SSAValue | Operation) -> None:
        kind = SSAValue.get(a).type
        assert isinstance(kind, VectorType)
        pairs = VectorType(bf16, [2 * kind.get_shape()[0]])
        super().__init__(operands=[a, b], result_types=[pairs])

    def verify_(self) -> None:
        floats, pairs = self.a.type, self.result.type
        assert isinstance(floats, VectorType)
        assert isinstance(pairs, VectorType)
        lanes = floats.get_shape()
        if len(lanes) != 1 or pairs.get_shape() != (2 * lanes[0],):
            refuse(self, f"two of {floats} give twice as many bf16, found {pairs}")
