"""What survives a step, and sizes that only the step knows, as loads, stores and checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    MemRefType,
    ModuleOp,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import nn
from openinfer.dialects.extensions.memref import CopyOp
from openinfer.lowering.buffers.guarded_copy import copy_unless
from openinfer.lowering.buffers.uses import machine_of, root_of
from openinfer.lowering.host.state_emitter import StateEmitter, fail_function
from openinfer.lowering.host.state_resets import reset
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.places import DEVICE
from openinfer.lowering.state_layout import (
    StatePlace,
    dynamic_capacity_name,
)
from openinfer.runtime.sizes import Size
from openinfer.runtime.slots import SlotKind


@dataclass(frozen=True)
class LowerState(ModulePass):
    """Growing states are memory with extents; what a step overwrites goes to the undo log first.

    Before:
        %n = nn.grow "K"[] axis 0 to %need node 3
        nn.state_write "K"[%i] kept [] node 3 = %v : memref<8xf32>
    After:
        %e = memref.load %cells[%c0]
        scf.if %more { … memref.store %need, %cells[%c0] }
        %t = memref.view %state_K[%offset][] : memref<?xi8> to memref<8xf32>
        memref.copy %v, %t

    A state of the device is moved there: its parts are copied and filled in its own memory, also into the
    log's part there. Extents, marks and what the log says of a part stay with the host.

    Where kernels of the device note errors, it commits a value only if none is noted: the host has not seen
    that yet.

    A step that finds too little memory, or that breaks a rule, says so in the error record and
    leaves at once; its caller puts back what the log holds.

    Requires: `plan-memory`.
    Leaves: of `nn` in `@step` only sizes, views and `nn.leave_if`.
    """

    name: ClassVar[str] = "lower-state"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                _Lowering(op, function).run()


class _Lowering(StateEmitter):
    def __init__(self, module: ModuleOp, step: FuncOp) -> None:
        super().__init__(module, step)
        self.module = module
        self.guarded: set[str] = set()
        """The machines in front of whose commits the record of errors was read."""

    def run(self) -> None:
        rules: dict[type[Operation], Callable[[_Lowering, Operation], None]] = {
            nn.DefineSizeOp: _Lowering.define_size,
            nn.RequireOp: _Lowering.require,
            nn.ExtentOp: _Lowering.extent,
            nn.GrowOp: _Lowering.grow,
            nn.SetExtentOp: _Lowering.set_extent,
            nn.StateViewOp: _Lowering.state_view,
            nn.StatePlaceOp: _Lowering.state_place,
            nn.StateLoadOp: _Lowering.state_load,
            nn.StateWriteOp: _Lowering.state_write,
            nn.StateResetOp: _Lowering.state_reset,
            nn.CommitOp: _Lowering.commit,
        }
        found = [(rules[type(op)], op) for op in self.step.walk() if type(op) in rules]
        for rule, op in found:
            self.build = LoopBuilder(InsertPoint.before(op))
            rule(self, op)
        if self.layout.states and found:
            first = self.step.body.block.first_op
            assert first is not None
            self.build = LoopBuilder(InsertPoint.before(first))
            self.begin()
        if self.fails:
            self.module.body.block.add_op(fail_function(self.arguments.of(SlotKind.ERRORS).type))

    def begin(self) -> None:
        """Notes the extents at the start, and empties the log."""
        b = self.build
        cells = self.arguments.of(SlotKind.CELLS)
        for place in self.layout.states.values():
            for now, start in place.words:
                b.store(b.load(cells, [now]), cells, [start])
            if place.counted:
                counts = self.arguments.of(SlotKind.COUNTS, place.name)
                matrix = place.axes - place.tables

                def entry(i: SSAValue, counts: SSAValue = counts, matrix: int = matrix) -> None:
                    at = b.mul(i, 2 * matrix)
                    for axis in range(matrix):
                        now = b.load(counts, [b.add(at, axis)])
                        b.store(now, counts, [b.add(at, matrix + axis)])

                b.loop(0, self.size(place.slots), 1, entry)
        b.store(b.constant(0, i64), cells, [self.layout.log])

    def define_size(self, op: Operation) -> None:
        assert isinstance(op, nn.DefineSizeOp)
        number = self.layout.dynamic_sizes.index(op.size.data)
        node = op.node.value.data
        b = self.build
        self.fail_unless(b.compare("sge", op.value, 0), "negative-size", op.value, number, node)
        capacity = self.size(Size.name(dynamic_capacity_name(op.size.data)))
        self.fail_unless(b.compare("sle", op.value, capacity), "dynamic", op.value, number, node)
        b.store(self.word(op.value), self.arguments.of(SlotKind.CELLS), [number])
        Rewriter.erase_op(op)

    def require(self, op: Operation) -> None:
        assert isinstance(op, nn.RequireOp)
        kind, node = op.kind.data, op.node.value.data
        axis = op.axis.value.data if op.axis is not None else None
        self.fail_unless(op.condition, kind, op.first, op.second, node, axis)
        Rewriter.erase_op(op)

    def extent(self, op: Operation) -> None:
        assert isinstance(op, nn.ExtentOp)
        place = self.layout.states[op.state.data]
        value = self.load_extent(place, op.axis.value.data, list(op.entry))
        Rewriter.replace_op(op, [], [value])

    def grow(self, op: Operation) -> None:
        assert isinstance(op, nn.GrowOp)
        place = self.layout.states[op.state.data]
        axis, node, need = op.axis.value.data, op.node.value.data, op.need
        entry = list(op.entry)
        b = self.build
        name = place.number * 64 + axis
        more = b.compare("sgt", need, self.load_extent(place, axis, entry))

        def grown() -> None:
            limit = place.limits[axis]
            if limit is not None:
                inside = b.compare("sle", need, self.size(limit))
                self.fail_unless(inside, "fixed", need, name, node)
            room = b.compare("sle", need, self.size(place.capacity(axis)))
            self.fail_unless(room, "capacity", need, name, node)
            self.store_extent(need, place, axis, entry)

        b.when(more, grown)
        Rewriter.replace_op(op, [], [need])

    def set_extent(self, op: Operation) -> None:
        assert isinstance(op, nn.SetExtentOp)
        place = self.layout.states[op.state.data]
        axis = op.axis.value.data
        if axis < place.axes:
            room = self.build.compare("sle", op.to, self.size(place.capacity(axis)))
            self.fail_unless(room, "capacity", op.to, place.number * 64 + axis, op.node.value.data)
        self.store_extent(op.to, place, axis, [])
        Rewriter.erase_op(op)

    def state_view(self, op: Operation) -> None:
        assert isinstance(op, nn.StateViewOp)
        place = self.layout.states[op.state.data]
        self.mark(place, list(op.offsets), _run_of(op, place))
        self._look_at(op, place)

    def state_place(self, op: Operation) -> None:
        assert isinstance(op, nn.StatePlaceOp)
        place = self.layout.states[op.state.data]
        kind = op.view.type
        assert isinstance(kind, MemRefType)
        offsets: list[SSAValue | int] = list(op.offsets)
        lengths = _run_of(op, place)
        self.mark(place, offsets, lengths)
        run = lengths[0][1] if lengths else 1
        self.save(place, kind.element_type, offsets, run, op.node.value.data)
        self._look_at(op, place)

    def _look_at(self, op: nn.StateViewOp | nn.StatePlaceOp, place: StatePlace) -> None:
        """The memory of entries, in place of an op that names them."""
        kind = op.view.type
        assert isinstance(kind, MemRefType)
        start = self.place_of(place, kind.element_type, list(op.offsets))
        view = self.view(self.memory(place), start, list(op.sizes), kind)
        view.name_hint = op.view.name_hint
        Rewriter.replace_op(op, [], [view])

    def state_load(self, op: Operation) -> None:
        assert isinstance(op, nn.StateLoadOp)
        place = self.layout.states[op.state.data]
        b = self.build
        kind = op.target.type
        assert isinstance(kind, MemRefType)
        kept = list(op.kept.get_values())
        offsets: list[SSAValue | int] = list(op.offsets)
        lengths = [(axis, b.dim(op.target, i)) for i, axis in enumerate(kept)]
        self.mark(place, offsets, lengths)

        if place.device and self.is_together(place, kind.element_type, lengths):
            b.do(CopyOp(self.part_like(place, op.target, offsets), op.target))
            Rewriter.erase_op(op)
            return

        def row(offsets: list[SSAValue | int], counts: list[SSAValue | int], run: SSAValue | int):
            source = self.run_at(place, kind.element_type, offsets, run)
            b.do(CopyOp(source, self.piece(op.target, counts, [n for _, n in lengths], run)))

        self.runs(place, kind.element_type, offsets, lengths, row)
        Rewriter.erase_op(op)

    def state_write(self, op: Operation) -> None:
        assert isinstance(op, nn.StateWriteOp)
        place = self.layout.states[op.state.data]
        b = self.build
        kind = op.value.type
        assert isinstance(kind, MemRefType)
        node = op.node.value.data
        kept = list(op.kept.get_values())
        offsets: list[SSAValue | int] = list(op.offsets)
        lengths = [(axis, b.dim(op.value, i)) for i, axis in enumerate(kept)]
        self.mark(place, offsets, lengths)

        if place.device and self.is_together(place, kind.element_type, lengths):
            self.save(place, kind.element_type, offsets, lengths[0][1] if lengths else 1, node)
            b.do(CopyOp(op.value, self.part_like(place, op.value, offsets)))
            Rewriter.erase_op(op)
            return

        def row(offsets: list[SSAValue | int], counts: list[SSAValue | int], run: SSAValue | int):
            self.save(place, kind.element_type, offsets, run, node)
            target = self.run_at(place, kind.element_type, offsets, run)
            b.do(CopyOp(self.piece(op.value, counts, [n for _, n in lengths], run), target))

        self.runs(place, kind.element_type, offsets, lengths, row)
        Rewriter.erase_op(op)

    def state_reset(self, op: Operation) -> None:
        assert isinstance(op, nn.StateResetOp)
        reset(self, op)
        Rewriter.erase_op(op)

    def commit(self, op: Operation) -> None:
        assert isinstance(op, nn.CommitOp)
        held = self.arguments.get(SlotKind.DEVICE_HELD, op.state.data)
        if held is not None:
            self.build = LoopBuilder(InsertPoint.before(_before_results(op, held)))
        else:
            held = self.arguments.of(SlotKind.HELD, op.state.data)
        b = self.build
        errors = self.arguments.of(SlotKind.ERRORS)
        machine = machine_of(op)
        if machine not in self.guarded and errors.uses.get_length():
            failed = b.insert(arith.CmpiOp(b.load(errors, [0]), b.constant(0, i64), "ne"))
            b.do(nn.LeaveIfOp(failed))
        self.guarded.add(machine)
        noted = self.arguments.get(SlotKind.DEVICE_ERRORS)
        if machine == DEVICE and noted is not None:
            b.do(copy_unless(noted, op.value, held))
        else:
            b.do(CopyOp(op.value, held))
        Rewriter.erase_op(op)


_BETWEEN = (nn.CommitOp, nn.TakeErrorsOp, nn.SizeOp, memref.ViewOp, arith.ConstantOp)
"""What may stand between moves of results, and touches nothing that the device commits."""


def _run_of(
    op: nn.StateViewOp | nn.StatePlaceOp, place: StatePlace
) -> list[tuple[int, SSAValue | int]]:
    """The axis along which a view holds several entries, and how many; none for a view of one."""
    kind = op.view.type
    assert isinstance(kind, MemRefType)
    if len(kind.get_shape()) == len(place.entry):
        return []
    extent = kind.get_shape()[0]
    return [(place.axes - 1, op.sizes[0] if extent == DYNAMIC_INDEX else extent)]


def _before_results(commit: nn.CommitOp, held: SSAValue) -> Operation:
    """Where the device takes over a value: in front of the moves of results, which the host waits for. So
    what the host takes over comes behind all that may fail."""
    place: Operation = commit
    before = commit.prev_op
    while before is not None and commit.value not in before.results:
        if isinstance(before, nn.TransferOp):
            if before.direction.data != "to_host" or root_of(before.source) is held:
                break
            place = before
        elif not isinstance(before, _BETWEEN):
            break
        before = before.prev_op
    return place
