"""What is left of a program with mistakes when they are taken out: its sound part.

It is what the rules that need the model look at, so that one unknown name hides neither a wrong shape
elsewhere nor a declaration that the model contradicts. What depends on a mistake is left out with it: its
declaration, the statement it stands in, and every statement that names what is no longer known.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.expressions import names_of
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.syntax import walk


def sound_part(program: syntax.Program, report: Report) -> syntax.Program | None:
    """The program without its mistakes; None where the text was not read to its end."""
    if program.aborted:
        return None
    part = _SoundPart(program, sorted(w for w in report.wrong if isinstance(w, Span)))
    sections = [part.section(section) for section in program.sections]
    names: set[str] = set()
    blocks: list[syntax.Block] = []
    for block in program.blocks:
        if block.name.text not in names and not part.is_wrong(block.name.span):
            names.add(block.name.text)
            blocks.append(replace(block, hints=(), body=part.body(block.body)))
    known = {block.name.text for block in blocks}
    blocks = [replace(b, body=tuple(_without_calls(b.body, known))) for b in blocks]
    return syntax.Program(sections, blocks, [*sections, *blocks])


def _without_calls(nodes: Iterable[syntax.Node], known: set[str]) -> Iterator[syntax.Node]:
    """The nodes without calls of blocks that are not there."""
    for node in nodes:
        if isinstance(node, syntax.Loop | syntax.Scope):
            yield replace(node, body=tuple(_without_calls(node.body, known)))
        elif isinstance(node, syntax.Branch):
            targets = [t.text for t in (node.then_block, node.else_block) if t is not None]
            if known.issuperset(targets):
                yield node
        else:
            yield node


class _SoundPart:
    """Knows which names and nodes are lost."""

    def __init__(self, program: syntax.Program, wrong: Sequence[Span]) -> None:
        self.wrong = wrong
        self.starts = [span.start for span in wrong]
        self.lost: set[str] = {*program.skipped, "?"}
        self.gone: set[Span] = set()
        """Statements that are left out."""
        users: dict[str, list[syntax.Declaration | syntax.Node]] = {}
        todo = list(self.lost)
        for section in program.sections:
            for declaration in section.declarations:
                for dim in declaration.type.dims:
                    for name in names_of(dim):
                        users.setdefault(name.text, []).append(declaration)
                if self.is_wrong(declaration.span):
                    todo.append(declaration.name.text)
        for block in program.blocks:
            for node in walk(block.body):
                for name in _names(node):
                    users.setdefault(name, []).append(node)
                if isinstance(node, syntax.Broken) or self._is_wrong_itself(node):
                    todo += self._lose(node)
        self.open = {
            node.name.text
            for block in program.blocks
            for node in walk(block.body)
            if isinstance(node, syntax.Assign) and node.type.open
        }
        todo += [name for node in list(self._gone_nodes(program)) for name in self._given(node)]
        while todo:
            name = todo.pop()
            if name in self.lost and name not in users:
                continue
            self.lost.add(name)
            for user in users.pop(name, ()):
                if isinstance(user, syntax.Declaration):
                    todo.append(user.name.text)
                else:
                    todo += [*self._lose(user), *self._given(user)]

    def is_wrong(self, span: Span) -> bool:
        """Whether a mistake starts inside of a span."""
        first = bisect_left(self.starts, span.start)
        return first < len(self.starts) and self.starts[first] < span.stop

    def _is_wrong_itself(self, node: syntax.Node) -> bool:
        """The same for a statement without its body."""
        if not isinstance(node, syntax.Loop | syntax.Scope) or not node.body:
            return self.is_wrong(node.span)
        return self.is_wrong(Span(node.span.start, node.body[0].span.start))

    def _lose(self, node: syntax.Node) -> list[str]:
        """Leaves a statement out; the names that it would have declared."""
        self.gone.add(node.span)
        return [node.name.text] if isinstance(node, syntax.Assign) else []

    def _gone_nodes(self, program: syntax.Program) -> Iterator[syntax.Node]:
        for block in program.blocks:
            for node in walk(block.body):
                if node.span in self.gone:
                    yield node

    def _given(self, node: syntax.Node) -> list[str]:
        """The temporaries whose type a statement would have said."""
        outputs: tuple[syntax.Ref, ...] = ()
        if isinstance(node, syntax.Op):
            outputs = node.outputs
        elif isinstance(node, syntax.Transfer | syntax.CacheRead):
            outputs = (node.target,)
        return [output.name.text for output in outputs if output.name.text in self.open]

    def section(self, section: syntax.Section) -> syntax.Section:
        """A section without what is lost."""
        kept = [d for d in section.declarations if d.name.text not in self.lost]
        return replace(section, declarations=tuple(kept))

    def body(self, nodes: Iterable[syntax.Node]) -> tuple[syntax.Node, ...]:
        """Nodes without those that are left out. A loop with wrong bounds keeps its body."""
        found: list[syntax.Node] = []
        for node in nodes:
            if isinstance(node, syntax.Loop):
                body = self.body(node.body)
                node = replace(node, hints=(), body=body)
                if node.span in self.gone:
                    none = syntax.Number(0, node.span)
                    node = replace(node, start=none, stop=none)
            elif isinstance(node, syntax.Scope):
                node = replace(node, hints=(), body=self.body(node.body))
            elif node.span in self.gone:
                continue
            elif isinstance(node, syntax.Assign) and node.name.text in self.lost:
                continue
            found.append(node)
        return tuple(found)


def _names(node: syntax.Node) -> Iterator[str]:
    """The names in a statement, not in its body."""
    match node:
        case syntax.Assign(type=type_):
            for dim in type_.dims:
                yield from (name.text for name in names_of(dim))
        case syntax.Op():
            for ref in (*node.operands, *node.outputs):
                yield from _in_ref(ref)
            for setting in node.settings:
                yield from _in_value(setting.value)
        case syntax.Branch(condition=condition):
            if condition is not None:
                yield from _in_ref(condition)
        case syntax.Transfer() | syntax.CacheRead() | syntax.CacheWrite():
            yield from _in_ref(node.source)
            yield from _in_ref(node.target)
        case syntax.CacheReset(target=target):
            yield from _in_ref(target)
        case syntax.CacheStep(variable=variable):
            yield variable.text
        case syntax.Loop(start=start, stop=stop):
            yield from (name.text for bound in (start, stop) for name in names_of(bound))
        case syntax.Return(names=names) | syntax.Yield(names=names) | syntax.Await(names=names):
            yield from (name.text for name in names)
        case _:
            return


def _in_ref(ref: syntax.Ref) -> Iterator[str]:
    yield ref.name.text
    for slot in ref.slots or ():
        bounds = [slot.start, slot.stop] if isinstance(slot, syntax.Slice) else [slot]
        for bound in bounds:
            if bound is not None:
                yield from (name.text for name in names_of(bound))


def _in_value(value: syntax.Value) -> Iterator[str]:
    match value:
        case syntax.Literal():
            return
        case syntax.ListValue(items=items):
            for item in items:
                yield from _in_value(item)
        case _:
            yield from (name.text for name in names_of(value))
