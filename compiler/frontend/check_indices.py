"""Checks of loop indices against what else their names stand for: sizes, and indices of callers.

An index is known inside the body of its loop only: neither behind it, nor in a block that is called
from there. Elsewhere the same name would be a size, so a program may not have both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.check_consumers import consumer_names
from openinfer.compiler.frontend.expressions import names_of
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.symbols import Symbols
from openinfer.runtime.dtypes import ALIASES, DTYPES


def check_indices(program: syntax.Program, symbols: Symbols, report: Report) -> None:
    """Reports indices that have the name of a size, and uses of a caller's index."""
    uses = _Uses(symbols)
    for section in program.sections:
        for declaration in section.declarations:
            own = {index.text for index in declaration.indices}
            for dim in declaration.type.dims:
                uses.names(names_of(dim), own)
    for name, block in symbols.blocks.items():
        uses.block = name
        uses.nodes(block.body, {})
    callers = uses.indices_of_callers()
    for block, name in uses.free:
        index = callers.get(block, {}).get(name.text)
        if index is not None:
            report.error(
                "OI0260",
                name.span,
                f"`{name.text}` is an index of the caller's loop: a called block does not see the "
                "caller's loop index",
                fix="write the statements into the loop, or use a constant index",
                notes=[("the loop is here", index)],
            )
            continue
        for loop in uses.loops.get(name.text, ()):
            report.error(
                "OI0258",
                loop,
                f"loop index `{name.text}` has the name of a size",
                fix="rename the index",
                notes=[("used as a size here", name.span)],
            )


class _Uses:
    """The loops of every index, and the uses of their names outside of them."""

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self.block = ""
        self.loops: dict[str, list[Span]] = {}
        self.free: list[tuple[str, syntax.Name]] = []
        """Block and name of every use of an index's name outside of the index's loop."""
        self.consumers = consumer_names(symbols)
        self.calls: list[tuple[str, str, dict[str, Span]]] = []
        """Caller, called block, and the indices around the call."""

    def names(self, names: Sequence[syntax.Name], known: set[str]) -> None:
        for name in names:
            if name.text not in self.symbols.loop_indices or name.text in known:
                continue
            # A variable of that name has errors of its own.
            if self.symbols.find(name.text) is None and name.text not in self.symbols.unreadable:
                self.free.append((self.block, name))

    def nodes(self, nodes: Sequence[syntax.Node], around: dict[str, Span]) -> None:
        known = set(around)
        for node in nodes:
            self.names(list(_size_names(node, self.symbols)), known)
            match node:
                case syntax.Loop(index=index, body=body):
                    self.loops.setdefault(index.text, []).append(index.span)
                    self.nodes(body, {**around, index.text: index.span})
                case syntax.Scope(body=body):
                    self.nodes(body, around)
                case syntax.Branch(then_block=then_block, else_block=else_block):
                    for target in (then_block, else_block):
                        if target is not None:
                            self.calls.append((self.block, target.text, around))
                case syntax.Yield():
                    self.calls += [(self.block, name, around) for name in self.consumers]
                case _:
                    pass

    def indices_of_callers(self) -> dict[str, dict[str, Span]]:
        """The indices around the calls of each block, those of the callers' callers included."""
        found: dict[str, dict[str, Span]] = {}
        changed = True
        while changed:
            changed = False
            for caller, called, around in self.calls:
                indices = found.setdefault(called, {})
                for name, span in {**found.get(caller, {}), **around}.items():
                    if name not in indices:
                        indices[name] = span
                        changed = True
        return found


def _size_names(node: syntax.Node, symbols: Symbols) -> Iterator[syntax.Name]:
    """Names in the size expressions of a node itself, not of its body."""
    match node:
        case syntax.Assign(type=type_):
            for dim in type_.dims:
                yield from names_of(dim)
        case syntax.Op(operands=operands, settings=settings):
            for ref in operands:
                yield from _in_ref(ref)
            for setting in settings:
                yield from _in_value(setting.value)
        case syntax.Branch(condition=condition):
            if condition is not None:
                yield from _in_ref(condition)
        case syntax.Transfer():
            yield from _in_ref(node.source)
            yield from _in_ref(node.target)
        case syntax.CacheRead(source=cache, target=other):
            yield from _in_cache(cache, symbols)
            yield from _in_ref(other)
        case syntax.CacheWrite(source=other, target=cache):
            yield from _in_ref(other)
            yield from _in_cache(cache, symbols)
        case syntax.CacheReset(target=target):
            yield from _in_ref(target)
        case syntax.Loop(start=start, stop=stop):
            yield from names_of(start)
            yield from names_of(stop)
        case _:
            return


def _in_ref(ref: syntax.Ref) -> Iterator[syntax.Name]:
    for slot in ref.slots or ():
        bounds = [slot.start, slot.stop] if isinstance(slot, syntax.Slice) else [slot]
        for bound in bounds:
            if bound is not None:
                yield from names_of(bound)


def _in_cache(ref: syntax.Ref, symbols: Symbols) -> Iterator[syntax.Name]:
    """An index that grows a matrix stands for its present count there, if it is nothing else."""
    symbol = symbols.find(ref.name.text)
    for name in _in_ref(ref):
        if symbol is None or name.text not in symbol.auto:
            yield name


def _in_value(value: syntax.Value) -> Iterator[syntax.Name]:
    match value:
        case syntax.Literal():
            return
        case syntax.ListValue(items=items):
            for item in items:
                yield from _in_value(item)
        case syntax.Name(text=text):
            if ALIASES.get(text, text) not in DTYPES:
                yield value
        case _:
            yield from names_of(value)
