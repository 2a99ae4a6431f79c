"""`nn.state_reset` as loops: entries get their first content, extents go down."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    i8,
)
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import SSAValue

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import whole_bytes
from openinfer.lowering.host.state_emitter import StateEmitter
from openinfer.lowering.state_layout import (
    StatePlace,
)
from openinfer.runtime.slots import SlotKind


def reset(s: StateEmitter, op: nn.StateResetOp) -> None:
    """Code of a reset of all of a state, or of the entries below a prefix."""
    place = s.layout.states[op.state.data]
    prefix: list[SSAValue | int] = list(op.prefix)
    node = op.node.value.data
    b = s.build
    inside: SSAValue | None = None
    for axis, index in enumerate(prefix):
        there = b.compare("ult", index, s.load_extent(place, axis, []))
        inside = there if inside is None else b.insert(arith.AndIOp(inside, there))

    def clear() -> None:
        _clear(s, place, prefix, node)
        if not prefix:
            for axis in range(place.shared):
                s.store_extent(s.size(place.base[axis]), place, axis, [])

    if inside is None:
        clear()
    else:
        b.when(inside, clear)
        _shrink(s, place)


def _clear(s: StateEmitter, place: StatePlace, prefix: list[SSAValue | int], node: int) -> None:
    """Fills entries with the initial content and forgets them."""
    b = s.build
    element = s.elements(place)
    filler = b.constant(place.value, element)
    together = whole_bytes(element, place.entry)

    def level(axis: int, offsets: list[SSAValue | int]) -> None:
        entry = [b.index(o) for o in offsets[: place.tables]] if place.counted else []
        last = place.axes - 1
        if axis < last or (axis == last and not together):
            extent = s.load_extent(place, axis, entry if axis >= place.tables else [])
            b.loop(0, extent, 1, lambda i: step(axis + 1, [*offsets, i]))
            return
        if axis == last:
            run: SSAValue | int = s.load_extent(place, axis, entry if axis >= place.tables else [])
            offsets = [*offsets, 0]
        else:
            run = 1
        s.save(place, element, offsets, run, node)
        target = s.run_at(place, element, offsets, run)
        if place.device:
            b.do(FillOp([filler], [target], []))
        else:
            b.loop(0, b.dim(target, 0), 1, lambda i: b.store(filler, target, [i]))
        if place.marks and axis == last and place.axes == place.tables:
            marks, gone = s.arguments.of(SlotKind.MARKS, place.name), b.constant(0, i8)
            before = offsets[:-1]
            b.loop(
                0,
                run,
                1,
                lambda i: b.store(gone, marks, [s.linear(place, [*before, i])]),
            )

    def step(axis: int, offsets: list[SSAValue | int]) -> None:
        level(axis, offsets)
        if axis == place.tables and len(offsets) == place.tables:
            _forget(s, place, offsets)

    step(len(prefix), prefix)
    if place.marks and not prefix:
        marks = s.arguments.of(SlotKind.MARKS, place.name)
        b.loop(
            0,
            s.size(place.slots),
            1,
            lambda i: b.store(b.constant(0, i8), marks, [i]),
        )


def _forget(s: StateEmitter, place: StatePlace, entry: Sequence[SSAValue | int]) -> None:
    """An entry of a table is gone."""
    b = s.build
    if place.counted:
        for axis in range(place.tables, place.axes):
            value = s.size(place.base[axis])
            s.store_extent(value, place, axis, [b.index(e) for e in entry])
    if place.marks:
        b.store(
            b.constant(0, i8), s.arguments.of(SlotKind.MARKS, place.name), [s.linear(place, entry)]
        )


def _shrink(s: StateEmitter, place: StatePlace) -> None:
    """Extents that are not fixed go down to the highest entries that are left."""
    b = s.build
    marks = s.arguments.of(SlotKind.MARKS, place.name)
    before = [s.load_extent(place, axis, []) for axis in range(place.tables)]
    free = [axis for axis in range(place.tables) if place.limits[axis] is None]
    for axis in free:
        s.store_extent(0, place, axis, [])

    def level(at: list[SSAValue | int]) -> None:
        if len(at) < place.tables:
            b.loop(0, before[len(at)], 1, lambda i: level([*at, i]))
            return
        there = b.load(marks, [s.linear(place, at)])
        present = b.insert(arith.CmpiOp(there, b.constant(0, i8), "ne"))

        def count() -> None:
            for axis in free:
                need = b.plus(at[axis], 1)
                larger = b.maximum(s.load_extent(place, axis, []), need)
                s.store_extent(larger, place, axis, [])

        b.when(present, count)

    level([])
