"""What survives a step, and sizes that only the step knows, as loads, stores and checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StridedLayoutAttr,
    StringAttr,
    i1,
    i8,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import nn
from openinfer.dialects.extensions.memref import CopyOp
from openinfer.dialects.nn.elements import byte_size, element_type, memory_type, whole_bytes
from openinfer.lowering.loops.builder import LoopBuilder
from openinfer.lowering.memory.state_layout import (
    StateLayout,
    StatePlace,
    late_capacity_name,
    layout_of,
)
from openinfer.runtime.devices.failures import FAILURES
from openinfer.runtime.sizes import Size

FAIL = "fail"
"""The function that notes a failure."""
HEADER = 24
"""Bytes in front of each part of the undo log: state, place in its memory, length."""
_OCTETS = MemRefType(i8, [DYNAMIC_INDEX])


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


class _Lowering:
    def __init__(self, module: ModuleOp, step: FuncOp) -> None:
        self.step = step
        self.layout: StateLayout = layout_of(module)
        self.roles = argument_roles(step)
        self.build = LoopBuilder(InsertPoint.at_start(step.body.block))
        self.module = module
        self.guarded = False
        self.fails = False

    def run(self) -> None:
        rules: dict[type[Operation], Callable[[_Lowering, Operation], None]] = {
            nn.DefineSizeOp: _Lowering.define_size,
            nn.RequireOp: _Lowering.require,
            nn.ExtentOp: _Lowering.extent,
            nn.GrowOp: _Lowering.grow,
            nn.SetExtentOp: _Lowering.set_extent,
            nn.StateViewOp: _Lowering.state_view,
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
            self.module.body.block.add_op(_fail_function(self.roles["errors"].type))

    def begin(self) -> None:
        """Notes the extents at the start, and empties the log."""
        b = self.build
        cells = self.roles["cells"]
        for place in self.layout.states.values():
            for now, start in place.words:
                b.store(b.load(cells, [now]), cells, [start])
            if place.counted:
                counts = self.roles[f"counts {place.name}"]
                matrix = place.axes - place.tables

                def entry(i: SSAValue, counts: SSAValue = counts, matrix: int = matrix) -> None:
                    at = b.mul(i, 2 * matrix)
                    for axis in range(matrix):
                        now = b.load(counts, [b.add(at, axis)])
                        b.store(now, counts, [b.add(at, matrix + axis)])

                b.loop(0, self.size(place.slots), 1, entry)
        b.store(b.constant(0, i64), cells, [self.layout.log])

    # Numbers

    def size(self, size: Size) -> SSAValue | int:
        if size.constant is not None:
            return size.constant
        return self.build.insert(nn.SizeOp(size))

    def word(self, value: SSAValue | int) -> SSAValue:
        """An index as an i64."""
        return self.build.insert(arith.IndexCastOp(self.build.index(value), i64))

    def number(self, word: SSAValue) -> SSAValue:
        """An i64 as an index."""
        return self.build.insert(arith.IndexCastOp(word, IndexType()))

    # Failures

    def fail_unless(
        self, condition: SSAValue, kind: str, a: SSAValue | int, b: SSAValue | int, node: int
    ) -> None:
        """Records the first failure of the step and leaves it."""
        build = self.build
        failed = build.insert(arith.XOrIOp(condition, build.constant(1, i1)))
        words = [self.word(a), self.word(b)]

        def record() -> None:
            place = build.constant(1 + node, i64)
            number = build.constant(list(FAILURES).index(kind), i64)
            build.do(CallOp(FAIL, [self.roles["errors"], place, *words, number], []))
            self.fails = True

        build.when(failed, record)
        build.do(nn.LeaveIfOp(failed))

    def define_size(self, op: Operation) -> None:
        assert isinstance(op, nn.DefineSizeOp)
        number = self.layout.late.index(op.size.data)
        node = op.node.value.data
        b = self.build
        self.fail_unless(b.compare("sge", op.value, 0), "negative-size", op.value, number, node)
        capacity = self.size(Size.name(late_capacity_name(op.size.data)))
        self.fail_unless(b.compare("sle", op.value, capacity), "late", op.value, number, node)
        b.store(self.word(op.value), self.roles["cells"], [number])
        Rewriter.erase_op(op)

    def require(self, op: Operation) -> None:
        assert isinstance(op, nn.RequireOp)
        kind, node = op.kind.data, op.node.value.data
        self.fail_unless(op.condition, kind, op.first, op.second, node)
        Rewriter.erase_op(op)

    # Extents

    def cell(
        self, place: StatePlace, axis: int, entry: Sequence[SSAValue], *, start: bool = False
    ) -> tuple[SSAValue, SSAValue | int]:
        """Where an extent is kept: the buffer and the place in it."""
        if axis >= place.axes:
            return self.roles["cells"], place.fact_cell(axis)
        if not place.counted or axis < place.tables:
            return self.roles["cells"], place.cell + axis + (place.shared if start else 0)
        b = self.build
        matrix = place.axes - place.tables
        last = b.sub(b.index(self.size(place.slots)), 1)
        at = b.minimum(self.linear(place, list(entry)), last)
        shift = axis - place.tables + (matrix if start else 0)
        return self.roles[f"counts {place.name}"], b.add(b.mul(at, 2 * matrix), shift)

    def load_extent(
        self, place: StatePlace, axis: int, entry: Sequence[SSAValue], *, start: bool = False
    ) -> SSAValue:
        buffer, at = self.cell(place, axis, entry, start=start)
        return self.number(self.build.load(buffer, [at]))

    def store_extent(
        self, value: SSAValue | int, place: StatePlace, axis: int, entry: Sequence[SSAValue]
    ) -> None:
        buffer, at = self.cell(place, axis, entry)
        self.build.store(self.word(value), buffer, [at])

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

    # Memory

    def linear(self, place: StatePlace, offsets: Sequence[SSAValue | int]) -> SSAValue | int:
        """The number of a place, counted in entries."""
        b = self.build
        total: SSAValue | int = 0
        for axis, offset in enumerate(offsets):
            if axis:
                capacity = self.size(place.capacity(axis))
                total = capacity if total == 1 else 0 if total == 0 else b.mul(total, capacity)
            total = b.plus(total, offset) if total != 0 else offset
        return total

    def bytes_of(self, place: StatePlace, element: Attribute, count: Size) -> SSAValue | int:
        """Bytes of so many entries."""
        return self.size(byte_size(element, place.entry) * count)

    def place_of(
        self, place: StatePlace, element: Attribute, offsets: Sequence[SSAValue | int]
    ) -> SSAValue:
        """The first byte of an entry."""
        b = self.build
        each = self.bytes_of(place, element, Size.of(1))
        return b.index(_times(b, self.linear(place, offsets), each))

    def view(
        self, memory: SSAValue, start: SSAValue | int, sizes: Sequence[SSAValue], kind: Attribute
    ) -> SSAValue:
        b = self.build
        assert isinstance(kind, MemRefType)
        return b.insert(memref.ViewOp(memory, b.index(start), list(sizes), kind))

    def memory(self, place: StatePlace) -> SSAValue:
        return self.roles[f"state {place.name}"]

    def state_view(self, op: Operation) -> None:
        assert isinstance(op, nn.StateViewOp)
        place = self.layout.states[op.state.data]
        kind = op.view.type
        assert isinstance(kind, MemRefType)
        offsets = list(op.offsets)
        lengths: list[tuple[int, SSAValue | int]] = []
        if len(kind.get_shape()) > len(place.entry):
            extent = kind.get_shape()[0]
            lengths = [(place.axes - 1, op.sizes[0] if extent == DYNAMIC_INDEX else extent)]
        self.mark(place, offsets, lengths)
        start = self.place_of(place, kind.element_type, offsets)
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

        def row(offsets: list[SSAValue | int], counts: list[SSAValue | int], run: SSAValue | int):
            self.save(place, kind.element_type, offsets, run, node)
            target = self.run_at(place, kind.element_type, offsets, run)
            b.do(CopyOp(self.piece(op.value, counts, [n for _, n in lengths], run), target))

        self.runs(place, kind.element_type, offsets, lengths, row)
        Rewriter.erase_op(op)

    def runs(
        self,
        place: StatePlace,
        element: Attribute,
        offsets: list[SSAValue | int],
        lengths: Sequence[tuple[int, SSAValue | int]],
        body: Callable[[list[SSAValue | int], list[SSAValue | int], SSAValue | int], object],
    ) -> None:
        """Every stretch of entries that lie together: its place, its number, its length.

        The body gets the offsets of the first entry, the counters of the outer axes, and how many
        entries follow each other.
        """
        b = self.build
        outer = list(lengths)
        run: SSAValue | int = 1
        # Entries that end within a byte do not follow each other without a gap.
        if outer and outer[-1][0] == place.axes - 1 and whole_bytes(element, place.entry):
            run = outer.pop()[1]

        def level(depth: int, offsets: list[SSAValue | int], counts: list[SSAValue | int]) -> None:
            if depth == len(outer):
                body(offsets, counts, run)
                return
            axis, length = outer[depth]

            def inside(i: SSAValue) -> None:
                moved = list(offsets)
                moved[axis] = b.plus(offsets[axis], i)
                level(depth + 1, moved, [*counts, i])

            b.loop(0, length, 1, inside)

        level(0, offsets, [])

    def run_at(
        self,
        place: StatePlace,
        element: Attribute,
        offsets: Sequence[SSAValue | int],
        run: SSAValue | int,
    ) -> SSAValue:
        """The elements of some entries that lie together, as one dimension."""
        b = self.build
        count = _times(b, run, self.size(place.entry_count))
        start = self.place_of(place, element, offsets)
        kind = MemRefType(element, [DYNAMIC_INDEX])
        return self.view(self.memory(place), start, [b.index(count)], kind)

    def piece(
        self,
        buffer: SSAValue,
        counts: Sequence[SSAValue | int],
        lengths: Sequence[SSAValue | int],
        run: SSAValue | int,
    ) -> SSAValue:
        """One run of a contiguous buffer, as one dimension."""
        b = self.build
        kind = buffer.type
        assert isinstance(kind, MemRefType)
        # Elements of one run: what follows the counted dimensions.
        each: SSAValue | int = 1
        for axis in range(len(counts), len(kind.get_shape())):
            each = _times(b, each, b.dim(buffer, axis))
        number: SSAValue | int = 0
        for count, length in zip(counts, lengths):
            number = b.plus(_times(b, number, length), count)
        offset = _times(b, number, each)
        layout = StridedLayoutAttr([1], NoneAttr())
        result = MemRefType(kind.element_type, [DYNAMIC_INDEX], layout)
        del run
        return b.insert(
            memref.ReinterpretCastOp.from_dynamic(
                buffer, [b.index(offset)], [b.index(each)], [1], result
            )
        )

    # The undo log

    def save(
        self,
        place: StatePlace,
        element: Attribute,
        offsets: Sequence[SSAValue | int],
        run: SSAValue | int,
        node: int,
    ) -> None:
        """Keeps what the step overwrites, unless it was not there when the step began."""
        b = self.build
        entry = [b.index(o) for o in offsets[: place.tables]] if place.counted else []
        live: SSAValue | None = None
        for axis, offset in enumerate(offsets):
            before = self.load_extent(place, axis, entry, start=True)
            inside = b.compare("slt", offset, before)
            live = inside if live is None else b.insert(arith.AndIOp(live, inside))
        assert live is not None

        def keep() -> None:
            cells, log = self.roles["cells"], self.roles["log"]
            start = self.place_of(place, element, offsets)
            length = b.index(_times(b, run, self.bytes_of(place, element, Size.of(1))))
            head = self.number(b.load(cells, [self.layout.log]))
            padded = b.mul(b.floordiv(b.add(length, 7), 8), 8)
            end = b.add(b.add(head, HEADER), padded)
            room = b.compare("sle", end, b.dim(log, 0))
            self.fail_unless(room, "log", end, 0, node)
            header = self.view(log, head, [], MemRefType(i64, [3]))
            for position, value in enumerate((place.number, start, length)):
                b.store(self.word(value), header, [position])
            saved = self.view(log, b.add(head, HEADER), [length], _OCTETS)
            b.do(CopyOp(self.view(self.memory(place), start, [length], _OCTETS), saved))
            b.store(self.word(end), cells, [self.layout.log])

        b.when(live, keep)

    # Which entries are there

    def mark(
        self,
        place: StatePlace,
        offsets: Sequence[SSAValue | int],
        lengths: Sequence[tuple[int, SSAValue | int]],
    ) -> None:
        """Notes that entries are there, where a reset of some of them must know."""
        if not place.marks:
            return
        b = self.build
        marks = self.roles[f"marks {place.name}"]
        tables = [(axis, length) for axis, length in lengths if axis < place.tables]

        def level(depth: int, at: list[SSAValue | int]) -> None:
            if depth == len(tables):
                b.store(b.constant(1, i8), marks, [self.linear(place, at)])
                return
            axis, length = tables[depth]

            def inside(i: SSAValue) -> None:
                moved = list(at)
                moved[axis] = b.plus(at[axis], i)
                level(depth + 1, moved)

            b.loop(0, length, 1, inside)

        level(0, list(offsets[: place.tables]))

    def state_reset(self, op: Operation) -> None:
        assert isinstance(op, nn.StateResetOp)
        place = self.layout.states[op.state.data]
        prefix: list[SSAValue | int] = list(op.prefix)
        node = op.node.value.data
        b = self.build
        inside: SSAValue | None = None
        for axis, index in enumerate(prefix):
            there = b.compare("ult", index, self.load_extent(place, axis, []))
            inside = there if inside is None else b.insert(arith.AndIOp(inside, there))

        def clear() -> None:
            self.clear(place, prefix, node)
            if not prefix:
                for axis in range(place.shared):
                    self.store_extent(self.size(place.base[axis]), place, axis, [])

        if inside is None:
            clear()
        else:
            b.when(inside, clear)
            self.shrink(place)
        Rewriter.erase_op(op)

    def clear(self, place: StatePlace, prefix: list[SSAValue | int], node: int) -> None:
        """Fills entries with the initial content and forgets them."""
        b = self.build
        element = self.elements(place)
        filler = b.constant(place.value, element)
        together = whole_bytes(element, place.entry)

        def level(axis: int, offsets: list[SSAValue | int]) -> None:
            entry = [b.index(o) for o in offsets[: place.tables]] if place.counted else []
            last = place.axes - 1
            if axis < last or (axis == last and not together):
                extent = self.load_extent(place, axis, entry if axis >= place.tables else [])
                b.loop(0, extent, 1, lambda i: step(axis + 1, [*offsets, i]))
                return
            if axis == last:
                run: SSAValue | int = self.load_extent(
                    place, axis, entry if axis >= place.tables else []
                )
                offsets = [*offsets, 0]
            else:
                run = 1
            self.save(place, element, offsets, run, node)
            target = self.run_at(place, element, offsets, run)
            b.loop(0, b.dim(target, 0), 1, lambda i: b.store(filler, target, [i]))
            if place.marks and axis == last and place.axes == place.tables:
                marks, gone = self.roles[f"marks {place.name}"], b.constant(0, i8)
                before = offsets[:-1]
                b.loop(
                    0,
                    run,
                    1,
                    lambda i: b.store(gone, marks, [self.linear(place, [*before, i])]),
                )

        def step(axis: int, offsets: list[SSAValue | int]) -> None:
            level(axis, offsets)
            if axis == place.tables and len(offsets) == place.tables:
                self.forget(place, offsets)

        step(len(prefix), prefix)
        if place.marks and not prefix:
            marks = self.roles[f"marks {place.name}"]
            b.loop(
                0,
                self.size(place.slots),
                1,
                lambda i: b.store(b.constant(0, i8), marks, [i]),
            )

    def forget(self, place: StatePlace, entry: Sequence[SSAValue | int]) -> None:
        """An entry of a table is gone."""
        b = self.build
        if place.counted:
            for axis in range(place.tables, place.axes):
                value = self.size(place.base[axis])
                self.store_extent(value, place, axis, [b.index(e) for e in entry])
        if place.marks:
            b.store(
                b.constant(0, i8), self.roles[f"marks {place.name}"], [self.linear(place, entry)]
            )

    def shrink(self, place: StatePlace) -> None:
        """Extents that are not fixed go down to the highest entries that are left."""
        b = self.build
        marks = self.roles[f"marks {place.name}"]
        before = [self.load_extent(place, axis, []) for axis in range(place.tables)]
        free = [axis for axis in range(place.tables) if place.limits[axis] is None]
        for axis in free:
            self.store_extent(0, place, axis, [])

        def level(at: list[SSAValue | int]) -> None:
            if len(at) < place.tables:
                b.loop(0, before[len(at)], 1, lambda i: level([*at, i]))
                return
            there = b.load(marks, [self.linear(place, at)])
            present = b.insert(arith.CmpiOp(there, b.constant(0, i8), "ne"))

            def count() -> None:
                for axis in free:
                    need = b.plus(at[axis], 1)
                    larger = b.maximum(self.load_extent(place, axis, []), need)
                    self.store_extent(larger, place, axis, [])

            b.when(present, count)

        level([])

    def elements(self, place: StatePlace) -> Attribute:
        return memory_type(element_type(place.dtype))

    # The end

    def commit(self, op: Operation) -> None:
        assert isinstance(op, nn.CommitOp)
        b = self.build
        errors = self.roles["errors"]
        if not self.guarded and errors.uses.get_length():
            failed = b.insert(arith.CmpiOp(b.load(errors, [0]), b.constant(0, i64), "ne"))
            b.do(nn.LeaveIfOp(failed))
        self.guarded = True
        b.do(CopyOp(op.value, self.roles[f"held {op.state.data}"]))
        Rewriter.erase_op(op)


def _fail_function(record: Attribute) -> FuncOp:
    """Notes a failure: node + 1, two numbers, the kind; the first one of a step stays."""
    block = Block(arg_types=[record, i64, i64, i64, i64])
    for argument, hint in zip(block.args, ("errors", "node", "a", "b", "kind")):
        argument.name_hint = hint
    build = LoopBuilder(InsertPoint.at_end(block))
    errors, *words = block.args
    empty = build.insert(arith.CmpiOp(build.load(errors, [0]), build.constant(0, i64), "eq"))

    def first() -> None:
        for place, word in enumerate(words):
            build.store(word, errors, [place])

    build.when(empty, first)
    build.do(ReturnOp())
    return FuncOp(FAIL, ([a.type for a in block.args], []), Region(block), "private")


def argument_roles(step: FuncOp) -> dict[str, SSAValue]:
    """The arguments of a step by what they are."""
    given = step.properties.get("arg_attrs")
    found: dict[str, SSAValue] = {}
    rows: tuple[Attribute, ...] = given.data if isinstance(given, ArrayAttr) else ()
    for argument, row in zip(step.body.block.args, rows):
        role = row.data.get("openinfer.arg") if isinstance(row, DictionaryAttr) else None
        if isinstance(role, StringAttr):
            found[role.data] = argument
    return found


def _times(b: LoopBuilder, a: SSAValue | int, c: SSAValue | int) -> SSAValue | int:
    """The product, where possible without an instruction."""
    if isinstance(a, int) and isinstance(c, int):
        return a * c
    if 0 in (a, c):
        return 0
    if a == 1:
        return c
    return a if c == 1 else b.mul(a, c)
