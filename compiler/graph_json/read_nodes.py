"""Nodes and blocks of a graph JSON, as pieces of syntax."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.graph_json.positions import Json
from openinfer.compiler.graph_json.read_values import ValueReader
from openinfer.compiler.graph_json.schema import Refused

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Settings of the first runtime that have another name today.
_OLD_SETTINGS = {"dtype": "acc"}


class NodeReader(ValueReader):
    """One method for each kind of node."""

    def blocks(self, value: Json) -> list[syntax.Block]:
        """All blocks, those with the lowest node indices first.

        A file that went through a tool that sorts keys keeps the order of its nodes that way.
        """
        found: list[tuple[int, syntax.Block]] = []
        last = 0
        for key, item in self.expect(value, "object", "blocks").members.items():
            try:
                block, first = self.block(key, item)
            except Refused:
                continue
            last = last if first is None else first
            found.append((last, block))
        return [block for _, block in sorted(found, key=lambda pair: pair[0])]

    def block(self, key: str, value: Json) -> tuple[syntax.Block, int | None]:
        """A block, and the lowest index of its nodes."""
        optional = ("hints", "location")
        members = self.fields(value, "a block", ("name", "nodes"), optional)
        name = self.name(members["name"], "the name of a block")
        if name.text != key:
            raise self.refuse(
                members["name"], f"the block is called {name.text} here and {key} by its key"
            )
        hints = self.settings(members["hints"], "hints") if "hints" in members else ()
        nodes = members["nodes"]
        body = self.nodes(nodes)
        close = Span(nodes.span.stop - 1, nodes.span.stop)
        return syntax.Block(name, hints, body, value.span, close), _lowest_index(nodes)

    def nodes(self, value: Json) -> tuple[syntax.Node, ...]:
        found: list[syntax.Node] = []
        for item in self.items(value, "nodes"):
            try:
                found.append(self.node(item))
            except Refused:
                found.append(syntax.Broken(item.span))
        return tuple(found)

    def node(self, value: Json) -> syntax.Node:
        optional = ("index", "uuid", "location")
        members = self.fields(value, "a node", ("kind",), optional)
        if "index" in members:
            self.whole(members["index"], "index", 0)
        if "uuid" in members:
            self.text(members["uuid"], "uuid")
        return self.kind(members["kind"], value.span)

    def kind(self, value: Json, span: Span) -> syntax.Node:
        tag, content = self.variant(value, "kind of node", _READERS)
        if content is None:
            if tag == "Barrier":
                return syntax.Barrier(span)
            if tag == "Return":
                return syntax.Return((), span)
            raise self.refuse(value, f"{tag} has no content", f'write {{"{tag}": {{…}}}}')
        return _READERS[tag](self, content, span)

    # Forms.

    def assign(self, value: Json, span: Span) -> syntax.Node:
        members = self.fields(value, "Assign", ("name", "dtype", "dims"))
        name = self.name(members["name"], "name")
        return syntax.Assign(name, self.type(members["dtype"], members["dims"]), span)

    def type(self, dtype: Json, dims: Json) -> syntax.Type:
        """A dtype and its dimensions."""
        sizes = [self.expression(d, "a dimension") for d in self.items(dims, "dims")]
        return syntax.Type(self.dtype(dtype), tuple(sizes), dtype.span.to(dims.span))

    def op(self, value: Json, span: Span) -> syntax.Node:
        required = ("op", "attrs", "inputs", "output")
        members = self.fields(value, "Op", required, ("outputs", "hints"))
        written = self.text(members["op"], "op")
        # The first runtime wrote "IsFinite" for is_finite.
        snake = _HUMP.sub("_", written).lower()
        name = syntax.Name(snake if written[:1].isupper() else written, members["op"].span)
        inputs = [self.operand(i) for i in self.items(members["inputs"], "inputs")]
        outputs = [self.use(members["output"], "output")]
        if "outputs" in members:
            several = self.items(members["outputs"], "outputs")
            if not several or several[0].scalar != members["output"].scalar:
                raise self.refuse(members["outputs"], "outputs starts with output")
            outputs = [self.use(o, "an output") for o in several]
        settings = self.attrs(members["attrs"])
        return syntax.Op(name, tuple(inputs), settings, tuple(outputs), self.hints(members), span)

    def operand(self, value: Json) -> syntax.Ref | syntax.Literal:
        """A use, or a literal with its tag."""
        if value.kind != "object":
            return self.use(value, "an input")
        found = self.value(value)
        if isinstance(found, syntax.Literal) and not isinstance(found.value, str):
            return found
        raise self.refuse(value, "an input is a variable or a number", 'write {"Double": 0.5}')

    def hints(self, members: dict[str, Json]) -> tuple[syntax.Setting, ...]:
        return self.settings(members["hints"], "hints") if "hints" in members else ()

    def attrs(self, value: Json) -> tuple[syntax.Setting, ...]:
        """`{"items": […]}`; of the first runtime also `"None"` and `{"Relu": {…}}`."""
        if value.kind == "string":
            if value.scalar != "None":
                raise self.refuse(value, f"attrs is {value}", 'write {"items": []}')
            return ()
        self.expect(value, "object", "attrs")
        if "items" in value.members or not value.members:
            members = self.fields(value, "attrs", ("items",))
            return self.settings(members["items"], "items")
        _, content = next(iter(value.members.items()))
        if len(value.members) != 1 or content.kind != "object":
            raise self.refuse(value, "attrs has another form", 'write {"items": […]}')
        return self.old_attrs(content)

    def old_attrs(self, value: Json) -> tuple[syntax.Setting, ...]:
        """`{"alpha": {"Double": 0.1}}`: settings by name."""
        found: list[syntax.Setting] = []
        for key, item in value.members.items():
            name = syntax.Name(_OLD_SETTINGS.get(key, key), value.key_spans[key])
            if item.kind in ("int", "float"):
                read: syntax.Value = syntax.Literal(self.number(item, key), item.span)
            elif item.kind == "string":
                read = self.dtype(item)
            else:
                read = self.value(item)
            found.append(syntax.Setting(name, read))
        return tuple(found)

    def branch(self, value: Json, span: Span) -> syntax.Node:
        members = self.fields(value, "Branch", ("then_block",), ("cond", "else_block"))
        then = self.name(members["then_block"], "then_block")
        given = {key: m for key, m in members.items() if m.kind != "null"}
        if ("cond" in given) != ("else_block" in given):
            raise self.refuse(
                value,
                "a condition needs two target blocks",
                "give both cond and else_block, or neither",
            )
        if "cond" not in given:
            return syntax.Branch(None, then, None, span)
        condition = self.use(given["cond"], "cond")
        return syntax.Branch(condition, then, self.name(given["else_block"], "else_block"), span)

    def dep(self, value: Json, span: Span) -> syntax.Node:
        members = self.fields(value, "Dep", ("after", "before"))
        after, before = (
            syntax.Name(self.text(members[key], key), members[key].span)
            for key in ("after", "before")
        )
        for name in (after, before):
            if not all(part.isidentifier() for part in name.text.split(".")):
                raise self.refuse(
                    value, f"{json.dumps(name.text)} is no name of an op", "write cache.write"
                )
        return syntax.Dep(after, before, span)

    def cache_read(self, value: Json, span: Span) -> syntax.Node:
        members = self.fields(value, "CacheRead", ("src", "dst"))
        source = self.access(members["src"], "src")
        return syntax.CacheRead(source, self.use(members["dst"], "dst"), span)

    def cache_write(self, value: Json, span: Span) -> syntax.Node:
        members = self.fields(value, "CacheWrite", ("src", "dst"))
        source = self.use(members["src"], "src")
        return syntax.CacheWrite(source, self.access(members["dst"], "dst"), span)

    def increment(self, value: Json, span: Span) -> syntax.Node:
        return self.step(value, span, "CacheIncrement")

    def decrement(self, value: Json, span: Span) -> syntax.Node:
        return self.step(value, span, "CacheDecrement")

    def step(self, value: Json, span: Span, what: str) -> syntax.Node:
        members = self.fields(value, what, ("target", "amount"))
        target = self.name(members["target"], "target")
        written = members["amount"]
        amount: syntax.Expr
        if written.kind == "string":
            amount = self.expression(written, "an amount")
        else:
            amount = syntax.Number(self.whole(written, "amount", 0, 2**63 - 1), written.span)
        return syntax.CacheStep(target, amount, what == "CacheDecrement", span)

    def reset(self, value: Json, span: Span) -> syntax.Node:
        members = self.fields(value, "CacheReset", ("target",))
        return syntax.CacheReset(self.access(members["target"], "target"), span)

    def transfer(self, value: Json, span: Span) -> syntax.Node:
        members = self.fields(value, "Transfer", ("src", "dst"))
        source, target = (self.use(members[key], key) for key in ("src", "dst"))
        return syntax.Transfer(source, target, span)

    def variables(self, value: Json, what: str) -> tuple[syntax.Name, ...]:
        members = self.fields(value, what, ("vars",))
        names = self.names(members["vars"], "vars")
        if not names:
            raise self.refuse(members["vars"], f"{what} names at least one variable")
        return names

    def publish(self, value: Json, span: Span) -> syntax.Node:
        return syntax.Yield(self.variables(value, "Yield"), span)

    def take(self, value: Json, span: Span) -> syntax.Node:
        return syntax.Await(self.variables(value, "Await"), span)

    def result(self, value: Json, span: Span) -> syntax.Node:
        return syntax.Return(self.variables(value, "Return"), span)

    def loop(self, value: Json, span: Span) -> syntax.Node:
        required = ("name", "index", "start", "end", "body")
        members = self.fields(value, "Loop", required, ("hints",))
        return syntax.Loop(
            self.name(members["name"], "name"),
            self.name(members["index"], "index"),
            self.expression(members["start"], "start"),
            self.expression(members["end"], "end"),
            self.hints(members),
            self.nodes(members["body"]),
            span,
        )

    def scope(self, value: Json, span: Span) -> syntax.Node:
        members = self.fields(value, "Scope", ("name", "body"), ("hints",))
        label = syntax.Literal(self.text(members["name"], "name"), members["name"].span)
        return syntax.Scope(label, self.hints(members), self.nodes(members["body"]), span)

    def bare(self, value: Json, span: Span) -> syntax.Node:
        raise self.refuse(value, "Barrier has no content", fix='write "Barrier"')


_READERS: dict[str, Callable[[NodeReader, Json, Span], syntax.Node]] = {
    "Assign": NodeReader.assign,
    "Op": NodeReader.op,
    "Branch": NodeReader.branch,
    "Barrier": NodeReader.bare,
    "Dep": NodeReader.dep,
    "CacheRead": NodeReader.cache_read,
    "CacheWrite": NodeReader.cache_write,
    "CacheIncrement": NodeReader.increment,
    "CacheDecrement": NodeReader.decrement,
    "CacheReset": NodeReader.reset,
    "Transfer": NodeReader.transfer,
    "Yield": NodeReader.publish,
    "Await": NodeReader.take,
    "Loop": NodeReader.loop,
    "Return": NodeReader.result,
    "Scope": NodeReader.scope,
}


def _lowest_index(nodes: Json) -> int | None:
    """The lowest index in a list of nodes. The original numbers a loop after its body."""
    found: list[int] = []
    pending = [nodes]
    while pending:
        value = pending.pop()
        index = value.members.get("index")
        if index is not None and index.kind == "int" and "kind" in value.members:
            assert isinstance(index.scalar, int)
            found.append(index.scalar)
        pending += value.children()
    return min(found, default=None)
