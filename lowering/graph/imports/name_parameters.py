"""Constants get the names of the modules that they belong to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects.graph import BlockOp, OpOp, RefAttr, VariableOp
from openinfer.lowering.graph.imports.names_of import (
    all_ops,
    fresh,
    read_names,
    rename,
    taken_names,
)
from openinfer.lowering.graph.imports.words import component, joined, op_word, parameter_words
from openinfer.lowering.program.sources import package_name, pattern_of


@dataclass(frozen=True)
class NameParameters(ModulePass):
    """Constants get the names of the modules that they belong to, and stand in the order of their use.

    Before:
        graph.variable v3(l) constant f32 [8, 8] {pattern = "layer.{l}.attention.self.query.weight"}
    After:
        graph.variable query_w(l) constant f32 [8, 8] {pattern = "layer.{l}.attention.self.query.weight"}

    Requires: an imported program.
    Leaves: names of tensors, inputs, results and persistent variables.
    """

    name: ClassVar[str] = "name-parameters"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        _sort(op)
        constants = [
            variable
            for variable in op.body.ops
            if isinstance(variable, VariableOp) and variable.memory.data == "constant"
        ]
        tables = _tables(op)
        words: list[tuple[list[str], list[str], str]] = []
        for variable in constants:
            outer, path, kind = parameter_words(pattern_of(variable) or package_name(variable))
            words.append((outer, path, "" if variable.variable.data in tables else kind))
        own = {variable.variable.data for variable in constants}
        taken = taken_names(op) - own
        ends = Counter(
            (tuple(path[-count:]), kind)
            for _, path, kind in words
            for count in range(1, len(path) + 1)
        )
        whole = Counter((tuple(path), kind) for _, path, kind in words)
        stacks = _told_apart({tuple(outer) for outer, _, _ in words if outer})
        inside = Counter(
            (tuple(outer), tuple(path[-count:]), kind)
            for outer, path, kind in words
            for count in range(1, len(path) + 1)
        )
        names: dict[str, str] = {}
        for variable, (outer, path, kind) in zip(constants, words):
            chosen = path if whole[tuple(path), kind] == 1 else [*outer, *path]
            for count in range(1, len(path) + 1):
                end = path[-count:]
                if ends[tuple(end), kind] == 1 and not end[0][0].isdigit():
                    chosen = end
                    break
            stack = stacks.get(tuple(outer))
            for count in range(1, len(path) + 1):
                end = path[-count:]
                if stack is None or count + 1 >= len(chosen):
                    break
                if inside[tuple(outer), tuple(end), kind] == 1 and not end[0][0].isdigit():
                    chosen = [stack, *end]
                    break
            names[variable.variable.data] = fresh(joined(chosen, kind), taken)
        rename(op, {old: new for old, new in names.items() if old != new})
        known = taken_names(op, temporaries=False)
        for block in op.body.ops:
            if isinstance(block, BlockOp) and block.parameters is not None:
                _name_constants(op, block, {*known, *block.parameter_names})


def _name_constants(module: ModuleOp, block: BlockOp, taken: set[str]) -> None:
    """Constants of a block are called after what stands behind its parameters: `conv1_w` of
    `{path}.conv1.weight`; where it has several paths, after these, too."""
    declared = [op for op in block.body.block.ops if isinstance(op, VariableOp)]
    texts = [package_name(op) for op in declared]
    paths = {text.partition("}")[0].lstrip("{") for text in texts}
    names: dict[str, str] = {}
    for op, text in zip(declared, texts):
        path, _, ending = text.lstrip("{").partition("}")
        _, _, kind = parameter_words(f"{path}{ending}")
        inside = ending.rpartition(".")[0].rpartition(".")[2]
        words = [_reader(block, op.variable.data) if inside.isdigit() else component(inside)]
        words = words if inside else []
        if len(paths) > 1 or not (words or kind):
            words = [path, *words]
        if not kind and ending:
            words.append(ending.rpartition(".")[2])
        names[op.variable.data] = fresh(joined(words, kind), taken)
    rename(module, {old: new for old, new in names.items() if old != new}, [block])


def _reader(block: BlockOp, name: str) -> str:
    """A word for the op that reads a constant."""
    for op in block.walk():
        if isinstance(op, OpOp) and name in {ref.variable.data for ref in op.reads()}:
            return op_word(op.op_name.data)
    return "w"


def _told_apart(stacks: set[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """A word for each of several stacks of layers: `encoder` for `encoder.block` beside `decoder.block`."""
    found: dict[tuple[str, ...], str] = {}
    for stack in stacks if len(stacks) > 1 else ():
        others = {word for other in stacks - {stack} for word in other}
        own = [word for word in stack if word not in others]
        if own:
            found[stack] = own[0]
    return found


def _tables(module: ModuleOp) -> set[str]:
    """Constants that rows are taken of: `embedding(words, tokens)` needs no `words_w`."""
    found: set[str] = set()
    sliced: set[str] = set()
    others: set[str] = set()
    for op in all_ops(module):
        if isinstance(op, OpOp):
            for number, operand in enumerate(op.inputs):
                if isinstance(operand, RefAttr):
                    table = number == 0 and op.op_name.data in ("embedding", "gather")
                    rows = number == 0 and op.op_name.data == "slice"
                    target = found if table else sliced if rows else others
                    target.add(operand.variable.data)
    return found | (sliced - others)


def _sort(module: ModuleOp) -> None:
    """Sizes, inputs, constants and persistent variables, each kind together; constants as they are used."""
    order: dict[str, int] = {}
    for block in module.body.ops:
        if isinstance(block, BlockOp):
            for op in block.walk():
                if not op.regions:
                    for name in _in_order(op):
                        order.setdefault(name, len(order))
    kinds = {"dynamic": 0, "constant": 1, "volatile": 2, "persistent": 3}

    def key(variable: VariableOp) -> tuple[int, int]:
        used = order.get(variable.variable.data, len(order))
        return kinds[variable.memory.data], used if variable.memory.data == "constant" else 0

    variables = [op for op in module.body.ops if isinstance(op, VariableOp)]
    if not variables:
        return
    others: list[Operation] = [op for op in module.body.ops if isinstance(op, BlockOp)]
    for variable in variables:
        variable.detach()
    for variable in sorted(variables, key=key):
        if others:
            Rewriter.insert_op(variable, InsertPoint.before(others[0]))
        else:
            Rewriter.insert_op(variable, InsertPoint.at_end(module.body.block))


def _in_order(op: Operation) -> list[str]:
    if isinstance(op, OpOp):
        return [ref.variable.data for ref in op.reads()]
    return sorted(read_names(op))
