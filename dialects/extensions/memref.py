"""`memref` with MLIR's syntax for `cast`, `copy`, `global` and `atomic_rmw`, and with `prefetch`.

View-like ops are pure here, so that loop-invariant ones can be hoisted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    TensorType,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from openinfer.dialects.extensions.extend import add_traits, extended_dialect, extended_op
from openinfer.dialects.late_syntax import op_definition

for _view_op in (
    memref.AssumeAlignmentOp,
    memref.CastOp,
    memref.CollapseShapeOp,
    memref.DimOp,
    memref.ExpandShapeOp,
    memref.ExtractAlignedPointerAsIndexOp,
    memref.ExtractStridedMetaDataOp,
    memref.GetGlobalOp,
    memref.ReinterpretCastOp,
    memref.SubviewOp,
    memref.ViewOp,
):
    add_traits(_view_op, Pure())

ATOMIC_KINDS = (
    *("addf", "addi", "assign", "maximumf", "maxs", "maxu", "minimumf", "mins", "minu", "mulf"),
    *("muli", "ori", "andi", "maxnumf", "minnumf", "xori"),
)
"""MLIR's names of the `atomic_rmw` kinds, in the order of their numbers."""


@extended_op(assembly_format="$source attr-dict `:` type($source) `to` type($dest)")
class CastOp(memref.CastOp):
    """The same buffer under a type that says more or less about its sizes."""


@extended_op(
    assembly_format="$source `,` $destination attr-dict `:` type($source) `to` type($destination)"
)
class CopyOp(memref.CopyOp):
    """Copy all elements of one buffer to another of the same sizes."""


@extended_op(custom_syntax=True)
class GlobalOp(memref.GlobalOp):
    """A named static buffer, with constant contents or none."""

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.sym_visibility.data)
        if self.constant is not None:
            printer.print_string(" constant")
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(" : ")
        printer.print_attribute(self.type)
        printer.print_string(" = ")
        if isinstance(self.initial_value, UnitAttr):
            printer.print_string("uninitialized")
        else:
            self.initial_value.print_without_type(printer)
        attributes = dict(self.attributes)
        if self.alignment is not None:
            attributes["alignment"] = self.alignment
        printer.print_op_attributes(attributes)

    @classmethod
    def parse(cls, parser: Parser) -> GlobalOp:
        visibility = parser.parse_optional_str_literal() or "public"
        constant = UnitAttr() if parser.parse_optional_keyword("constant") else None
        name = parser.parse_symbol_name()
        parser.parse_punctuation(":")
        type = cast(MemRefType, parser.parse_type())
        value: Attribute = UnitAttr()
        if parser.parse_optional_punctuation("=") and not parser.parse_optional_keyword(
            "uninitialized"
        ):
            parser.parse_keyword("dense")
            contents = TensorType(type.element_type, type.shape)
            value = DenseIntOrFPElementsAttr.parse_with_type(parser, contents)
        attributes = parser.parse_optional_attr_dict()
        alignment = cast(IntegerAttr[IntegerType] | None, attributes.pop("alignment", None))
        op = cls.build(
            properties={
                "sym_name": name,
                "type": type,
                "initial_value": value,
                "sym_visibility": StringAttr(visibility),
                "constant": constant,
                "alignment": alignment,
            }
        )
        op.attributes |= attributes
        return op


@extended_op(custom_syntax=True)
class AtomicRMWOp(memref.AtomicRMWOp):
    """Read, combine and write one element; gives the old value."""

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {ATOMIC_KINDS[self.kind.value.data]} ")
        printer.print_operand(self.value)
        printer.print_string(", ")
        printer.print_operand(self.memref)
        with printer.in_square_brackets():
            printer.print_list(self.indices, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type([self.value.type, self.memref.type], [self.result.type])

    @classmethod
    def parse(cls, parser: Parser) -> AtomicRMWOp:
        kind = parser.parse_identifier("kind of update")
        if kind not in ATOMIC_KINDS:
            parser.raise_error(f"unknown kind of update '{kind}'")
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        buffer = parser.parse_unresolved_operand()
        indices = parser.parse_comma_separated_list(
            Parser.Delimiter.SQUARE, lambda: parser.parse_operand(IndexType())
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_function_type()
        operands = parser.resolve_operands([value, buffer], types.inputs.data, parser.pos)
        op = cls.build(
            operands=[operands[0], operands[1], indices],
            result_types=list(types.outputs.data),
            properties={"kind": IntegerAttr(ATOMIC_KINDS.index(kind), 64)},
        )
        op.attributes |= attributes
        return op


@op_definition
class PrefetchOp(IRDLOperation):
    """Ask for the cache line of an element: `locality` 0 (use once) to 3 (keep)."""

    name = "memref.prefetch"

    memref = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    is_write = prop_def(BoolAttr, prop_name="isWrite")
    locality_hint = prop_def(IntegerAttr[IntegerType], prop_name="localityHint")
    is_data_cache = prop_def(BoolAttr, prop_name="isDataCache")

    # No effect that a program sees, but dead code elimination must keep it and nothing may move it.
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        buffer: SSAValue,
        indices: Sequence[SSAValue],
        *,
        write: bool = False,
        locality: int = 3,
        data: bool = True,
    ):
        super().__init__(
            operands=[buffer, indices],
            properties={
                "isWrite": BoolAttr.from_bool(write),
                "localityHint": IntegerAttr(locality, i32),
                "isDataCache": BoolAttr.from_bool(data),
            },
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.memref)
        with printer.in_square_brackets():
            printer.print_list(self.indices, printer.print_operand)
        printer.print_string(", write, " if self.is_write.value.data else ", read, ")
        printer.print_string(f"locality<{self.locality_hint.value.data}>, ")
        printer.print_string("data" if self.is_data_cache.value.data else "instr")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.memref.type)

    @classmethod
    def parse(cls, parser: Parser) -> PrefetchOp:
        buffer = parser.parse_unresolved_operand()
        indices = parser.parse_comma_separated_list(
            Parser.Delimiter.SQUARE, lambda: parser.parse_operand(IndexType())
        )
        parser.parse_punctuation(",")
        write = parser.expect(
            lambda: parser.parse_optional_keyword_in(("read", "write")), "expected read or write"
        )
        parser.parse_punctuation(",")
        parser.parse_keyword("locality")
        with parser.in_angle_brackets():
            locality = parser.parse_integer()
        parser.parse_punctuation(",")
        cache = parser.expect(
            lambda: parser.parse_optional_keyword_in(("data", "instr")), "expected data or instr"
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operand = parser.resolve_operand(buffer, parser.parse_type())
        op = cls(operand, indices, write=write == "write", locality=locality, data=cache == "data")
        op.attributes |= attributes
        return op


MemRef = extended_dialect(memref.MemRef, (AtomicRMWOp, CastOp, CopyOp, GlobalOp, PrefetchOp))
