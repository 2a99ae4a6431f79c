"""Ops on matrices of a workgroup or a subgroup: parts of buffers, other elements, functions of elements.

Products, sums and constants of such matrices are the ops of `gpu.py` (`gpu.subgroup_mma_compute` and its
like); their type says who holds them. All invocations of that workgroup or subgroup reach each op.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, UnitAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
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
    """What a load and a store share: the part of a buffer that begins at some indices, along its last axis
    and the one in front, or `rows`. `bounded`: a part may lie outside, which is read as 0, and not written.
    """

    bounded = opt_prop_def(UnitAttr)
    rows = opt_prop_def(IntegerAttr)

    def check_place(self, memory: SSAValue, indices: Sequence[SSAValue], axes: int) -> None:
        """As many indices as there are axes, of which there are enough."""
        assert isinstance(memory.type, MemRefType)
        rank = memory.type.get_num_dims()
        if len(indices) != rank or rank < axes:
            raise VerifyException(f"'{self.name}' of {len(indices)} indices into {memory.type}")
        if self.rows is not None and not (axes == 2 and 0 <= self.rows.value.data < rank - 1):
            raise VerifyException(f"'{self.name}' has no rows along axis {self.rows.value.data}")

    def row_axis(self, memory: SSAValue) -> int:
        """The axis of a buffer along which lines are apart."""
        assert isinstance(memory.type, MemRefType)
        return memory.type.get_num_dims() - 2 if self.rows is None else self.rows.value.data


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
        rows: int | None = None,
    ):
        super().__init__(
            operands=[source, indices],
            result_types=[result],
            properties={
                "rows": None if rows is None else IntegerAttr(rows, i64),
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
        if kind.element_type != self.source.type.element_type:
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
        rows: int | None = None,
    ):
        super().__init__(
            operands=[value, target, indices],
            properties={
                "bounded": UnitAttr() if bounded else None,
                "rows": None if rows is None else IntegerAttr(rows, i64),
            },
        )

    def verify_(self) -> None:
        self.check_place(self.target, self.indices, 2)
        kind = self.value.type
        assert isinstance(kind, MMAMatrixType)
        assert isinstance(self.target.type, MemRefType)
        if kind.element_type != self.target.type.element_type:
            raise VerifyException(f"'{self.name}' takes no {kind}")


@irdl_op_definition
class MatrixConvertOp(IRDLOperation):
    """`%h = gpu.matrix_convert %m : M -> M1`: a matrix of other elements, rounded to nearest where they are
    narrower; sums may become an operand."""

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
        alike = (given.rows, given.columns, given.scope) == (kind.rows, kind.columns, kind.scope)
        becomes = given.operand == kind.operand or given.operand.data == "COp"
        if not alike or not becomes:
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
    """A function of each element, which sees nothing but its row and column and what it is given: elements of
    further matrices at the same place, scalars, and buffers that nobody writes.

        %r = gpu.matrix_map %m, %n, %s : (M, M, index) -> M {
        ^bb0(%row: index, %column: index, %x: f32, %y: f32, %z: index): … gpu.matrix_yield %w : f32 }
    """

    name = "gpu.matrix_map"

    values = var_operand_def()
    result = result_def(MMAMatrixType)
    body = region_def("single_block")

    traits = traits_def(Pure(), IsolatedFromAbove())

    def __init__(self, values: Sequence[SSAValue], body: Region):
        super().__init__(operands=[values], result_types=[values[0].type], regions=[body])

    def verify_(self) -> None:
        kind, block = self.result.type, self.body.block
        assert isinstance(kind, MMAMatrixType)
        if not self.values or self.values[0].type != kind:
            raise VerifyException(f"'{self.name}' gives {kind}, which it does not take")
        wanted = [IndexType(), IndexType(), *(element_of(one.type) for one in self.values)]
        if [one.type for one in block.args] != wanted:
            raise VerifyException(f"'{self.name}' takes row, column and elements")
        _check_yield(self, block, kind)

    @classmethod
    def parse(cls, parser: Parser) -> MatrixMapOp:
        place = parser.pos
        values = parser.parse_comma_separated_list(
            Parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_function_type().inputs.data
        op = cls(parser.resolve_operands(values, types, place), parser.parse_region())
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.values, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_operation_type(self)
        printer.print_string(" ")
        printer.print_region(self.body)


def element_of(kind: Attribute) -> Attribute:
    """What a function of elements is given of a value."""
    return kind.element_type if isinstance(kind, MMAMatrixType) else kind


def _check_yield(op: Operation, block: Block, kind: MMAMatrixType) -> None:
    last = block.last_op
    if not isinstance(last, MatrixYieldOp) or last.value.type != kind.element_type:
        raise VerifyException(f"'{op.name}' ends with an element of {kind}")


@irdl_op_definition
class MatrixReduceOp(IRDLOperation):
    """`%r = gpu.matrix_reduce %m : M -> M1 { ^bb0(%x: f32, %y: f32): … gpu.matrix_yield %z : f32 }`: the
    elements of each row joined by a function of two, in every column of the result, which has as many as it
    likes. `whole`: those of the whole matrix."""

    name = "gpu.matrix_reduce"

    value = operand_def(MMAMatrixType)
    whole = opt_prop_def(UnitAttr)
    result = result_def(MMAMatrixType)
    body = region_def("single_block")

    traits = traits_def(Pure(), IsolatedFromAbove())

    def __init__(
        self, value: SSAValue, result: MMAMatrixType, body: Region, *, whole: bool = False
    ):
        super().__init__(
            operands=[value],
            result_types=[result],
            properties={"whole": UnitAttr() if whole else None},
            regions=[body],
        )

    def verify_(self) -> None:
        given, kind, block = self.value.type, self.result.type, self.body.block
        assert isinstance(given, MMAMatrixType)
        assert isinstance(kind, MMAMatrixType)
        alike = (given.element_type, given.operand, given.scope) == (
            *(kind.element_type, kind.operand),
            kind.scope,
        )
        if not alike or (self.whole is None and given.rows != kind.rows):
            raise VerifyException(f"'{self.name}' of {given} gives no {kind}")
        if [one.type for one in block.args] != [kind.element_type] * 2:
            raise VerifyException(f"'{self.name}' takes two elements of {kind}")
        _check_yield(self, block, kind)

    @classmethod
    def parse(cls, parser: Parser) -> MatrixReduceOp:
        whole = parser.parse_optional_keyword("whole") is not None
        value = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        given = parser.parse_type()
        parser.parse_punctuation("->")
        place = parser.pos
        kind = parser.parse_type()
        if not isinstance(kind, MMAMatrixType):
            parser.raise_error(f"expected a matrix, found {kind}", place)
        operand = parser.resolve_operand(value, given)
        op = cls(operand, kind, parser.parse_region(), whole=whole)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" whole " if self.whole is not None else " ")
        printer.print_operand(self.value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)
        printer.print_string(" ")
        printer.print_region(self.body)


@irdl_op_definition
class MatrixElementOp(IRDLOperation):
    """`%x = gpu.matrix_element %m : M -> f32`: an element of a matrix, any one that the invocation has."""

    name = "gpu.matrix_element"

    value = operand_def(MMAMatrixType)
    result = result_def()

    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[element_of(value.type)])

    def verify_(self) -> None:
        if element_of(self.value.type) != self.result.type:
            raise VerifyException(f"'{self.name}' of {self.value.type} gives no {self.result.type}")


TENSOR_OPS: tuple[type[Operation], ...] = (
    TensorLoadOp,
    TensorStoreOp,
    MatrixConvertOp,
    MatrixMapOp,
    MatrixReduceOp,
    MatrixElementOp,
    MatrixYieldOp,
)
