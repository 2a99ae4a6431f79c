"""How large the step of a program gets when its calls are followed, found before anybody follows them.

A branch is a call, and the block that it calls stands in the step as often as it is called: forty
blocks that call the next one twice are a short text and a step without end. The counts are made block by
block, from those that call nothing upwards, in the time that it takes to read the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from openinfer.dialects.graph import AwaitOp, BlockOp, BranchOp, LoopOp, ReturnOp, ScopeOp
from openinfer.lowering.locations import location_of
from openinfer.lowering.program.liveness import callees, callees_first, nodes_of, own_nodes
from openinfer.runtime.errors import Diagnostic
from openinfer.runtime.quick_dataclass import dataclass

MAX_ADDED = 20_000
"""So many nodes may calls add to those that stand in the program."""
MAX_DEPTH = 64
"""So deep may loops, scopes and conditional branches nest, those of called blocks included."""


@dataclass(frozen=True)
class Expansion:
    """What a block is with all that it calls."""

    nodes: int
    depth: int
    """How deep loops, scopes and conditional branches nest in it."""


def blocks_of(module: ModuleOp) -> dict[str, BlockOp]:
    """The blocks of a program by name."""
    return {op.block_name.data: op for op in module.body.ops if isinstance(op, BlockOp)}


def expansions(blocks: Mapping[str, BlockOp]) -> dict[str, Expansion]:
    """The size of `entry` and of every block that it leads to, those that call nothing first."""
    found: dict[str, Expansion] = {}
    if "entry" in blocks:
        for name in [*callees_first(nodes_of(blocks["entry"]), blocks, {"entry"}), "entry"]:
            found[name] = _expansion(own_nodes(blocks[name]), blocks, found)
    return found


def expansion_problems(blocks: Mapping[str, BlockOp]) -> list[Diagnostic]:
    """The innermost block that makes the step of a program too large, and a cycle of calls."""
    sizes = expansions(blocks)
    written = sum(1 for name in sizes for _ in blocks[name].walk())
    for name, size in sizes.items():
        place = location_of(blocks[name])
        if size.nodes > MAX_ADDED + written:
            return [
                Diagnostic(
                    "OI0270",
                    f"block `{name}` is {size.nodes:,} nodes with those of the blocks that it calls, "
                    f"at most {MAX_ADDED + written:,} are compiled",
                    place,
                    hint="a called block is copied to each place that calls it: call it in a `loop`",
                )
            ]
        if size.depth > MAX_DEPTH:
            return [
                Diagnostic(
                    "OI0271",
                    f"loops, scopes and conditional branches nest {size.depth} deep in block "
                    f"`{name}` with the blocks that it calls, at most {MAX_DEPTH} are compiled",
                    place,
                    hint="let one block call the others one after the other, where it can",
                )
            ]
    return []


def _expansion(
    nodes: Sequence[Operation], blocks: Mapping[str, BlockOp], known: Mapping[str, Expansion]
) -> Expansion:
    """The size of nodes; of a call that closes a cycle, which is reported elsewhere, nothing."""
    count, depth, around = 0, 0, 0
    for op in nodes:
        count += 1
        inner = Expansion(0, 0)
        nests = 0
        if isinstance(op, LoopOp | ScopeOp):
            inner, nests = _expansion(nodes_of(op), blocks, known), 1
        elif isinstance(op, BranchOp | AwaitOp):
            called = [known[name] for name in callees([op], blocks) if name in known]
            inner = Expansion(
                sum(size.nodes for size in called), max((size.depth for size in called), default=0)
            )
            nests = int(isinstance(op, AwaitOp) or op.condition is not None)
        count += inner.nodes
        depth = max(depth, around + nests + inner.depth)
        if isinstance(op, LoopOp | ScopeOp) and _may_return(op):
            # What follows runs only where the loop did not return, so it nests in that choice.
            around += 1
    return Expansion(count, depth)


def _may_return(op: Operation) -> bool:
    """Whether only the step knows if a `return` inside is met: it stands in a loop whose bounds are
    no numbers."""
    return any(
        isinstance(inner, LoopOp)
        and (inner.start.data.constant is None or inner.stop.data.constant is None)
        and any(isinstance(held, ReturnOp) for held in inner.walk())
        for inner in op.walk()
    )
