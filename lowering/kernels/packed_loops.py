"""Whether the rounds of a loop write into bytes of their own, where elements share bytes.

The place of a store is a sum of indices times numbers that are known. A loop's rounds are apart when
each round moves on by whole bytes and stays within them, whatever the loops inside of it do.
"""

from __future__ import annotations

from dataclasses import field
from functools import cache

from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import IntegerAttr, MemRefType, NoneAttr, VectorType
from xdsl.ir import Block, Operation, SSAValue

from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.memref_layout import memref_layout
from openinfer.lowering.operations import operations_of
from openinfer.runtime.quick_dataclass import dataclass

_STORES = (memref.StoreOp, vector.StoreOp, vector.MaskedStoreOp, memref.CopyOp)


def is_store(op: Operation) -> bool:
    """Whether an op writes into a buffer."""
    return _stores(type(op))


@cache
def _stores(kind: type[Operation]) -> bool:
    return issubclass(kind, _STORES)


def stored_buffer(op: Operation) -> SSAValue:
    """The buffer that a store writes into."""
    match op:
        case memref.StoreOp():
            return op.memref
        case vector.MaskedStoreOp():
            return op.base
        case _:
            return op.operands[1]


def writes_own_bytes(loop: scf.ForOp) -> bool:
    """Whether two rounds of a loop never write into the same byte of a packed buffer.

    Loops that write no packed buffer are taken to be apart: their author said that they are.
    """
    for op in operations_of(loop):
        if is_store(op):
            kind = stored_buffer(op).type
            assert isinstance(kind, MemRefType)
            if is_packed(kind.element_type) and not _is_apart(loop, op, kind):
                return False
    return True


@dataclass
class _Sum:
    """constant + Σ factor · value."""

    constant: int = 0
    factors: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def plus(self, other: _Sum, times: int = 1) -> _Sum:
        factors = dict(self.factors)
        for value, factor in other.factors.items():
            factors[value] = factors.get(value, 0) + factor * times
        return _Sum(self.constant + other.constant * times, factors)


def _sum_of(value: SSAValue) -> _Sum:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return _Sum(owner.value.value.data)
    if isinstance(owner, arith.AddiOp | arith.SubiOp):
        left, right = _sum_of(owner.lhs), _sum_of(owner.rhs)
        return left.plus(right, -1 if isinstance(owner, arith.SubiOp) else 1)
    if isinstance(owner, arith.MuliOp):
        left, right = _sum_of(owner.lhs), _sum_of(owner.rhs)
        if not left.factors:
            left, right = right, left
        if not right.factors:
            return _Sum().plus(left, right.constant)
    return _Sum(0, {value: 1})


def _is_apart(loop: scf.ForOp, op: Operation, kind: MemRefType) -> bool:
    place = _place(op, kind)
    start, step = _sum_of(loop.lb), _sum_of(loop.step)
    if place is None or start.factors or step.factors:
        return False
    bits = kind.element_type.bitwidth  # pyright: ignore
    counter = loop.body.block.args[0]
    move = place.factors.pop(counter, 0) * step.constant * bits
    if move <= 0 or move % 8:
        return False
    low = high = place.constant
    for value, factor in place.factors.items():
        span = _span(loop, value)
        if span is None:
            return False
        if span == ():
            # The same in all rounds: only whether it is whole bytes matters.
            if factor * bits % 8:
                return False
            continue
        ends = [end * factor for end in span]
        low, high = low + min(ends), high + max(ends)
    high += _lanes(op) - 1
    # Rounds begin at whole bytes, so the bytes of the first one tell about all.
    first = start.constant * (move // step.constant)
    touched = (first + high * bits) // 8 - (first + low * bits) // 8
    return touched < move // 8


def _place(op: Operation, kind: MemRefType) -> _Sum | None:
    """The place of the (first) element that is written; None when it is not such a sum."""
    if isinstance(op, memref.CopyOp) or not isinstance(kind.layout, NoneAttr):
        return None
    indices = op.operands[2:] if not isinstance(op, vector.MaskedStoreOp) else op.indices
    total = _Sum()
    for index, stride in zip(indices, memref_layout(kind)[1], strict=True):
        part = _sum_of(index)
        if stride is None:
            if part.factors or part.constant:
                return None
            continue
        total = total.plus(part, stride)
    return total


def _span(loop: scf.ForOp, value: SSAValue) -> tuple[int, int] | tuple[()] | None:
    """Smallest and largest value of an index inside of a loop; () for what the loop does not
    change, None for what is not known."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent_block()
    if block is None or not _is_inside(block, loop):
        return ()
    parent = block.parent_op()
    if isinstance(value.owner, Block) and isinstance(parent, scf.ForOp) and value.index == 0:  # pyright: ignore
        low, high, step = _sum_of(parent.lb), _sum_of(parent.ub), _sum_of(parent.step)
        if not (low.factors or high.factors or step.factors) and step.constant > 0:
            rounds = -(-(high.constant - low.constant) // step.constant)
            return (low.constant, low.constant + max(0, rounds - 1) * step.constant)
    return None


def _is_inside(block: Block, loop: scf.ForOp) -> bool:
    parent: Operation | None = block.parent_op()
    while parent is not None and parent is not loop:
        parent = parent.parent_op()
    return parent is loop


def _lanes(op: Operation) -> int:
    kind = (
        op.operands[0].type if not isinstance(op, vector.MaskedStoreOp) else op.value_to_store.type
    )
    return kind.get_shape()[0] if isinstance(kind, VectorType) else 1
