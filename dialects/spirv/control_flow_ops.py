"""Control flow of SPIR-V: branches between blocks, and the regions that keep it structured.

A region of `spirv.mlir.selection` and `spirv.mlir.loop` ends with a block of nothing but
`spirv.mlir.merge`, where whatever runs in it comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    successor_def,
    traits_def,
    var_operand_def,
    var_successor_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.branch_targets import parse_target, print_target
from openinfer.dialects.spirv.enums import LoopControlAttr, SelectionControlAttr


def _check_target(op: Operation, block: Block, operands: Sequence[SSAValue]) -> None:
    if [arg.type for arg in block.args] != [value.type for value in operands]:
        raise VerifyException(f"'{op.name}' does not give its block what it takes")


@irdl_op_definition
class BranchOp(IRDLOperation):
    """`spirv.Branch ^next(%x : i32)`."""

    name = "spirv.Branch"

    block_arguments = var_operand_def()
    target = successor_def()

    traits = traits_def(IsTerminator())

    def __init__(self, target: Block, arguments: Sequence[SSAValue | Operation] = ()):
        super().__init__(operands=[arguments], successors=[target])

    def verify_(self) -> None:
        _check_target(self, self.target, self.block_arguments)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_target(printer, self.target, self.block_arguments)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> BranchOp:
        op = cls(*parse_target(parser))
        op.attributes |= parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class BranchConditionalOp(IRDLOperation):
    """`spirv.BranchConditional %c [3, 1], ^then, ^else`, with weights if they are known."""

    name = "spirv.BranchConditional"

    condition = operand_def(i1)
    true_target_operands = var_operand_def()
    false_target_operands = var_operand_def()
    branch_weights = opt_prop_def(ArrayAttr[IntegerAttr[IntegerType]])
    true_target = successor_def()
    false_target = successor_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    traits = traits_def(IsTerminator())

    def __init__(
        self,
        condition: SSAValue | Operation,
        true_target: Block,
        false_target: Block,
        true_operands: Sequence[SSAValue | Operation] = (),
        false_operands: Sequence[SSAValue | Operation] = (),
        weights: tuple[int, int] | None = None,
    ):
        listed = ArrayAttr(IntegerAttr(weight, i32) for weight in weights or ())
        super().__init__(
            operands=[condition, true_operands, false_operands],
            successors=[true_target, false_target],
            properties={"branch_weights": listed if weights is not None else None},
        )

    def verify_(self) -> None:
        _check_target(self, self.true_target, self.true_target_operands)
        _check_target(self, self.false_target, self.false_target_operands)
        if self.branch_weights is not None and len(self.branch_weights) != 2:
            raise VerifyException("'spirv.BranchConditional' has two weights, or none")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.condition)
        if self.branch_weights is not None:
            weights = ", ".join(str(weight.value.data) for weight in self.branch_weights)
            printer.print_string(f" [{weights}]")
        printer.print_string(", ")
        print_target(printer, self.true_target, self.true_target_operands)
        printer.print_string(", ")
        print_target(printer, self.false_target, self.false_target_operands)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> BranchConditionalOp:
        condition = parser.resolve_operand(parser.parse_unresolved_operand(), i1)
        weights: tuple[int, int] | None = None
        if parser.parse_optional_punctuation("["):
            first = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(",")
            weights = first, parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation("]")
        parser.parse_punctuation(",")
        true_target, true_operands = parse_target(parser)
        parser.parse_punctuation(",")
        false_target, false_operands = parse_target(parser)
        op = cls(condition, true_target, false_target, true_operands, false_operands, weights)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class SwitchOp(IRDLOperation):
    """`spirv.Switch %n : i32, [ default: ^other, 0: ^first(%x : f32), 7: ^second ]`."""

    name = "spirv.Switch"

    selector = operand_def(IntegerType)
    default_operands = var_operand_def()
    target_operands = var_operand_def()
    literals = opt_prop_def(DenseIntOrFPElementsAttr)
    case_operand_segments = prop_def(DenseArrayBase[IntegerType])
    default_target = successor_def()
    targets = var_successor_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    traits = traits_def(IsTerminator())

    def __init__(
        self,
        selector: SSAValue | Operation,
        default_target: Block,
        default_operands: Sequence[SSAValue | Operation] = (),
        cases: Sequence[tuple[int, Block, Sequence[SSAValue | Operation]]] = (),
    ):
        """`cases`: a number, where it leads to, and what it gives there."""
        type_ = SSAValue.get(selector).type
        literals: Attribute | None = None
        if cases and isinstance(type_, IntegerType):
            listed = VectorType(type_, [len(cases)])
            literals = DenseIntOrFPElementsAttr.from_list(listed, [number for number, *_ in cases])
        given = [value for _, _, operands in cases for value in operands]
        counts = DenseArrayBase.from_list(i32, [len(operands) for _, _, operands in cases])
        super().__init__(
            operands=[selector, default_operands, given],
            successors=[default_target, [block for _, block, _ in cases]],
            properties={"literals": literals, "case_operand_segments": counts},
        )

    @property
    def numbers(self) -> list[int]:
        """Those of the cases."""
        found = self.literals.get_attrs() if self.literals is not None else ()
        return [one.value.data for one in found if isinstance(one, IntegerAttr)]

    @property
    def cases(self) -> Iterator[tuple[int, Block, Sequence[SSAValue]]]:
        """A number, where it leads to, and what it gives there."""
        place = 0
        counts = map(int, self.case_operand_segments.get_values())
        for number, block, count in zip(self.numbers, self.targets, counts):
            yield number, block, self.target_operands[place : place + count]
            place += count

    def verify_(self) -> None:
        type_ = self.selector.type
        if not isinstance(type_, IntegerType) or type_.width.data not in {8, 16, 32}:
            raise VerifyException("'spirv.Switch' selects by an integer of 8, 16 or 32 bits")
        numbers, counts = self.numbers, self.case_operand_segments.get_values()
        if not len(numbers) == len(counts) == len(self.targets):
            raise VerifyException("'spirv.Switch' has a number and a block for each case")
        if sum(counts) != len(self.target_operands):
            raise VerifyException("'spirv.Switch' does not say which case gives what")
        if self.literals is not None and self.literals.get_element_type() != type_:
            raise VerifyException(f"'spirv.Switch' by {type_} has cases of another type")
        if len(set(numbers)) != len(numbers):
            raise VerifyException("'spirv.Switch' has a number twice")
        _check_target(self, self.default_target, self.default_operands)
        known: dict[Block, list[SSAValue]] = {self.default_target: list(self.default_operands)}
        for _, block, operands in self.cases:
            _check_target(self, block, operands)
            if known.setdefault(block, list(operands)) != list(operands):
                raise VerifyException("'spirv.Switch' gives one block different values")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.selector)
        printer.print_string(" : ")
        printer.print_attribute(self.selector.type)
        printer.print_string(", [")
        rows = [("default", self.default_target, self.default_operands), *self.cases]
        with printer.indented():
            for place, (number, block, operands) in enumerate(rows):
                printer.print_string("," if place else "")
                # MLIR leaves no space at the ends of these lines.
                printer.print_string("\n")
                printer.print_string(f"{number}: ")
                print_target(printer, block, operands)
        printer.print_string("\n")
        printer.print_string("]")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> SwitchOp:
        selector = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        parser.parse_punctuation(",")
        parser.parse_punctuation("[")
        parser.parse_keyword("default")
        parser.parse_punctuation(":")
        block, operands = parse_target(parser)
        cases: list[tuple[int, Block, Sequence[SSAValue]]] = []
        while parser.parse_optional_punctuation(","):
            number = parser.parse_integer(allow_boolean=False)
            parser.parse_punctuation(":")
            cases.append((number, *parse_target(parser)))
        parser.parse_punctuation("]")
        op = cls(parser.resolve_operand(selector, type_), block, operands, cases)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """The end of a function that gives nothing."""

    name = "spirv.Return"

    assembly_format = "attr-dict"

    traits = traits_def(IsTerminator())


@irdl_op_definition
class ReturnValueOp(IRDLOperation):
    """`spirv.ReturnValue %x : f32`."""

    name = "spirv.ReturnValue"

    value = operand_def()

    assembly_format = "$value attr-dict `:` type($value)"

    traits = traits_def(IsTerminator())

    def __init__(self, value: SSAValue | Operation):
        super().__init__(operands=[value])


@irdl_op_definition
class UnreachableOp(IRDLOperation):
    """The end of a block that nothing comes to."""

    name = "spirv.Unreachable"

    assembly_format = "attr-dict"

    traits = traits_def(IsTerminator())


@irdl_op_definition
class MergeOp(IRDLOperation):
    """The end of a region: what runs in it goes on behind it."""

    name = "spirv.mlir.merge"

    assembly_format = "attr-dict"

    traits = traits_def(IsTerminator())


def _merge_block(op: Operation, region: Region) -> Block:
    """The last block of a region. Raises VerifyException for one that is no merge."""
    *_, last = region.blocks
    if last.args or not isinstance(last.first_op, MergeOp):
        raise VerifyException(f"'{op.name}' ends with a block of nothing but 'spirv.mlir.merge'")
    for block in list(region.blocks)[:-1]:
        if isinstance(block.last_op, MergeOp):
            raise VerifyException(f"'{op.name}' has 'spirv.mlir.merge' in its last block only")
    return last


@irdl_op_definition
class SelectionOp(IRDLOperation):
    """`spirv.mlir.selection { ^header … ^merge: spirv.mlir.merge }`."""

    name = "spirv.mlir.selection"

    selection_control = prop_def(SelectionControlAttr)
    body = region_def()

    traits = traits_def(RecursiveMemoryEffect())

    def __init__(self, body: Region, control: str = "None"):
        super().__init__(
            regions=[body],
            properties={"selection_control": SelectionControlAttr.of(control)},
        )

    def verify_(self) -> None:
        if not self.body.blocks:
            return
        _merge_block(self, self.body)
        if len(self.body.blocks) < 2:
            raise VerifyException("'spirv.mlir.selection' has a header, which branches")

    @property
    def header(self) -> Block:
        return self.body.blocks[0]

    @property
    def merge(self) -> Block:
        return self.body.blocks[-1]

    def print(self, printer: Printer) -> None:
        if self.selection_control.data:
            printer.print_string(f" control({self.selection_control.text})")
        printer.print_string(" ")
        printer.print_region(self.body)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> SelectionOp:
        control = "None"
        if parser.parse_optional_keyword("control"):
            with parser.in_parens():
                control = SelectionControlAttr.parse_names(parser).text
        op = cls(parser.parse_region(), control)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class LoopOp(IRDLOperation):
    """`spirv.mlir.loop { ^entry, ^header, …, ^continue, ^merge }`.

    The entry branches to the header, the continue block back to it, and nothing else does.
    """

    name = "spirv.mlir.loop"

    loop_control = prop_def(LoopControlAttr)
    body = region_def()

    traits = traits_def(RecursiveMemoryEffect())

    def __init__(self, body: Region, control: str = "None"):
        super().__init__(regions=[body], properties={"loop_control": LoopControlAttr.of(control)})

    @property
    def entry(self) -> Block:
        return self.body.blocks[0]

    @property
    def header(self) -> Block:
        return self.body.blocks[1]

    @property
    def continuing(self) -> Block:
        return self.body.blocks[-2]

    @property
    def merge(self) -> Block:
        return self.body.blocks[-1]

    def verify_(self) -> None:
        if not self.body.blocks:
            return
        _merge_block(self, self.body)
        if len(self.body.blocks) < 4:
            raise VerifyException(
                "'spirv.mlir.loop' has an entry, a header, a continue block and a merge block"
            )
        entry = self.entry.last_op
        if not isinstance(entry, BranchOp) or entry.target is not self.header:
            raise VerifyException("'spirv.mlir.loop': the entry branches to the header")
        for block in self.body.blocks:
            last = block.last_op
            back = last is not None and self.header in last.successors
            if back != (block is self.entry or block is self.continuing):
                raise VerifyException(
                    "'spirv.mlir.loop': the entry and the continue block branch to the header"
                )

    def print(self, printer: Printer) -> None:
        if self.loop_control.data:
            printer.print_string(f" control({self.loop_control.text})")
        printer.print_string(" ")
        printer.print_region(self.body)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> LoopOp:
        control = "None"
        if parser.parse_optional_keyword("control"):
            with parser.in_parens():
                control = LoopControlAttr.parse_names(parser).text
        op = cls(parser.parse_region(), control)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


CONTROL_FLOW_OPS = (
    BranchOp,
    BranchConditionalOp,
    SwitchOp,
    ReturnOp,
    ReturnValueOp,
    UnreachableOp,
    MergeOp,
    SelectionOp,
    LoopOp,
)
