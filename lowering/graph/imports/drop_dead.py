"""What an imported program computes or declares for nobody goes away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from openinfer.dialects.graph import (
    AssignOp,
    CacheReadOp,
    LoopOp,
    OpOp,
    ScopeOp,
    TransferOp,
    VariableOp,
)
from openinfer.lowering.graph.imports.editing import Editor
from openinfer.lowering.graph.imports.tensors import tensors
from openinfer.lowering.graph.imports.uses import Uses


@dataclass(frozen=True)
class DropDead(ModulePass):
    """Drops ops whose results nobody reads, temporaries and constants that nothing names.

    Before:
        graph.variable c constant f32 [4] {ref = "c"}
        graph.assign u f32 [4]
        graph.op add(x, c) -> (u)
    After:
        nothing, if nobody reads u

    Requires: level `graph`, as a reader of a foreign model writes it: ops have no effects but their results.
    Leaves: inputs, persistent variables, sizes, and what a loop carries only for itself. A constant's tensor
        leaves the model with its last declaration.
    """

    name: ClassVar[str] = "drop-dead"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        drop_dead(Editor(op))


def drop_dead(editor: Editor) -> None:
    """Drops what nobody needs."""
    before = True
    while before:
        before = False
        for op in reversed(list(editor.module.walk())):
            if op.parent is not None and _dead(editor.uses, op):
                editor.erase(op)
                before = True
    refs = {_ref(variable) for variable in editor.uses.variables.values()}
    for variable in list(editor.uses.variables.values()):
        name = variable.variable.data
        if variable.memory.data == "constant" and not editor.uses.readers[name]:
            editor.erase(variable)
    for ref in refs - {_ref(variable) for variable in editor.uses.variables.values()}:
        tensors().pop(ref, None)


def _dead(uses: Uses, op: Operation) -> bool:
    match op:
        case OpOp() | TransferOp() | CacheReadOp():
            return all(_unread(uses, ref.variable.data) for ref in op.writes())
        case AssignOp():
            name = op.variable.data
            return not uses.writers[name] and not uses.readers[name]
        case LoopOp() | ScopeOp():
            return not op.body.block.ops
        case _:
            return False


def _unread(uses: Uses, name: str) -> bool:
    """Whether a temporary is read nowhere; what is declared may be a result."""
    return name not in uses.variables and not uses.readers[name]


def _ref(variable: VariableOp) -> str:
    ref = variable.option("ref")
    return ref.data if isinstance(ref, StringAttr) else ""
