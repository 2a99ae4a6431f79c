"""What a statement touches: every variable by name, and how.

A table is touched in two more ways than a plain variable: a read may make it larger, and a read may
depend on how large it is. Two readers that only do the first, or only the second, never meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.expressions import names_of
from openinfer.compiler.frontend.symbols import Symbol, Symbols, size_or_none

READ, WRITE, GROW, MEASURE = "read", "write", "grow", "measure"


class Access(NamedTuple):
    """One touch of a variable."""

    name: syntax.Name
    kind: str


def conflicts(left: str, right: str) -> bool:
    """Whether two kinds of access to one variable give different results in different orders."""
    return WRITE in (left, right) or {left, right} == {GROW, MEASURE}


def accesses(node: syntax.Node, symbols: Symbols) -> Iterator[Access]:
    """What a node itself touches, not what its body or the blocks that it calls do.

    A use of a variable whose dimensions name scalars reads them.
    """
    for access in _named(node, symbols):
        yield access
        if not isinstance(node, syntax.Return):
            yield from _dimensions(access.name, symbols)


def _dimensions(name: syntax.Name, symbols: Symbols) -> Iterator[Access]:
    """The scalars in the dimensions of a declared variable; a temporary has had them before."""
    symbol = symbols.declared.get(name.text)
    if symbol is None or symbol.type.open or symbol.memory not in ("persistent", "volatile"):
        return
    for dim in symbol.type.dims:
        for used in names_of(dim):
            scalar = symbols.declared.get(used.text)
            if scalar is not None and scalar.scalar and scalar.maybe_integer:
                yield Access(syntax.Name(used.text, name.span), READ)


def _named(node: syntax.Node, symbols: Symbols) -> Iterator[Access]:
    match node:
        case syntax.Assign(name=name, type=type_):
            for dim in type_.dims:
                yield from _sizes(dim, symbols)
            yield Access(name, WRITE)
        case syntax.Op(operands=operands, outputs=outputs, settings=settings):
            for ref in operands:
                yield from _use(ref, READ, symbols)
            for setting in settings:
                yield from _value(setting.value, symbols)
            for ref in outputs:
                yield from _use(ref, WRITE, symbols)
        case syntax.Branch(condition=condition):
            if condition is not None:
                yield from _use(condition, READ, symbols)
        case syntax.Transfer(source=source, target=target):
            yield from _use(source, READ, symbols)
            yield from _use(target, WRITE, symbols)
        case syntax.CacheRead(source=source, target=target):
            yield from _cache_read(source, symbols)
            yield from _use(target, WRITE, symbols)
        case syntax.CacheWrite(source=source, target=target):
            yield from _use(source, READ, symbols)
            yield from _use(target, WRITE, symbols)
        case syntax.CacheReset(target=target):
            yield from _use(target, WRITE, symbols)
        case syntax.CacheStep(variable=variable):
            yield Access(variable, WRITE)
        case syntax.Loop(start=start, stop=stop):
            yield from _sizes(start, symbols)
            yield from _sizes(stop, symbols)
        case syntax.Return(names=names):
            for name in names:
                yield Access(name, READ)
        case _:
            return


def _use(ref: syntax.Ref, kind: str, symbols: Symbols) -> Iterator[Access]:
    yield Access(ref.name, kind)
    for slot in ref.slots or ():
        bounds = [slot.start, slot.stop] if isinstance(slot, syntax.Slice) else [slot]
        for bound in bounds:
            if bound is not None:
                yield from _sizes(bound, symbols)


def _sizes(expression: syntax.Expr, symbols: Symbols) -> Iterator[Access]:
    for name in names_of(expression):
        if symbols.find(name.text) is not None:
            yield Access(name, READ)


def _value(value: syntax.Value, symbols: Symbols) -> Iterator[Access]:
    match value:
        case syntax.Literal():
            return
        case syntax.ListValue(items=items):
            for item in items:
                yield from _value(item, symbols)
        case _:
            yield from _sizes(value, symbols)


def _cache_read(ref: syntax.Ref, symbols: Symbols) -> Iterator[Access]:
    yield from _use(ref, READ, symbols)
    symbol = symbols.find(ref.name.text)
    if symbol is None or not symbol.indices:
        return
    slots = padded(symbol, ref.slots)
    table = len(symbol.table_indices)
    free = [s for s, index in zip(slots, symbol.indices[:table]) if index not in symbol.fixed]
    if any(_may_grow(slot) for slot in free) or _matrix_grows(symbol, slots[table:]):
        yield Access(ref.name, GROW)
    if symbol.auto or any(_measures(slot) for slot in free):
        yield Access(ref.name, MEASURE)


def _may_grow(slot: syntax.Expr | syntax.Slice) -> bool:
    return not isinstance(slot, syntax.Slice) or slot.stop is not None


def _matrix_grows(symbol: Symbol, slots: list[syntax.Expr | syntax.Slice]) -> bool:
    return bool(symbol.auto) and not any(isinstance(slot, syntax.Slice) for slot in slots)


def _measures(slot: syntax.Expr | syntax.Slice) -> bool:
    """Whether a slice ends at the present extent, or counts from it."""
    if not isinstance(slot, syntax.Slice):
        return False
    size = size_or_none(slot.stop) if slot.stop is not None else None
    return size is None or size.constant is None or size.constant < 0


def padded(
    symbol: Symbol, slots: Sequence[syntax.Expr | syntax.Slice] | None
) -> list[syntax.Expr | syntax.Slice]:
    """One slot for each index: those that are missing at the end are full slices."""
    given = list(slots or ())
    missing = len(symbol.indices) - len(given)
    return [*given, *[syntax.Slice(None, None, symbol.span)] * missing]
