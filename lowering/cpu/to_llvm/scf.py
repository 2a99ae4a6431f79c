"""`scf` to blocks of `llvm`: loops test at their end, a memref defined outside is seen inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import llvm, scf
from xdsl.dialects.builtin import IndexType, IntegerType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from openinfer.dialects.extensions.llvm import SwitchOp
from openinfer.lowering.cpu.to_llvm.converter import Converter, Rule
from openinfer.lowering.cpu.to_llvm.types import convert_type
from openinfer.lowering.operations import operands_of
from openinfer.runtime.errors import CompileError


def _bind(c: Converter, old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
    for before, after in zip(old, new, strict=True):
        c.set(before, after)


def _yielded(c: Converter, block: Block) -> list[SSAValue]:
    """Convert a region's block and give the values that it yields."""
    return c.values(operands_of(c.convert_block(block)))


def _for(c: Converter, op: Operation) -> None:
    assert isinstance(op, scf.ForOp)
    block = op.body.block
    location = op.location
    if not isinstance(op.lb.type, IndexType):
        _for_of_integers(c, op)
        return

    def body(counter: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        _bind(c, block.args, (counter, *carried))
        following = _yielded(c, block)
        c.location = location
        return following

    initial = c.values(op.iter_args)
    lower, upper, step = c.integer(op.lb), c.integer(op.ub), c.integer(op.step)
    if isinstance(lower, int) and isinstance(upper, int) and lower >= upper:
        _bind(c, op.res, initial)
        return
    if isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int):
        if lower + step >= upper:
            # One round exactly: no loop at all.
            _bind(c, op.res, body(c.as_value(lower), initial))
            return
    _bind(c, op.res, c.loop(lower, upper, step, initial, body))


def _for_of_integers(c: Converter, op: scf.ForOp) -> None:
    """A loop whose counter is narrower than index: counted in i64, cut for the body."""
    type = cast(IntegerType, op.lb.type)
    block = op.body.block
    bounds = [c.value(v) for v in (op.lb, op.ub, op.step)]
    if type != i64:
        bounds = [c.emit(llvm.SExtOp, (v,), i64) for v in bounds]

    def body(counter: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        if type != i64:
            counter = c.emit(llvm.TruncOp, (counter,), type)
        _bind(c, block.args, (counter, *carried))
        return _yielded(c, block)

    _bind(c, op.res, c.loop(bounds[0], bounds[1], bounds[2], c.values(op.iter_args), body))


def _result_types(op: Operation) -> list[Attribute]:
    return [convert_type(result.type) for result in op.results]


def _branch_region(c: Converter, region: Region, block: Block, exit: Block) -> None:
    c.enter(block)
    saved = c.scoped()
    operands = _yielded(c, region.block)
    c.restore(saved)
    c.branch(exit, operands)


def _if(c: Converter, op: Operation) -> None:
    assert isinstance(op, scf.IfOp)
    condition = c.value(op.cond)
    then, exit = c.new_block(), c.new_block(_result_types(op))
    if not op.false_region.blocks:
        c.branch_if(condition, then, (), exit, ())
        _branch_region(c, op.true_region, then, exit)
    else:
        otherwise = c.new_block()
        c.branch_if(condition, then, (), otherwise, ())
        _branch_region(c, op.true_region, then, exit)
        _branch_region(c, op.false_region, otherwise, exit)
    c.enter(exit)
    _bind(c, op.output, exit.args)


def _while(c: Converter, op: Operation) -> None:
    assert isinstance(op, scf.WhileOp)
    before, after = op.before_region.block, op.after_region.block
    head = c.new_block([convert_type(arg.type) for arg in before.args])
    body = c.new_block([convert_type(arg.type) for arg in after.args])
    exit = c.new_block(_result_types(op))
    c.branch(head, c.values(op.arguments))
    c.enter(head)
    saved = c.scoped()
    _bind(c, before.args, head.args)
    condition = c.convert_block(before)
    goes_on, *passed = c.values(condition.operands)
    c.branch_if(goes_on, body, passed, exit, passed)
    c.enter(body)
    _bind(c, after.args, body.args)
    c.branch(head, _yielded(c, after))
    c.restore(saved)
    c.enter(exit)
    _bind(c, op.res, exit.args)


def _index_switch(c: Converter, op: Operation) -> None:
    assert isinstance(op, scf.IndexSwitchOp)
    exit = c.new_block(_result_types(op))
    default, *cases = [c.new_block() for _ in range(1 + len(op.case_regions))]
    numbers = op.cases.get_values()
    empty: list[Sequence[SSAValue]] = [()] * len(cases)
    c.append(SwitchOp(c.value(op.arg), default, (), numbers, cases, empty))
    _branch_region(c, op.default_region, default, exit)
    for region, block in zip(op.case_regions, cases, strict=True):
        _branch_region(c, region, block, exit)
    c.enter(exit)
    _bind(c, op.output, exit.args)


def _parallel(c: Converter, op: Operation) -> None:
    """One thread runs all rounds in order; reductions have been rewritten before."""
    assert isinstance(op, scf.ParallelOp)
    if op.initVals:
        raise CompileError("OI0980", "'scf.parallel' with a reduction reached the llvm conversion")
    block = op.body.block
    saved_location = op.location

    def nest(dimension: int) -> None:
        if dimension == len(op.lowerBound):
            c.convert_block(block)
            c.location = saved_location
            return

        def body(counter: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            c.set(block.args[dimension], counter)
            nest(dimension + 1)
            return ()

        bounds = (op.lowerBound[dimension], op.upperBound[dimension], op.step[dimension])
        lower, upper, step = (c.integer(v) for v in bounds)
        c.loop(lower, upper, step, (), body)

    nest(0)


RULES: dict[str, Rule] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.index_switch": _index_switch,
    "scf.parallel": _parallel,
    "scf.while": _while,
}
"""Rules by op name."""
