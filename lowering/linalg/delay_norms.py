"""Norms at the end of a loop's rounds move to where products take them in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.fusing import NO_FUSE, holds_barrier
from openinfer.lowering.locations import give_location

Norm = nn.LayerNormOp | nn.RmsNormOp
MOST_OPS = 256
"""Ops of a round that is computed in front of the loop: it takes time to compile."""


@dataclass(frozen=True)
class DelayNorms(ModulePass):
    """Carries what a loop norms last from round to round without its norm, which the next round begins with.

    Before:
        %r = scf.for %l = 0 to 6 step 1 iter_args(%h = %x) {
          %q = nn.matmul(%h, %wq) …            // and more
          %n = nn.layer_norm(%s, %w[%l])
          scf.yield %n }
    After:
        %q0 = nn.matmul(%x, %wq0) …            // the first round, up to %s0
        %t = scf.for %l = 1 to 6 step 1 iter_args(%s = %s0) {
          %n = nn.layer_norm(%s, %w[%l - 1])
          %q = nn.matmul(%n, %wq) …
          scf.yield %s }
        %r = nn.layer_norm(%t, %w[5])

    Then `fuse-norms` finds norm and products in one block.

    Requires: layouts chosen.
    Leaves: norms that somebody else of the round reads, or whose factors are computed in it; loops whose
        rounds only the step counts, with a barrier, or longer than MOST_OPS; carried values that no product
        multiplies whose kernel takes norms (`Demands.takes_norm`); traced and observed builds, whose loops
        stay as they were written.
    """

    name: ClassVar[str] = "delay-norms"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        facts = Facts.of(op)
        if facts.observed or facts.traced:
            return
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                for loop in [o for o in function.walk() if isinstance(o, scf.ForOp)]:
                    _delay(loop)


def _delay(loop: scf.ForOp) -> None:
    rounds = _rounds(loop)
    block = loop.body.block
    if rounds is None or len(rounds) < 2 or holds_barrier(loop):
        return
    if sum(1 for _ in block.walk()) > MOST_OPS:
        return
    last = block.last_op
    assert isinstance(last, scf.YieldOp)
    norms: dict[int, Norm] = {}
    for number, (carried, value) in enumerate(zip(block.args[1:], last.operands)):
        if isinstance(value.owner, Norm) and _may_wait(value.owner, carried, loop):
            norms[number] = value.owner
    if not norms:
        return
    _unroll_first(loop, rounds)
    # The first round stands in front now, with a norm that the loop is to compute instead.
    for number, norm in norms.items():
        _move(loop, number, norm, rounds)


def _rounds(loop: scf.ForOp) -> range | None:
    """The numbers of the rounds; None where only the step knows them."""
    numbers: list[int] = []
    for value in (loop.lb, loop.ub, loop.step):
        owner = value.owner
        if not isinstance(owner, arith.ConstantOp) or not isinstance(owner.value, IntegerAttr):
            return None
        numbers.append(owner.value.value.data)
    return range(*numbers)


def _may_wait(norm: Norm, carried: SSAValue, loop: scf.ForOp) -> bool:
    """Whether a norm may be computed in the next round, and a product takes it in there."""
    block = loop.body.block
    if norm.parent_block() is not block or NO_FUSE in norm.attributes:
        return False
    if len(list(norm.result[0].uses)) != 1:
        return False
    if not all(_is_outside(value, loop) or _is_member(value, loop) for value in norm.inputs[1:]):
        return False
    return any(
        isinstance(use.operation, nn.MatmulOp | nn.RowMatmulOp)
        and use.index == 0
        and use.operation.parent_block() is block
        and demands_of(use.operation).takes_norm(use.operation)
        for use in carried.uses
    )


def _is_outside(value: SSAValue, loop: scf.ForOp) -> bool:
    """Whether a value is there before the loop is."""
    block = value.owner if isinstance(value, BlockArgument) else value.owner.parent_block()
    while isinstance(block, Block):
        if block is loop.body.block:
            return False
        holder = block.parent_op()
        block = holder.parent_block() if holder is not None else None
    return True


def _is_member(value: SSAValue, loop: scf.ForOp) -> bool:
    """Whether a value is a member of a weight, by the number of the round."""
    owner = value.owner
    if not isinstance(owner, nn.MemberOp) or not _is_outside(owner.family, loop):
        return False
    number = loop.body.block.args[0]
    return all(index is number or _is_outside(index, loop) for index in owner.indices)


def _unroll_first(loop: scf.ForOp, rounds: range) -> None:
    """Computes the first round in front of the loop."""
    outer, block = loop.parent_block(), loop.body.block
    assert outer is not None
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, [loop.lb, *loop.iter_args]))
    for op in block.ops:
        if isinstance(op, scf.YieldOp):
            given = [values.get(value, value) for value in op.operands]
            first = 3
            for number, value in enumerate(given):
                loop.operands[first + number] = value
            break
        outer.insert_op_before(op.clone(values), loop)
    begin = _number(loop, rounds[1])
    outer.insert_op_before(begin, loop)
    loop.operands[0] = begin.result


def _number(place: Operation, value: int) -> arith.ConstantOp:
    made = arith.ConstantOp(IntegerAttr(value, IndexType()))
    give_location(place.location, made)
    return made


def _move(loop: scf.ForOp, number: int, norm: Norm, rounds: range) -> None:
    """Lets the loop carry what a norm is of, and computes the norm at the beginning of a round and behind the
    loop."""
    outer, block = loop.parent_block(), loop.body.block
    assert outer is not None
    last = block.last_op
    assert last is not None
    carried, result = block.args[1 + number], loop.results[number]
    early = loop.iter_args[number].owner
    assert isinstance(early, Norm)
    loop.operands[3 + number] = early.inputs[0]
    early.detach()
    early.erase()
    # In the round, that of the round before.
    back = _number(norm, -rounds.step)
    before = arith.AddiOp(block.args[0], back.result)
    give_location(norm.location, before)
    first = block.first_op
    assert first is not None
    block.insert_ops_before([back, before], first)
    _norm_before(first, norm, carried, loop, before.result)
    # Behind the loop, that of the last round.
    behind = loop.next_op
    assert behind is not None
    end = _number(norm, rounds[-1])
    outer.insert_op_before(end, behind)
    _norm_before(behind, norm, result, loop, end.result)
    last.operands[number] = norm.inputs[0]
    norm.detach()
    norm.erase()


def _norm_before(
    place: Operation, norm: Norm, source: SSAValue, loop: scf.ForOp, number: SSAValue
) -> None:
    """The norm of another value in another round, in front of an op; all who read the value read the norm."""
    block = place.parent_block()
    assert block is not None
    values: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: number}
    made: list[Operation] = []
    for value in norm.inputs[1:]:
        if not _is_outside(value, loop) and value not in values:
            assert isinstance(value.owner, Operation)
            made.append(value.owner.clone(values))
    copy = norm.clone({**values, norm.inputs[0]: source})
    source.replace_uses_with_if(copy.result[0], lambda use: use.operation is not copy)
    block.insert_ops_before([*made, copy], place)
