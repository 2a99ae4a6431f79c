"""A pattern driver that keeps locations: the entry point of every pattern pass here.

xDSL's rewriter gives a new op an unknown location. `rewrite` records the ops that a pattern inserts
and gives each one without a location that of the matched op, so that a message about the lowest
level still names the line of the program. A pattern that fails is reported with the op it matched.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriterListener,
    PatternRewriteWalker,
    RewritePattern,
)

from openinfer.lowering.locations import give_location, location_of
from openinfer.lowering.operations import operations
from openinfer.runtime.errors import CompileError, OpenInferError
from openinfer.runtime.quick_dataclass import dataclass


def op_summary(op: Operation, limit: int = 200) -> str:
    """One line that names an op with its operand and result types, for messages."""
    operands = ", ".join(str(operand.type) for operand in op.operands)
    results = ", ".join(str(result.type) for result in op.results)
    text = f"{op.name} ({operands}) -> ({results})"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


@dataclass
class _KeepLocations(RewritePattern):
    """Applies `pattern`, then hands the matched op's location to the ops that it inserted."""

    pattern: RewritePattern
    inserted: list[Operation] = field(default_factory=list[Operation])

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        self.inserted.clear()
        # The matched op may be gone when the pattern is done.
        place, parent = op.location, op.parent_op()
        try:
            self.pattern.match_and_rewrite(op, rewriter)
        except OpenInferError:
            raise
        except Exception as error:
            where = location_of(op) or location_of(parent)
            raise CompileError(
                "OI0962",
                f"{f'{where}: ' if where else ''}{op_summary(op)}: {type(error).__name__}: {error}",
            ) from error
        for new in self.inserted:
            give_location(place, new)


def rewrite(
    module: ModuleOp | Region,
    patterns: RewritePattern | Sequence[RewritePattern],
    *,
    recursive: bool = True,
    regions_first: bool = False,
    reverse: bool = False,
    erase_dead: bool = False,
    only: Collection[str] | None = None,
) -> bool:
    """Applies patterns to every op of a module or region; True when anything changed.

    The first pattern of the list that acts wins. `recursive` goes on to a fixpoint, also over the
    ops that patterns insert; pass False for a lowering that must visit each op once. `erase_dead`
    removes ops without effects whose results nobody uses. `only` names the ops that a pattern can
    match: the others are not offered, which is quick where there are none.
    """
    if isinstance(patterns, RewritePattern):
        patterns = (patterns,)
    # A single pattern needs no applier; the applier would also erase dead ops by itself.
    pattern: RewritePattern
    if len(patterns) == 1 and not erase_dead:
        pattern = patterns[0]
    else:
        pattern = GreedyRewritePatternApplier(list(patterns), dce_enabled=erase_dead)
    keeper = _KeepLocations(pattern)
    walker = _Walker(
        keeper,
        apply_recursively=recursive,
        walk_regions_first=regions_first,
        walk_reverse=reverse,
        listener=PatternRewriterListener(operation_insertion_handler=[keeper.inserted.append]),
    )
    walker.only = only
    region = module.body if isinstance(module, ModuleOp) else module
    return walker.rewrite_region(region)


class _Walker(PatternRewriteWalker):
    """Offers only the ops of some names to begin with."""

    only: Collection[str] | None = None

    def _populate_worklist(self, op: Operation | Region | Block) -> None:
        if self.only is None or not isinstance(op, Region) or self.walk_regions_first:
            super()._populate_worklist(op)
            return
        matching = [o for o in operations(op) if o.name in self.only]
        # The worklist is a stack.
        for found in matching if self.walk_reverse else reversed(matching):
            self._worklist.push(found)
