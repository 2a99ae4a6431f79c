"""What a persistent variable holds in the simulator: its entries, their shapes and bytes.

Arrays of a cache are never written into: a write replaces an entry, so a copy of a cache shares them
and a failing step leaves the caches of the last one as they were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import NoReturn, Self

import numpy as np

from openinfer.dialects.graph import VariableOp
from openinfer.lowering.program.view import auto_indices, dtype_of, fixed_bounds
from openinfer.lowering.reference.contents import Contents
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import StepError
from openinfer.runtime.sizes import memory_holds
from openinfer.runtime.state import StateValue, dense_bytes
from openinfer.runtime.storage import AnyArray, element_count, to_storage
from openinfer.runtime.tensors import Tensor

Entry = tuple[int, ...]
Base = tuple[int | None, ...]
"""Declared dimensions with their values; None for `_`."""

_MOST_ENTRIES = 1 << 24
"""Each entry is an array of its own here: more take more memory than their bytes say."""


class CacheStorage:
    """The content of one persistent variable: plain, `@table`, `@auto_dim`, or both.

    A plain variable and a lone matrix have the one entry (). An entry that is not there is read as
    the first content of the variable.
    """

    def __init__(
        self, op: VariableOp, contents: Contents, room: Callable[[str, int], None] | None = None
    ) -> None:
        """`room` is asked with the name and the bytes that the variable is about to take."""
        self.op = op
        self.name = op.variable.data
        self.dtype = dtype_of(op)
        self.auto = auto_indices(op)
        self.table = tuple(i.data for i in op.indices if i.data not in self.auto)
        self.fixed = fixed_bounds(op)
        self.contents = contents
        self.room = room
        self.base: Base | None = None
        """The dimensions of an entry: those of the step that first touched the variable."""
        self.declared: Base = ()
        """The same before the first write, with None for `_`."""
        self.reach = [0] * len(self.table)
        """How far each table index is in use, also where the declaration fixes more."""
        self.entries: dict[Entry, AnyArray] = {}

    @property
    def plain(self) -> bool:
        """Whether nothing of it grows."""
        return not self.table and not self.auto

    @property
    def extents(self) -> tuple[int, ...]:
        """What a full slice of each table index covers."""
        return tuple(self.fixed.get(n, e) for n, e in zip(self.table, self.reach))

    def copy(self, room: Callable[[str, int], None] | None = None) -> Self:
        """A cache that changes by itself; the arrays are shared."""
        other = type(self)(self.op, self.contents, room)
        other.base, other.declared = self.base, self.declared
        other.reach, other.entries = [*self.reach], {**self.entries}
        return other

    # Snapshots

    def value(self) -> StateValue:
        """The content in memory of its own."""
        row = DTYPES[self.dtype]
        entries = {
            index: Tensor(row, array.shape, to_storage(row, array).copy())
            for index, array in self.entries.items()
        }
        return StateValue(row, self.extents, entries)

    @classmethod
    def of(cls, op: VariableOp, contents: Contents, value: StateValue) -> Self:
        """The cache with a content that fits the declaration (`check_state`)."""
        cache = cls(op, contents)
        cache.entries = {index: own_copy(t.values()) for index, t in value.entries.items()}
        used = cache._used()
        cache.reach = [
            used[axis] if name in cache.fixed else value.extents[axis]
            for axis, name in enumerate(cache.table)
        ]
        return cache

    # Shapes

    def settle(self, base: Base) -> None:
        """The declared dimensions in this step. Raises StepError OI0608 when they have changed."""
        held = self.base
        if held is None:
            shapes = [array.shape for array in self.entries.values()]
            held = shapes[0] if shapes else base
            if all(self._covers(base, shape) for shape in shapes):
                # An entry settles the open dimensions of a table, those of a plain value stay open.
                self.base = held if self.table and not self.auto else base
                self.declared = base
        if self.base is None or any(b is not None and b != h for b, h in zip(base, self.base)):
            self._other_shape(base, held)

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """Raises StepError OI0608 when the sizes of a step are others than those that it was touched
        with."""
        held = self.base
        if held is None and not self.auto:
            # A snapshot holds no dimensions but those of its entries.
            held = next((array.shape for array in self.entries.values()), None)
        if held is None:
            return
        now = tuple(
            d.evaluate(sizes) if d.names and d.names <= sizes.keys() else None
            for d in self.op.sizes
        )
        if any(n is not None and h is not None and n != h for n, h in zip(now, held)):
            self._other_shape(now, held)

    def _other_shape(self, base: Base, held: Base) -> NoReturn:
        declared = ", ".join(str(dim) for dim in self.op.sizes)
        raise StepError(
            "OI0608",
            f"{self.name}: {self.dtype}[{declared}] is {shape_text(base)} in this step, but holds "
            f"values for {shape_text(held)} from an earlier one",
            hint="call reset() on the executor before a step with other sizes",
        )

    def _covers(self, base: Base, shape: tuple[int, ...]) -> bool:
        """Whether an entry of this shape may belong to a declaration with these dimensions."""
        if len(base) != len(shape):
            return False
        if not self.auto:
            return matches(shape, base)
        bounds = [self.fixed.get(name) for name in self.auto]
        return all(
            b is not None and b <= n and (most is None or n <= b + most)
            for b, n, most in zip(base, shape, bounds)
        )

    def _shape(self) -> tuple[int, ...]:
        """The dimensions of an entry, or of a matrix whose counts are 0."""
        base = self.base or ()
        if any(extent is None for extent in base):
            raise StepError(
                "OI0602",
                f"{self.name} has an open dimension and was not written yet",
                hint="write it before it is read",
            )
        return tuple(extent for extent in base if extent is not None)

    def counts(self, shape: Sequence[int]) -> dict[str, int]:
        """How much a matrix of this shape has grown along each of its indices."""
        return {name: n - b for name, n, b in zip(self.auto, shape, self._shape())}

    # Without a change

    def look(self, base: Base | None, prefix: Entry = ()) -> AnyArray:
        """A dense copy of the entries whose indices start with `prefix`, which must be inside.

        Shape [extents of the other indices.., dims]. `base` are the declared dimensions now, for
        entries that are not there; None only when one is. Raises StepError OI0607 for matrices of
        different shapes, OI0602 for an open dimension without a value, MemoryError.
        """
        twin = self.copy()
        if twin.base is None:
            held = [array.shape for array in self.entries.values()]
            fits = base is not None and all(self._covers(base, shape) for shape in held)
            twin.base = base if fits else held[0]
        rest = self.extents[len(prefix) :]
        if rest and not self.auto and (dense := twin._spread(prefix, rest)) is not None:
            return dense
        pieces = [twin._entry((*prefix, *tail)) for tail in entries_of([range(n) for n in rest])]
        if not rest:
            return pieces[0]
        twin._same_shapes(piece.shape for piece in pieces)
        shape = pieces[0].shape if pieces else twin._shape()
        dense = np.empty((len(pieces), *shape), DTYPES[self.dtype].value)
        for number, piece in enumerate(pieces):
            dense[number] = piece
        return dense.reshape(*rest, *shape)

    def _spread(self, prefix: Entry, rest: Sequence[int]) -> AnyArray | None:
        """What `look` gives where all entries have the declared shape, without making one for each
        index: a table that is read far out has few entries. None where one has another shape."""
        shape, first = self._shape(), len(prefix)
        there = {e[first:]: a for e, a in self.entries.items() if e[:first] == prefix}
        if any(array.shape != shape for array in there.values()):
            return None
        if not memory_holds([*rest, *shape]):
            raise MemoryError
        dense = np.empty((*rest, *shape), DTYPES[self.dtype].value)
        if len(there) < element_count(rest):
            dense[...] = self._blank(shape)
        for entry, array in there.items():
            dense[entry] = array
        return dense

    def _same_shapes(self, shapes: Iterable[tuple[int, ...]]) -> None:
        found = list(dict.fromkeys(shapes))
        if len(found) > 1:
            raise StepError(
                "OI0607",
                f"the matrices of {self.name} cannot be stacked: they have shapes "
                f"{list(found[0])} and {list(found[1])}",
                hint="read them one by one, or let them grow alike first",
            )

    # Entries and bytes

    def _entry(self, entry: Entry) -> AnyArray:
        """An entry, made now when it is not there."""
        if entry not in self.entries:
            shape = self._shape()
            self._claim(self.reach, {entry: shape})
            self.entries[entry] = own_copy(self._blank(shape))
        return self.entries[entry]

    def _blank(self, shape: tuple[int, ...]) -> AnyArray:
        """What an entry holds at first: a table's have `@init` or zeros, never a tensor of the model."""
        if self.table:
            return self.contents.fill(self.op, shape)
        return self.contents.first(self.op, (), shape)

    def _used(self) -> list[int]:
        """How far the entries that are there reach."""
        return [
            max((entry[axis] + 1 for entry in self.entries), default=0)
            for axis in range(len(self.table))
        ]

    def nbytes(
        self, reach: Sequence[int] | None = None, changed: Mapping[Entry, Entry] | None = None
    ) -> int:
        """Bytes of a dense array of all entries, with another reach and other shapes if given."""
        row, shape = DTYPES[self.dtype], tuple(extent or 0 for extent in self.base or ())
        reach = self.reach if reach is None else reach
        if self.table and not self.auto:
            return dense_bytes(row, reach, shape)
        shapes = {entry: array.shape for entry, array in self.entries.items()}
        shapes.update(changed or {})
        present = sum(max(1, row.nbytes(element_count(s))) for s in shapes.values())
        absent = max(0, element_count(reach) - len(shapes)) if self.table else 0
        return present + absent * max(1, row.nbytes(element_count(shape)))

    def _claim(self, reach: Sequence[int], changed: Mapping[Entry, Entry]) -> None:
        if self.room is not None:
            self.room(self.name, self.nbytes(reach, changed))


def entries_of(places: Sequence[int | range]) -> list[Entry]:
    """All combinations of the numbers, in row-major order. Raises MemoryError for too many."""
    if math.prod(1 if isinstance(p, int) else len(p) for p in places) > _MOST_ENTRIES:
        raise MemoryError
    return list(product(*((p,) if isinstance(p, int) else p for p in places)))


def matches(shape: Sequence[int], base: Base) -> bool:
    """Whether a value of this shape may stand where `base` is declared."""
    return len(shape) == len(base) and all(b is None or b == n for b, n in zip(base, shape))


def own_copy(array: AnyArray) -> AnyArray:
    """A copy that nobody can write into."""
    copied = np.array(array, order="C", copy=True)
    copied.flags.writeable = False
    return copied


def shape_text(shape: Sequence[int | None]) -> str:
    return f"[{', '.join('_' if n is None else str(n) for n in shape)}]"
