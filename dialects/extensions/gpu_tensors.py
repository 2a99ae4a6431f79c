"""Ops on matrices that a whole workgroup holds: parts of buffers, other elements, functions of elements.

Products, sums and constants of such matrices are the ops of `gpu.py` (`gpu.subgroup_mma_compute` and its
like); their type says that a workgroup holds them. All invocations of the workgroup reach each op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IndexType, MemRefType, UnitAttr
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.extensions.gpu_matrix_type import MMAMatrixType


class _TensorOp(IRDLOperation):
    """What a load and a store share: the part of a buffer that begins at some indices, along its last two
    axes. `bounded`: a part of it may lie outside, which is read as 0, and not written."""

    bounded = opt_prop_def(UnitAttr)

    def check_place(self, memory: SSAValue, indices: Sequence[SSAValue], axes: int) -> None:
        """As many indices as there are axes, of which there are enough."""
        assert isinstance(memory.type, MemRefType)
        rank = memory.type.get_num_dims()
        if len(indices) != rank or rank < axes:
            raise VerifyException(f"'{self.name}' of {len(indices)} indices into {memory.type}")


@irdl_op_definition
class TensorLoadOp(_TensorOp):
    """`%m = gpu.tensor_load %x[%i, %j] : memref<…xf16> -> !gpu.mma_matrix<…, workgroup>`: a part of a buffer
    as a matrix. `transpose`: columns of the matrix are lines of memory. `repeated`: every row of the matrix
    is the same, and the buffer has one axis for them less."""

    name = "gpu.tensor_load"

    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    transpose = opt_prop_def(UnitAttr)
    repeated = opt_prop_def(UnitAttr)
    result = result_def(MMAMatrixType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$source `[` $indices `]` attr-dict `:` type($source) `->` type($result)"
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        source: SSAValue,
        indices: Sequence[SSAValue],
        result: MMAMatrixType,
        *,
        transpose: bool = False,
        repeated: bool = False,
        bounded: bool = False,
    ):
        super().__init__(
            operands=[source, indices],
            result_types=[result],
            properties={
                "transpose": UnitAttr() if transpose else None,
                "repeated": UnitAttr() if repeated else None,
                "bounded": UnitAttr() if bounded else None,
            },
        )

    def verify_(self) -> None:
        self.check_place(self.source, self.indices, 2 if self.repeated is None else 1)
        kind = self.result.type
        assert isinstance(kind, MMAMatrixType)
        assert isinstance(self.source.type, MemRefType)
        if not kind.of_workgroup or kind.element_type != self.source.type.element_type:
            raise VerifyException(f"'{self.name}' gives no {kind}")
        if self.repeated is not None and self.transpose is not None:
            raise VerifyException(f"'{self.name}' repeats rows, or turns them")


@irdl_op_definition
class TensorStoreOp(_TensorOp):
    """`gpu.tensor_store %m, %y[%i, %j] : !gpu.mma_matrix<…, workgroup>, memref<…xf16>`: a matrix into a part
    of a buffer."""

    name = "gpu.tensor_store"

    value = operand_def(MMAMatrixType)
    target = operand_def(MemRefType)
    indices = var_operand_def(IndexType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$value `,` $target `[` $indices `]` attr-dict `:` type($value) `,` type($target)"
    )
    traits = traits_def(MemoryWriteEffect())

    def __init__(
        self,
        value: SSAValue,
        target: SSAValue,
        indices: Sequence[SSAValue],
        *,
        bounded: bool = False,
    ):
        super().__init__(
            operands=[value, target, indices],
            properties={"bounded": UnitAttr() if bounded else None},
        )

    def verify_(self) -> None:
        self.check_place(self.target, self.indices, 2)
        kind = self.value.type
        assert isinstance(kind, MMAMatrixType)
        assert isinstance(self.target.type, MemRefType)
        if not kind.of_workgroup or kind.element_type != self.target.type.element_type:
            raise VerifyException(f"'{self.name}' takes no {kind}")


@irdl_op_definition
class MatrixConvertOp(IRDLOperation):
    """`%h = gpu.matrix_convert %m : M -> M1`: a matrix of other elements, rounded to nearest where they are
    narrower."""

    name = "gpu.matrix_convert"

    value = operand_def(MMAMatrixType)
    result = result_def(MMAMatrixType)

    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, result: MMAMatrixType):
        super().__init__(operands=[value], result_types=[result])

    def verify_(self) -> None:
        given, kind = self.value.type, self.result.type
        assert isinstance(given, MMAMatrixType)
        assert isinstance(kind, MMAMatrixType)
        if given.with_element(kind.element_type) != kind:
            raise VerifyException(f"'{self.name}' of {given} gives no {kind}")


@irdl_op_definition
class MatrixYieldOp(IRDLOperation):
    """`gpu.matrix_yield %y : f32`: what `gpu.matrix_map` makes of an element."""

    name = "gpu.matrix_yield"

    value = operand_def()

    assembly_format = "$value attr-dict `:` type($value)"
    traits = traits_def(IsTerminator(), Pure())

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value])


@irdl_op_definition
class MatrixMapOp(IRDLOperation):
    """`%r = gpu.matrix_map %m : M { ^bb0(%x: f32): … gpu.matrix_yield %y : f32 }`: a function of each
    element, which sees nothing else."""

    name = "gpu.matrix_map"

    M: ClassVar = VarConstraint("M", base(MMAMatrixType))

    value = operand_def(M)
    result = result_def(M)
    body = region_def("single_block")

    traits = traits_def(Pure(), IsolatedFromAbove())

    def __init__(self, value: SSAValue, body: Region):
        super().__init__(operands=[value], result_types=[value.type], regions=[body])

    def verify_(self) -> None:
        kind, block = self.value.type, self.body.block
        assert isinstance(kind, MMAMatrixType)
        if tuple(one.type for one in block.args) != (kind.element_type,):
            raise VerifyException(f"'{self.name}' takes an element of {kind}")
        last = block.last_op
        if not isinstance(last, MatrixYieldOp) or last.value.type != kind.element_type:
            raise VerifyException(f"'{self.name}' ends with an element of {kind}")

    @classmethod
    def parse(cls, parser: Parser) -> MatrixMapOp:
        value = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        op = cls(parser.resolve_operand(value, kind), parser.parse_region())
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)
        printer.print_string(" ")
        printer.print_region(self.body)


TENSOR_OPS: tuple[type[Operation], ...] = (
    TensorLoadOp,
    TensorStoreOp,
    MatrixConvertOp,
    MatrixMapOp,
    MatrixYieldOp,
)
