"""The pass `cse`."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import IsolatedFromAbove, IsTerminator, MemoryEffectKind

from openinfer.lowering.effects import Effects
from openinfer.lowering.interned import Interned
from openinfer.lowering.operations import operands_of, ops_of


@dataclass(frozen=True)
class Cse(ModulePass):
    """Computes once what equal ops of a block, or of the blocks around it, compute.

    Before:
        %a = arith.addi %x, %y : index
        %b = arith.addi %x, %y : index
        "test.use"(%a, %b) : (index, index) -> ()
    After:
        %a = arith.addi %x, %y : index
        "test.use"(%a, %a) : (index, index) -> ()

    Requires: nothing. Regions of several blocks are left as they are. A read takes the place of an
    equal one of the same block if nothing between them may write.
    Leaves: the level as it was.
    """

    name: ClassVar[str] = "cse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        finder = _Finder()
        finder.region(op.body)
        for dead in finder.dead:
            # What stood inside of one is gone with it.
            if dead.parent is not None:
                Rewriter.erase_op(dead)


class _Finder:
    """One walk. Scopes nest, so what a scope has added is taken out again at its end."""

    def __init__(self) -> None:
        self.dead: list[Operation] = []
        """Ops without users."""
        self._known: dict[Hashable, list[Operation]] = {}
        """Ops that may stand for equal ones; more than one of a key only where regions differ."""
        self._undo: list[tuple[Hashable, list[Operation] | None]] = []
        self._writes: dict[Operation, int] = {}
        """How many ops of its block that may write came before an op that reads."""
        self._effects = Effects()
        self._interned = Interned()

    def region(self, region: Region) -> None:
        block = region.first_block
        if block is None or block is not region.last_block:
            return
        mark = len(self._undo)
        self._block(block)
        while len(self._undo) > mark:
            key, before = self._undo.pop()
            if before is None:
                del self._known[key]
            else:
                self._known[key] = before

    def _block(self, block: Block) -> None:
        writes = 0
        last = block.last_op
        looked_up = self._effects.looked_up
        for op in ops_of(block):
            if op.regions:
                self._inside(op)
            effects, dead_if_unused = looked_up(op)
            if effects is None or (
                effects and any(e.kind is MemoryEffectKind.WRITE for e in effects)
            ):
                writes += 1
            if op is last and op.has_trait(IsTerminator):
                continue
            if dead_if_unused and not _used(op):
                self.dead.append(op)
            elif effects is None or (
                op.regions and any(len(region.blocks) > 1 for region in op.regions)
            ):
                continue
            elif not effects:
                self._share(op)
            elif all(effect.kind is MemoryEffectKind.READ for effect in effects):
                self._share(op, writes)

    def _inside(self, op: Operation) -> None:
        if not op.has_trait(IsolatedFromAbove, value_if_unregistered=True):
            for region in op.regions:
                self.region(region)
            return
        known, self._known = self._known, {}
        for region in op.regions:
            self.region(region)
        self._known = known

    def _share(self, op: Operation, writes: int | None = None) -> None:
        """Uses an equal op instead, or remembers this one. `writes` is None for what reads nothing."""
        key = self._key(op)
        same = self._known.get(key)
        for other in same or ():
            if op.regions and not all(
                mine.is_structurally_equivalent(theirs)
                for mine, theirs in zip(op.regions, other.regions, strict=True)
            ):
                continue
            if writes is not None and (
                other.parent is not op.parent or self._writes[other] != writes
            ):
                continue
            for old, new in zip(op.results, other.results, strict=True):
                old.replace_all_uses_with(new)
            self.dead.append(op)
            return
        if writes is not None:
            self._writes[op] = writes
        self._undo.append((key, same))
        self._known[key] = [op, *same] if same and op.regions else [op]

    def _key(self, op: Operation) -> Hashable:
        interned = self._interned
        return (
            op.name,
            tuple(map(id, operands_of(op))),
            interned.types(op.results),
            interned.named(op.properties),
            interned.named(op.attributes),
            len(op.regions),
        )


def _used(op: Operation) -> bool:
    for result in op.results:
        if result.first_use is not None:
            return True
    return False
