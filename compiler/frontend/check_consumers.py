"""Checks of the blocks that take part in `yield` and `await`, each by itself and two by two.

A consumer is a block other than `entry` that starts with `await`; it ends with `yield`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.accesses import READ, WRITE, Access, accesses, conflicts
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.symbols import Symbols
from openinfer.compiler.frontend.syntax import walk

Touched = Mapping[str, Mapping[str, syntax.Name]]
"""Variable → kind of access → the first name in text that does it."""


@dataclass(frozen=True)
class Consumer:
    """A block that awaits values of entry."""

    block: syntax.Block
    awaited: syntax.Await
    touched: Touched

    @property
    def name(self) -> str:
        return self.block.name.text

    @property
    def values(self) -> set[str]:
        return {name.text for name in self.awaited.names}


def consumer_names(symbols: Symbols) -> list[str]:
    """The blocks that are consumers, by name."""
    return [
        name
        for name, block in symbols.blocks.items()
        if name != "entry" and block.body and isinstance(block.body[0], syntax.Await)
    ]


def find_consumers(symbols: Symbols) -> dict[str, Consumer]:
    """All consumers with what they touch."""
    found: dict[str, Consumer] = {}
    for name in consumer_names(symbols):
        block = symbols.blocks[name]
        awaited = block.body[0]
        assert isinstance(awaited, syntax.Await)
        touched = {v: dict(kinds) for v, kinds in touched_by(symbols, [name]).items()}
        for value in awaited.names:
            touched.setdefault(value.text, {}).setdefault(READ, value)
        found[name] = Consumer(block, awaited, touched)
    return found


def touched_by(symbols: Symbols, names: list[str]) -> dict[str, dict[str, syntax.Name]]:
    """Everything that some blocks touch, the blocks that they call included."""
    found: dict[str, dict[str, syntax.Name]] = {}
    seen: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in seen or name not in symbols.blocks:
            continue
        seen.add(name)
        for node in walk(symbols.blocks[name].body):
            for access in accesses(node, symbols):
                found.setdefault(access.name.text, {}).setdefault(access.kind, access.name)
            if isinstance(node, syntax.Branch):
                todo += [t.text for t in (node.then_block, node.else_block) if t is not None]
    return found


def check_consumers(symbols: Symbols, consumers: Mapping[str, Consumer], report: Report) -> None:
    """The shape of every block, calls of consumers, and values with two writers."""
    for name, block in symbols.blocks.items():
        if name in consumers:
            _check_shape(consumers[name], report)
        elif name != "entry":
            _check_plain(block, report)
        for node in walk(block.body):
            if isinstance(node, syntax.Branch):
                for target in (node.then_block, node.else_block):
                    if target is not None and target.text in consumers:
                        report.error(
                            "OI0248",
                            target.span,
                            f"block `{target.text}` awaits values, so it cannot be called",
                            fix="it runs when `entry` yields the values; remove the branch",
                            notes=[("it awaits here", consumers[target.text].awaited.span)],
                        )
    _check_writers(consumers, report)


def _check_plain(block: syntax.Block, report: Report) -> None:
    for node in walk(block.body):
        if isinstance(node, syntax.Await):
            report.error(
                "OI0247",
                node.span,
                f"`await` stands in the middle of block `{block.name.text}`",
                fix="a block that consumes values starts with `await`",
            )
            return
        if isinstance(node, syntax.Yield):
            report.error(
                "OI0247",
                node.span,
                f"`yield` in block `{block.name.text}`, which does not start with `await`",
                fix="end the block with `return;`, or start it with `await`",
            )
            return


def _check_shape(consumer: Consumer, report: Report) -> None:
    """Starts with its only `await`, ends with its only `yield` of the same values."""
    nodes = list(walk(consumer.block.body))
    last = nodes[-1]
    note = [("it awaits here", consumer.awaited.span)]
    listed = ", ".join(name.text for name in consumer.awaited.names)
    for node in nodes[1:]:
        if isinstance(node, syntax.Broken):
            return
        if isinstance(node, syntax.Await):
            report.error(
                "OI0247",
                node.span,
                f"block `{consumer.name}` awaits a second time",
                fix="a consumer has one `await`, its first statement: name all values there",
                notes=note,
            )
        elif isinstance(node, syntax.Return) or (isinstance(node, syntax.Yield) and node != last):
            word = "return" if isinstance(node, syntax.Return) else "yield"
            report.error(
                "OI0247",
                node.span,
                f"`{word}` in block `{consumer.name}`, which awaits values",
                fix=f"a consumer ends with `yield {listed};`, and nowhere else",
                notes=note,
            )
    if isinstance(last, syntax.Yield) and {n.text for n in last.names} != consumer.values:
        report.error(
            "OI0269",
            last.span,
            f"block `{consumer.name}` yields other values than it awaits",
            fix=f"write `yield {listed};`",
            notes=note,
        )


def _check_writers(consumers: Mapping[str, Consumer], report: Report) -> None:
    writers: dict[str, tuple[Consumer, syntax.Name]] = {}
    for consumer in consumers.values():
        for value in sorted(consumer.values):
            written = consumer.touched[value].get(WRITE)
            if written is None:
                continue
            if value in writers:
                first, where = writers[value]
                report.error(
                    "OI0263",
                    written.span,
                    f"`{value}` is written by two consumers, `{first.name}` and `{consumer.name}`",
                    fix="let one of them write to a variable of its own",
                    notes=[(f"`{first.name}` writes it here", where.span)],
                )
            else:
                writers[value] = (consumer, written)


def check_pair(left: Consumer, right: Consumer, started: Span, report: Report) -> None:
    """Two consumers that may run at the same time."""
    for name in left.touched:
        if name not in right.touched or (name in left.values and name in right.values):
            continue
        for kind, place in right.touched[name].items():
            if check_access(Access(place, kind), left, f"`{right.name}`", started, report):
                break


def check_access(
    access: Access, consumer: Consumer, who: str, started: Span, report: Report
) -> bool:
    """An access by `who` while a consumer may run: neither may write what the other touches.

    Says whether it is wrong.
    """
    name = access.name.text
    for kind, place in consumer.touched.get(name, {}).items():
        if not conflicts(access.kind, kind):
            continue
        verbs = {WRITE: "writes", READ: "reads"}
        report.error(
            "OI0264",
            access.name.span,
            f"{who} {verbs.get(access.kind, 'reads')} `{name}` while consumer "
            f"`{consumer.name}` may {'write' if kind == WRITE else 'read'} it",
            fix=f"yield `{name}` too, or wait with `await` first",
            notes=[
                (f"`{consumer.name}` touches it here", place.span),
                ("it runs from here on", started),
            ],
        )
        return True
    return False
