"""Enumerations of SPIR-V as attributes, `#spirv.scope<Subgroup>`: names and numbers as in the table.

MLIR shortens the names of some; their rows say how.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from openinfer.runtime.spirv.instructions import ENUMERATIONS, MASKS

_SHORT: Mapping[str, Mapping[str, str]] = {
    "CooperativeMatrixLayout": {"RowMajorKHR": "RowMajor", "ColumnMajorKHR": "ColumnMajor"},
    "CooperativeMatrixUse": {
        "MatrixAKHR": "MatrixA",
        "MatrixBKHR": "MatrixB",
        "MatrixAccumulatorKHR": "MatrixAcc",
    },
    "CooperativeMatrixOperands": {
        "MatrixASignedComponentsKHR": "ASigned",
        "MatrixBSignedComponentsKHR": "BSigned",
        "MatrixCSignedComponentsKHR": "CSigned",
        "MatrixResultSignedComponentsKHR": "ResultSigned",
        "SaturatingAccumulationKHR": "AccSat",
    },
}


class EnumAttr(Data[int]):
    """A number of one enumeration, or the bits of a mask."""

    kind: ClassVar[str]
    """The enumeration in the table."""
    numbers: ClassVar[dict[str, int]]
    """The names that are printed, with their numbers."""

    @classmethod
    def of(cls, text: str) -> Self:
        """`AcquireRelease|WorkgroupMemory`; the empty mask is `None`. Raises ValueError."""
        found = 0
        for name in text.split("|"):
            name = name.strip()
            if name == "None" and cls.kind in MASKS:
                continue
            if name not in cls.numbers:
                known = ", ".join(cls.numbers)
                raise ValueError(f"'{name}' is no {cls.kind}, expected one of {known}")
            found |= cls.numbers[name]
        return cls(found)

    @property
    def text(self) -> str:
        """As it is printed."""
        if self.kind not in MASKS:
            return next(name for name, number in self.numbers.items() if number == self.data)
        names = [name for name, bit in self.numbers.items() if bit & self.data]
        return "|".join(names) or "None"

    @classmethod
    def parse_text(cls, parser: AttrParser, text: str) -> Self:
        """`of`, with the error at its place in the file."""
        try:
            return cls.of(text)
        except ValueError as error:
            parser.raise_error(str(error))

    @classmethod
    def parse_names(cls, parser: AttrParser) -> Self:
        """Names with bars between."""
        names = [parser.parse_identifier()]
        while parser.parse_optional_punctuation("|"):
            names.append(parser.parse_identifier())
        return cls.parse_text(parser, "|".join(names))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        with parser.in_angle_brackets():
            return cls.parse_names(parser).data

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.text)


def _enumeration(name: str, kind: str) -> type[EnumAttr]:
    short = _SHORT.get(kind, {})
    body: dict[str, Any] = {
        "__module__": __name__,
        "__doc__": f"`#spirv.{name}`: a {kind} of SPIR-V.",
        "name": f"spirv.{name}",
        "kind": kind,
        "numbers": {short.get(one, one): number for one, (number, _) in ENUMERATIONS[kind].items()},
    }
    return irdl_attr_definition(type(f"{kind}Attr", (EnumAttr,), body))


AddressingModelAttr = _enumeration("addressing_model", "AddressingModel")
MemoryModelAttr = _enumeration("memory_model", "MemoryModel")
ExecutionModelAttr = _enumeration("execution_model", "ExecutionModel")
ExecutionModeAttr = _enumeration("execution_mode", "ExecutionMode")
StorageClassAttr = _enumeration("storage_class", "StorageClass")
FunctionControlAttr = _enumeration("function_control", "FunctionControl")
SelectionControlAttr = _enumeration("selection_control", "SelectionControl")
LoopControlAttr = _enumeration("loop_control", "LoopControl")
ScopeAttr = _enumeration("scope", "Scope")
MemorySemanticsAttr = _enumeration("memory_semantics", "MemorySemantics")
MemoryAccessAttr = _enumeration("memory_access", "MemoryAccess")
GroupOperationAttr = _enumeration("group_operation", "GroupOperation")
PackedVectorFormatAttr = _enumeration("packed_vector_format", "PackedVectorFormat")
MatrixLayoutAttr = _enumeration("coop_matrix_layout_khr", "CooperativeMatrixLayout")
MatrixUseAttr = _enumeration("coop_matrix_use_khr", "CooperativeMatrixUse")
MatrixOperandsAttr = _enumeration("cooperative_matrix_operands_khr", "CooperativeMatrixOperands")
MatrixReduceAttr = _enumeration("cooperative_matrix_reduce", "CooperativeMatrixReduce")
TensorClampModeAttr = _enumeration("tensor_clamp_mode", "TensorClampMode")

ENUMS: tuple[type[EnumAttr], ...] = (
    AddressingModelAttr,
    MemoryModelAttr,
    ExecutionModelAttr,
    ExecutionModeAttr,
    StorageClassAttr,
    FunctionControlAttr,
    SelectionControlAttr,
    LoopControlAttr,
    ScopeAttr,
    MemorySemanticsAttr,
    MemoryAccessAttr,
    GroupOperationAttr,
    PackedVectorFormatAttr,
    MatrixLayoutAttr,
    MatrixUseAttr,
    MatrixOperandsAttr,
    MatrixReduceAttr,
    TensorClampModeAttr,
)
