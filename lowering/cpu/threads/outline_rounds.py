"""The rounds of a kernel's parallel loops as functions, for kernels that are there in two forms.

A kernel that a fork may hand to the team has a form for one thread and a shared one. They differ in who
does which rounds and in nothing else, so both call the same function for them, and it is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.locations import give_location
from openinfer.lowering.operations import operations_of

ROUNDS = "openinfer.rounds"
"""Of a call that does the rounds from its last argument but one to its last: the step between them."""
WORTH = 100
"""Ops of a loop from which on a function is smaller than a second copy is worth."""


def outline_rounds(module: ModuleOp, kernel: FuncOp) -> None:
    """Replaces large parallel loops of a kernel by calls of functions that do some of their rounds.

    Before:
        scf.for %i = %lo to %hi step %c4 { … %x … } {openinfer.parallel}
    After:
        func.call @kernel_rounds0(%x, %lo, %hi) {openinfer.rounds = 4 : index}
    """
    for number, loop in enumerate(list(_loops(kernel.body.block))):
        if loop.results or loop.iter_args or not isinstance(loop.step.owner, arith.ConstantOp):
            continue
        _hoist_threads(loop)
        captured = _captured(loop)
        if _may_move(loop, captured):
            module.body.block.add_op(
                _outline(loop, captured, f"{kernel.sym_name.data}_rounds{number}")
            )


def _loops(block: Block) -> Iterator[scf.ForOp]:
    """The parallel loops that `share-loops` may find, outermost ones."""
    for op in block.ops:
        if isinstance(op, scf.ForOp) and "openinfer.parallel" in op.attributes:
            yield op
        elif isinstance(op, scf.IfOp):
            for region in op.regions:
                for inner in region.blocks:
                    yield from _loops(inner)


def _hoist_threads(loop: scf.ForOp) -> None:
    """Who runs the rounds is known where they are called."""
    for op in [op for op in operations_of(loop) if isinstance(op, nn.ThreadOp)]:
        op.detach()
        parent = loop.parent_block()
        assert parent is not None
        parent.insert_op_before(op, loop)


def _captured(loop: scf.ForOp) -> list[SSAValue]:
    """Values from outside that the rounds use, the constants among them first used first."""
    inside: set[SSAValue] = set()
    found: dict[SSAValue, None] = {}
    for op in loop.body.block.walk():
        inside.update(op.results)
        for region in op.regions:
            for block in region.blocks:
                inside.update(block.args)
    inside.update(loop.body.block.args)
    for op in loop.body.block.walk():
        found.update((operand, None) for operand in op.operands if operand not in inside)
    return list(found)


def _may_move(loop: scf.ForOp, captured: list[SSAValue]) -> bool:
    """Whether the rounds are many ops, can be left by no other way, and use what a function can be given."""
    count = 0
    for op in operations_of(loop):
        count += 1
        if isinstance(op, nn.LeaveIfOp):
            return False
    passed = [value for value in captured if not isinstance(value.owner, arith.ConstantOp)]
    return count >= WORTH and all(_is_passed(value.type) for value in passed)


def _is_passed(type: Attribute) -> bool:
    """What is known of places in a buffer of half bytes would be lost on the way."""
    if isinstance(type, MemRefType):
        return not is_packed(type.element_type)
    return isinstance(type, IndexType | IntegerType)


def _outline(loop: scf.ForOp, captured: list[SSAValue], name: str) -> FuncOp:
    """Makes the function, and a call of it in the loop's place."""
    passed = [value for value in captured if not isinstance(value.owner, arith.ConstantOp)]
    block = Block(arg_types=[*(value.type for value in passed), IndexType(), IndexType()])
    build = LoopBuilder(InsertPoint.at_end(block))
    known: dict[SSAValue, SSAValue] = dict(zip(passed, block.args))
    for value, argument in zip(passed, block.args):
        argument.name_hint = value.name_hint
    low, high = block.args[-2:]
    low.name_hint, high.name_hint = "low", "high"
    for value in [*captured, loop.step]:
        if value not in known:
            assert isinstance(value.owner, arith.ConstantOp)
            copy = value.owner.clone()
            build.do(copy)
            copy.result.name_hint = value.name_hint
            known[value] = copy.result
    for op in list(loop.body.block.walk()):
        for i, operand in enumerate(op.operands):
            if operand in known:
                op.operands[i] = known[operand]
    step = loop.step.owner
    assert isinstance(step, arith.ConstantOp)
    assert isinstance(step.value, IntegerAttr)
    call = CallOp(name, [*passed, loop.lb, loop.ub], [])
    call.attributes[ROUNDS] = step.value
    give_location(loop.location, call)
    region = loop.body
    loop.detach_region(region)
    rounds = scf.ForOp(low, high, known[loop.step], [], region)
    give_location(loop.location, rounds)
    build.do(rounds)
    build.do(ReturnOp())
    Rewriter.replace_op(loop, [call], [])
    types = [argument.type for argument in block.args]
    function = FuncOp(name, (types, []), Region(block), "private")
    give_location(call.location, function)
    return function


def step_of(call: Operation) -> int | None:
    """The step between the rounds that a call does; None for other ops."""
    step = call.attributes.get(ROUNDS)
    return step.value.data if isinstance(step, IntegerAttr) else None
