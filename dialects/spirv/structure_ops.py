"""Modules, functions and entry points of SPIR-V."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    i32,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    opt_result_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    NoTerminator,
    OptionalSymbolOpInterface,
    SymbolOpInterface,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.spirv.enums import (
    AddressingModelAttr,
    ExecutionModeAttr,
    ExecutionModelAttr,
    FunctionControlAttr,
    MemoryModelAttr,
)
from openinfer.dialects.spirv.global_ops import (
    AddressOfOp,
    GlobalVariableOp,
    ReferenceOfOp,
    SpecConstantCompositeOp,
    SpecConstantOp,
    looked_up,
)
from openinfer.runtime.spirv.instructions import CAPABILITIES, ENUMERATIONS

VERSIONS = ("v1.0", "v1.1", "v1.2", "v1.3", "v1.4", "v1.5", "v1.6")


@irdl_attr_definition
class VersionAttr(ParametrizedAttribute):
    """`#spirv.vce<v1.3, [Shader], [SPV_KHR_8bit_storage]>`: what a module asks of its device."""

    name = "spirv.vce"

    version: StringAttr
    capabilities: ArrayAttr[StringAttr]
    extensions: ArrayAttr[StringAttr]

    @classmethod
    def of(
        cls, version: str, capabilities: Sequence[str], extensions: Sequence[str] = ()
    ) -> VersionAttr:
        return cls(
            StringAttr(version),
            ArrayAttr(map(StringAttr, capabilities)),
            ArrayAttr(map(StringAttr, extensions)),
        )

    def verify(self) -> None:
        if self.version.data not in VERSIONS:
            raise VerifyException(f"SPIR-V has no version {self.version.data}")
        for capability in self.capabilities:
            if capability.data not in CAPABILITIES:
                raise VerifyException(f"'{capability.data}' is no capability of the table")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def names() -> ArrayAttr[StringAttr]:
            found = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_identifier
            )
            return ArrayAttr(map(StringAttr, found))

        with parser.in_angle_brackets():
            # `v1.3` is a name to the lexer.
            version = StringAttr(parser.parse_identifier())
            parser.parse_punctuation(",")
            capabilities = names()
            parser.parse_punctuation(",")
            return version, capabilities, names()

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            capabilities = ", ".join(one.data for one in self.capabilities)
            extensions = ", ".join(one.data for one in self.extensions)
            printer.print_string(f"{self.version.data}, [{capabilities}], [{extensions}]")


@irdl_op_definition
class SpirvModuleOp(IRDLOperation):
    """`spirv.module @name Logical GLSL450 requires #spirv.vce<…> { … }`."""

    name = "spirv.module"

    addressing_model = prop_def(AddressingModelAttr)
    memory_model = prop_def(MemoryModelAttr)
    vce_triple = opt_prop_def(VersionAttr)
    sym_name = opt_prop_def(SymbolNameConstraint())
    body = region_def("single_block")

    traits = traits_def(
        IsolatedFromAbove(),
        NoTerminator(),
        OptionalSymbolOpInterface(),
        SymbolTable(),
    )

    def __init__(
        self,
        body: Region,
        version: VersionAttr,
        addressing_model: str = "Logical",
        memory_model: str = "GLSL450",
        sym_name: str | None = None,
    ):
        super().__init__(
            regions=[body],
            properties={
                "addressing_model": AddressingModelAttr.of(addressing_model),
                "memory_model": MemoryModelAttr.of(memory_model),
                "vce_triple": version,
                "sym_name": None if sym_name is None else StringAttr(sym_name),
            },
        )

    def verify_(self) -> None:
        for op in self.body.block.ops:
            if not isinstance(op, MODULE_OPS):
                raise VerifyException(f"'{op.name}' does not stand in a 'spirv.module'")

    def print(self, printer: Printer) -> None:
        if self.sym_name is not None:
            printer.print_string(" ")
            printer.print_symbol_name(self.sym_name.data)
        printer.print_string(f" {self.addressing_model.text} {self.memory_model.text}")
        if self.vce_triple is not None:
            printer.print_string(" requires ")
            printer.print_attribute(self.vce_triple)
        if self.attributes:
            printer.print_string(" attributes")
            printer.print_op_attributes(self.attributes)
        printer.print_string(" ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> SpirvModuleOp:
        name = parser.parse_optional_symbol_name()
        addressing = AddressingModelAttr.parse_names(parser)
        memory = MemoryModelAttr.parse_names(parser)
        version: Attribute | None = None
        if parser.parse_optional_keyword("requires"):
            version = parser.parse_attribute()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        return cls.build(
            regions=[parser.parse_region()],
            properties={
                "addressing_model": addressing,
                "memory_model": memory,
                "vce_triple": version,
                "sym_name": name,
            },
            attributes={} if attributes is None else attributes.data,
        )


@irdl_op_definition
class SpirvFuncOp(IRDLOperation):
    """`spirv.func @main(%a: f32) -> f32 "None" { … }`."""

    name = "spirv.func"

    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    function_control = prop_def(FunctionControlAttr)
    body = region_def()

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def __init__(
        self,
        name: str,
        body: Region,
        inputs: Sequence[Attribute] = (),
        outputs: Sequence[Attribute] = (),
        control: str = "None",
    ):
        super().__init__(
            regions=[body],
            properties={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(inputs, outputs),
                "function_control": FunctionControlAttr.of(control),
            },
        )

    def verify_(self) -> None:
        if len(self.function_type.outputs) > 1:
            raise VerifyException("'spirv.func' gives one value, or none")
        if not self.body.blocks:
            raise VerifyException("'spirv.func' has a body")
        first = self.body.blocks[0]
        if tuple(arg.type for arg in first.args) != tuple(self.function_type.inputs):
            raise VerifyException("'spirv.func': the first block takes what the function takes")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        with printer.in_parens():
            printer.print_list(self.body.blocks[0].args, printer.print_block_argument)
        for output in self.function_type.outputs:
            printer.print_string(" -> ")
            printer.print_attribute(output)
        printer.print_string(f' "{self.function_control.text}"')
        if self.attributes:
            printer.print_string(" attributes")
            printer.print_op_attributes(self.attributes)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> SpirvFuncOp:
        name = parser.parse_symbol_name()
        arguments = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_argument)
        outputs = [parser.parse_type()] if parser.parse_optional_punctuation("->") else []
        control = FunctionControlAttr.parse_text(parser, parser.parse_str_literal())
        attributes = parser.parse_optional_attr_dict_with_keyword()
        inputs = [argument.type for argument in arguments]
        return cls.build(
            regions=[parser.parse_region(arguments)],
            properties={
                "sym_name": name,
                "function_type": FunctionType.from_lists(inputs, outputs),
                "function_control": control,
            },
            attributes={} if attributes is None else attributes.data,
        )


@irdl_op_definition
class FunctionCallOp(IRDLOperation):
    """`spirv.FunctionCall @f(%x) : (f32) -> f32`."""

    name = "spirv.FunctionCall"

    callee = prop_def(SymbolRefAttr)
    arguments = var_operand_def()
    return_value = opt_result_def()

    assembly_format = (
        "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, results)"
    )

    def __init__(
        self,
        callee: str,
        arguments: Sequence[SSAValue | Operation],
        result: Attribute | None = None,
    ):
        super().__init__(
            operands=[arguments],
            result_types=[result],
            properties={"callee": SymbolRefAttr(callee)},
        )

    def verify_(self) -> None:
        found = looked_up(self, self.callee)
        if not isinstance(found, SpirvFuncOp):
            raise VerifyException(f"'spirv.FunctionCall': {self.callee} is no function")
        type_ = found.function_type
        if tuple(type_.inputs) != tuple(self.operand_types) or tuple(type_.outputs) != tuple(
            self.result_types
        ):
            raise VerifyException(f"'spirv.FunctionCall': {self.callee} is {type_}")


@irdl_op_definition
class EntryPointOp(IRDLOperation):
    """`spirv.EntryPoint "GLCompute" @main, @id`: a function that a device starts, and what it uses."""

    name = "spirv.EntryPoint"

    execution_model = prop_def(ExecutionModelAttr)
    fn = prop_def(SymbolRefAttr)
    interface = prop_def(ArrayAttr[SymbolRefAttr])

    def __init__(self, function: str, interface: Sequence[str], model: str = "GLCompute"):
        super().__init__(
            properties={
                "execution_model": ExecutionModelAttr.of(model),
                "fn": SymbolRefAttr(function),
                "interface": ArrayAttr(map(SymbolRefAttr, interface)),
            }
        )

    def verify_(self) -> None:
        found = looked_up(self, self.fn)
        if not isinstance(found, SpirvFuncOp) or found.function_type.inputs:
            raise VerifyException(f"'spirv.EntryPoint': {self.fn} is no function without arguments")
        for one in self.interface:
            if not isinstance(looked_up(self, one), GlobalVariableOp):
                raise VerifyException(f"'spirv.EntryPoint': {one} is no global variable")

    def print(self, printer: Printer) -> None:
        printer.print_string(f' "{self.execution_model.text}" ')
        printer.print_list([self.fn, *self.interface], printer.print_attribute)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> EntryPointOp:
        model = ExecutionModelAttr.parse_text(parser, parser.parse_str_literal())
        names = [parser.parse_symbol_name().data]
        while parser.parse_optional_punctuation(","):
            names.append(parser.parse_symbol_name().data)
        op = cls(names[0], names[1:], model.text)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class ExecutionModeOp(IRDLOperation):
    """`spirv.ExecutionMode @main "LocalSize", 64, 1, 1`."""

    name = "spirv.ExecutionMode"

    fn = prop_def(SymbolRefAttr)
    execution_mode = prop_def(ExecutionModeAttr)
    values = prop_def(ArrayAttr[IntegerAttr])

    def __init__(self, function: str, mode: str, values: Sequence[int]):
        super().__init__(
            properties={
                "fn": SymbolRefAttr(function),
                "execution_mode": ExecutionModeAttr.of(mode),
                "values": ArrayAttr(IntegerAttr(value, i32) for value in values),
            }
        )

    def verify_(self) -> None:
        wanted = len(ENUMERATIONS["ExecutionMode"][self.execution_mode.text][1].split())
        if len(self.values) != wanted:
            raise VerifyException(
                f"'spirv.ExecutionMode' {self.execution_mode.text} has {len(self.values)} values, "
                f"expected {wanted}"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.fn)
        printer.print_string(f' "{self.execution_mode.text}"')
        for value in self.values:
            printer.print_string(f", {value.value.data}")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> ExecutionModeOp:
        function = parser.parse_symbol_name().data
        mode = ExecutionModeAttr.parse_text(parser, parser.parse_str_literal())
        values: list[int] = []
        while parser.parse_optional_punctuation(","):
            values.append(parser.parse_integer(allow_boolean=False, allow_negative=False))
        op = cls(function, mode.text, values)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


MODULE_OPS = (
    GlobalVariableOp,
    SpecConstantOp,
    SpecConstantCompositeOp,
    SpirvFuncOp,
    EntryPointOp,
    ExecutionModeOp,
)
"""What stands in a module."""
STRUCTURE_OPS = (SpirvModuleOp, *MODULE_OPS, ReferenceOfOp, AddressOfOp, FunctionCallOp)
