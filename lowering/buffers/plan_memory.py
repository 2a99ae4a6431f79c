"""One arena for the buffers of each memory of a step, laid out by lifetimes before the program runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import byte_size
from openinfer.lowering.buffers.arena import Buffer, Plan, place
from openinfer.lowering.buffers.uses import root_of, users
from openinfer.lowering.facts import Facts
from openinfer.lowering.interface import as_attribute
from openinfer.lowering.places import DEVICE, HOST, MEMORY
from openinfer.lowering.state_layout import dynamic_capacity_name, layout_of
from openinfer.lowering.step_arguments import add_arguments
from openinfer.runtime.manifest import PlanRow
from openinfer.runtime.sizes import Atom, Size
from openinfer.runtime.slots import Slot, SlotKind


@dataclass(frozen=True)
class PlanMemory(ModulePass):
    """Gives each buffer its offset in the arena, as an expression of the run-time sizes.

    Before:
        %t = memref.alloc(%B) : memref<?x384xf32>
    After:
        %0 = nn.size "1536*B"
        %t = memref.view %arena[%0][%B] : memref<?xi8> to memref<?x384xf32>

    Requires: kernels outlined, so that every buffer is made and used in `@step`.
    Leaves: no allocation; the plan and its size in `nn.interface`, for each memory; the offset of
        each result. Small buffers of a device share memory only with what is called a while later.
    """

    name: ClassVar[str] = "plan-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                _Planner(op, function).run()
                return


APART = 8
"""Calls that the memory of a small buffer of a device stays its own for, after the last one that uses it. A
device runs calls at the same time that do not wait for each other; one that writes where another one
still reads has to wait."""
SMALL = 256 * 1024
"""Bytes up to which a buffer is small."""

_OCTETS = MemRefType(IntegerType(8), [DYNAMIC_INDEX])


class _Planner:
    def __init__(self, module: ModuleOp, function: FuncOp) -> None:
        self.module = module
        self.function = function
        self.dynamic = layout_of(module).dynamic_sizes
        self.order: dict[Operation, int] = {}
        """Program order; an operation with a body comes before what it holds."""
        count = 0
        for op in function.walk():
            self.order[op] = count
            # A traced build is laid out as the plain one is.
            count += not isinstance(op, nn.StampOp)
        self.end = count
        self.calls = [self.order[op] for op in function.walk() if isinstance(op, CallOp)]
        """The places of calls in that order."""

    def run(self) -> None:
        allocations = [op for op in self.function.walk() if isinstance(op, memref.AllocOp)]
        device = [op for op in allocations if MEMORY in op.attributes]
        hosted = [op for op in allocations if MEMORY not in op.attributes]
        rows: list[PlanRow] = []
        found: dict[str, Attribute] = {}
        for memory, own in ((HOST, hosted), (DEVICE, device)):
            if memory == HOST or own:
                arena = SlotKind.ARENA if memory == HOST else SlotKind.DEVICE_ARENA
                plan = self._lay_out(own, arena)
                found[arena.value] = StringAttr(str(plan.size))
                rows += [
                    PlanRow(b.name, str(offset), str(b.size), b.first, b.last, memory)
                    for b, offset in zip(plan.buffers, plan.offsets)
                ]
        nn.update_interface(self.module, {"plan": as_attribute(rows), **found})

    def _lay_out(self, allocations: Sequence[memref.AllocOp], kind: SlotKind) -> Plan:
        """Puts the buffers of one memory into an arena of their own, an argument of the step."""
        buffers = [self._buffer(op, i) for i, op in enumerate(allocations)]
        if Facts.of(self.module).observed:
            # Watched programs keep every value until the end.
            last = max(self.order.values(), default=0)
            buffers = [Buffer(b.name, b.size, 0, last) for b in buffers]
        plan = self._place(buffers, kind)
        (arena,) = add_arguments(self.function, [(Slot(kind), _OCTETS)])
        if kind == SlotKind.ARENA:
            self._publish(plan, allocations)
        for op, offset in zip(allocations, plan.offsets):
            self._replace(op, offset, arena)
        return plan

    def _place(self, buffers: Sequence[Buffer], kind: SlotKind) -> Plan:
        if kind == SlotKind.ARENA:
            return place(buffers)
        plan = place([replace(b, last=self._apart(b)) for b in buffers])
        return replace(plan, buffers=tuple(buffers))

    def _apart(self, buffer: Buffer) -> int:
        """The last operation that nobody else may use the memory of a buffer at."""
        if buffer.size.constant is None or buffer.size.constant > SMALL:
            return buffer.last
        later = bisect_right(self.calls, buffer.last)
        return max((buffer.last, *self.calls[later : later + APART]))

    def _buffer(self, op: memref.AllocOp, number: int) -> Buffer:
        kind = op.memref.type
        assert isinstance(kind, MemRefType)
        total = byte_size(kind.element_type, allocation_dims(op))
        # A dynamic size has no value while the step is laid out: its bound has.
        total = never_negative(upper_bound(total, frozenset(self.dynamic)))
        first, last = self._interval(op.memref, op)
        name = op.memref.name_hint or f"buffer{number}"
        return Buffer(name, total, first, last)

    def _interval(self, buffer: SSAValue, made: Operation) -> tuple[int, int]:
        """First and last operation that touches a buffer; a loop around a use counts whole."""
        first, last = self.end, self.order[made]
        home = made.parent_block()
        # Sections run side by side: what one of them uses is no other's for as long as they run.
        around = made.parent_op()
        while around is not None:
            if isinstance(around, nn.SectionsOp):
                first, last = min(first, self.order[around]), max(last, self._end(around))
            around = around.parent_op()
        for user in users(buffer):
            outer = user
            while outer.parent_block() is not home:
                parent = outer.parent_op()
                assert parent is not None
                outer = parent
            first = min(first, self.order[outer])
            last = max(last, self._end(outer))
            if isinstance(user, nn.PublishOp):
                last = self.end
        return min(first, last), last

    def _end(self, op: Operation) -> int:
        """The number of the last operation inside, which stands last of all."""
        while True:
            bodies = [block for region in op.regions for block in region.blocks]
            inner = next((b.last_op for b in reversed(bodies) if b.last_op is not None), None)
            if inner is None:
                return self.order[op]
            op = inner

    def _publish(self, plan: Plan, allocations: Sequence[memref.AllocOp]) -> None:
        offsets: dict[SSAValue, Size] = {
            op.memref: offset for op, offset in zip(allocations, plan.offsets)
        }
        found: dict[str, Size] = {}
        for op in list(self.function.walk()):
            if isinstance(op, nn.PublishOp):
                found[op.output.data] = offsets[root_of(op.buffer)]
                op.detach()
                op.erase()
        offsets_row = {name: StringAttr(str(offset)) for name, offset in found.items()}
        nn.update_interface(self.module, {"offsets": DictionaryAttr(offsets_row)})

    def _replace(self, op: memref.AllocOp, offset: Size, arena: SSAValue) -> None:
        new: list[Operation] = []
        if offset.constant is not None:
            start: Operation = arith.ConstantOp(IntegerAttr(offset.constant, IndexType()))
        else:
            start = nn.SizeOp(offset)
        new.append(start)
        kind = op.memref.type
        assert isinstance(kind, MemRefType)
        view = memref.ViewOp(
            arena,
            start.results[0],
            list(op.dynamic_sizes),
            MemRefType(kind.element_type, kind.get_shape()),
        )
        view.result.name_hint = op.memref.name_hint
        Rewriter.replace_op(op, [*new, view], [view.result])


def allocation_dims(op: memref.AllocOp) -> list[Size]:
    """The sizes of an allocation; run-time ones are `nn.size` operands."""
    kind = op.memref.type
    assert isinstance(kind, MemRefType)
    dynamic = iter(op.dynamic_sizes)
    dims: list[Size] = []
    for extent in kind.get_shape():
        if extent != DYNAMIC_INDEX:
            dims.append(Size.of(extent))
            continue
        owner = next(dynamic).owner
        assert isinstance(owner, nn.SizeOp)
        dims.append(owner.size.data)
    return dims


def upper_bound(size: Size, dynamic: frozenset[str]) -> Size:
    """An expression that is never less, with the bounds of dynamic sizes; no size is negative."""
    total = Size.of(0)
    for monomial, coefficient in size.terms:
        product, exact = Size.of(1), True
        for atom in monomial:
            factor = _atom_bound(atom, dynamic)
            product, exact = product * factor[0], exact and factor[1]
        # What is taken away may be nothing.
        if exact or coefficient > 0:
            total = total + coefficient * product
    return total


def never_negative(size: Size) -> Size:
    """The size, or an expression that is never less and never negative.

    A dimension such as `N - 2` may be negative where no node of a step makes it; what lies around
    its buffer must stay apart then too.
    """
    total = Size.of(0)
    for monomial, coefficient in size.terms:
        if coefficient > 0:
            product = Size.of(coefficient)
            for atom in monomial:
                product = product * _never_negative_atom(atom)
            total = total + product
    return total


def _never_negative_atom(atom: Atom) -> Size:
    if atom[0] == "name":
        return Size.name(str(atom[1]))
    bounds = [never_negative(operand) for operand in atom[1:] if isinstance(operand, Size)]
    if atom[0] == "floordiv":
        # What divides is 1 at least; how large it is nobody knows unless it is a number.
        return bounds[0] // bounds[1] if bounds[1].constant else bounds[0]
    if atom[0] == "min":
        return Size.min(*bounds)
    return Size.max(*[bound for bound in bounds if bound.constant != 0] or [0])


def _atom_bound(atom: Atom, dynamic: frozenset[str]) -> tuple[Size, bool]:
    """The bound of a name, a quotient or an extreme, and whether it is the value itself."""
    if atom[0] == "name":
        name = str(atom[1])
        return Size.name(
            dynamic_capacity_name(name) if name in dynamic else name
        ), name not in dynamic
    operands = [operand for operand in atom[1:] if isinstance(operand, Size)]
    exact = not any(operand.names & dynamic for operand in operands)
    bounds = operands if exact else [upper_bound(operand, dynamic) for operand in operands]
    if atom[0] == "floordiv":
        divisor = operands[1]
        # A divisor that only the step knows is 1 at least.
        return (bounds[0] if divisor.names & dynamic else bounds[0] // divisor), exact
    return (Size.max(*bounds) if atom[0] == "max" else Size.min(*bounds)), exact
