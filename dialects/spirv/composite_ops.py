"""Constants of SPIR-V, and ops on vectors, arrays and structs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    VectorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.spirv.types import ArrayType, CooperativeMatrixType, member_of

Indices = ArrayAttr[IntegerAttr]


def indices_of(numbers: Sequence[int]) -> Indices:
    """Literals, as attributes of i32."""
    return ArrayAttr(IntegerAttr(number, i32) for number in numbers)


def parse_indices(parser: AttrParser) -> Indices:
    """`[1 : i32, 0 : i32]`."""
    found = parser.parse_attribute()
    if not isinstance(found, ArrayAttr) or not all(isinstance(one, IntegerAttr) for one in found):
        parser.raise_error("expected a list of integers")
    return cast(Indices, found)


def part_of(type_: Attribute, indices: Indices) -> Attribute | None:
    """What lies at literal indices of a composite; None where nothing does."""
    found: Attribute | None = type_
    for index in indices:
        found = None if found is None else member_of(found, index.value.data)
    return found


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """`spirv.Constant 1.0 : f32`; a list for an array."""

    name = "spirv.Constant"

    value = prop_def()
    res = result_def()

    traits = traits_def(ConstantLike(), Pure())

    def __init__(self, value: Attribute, type_: Attribute | None = None):
        if type_ is None:
            assert isinstance(value, IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr)
            type_ = value.type
        super().__init__(result_types=[type_], properties={"value": value})

    def verify_(self) -> None:
        type_ = self.res.type
        if isinstance(self.value, ArrayAttr):
            if not isinstance(type_, ArrayType) or type_.count.data != len(self.value):
                raise VerifyException(f"'spirv.Constant' lists {len(self.value)} values of {type_}")
        elif isinstance(self.value, IntegerAttr | FloatAttr):
            if self.value.type != type_:
                raise VerifyException(
                    f"'spirv.Constant' of {type_} has a value of {self.value.type}"
                )
        elif isinstance(self.value, DenseIntOrFPElementsAttr):
            whole, shape = type_, self.value.type
            if not isinstance(whole, VectorType | ArrayType) or shape.element_type != (
                whole.element_type
            ):
                raise VerifyException(f"'spirv.Constant' of {type_} has a value of {shape}")
        else:
            raise VerifyException(f"'spirv.Constant' cannot be {self.value}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.value)
        printer.print_op_attributes(self.attributes)
        if isinstance(self.value, ArrayAttr):
            printer.print_string(" : ")
            printer.print_attribute(self.res.type)

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        value = parser.parse_attribute()
        attributes = parser.parse_optional_attr_dict()
        type_: Attribute | None = None
        if isinstance(value, ArrayAttr):
            parser.parse_punctuation(":")
            type_ = parser.parse_type()
        elif not isinstance(value, IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr):
            parser.raise_error("expected a number, a list of them, or dense elements")
        op = cls(value, type_)
        op.attributes |= attributes
        return op

    @classmethod
    def true(cls) -> ConstantOp:
        return cls(IntegerAttr(1, i1))


@irdl_op_definition
class CompositeConstructOp(IRDLOperation):
    """`spirv.CompositeConstruct %a, %b : (f32, f32) -> vector<2xf32>`; a matrix is made of one scalar."""

    name = "spirv.CompositeConstruct"

    constituents = var_operand_def()
    res = result_def()

    assembly_format = "operands attr-dict `:` functional-type(operands, results)"

    traits = traits_def(Pure())

    def __init__(self, constituents: Sequence[SSAValue | Operation], result: Attribute):
        super().__init__(operands=[constituents], result_types=[result])

    def verify_(self) -> None:
        result, found = self.res.type, self.constituents.types
        if isinstance(result, CooperativeMatrixType):
            good = list(found) == [result.element_type]
        elif isinstance(result, VectorType):
            elements = 0
            good = bool(found)
            for type_ in found:
                whole = isinstance(type_, VectorType)
                elements += type_.get_shape()[0] if whole else 1
                good = good and (type_.element_type if whole else type_) == result.element_type
            good = good and (elements,) == result.get_shape()
        else:
            members = [member_of(result, index) for index in range(len(found))]
            good = list(found) == members and member_of(result, len(found)) is None
        if not good:
            listed = ", ".join(str(type_) for type_ in found)
            raise VerifyException(f"'spirv.CompositeConstruct' makes no {result} of ({listed})")


@irdl_op_definition
class CompositeExtractOp(IRDLOperation):
    """`spirv.CompositeExtract %v[0 : i32] : vector<3xi32>`."""

    name = "spirv.CompositeExtract"

    composite = operand_def()
    indices = prop_def(ArrayAttr[IntegerAttr])
    res = result_def()

    traits = traits_def(Pure())

    def __init__(self, composite: SSAValue | Operation, indices: Sequence[int]):
        listed = indices_of(indices)
        part = part_of(SSAValue.get(composite).type, listed)
        assert part is not None
        super().__init__(operands=[composite], result_types=[part], properties={"indices": listed})

    def verify_(self) -> None:
        if not len(self.indices) or part_of(self.composite.type, self.indices) != self.res.type:
            raise VerifyException(
                f"'spirv.CompositeExtract' finds no {self.res.type} in {self.composite.type}"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.composite)
        printer.print_attribute(self.indices)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.composite.type)

    @classmethod
    def parse(cls, parser: Parser) -> CompositeExtractOp:
        composite = parser.parse_unresolved_operand()
        place = parser.pos
        indices = parse_indices(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        part = part_of(type_, indices)
        if part is None:
            parser.raise_error(f"nothing of {type_} lies there", place)
        return cls.build(
            operands=[parser.resolve_operand(composite, type_)],
            result_types=[part],
            properties={"indices": indices},
            attributes=attributes,
        )


@irdl_op_definition
class CompositeInsertOp(IRDLOperation):
    """`spirv.CompositeInsert %x, %v[1 : i32] : i32 into vector<3xi32>`."""

    name = "spirv.CompositeInsert"

    object = operand_def()
    composite = operand_def()
    indices = prop_def(ArrayAttr[IntegerAttr])
    res = result_def()

    traits = traits_def(Pure())

    def __init__(
        self,
        object: SSAValue | Operation,
        composite: SSAValue | Operation,
        indices: Sequence[int],
    ):
        super().__init__(
            operands=[object, composite],
            result_types=[SSAValue.get(composite).type],
            properties={"indices": indices_of(indices)},
        )

    def verify_(self) -> None:
        type_ = self.composite.type
        if self.res.type != type_ or part_of(type_, self.indices) != self.object.type:
            raise VerifyException(
                f"'spirv.CompositeInsert' cannot put {self.object.type} into {type_}"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.object)
        printer.print_string(", ")
        printer.print_operand(self.composite)
        printer.print_attribute(self.indices)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.object.type)
        printer.print_string(" into ")
        printer.print_attribute(self.composite.type)

    @classmethod
    def parse(cls, parser: Parser) -> CompositeInsertOp:
        object = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        composite = parser.parse_unresolved_operand()
        indices = parse_indices(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        part = parser.parse_type()
        parser.parse_keyword("into")
        type_ = parser.parse_type()
        return cls.build(
            operands=[
                parser.resolve_operand(object, part),
                parser.resolve_operand(composite, type_),
            ],
            result_types=[type_],
            properties={"indices": indices},
            attributes=attributes,
        )


@irdl_op_definition
class VectorShuffleOp(IRDLOperation):
    """`spirv.VectorShuffle [1 : i32, 0 : i32] %a, %b : T, U -> V`: elements of two vectors by number."""

    name = "spirv.VectorShuffle"

    vector1 = operand_def(VectorType)
    vector2 = operand_def(VectorType)
    components = prop_def(ArrayAttr[IntegerAttr])
    res = result_def(VectorType)

    traits = traits_def(Pure())

    def __init__(self, a: SSAValue | Operation, b: SSAValue | Operation, components: Sequence[int]):
        element = cast(VectorType, SSAValue.get(a).type).element_type
        super().__init__(
            operands=[a, b],
            result_types=[VectorType(element, [len(components)])],
            properties={"components": indices_of(components)},
        )

    def verify_(self) -> None:
        first, second, result = (cast(VectorType, v.type) for v in (*self.operands, self.res))
        count = first.get_shape()[0] + second.get_shape()[0]
        if not first.element_type == second.element_type == result.element_type:
            raise VerifyException("'spirv.VectorShuffle' mixes types of elements")
        if result.get_shape() != (len(self.components),) or not all(
            0 <= one.value.data < count or one.value.data == 0xFFFFFFFF for one in self.components
        ):
            raise VerifyException(
                f"'spirv.VectorShuffle' does not choose {result} of {count} elements"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.components)
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.operand_types, printer.print_attribute)
        printer.print_string(" -> ")
        printer.print_attribute(self.res.type)

    @classmethod
    def parse(cls, parser: Parser) -> VectorShuffleOp:
        components = parse_indices(parser)
        names = [parser.parse_unresolved_operand()]
        parser.parse_punctuation(",")
        names.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
        parser.parse_punctuation("->")
        result = parser.parse_type()
        return cls.build(
            operands=parser.resolve_operands(names, types, parser.pos),
            result_types=[result],
            properties={"components": components},
            attributes=attributes,
        )


@irdl_op_definition
class MatrixLengthOp(IRDLOperation):
    """`spirv.KHR.CooperativeMatrixLength : TYPE`: how many elements of a matrix an invocation holds."""

    name = "spirv.KHR.CooperativeMatrixLength"

    cooperative_matrix_type = prop_def(CooperativeMatrixType)
    res = result_def(i32)

    traits = traits_def(Pure())

    def __init__(self, matrix: CooperativeMatrixType):
        super().__init__(result_types=[i32], properties={"cooperative_matrix_type": matrix})

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.cooperative_matrix_type)

    @classmethod
    def parse(cls, parser: Parser) -> MatrixLengthOp:
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        place = parser.pos
        type_ = parser.parse_type()
        if not isinstance(type_, CooperativeMatrixType):
            parser.raise_error(f"{type_} is no cooperative matrix", place)
        op = cls(type_)
        op.attributes |= attributes
        return op


COMPOSITE_OPS = (
    ConstantOp,
    CompositeConstructOp,
    CompositeExtractOp,
    CompositeInsertOp,
    VectorShuffleOp,
    MatrixLengthOp,
)
