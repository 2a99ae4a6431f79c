"""Types of SPIR-V that the builtin dialect lacks, in MLIR's syntax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    IntAttr,
    IntegerType,
    NoneAttr,
    StringAttr,
    VectorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.spirv.enums import (
    EnumAttr,
    MatrixUseAttr,
    ScopeAttr,
    StorageClassAttr,
    TensorClampModeAttr,
)
from openinfer.runtime.spirv.instructions import ENUMERATIONS

Scalar: TypeAlias = IntegerType | AnyFloat
NO_STRIDE = IntAttr(0)
MOST_AXES = 5
"""Of a tensor layout."""


def _print_stride(printer: Printer, stride: IntAttr) -> None:
    if stride.data:
        printer.print_string(f", stride={stride.data}")


def _parse_stride(parser: AttrParser) -> IntAttr:
    if not parser.parse_optional_punctuation(","):
        return NO_STRIDE
    parser.parse_keyword("stride")
    parser.parse_punctuation("=")
    place = parser.pos
    stride = parser.parse_integer(allow_boolean=False, allow_negative=False)
    if not stride:
        parser.raise_error("a stride has 1 byte or more", place)
    return IntAttr(stride)


@irdl_attr_definition
class ArrayType(ParametrizedAttribute, TypeAttribute):
    """`!spirv.array<256 x f32, stride=4>`: a fixed number of elements; the stride is in bytes."""

    name = "spirv.array"

    count: IntAttr
    element_type: Attribute
    stride: IntAttr

    def verify(self) -> None:
        if self.count.data < 1:
            raise VerifyException(
                f"an array of SPIR-V has 1 element or more, not {self.count.data}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            count = parser.parse_shape_dimension(allow_dynamic=False)
            parser.parse_shape_delimiter()
            return IntAttr(count), parser.parse_type(), _parse_stride(parser)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.count.data} x ")
            printer.print_attribute(self.element_type)
            _print_stride(printer, self.stride)


@irdl_attr_definition
class RuntimeArrayType(ParametrizedAttribute, TypeAttribute):
    """`!spirv.rtarray<f32, stride=4>`: as many elements as its buffer holds."""

    name = "spirv.rtarray"

    element_type: Attribute
    stride: IntAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return parser.parse_type(), _parse_stride(parser)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element_type)
            _print_stride(printer, self.stride)


@irdl_attr_definition
class MemberAttr(ParametrizedAttribute):
    """One member of a struct: its type, its offset in bytes (NoneAttr: none) and its decorations."""

    name = "spirv.member"

    type: Attribute
    offset: IntAttr | NoneAttr
    decorations: ArrayAttr[StringAttr]


def _parse_member(parser: AttrParser) -> MemberAttr:
    type_ = parser.parse_type()
    offset: IntAttr | NoneAttr = NoneAttr()
    decorations: list[StringAttr] = []
    if parser.parse_optional_punctuation("["):
        while True:
            place = parser.pos
            number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
            if number is not None:
                offset = IntAttr(number)
            else:
                name = parser.parse_identifier()
                if name not in ENUMERATIONS["Decoration"] or ENUMERATIONS["Decoration"][name][1]:
                    parser.raise_error(f"'{name}' is no decoration of a member", place)
                decorations.append(StringAttr(name))
            if not parser.parse_optional_punctuation(","):
                break
        parser.parse_punctuation("]")
    return MemberAttr(type_, offset, ArrayAttr(decorations))


def _print_member(printer: Printer, member: MemberAttr) -> None:
    printer.print_attribute(member.type)
    parts = [str(member.offset.data)] if isinstance(member.offset, IntAttr) else []
    parts += [decoration.data for decoration in member.decorations]
    if parts:
        printer.print_string(f" [{', '.join(parts)}]")


@irdl_attr_definition
class StructType(ParametrizedAttribute, TypeAttribute):
    """`!spirv.struct<(i32 [0], f32 [4, NonWritable])>`; one with a name is never the same as another."""

    name = "spirv.struct"

    identifier: StringAttr
    """Empty for a struct without a name."""
    members: ArrayAttr[MemberAttr]

    @classmethod
    def of(
        cls,
        types: Sequence[Attribute],
        offsets: Sequence[int] = (),
        decorations: Sequence[str] = (),
    ) -> StructType:
        """A struct without a name, whose members lie at offsets, if there are any, and have decorations."""
        listed = ArrayAttr([StringAttr(name) for name in decorations])
        places = [IntAttr(place) for place in offsets] or [NoneAttr()] * len(types)
        members = [
            MemberAttr(type_, place, listed) for type_, place in zip(types, places, strict=True)
        ]
        return cls(StringAttr(""), ArrayAttr(members))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            identifier = parser.parse_optional_identifier() or ""
            if identifier:
                parser.parse_punctuation(",")
            members = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: _parse_member(parser)
            )
        return StringAttr(identifier), ArrayAttr(members)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            if self.identifier.data:
                printer.print_string(f"{self.identifier.data}, ")
            with printer.in_parens():
                printer.print_list(self.members, lambda member: _print_member(printer, member))


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """`!spirv.ptr<f32, StorageBuffer>`."""

    name = "spirv.ptr"

    pointee: Attribute
    storage_class: EnumAttr

    @classmethod
    def to(cls, pointee: Attribute, storage_class: str) -> PointerType:
        """A pointer into a storage class by its name."""
        return cls(pointee, StorageClassAttr.of(storage_class))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            pointee = parser.parse_type()
            parser.parse_punctuation(",")
            return pointee, StorageClassAttr.parse_names(parser)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.pointee)
            printer.print_string(f", {self.storage_class.text}")


@irdl_attr_definition
class CooperativeMatrixType(ParametrizedAttribute, TypeAttribute):
    """`!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>`: a matrix that the invocations of a scope hold."""

    name = "spirv.coopmatrix"

    rows: IntAttr
    columns: IntAttr
    element_type: Attribute
    scope: EnumAttr
    use: EnumAttr

    @classmethod
    def of(
        cls, rows: int, columns: int, element: Attribute, use: str, scope: str = "Subgroup"
    ) -> CooperativeMatrixType:
        """By the names of use and scope."""
        return cls(
            IntAttr(rows), IntAttr(columns), element, ScopeAttr.of(scope), MatrixUseAttr.of(use)
        )

    def verify(self) -> None:
        if self.rows.data < 1 or self.columns.data < 1:
            raise VerifyException("a cooperative matrix has 1 row and 1 column or more")
        if not isinstance(self.element_type, IntegerType | AnyFloat):
            raise VerifyException(
                f"a cooperative matrix holds integers or floats, not {self.element_type}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            place = parser.pos
            shape, element = parser.parse_ranked_shape()
            if len(shape) != 2:
                parser.raise_error(f"a cooperative matrix has 2 axes, not {len(shape)}", place)
            parser.parse_punctuation(",")
            scope = ScopeAttr.parse_names(parser)
            parser.parse_punctuation(",")
            use = MatrixUseAttr.parse_names(parser)
        return IntAttr(shape[0]), IntAttr(shape[1]), element, scope, use

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.rows.data}x{self.columns.data}x")
            printer.print_attribute(self.element_type)
            printer.print_string(f", {self.scope.text}, {self.use.text}")


@irdl_attr_definition
class TensorLayoutType(ParametrizedAttribute, TypeAttribute):
    """`!spirv.tensor_layout<2, Constant>`: how many axes of memory a cooperative matrix is read from, and
    what lies outside of them (SPV_NV_tensor_addressing; MLIR has no name for it)."""

    name = "spirv.tensor_layout"

    rank: IntAttr
    clamp: EnumAttr

    @classmethod
    def of(cls, rank: int, clamp: str = "Undefined") -> TensorLayoutType:
        """By the name of what lies outside."""
        return cls(IntAttr(rank), TensorClampModeAttr.of(clamp))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            rank = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(",")
            return IntAttr(rank), TensorClampModeAttr.parse_names(parser)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.rank.data}, {self.clamp.text}")

    def verify(self) -> None:
        if not 1 <= self.rank.data <= MOST_AXES:
            raise VerifyException(f"a tensor layout has 1 to {MOST_AXES} axes")


@irdl_attr_definition
class TensorViewType(ParametrizedAttribute, TypeAttribute):
    """`!spirv.tensor_view<[1, 0]>`: the axes of a tensor layout in the order of the matrix
    (SPV_NV_tensor_addressing)."""

    name = "spirv.tensor_view"

    permutation: ArrayAttr[IntAttr]

    @classmethod
    def of(cls, *axes: int) -> TensorViewType:
        """By the numbers of the axes."""
        return cls(ArrayAttr(IntAttr(axis) for axis in axes))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            axes = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE,
                lambda: IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False)),
            )
        return (ArrayAttr(axes),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"[{', '.join(str(axis.data) for axis in self.permutation)}]")

    def verify(self) -> None:
        axes = sorted(axis.data for axis in self.permutation)
        if not 1 <= len(axes) <= MOST_AXES or axes != list(range(len(axes))):
            raise VerifyException(f"{self} permutes no axes")


TYPES = (
    ArrayType,
    RuntimeArrayType,
    StructType,
    PointerType,
    CooperativeMatrixType,
    TensorLayoutType,
    TensorViewType,
)


def element_of(type_: Attribute) -> Attribute:
    """What a vector, an array or a matrix consists of; other types consist of themselves."""
    if isinstance(type_, VectorType | ArrayType | RuntimeArrayType | CooperativeMatrixType):
        return type_.element_type
    return type_


def member_of(type_: Attribute, index: int | None) -> Attribute | None:
    """What lies at an index of a composite; None where nothing does. None as index: any."""
    if isinstance(type_, StructType):
        if index is None or not 0 <= index < len(type_.members):
            return None
        return type_.members.data[index].type
    if isinstance(type_, VectorType):
        (count,) = type_.get_shape()
    elif isinstance(type_, ArrayType):
        count = type_.count.data
    elif isinstance(type_, RuntimeArrayType | CooperativeMatrixType):
        count = None
    else:
        return None
    if index is not None and count is not None and not 0 <= index < count:
        return None
    return element_of(type_)
