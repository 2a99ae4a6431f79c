"""Code for growing states: sizes, extents, places in memory, the undo log, failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StridedLayoutAttr,
    i1,
    i8,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.dialects import nn
from openinfer.dialects.extensions.memref import CopyOp
from openinfer.dialects.nn.elements import byte_size, element_type, memory_type, whole_bytes
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.places import as_hosts
from openinfer.lowering.state_layout import (
    StateLayout,
    StatePlace,
    layout_of,
)
from openinfer.lowering.step_arguments import StepArguments
from openinfer.runtime.devices.failures import failure_word
from openinfer.runtime.sizes import Size
from openinfer.runtime.slots import SlotKind

FAIL = "fail"
"""The function that notes a failure."""
HEADER = 24
"""Bytes in front of each part of the undo log: state, place in its memory, length."""
_OCTETS = MemRefType(i8, [DYNAMIC_INDEX])


class StateEmitter:
    """Writes code in front of one operation after the other; what it needs are arguments of the step."""

    def __init__(self, module: ModuleOp, step: FuncOp) -> None:
        self.layout: StateLayout = layout_of(module)
        self.step = step
        self.arguments = StepArguments(step)
        self.build = LoopBuilder(InsertPoint.at_start(step.body.block))
        self.fails = False

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
        self,
        condition: SSAValue,
        kind: str,
        a: SSAValue | int,
        b: SSAValue | int,
        node: int,
        axis: int | None = None,
    ) -> None:
        """Records the first failure of the step and leaves it."""
        build = self.build
        failed = build.insert(arith.XOrIOp(condition, build.constant(1, i1)))
        words = [self.word(a), self.word(b)]

        def record() -> None:
            place = build.constant(1 + node, i64)
            number = build.constant(failure_word(kind, axis), i64)
            given = [self.arguments.of(SlotKind.ERRORS), place, *words, number]
            build.do(as_hosts(CallOp(FAIL, given, []), self.step))
            self.fails = True

        build.when(failed, record)
        build.do(nn.LeaveIfOp(failed))

    # Extents

    def cell(
        self, place: StatePlace, axis: int, entry: Sequence[SSAValue], *, start: bool = False
    ) -> tuple[SSAValue, SSAValue | int]:
        """Where an extent is kept: the buffer and the place in it."""
        if axis >= place.axes:
            return self.arguments.of(SlotKind.CELLS), place.fact_cell(axis)
        if not place.counted or axis < place.tables:
            return self.arguments.of(SlotKind.CELLS), place.cell + axis + (
                place.shared if start else 0
            )
        b = self.build
        matrix = place.axes - place.tables
        last = b.sub(b.index(self.size(place.slots)), 1)
        at = b.minimum(self.linear(place, list(entry)), last)
        shift = axis - place.tables + (matrix if start else 0)
        return self.arguments.of(SlotKind.COUNTS, place.name), b.add(b.mul(at, 2 * matrix), shift)

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
        return b.index(b.times(self.linear(place, offsets), each))

    def view(
        self, memory: SSAValue, start: SSAValue | int, sizes: Sequence[SSAValue], kind: Attribute
    ) -> SSAValue:
        b = self.build
        assert isinstance(kind, MemRefType)
        return b.insert(memref.ViewOp(memory, b.index(start), list(sizes), kind))

    def memory(self, place: StatePlace) -> SSAValue:
        kind = SlotKind.DEVICE_STATE if place.device else SlotKind.STATE
        return self.arguments.of(kind, place.name)

    def elements(self, place: StatePlace) -> Attribute:
        return memory_type(element_type(place.dtype))

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

    def part_like(
        self,
        place: StatePlace,
        buffer: SSAValue,
        offsets: Sequence[SSAValue | int],
    ) -> SSAValue:
        """The entries from some offsets on that a buffer has as many elements for, in its shape."""
        b = self.build
        kind = buffer.type
        assert isinstance(kind, MemRefType)
        open_axes = [axis for axis, n in enumerate(kind.get_shape()) if n == DYNAMIC_INDEX]
        sizes = [b.index(b.dim(buffer, axis)) for axis in open_axes]
        start = self.place_of(place, kind.element_type, offsets)
        return self.view(self.memory(place), start, sizes, kind)

    def is_together(
        self, place: StatePlace, element: Attribute, lengths: Sequence[tuple[int, object]]
    ) -> bool:
        """Whether entries of these lengths lie one behind the other, without gaps."""
        return not lengths or (
            [axis for axis, _ in lengths] == [place.axes - 1] and whole_bytes(element, place.entry)
        )

    def run_at(
        self,
        place: StatePlace,
        element: Attribute,
        offsets: Sequence[SSAValue | int],
        run: SSAValue | int,
    ) -> SSAValue:
        """The elements of some entries that lie together, as one dimension."""
        b = self.build
        count = b.times(run, self.size(place.entry_count))
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
            each = b.times(each, b.dim(buffer, axis))
        number: SSAValue | int = 0
        for count, length in zip(counts, lengths):
            number = b.plus(b.times(number, length), count)
        offset = b.times(number, each)
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
            cells, log = self.arguments.of(SlotKind.CELLS), self.arguments.of(SlotKind.LOG)
            start = self.place_of(place, element, offsets)
            length = b.index(b.times(run, self.bytes_of(place, element, Size.of(1))))
            head = self.number(b.load(cells, [self.layout.log]))
            padded = b.mul(b.floordiv(b.add(length, 7), 8), 8)
            end = b.add(b.add(head, HEADER), padded)
            room = b.compare("sle", end, b.dim(log, 0))
            self.fail_unless(room, "log", end, 0, node)
            header = self.view(log, head, [], MemRefType(i64, [3]))
            for position, value in enumerate((place.number, start, length)):
                b.store(self.word(value), header, [position])
            if place.device:
                # What it copies are elements: kernels do that.
                old = self.run_at(place, element, offsets, run)
                log = self.arguments.of(SlotKind.DEVICE_LOG)
                saved = self.view(log, b.add(head, HEADER), [b.index(b.dim(old, 0))], old.type)
            else:
                old = self.view(self.memory(place), start, [length], _OCTETS)
                saved = self.view(log, b.add(head, HEADER), [length], _OCTETS)
            b.do(CopyOp(old, saved))
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
        marks = self.arguments.of(SlotKind.MARKS, place.name)
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


def fail_function(record: Attribute) -> FuncOp:
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
