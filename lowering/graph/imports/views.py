"""How a chain of reshapes, transposes and slices arranges the elements of a tensor, and the shortest such.

An axis of a tensor is a product of parts: in `[B, L, 4*16]` the last one is 4 heads of 16 numbers each. A
reshape puts parts together and takes them apart, a transpose moves axes, a slice keeps one index of a part.
So two chains of one tensor do the same if they leave the same parts in the same axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from openinfer.runtime.sizes import Size

Dims = tuple[Size, ...]
_ONE = Size.of(1)


@dataclass(eq=False)
class Part:
    """A part of an axis, equal to itself alone."""

    size: Size
    index: int | None = None
    """The one index that slices left, None where all are."""


@dataclass(frozen=True)
class Reshape:
    dims: Dims


@dataclass(frozen=True)
class Transpose:
    order: tuple[int, ...]


@dataclass(frozen=True)
class Slice:
    """The elements from `start` to before `stop` of an axis."""

    axis: int
    start: Size
    stop: Size


Step = Reshape | Transpose | Slice


@dataclass
class View:
    """What a chain has made of a tensor so far."""

    dims: Dims
    """Of the tensor."""
    source: list[list[Part]]
    """The parts of its axes; an axis of one element has none."""
    axes: list[list[Part]]
    """The same parts as the chain has arranged them, without those that are left at one index."""

    @staticmethod
    def of(dims: Dims) -> View:
        """The tensor itself."""
        parts = [[] if dim == _ONE else [Part(dim)] for dim in dims]
        return View(dims, parts, [list(axis) for axis in parts])

    @property
    def result(self) -> Dims:
        return tuple(_size(axis) for axis in self.axes)

    @property
    def keeps_last(self) -> bool:
        """Whether all elements are there, and those of the last axis still are a last axis."""
        whole = all(part.index is None for axis in self.source for part in axis)
        return whole and bool(self.axes) and self.axes[-1] == self.source[-1]

    def with_last(self, size: Size) -> View:
        """The same view of a tensor whose last axis, which this one keeps, has another size."""
        copies = {id(part): Part(part.size) for axis in self.source[:-1] for part in axis}
        last = View.of((size,)).source[0]
        source = [[copies[id(part)] for part in axis] for axis in self.source[:-1]]
        axes = [[copies[id(part)] for part in axis] for axis in self.axes[:-1]]
        return View((*self.dims[:-1], size), [*source, list(last)], [*axes, list(last)])

    def apply(self, step: Step) -> bool:
        """Goes one step on; False, and the view is of no more use, where parts do not tell what it does."""
        match step:
            case Transpose():
                self.axes = [self.axes[axis] for axis in step.order]
                return True
            case Reshape():
                flat = [part for axis in self.axes for part in axis]
                groups = self._grouped(flat, step.dims)
                self.axes = groups or []
                return groups is not None
            case Slice():
                return self._slice(step)

    def _slice(self, step: Slice) -> bool:
        extent, length = _size(self.axes[step.axis]), step.stop - step.start
        count, place = _quotient(extent, length), _quotient(step.start, length)
        if count is None or place is None or count.constant is None or place.constant is None:
            return False
        groups = self._grouped(self.axes[step.axis], (count, length))
        if groups is None or not 0 <= place.constant < count.constant:
            return False
        index, rest = place.constant, count.constant
        for part in groups[0]:
            rest //= part.size.constant or 1
            part.index, index = divmod(index, rest)
        self.axes[step.axis] = groups[1]
        return True

    def _grouped(self, parts: Sequence[Part], dims: Dims) -> list[list[Part]] | None:
        """The parts as axes of these sizes, split where an axis ends within one; None where they do not
        divide."""
        queue, groups = list(parts), list[list[Part]]()
        for dim in dims:
            group, rest = list[Part](), dim
            while rest != _ONE:
                if not queue:
                    return None
                part = queue.pop(0)
                if (left := _quotient(rest, part.size)) is not None:
                    group.append(part)
                    rest = left
                elif (inner := _quotient(part.size, rest)) is not None:
                    outer, behind = Part(rest), Part(inner)
                    for axes in (self.source, self.axes):
                        for axis in axes:
                            axis[:] = [
                                new
                                for old in axis
                                for new in ((outer, behind) if old is part else (old,))
                            ]
                    group.append(outer)
                    queue.insert(0, behind)
                    rest = _ONE
                else:
                    return None
            groups.append(group)
        return None if queue else groups

    # The other way round

    def steps(self, result: Dims) -> tuple[Step, ...] | None:
        """The shortest chain that makes this view, of the shape `result`: slices, a reshape, a transpose, a
        reshape, as far as they are needed. None where a slice would need the axis to be taken apart first."""
        slices = list[Step]()
        shape = list(self.dims)
        for axis, parts in enumerate(self.source):
            fixed = [part for part in parts if part.index is not None]
            if not fixed:
                continue
            if parts[: len(fixed)] != fixed:
                return None
            place = 0
            for part in fixed:
                place = place * (part.size.constant or 1) + (part.index or 0)
            shape[axis] = _size(parts[len(fixed) :])
            start = shape[axis] * place
            slices.append(Slice(axis, start, start + shape[axis]))
        given = [part for axis in self.source for part in axis if part.index is None]
        wanted = [part for axis in self.axes for part in axis]
        if given == wanted:
            return (*slices, *_reshape(shape, result))
        found = [self._turned(given, wanted, shape, result, at) for at in product((1, 0), repeat=2)]
        return (*slices, *min(found, key=len))

    def _turned(
        self,
        given: Sequence[Part],
        wanted: Sequence[Part],
        shape: Sequence[Size],
        result: Dims,
        apart: tuple[int, ...],
    ) -> list[Step]:
        """The steps of a transpose of runs of parts; runs end where axes of the tensor, and of the result,
        begin, if that is `apart`."""
        begins = {
            id(parts[0])
            for axes, at in zip((self.source, self.axes), apart)
            for axis in axes
            if at and (parts := [part for part in axis if part.index is None])
        }
        behind = dict(zip(map(id, wanted), wanted[1:]))
        runs = list[list[Part]]()
        for part in given:
            follows = bool(runs) and behind.get(id(runs[-1][-1])) is part
            if follows and id(part) not in begins:
                runs[-1].append(part)
            else:
                runs.append([part])
        places = {id(part): place for place, part in enumerate(wanted)}
        order = sorted(range(len(runs)), key=lambda run: places[id(runs[run][0])])
        sizes = [_size(run) for run in runs]
        turned = [sizes[run] for run in order]
        return [*_reshape(shape, sizes), Transpose(tuple(order)), *_reshape(turned, result)]


def _reshape(before: Sequence[Size], after: Sequence[Size]) -> list[Step]:
    return [] if tuple(before) == tuple(after) else [Reshape(tuple(after))]


def _size(parts: Sequence[Part]) -> Size:
    return prod((part.size for part in parts), start=_ONE)


def _quotient(size: Size, divisor: Size) -> Size | None:
    """size / divisor where that comes out even whatever the names in them are."""
    if divisor == Size.of(0):
        return None
    found = size // divisor
    return found if found * divisor == size else None
