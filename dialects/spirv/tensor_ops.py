"""Ops of SPV_NV_tensor_addressing and SPV_NV_cooperative_matrix2.

Matrices that a whole workgroup holds are read from tensors in memory, written to them, and given to functions
of their elements.

MLIR has no names for them; these follow its names of the ops of SPV_KHR_cooperative_matrix. The vendor is
that of the Khronos grammar.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, SymbolRefAttr, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.spirv.enums import MatrixReduceAttr, MemoryAccessAttr
from openinfer.dialects.spirv.global_ops import looked_up
from openinfer.dialects.spirv.structure_ops import SpirvFuncOp
from openinfer.dialects.spirv.types import (
    CooperativeMatrixType,
    PointerType,
    TensorLayoutType,
    TensorViewType,
)


class _LayoutOp(IRDLOperation):
    """`spirv.NV.X %layout[%a, %b] : !spirv.tensor_layout<2, Undefined>`: a layout that says more than another
    one. Numbers have 32 bits."""

    L: ClassVar = VarConstraint("L", base(TensorLayoutType))

    layout = operand_def(L)
    numbers = var_operand_def(IntegerType)
    result = result_def(L)

    traits = traits_def(Pure())

    EACH: ClassVar[int] = 1
    """Numbers of an axis; 0 where there is one of all."""

    def __init__(self, layout: SSAValue | Operation, numbers: Sequence[SSAValue | Operation]):
        super().__init__(operands=[layout, list(numbers)], result_types=[SSAValue.get(layout).type])

    def verify_(self) -> None:
        kind = self.layout.type
        assert isinstance(kind, TensorLayoutType)
        wanted = kind.rank.data * self.EACH or 1
        if len(self.numbers) != wanted:
            raise VerifyException(f"'{self.name}' of {kind} takes {wanted} numbers")
        if any(number.type != i32 for number in self.numbers):
            raise VerifyException(f"'{self.name}' takes integers of 32 bits")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.layout)
        with printer.in_square_brackets():
            printer.print_list(self.numbers, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.layout.type)

    @classmethod
    def parse(cls, parser: Parser) -> _LayoutOp:
        layout = parser.parse_unresolved_operand()
        place = parser.pos
        numbers = parser.parse_comma_separated_list(
            Parser.Delimiter.SQUARE, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        values = parser.resolve_operands(numbers, [i32] * len(numbers), place)
        op = cls(parser.resolve_operand(layout, kind), values)
        op.attributes |= attributes
        return op


@irdl_op_definition
class SetDimensionOp(_LayoutOp):
    """The extent of each axis."""

    name = "spirv.NV.TensorLayoutSetDimension"


@irdl_op_definition
class SetStrideOp(_LayoutOp):
    """How many elements lie from one index of each axis to the next."""

    name = "spirv.NV.TensorLayoutSetStride"


@irdl_op_definition
class SliceOp(_LayoutOp):
    """The first index and the extent of each axis: that part is read or written."""

    name = "spirv.NV.TensorLayoutSlice"
    EACH: ClassVar[int] = 2


@irdl_op_definition
class SetClampValueOp(_LayoutOp):
    """The bits of what lies outside, in the mode Constant; 0 without it."""

    name = "spirv.NV.TensorLayoutSetClampValue"
    EACH: ClassVar[int] = 0


@irdl_op_definition
class LoadTensorOp(IRDLOperation):
    """`%m = spirv.NV.CooperativeMatrixLoadTensor %p, %old, %layout : …`: a matrix of what a layout says,
    through a view whose axes stand in another order. What a view leaves out stays as in `%old`."""

    name = "spirv.NV.CooperativeMatrixLoadTensor"

    M: ClassVar = VarConstraint("M", base(CooperativeMatrixType))

    pointer = operand_def(PointerType)
    object = operand_def(M)
    layout = operand_def(TensorLayoutType)
    view = opt_operand_def(TensorViewType)
    memory_operand = opt_prop_def(MemoryAccessAttr)
    result = result_def(M)

    assembly_format = (
        "$pointer `,` $object `,` $layout (`,` $view^)? (`access` $memory_operand^)? attr-dict `:` "
        "type($pointer) `,` type($layout) (`,` type($view)^)? `->` type($result)"
    )
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        pointer: SSAValue | Operation,
        old: SSAValue | Operation,
        layout: SSAValue | Operation,
        view: SSAValue | Operation | None = None,
    ):
        super().__init__(
            operands=[pointer, old, layout, view], result_types=[SSAValue.get(old).type]
        )

    def verify_(self) -> None:
        _check_axes(self)


@irdl_op_definition
class StoreTensorOp(IRDLOperation):
    """`spirv.NV.CooperativeMatrixStoreTensor %p, %m, %layout : …`: a matrix into what a layout says; what
    lies outside is not written."""

    name = "spirv.NV.CooperativeMatrixStoreTensor"

    pointer = operand_def(PointerType)
    object = operand_def(CooperativeMatrixType)
    layout = operand_def(TensorLayoutType)
    view = opt_operand_def(TensorViewType)
    memory_operand = opt_prop_def(MemoryAccessAttr)

    assembly_format = (
        "$pointer `,` $object `,` $layout (`,` $view^)? (`access` $memory_operand^)? attr-dict `:` "
        "type($pointer) `,` type($object) `,` type($layout) (`,` type($view)^)?"
    )
    traits = traits_def(MemoryWriteEffect())

    def __init__(
        self,
        pointer: SSAValue | Operation,
        value: SSAValue | Operation,
        layout: SSAValue | Operation,
        view: SSAValue | Operation | None = None,
    ):
        super().__init__(operands=[pointer, value, layout, view])

    def verify_(self) -> None:
        _check_axes(self)


def _check_axes(op: LoadTensorOp | StoreTensorOp) -> None:
    """A view has the axes of its layout, and what it gives is a matrix."""
    layout = op.layout.type
    assert isinstance(layout, TensorLayoutType)
    axes = layout.rank.data
    if op.view is None and axes > 2:
        raise VerifyException(f"'{op.name}' of {layout} needs a view: a matrix has 2 axes")
    if op.view is not None:
        view = op.view.type
        assert isinstance(view, TensorViewType)
        if len(view.permutation) != axes:
            raise VerifyException(f"'{op.name}': {view} has not the axes of {layout}")


def _function_of(op: Operation, name: SymbolRefAttr) -> SpirvFuncOp:
    found = looked_up(op, name)
    if not isinstance(found, SpirvFuncOp):
        raise VerifyException(f"'{op.name}': {name} is no function")
    return found


@irdl_op_definition
class PerElementOp(IRDLOperation):
    """`%r = spirv.EXT.CooperativeMatrixPerElementOp @f(%m, %x) : (M, f32) -> M`: a function of row, column,
    each element, and further values."""

    name = "spirv.EXT.CooperativeMatrixPerElementOp"

    function = prop_def(SymbolRefAttr)
    arguments = var_operand_def()
    result = result_def(CooperativeMatrixType)

    assembly_format = (
        "$function `(` $arguments `)` attr-dict `:` functional-type($arguments, results)"
    )
    traits = traits_def(Pure())

    def __init__(self, function: str, arguments: Sequence[SSAValue | Operation]):
        values = [SSAValue.get(one) for one in arguments]
        super().__init__(
            operands=[values],
            result_types=[values[0].type],
            properties={"function": SymbolRefAttr(function)},
        )

    def verify_(self) -> None:
        kind = self.result.type
        if not self.arguments or self.arguments[0].type != kind:
            raise VerifyException(f"'{self.name}' gives {kind}, which it does not take")
        assert isinstance(kind, CooperativeMatrixType)
        function = _function_of(self, self.function).function_type
        element = kind.element_type
        # A further matrix is taken element by element, too.
        more = [_element(one.type) for one in self.arguments[1:]]
        wanted: tuple[Attribute, ...] = (i32, i32, element, *more)
        if tuple(function.inputs) != wanted or tuple(function.outputs) != (element,):
            raise VerifyException(f"'{self.name}': {self.function} is {function}")


def _element(kind: Attribute) -> Attribute:
    return kind.element_type if isinstance(kind, CooperativeMatrixType) else kind


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """`%r = spirv.EXT.CooperativeMatrixReduce <Row> @max(%m) : M -> M1`: the elements of a row (of a column,
    of all) joined by a function of two, wherever they are of it in the result."""

    name = "spirv.EXT.CooperativeMatrixReduce"

    reduce = prop_def(MatrixReduceAttr)
    function = prop_def(SymbolRefAttr)
    matrix = operand_def(CooperativeMatrixType)
    result = result_def(CooperativeMatrixType)

    assembly_format = (
        "$reduce $function `(` $matrix `)` attr-dict `:` type($matrix) `->` type($result)"
    )
    traits = traits_def(Pure())

    def __init__(self, reduce: str, function: str, matrix: SSAValue | Operation, result: Attribute):
        super().__init__(
            operands=[matrix],
            result_types=[result],
            properties={
                "reduce": MatrixReduceAttr.of(reduce),
                "function": SymbolRefAttr(function),
            },
        )

    def verify_(self) -> None:
        given, kind = self.matrix.type, self.result.type
        assert isinstance(given, CooperativeMatrixType)
        assert isinstance(kind, CooperativeMatrixType)
        element = given.element_type
        if (kind.element_type, kind.scope, kind.use) != (element, given.scope, given.use):
            raise VerifyException(f"'{self.name}' of {given} gives no {kind}")
        if self.reduce.text == "Row" and kind.rows != given.rows:
            raise VerifyException(f"'{self.name}' of rows of {given} gives no {kind}")
        if self.reduce.text == "Column" and kind.columns != given.columns:
            raise VerifyException(f"'{self.name}' of columns of {given} gives no {kind}")
        function = _function_of(self, self.function).function_type
        if tuple(function.inputs) != (element,) * 2 or tuple(function.outputs) != (element,):
            raise VerifyException(f"'{self.name}': {self.function} is {function}")


TENSOR_OPS = (
    SetDimensionOp,
    SetStrideOp,
    SliceOp,
    SetClampValueOp,
    LoadTensorOp,
    StoreTensorOp,
    PerElementOp,
    ReduceOp,
)
