"""Checks of cache operations: what they may touch, how many slots, and what they move."""

from __future__ import annotations

from collections.abc import Sequence

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.build import is_full
from openinfer.compiler.frontend.check_sizes import check_size
from openinfer.compiler.frontend.check_uses import UseChecker
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.symbols import TEMPORARY, Symbol
from openinfer.runtime.sizes import Size

Slots = Sequence[syntax.Expr | syntax.Slice]
Dims = Sequence[Size | None]


class CacheChecker(UseChecker):
    """Checks the five cache operations."""

    def cache_read(self, node: syntax.CacheRead) -> None:
        source = self.persistent(node.source)
        target = self.write(node.target)
        if source is not None and target is not None:
            shape = value_dims(source, node.source.slots)
            self.moved(node.span, source, shape, target, target.dims, "cache.read")

    def cache_write(self, node: syntax.CacheWrite) -> None:
        source = self.read(node.source)
        target = self.persistent(node.target)
        if target is None or not self.writable(target, node.target):
            return
        if source is not None and (not source.indices or source.memory != "persistent"):
            shape = value_dims(target, node.target.slots)
            self.moved(node.span, source, source.dims, target, shape, "cache.write")

    def cache_step(self, node: syntax.CacheStep) -> None:
        """`cache.increment` and `cache.decrement`."""
        form = "cache.increment" if node.amount >= 0 else "cache.decrement"
        variable = node.variable
        symbol = self.persistent(syntax.Ref(variable, None, variable.span))
        if symbol is None or symbol.memory != "persistent":
            return
        note = [("declared here", symbol.type.span)]
        if symbol.indices or not all(d is not None and d.constant == 1 for d in symbol.dims):
            self.report.error(
                "OI0222",
                variable.span,
                f"`{form}` counts a persistent scalar, `{variable.text}` "
                f"{'is a table' if symbol.indices else 'has dimensions'}",
                fix="use an op and `cache.write`",
                notes=note,
            )
        elif symbol.dtype is not None and (
            symbol.dtype.bits < 8 or not (symbol.dtype.is_integer or symbol.dtype.is_float)
        ):
            self.report.error(
                "OI0223",
                variable.span,
                f"`{form}` cannot count in {symbol.dtype}",
                fix="declare it with a float dtype, or an integer one of 8 bits or more",
                notes=note,
            )

    def cache_reset(self, target: syntax.Ref) -> None:
        symbol = self.persistent(target)
        if symbol is None or symbol.memory != "persistent" or not target.slots:
            return
        for slot in target.slots:
            if isinstance(slot, syntax.Slice):
                self.report.error(
                    "OI0235",
                    target.span,
                    f"`cache.reset` takes single indices of `{symbol.name}`, no slices",
                    fix=f"reset one entry, or all of it: `cache.reset {symbol.name};`",
                )
                return
        if symbol.indices and len(target.slots) > len(symbol.table_indices):
            self.report.error(
                "OI0235",
                target.span,
                f"`cache.reset` clears a whole matrix of `{symbol.name}`: the indices of @auto_dim "
                "select nothing here",
                fix=f"cache.reset {_prefix(symbol)};",
                notes=[("declared here", symbol.span)],
            )

    # The operand of a cache operation.

    def persistent(self, ref: syntax.Ref) -> Symbol | None:
        """The variable that a cache operation works on, with its slots checked."""
        symbol = self.variable(ref.name)
        for slot in ref.slots or ():
            if isinstance(slot, syntax.Slice):
                self.slice(slot)
            else:
                self.index(slot)
        if symbol is None:
            return None
        count = len(ref.slots or ())
        if symbol.memory != "persistent":
            kind = "a temporary" if symbol.memory == TEMPORARY else symbol.memory
            self.report.error(
                "OI0221",
                ref.name.span,
                f"`cache.*` works on persistent variables, `{ref.name.text}` is {kind}",
                fix="declare it in `persistent { … }`, or use an op or `transfer`",
                notes=[("declared here", symbol.span)],
            )
            return None
        if count and not symbol.indices:
            self.no_indices(symbol, ref)
            return None
        if count > len(symbol.indices):
            self.index_count(symbol, ref.span, count)
            return None
        self.bounds(symbol, ref)
        return symbol

    def slice(self, slot: syntax.Slice) -> None:
        """`a..b`: the start is not negative, and not behind an end that is none."""
        sizes = [
            None if bound is None else check_size(bound, self.symbols, self.report, "an index")
            for bound in (slot.start, slot.stop)
        ]
        low, high = (None if size is None else size.constant for size in sizes)
        if low is not None and low < 0:
            self.report.error(
                "OI0309",
                slot.span,
                f"a slice cannot start at {low}",
                fix="only the end of a slice counts from the back",
            )
        elif high is not None and low is not None and 0 <= high < low:
            self.report.error(
                "OI0238",
                slot.span,
                f"the slice {low}..{high} ends before it starts",
                fix=f"write `{high}..{low}`",
            )

    def bounds(self, symbol: Symbol, ref: syntax.Ref) -> None:
        """Constant slots within the bounds of `@fixed`."""
        slots = ref.slots or ()
        grows = len(slots) == len(symbol.indices) and not any(
            isinstance(slot, syntax.Slice) for slot in slots[len(symbol.table_indices) :]
        )
        for index, slot in zip(symbol.indices, slots):
            bound = symbol.fixed.get(index)
            written = slot.stop if isinstance(slot, syntax.Slice) else slot
            if bound is None or not isinstance(written, syntax.Number):
                continue
            if index in symbol.auto and not grows:
                continue  # a row or column of the matrix, which starts with rows of its own
            if written.value > (bound if index in symbol.auto else bound - 1 + _is_slice(slot)):
                self.report.error(
                    "OI0239",
                    written.span,
                    f"{index} = {written.value} is beyond @fixed({index}={bound}) of "
                    f"`{symbol.name}`",
                    fix="make the bound larger, or use a smaller index",
                    notes=[("declared here", symbol.span)],
                )

    def writable(self, symbol: Symbol, ref: syntax.Ref) -> bool:
        """One entry, or one slice of entries; of a growing matrix the whole, a row or a column."""
        if not symbol.indices:
            return True
        count = len(symbol.table_indices)
        slots = padded(symbol, ref.slots)
        slices = sum(isinstance(slot, syntax.Slice) for slot in slots[:count])
        if slices > (0 if symbol.auto else 1):
            most = "a single index" if symbol.auto else "single indices and at most one slice"
            self.report.error(
                "OI0234",
                ref.span,
                f"a write to `{symbol.name}` takes {most} of its table, got {slices} "
                f"{'slice' if slices == 1 else 'slices'}",
                fix="write one entry at a time, in a loop",
                notes=[("declared here", symbol.span)],
            )
            return False
        parts = slots[count:]
        singles = sum(not isinstance(slot, syntax.Slice) for slot in parts)
        whole = len(ref.slots or ()) <= count or singles == len(parts)
        line = singles == 1 and all(
            is_full(slot) for slot in parts if isinstance(slot, syntax.Slice)
        )
        if parts and not whole and not line:
            self.report.error(
                "OI0236",
                ref.span,
                f"a write to `{symbol.name}` stores the whole matrix, one row or one column",
                fix=f"write `{symbol.name}[{', '.join(symbol.indices)}]`, or leave all but one "
                "slot empty",
                notes=[("declared here", symbol.span)],
            )
            return False
        return True

    # Values that are moved.

    def moved(
        self, span: Span, source: Symbol, left: Dims | None, target: Symbol, right: Dims | None,
        what: str,
    ) -> None:  # fmt: skip
        """A value of shape `left` goes where `right` is: same dtype, same dimensions."""
        problem = None
        if source.type.open or target.type.open:
            return
        if source.dtype and target.dtype and source.dtype != target.dtype:
            problem = f"dtype {source.dtype} into {target.dtype}"
        elif left is None or right is None:
            return
        elif len(left) != len(right):
            problem = f"{_count(left)} into {_count(right)}"
        else:
            for have, want in zip(left, right):
                if have and want and _never_equal(have.constant, want.constant):
                    problem = f"size {have} into {want}"
        if problem:
            self.report.error(
                "OI0312",
                span,
                f"{what} of {problem}: it changes neither dtype nor shape",
                fix="use `op cast`, `op reshape` or another op, or declare both alike",
                notes=[
                    (f"`{source.name}` is declared here", source.type.span),
                    (f"`{target.name}` is declared here", target.type.span),
                ],
            )


def padded(symbol: Symbol, slots: Slots | None) -> list[syntax.Expr | syntax.Slice]:
    """One slot for each index: those that are missing at the end are full slices."""
    given = list(slots or ())
    missing = len(symbol.indices) - len(given)
    return [*given, *[syntax.Slice(None, None, symbol.span)] * missing]


def value_dims(symbol: Symbol, slots: Slots | None) -> Dims | None:
    """The shape that an access reads or writes; None for an extent that only a step knows.

    None as a whole when not even the number of dimensions is known.
    """
    if symbol.rank is None:
        return None
    count = len(symbol.table_indices)
    all_slots = padded(symbol, slots)
    lengths: list[Size | None] = [
        None for slot in all_slots[:count] if isinstance(slot, syntax.Slice)
    ]
    if not symbol.auto:
        return [*lengths, *symbol.dims]
    parts = all_slots[count:]
    whole = not any(isinstance(slot, syntax.Slice) for slot in parts)
    kept = len(parts) if whole else sum(isinstance(slot, syntax.Slice) for slot in parts)
    return [*lengths, *[None] * kept]


def _prefix(symbol: Symbol) -> str:
    indices = ", ".join(symbol.table_indices)
    return f"{symbol.name}[{indices}]" if indices else symbol.name


def _count(dims: Dims) -> str:
    return "a scalar" if not dims else f"{len(dims)} dimension{'s' if len(dims) > 1 else ''}"


def _is_slice(slot: syntax.Expr | syntax.Slice) -> bool:
    return isinstance(slot, syntax.Slice)


def _never_equal(left: int | None, right: int | None) -> bool:
    return left is not None and right is not None and left != right
