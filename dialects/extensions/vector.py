"""`vector` with memory effects and the ops that masked and quantised kernels need.

xDSL 0.74 gives its memory ops no effects, so that nothing around them can be removed or hoisted,
and lacks the alignment of accesses, `gather` and `step`. Only 1-D vectors are used by this
compiler.
"""

from __future__ import annotations

from typing import ClassVar, cast

from xdsl.dialects import vector
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    I1,
    AnyFloatConstr,
    IndexType,
    IntegerType,
    MemRefType,
    VectorType,
    i1,
)
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    base,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.extensions.extend import add_traits, extended_dialect, extended_op
from openinfer.dialects.late_syntax import op_definition

add_traits(vector.LoadOp, MemoryReadEffect())
add_traits(vector.MaskedLoadOp, MemoryReadEffect())
add_traits(vector.StoreOp, MemoryWriteEffect())
add_traits(vector.MaskedStoreOp, MemoryWriteEffect())
for _pure_op in (vector.CreateMaskOp, vector.ShuffleOp, vector.BitcastOp):
    add_traits(_pure_op, Pure())

_INDEX_VECTOR = VectorType.constr(base(IntegerType) | base(IndexType))
_REDUCIBLE = AnyFloatConstr | base(IntegerType) | base(IndexType)
_REDUCED = VarConstraint("T", _REDUCIBLE)


@extended_op(
    operands={"vector": VectorType.constr(_REDUCED), "acc": _REDUCED},
    results={"dest": _REDUCED},
    traits=(Pure(),),
)
class ReductionOp(vector.ReductionOp):
    """The elements of a vector combined into one, starting from `acc` when it is given."""

    def __init__(
        self,
        value: SSAValue | Operation,
        kind: vector.CombiningKindAttr | str,
        acc: SSAValue | Operation | None = None,
        fastmath: FastMathFlagsAttr | None = None,
    ):
        if isinstance(kind, str):
            kind = vector.CombiningKindAttr(vector.CombiningKindFlag(kind))
        element = cast(VectorType, SSAValue.get(value).type).element_type
        super(vector.ReductionOp, self).__init__(
            operands=[value, acc],
            result_types=[element],
            properties={"kind": kind, "fastmath": fastmath},
        )


@op_definition
class StepOp(IRDLOperation):
    """The vector 0, 1, 2, ... of index values."""

    name = "vector.step"

    result = result_def(VectorType.constr(base(IndexType)))

    assembly_format = "attr-dict `:` type($result)"

    traits = traits_def(Pure())

    def __init__(self, result_type: VectorType):
        super().__init__(result_types=[result_type])


@op_definition
class GatherOp(IRDLOperation):
    """Elements at `base[offsets + index_vec]` where the mask is set, else those of `pass_thru`."""

    name = "vector.gather"

    V: ClassVar = VarConstraint("V", VectorType.constr(AnyAttr()))

    base = operand_def(MemRefType)
    offsets = var_operand_def(IndexType)
    index_vec = operand_def(_INDEX_VECTOR)
    mask = operand_def(VectorType[I1])
    pass_thru = operand_def(V)
    result = result_def(V)

    assembly_format = (
        "$base `[` $offsets `]` `[` $index_vec `]` `,` $mask `,` $pass_thru attr-dict `:` "
        "type($base) `,` type($index_vec) `,` type($mask) `,` type($pass_thru) `into` type($result)"
    )

    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        source: SSAValue | Operation,
        offsets: list[SSAValue],
        index_vec: SSAValue | Operation,
        mask: SSAValue | Operation,
        pass_thru: SSAValue | Operation,
    ):
        super().__init__(
            operands=[source, offsets, index_vec, mask, pass_thru],
            result_types=[SSAValue.get(pass_thru).type],
        )

    def verify_(self) -> None:
        memref = cast(MemRefType, self.base.type)
        result = self.result.type
        if memref.element_type != result.element_type:
            raise VerifyException(f"'vector.gather' cannot read {result} from {memref}")
        if self.mask.type != VectorType(i1, result.shape):
            raise VerifyException(f"'vector.gather' of {result} has a mask of {self.mask.type}")


Vector = extended_dialect(
    vector.Vector,
    (GatherOp, ReductionOp, StepOp),
)
