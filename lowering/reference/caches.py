"""Persistent variables in the simulator: how slots select entries, and how they grow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from openinfer.dialects.graph import VariableOp
from openinfer.lowering.program.view import dtype_of
from openinfer.lowering.reference.cache_storage import (
    Base,
    CacheStorage,
    Entry,
    entries_of,
    matches,
    own_copy,
    shape_text,
)
from openinfer.lowering.reference.contents import Contents
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import StepError
from openinfer.runtime.sizes import memory_holds
from openinfer.runtime.state import over_limit
from openinfer.runtime.storage import AnyArray, element_count


@dataclass(frozen=True)
class Range:
    """The slot `start..stop`; an absent bound is None."""

    start: int | None = None
    stop: int | None = None

    def __str__(self) -> str:
        return "..".join("" if b is None else str(b) for b in (self.start, self.stop))


FULL = Range()
Slot = int | Range
Inner = Callable[[Mapping[str, int]], Sequence[Slot]]
"""The slots of a matrix, given its present counts; none: the whole matrix as it is."""
Lines = Sequence[int | slice]
"""What slots select of a matrix, counted from 0."""


class Cache(CacheStorage):
    """A persistent variable with what the nodes do to it."""

    # Plain variables

    def whole(self) -> AnyArray:
        """The value of a plain variable."""
        return self._entry(())

    def store(self, array: AnyArray) -> None:
        """Replaces the value of a plain variable. Raises StepError OI0602 for another shape."""
        base = self.base or ()
        if not matches(array.shape, base):
            self._refuse(self.name, array.shape, base)
        if () not in self.entries or self.entries[()].shape != array.shape:
            self._claim(self.reach, {(): array.shape})
        self.entries[()] = own_copy(array)

    # Tables and matrices

    def read(self, slots: Sequence[Slot], inner: Inner) -> AnyArray:
        """What the slots of a table, and those of its matrices, select; grows as the language says.

        Slices add their lengths as leading axes. Raises StepError OI0606 for an index outside its
        bound, OI0607 for a slice over matrices of different shapes, OI0609 for too much state.
        """
        places = self._places(slots)
        lengths = [len(place) for place in places if isinstance(place, range)]
        lines: list[Lines] = []
        pieces = [self._piece(entry, inner, lines) for entry in entries_of(places)]
        if not lengths:
            return pieces[0]
        # An entry that cannot be there says what an empty slice would have held.
        first = pieces[0] if pieces else self.copy(self.room)._piece((-1,) * len(places), inner)
        self._same_shapes(piece.shape for piece in pieces)
        self._same_lines(lines)
        stacked = np.empty((len(pieces), *first.shape), first.dtype)
        for number, piece in enumerate(pieces):
            stacked[number] = piece
        return stacked.reshape(*lengths, *first.shape)

    def write(self, slots: Sequence[Slot], inner: Inner, array: AnyArray) -> None:
        """Stores an entry, the entries of a slice, or (a part of) one matrix; errors as `read`.

        Raises StepError OI0602 when the array has another shape than what it replaces.
        """
        places = self._places(slots)
        if self.auto:
            entry = tuple(place for place in places if isinstance(place, int))
            self._write_matrix(entry, inner, array)
            return
        lengths = [len(place) for place in places if isinstance(place, range)]
        shape = array.shape[len(lengths) :]
        wanted = (*lengths, *(self.base or ()))
        if not matches(array.shape, wanted):
            self._refuse(self._shown(slots), array.shape, wanted)
        if shape != self.base:
            self.base = shape
            self._claim(self.reach, {})
        entries = entries_of(places)
        parts = array.reshape(len(entries), *shape)
        for number, entry in enumerate(entries):
            self.entries[entry] = own_copy(parts[number])

    def reset(self, slots: Sequence[int] = ()) -> None:
        """All back to the first content, or the entries whose indices start with `slots`."""
        for name, value in zip(self.table, slots):
            if value < 0:
                self._negative(name, value)
            self._check_fixed(name, value, value + 1)
        if not slots:
            self.base = self.declared
            self.entries.clear()
        else:
            prefix = tuple(slots)
            self.entries = {e: a for e, a in self.entries.items() if e[: len(prefix)] != prefix}
        self.reach = self._used()

    # Places

    def _places(self, slots: Sequence[Slot]) -> list[int | range]:
        """The numbers that the table slots select; the table reaches them afterwards."""
        places: list[int | range] = []
        needs: list[int] = []
        for name, extent, slot in zip(self.table, self.extents, slots):
            place = self._place(name, extent, slot)
            need = place + 1 if isinstance(place, int) else place.stop
            self._check_fixed(name, slot, need)
            places.append(place)
            needs.append(need)
        reach = [max(pair) for pair in zip(self.reach, needs)]
        if reach != self.reach:
            self._claim(reach, {})
            self.reach = reach
        return places

    def _place(self, name: str, extent: int, slot: Slot) -> int | range:
        if isinstance(slot, int):
            if slot < 0:
                self._negative(name, slot)
            return slot
        start = slot.start or 0
        stop = extent if slot.stop is None else slot.stop
        if start < 0:
            self._outside(f"slice {slot} of index {name} of {self.name} starts below 0")
        if stop < 0:
            stop += extent
            if stop < 0:
                self._outside(
                    f"slice {slot} of index {name} of {self.name} ends below 0: it counts from the "
                    f"present extent, which is {extent}"
                )
        if stop < start:
            self._outside(
                f"slice {slot} of index {name} of {self.name} ends at {stop}, before its start"
            )
        return range(start, stop)

    def _check_fixed(self, name: str, slot: Slot, need: int) -> None:
        bound = self.fixed.get(name)
        if bound is not None and need > bound:
            self._outside(
                f"index {name} = {slot} of {self.name} is outside 0..{bound}, the bound of "
                f"@fixed({name}={bound})"
            )

    def _negative(self, name: str, value: int) -> NoReturn:
        self._outside(f"index {name} = {value} of {self.name} is negative")

    @staticmethod
    def _outside(message: str) -> NoReturn:
        raise StepError("OI0606", message, hint="indices count from 0; slices are half-open")

    # Matrices

    def _piece(self, entry: Entry, inner: Inner, lines: list[Lines] | None = None) -> AnyArray:
        """An entry of a table, or what the inner slots select of a matrix; `lines` takes what it was."""
        array = self._entry(entry)
        if not self.auto:
            return array
        slots = inner(self.counts(array.shape))
        values = [slot for slot in slots if isinstance(slot, int)]
        if len(values) == len(self.auto):
            return self._grown(entry, values)
        selected: list[int | slice] = []
        for name, extent, slot in zip(self.auto, array.shape, slots):
            place = self._place(name, extent, slot)
            inside = place < extent if isinstance(place, int) else place.stop <= extent
            if not inside:
                self._position(name, slot, extent)
            selected.append(place if isinstance(place, int) else slice(place.start, place.stop))
        if lines is not None:
            lines.append(selected)
        return array[tuple(selected)]

    def _grown(self, entry: Entry, values: Sequence[int]) -> AnyArray:
        """The whole matrix, whose counts are at least these values afterwards."""
        array, base = self._entry(entry), self._shape()
        for name, value in zip(self.auto, values):
            if value < 0:
                self._negative(name, value)
            bound = self.fixed.get(name)
            if bound is not None and value > bound:
                self._outside(
                    f"{self.name} cannot grow by {name} = {value}: the bound of "
                    f"@fixed({name}={bound}) is {bound}"
                )
        shape = tuple(max(n, b + v) for n, b, v in zip(array.shape, base, values))
        if shape != array.shape:
            self._claim(self.reach, {entry: shape})
            grown = self.contents.fill(self.op, shape)
            grown[tuple(slice(0, n) for n in array.shape)] = array
            array = self.entries[entry] = own_copy(grown)
        return array

    def _write_matrix(self, entry: Entry, inner: Inner, array: AnyArray) -> None:
        present = self._entry(entry)
        slots = list(inner(self.counts(present.shape)))
        values = [slot for slot in slots if isinstance(slot, int)]
        if len(values) == len(self.auto):
            present = self._grown(entry, values)
        if not slots or len(values) == len(self.auto):
            if array.shape != present.shape:
                self._refuse(self._shown([*entry, *slots]), array.shape, present.shape)
            self.entries[entry] = own_copy(array)
            return
        axis = next(axis for axis, slot in enumerate(slots) if isinstance(slot, int))
        line, extent = values[0], present.shape[axis]
        if not 0 <= line <= extent:
            self._position(self.auto[axis], line, extent)
        if line == extent:
            counts = list(self.counts(present.shape).values())
            counts[axis] += 1
            present = self._grown(entry, counts)
        place = (*(slice(None),) * axis, line)
        if array.shape != present[place].shape:
            self._refuse(self._shown([*entry, *slots]), array.shape, present[place].shape)
        changed = present.copy()
        changed[place] = array
        self.entries[entry] = own_copy(changed)

    def _position(self, name: str, slot: Slot, extent: int) -> NoReturn:
        self._outside(f"position {slot} of {self.name} along {name} is outside 0..{extent}")

    def _same_lines(self, lines: Sequence[Lines]) -> None:
        """Raises StepError OI0607 where numbers that name counts select other lines of each matrix."""
        other = next((each for each in lines if each != lines[0]), None)
        if other is not None:
            raise StepError(
                "OI0607",
                f"the matrices of {self.name} cannot be stacked: {_lines_text(lines[0])} of one and "
                f"{_lines_text(other)} of another are read",
                hint="read them one by one, or let them grow alike first",
            )

    # Messages

    def _shown(self, slots: Sequence[Slot]) -> str:
        return f"{self.name}[{', '.join(str(slot) for slot in slots)}]"

    def _refuse(self, what: str, have: Sequence[int], want: Sequence[int | None]) -> NoReturn:
        raise StepError(
            "OI0602",
            f"{what} takes {self.dtype}{shape_text(want)}, the value has shape {list(have)}",
            hint="write a value of the shape that is stored there",
        )


class Caches:
    """All persistent variables of one step: those of the last one, copied when they are touched."""

    def __init__(self, contents: Contents, kept: Mapping[str, Cache], limit: int) -> None:
        """`kept` is not changed; `limit` is the number of bytes that all may take together."""
        self.contents = contents
        self.limit = limit
        self._kept = kept
        self._own: dict[str, Cache] = {}

    def touch(self, op: VariableOp, base: Base) -> Cache:
        """The cache of a declaration, to read or change. Raises StepError OI0608."""
        name = op.variable.data
        if name not in self._own:
            kept = self._kept.get(name)
            fresh = Cache(op, self.contents, self.check_room)
            self._own[name] = kept.copy(self.check_room) if kept is not None else fresh
        self._own[name].settle(base)
        return self._own[name]

    def find(self, op: VariableOp) -> Cache:
        """The cache of a declaration as it is, only to look at."""
        name = op.variable.data
        return self._own.get(name) or self._kept.get(name) or Cache(op, self.contents)

    def check_room(self, name: str, wanted: int) -> None:
        """Raises StepError OI0609 when `name` may not take so many bytes."""
        others = sum(c.nbytes() for n, c in self.all().items() if n != name)
        if others + wanted > self.limit:
            raise over_limit(name, others + wanted, self.limit)

    def check_shape(self, op: VariableOp, base: Base) -> None:
        """Raises StepError OI0609 for a shape that no memory holds, also an empty one."""
        extents = [extent for extent in base if extent is not None]
        if not memory_holds(extents):
            count = element_count([extent or 1 for extent in extents])
            wanted = DTYPES[dtype_of(op)].nbytes(count)
            raise over_limit(op.variable.data, wanted, self.limit)

    def committed(self) -> dict[str, Cache]:
        """What the next step starts from."""
        for cache in self._own.values():
            cache.room = None  # It leads to the caches of this step, and from there to all before.
        return self.all()

    def all(self) -> dict[str, Cache]:
        """Every cache that has content, those of the last step among them."""
        return {**self._kept, **self._own}


def _lines_text(lines: Lines) -> str:
    shown = [f"{p.start}..{p.stop}" if isinstance(p, slice) else str(p) for p in lines]
    return f"[{', '.join(shown)}]"
