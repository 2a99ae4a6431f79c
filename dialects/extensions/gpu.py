"""`gpu` with `shuffle`, and with the memory that the invocations of a workgroup share."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects import gpu
from xdsl.dialects.builtin import (
    I1,
    I32,
    AnyFloatConstr,
    IntegerType,
    MemRefType,
    i1,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Operation, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum

from openinfer.dialects.extensions.extend import extended_dialect


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


WORKGROUP_MEMORY = AddressSpaceAttr(AddressSpaceEnum.WORKGROUP)


def is_shared(type_: Attribute) -> bool:
    """Whether a buffer lies in the memory that the invocations of a workgroup share."""
    return isinstance(type_, MemRefType) and type_.memory_space == WORKGROUP_MEMORY


GPU = extended_dialect(gpu.GPU, (ShuffleOp,), (AddressSpaceAttr, ShuffleModeAttr))
