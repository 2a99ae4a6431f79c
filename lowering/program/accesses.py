"""What a node touches: every variable by name, and how.

A table is touched in two more ways than a plain variable: a read may make it larger, and a read may
depend on how large it is. Two readers that only do the first, or only the second, never meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, Operation

from openinfer.dialects.graph import (
    AssignOp,
    AwaitOp,
    BranchOp,
    CacheReadOp,
    CacheResetOp,
    CacheStepOp,
    CacheWriteOp,
    LoopOp,
    NameAttr,
    OpOp,
    RefAttr,
    ReturnOp,
    SizeAttr,
    SliceAttr,
    TransferOp,
    YieldOp,
)
from openinfer.lowering.program.check_caches import padded
from openinfer.lowering.program.names import Names, Variable
from openinfer.lowering.program.places import Part, Place, Places
from openinfer.runtime.sizes import Size

READ, WRITE, GROW, MEASURE = "read", "write", "grow", "measure"


class Mention(NamedTuple):
    """A name in a node, and where it stands."""

    name: str
    where: Place


class Access(NamedTuple):
    """One touch of a variable."""

    name: str
    where: Place
    kind: str


def conflicts(left: str, right: str) -> bool:
    """Whether two kinds of access to one variable give different results in different orders."""
    return WRITE in (left, right) or {left, right} == {GROW, MEASURE}


class Accesses:
    """Finds the names in nodes."""

    def __init__(self, names: Names, places: Places) -> None:
        self.names = names
        self.places = places

    def of(self, node: Operation) -> Iterator[Access]:
        """What a node itself touches, not what its body or the blocks that it calls do.

        A use of a variable whose dimensions name scalars reads them.
        """
        for access in self._named(node):
            yield access
            if not isinstance(node, ReturnOp):
                yield from self._dimensions(access)

    def used(self, node: Operation) -> Iterator[Mention]:
        """The names of variables in a node, in its text and not in its body."""
        if isinstance(node, AssignOp):
            yield from self._dims(node)
        for ref, part, _ in _refs(node):
            yield Mention(ref.variable.data, self.places.of(node, (*part, "name")))
            yield from self.slots(ref, node, part)
        match node:
            case OpOp():
                for key, value in node.settings.data.items():
                    if isinstance(value, NameAttr):
                        yield Mention(value.data, self.places.of(node, ("settings", key)))
            case LoopOp() | CacheStepOp():
                yield from self._bounds(node)
            case ReturnOp() | YieldOp() | AwaitOp():
                for position, name in enumerate(node.names):
                    yield Mention(name, self.places.of(node, ("names", position)))
            case _:
                pass

    def slots(self, ref: RefAttr, node: Operation, part: Part) -> Iterator[Mention]:
        """The names in the brackets of a use."""
        for position, slot in enumerate(ref.indices):
            here = (*part, position)
            if isinstance(slot, SizeAttr):
                yield from self.sizes(slot.data, node, here)
            elif isinstance(slot, SliceAttr):
                for which, bound in (("start", slot.start), ("stop", slot.stop)):
                    if isinstance(bound, SizeAttr):
                        yield from self.sizes(bound.data, node, (*here, which))

    def value(self, value: Attribute, node: Operation, part: Part) -> Iterator[Mention]:
        """The names in the value of a setting."""
        match value:
            case ArrayAttr(data=items):
                for position, item in enumerate(items):
                    yield from self.value(item, node, (*part, position))
            case NameAttr(data=name):
                yield Mention(name, self.places.of(node, part))
            case SizeAttr(data=size):
                yield from self.sizes(size, node, part)
            case _:
                return

    def sizes(self, size: Size, node: Operation, part: Part) -> Iterator[Mention]:
        for name, place in self.places.names_in(node, part, size):
            yield Mention(name, place)

    def in_sizes(self, node: Operation) -> Iterator[Mention]:
        """The names in the size expressions of a node itself."""
        if isinstance(node, AssignOp):
            yield from self._dims(node)
        for ref, part, written in _refs(node):
            if written and isinstance(node, OpOp):
                continue
            # An index that grows a matrix stands for its present count, if it is nothing else.
            variable = self.names.find(ref.variable.data)
            moves = isinstance(node, CacheReadOp | CacheWriteOp)
            auto = variable.auto if moves and variable is not None else ()
            yield from (m for m in self.slots(ref, node, part) if m.name not in auto)
        if isinstance(node, OpOp):
            for key, value in node.settings.data.items():
                yield from self.value(value, node, ("settings", key))
        elif isinstance(node, LoopOp | CacheStepOp):
            yield from self._bounds(node)

    def _dims(self, node: AssignOp) -> Iterator[Mention]:
        for axis, dim in enumerate(node.sizes):
            yield from self.sizes(dim, node, ("dims", axis))

    def _bounds(self, node: LoopOp | CacheStepOp) -> Iterator[Mention]:
        """The names in the bounds of a loop, or in the amount that is counted by."""
        if isinstance(node, CacheStepOp):
            yield from self.sizes(node.amount.data, node, ("amount",))
            return
        yield from self.sizes(node.start.data, node, ("start",))
        yield from self.sizes(node.stop.data, node, ("stop",))

    def _dimensions(self, access: Access) -> Iterator[Access]:
        """The scalars in the dimensions of a declared variable; a temporary has had them before."""
        op = self.names.variables.get(access.name)
        if op is None or op.memory.data not in ("persistent", "volatile"):
            return
        for dim in op.sizes:
            for name in sorted(dim.names):
                scalar = self.names.find(name) if name in self.names.variables else None
                if scalar is not None and scalar.scalar and scalar.maybe_integer:
                    yield Access(name, access.where, READ)

    def _named(self, node: Operation) -> Iterator[Access]:
        match node:
            case AssignOp():
                yield from self._read(self._dims(node))
                yield Access(node.variable.data, self.places.of(node, ("name",)), WRITE)
            case LoopOp():
                yield from self._read(self._bounds(node))
            case CacheStepOp():
                yield from self._read(self._bounds(node))
                yield Access(node.variable.data, self.places.of(node, ("variable",)), WRITE)
            case ReturnOp():
                for position, name in enumerate(node.names):
                    yield Access(name, self.places.of(node, ("names", position)), READ)
            case _:
                pass
        for ref, part, written in _refs(node):
            where = self.places.of(node, (*part, "name"))
            yield Access(ref.variable.data, where, WRITE if written else READ)
            yield from self._read(self.slots(ref, node, part))
            if isinstance(node, CacheReadOp) and not written:
                for kind in self._cache_read(ref):
                    yield Access(ref.variable.data, where, kind)
        if isinstance(node, OpOp):
            for key, value in node.settings.data.items():
                yield from self._read(self.value(value, node, ("settings", key)))

    def _read(self, mentions: Iterator[Mention]) -> Iterator[Access]:
        for name, where in mentions:
            if self.names.find(name) is not None:
                yield Access(name, where, READ)

    def _cache_read(self, ref: RefAttr) -> Iterator[str]:
        """Whether a read makes a table larger, and whether it depends on how large it is."""
        variable = self.names.find(ref.variable.data)
        if variable is None or not variable.indices:
            return
        slots = padded(variable, ref.indices.data)
        count = len(variable.table_indices)
        free = [s for s, i in zip(slots, variable.indices[:count]) if i not in variable.fixed]
        if any(_may_grow(slot) for slot in free) or _matrix_grows(variable, slots[count:]):
            yield GROW
        if variable.auto or any(_measures(slot) for slot in free):
            yield MEASURE


def _refs(node: Operation) -> Iterator[tuple[RefAttr, Part, bool]]:
    """The uses of variables in a node, with their parts, and whether they are written."""
    match node:
        case OpOp():
            for position, operand in enumerate(node.inputs):
                if isinstance(operand, RefAttr):
                    yield operand, ("inputs", position), False
            for position, ref in enumerate(node.outputs):
                yield ref, ("outputs", position), True
        case BranchOp():
            if node.condition is not None:
                yield node.condition, ("condition",), False
        case TransferOp() | CacheReadOp() | CacheWriteOp():
            yield node.source, ("source",), False
            yield node.target, ("target",), True
        case CacheResetOp():
            yield node.target, ("target",), True
        case _:
            return


def _may_grow(slot: Attribute) -> bool:
    return not isinstance(slot, SliceAttr) or isinstance(slot.stop, SizeAttr)


def _matrix_grows(variable: Variable, slots: list[Attribute]) -> bool:
    return bool(variable.auto) and not any(isinstance(slot, SliceAttr) for slot in slots)


def _measures(slot: Attribute) -> bool:
    """Whether a slice ends at the present extent, or counts from it."""
    if not isinstance(slot, SliceAttr):
        return False
    stop = slot.stop.data.constant if isinstance(slot.stop, SizeAttr) else None
    return stop is None or stop < 0
