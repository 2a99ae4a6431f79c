"""Writes one function of the `llvm` dialect as LLVM IR text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from openinfer.dialects.extensions.llvm import PoisonOp, SwitchOp
from openinfer.lowering.cpu.llvm_ir.instructions import INSTRUCTIONS, Operands
from openinfer.lowering.cpu.llvm_ir.literals import (
    Names,
    NumberedNames,
    constant_text,
    symbol_text,
    type_text,
)
from openinfer.lowering.locations import place_of
from openinfer.lowering.operations import ops_of
from openinfer.runtime.errors import CompileError

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


class FunctionWriter:
    """Writes one function. Names first, then text: a phi may speak of values that come later."""

    def __init__(
        self,
        declarations: dict[str, str],
        symbols: Mapping[str, str] | None = None,
        *,
        bare: bool = False,
    ) -> None:
        """`symbols` are functions that are called by another name than that of the IR; `bare` numbers the
        values and leaves out places, so that equal functions of two programs have one text."""
        self.operands = Operands()
        self.operands.declarations = declarations
        if symbols is not None:
            self.operands.symbols = symbols
        self._names = NumberedNames() if bare else Names()
        self._place = _no_place if bare else _place
        self._labels: dict[Block, str] = {}
        self._incoming: dict[Block, list[tuple[str, Sequence[SSAValue]]]] = {}
        self._detours: dict[tuple[Block, int], str] = {}
        """Labels of the extra blocks on edges that double another one, by source and position."""

    def lines(
        self, op: llvm.FuncOp, name: str | None = None, linkage: str | None = None
    ) -> Iterator[str]:
        """The function line by line, under its own name and with its own linkage unless others are given."""
        blocks = list(op.body.blocks)
        self._name_all(blocks)
        for block in blocks:
            self._find_edges(block)
        yield self._header(op, blocks[0], name or op.sym_name.data, linkage)
        for number, block in enumerate(blocks):
            if number:
                yield ""
            yield f"{self._labels[block]}:"
            if number:
                yield from self._phis(block)
            yield from self._body(block)
        yield "}"

    def _header(self, op: llvm.FuncOp, entry: Block, name: str, linkage: str | None) -> str:
        if linkage is None:
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
        return (
            f"define {words}{result} {symbol_text(name)}({arguments}) {marks}#0 {{{self._place(op)}"
        )

    def _name_all(self, blocks: Sequence[Block]) -> None:
        texts = self.operands.texts
        fresh = self._names.fresh
        for number, block in enumerate(blocks):
            self._labels[block] = fresh(None, f"bb{number}" if number else "entry")
            self._incoming[block] = []
            for argument in block.args:
                texts[argument] = "%" + fresh(argument.name_hint, "arg")
            for op in ops_of(block):
                if not op.results:
                    continue
                (result,) = op.results
                literal = _literal(op) if op.name in _LITERALS else None
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
        for op in ops_of(block):
            formatter = INSTRUCTIONS.get(op.name)
            if formatter is not None:
                text = formatter(operands, op)
                if operands.before:
                    yield from (f"  {line}{self._place(op)}" for line in operands.before)
                    operands.before.clear()
                for result in op.results:
                    text = f"{operands.texts[result]} = {text}"
                yield f"  {text}{self._place(op)}"
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
            yield f"  br label %{targets[0]}{self._place(op)}"
        elif isinstance(op, llvm.CondBrOp):
            condition = self.operands.name(op.cond)
            yield f"  br i1 {condition}, label %{targets[0]}, label %{targets[1]}{self._place(op)}"
        else:
            assert isinstance(op, SwitchOp)
            type = self.operands.type(op.value.type)
            cases = " ".join(
                f"{type} {value.value.data}, label %{label}"
                for value, label in zip(op.case_values, targets[1:], strict=True)
            )
            value = self.operands.name(op.value)
            yield f"  switch {type} {value}, label %{targets[0]} [ {cases} ]{self._place(op)}"
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


_LITERALS = frozenset(
    kind.name for kind in (llvm.ConstantOp, llvm.AddressOfOp, PoisonOp, llvm.UndefOp, llvm.ZeroOp)
)
"""Ops that may be no instructions."""


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


def _no_place(op: Operation) -> str:
    return ""


def _place(op: Operation) -> str:
    """The place in the program that an op comes from, as a comment."""
    location = place_of(op.location)
    if location is None:
        return ""
    # A comment: names of files need not be text.
    name = location.filename.data.replace("\n", " ").encode("utf-8", "replace").decode()
    return f"  ; {name}:{location.line.data}"
