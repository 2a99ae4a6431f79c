"""LLVM IR text from the `llvm` dialect.

Values are named after their SSA name hints, constants stand where they are used, block arguments
become phis, and an op that knows its place in a program carries it as a trailing comment. The same
module gives the same text, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import DictionaryAttr, FileLineColLoc, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from openinfer.dialects.extensions.llvm import PoisonOp, SwitchOp
from openinfer.dialects.nn import InterfaceOp
from openinfer.dialects.spirv.structure_ops import SpirvModuleOp
from openinfer.lowering.cpu.llvm_ir.instructions import INSTRUCTIONS, Operands
from openinfer.lowering.cpu.llvm_ir.literals import (
    Names,
    constant_text,
    string_text,
    symbol_text,
    type_text,
)
from openinfer.runtime.errors import CompileError
from openinfer.runtime.target import TargetDescription

_ARGUMENT_ATTRIBUTES = {
    "llvm.noalias": "noalias",
    "llvm.nocapture": "captures(none)",
    "llvm.nonnull": "nonnull",
    "llvm.noundef": "noundef",
    "llvm.readnone": "readnone",
    "llvm.readonly": "readonly",
    "llvm.writeonly": "writeonly",
}
_ARGUMENT_NUMBERS = {"llvm.align": "align {}", "llvm.dereferenceable": "dereferenceable({})"}
_FUNCTION_ATTRIBUTES = {
    "always_inline": "alwaysinline",
    "cold": "cold",
    "hot": "hot",
    "no_inline": "noinline",
}


def emit_llvm(module: ModuleOp, target: TargetDescription) -> str:
    """The text of a module of `llvm` functions and globals, for `target`.

    Raises CompileError (OI0981) for an op that has no spelling.
    """
    declarations: dict[str, str] = {}
    uses_nontemporal = False
    globals: list[str] = []
    outside: list[str] = []
    functions: list[list[str]] = []
    for op in module.ops:
        if isinstance(op, llvm.GlobalOp):
            globals.append(_global_text(op))
        elif isinstance(op, llvm.FuncOp) and not op.body.blocks:
            outside.append(_declaration_text(op))
        elif isinstance(op, llvm.FuncOp):
            writer = _FunctionWriter(declarations)
            functions.append(list(writer.lines(op)))
            uses_nontemporal |= writer.operands.uses_nontemporal
        elif not isinstance(op, InterfaceOp | SpirvModuleOp):
            raise CompileError(
                "OI0981",
                f"'{op.name}' cannot stand at the top of an llvm module",
                hint="lower it first: openinfer-opt FILE --pipeline cpu",
            )
    intrinsics = [declarations[name] for name in sorted(declarations)]
    attributes = f"attributes #0 = {{ {' '.join(_target_attributes(target))} }}"
    metadata = ["!0 = !{i32 1}"] if uses_nontemporal else []
    sections = [
        [f'target triple = "{target.triple}"'],
        globals,
        outside,
        *functions,
        intrinsics,
        [attributes],
        metadata,
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _target_attributes(target: TargetDescription) -> Iterator[str]:
    yield "nounwind"
    yield f'"min-legal-vector-width"="{target.vector_bits}"'
    yield f'"prefer-vector-width"="{target.vector_bits}"'
    yield f'"target-cpu"="{target.cpu}"'
    if target.features:
        yield f'"target-features"="{target.features}"'


def _global_text(op: llvm.GlobalOp) -> str:
    linkage = op.linkage.linkage.data
    kind = "constant" if op.constant is not None else "global"
    address = ""
    if op.unnamed_addr is not None:
        number = op.unnamed_addr.value.data
        address = {1: "local_unnamed_addr ", 2: "unnamed_addr "}.get(number, "")
    type = type_text(op.global_type)
    if op.value is not None:
        initial = " " + _global_value(op)
    else:
        initial = " zeroinitializer"
    if linkage == "external" and op.value is not None:
        linkage = ""
    elif linkage == "external":
        initial = ""
    alignment = f", align {op.alignment.value.data}" if op.alignment is not None else ""
    words = f"{linkage} " if linkage else ""
    return f"{symbol_text(op.sym_name.data)} = {words}{address}{kind} {type}{initial}{alignment}"


def _global_value(op: llvm.GlobalOp) -> str:
    value = op.value
    if isinstance(value, StringAttr):
        return "c" + string_text(value.data)
    assert value is not None
    return constant_text(value, op.global_type)


def _declaration_text(op: llvm.FuncOp) -> str:
    type = op.function_type
    arguments = [type_text(argument) for argument in type.inputs]
    if type.is_variadic:
        arguments.append("...")
    name = symbol_text(op.sym_name.data)
    return f"declare {type_text(type.output)} {name}({', '.join(arguments)}) nounwind"


def _argument_words(attributes: DictionaryAttr | None) -> str:
    if attributes is None:
        return ""
    words: list[str] = []
    for key, value in sorted(attributes.data.items()):
        if key in _ARGUMENT_ATTRIBUTES:
            words.append(_ARGUMENT_ATTRIBUTES[key])
        elif key in _ARGUMENT_NUMBERS and isinstance(value, IntegerAttr):
            words.append(_ARGUMENT_NUMBERS[key].format(value.value.data))
    return "".join(f" {word}" for word in words)


class _FunctionWriter:
    """Writes one function. Names first, then text: a phi may speak of values that come later."""

    def __init__(self, declarations: dict[str, str]) -> None:
        self.operands = Operands()
        self.operands.declarations = declarations
        self._names = Names()
        self._labels: dict[Block, str] = {}
        self._incoming: dict[Block, list[tuple[str, Sequence[SSAValue]]]] = {}
        self._detours: dict[tuple[Block, int], str] = {}
        """Labels of the extra blocks on edges that double another one, by source and position."""

    def lines(self, op: llvm.FuncOp) -> Iterator[str]:
        blocks = list(op.body.blocks)
        self._name_all(blocks)
        for block in blocks:
            self._find_edges(block)
        yield self._header(op, blocks[0])
        for number, block in enumerate(blocks):
            if number:
                yield ""
            yield f"{self._labels[block]}:"
            if number:
                yield from self._phis(block)
            yield from self._body(block)
        yield "}"

    def _header(self, op: llvm.FuncOp, entry: Block) -> str:
        linkage = op.linkage.linkage.data
        words = "" if linkage == "external" else f"{linkage} "
        attributes = op.arg_attrs.data if op.arg_attrs is not None else [None] * len(entry.args)
        o = self.operands
        arguments = ", ".join(
            f"{o.type(argument.type)}{_argument_words(own)} {o.name(argument)}"
            for argument, own in zip(entry.args, attributes, strict=True)
        )
        given = {**op.attributes, **op.properties}
        marks = "".join(f"{word} " for key, word in _FUNCTION_ATTRIBUTES.items() if key in given)
        result = type_text(op.function_type.output)
        name = symbol_text(op.sym_name.data)
        return f"define {words}{result} {name}({arguments}) {marks}#0 {{{_place(op)}"

    def _name_all(self, blocks: Sequence[Block]) -> None:
        texts = self.operands.texts
        fresh = self._names.fresh
        for number, block in enumerate(blocks):
            self._labels[block] = fresh(None, f"bb{number}" if number else "entry")
            self._incoming[block] = []
            for argument in block.args:
                texts[argument] = "%" + fresh(argument.name_hint, "arg")
            for op in block.ops:
                if not op.results:
                    continue
                result = op.results[0]
                literal = _literal(op)
                texts[result] = literal or "%" + fresh(result.name_hint, "t")

    def _find_edges(self, block: Block) -> None:
        """Note for each successor which values arrive from here."""
        terminator = block.last_op
        if terminator is None:
            raise CompileError("OI0981", "a block of an llvm function has no terminator")
        seen: set[Block] = set()
        for position, (successor, values) in enumerate(_edges(terminator)):
            label = self._labels[block]
            if successor in seen and successor.args:
                # A phi can tell blocks apart, not two edges from one block: make a block between.
                label = self._names.fresh(None, f"{label}.edge")
                self._detours[block, position] = label
            seen.add(successor)
            self._incoming[successor].append((label, values))

    def _phis(self, block: Block) -> Iterator[str]:
        for index, argument in enumerate(block.args):
            pairs = ", ".join(
                f"[ {self.operands.name(values[index])}, %{label} ]"
                for label, values in self._incoming[block]
            )
            type = self.operands.type(argument.type)
            yield f"  {self.operands.name(argument)} = phi {type} {pairs}"

    def _body(self, block: Block) -> Iterator[str]:
        operands = self.operands
        for op in block.ops:
            formatter = INSTRUCTIONS.get(op.name)
            if formatter is not None:
                text = formatter(operands, op)
                if operands.before:
                    yield from (f"  {line}{_place(op)}" for line in operands.before)
                    operands.before.clear()
                if op.results:
                    text = f"{operands.texts[op.results[0]]} = {text}"
                yield f"  {text}{_place(op)}"
            elif isinstance(op, llvm.BrOp | llvm.CondBrOp | SwitchOp):
                yield from self._branch(block, op)
            elif _literal(op) is None:
                raise CompileError("OI0981", f"'{op.name}' cannot be written as LLVM IR")

    def _branch(self, block: Block, op: Operation) -> Iterator[str]:
        targets = [
            self._detours.get((block, position), self._labels[successor])
            for position, (successor, _) in enumerate(_edges(op))
        ]
        if isinstance(op, llvm.BrOp):
            yield f"  br label %{targets[0]}{_place(op)}"
        elif isinstance(op, llvm.CondBrOp):
            condition = self.operands.name(op.cond)
            yield f"  br i1 {condition}, label %{targets[0]}, label %{targets[1]}{_place(op)}"
        else:
            assert isinstance(op, SwitchOp)
            type = self.operands.type(op.value.type)
            cases = " ".join(
                f"{type} {value.value.data}, label %{label}"
                for value, label in zip(op.case_values, targets[1:], strict=True)
            )
            value = self.operands.name(op.value)
            yield f"  switch {type} {value}, label %{targets[0]} [ {cases} ]{_place(op)}"
        for position, (successor, _) in enumerate(_edges(op)):
            if (label := self._detours.get((block, position))) is not None:
                yield ""
                yield f"{label}:"
                yield f"  br label %{self._labels[successor]}"


def _edges(terminator: Operation) -> list[tuple[Block, Sequence[SSAValue]]]:
    """The successors of a terminator, each with the values that it passes."""
    if isinstance(terminator, llvm.BrOp):
        return [(terminator.successor, terminator.arguments)]
    if isinstance(terminator, llvm.CondBrOp):
        return [
            (terminator.then_block, terminator.then_arguments),
            (terminator.else_block, terminator.else_arguments),
        ]
    if isinstance(terminator, SwitchOp):
        cases = zip(terminator.case_blocks, terminator.grouped_case_operands(), strict=True)
        return [(terminator.default_block, terminator.default_operands), *cases]
    return []


def _literal(op: Operation) -> str | None:
    """The text that stands for an op's result, if the op is a constant and no instruction."""
    if isinstance(op, llvm.ConstantOp):
        return constant_text(op.value, op.result.type)
    if isinstance(op, llvm.AddressOfOp):
        return symbol_text(op.global_name.root_reference.data)
    if isinstance(op, PoisonOp):
        return "poison"
    if isinstance(op, llvm.UndefOp):
        return "undef"
    if isinstance(op, llvm.ZeroOp):
        return "null" if isinstance(op.res.type, llvm.LLVMPointerType) else "zeroinitializer"
    return None


def _place(op: Operation) -> str:
    """The place in the program that an op comes from, as a comment."""
    location: Attribute = op.location
    if not isinstance(location, FileLineColLoc):
        return ""
    # A comment: names of files need not be text.
    name = location.filename.data.replace("\n", " ").encode("utf-8", "replace").decode()
    return f"  ; {name}:{location.line.data}"
