"""Checks along the calls of blocks: blocks that nobody calls, temporaries used too early.

A block is walked once, at its first call in the order of execution: later calls see at least the
same temporaries. All walks keep their own stacks, so a long chain of blocks is no deep recursion.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from openinfer.dialects.graph import AssignOp, AwaitOp, BranchOp, YieldOp
from openinfer.lowering.program.accesses import WRITE, Accesses
from openinfer.lowering.program.check_consumers import consumer_names
from openinfer.lowering.program.check_uses import UseChecks
from openinfer.lowering.program.names import walk
from openinfer.lowering.program.view import targets_of


def check_flow(checks: UseChecks) -> None:
    """Everything that depends on the order in which blocks run."""
    blocks, places = checks.names.blocks, checks.places
    if "entry" not in blocks:
        return
    consumers = consumer_names(checks.names)
    reached = _Walk(checks, consumers).run()
    for name, block in blocks.items():
        if name not in reached and name not in consumers and name not in places.unreadable:
            checks.report.warning(
                "OI0245",
                places.of(block, ("name",)),
                f"block `{name}` is never called",
                fix=f"call it with `branch {name};`, or remove it",
            )


class _Walk:
    """Follows execution from entry and knows which temporaries were assigned."""

    def __init__(self, checks: UseChecks, consumers: Sequence[str]) -> None:
        self.checks = checks
        self.names = checks.names
        self.accesses = Accesses(checks.names, checks.places)
        self.consumers = consumers
        self.visible: set[str] = set()
        self.yielded: set[str] = set()
        self.defined: set[str] = set()
        """Temporaries that the node at hand defines: it cannot read them."""
        self.reached: set[str] = {"entry"}

    def run(self) -> set[str]:
        """The blocks that were reached."""
        stack = [walk(self.names.blocks["entry"])]
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                continue
            self.uses(node)
            if isinstance(node, AssignOp):
                name = node.variable.data
                if node in self.checks.places.implied and name not in self.visible:
                    self.defined.add(name)
                self.visible.add(name)
            else:
                self.defined.clear()
            for name in reversed(self.called(node)):
                if name in self.names.blocks and name not in self.reached:
                    self.reached.add(name)
                    stack.append(walk(self.names.blocks[name]))
        return self.reached

    def called(self, node: Operation) -> list[str]:
        if isinstance(node, BranchOp):
            return targets_of(node)
        if isinstance(node, YieldOp):
            # A consumer runs once its last value is there.
            self.yielded |= set(node.names)
            return [name for name in self.consumers if self.awaited(name) <= self.yielded]
        return []

    def awaited(self, consumer: str) -> set[str]:
        first = self.names.blocks[consumer].body.block.first_op
        return set(first.names) if isinstance(first, AwaitOp) else set()

    def uses(self, node: Operation) -> None:
        early = [
            mention
            for mention in self.accesses.used(node)
            if (mention.name not in self.visible or mention.name in self.defined)
            and mention.name in self.names.temporaries
        ]
        if not early:
            return
        written = {a.where for a in self.accesses.of(node) if a.kind == WRITE}
        for name, where in early:
            reads_own = name in self.defined and where not in written
            if name in self.visible and not reads_own:
                continue
            if name in self.names.loop_indices or name in self.checks.places.unreadable:
                continue
            assigned = self.names.temporaries[name]
            self.checks.report.error(
                "OI0211",
                where,
                f"temporary `{name}` is used before its assign",
                fix="move the assign up, in entry before the first use",
                notes=[("it is assigned here", self.checks.places.of(assigned, ("name",)))],
            )
