"""A block of a kernel as a function of its own: what it uses from outside becomes arguments.

A block is given with all ops inside of it (`inside_of`): walking through them is most of the work.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.operations import operands_of, operations


def captured(block: Block, ops: Sequence[Operation]) -> list[SSAValue]:
    """Values from outside that the ops of a block use, in the order of their first uses."""
    # By identity, which is what makes values equal: a set of values would ask each for its hash.
    inside = set(map(id, block.args))
    used: dict[int, SSAValue] = {}
    for op in ops:
        for value in operands_of(op):
            used[id(value)] = value
        for result in op.results:
            inside.add(id(result))
        for region in op.regions:
            for inner in region.blocks:
                inside.update(map(id, inner.args))
    return [value for key, value in used.items() if key not in inside]


def passed(values: Sequence[SSAValue]) -> list[SSAValue]:
    """Those that a function must be given: constants are said again in it."""
    return [value for value in values if not isinstance(value.owner, arith.ConstantOp)]


def may_move(ops: Sequence[Operation], values: Sequence[SSAValue]) -> bool:
    """Whether the ops of a block can be left by no other way, and use what a function can be given."""
    if any(type(op) is nn.LeaveIfOp for op in ops):
        return False
    return all(_is_passed(value.type) for value in passed(values))


def _is_passed(type: Attribute) -> bool:
    """What is known of places in a buffer of half bytes would be lost on the way."""
    if isinstance(type, MemRefType):
        return not is_packed(type.element_type)
    return isinstance(type, IndexType | IntegerType)


def entry_of(values: Sequence[SSAValue], more: Sequence[Attribute]) -> tuple[Block, LoopBuilder]:
    """The first block of a function that takes the values, but for constants, and arguments of more types."""
    given = passed(values)
    block = Block(arg_types=[*(value.type for value in given), *more])
    for value, argument in zip(given, block.args):
        argument.name_hint = value.name_hint
    return block, LoopBuilder(InsertPoint.at_end(block))


def rename(
    ops: Sequence[Operation], values: Sequence[SSAValue], entry: Block, build: LoopBuilder
) -> None:
    """Makes the ops of a block use the arguments of a function's first block, and constants that are built
    there, instead of values from outside."""
    known: dict[SSAValue, SSAValue] = dict(zip(passed(values), entry.args))
    for value in values:
        if isinstance(value.owner, arith.ConstantOp):
            known[value] = copied_constant(build, value)
    inside = set(map(id, ops))
    for old, new in known.items():
        for use in list(old.uses):
            if id(use.operation) in inside:
                use.operation.operands[use.index] = new


def copied_constant(build: LoopBuilder, value: SSAValue) -> SSAValue:
    """The same constant where `build` stands."""
    assert isinstance(value.owner, arith.ConstantOp)
    copy = value.owner.clone()
    build.do(copy)
    copy.result.name_hint = value.name_hint
    return copy.result


def inside_of(block: Block) -> list[Operation]:
    """All ops inside of a block that is its region's only one."""
    parent = block.parent_region()
    assert parent is not None
    assert parent.first_block is parent.last_block
    return operations(parent)
