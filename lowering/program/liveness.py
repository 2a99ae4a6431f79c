"""What a list of nodes needs and writes: backward liveness over structured control flow.

What a body does to the variables that are needed behind it is a `Transfer`: it takes some away and adds
others, whatever they are. So every block is looked at once, however often and however deeply it is
called, and calls are followed without recursion.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

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
from openinfer.runtime.quick_dataclass import dataclass

Names = frozenset[str]
Found = TypeVar("Found")


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


def callees(nodes: Sequence[Operation], blocks: Mapping[str, BlockOp]) -> Iterator[str]:
    """The blocks that nodes call, or that run when they await, in the order of the nodes."""
    for op in nodes:
        if isinstance(op, LoopOp | ScopeOp):
            yield from callees(nodes_of(op), blocks)
        elif isinstance(op, BranchOp):
            for target in (op.then_block, op.else_block):
                if target is not None and target.data in blocks:
                    yield target.data
        elif isinstance(op, AwaitOp):
            for consumer in consumers_of(op.names, blocks):
                yield consumer.block_name.data


def own_nodes(block: BlockOp) -> list[Operation]:
    """What a block does: of a consumer, what stands between its `await` and its `yield`."""
    nodes = nodes_of(block)
    awaits = bool(nodes) and isinstance(nodes[0], AwaitOp) and block.block_name.data != "entry"
    return consumer_nodes(block) if awaits else nodes


def callees_first(
    nodes: Sequence[Operation], blocks: Mapping[str, BlockOp], known: Collection[str] = ()
) -> Iterator[str]:
    """The blocks that nodes lead to, each once and behind those that it leads to itself.

    Those in `known` are left out. A call that closes a cycle is not followed.
    """
    seen: set[str] = set()
    stack: list[tuple[str, Iterator[str]]] = [("", callees(nodes, blocks))]
    while stack:
        name, rest = stack[-1]
        target = next(rest, None)
        if target is None:
            stack.pop()
            if stack:
                yield name
        elif target not in seen and target not in known:
            seen.add(target)
            stack.append((target, callees(own_nodes(blocks[target]), blocks)))


def dims_of(name: str) -> str:
    """What stands among live names for the dimensions of a temporary, which a write must fit."""
    return f"{name} dims"


@dataclass(frozen=True)
class Transfer:
    """What is needed in front of something, from what is needed behind it."""

    needs: Names
    """What it needs itself."""
    hides: Names | None = frozenset()
    """Of what is needed behind it, what need not be there in front; None where it always returns."""
    return_hides: Names | None = None
    """The same of what is needed where a return leads to; None where it never returns."""

    def before(self, after: Names, at_return: Names) -> Names:
        """What is needed in front."""
        live = self.needs
        if self.hides is not None:
            live |= after - self.hides
        if self.return_hides is not None:
            live |= at_return - self.return_hides
        return live

    @property
    def as_call(self) -> Transfer:
        """That of a call: a return comes back to where the end does, too."""
        return Transfer(self.needs, _both(self.hides, self.return_hides), None)


def _both(left: Names | None, right: Names | None) -> Names | None:
    """What two ways hide; None is a way that is not there."""
    if left is None or right is None:
        return right if left is None else left
    return left & right


class Flow:
    """What nodes need and write, for the blocks of one program.

    Of the variables in `shaped` the dimensions, too, are what the way to a node makes them.
    """

    def __init__(self, blocks: Mapping[str, BlockOp], shaped: Names = frozenset()) -> None:
        self.blocks = blocks
        self.shaped = shaped
        self._transfers: dict[str, Transfer] = {}
        self._written: dict[str, dict[str, None]] = {}
        self._assigned: dict[str, dict[AssignOp, None]] = {}

    # What is needed

    def live_before(self, nodes: Sequence[Operation], after: Names, at_return: Names) -> Names:
        """The variables whose value is needed before `nodes`.

        `after` is what is needed behind them, `at_return` what is needed where a return leads to.
        """
        return self._prepared(nodes).before(after, at_return)

    def live_behind_each(
        self, nodes: Sequence[Operation], after: Names, at_return: Names
    ) -> list[Names]:
        """For each node the variables whose value is needed behind it, in one walk through `nodes`."""
        self._summarise(nodes, self._transfers, self._body)
        behind: list[Names] = []
        live = after
        for op in reversed(nodes):
            behind.append(live)
            live = self._transfer(op).before(live, at_return)
        behind.reverse()
        return behind

    def _prepared(self, nodes: Sequence[Operation]) -> Transfer:
        self._summarise(nodes, self._transfers, self._body)
        return self._body(nodes)

    def _summarise(
        self,
        nodes: Sequence[Operation],
        known: dict[str, Found],
        summary: Callable[[Sequence[Operation]], Found],
    ) -> None:
        """Looks at every block that nodes lead to, innermost first."""
        for name in callees_first(nodes, self.blocks, known):
            known[name] = summary(own_nodes(self.blocks[name]))

    def _body(self, nodes: Sequence[Operation]) -> Transfer:
        """The transfer of nodes one after the other; changes three sets in place, from the end."""
        needs: set[str] = set()
        hides: set[str] | None = set()
        return_hides: set[str] | None = None
        for op in reversed(nodes):
            step = self._transfer(op)
            if step.hides is None:
                needs, hides, return_hides = set(), None, None
            else:
                needs -= step.hides
                if hides is not None:
                    hides |= step.hides
                if return_hides is not None:
                    return_hides |= step.hides
            needs |= step.needs
            if step.return_hides is not None:
                if return_hides is None:
                    return_hides = set(step.return_hides)
                else:
                    return_hides &= step.return_hides
        return Transfer(
            frozenset(needs),
            None if hides is None else frozenset(hides),
            None if return_hides is None else frozenset(return_hides),
        )

    def _transfer(self, op: Operation) -> Transfer:
        match op:
            case ReturnOp():
                return Transfer(frozenset(op.names), None, frozenset())
            case ScopeOp():
                return self._body(nodes_of(op))
            case LoopOp():
                # The body may run again, or not at all. Once around reaches the fixpoint: what it
                # needs does not depend on what is needed behind it.
                body = self._body(nodes_of(op))
                index = frozenset({op.index.data})
                left = body.return_hides
                return Transfer(
                    (body.needs - index) | op.start.data.names | op.stop.data.names,
                    index,
                    None if left is None else left | index,
                )
            case BranchOp():
                needs = _indices(op) | frozenset(ref.variable.data for ref in op.reads())
                hides: Names | None = None
                for target in (op.then_block, op.else_block):
                    if target is not None:
                        called = self._transfers[target.data].as_call
                        needs |= called.needs
                        hides = _both(hides, called.hides)
                return Transfer(needs, hides)
            case AwaitOp():
                # The consumers run, or have run by now.
                needs = frozenset(op.names)
                for consumer in consumers_of(op.names, self.blocks):
                    name = consumer.block_name.data
                    if name in self._transfers:  # Else it is its own first node.
                        needs |= self._transfers[name].needs
                return Transfer(needs)
            case GraphOp():
                killed = frozenset(ref.variable.data for ref in op.writes())
                needs = frozenset(ref.variable.data for ref in op.reads())
                if isinstance(op, AssignOp):
                    killed |= {dims_of(op.variable.data)}
                elif not killed.isdisjoint(self.shaped):
                    needs |= {dims_of(name) for name in killed & self.shaped}
                return Transfer(needs | _indices(op), killed)
            case _:
                return Transfer(frozenset())

    # What is written

    def written(self, nodes: Sequence[Operation]) -> dict[str, None]:
        """Every variable that the nodes may write, in the order of the first write; of those in
        `shaped` also what they read, which may give it a shape."""
        self._summarise(nodes, self._written, self._written_by)
        return self._written_by(nodes)

    def _written_by(self, nodes: Sequence[Operation]) -> dict[str, None]:
        def own(op: Operation) -> Iterable[str]:
            if not isinstance(op, GraphOp):
                return ()
            read = [ref.variable.data for ref in op.reads()] if self.shaped else []
            names = [ref.variable.data for ref in op.writes()]
            return [*names, *(name for name in read if name in self.shaped)]

        return self._gathered(nodes, self._written, own)

    def assigned_in(self, nodes: Sequence[Operation]) -> list[AssignOp]:
        """Every declaration of a temporary that the nodes may come to, each once."""
        self._summarise(nodes, self._assigned, self._assigned_by)
        return list(self._assigned_by(nodes))

    def _assigned_by(self, nodes: Sequence[Operation]) -> dict[AssignOp, None]:
        def own(op: Operation) -> Iterable[AssignOp]:
            return (op,) if isinstance(op, AssignOp) else ()

        return self._gathered(nodes, self._assigned, own)

    def _gathered(
        self,
        nodes: Sequence[Operation],
        known: Mapping[str, dict[Found, None]],
        own: Callable[[Operation], Iterable[Found]],
    ) -> dict[Found, None]:
        """What nodes have, in their order, those of their bodies and of called blocks included."""
        found: dict[Found, None] = {}
        for op in nodes:
            if isinstance(op, LoopOp | ScopeOp):
                found.update(self._gathered(nodes_of(op), known, own))
            elif isinstance(op, BranchOp | AwaitOp):
                for name in callees([op], self.blocks):
                    found.update(known.get(name, {}))
            else:
                found.update(dict.fromkeys(own(op)))
        return found


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
