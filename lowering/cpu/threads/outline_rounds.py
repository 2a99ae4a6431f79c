"""The rounds of a kernel's parallel loops as functions, for kernels that are there in two forms.

A kernel that a fork may hand to the team has a form for one thread and a shared one. They differ in who
does which rounds and in nothing else, so both call the same function for them, and it is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.lowering.cpu.threads.outlining import (
    captured,
    copied_constant,
    entry_of,
    inside_of,
    may_move,
    passed,
    rename,
)
from openinfer.lowering.kernels.builder import TOGETHER
from openinfer.lowering.kernels.units import put_in_unit, unit_of
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
        if loop.results or not isinstance(loop.step.owner, arith.ConstantOp):
            continue
        _hoist_threads(loop)
        ops = inside_of(loop.body.block)
        if len(ops) < WORTH:
            continue
        used = captured(loop.body.block, ops)
        if may_move(ops, used):
            name = f"{kernel.sym_name.data}_rounds{number}"
            function = _outline(loop, ops, used, name)
            put_in_unit(function, unit_of(kernel))
            module.body.block.add_op(function)


def _loops(block: Block) -> Iterator[scf.ForOp]:
    """The parallel loops that `share-loops` may find, outermost ones."""
    for op in block.ops:
        if isinstance(op, scf.ForOp) and "openinfer.parallel" in op.attributes:
            yield op
        elif isinstance(op, scf.IfOp) or TOGETHER in op.attributes:
            for region in op.regions:
                for inner in region.blocks:
                    yield from _loops(inner)


def _hoist_threads(loop: scf.ForOp) -> None:
    """Who runs the rounds is known where they are called."""
    for op in [op for op in operations_of(loop) if type(op) is nn.ThreadOp]:
        op.detach()
        parent = loop.parent_block()
        assert parent is not None
        parent.insert_op_before(op, loop)


def _outline(loop: scf.ForOp, ops: Sequence[Operation], used: list[SSAValue], name: str) -> FuncOp:
    """Makes the function, and a call of it in the loop's place."""
    entry, build = entry_of(used, [IndexType(), IndexType()])
    low, high = entry.args[-2:]
    low.name_hint, high.name_hint = "low", "high"
    step = copied_constant(build, loop.step)
    rename(ops, used, entry, build)
    assert isinstance(loop.step.owner, arith.ConstantOp)
    call = CallOp(name, [*passed(used), loop.lb, loop.ub], [])
    call.attributes[ROUNDS] = loop.step.owner.value
    give_location(loop.location, call)
    region = loop.body
    loop.detach_region(region)
    build.do(scf.ForOp(low, high, step, [], region))
    build.do(ReturnOp())
    Rewriter.replace_op(loop, [call], [])
    types = [argument.type for argument in entry.args]
    function = FuncOp(name, (types, []), Region(entry), "private")
    give_location(loop.location, function)
    return function


def step_of(call: Operation) -> int | None:
    """The step between the rounds that a call does; None for other ops."""
    step = call.attributes.get(ROUNDS)
    return step.value.data if isinstance(step, IntegerAttr) else None
