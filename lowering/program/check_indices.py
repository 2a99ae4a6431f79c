"""Checks of loop indices against what else their names stand for: sizes, and indices of callers.

An index is known inside the body of its loop only: neither behind it, nor in a block that is called
from there. Elsewhere the same name would be a size, so a program may not have both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from xdsl.ir import Operation

from openinfer.dialects.graph import BranchOp, LoopOp, ScopeOp, YieldOp
from openinfer.lowering.program.accesses import Accesses, Mention
from openinfer.lowering.program.check_consumers import consumer_names
from openinfer.lowering.program.check_uses import UseChecks
from openinfer.lowering.program.view import targets_of
from openinfer.runtime.dtypes import ALIASES, DTYPES


def check_indices(checks: UseChecks) -> None:
    """Reports indices that have the name of a size, and uses of a caller's index."""
    names = checks.names
    if not names.loop_indices:
        return
    uses = _Uses(checks)
    for op in names.variables.values():
        own = {index.data for index in op.indices}
        for axis, dim in enumerate(op.sizes):
            uses.mentions(uses.accesses.sizes(dim, op, ("dims", axis)), own)
    for name, block in names.blocks.items():
        uses.block = name
        uses.nodes(block.body.block.ops, {})
    callers = uses.indices_of_callers()
    for block, (name, where) in uses.free:
        index = callers.get(block, {}).get(name)
        if index is not None:
            checks.report.error(
                "OI0260",
                where,
                f"`{name}` is an index of the caller's loop: a called block does not see the "
                "caller's loop index",
                fix="write the statements into the loop, or use a constant index",
                notes=[("the loop is here", checks.places.of(index, ("index",)))],
            )
            continue
        for loop in uses.loops.get(name, ()):
            checks.report.error(
                "OI0258",
                checks.places.of(loop, ("index",)),
                f"loop index `{name}` has the name of a size",
                fix="rename the index",
                notes=[("used as a size here", where)],
            )


class _Uses:
    """The loops of every index, and the uses of their names outside of them."""

    def __init__(self, checks: UseChecks) -> None:
        self.names = checks.names
        self.unreadable = checks.places.unreadable
        self.accesses = Accesses(checks.names, checks.places)
        self.block = ""
        self.loops: dict[str, list[LoopOp]] = {}
        self.free: list[tuple[str, Mention]] = []
        """Block and name of every use of an index's name outside of the index's loop."""
        self.consumers = consumer_names(checks.names)
        self.calls: list[tuple[str, str, dict[str, LoopOp]]] = []
        """Caller, called block, and the loops around the call by their indices."""

    def mentions(self, mentions: Iterable[Mention], known: Collection[str]) -> None:
        for mention in mentions:
            name = mention.name
            if name not in self.names.loop_indices or name in known:
                continue
            # A variable of that name has errors of its own. A setting may name a dtype.
            if self.names.find(name) is None and name not in self.unreadable:
                if ALIASES.get(name, name) not in DTYPES:
                    self.free.append((self.block, mention))

    def nodes(self, nodes: Iterable[Operation], around: dict[str, LoopOp]) -> None:
        for node in nodes:
            self.mentions(self.accesses.in_sizes(node), around)
            match node:
                case LoopOp():
                    index = node.index.data
                    self.loops.setdefault(index, []).append(node)
                    self.nodes(node.body.block.ops, {**around, index: node})
                case ScopeOp():
                    self.nodes(node.body.block.ops, around)
                case BranchOp():
                    self.calls += [(self.block, target, around) for target in targets_of(node)]
                case YieldOp():
                    self.calls += [(self.block, name, around) for name in self.consumers]
                case _:
                    pass

    def indices_of_callers(self) -> dict[str, dict[str, LoopOp]]:
        """The indices around the calls of each block, those of the callers' callers included."""
        found: dict[str, dict[str, LoopOp]] = {}
        changed = True
        while changed:
            changed = False
            for caller, called, around in self.calls:
                indices = found.setdefault(called, {})
                for name, loop in {**found.get(caller, {}), **around}.items():
                    if name not in indices:
                        indices[name] = loop
                        changed = True
        return found
