"""What every iteration of a loop computes alike is computed once, before the loop."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import AnyFloat, ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import dtype_name
from openinfer.lowering.facts import Facts
from openinfer.lowering.fusing import NO_FUSE, holds_barrier
from openinfer.lowering.interface import strings
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size

MOST_BYTES = 1 << 18
"""A value that lives as long as the loop may take so much of the near caches, or as much as what the
loop carries in any case."""

_EXPENSIVE = (nn.MatmulOp, nn.SoftmaxOp, nn.LayerNormOp, nn.RmsNormOp, nn.ReduceOp, nn.CumsumOp)
_CHEAP = (nn.FillOp, nn.IotaOp, nn.ReshapeOp, nn.TransposeOp, nn.BroadcastOp)


@dataclass(frozen=True)
class HoistInvariants(ModulePass):
    """Moves expensive tensor operations in front of a loop whose iterations all give them the same operands.

    Before:
        scf.for %l = … { %c = nn.elementwise(%angles) {kind = "cos"} : …
                         %r = nn.elementwise(%q, %c) {kind = "mul"} : … }
    After:
        %c = nn.elementwise(%angles) {kind = "cos"} : …
        scf.for %l = … { %r = nn.elementwise(%q, %c) {kind = "mul"} : … }

    What they need goes along, and what makes their results no larger. Everything that is moved can
    be computed for any operands, so a loop of no iterations fails no more than before.

    Requires: level `nn`, patterns of whole operations recognised.
    Leaves: cheap functions of elements, which are computed where they are used; values larger than
        MOST_BYTES and than what the loop carries; what may fail, reads or changes state, or names a
        size that the loop fixes; ops with a hint; loops with a barrier.
    """

    name: ClassVar[str] = "hoist-invariants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if Facts.of(op).observed:
            return  # Every node is shown where it stands.
        dynamic = (
            frozenset(strings(op, "dynamic_sizes")) if _has_interface(op) else frozenset[str]()
        )
        # Inner loops first: what leaves one may leave the next.
        for loop in reversed([o for o in op.walk() if isinstance(o, scf.ForOp)]):
            if not holds_barrier(loop):
                _Hoist(loop, dynamic - _defined_before(loop)).run()


def _has_interface(module: ModuleOp) -> bool:
    return any(isinstance(op, nn.InterfaceOp) for op in module.body.ops)


def _defined_before(loop: scf.ForOp) -> frozenset[str]:
    """Late sizes that have their value when the loop begins."""
    found: set[str] = set()
    here: Operation | None = loop
    while here is not None:
        before = here.prev_op
        while before is not None:
            if isinstance(before, nn.DefineSizeOp):
                found.add(before.size.data)
            before = before.prev_op
        here = here.parent_op()
    return frozenset(found)


@dataclass
class _Hoist:
    """The invariants of one loop."""

    loop: scf.ForOp
    dynamic: frozenset[str]
    """Sizes without a value in front of the loop."""
    movable: dict[Operation, None] = field(default_factory=dict[Operation, None])

    def run(self) -> None:
        body = self.loop.body.block
        for op in body.ops:
            if self._may_move(op):
                self.movable[op] = None
        moved: dict[Operation, None] = {}
        for op in self.movable:
            if _is_expensive(op):
                needed = self._needed(op)
                if all(self._fits(part) for part in needed):
                    moved.update(dict.fromkeys(needed))
        if not moved:
            return
        # What is cheap and read by others, too, is computed again for them: it was to be fused.
        repeated = {op for op in moved if not _is_expensive(op)}
        for op in self.movable:
            if op not in moved and self._follows(op, moved):
                moved[op] = None
        self._move([op for op in self.movable if op in moved], repeated)

    def _may_move(self, op: Operation) -> bool:
        """Whether an op gives the same in every iteration and can be computed for any operands."""
        if not isinstance(op, nn.NNOp) or NO_FUSE in op.attributes or op.body:
            return False
        if not isinstance(op, (nn.ElementwiseOp, nn.ConcatOp, *_EXPENSIVE, *_CHEAP)):
            return False
        if isinstance(op, nn.ElementwiseOp) and op.row.partial:
            if not all(isinstance(nn.element_of(v), AnyFloat) for v in op.inputs):
                return False
        if isinstance(op, nn.ReduceOp) and not _has_elements(op.inputs[0]):
            return False  # Some have no result for an empty axis.
        if any(self.dynamic & dim.names for value in op.result for dim in nn.dims_of(value)):
            return False
        return all(self._comes_from_before(value) for value in op.operands)

    def _comes_from_before(self, value: SSAValue) -> bool:
        owner = value.owner
        if isinstance(owner, Operation):
            return owner in self.movable or not self._is_inside(owner)
        holder = owner.parent_op()
        return holder is not self.loop and (holder is None or not self._is_inside(holder))

    def _is_inside(self, op: Operation) -> bool:
        return self.loop.is_ancestor(op)

    def _needed(self, op: Operation) -> list[Operation]:
        """The op and what it is computed from inside of the loop."""
        found: dict[Operation, None] = {op: None}
        pending = [op]
        while pending:
            for value in pending.pop().operands:
                owner = value.owner
                if isinstance(owner, Operation) and owner in self.movable and owner not in found:
                    found[owner] = None
                    pending.append(owner)
        return list(found)

    def _fits(self, op: Operation) -> bool:
        """Whether the values of an op may live as long as the loop."""
        total = sum((_bits(value) for value in op.results), Size.of(0))
        if total.constant is not None and total.constant <= 8 * MOST_BYTES:
            return True
        carried = [v for v in self.loop.iter_args if isinstance(v.type, TensorType)]
        return any(_never_negative(_bits(value) - total) for value in carried)

    def _follows(self, op: Operation, moved: dict[Operation, None]) -> bool:
        """Whether a cheap op makes what was moved no larger, and needs nothing else of the loop."""
        sources = [v for v in op.operands if v.owner in moved]
        if not sources or any(v.owner in self.movable and v not in sources for v in op.operands):
            return False
        total = sum((_bits(value) for value in op.results), Size.of(0))
        return any(_never_negative(_bits(source) - total) for source in sources)

    def _move(self, ops: Sequence[Operation], repeated: Collection[Operation]) -> None:
        block = self.loop.parent_block()
        assert block is not None
        copies: dict[SSAValue, SSAValue] = {}
        for op in ops:
            users = [use.operation for result in op.results for use in result.uses]
            if op in repeated and any(user not in ops for user in users):
                made = op.clone(copies)
                block.insert_op_before(made, self.loop)
                copies.update(zip(op.results, made.results, strict=True))
                continue
            op.detach()
            block.insert_op_before(op, self.loop)
            for position, value in enumerate(op.operands):
                op.operands[position] = copies.get(value, value)


def _is_expensive(op: Operation) -> bool:
    """Whether computing it again costs more than reading what it gave."""
    if isinstance(op, nn.ElementwiseOp):
        return op.row.expensive
    return isinstance(op, (nn.ConcatOp, *_EXPENSIVE))


def _bits(value: SSAValue) -> Size:
    count = Size.of(DTYPES[dtype_name(nn.element_of(value))].bits)
    for dim in nn.dims_of(value):
        count = count * dim
    return count


def _never_negative(size: Size) -> bool:
    """Whether a size is 0 at least, whatever its names are."""
    return all(coefficient > 0 for _, coefficient in size.terms)


def _has_elements(value: SSAValue) -> bool:
    return all(dim.constant for dim in nn.dims_of(value))
