"""`gpu` with `shuffle`, and with the memory that the invocations of a workgroup share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects import gpu
from xdsl.dialects.builtin import (
    I1,
    I32,
    AnyFloatConstr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    UnitAttr,
    i1,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import (
    Attribute,
    Operation,
    SpacedOpaqueSyntaxAttribute,
    SSAValue,
)
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from openinfer.dialects.extensions.extend import extended_dialect
from openinfer.dialects.extensions.gpu_matrix_type import MMAMatrixType
from openinfer.dialects.extensions.gpu_tensors import TENSOR_OPS


class AddressSpaceEnum(StrEnum):
    GLOBAL = "global"
    WORKGROUP = "workgroup"
    PRIVATE = "private"


@irdl_attr_definition
class AddressSpaceAttr(EnumAttribute[AddressSpaceEnum]):
    """`#gpu.address_space<workgroup>`: which invocations see a buffer of a kernel."""

    name = "gpu.address_space"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> AddressSpaceEnum:
        with parser.in_angle_brackets():
            return super().parse_parameter(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            super().print_parameter(printer)


class ShuffleModeEnum(StrEnum):
    XOR = "xor"
    UP = "up"
    DOWN = "down"
    IDX = "idx"


@irdl_attr_definition
class ShuffleModeAttr(EnumAttribute[ShuffleModeEnum], SpacedOpaqueSyntaxAttribute):
    """Which invocation of its subgroup an invocation reads from."""

    name = "gpu.shuffle_mode"


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """`%there, %valid = gpu.shuffle xor %x, %offset, %width : f32`: what another invocation of the subgroup
    has as `%x`. All invocations of the subgroup reach it."""

    name = "gpu.shuffle"

    T: ClassVar = VarConstraint("T", AnyFloatConstr | base(IntegerType))

    mode = prop_def(ShuffleModeAttr)
    value = operand_def(T)
    offset = operand_def(I32)
    width = operand_def(I32)
    shuffled = result_def(T)
    valid = result_def(I1)

    assembly_format = "$mode $value `,` $offset `,` $width attr-dict `:` type($value)"

    def __init__(
        self,
        mode: str,
        value: SSAValue | Operation,
        offset: SSAValue | Operation,
        width: SSAValue | Operation,
    ):
        super().__init__(
            operands=[value, offset, width],
            result_types=[SSAValue.get(value).type, i1],
            properties={"mode": ShuffleModeAttr(ShuffleModeEnum(mode))},
        )


@irdl_op_definition
class SubgroupMmaLoadMatrixOp(IRDLOperation):
    """A matrix from memory, where `leadDimension` elements lie from one row to the next; of columns with
    `transpose`."""

    name = "gpu.subgroup_mma_load_matrix"

    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    lead_dimension = prop_def(IntegerAttr, prop_name="leadDimension")
    transpose = opt_prop_def(UnitAttr)
    result = result_def(MMAMatrixType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$source `[` $indices `]` attr-dict `:` type($source) `->` type($result)"
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        source: SSAValue,
        indices: Sequence[SSAValue],
        lead: int,
        result: MMAMatrixType,
        *,
        transpose: bool = False,
    ):
        super().__init__(
            operands=[source, indices],
            result_types=[result],
            properties={
                "leadDimension": IntegerAttr(lead, IndexType()),
                "transpose": UnitAttr() if transpose else None,
            },
        )


@irdl_op_definition
class SubgroupMmaStoreMatrixOp(IRDLOperation):
    """A matrix to memory, row by row."""

    name = "gpu.subgroup_mma_store_matrix"

    value = operand_def(MMAMatrixType)
    target = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    lead_dimension = prop_def(IntegerAttr, prop_name="leadDimension")

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$value `,` $target `[` $indices `]` attr-dict `:` type($value) `,` type($target)"
    )
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, value: SSAValue, target: SSAValue, indices: Sequence[SSAValue], lead: int):
        super().__init__(
            operands=[value, target, indices],
            properties={"leadDimension": IntegerAttr(lead, IndexType())},
        )


@irdl_op_definition
class SubgroupMmaComputeOp(IRDLOperation):
    """A product of matrices on top of sums."""

    name = "gpu.subgroup_mma_compute"

    C: ClassVar = VarConstraint("C", base(MMAMatrixType))

    left = operand_def(MMAMatrixType)
    right = operand_def(MMAMatrixType)
    sums = operand_def(C)
    result = result_def(C)

    assembly_format = (
        "$left `,` $right `,` $sums attr-dict `:` type($left) `,` type($right) `->` type($result)"
    )
    traits = traits_def(Pure())

    def __init__(self, left: SSAValue, right: SSAValue, sums: SSAValue):
        super().__init__(operands=[left, right, sums], result_types=[sums.type])


@irdl_op_definition
class SubgroupMmaConstantMatrixOp(IRDLOperation):
    """A matrix of one number."""

    name = "gpu.subgroup_mma_constant_matrix"

    value = operand_def()
    result = result_def(MMAMatrixType)

    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, result: MMAMatrixType):
        super().__init__(operands=[value], result_types=[result])

    @classmethod
    def parse(cls, parser: Parser) -> SubgroupMmaConstantMatrixOp:
        value = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        if not isinstance(kind, MMAMatrixType):
            parser.raise_error(f"expected a matrix, found {kind}")
        op = cls(parser.resolve_operand(value, kind.element_type), kind)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class SubgroupMmaElementwiseOp(IRDLOperation):
    """`%c = gpu.subgroup_mma_elementwise mulf %a, %b : (M, M) -> M`: element by element, what `arith` does
    under that name."""

    name = "gpu.subgroup_mma_elementwise"

    M: ClassVar = VarConstraint("M", base(MMAMatrixType))

    kind = prop_def(StringAttr, prop_name="opType")
    left = operand_def(M)
    right = operand_def(M)
    result = result_def(M)

    traits = traits_def(Pure())

    def __init__(self, kind: str, left: SSAValue, right: SSAValue):
        super().__init__(
            operands=[left, right],
            result_types=[left.type],
            properties={"opType": StringAttr(kind)},
        )

    def verify_(self) -> None:
        if self.kind.data not in ELEMENTWISE:
            raise VerifyException(f"expected one of {', '.join(ELEMENTWISE)}, not {self.kind.data}")

    @classmethod
    def parse(cls, parser: Parser) -> SubgroupMmaElementwiseOp:
        kind = parser.parse_identifier()
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        place = parser.pos
        types = parser.parse_function_type().inputs.data
        left, right = parser.resolve_operands(operands, types, place)
        op = cls(kind, left, right)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind.data} ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_operation_type(self)


ELEMENTWISE = ("addf", "mulf", "subf")
"""What goes element by element over matrices."""

TOGETHER = "openinfer.together"
"""On a load of a matrix from a buffer: so many elements are one access, at a multiple of that."""
OF_SUBGROUP = "openinfer.of_subgroup"
"""On `gpu.barrier`: only the invocations of a subgroup exchange something there. Without it, the barrier
waits for more than it has to."""
OF_DEVICE = "openinfer.of_device"
"""On `gpu.barrier`: other workgroups, too, see what was written to buffers, if they learn of it by an atomic
update behind it; and what they have written is seen behind one that was told of it."""

WORKGROUP_MEMORY = AddressSpaceAttr(AddressSpaceEnum.WORKGROUP)


def is_shared(type_: Attribute) -> bool:
    """Whether a buffer lies in the memory that the invocations of a workgroup share."""
    return isinstance(type_, MemRefType) and type_.memory_space == WORKGROUP_MEMORY


GPU = extended_dialect(
    gpu.GPU,
    (
        ShuffleOp,
        SubgroupMmaLoadMatrixOp,
        SubgroupMmaStoreMatrixOp,
        SubgroupMmaComputeOp,
        SubgroupMmaConstantMatrixOp,
        SubgroupMmaElementwiseOp,
        *TENSOR_OPS,
    ),
    (AddressSpaceAttr, ShuffleModeAttr, MMAMatrixType),
)
