"""Which variables a list of nodes needs: backward liveness over structured control flow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.ir import Attribute, Operation

from openinfer.dialects.graph import (
    AssignOp,
    AwaitOp,
    BlockOp,
    BranchOp,
    LoopOp,
    NameAttr,
    RefAttr,
    ReturnOp,
    ScopeOp,
    SizeAttr,
    SliceAttr,
    YieldOp,
)
from openinfer.dialects.graph.syntax import GraphOp
from openinfer.lowering.attributes import PLAIN

Names = frozenset[str]


def nodes_of(op: BlockOp | LoopOp | ScopeOp) -> list[Operation]:
    """The nodes of a body, in order."""
    return list(op.body.block.ops)


def consumers_of(names: Collection[str], blocks: Mapping[str, BlockOp]) -> list[BlockOp]:
    """The blocks that await any of some values, in text order."""
    found: list[BlockOp] = []
    for block in blocks.values():
        first = block.body.block.first_op
        if block.block_name.data != "entry" and isinstance(first, AwaitOp):
            if set(first.names) & set(names):
                found.append(block)
    return found


def consumer_nodes(block: BlockOp) -> list[Operation]:
    """What a consumer does between its `await` and its `yield`."""
    return [op for op in nodes_of(block)[1:] if not isinstance(op, YieldOp)]


def written(
    nodes: Sequence[Operation], blocks: Mapping[str, BlockOp], shaped: Names = frozenset()
) -> dict[str, None]:
    """Every variable that the nodes may write, in the order of the first write; of those in `shaped`
    also what they read, which may give it a shape."""
    found: dict[str, None] = {}
    for op in nodes:
        if isinstance(op, LoopOp | ScopeOp):
            found.update(written(nodes_of(op), blocks, shaped))
        elif isinstance(op, BranchOp):
            for target in (op.then_block, op.else_block):
                if target is not None:
                    found.update(written(nodes_of(blocks[target.data]), blocks, shaped))
        elif isinstance(op, AwaitOp):
            for consumer in consumers_of(op.names, blocks):
                found.update(written(consumer_nodes(consumer), blocks, shaped))
        elif isinstance(op, GraphOp):
            found.update({ref.variable.data: None for ref in op.writes()})
            if shaped:
                read = [ref.variable.data for ref in op.reads()]
                found.update({name: None for name in read if name in shaped})
    return found


def assigned_in(nodes: Sequence[Operation], blocks: Mapping[str, BlockOp]) -> list[AssignOp]:
    """Every declaration of a temporary that the nodes may come to."""
    found: list[AssignOp] = []
    for op in nodes:
        if isinstance(op, AssignOp):
            found.append(op)
        elif isinstance(op, LoopOp | ScopeOp):
            found += assigned_in(nodes_of(op), blocks)
        elif isinstance(op, BranchOp):
            for target in (op.then_block, op.else_block):
                if target is not None:
                    found += assigned_in(nodes_of(blocks[target.data]), blocks)
        elif isinstance(op, AwaitOp):
            for consumer in consumers_of(op.names, blocks):
                found += assigned_in(consumer_nodes(consumer), blocks)
    return found


def dims_of(name: str) -> str:
    """What stands among live names for the dimensions of a temporary, which a write must fit."""
    return f"{name} dims"


def live_before(
    nodes: Sequence[Operation],
    after: Names,
    at_return: Names,
    blocks: Mapping[str, BlockOp],
    shaped: Names = frozenset(),
) -> Names:
    """The variables whose value is needed before `nodes`.

    `after` is what is needed behind them, `at_return` what is needed where a return leads to. Of the
    variables in `shaped` the dimensions, too, are what the way to a node makes them.
    """
    live = after
    for op in reversed(nodes):
        live = _step(op, live, at_return, blocks, shaped)
    return live


def live_behind_each(
    nodes: Sequence[Operation],
    after: Names,
    at_return: Names,
    blocks: Mapping[str, BlockOp],
    shaped: Names = frozenset(),
) -> list[Names]:
    """For each node the variables whose value is needed behind it, in one walk through `nodes`.

    The other arguments are those of `live_before`.
    """
    behind: list[Names] = []
    live = after
    for op in reversed(nodes):
        behind.append(live)
        live = _step(op, live, at_return, blocks, shaped)
    behind.reverse()
    return behind


def _indices(op: GraphOp) -> Names:
    """Names in indices, dimensions and settings; those that are no variables do no harm."""
    found: set[str] = set()

    def gather(value: Attribute) -> None:
        if type(value) in PLAIN:
            return
        if isinstance(value, NameAttr):
            found.add(value.data)
        elif isinstance(value, SizeAttr):
            found.update(value.data.names)
        elif isinstance(value, SliceAttr):
            gather(value.start)
            gather(value.stop)
        elif isinstance(value, RefAttr):
            gather(value.indices)
        elif isinstance(value, ArrayAttr):
            for item in cast("ArrayAttr[Attribute]", value):
                gather(item)
        elif isinstance(value, DictionaryAttr):
            for item in value.data.values():
                gather(item)

    for value in op.properties.values():
        gather(value)
    return frozenset(found)


def _step(
    op: Operation,
    after: Names,
    at_return: Names,
    blocks: Mapping[str, BlockOp],
    shaped: Names,
) -> Names:
    match op:
        case ReturnOp():
            return at_return | frozenset(op.names)
        case ScopeOp():
            return live_before(nodes_of(op), after, at_return, blocks, shaped)
        case LoopOp():
            # The body may run again, or not at all: twice around reaches the fixpoint.
            once = after | live_before(nodes_of(op), after, at_return, blocks, shaped)
            again = once | live_before(nodes_of(op), once, at_return, blocks, shaped)
            return (again - {op.index.data}) | op.start.data.names | op.stop.data.names
        case BranchOp():
            live: Names = _indices(op)
            for target in (op.then_block, op.else_block):
                if target is not None:
                    # A return in the called block comes back here.
                    body = nodes_of(blocks[target.data])
                    live |= live_before(body, after, after, blocks, shaped)
            return live | frozenset(ref.variable.data for ref in op.reads())
        case AwaitOp():
            # The consumers run, or have run by now.
            live = after | frozenset(op.names)
            for consumer in consumers_of(op.names, blocks):
                live |= live_before(consumer_nodes(consumer), after, after, blocks, shaped)
            return live
        case GraphOp():
            killed = frozenset(ref.variable.data for ref in op.writes())
            needed = frozenset(ref.variable.data for ref in op.reads())
            if isinstance(op, AssignOp):
                after -= {dims_of(op.variable.data)}
            elif not killed.isdisjoint(shaped):
                needed |= {dims_of(name) for name in killed & shaped}
            return (after - killed) | needed | _indices(op)
        case _:
            return after
