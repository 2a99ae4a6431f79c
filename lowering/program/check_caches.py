"""Checks of cache operations: what they may touch, how many slots, and what they move."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation

from openinfer.dialects.graph import (
    CacheReadOp,
    CacheResetOp,
    CacheStepOp,
    CacheWriteOp,
    RefAttr,
    SizeAttr,
    SliceAttr,
)
from openinfer.lowering.program.check_uses import UseChecks, is_full
from openinfer.lowering.program.names import TEMPORARY, Variable
from openinfer.lowering.program.places import Part
from openinfer.runtime.sizes import Size

Dims = Sequence[Size | None]
"""A shape as far as it is known before a run."""
_FULL = SliceAttr(StringAttr(""), StringAttr(""))


class CacheChecks(UseChecks):
    """Checks the five cache operations."""

    growing: tuple[str, ...] = ()
    """The indices that stand for their present count in the slot at hand, if they are nothing else."""

    def cache(self, node: CacheReadOp | CacheWriteOp | CacheStepOp | CacheResetOp) -> None:
        match node:
            case CacheReadOp():
                self.cache_read(node)
            case CacheWriteOp():
                self.cache_write(node)
            case CacheStepOp():
                self.cache_step(node)
            case CacheResetOp():
                self.cache_reset(node)

    def cache_read(self, node: CacheReadOp) -> None:
        source = self.persistent(node.source, node, ("source",))
        target = self.write(node.target, node, ("target",))
        if source is not None and target is not None:
            shape = self.value_dims(source, node.source.indices.data)
            lead = _lead(source, shape)
            self.moved(node, source, shape, target, self.shape(target), "cache.read", lead)

    def cache_write(self, node: CacheWriteOp) -> None:
        source = self.read(node.source, node, ("source",))
        target = self.persistent(node.target, node, ("target",))
        if target is None or not self.writable(target, node):
            return
        if source is not None and (not source.indices or source.memory != "persistent"):
            shape = self.value_dims(target, node.target.indices.data)
            lead = _lead(target, shape)
            self.moved(node, source, self.shape(source), target, shape, "cache.write", lead)

    def cache_step(self, node: CacheStepOp) -> None:
        """`cache.increment` and `cache.decrement`."""
        form = "cache.decrement" if node.counted[0] else "cache.increment"
        self.size(node.amount.data, node, ("amount",), "an amount")
        name = node.variable.data
        variable = self.persistent(RefAttr.of(name), node, ("variable",))
        if variable is None:
            return
        dtype = variable.dtype
        if variable.indices or not all(d is not None and d.constant == 1 for d in variable.dims):
            self.error(
                "OI0222",
                node,
                ("variable",),
                f"`{form}` counts a persistent scalar, `{name}` "
                f"{'is a table' if variable.indices else 'has dimensions'}",
                "use an op and `cache.write`",
                self.typed(variable),
            )
        elif dtype is not None and (dtype.bits < 8 or not (dtype.is_integer or dtype.is_float)):
            self.error(
                "OI0223",
                node,
                ("variable",),
                f"`{form}` cannot count in {dtype}",
                "declare it with a float dtype, or an integer one of 8 bits or more",
                self.typed(variable),
            )

    def cache_reset(self, node: CacheResetOp) -> None:
        variable, slots = self.persistent(node.target, node, ("target",)), node.target.indices.data
        if variable is None or not slots:
            return
        if any(isinstance(slot, SliceAttr) for slot in slots):
            self.error(
                "OI0235",
                node,
                ("target",),
                f"`cache.reset` takes single indices of `{variable.name}`, no slices",
                f"reset one entry, or all of it: `cache.reset {variable.name};`",
            )
        elif variable.indices and len(slots) > len(variable.table_indices):
            indices = ", ".join(variable.table_indices)
            self.error(
                "OI0235",
                node,
                ("target",),
                f"`cache.reset` clears a whole matrix of `{variable.name}`: the indices of "
                "@auto_dim select nothing here",
                f"cache.reset {variable.name}{f'[{indices}]' if indices else ''};",
                self.declared(variable),
            )

    # The operand of a cache operation.

    def persistent(self, ref: RefAttr, node: Operation, part: Part) -> Variable | None:
        """The variable that a cache operation works on, with its slots checked."""
        name = ref.variable.data
        variable = self.variable(name, node, (*part, "name"))
        count = len(ref.indices)
        for position, slot in enumerate(ref.indices):
            if variable is not None and position >= len(variable.indices) - len(variable.auto):
                self.growing = variable.auto
            if isinstance(slot, SliceAttr):
                self.slice(slot, node, (*part, position))
            else:
                self.index(slot, node, (*part, position))
        self.growing = ()
        if variable is None:
            return None
        if variable.memory != "persistent":
            kind = "a temporary" if variable.memory == TEMPORARY else variable.memory
            self.error(
                "OI0221",
                node,
                (*part, "name"),
                f"`cache.*` works on persistent variables, `{name}` is {kind}",
                "declare it in `persistent { … }`, or use an op or `transfer`",
                self.declared(variable),
            )
            return None
        if count and not variable.indices:
            self.no_indices(variable, node, part)
            return None
        if count > len(variable.indices):
            self.index_count(variable, node, part, count)
            return None
        self.bounds(variable, ref, node, part)
        return variable

    def slice(self, slot: SliceAttr, node: Operation, part: Part) -> None:
        """`a..b`: the start is not negative, and does not exceed the end where both are known."""
        low, high = None, None
        if isinstance(slot.start, SizeAttr):
            self.size(slot.start.data, node, (*part, "start"), "an index")
            low = slot.start.data.constant
        if isinstance(slot.stop, SizeAttr):
            self.size(slot.stop.data, node, (*part, "stop"), "an index")
            high = slot.stop.data.constant
        if low is not None and low < 0:
            self.error(
                "OI0309",
                node,
                part,
                f"a slice cannot start at {low}",
                "only the end of a slice counts from the back",
            )
        elif high is not None and low is not None and 0 <= high < low:
            self.error(
                "OI0238",
                node,
                part,
                f"the slice {low}..{high} ends before it starts",
                f"write `{high}..{low}`",
            )

    def bounds(self, variable: Variable, ref: RefAttr, node: Operation, part: Part) -> None:
        """Constant slots within the bounds of `@fixed`."""
        slots = ref.indices.data
        grows = len(slots) == len(variable.indices) and not any(
            isinstance(slot, SliceAttr) for slot in slots[len(variable.table_indices) :]
        )
        for position, (index, slot) in enumerate(zip(variable.indices, slots)):
            bound, is_slice = variable.fixed.get(index), isinstance(slot, SliceAttr)
            written = slot.stop if isinstance(slot, SliceAttr) else slot
            value = written.data.constant if isinstance(written, SizeAttr) else None
            if bound is None or value is None:
                continue
            if index in variable.auto and not grows:
                continue  # a row or column of the matrix, which starts with rows of its own
            if value > (bound if index in variable.auto else bound - 1 + is_slice):
                self.error(
                    "OI0239",
                    node,
                    (*part, position, "stop"),
                    f"{index} = {value} is beyond @fixed({index}={bound}) of `{variable.name}`",
                    "make the bound larger, or use a smaller index",
                    self.declared(variable),
                )

    def writable(self, variable: Variable, node: CacheWriteOp) -> bool:
        """One entry, or one slice of entries; of a growing matrix the whole, a row or a column."""
        if not variable.indices:
            return True
        given, name = node.target.indices.data, variable.name
        count, slots = len(variable.table_indices), padded(variable, given)
        slices = sum(isinstance(slot, SliceAttr) for slot in slots[:count])
        if slices > (0 if variable.auto else 1):
            most = "a single index" if variable.auto else "single indices and at most one slice"
            self.error(
                "OI0234",
                node,
                ("target",),
                f"a write to `{name}` takes {most} of its table, got {slices} "
                f"{'slice' if slices == 1 else 'slices'}",
                "write one entry at a time, in a loop",
                self.declared(variable),
            )
            return False
        parts = slots[count:]
        singles = sum(not isinstance(slot, SliceAttr) for slot in parts)
        whole = len(given) <= count or singles == len(parts)
        full = all(is_full(slot) for slot in parts if isinstance(slot, SliceAttr))
        if parts and not whole and not (singles == 1 and full):
            self.error(
                "OI0236",
                node,
                ("target",),
                f"a write to `{name}` stores the whole matrix, one row or one column",
                f"write `{name}[{', '.join(variable.indices)}]`, or leave all but one slot empty",
                self.declared(variable),
            )
            return False
        return True

    # Values that are moved.

    def shape(self, variable: Variable) -> Dims | None:
        """The shape of a plain use; None when not even the number of dimensions is known."""
        return None if variable.rank is None else variable.dims

    def value_dims(self, variable: Variable, slots: Sequence[Attribute]) -> Dims | None:
        """The shape that an access reads or writes; None for an extent that only a step knows.

        None as a whole when not even the number of dimensions is known.
        """
        if variable.rank is None:
            return None
        count = len(variable.table_indices)
        every = padded(variable, slots)
        lengths = [self.length(slot) for slot in every[:count] if isinstance(slot, SliceAttr)]
        if not variable.auto:
            return [*lengths, *variable.dims]
        parts = every[count:]
        whole = not any(isinstance(slot, SliceAttr) for slot in parts)
        kept = len(parts) if whole else sum(isinstance(slot, SliceAttr) for slot in parts)
        return [*lengths, *[None] * kept]

    def length(self, slot: SliceAttr) -> Size | None:
        """How many entries a slice has, when its numbers say so."""
        low = self.known(slot.start.data) if isinstance(slot.start, SizeAttr) else 0
        high = self.known(slot.stop.data) if isinstance(slot.stop, SizeAttr) else None
        if low is None or high is None or not 0 <= low <= high:
            return None
        return Size.of(high - low)

    def moved(
        self, node: Operation, source: Variable, left: Dims | None, target: Variable,
        right: Dims | None, what: str, lead: int = 0,
    ) -> None:  # fmt: skip
        """A value of shape `left` goes where `right` is: same dtype, same dimensions.

        The first `lead` dimensions are lengths of slices, which the step compares.
        """
        if source.open or target.open:
            return
        problem = None
        if source.dtype and target.dtype and source.dtype != target.dtype:
            problem = f"dtype {source.dtype} into {target.dtype}"
        elif left is None or right is None:
            return
        elif len(left) != len(right):
            problem = f"{_count(left)} into {_count(right)}"
        else:
            exact = what == "transfer" and None not in (*left, *right)
            for axis, (have, want) in enumerate(zip(left, right)):
                if have is None or want is None or have == want:
                    continue
                numbers = None not in (have.constant, want.constant)
                if numbers or (axis >= lead and self.differ(have, want, exact=exact)):
                    problem = f"size {have} into {want}"
        if problem:
            self.error(
                "OI0312",
                node,
                (),
                f"{what} of {problem}: it changes neither dtype nor shape",
                "use `op cast`, `op reshape` or another op, or declare both alike",
                self.typed(source, f"`{source.name}` is declared here"),
                self.typed(target, f"`{target.name}` is declared here"),
            )

    def differ(self, left: Size, right: Size, *, exact: bool) -> bool:
        """Whether two extents that are no numbers differ. Without a package nobody knows."""
        return False


def _lead(variable: Variable, shape: Dims | None) -> int:
    """How many dimensions of an access are lengths of slices."""
    if shape is None:
        return 0
    return len(shape) if variable.auto else len(shape) - len(variable.dims)


def padded(variable: Variable, slots: Sequence[Attribute]) -> list[Attribute]:
    """One slot for each index: those that are missing at the end are full slices."""
    return [*slots, *[_FULL] * (len(variable.indices) - len(slots))]


def _count(dims: Dims) -> str:
    return "a scalar" if not dims else f"{len(dims)} dimension{'s' if len(dims) > 1 else ''}"
