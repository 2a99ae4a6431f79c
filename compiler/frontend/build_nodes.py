"""Syntax tree → `graph` dialect, with the places of all parts for the checker.

A tree with mistakes is built, too: what could not be read stands as a barrier, or as the name `?`. Only
sizes that are none and hints of one name are reported here: the IR cannot hold them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import field

from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    IntAttr,
    IntegerAttr,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Operation

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.expressions import BadSize, names_of, to_size
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Span
from openinfer.dialects import graph, opset
from openinfer.dialects.graph.syntax import LITERAL_WORDS, number_attribute
from openinfer.lowering.program.names import UNREADABLE
from openinfer.lowering.program.places import Part, Places
from openinfer.runtime.dtypes import ALIASES
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size


@dataclass
class Parts:
    """The places of the parts of one op that is being built."""

    spans: dict[Part, Span] = field(default_factory=dict[Part, Span])
    names: dict[Part, list[tuple[str, Span]]] = field(
        default_factory=dict[Part, list[tuple[str, Span]]]
    )
    written: dict[Part, str] = field(default_factory=dict[Part, str])


class Builder:
    """Makes ops and attributes, and keeps where a text has them."""

    def __init__(self, report: Report, places: Places, declared: Collection[str] = ()) -> None:
        """`declared` are the names of variables and temporaries."""
        self.report = report
        self.places = places
        self.declared = declared

    def location(self, span: Span) -> FileLineColLoc:
        line, column = self.report.source.place(span.start)
        return FileLineColLoc(StringAttr(self.report.source.file), IntAttr(line), IntAttr(column))

    def placed(self, op: Operation, span: Span, parts: Parts) -> Operation:
        """The op, with its own place and those of its parts."""
        op.location = self.location(span)
        self.places.parts[op, ()] = span
        for part, place in parts.spans.items():
            self.places.parts[op, part] = place
        for part, names in parts.names.items():
            self.places.names[op, part] = names
        for part, text in parts.written.items():
            self.places.written[op, part] = text
        return op

    # Values.

    def size(
        self, expression: syntax.Expr, parts: Parts, part: Part, *, exact: bool = False
    ) -> Size:
        """The size of an expression; `?` after a report that it is none.

        With `exact` no division of numbers may leave a remainder.
        """
        parts.spans[part] = expression.span
        parts.names[part] = [(name.text, name.span) for name in names_of(expression)]
        try:
            return to_size(expression, exact=exact)
        except BadSize as error:
            fix = {
                "OI0121": "use a shorter expression",
                "OI0289": "write a size here, or a whole number",
            }.get(error.code, "divide by something else")
            self.report.error(error.code, error.span, error.message, fix=fix)
            return Size.name(UNREADABLE)

    def value(self, written: syntax.Value, parts: Parts, part: Part) -> Attribute:
        """The attribute of a setting: i1, i64, f64, string, array, name, or size expression."""
        parts.spans[part] = written.span
        match written:
            case syntax.Literal(value=number):
                return StringAttr(number) if isinstance(number, str) else number_attribute(number)
            case syntax.ListValue(items=items):
                found = [self.value(item, parts, (*part, i)) for i, item in enumerate(items)]
                return ArrayAttr(found)
            case syntax.Name(text=text):
                return graph.NameAttr(text)
            case _:
                size = self.size(written, parts, part)
                if size.constant is not None:
                    return IntegerAttr(size.constant, i64)
                name = size.single_name
                return graph.NameAttr(name) if name else graph.SizeAttr(size)

    def entries(
        self, settings: Sequence[syntax.Setting], parts: Parts, part: Part
    ) -> dict[str, Attribute]:
        """Named values; of two with one name the first."""
        found: dict[str, Attribute] = {}
        for setting in settings:
            name = setting.name.text
            parts.spans.setdefault((*part, name, "name"), setting.name.span)
            found.setdefault(name, self.value(setting.value, parts, (*part, name)))
        return found

    def hints(self, hints: Sequence[syntax.Setting], parts: Parts) -> dict[str, Attribute] | None:
        seen: set[str] = set()
        for hint in hints:
            name = hint.name.text
            if name in seen:
                self.report.error(
                    "OI0208", hint.span, f"hint `{name}` is given twice", fix="remove one of them"
                )
            seen.add(name)
        return self.entries(hints, parts, ("hints",)) or None

    def dims(self, written: syntax.Type, parts: Parts) -> list[Size]:
        parts.spans["type",] = written.span
        parts.spans["type", "dtype"] = written.dtype.span
        return [self.size(dim, parts, ("dims", axis)) for axis, dim in enumerate(written.dims)]

    def ref(
        self, written: syntax.Ref, parts: Parts, part: Part, *, cache: bool = False
    ) -> graph.RefAttr:
        """The attribute of a variable use. Outside of caches a trailing comma means nothing."""
        parts.spans[part] = written.span
        parts.spans[*part, "name"] = written.name.span
        slots = list(written.slots or ())
        if not cache and len(slots) > 1 and is_full(slots[-1]):
            slots.pop()
        found = [self.slot(slot, parts, (*part, i)) for i, slot in enumerate(slots)]
        return graph.RefAttr.of(written.name.text, found, bracketed=written.slots is not None)

    def operand(self, written: syntax.Operand, parts: Parts, part: Part) -> graph.Operand:
        """The use of a variable, or a literal. A variable may have the name of a literal."""
        assert not isinstance(written, syntax.Op)
        if isinstance(written, syntax.Ref):
            name = written.name.text
            if written.slots is not None or name not in LITERAL_WORDS or name in self.declared:
                return self.ref(written, parts, part)
            written = syntax.Literal(LITERAL_WORDS[name], written.span)
        parts.spans[part] = written.span
        assert not isinstance(written.value, str)
        return graph.LiteralAttr(number_attribute(written.value))

    def slot(self, slot: syntax.Expr | syntax.Slice, parts: Parts, part: Part) -> Attribute:
        if not isinstance(slot, syntax.Slice):
            return graph.SizeAttr(self.size(slot, parts, part))
        parts.spans[part] = slot.span

        def bound(expression: syntax.Expr | None, which: str) -> Attribute:
            if expression is None:
                return StringAttr("")
            return graph.SizeAttr(self.size(expression, parts, (*part, which)))

        return graph.SliceAttr(bound(slot.start, "start"), bound(slot.stop, "stop"))

    def names(self, names: Sequence[syntax.Name], parts: Parts) -> list[str]:
        if names:
            parts.spans["names",] = names[0].span.to(names[-1].span)
        for position, name in enumerate(names):
            parts.spans["names", position] = name.span
        return [name.text for name in names]

    # Blocks and nodes.

    def block(self, block: syntax.Block) -> Operation:
        parts = Parts({("name",): block.name.span, ("close",): block.close})
        hints = self.hints(block.hints, parts)
        parameters = None
        defaults: dict[str, Attribute] = {}
        if block.parameters is not None:
            parameters = [p.name.text for p in block.parameters]
            for place, parameter in enumerate(block.parameters):
                parts.spans["parameters", place] = parameter.name.span
                if parameter.default is not None:
                    part = ("defaults", parameter.name.text)
                    defaults[parameter.name.text] = self.value(parameter.default, parts, part)
        body = [self.declaration(one, "constant") for one in block.declarations]
        body += self.nodes(block.body)
        op = graph.BlockOp(block.name.text, body, hints, parameters, defaults)
        if not block.closed:
            self.places.unfinished.add(op)
        return self.placed(op, block.span, parts)

    def declaration(self, declaration: syntax.Declaration, memory: str) -> Operation:
        """A declaration in a section of that memory."""
        raise NotImplementedError

    def nodes(self, nodes: Iterable[syntax.Node]) -> list[Operation]:
        found: list[Operation] = []
        for node in nodes:
            parts = Parts()
            found.append(self.placed(self.node(node, parts), node.span, parts))
        return found

    def node(self, node: syntax.Node, parts: Parts) -> Operation:
        match node:
            case syntax.Assign(name=name, type=type_):
                parts.spans["name",] = name.span
                op = graph.AssignOp(name.text, dtype_name(type_.dtype), self.dims(type_, parts))
                if node.implied:
                    self.places.implied.add(op)
                return op
            case syntax.Op():
                return self.op(node, parts)
            case syntax.Branch(condition=condition, then_block=then, else_block=otherwise):
                parts.spans["then_block",] = then.span
                if otherwise is not None:
                    parts.spans["else_block",] = otherwise.span
                return graph.BranchOp(
                    then.text,
                    self.ref(condition, parts, ("condition",)) if condition else None,
                    otherwise.text if otherwise else None,
                )
            case syntax.BlockCall():
                return self.call(node, parts)
            case syntax.Barrier():
                return graph.BarrierOp()
            case syntax.Dep(after=after, before=before):
                parts.spans["after",], parts.spans["before",] = after.span, before.span
                return graph.DepOp(_op_name(after.text), _op_name(before.text))
            case syntax.Transfer(source=source, target=target):
                return graph.TransferOp(
                    self.ref(source, parts, ("source",)), self.ref(target, parts, ("target",))
                )
            case syntax.Loop():
                parts.spans["index",] = node.index.span
                return graph.LoopOp(
                    node.name.text,
                    node.index.text,
                    self.size(node.start, parts, ("start",)),
                    self.size(node.stop, parts, ("stop",)),
                    self.nodes(node.body),
                    self.hints(node.hints, parts),
                )
            case syntax.Scope(label=label, hints=hints, body=body):
                found = self.hints(hints, parts)
                return graph.ScopeOp(str(label.value), self.nodes(body), found)
            case syntax.Return(names=names):
                return graph.ReturnOp(self.names(names, parts))
            case syntax.Yield(names=names):
                return graph.YieldOp(self.names(names, parts))
            case syntax.Await(names=names):
                return graph.AwaitOp(self.names(names, parts))
            case syntax.CacheRead(source=source, target=target):
                return graph.CacheReadOp(
                    self.ref(source, parts, ("source",), cache=True),
                    self.ref(target, parts, ("target",)),
                )
            case syntax.CacheWrite(source=source, target=target):
                assert isinstance(source, syntax.Ref)
                return graph.CacheWriteOp(
                    self.ref(source, parts, ("source",)),
                    self.ref(target, parts, ("target",), cache=True),
                )
            case syntax.CacheStep(variable=variable, amount=amount, down=down):
                parts.spans["variable",] = variable.span
                # A number may have 64 bits here, as a literal has.
                number = isinstance(amount, syntax.Number)
                size = Size.of(amount.value) if number else self.size(amount, parts, ("amount",))
                return graph.CacheStepOp(variable.text, size, down=down)
            case syntax.CacheReset(target=target):
                return graph.CacheResetOp(self.ref(target, parts, ("target",), cache=True))
            case syntax.Broken():
                op = graph.BarrierOp()
                self.places.unread.add(op)
                return op
            case syntax.SizeDefinition():
                raise TypeError("a size of a body is written out where it is named")

    def call(self, node: syntax.BlockCall, parts: Parts) -> Operation:
        parts.spans["name",] = node.block.span
        inputs: list[Attribute] = []
        for place, value in enumerate(node.inputs):
            part = ("inputs", place)
            if isinstance(value, syntax.Literal) and isinstance(value.value, str):
                parts.spans[part] = value.span
                inputs.append(StringAttr(value.value))
            elif isinstance(value, syntax.Ref | syntax.Literal | syntax.Op):
                inputs.append(self.operand(value, parts, part))
            else:
                inputs.append(graph.SizeAttr(self.size(value, parts, part)))
        outputs = [self.ref(r, parts, ("outputs", i)) for i, r in enumerate(node.outputs)]
        settings: dict[str, Attribute] = {}
        for setting in node.settings:
            name = setting.name.text
            if name in settings:
                message = f"`{name}` of block `{node.block.text}` is given twice"
                self.report.error("OI0273", setting.span, message, fix="remove one of them")
                continue
            parts.spans["settings", name, "name"] = setting.name.span
            settings[name] = self.value(setting.value, parts, ("settings", name))
        return graph.CallOp(node.block.text, inputs, outputs, settings)

    def op(self, node: syntax.Op, parts: Parts) -> Operation:
        parts.spans["op",] = node.name.span
        if node.outputs:
            parts.spans["outputs",] = node.outputs[0].span.to(node.outputs[-1].span)
        spec = opset.find(node.name.text)
        settings: dict[str, Attribute] = {}
        given: dict[str, Span] = {}
        for setting in node.settings:
            row = spec.setting(setting.name.text) if spec else None
            name = row.name if row else setting.name.text
            if name in given and row is not None:
                alias = f" (`{name}`)" if setting.name.text != name else ""
                self.report.error(
                    "OI0204",
                    setting.span,
                    f"duplicate setting: `{setting.name.text}`{alias}",
                    fix="remove one of them",
                    notes=[("first given here", given[name])],
                )
                continue
            given[name] = setting.span
            part = ("settings", name)
            parts.spans[*part, "name"] = setting.name.span
            parts.written[part] = setting.name.text
            settings[name] = self.value(setting.value, parts, part)
        return graph.OpOp(
            _op_name(node.name.text),
            [self.operand(r, parts, ("inputs", i)) for i, r in enumerate(node.operands)],
            [self.ref(r, parts, ("outputs", i)) for i, r in enumerate(node.outputs)],
            settings,
            self.hints(node.hints, parts),
        )


def dtype_name(name: syntax.Name) -> str:
    """The canonical name of a dtype that may be written as an alias."""
    return ALIASES.get(name.text, name.text)


def _op_name(name: str) -> str:
    spec = opset.find(name)
    return spec.name if spec else name


def is_full(slot: syntax.Expr | syntax.Slice) -> bool:
    """Whether a slot is empty or `..`."""
    return isinstance(slot, syntax.Slice) and slot.start is None and slot.stop is None
