"""What is left of a program with mistakes when they are taken out: its sound part.

It is what the rules that need the model look at, so that one unknown name hides neither a wrong shape
elsewhere nor a declaration that the model contradicts. What depends on a mistake is left out with it: its
declaration, the statement it stands in, and every statement that names what is no longer known.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Span
from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    BranchOp,
    CacheReadOp,
    CacheStepOp,
    LoopOp,
    OpOp,
    ScopeOp,
    SizeAttr,
    TransferOp,
    VariableOp,
)
from openinfer.dialects.graph.syntax import OPEN
from openinfer.lowering.program.accesses import Accesses
from openinfer.lowering.program.names import Names
from openinfer.lowering.program.places import Places
from openinfer.lowering.program.view import targets_of


def sound_part(module: ModuleOp, report: Report, places: Places) -> ModuleOp | None:
    """A copy of the program without its mistakes; None where the text was not read to its end."""
    if places.aborted:
        return None
    part = _SoundPart(module, report, places)
    copy = module.clone()
    for op, copied in list(zip(module.walk(), copy.walk())):
        copied.properties.pop("hints", None)
        if part.leaves_out(op):
            copied.detach()
        elif isinstance(copied, LoopOp) and op in part.gone:
            # A loop with wrong bounds keeps its body.
            copied.properties["start"] = copied.properties["stop"] = SizeAttr.of(0)
    return copy


class _SoundPart:
    """Knows which names and nodes are lost."""

    def __init__(self, module: ModuleOp, report: Report, places: Places) -> None:
        self.places = places
        self.starts = sorted(w.start for w in report.wrong if isinstance(w, Span))
        self.lost: set[str] = set(places.unreadable)
        self.gone: set[Operation] = set()
        """Statements that are left out."""
        names = Names.of(module)
        self.blocks = {n: b for n, b in names.blocks.items() if not self.is_wrong(b, "name")}
        self.accesses = Accesses(names, places)
        users: dict[str, list[Operation]] = {}
        todo = list(self.lost)
        for op in module.walk():
            for name in self.named(op):
                users.setdefault(name, []).append(op)
            if isinstance(op, VariableOp):
                if self.is_wrong(op):
                    todo.append(op.variable.data)
            elif not isinstance(op, ModuleOp | BlockOp) and self.is_wrong(op):
                todo += self.lose(op)
        self.open = {n for n, op in names.temporaries.items() if op.dtype.data == OPEN}
        todo += [name for node in self.gone for name in self.given(node)]
        while todo:
            name = todo.pop()
            if name in self.lost and name not in users:
                continue
            self.lost.add(name)
            for user in users.pop(name, ()):
                if isinstance(user, VariableOp):
                    todo.append(user.variable.data)
                else:
                    todo += [*self.lose(user), *self.given(user)]

    def is_wrong(self, op: Operation, *part: str) -> bool:
        """Whether a mistake starts inside of an op, but not in its body."""
        span = self.places.of(op, part)
        if not isinstance(span, Span):
            return False
        stop = span.stop
        if isinstance(op, LoopOp | ScopeOp) and (first := op.body.block.first_op) is not None:
            inside = self.places.of(first)
            stop = inside.start if isinstance(inside, Span) else stop
        found = bisect_left(self.starts, span.start)
        return found < len(self.starts) and self.starts[found] < stop

    def lose(self, node: Operation) -> list[str]:
        """Leaves a statement out; the names that it would have declared."""
        self.gone.add(node)
        return [node.variable.data] if isinstance(node, AssignOp) else []

    def given(self, node: Operation) -> list[str]:
        """The temporaries whose type a statement would have said."""
        outputs = list(node.outputs) if isinstance(node, OpOp) else []
        if isinstance(node, TransferOp | CacheReadOp):
            outputs = [node.target]
        return [name for ref in outputs if (name := ref.variable.data) in self.open]

    def named(self, op: Operation) -> Iterator[str]:
        """The names in an op, not in its body."""
        if isinstance(op, VariableOp):
            for axis, dim in enumerate(op.sizes):
                yield from (m.name for m in self.accesses.sizes(dim, op, ("dims", axis)))
            return
        if isinstance(op, CacheStepOp):
            yield op.variable.data
        yield from {m.name: None for m in (*self.accesses.used(op), *self.accesses.in_sizes(op))}

    def leaves_out(self, op: Operation) -> bool:
        """Whether an op goes, with all that is in it."""
        match op:
            case VariableOp():
                return op.variable.data in self.lost
            case BlockOp():
                return self.blocks.get(op.block_name.data) is not op
            case LoopOp() | ScopeOp() | ModuleOp():
                return False
            case AssignOp():
                return op in self.gone or op.variable.data in self.lost
            case BranchOp():
                return op in self.gone or not self.blocks.keys() >= set(targets_of(op))
            case _:
                return op in self.gone
