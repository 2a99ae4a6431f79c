"""Checks along the calls of blocks: blocks that nobody calls, temporaries used too early.

A block is walked once, at its first call in the order of execution: later calls see at least the
same temporaries. All walks keep their own stacks, so a long chain of blocks is no deep recursion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.accesses import WRITE, accesses
from openinfer.compiler.frontend.check_consumers import consumer_names
from openinfer.compiler.frontend.expressions import names_of
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.symbols import Symbols
from openinfer.compiler.frontend.syntax import walk


def check_flow(symbols: Symbols, report: Report) -> None:
    """Everything that depends on the order in which blocks run."""
    if "entry" not in symbols.blocks:
        return
    consumers = consumer_names(symbols)
    reached = _Walk(symbols, report, consumers).run()
    for name, block in symbols.blocks.items():
        if name not in reached and name not in consumers and name not in symbols.unreadable:
            report.warning(
                "OI0245",
                block.name.span,
                f"block `{name}` is never called",
                fix=f"call it with `branch {name};`, or remove it",
            )


class _Walk:
    """Follows execution from entry and knows which temporaries were assigned."""

    def __init__(self, symbols: Symbols, report: Report, consumers: Sequence[str]) -> None:
        self.symbols = symbols
        self.report = report
        self.consumers = consumers
        self.visible: set[str] = set()
        self.yielded: set[str] = set()
        self.defined: set[str] = set()
        """Temporaries that the node at hand defines: it cannot read them."""
        self.reached: set[str] = {"entry"}

    def run(self) -> set[str]:
        """The blocks that were reached."""
        stack = [walk(self.symbols.blocks["entry"].body)]
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                continue
            self.uses(node)
            if isinstance(node, syntax.Assign):
                if node.implied and node.name.text not in self.visible:
                    self.defined.add(node.name.text)
                self.visible.add(node.name.text)
            else:
                self.defined.clear()
            for name in reversed(self.called(node)):
                if name in self.symbols.blocks and name not in self.reached:
                    self.reached.add(name)
                    stack.append(walk(self.symbols.blocks[name].body))
        return self.reached

    def called(self, node: syntax.Node) -> list[str]:
        if isinstance(node, syntax.Branch):
            return [t.text for t in (node.then_block, node.else_block) if t is not None]
        if isinstance(node, syntax.Yield):
            # A consumer runs once its last value is there.
            self.yielded |= {name.text for name in node.names}
            return [name for name in self.consumers if self.awaited(name) <= self.yielded]
        return []

    def awaited(self, consumer: str) -> set[str]:
        first = self.symbols.blocks[consumer].body[0]
        return {n.text for n in first.names} if isinstance(first, syntax.Await) else set()

    def uses(self, node: syntax.Node) -> None:
        written = {a.name.span for a in accesses(node, self.symbols) if a.kind == WRITE}
        for name in _names_used(node):
            assigned = self.symbols.temporaries.get(name.text)
            if assigned is None:
                continue
            reads_own = name.text in self.defined and name.span not in written
            if name.text in self.visible and not reads_own:
                continue
            if name.text in self.symbols.loop_indices or name.text in self.symbols.unreadable:
                continue
            self.report.error(
                "OI0211",
                name.span,
                f"temporary `{name.text}` is used before its assign",
                fix="move the assign up, in entry before the first use",
                notes=[("it is assigned here", assigned.span)],
            )


def _names_used(node: syntax.Node) -> Iterator[syntax.Name]:
    """Names of variables in a node itself, not in its body."""
    match node:
        case syntax.Assign(type=type_):
            for dim in type_.dims:
                yield from names_of(dim)
        case syntax.Op(operands=operands, outputs=outputs, settings=settings):
            for ref in (*operands, *outputs):
                yield from _in_ref(ref)
            for setting in settings:
                if isinstance(setting.value, syntax.Name):
                    yield setting.value
        case syntax.Branch(condition=condition):
            if condition is not None:
                yield from _in_ref(condition)
        case syntax.Transfer() | syntax.CacheRead() | syntax.CacheWrite():
            yield from _in_ref(node.source)
            yield from _in_ref(node.target)
        case syntax.CacheReset(target=target):
            yield from _in_ref(target)
        case syntax.Loop(start=start, stop=stop):
            yield from names_of(start)
            yield from names_of(stop)
        case syntax.Return(names=names) | syntax.Yield(names=names) | syntax.Await(names=names):
            yield from names
        case _:
            return


def _in_ref(ref: syntax.Ref) -> Iterator[syntax.Name]:
    yield ref.name
    for slot in ref.slots or ():
        bounds = [slot.start, slot.stop] if isinstance(slot, syntax.Slice) else [slot]
        for bound in bounds:
            if bound is not None:
                yield from names_of(bound)
