"""Elementwise producers move into the loops of their consumer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, ModuleOp, StringAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.lowering.fusing import may_join
from openinfer.lowering.linalg.generic import (
    identity_map,
    input_maps,
    is_elementwise,
    uses_index,
)
from openinfer.lowering.locations import absorb_nodes, give_location


@dataclass(frozen=True)
class FuseElementwise(ModulePass):
    """Computes an elementwise value where its only user needs it: no buffer, one loop.

    Before:
        %y = linalg.generic … ins(%x) { %0 = math.exp %in : f32 … }
        %z = linalg.generic … ins(%y) { %1 = arith.negf %in : f32 … }
    After:
        %z = linalg.generic … ins(%x) { %0 = math.exp %in : f32
                                        %1 = arith.negf %0 : f32 … }

    Requires: level `linalg` on tensors.
    Leaves: values with several users, across a barrier, with a hint against it, or watched
        (`nn.observe`); what would be a kernel of more buffers than the machine gives one; and
        expensive ones that the loops of the user would compute again and again; places
        (`linalg.index`) where there is more than one loop.
    """

    name: ClassVar[str] = "fuse-elementwise"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        # Consumers in reverse order: a chain is swallowed from its end in one sweep.
        for consumer in reversed([o for o in op.walk() if isinstance(o, linalg.GenericOp)]):
            current: linalg.GenericOp | None = consumer
            if consumer.parent is None:
                continue
            while current is not None:
                current = _fuse_one(current)


def _fuse_one(consumer: linalg.GenericOp) -> linalg.GenericOp | None:
    for position, value in enumerate(consumer.inputs):
        producer = value.owner
        if isinstance(producer, linalg.GenericOp) and _may_fuse(producer, consumer, position):
            return fuse(producer, consumer, position)
    return None


def _may_fuse(producer: linalg.GenericOp, consumer: linalg.GenericOp, position: int) -> bool:
    if not is_elementwise(producer) or len(producer.res) != 1:
        return False
    if any(use.operation is not consumer for use in producer.res[0].uses):
        return False
    # Into a loop the value would be computed once for each iteration.
    if producer.parent_block() is not consumer.parent_block() or not may_join(producer, consumer):
        return False
    # The value may be read several times only at one place: otherwise it would be computed twice.
    maps = input_maps(consumer)
    places = [maps[i] for i, v in enumerate(consumer.inputs) if v is producer.res[0]]
    if any(place != places[0] for place in places) or producer.res[0] in consumer.outputs:
        return False
    # Loops that ask for places stay as many: only a single one has nothing to lose.
    if uses_index(producer) and places[0] != identity_map(1):
        return False
    if not _covers(producer, consumer, position):
        return False
    # Each element is to be computed once: the consumer's loops must not repeat it.
    used = {e.position for e in places[0].results if isinstance(e, AffineDimExpr)}
    stretched = len(used) < places[0].num_dims
    return not stretched or _is_cheap(producer)


def _covers(producer: linalg.GenericOp, consumer: linalg.GenericOp, position: int) -> bool:
    """Whether every loop of the fused operation still has an operand that says how long it is."""
    maps = input_maps(consumer)
    place = maps[position]
    value = consumer.inputs[position]
    left = [m for v, m in zip(consumer.inputs, maps) if v is not value]
    left += [m.compose(place) for m in input_maps(producer)]
    left += [m.data for m in consumer.indexing_maps.data[len(consumer.inputs) :]]
    said = {e.position for m in left for e in m.results if isinstance(e, AffineDimExpr)}
    return len(said) == place.num_dims


def _is_cheap(producer: linalg.GenericOp) -> bool:
    """At most a couple of operations: recomputing costs less than a buffer."""
    heavy = {"math", "arith.divf", "arith.divsi", "arith.divui", "arith.remsi", "arith.remui"}
    ops = list(producer.body.block.ops)
    return len(ops) <= 4 and not any(
        op.name in heavy or op.name.partition(".")[0] in heavy for op in ops
    )


def fuse(producer: linalg.GenericOp, consumer: linalg.GenericOp, position: int) -> linalg.GenericOp:
    """The consumer with the producer's body in front of its own; erases both.

    The consumer's body is not copied, so that swallowing a long chain takes as long as the chain.
    """
    value = consumer.inputs[position]
    place = input_maps(consumer)[position]
    inputs: list[SSAValue] = []
    maps: list[AffineMap] = []

    def operand(source: SSAValue, mapping: AffineMap) -> tuple[int, bool]:
        """The number of an input, and whether it is a new one."""
        for i, (v, m) in enumerate(zip(inputs, maps)):
            if v is source and m == mapping:
                return i, False
        inputs.append(source)
        maps.append(mapping)
        return len(inputs) - 1, True

    block = consumer.body.detach_block(0)
    first = block.first_op
    assert first is not None
    taken: list[SSAValue] = []
    computed: list[BlockArgument] = []
    kept: list[BlockArgument] = []
    for argument, v, m in zip(list(block.args), consumer.inputs, input_maps(consumer)):
        if v is value:
            computed.append(argument)
            continue
        i, new_one = operand(v, m)
        if new_one:
            kept.append(argument)
        else:
            argument.replace_all_uses_with(kept[i])
            block.erase_arg(argument)
    behind = len(kept) + len(computed)
    for v, m in zip(producer.inputs, input_maps(producer)):
        i, new_one = operand(v, m.compose(place))
        if new_one:
            kept.append(block.insert_arg(nn.element_of(v), behind))
            behind += 1
        taken.append(kept[i])
    front = Block()
    produced = clone_body(producer.body.block, taken, front)
    for op in list(front.ops):
        op.detach()
        block.insert_op_before(op, first)
    for argument in computed:
        argument.replace_all_uses_with(produced[0])
        block.erase_arg(argument)
    out_maps = consumer.indexing_maps.data[len(consumer.inputs) :]
    new = linalg.GenericOp(
        inputs,
        list(consumer.outputs),
        Region(block),
        [*(AffineMapAttr(m) for m in maps), *out_maps],
        consumer.iterator_types,
        consumer.res.types,
        _both(producer.doc, consumer.doc),
    )
    give_location(consumer.location, new)
    new.attributes.update(consumer.attributes)
    absorb_nodes(new, producer, consumer)
    for old, result in zip(consumer.res, new.res):
        result.name_hint = old.name_hint
    Rewriter.replace_op(consumer, [new], new.res)
    if not producer.res[0].uses:
        producer.detach()
        producer.erase()
    return new


def _both(first: StringAttr | None, second: StringAttr | None) -> StringAttr | None:
    """The docs of a fused group name all of its parts."""
    texts = [doc.data for doc in (first, second) if doc is not None]
    return StringAttr(", ".join(texts)) if texts else None


def clone_body(source: Block, arguments: Sequence[SSAValue], target: Block) -> tuple[SSAValue, ...]:
    """Copies a body to the end of `target`; returns what its terminator yields."""
    mapping: dict[SSAValue, SSAValue] = dict(zip(source.args, arguments))
    for op in source.ops:
        if op is source.last_op:
            break
        target.add_op(op.clone(mapping))
    last: Operation | None = source.last_op
    assert last is not None
    return tuple(mapping.get(v, v) for v in last.operands)
