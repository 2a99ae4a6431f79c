"""Checked syntax tree → `graph` dialect. Every op gets the location of its text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    StringAttr,
    UnitAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, Operation

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.expressions import to_size
from openinfer.compiler.frontend.source import Source, Span
from openinfer.dialects import graph, opset
from openinfer.lowering.graph.buffers import BUFFER
from openinfer.lowering.graph.infer_types import infer_types
from openinfer.runtime.dtypes import ALIASES
from openinfer.runtime.sizes import Size

_U64 = IntegerType(64, Signedness.UNSIGNED)


def build(program: syntax.Program, source: Source) -> ModuleOp:
    """The module of a program that `check` found nothing wrong with."""
    builder = _Builder(source)
    ops: list[Operation] = []
    for item in program.items:
        if isinstance(item, syntax.Section):
            ops += [builder.declaration(d, item.memory) for d in item.declarations]
        else:
            ops.append(builder.block(item))
    module = ModuleOp(ops)
    module.location = builder.location(Span(0, 0))
    infer_types(module)
    return module


class _Builder:
    def __init__(self, source: Source) -> None:
        self.source = source

    def location(self, span: Span) -> FileLineColLoc:
        line, column = self.source.place(span.start)
        return FileLineColLoc(StringAttr(self.source.file), IntAttr(line), IntAttr(column))

    # Declarations.

    def declaration(self, declaration: syntax.Declaration, memory: str) -> Operation:
        options: dict[str, Attribute] = {}
        other: dict[str, Attribute] = {}
        for attribute in declaration.attributes:
            name = attribute.name.text
            arguments = attribute.arguments or ()
            match name:
                case "init" | "ref" | "pattern":
                    options[name] = next(map(_option, arguments))
                case "table":
                    options[name] = UnitAttr()
                case "auto_dim":
                    names = [a.text for a in arguments if isinstance(a, syntax.Name)]
                    options[name] = ArrayAttr([StringAttr(n) for n in names])
                case "fixed":
                    options[name] = _dictionary(
                        [a for a in arguments if isinstance(a, syntax.Setting)]
                    )
                case _:
                    other[name] = _unknown(attribute)
        if declaration.buffer and declaration.indices:
            options["table"] = UnitAttr()
            other[BUFFER] = UnitAttr()
        if other:
            options["other"] = DictionaryAttr(other)
        op = graph.VariableOp(
            declaration.name.text,
            memory,
            dtype_name(declaration.type.dtype),
            [to_size(dim) for dim in declaration.type.dims],
            [index.text for index in declaration.indices],
            options,
        )
        op.location = self.location(declaration.span)
        return op

    # Blocks and nodes.

    def block(self, block: syntax.Block) -> Operation:
        op = graph.BlockOp(block.name.text, self.nodes(block.body), _hints(block.hints))
        op.location = self.location(block.span)
        return op

    def nodes(self, nodes: Iterable[syntax.Node]) -> list[Operation]:
        found: list[Operation] = []
        for node in nodes:
            op = self.node(node)
            op.location = self.location(node.span)
            found.append(op)
        return found

    def node(self, node: syntax.Node) -> Operation:
        match node:
            case syntax.Assign(name=name, type=type_):
                dims = [to_size(dim) for dim in type_.dims]
                return graph.AssignOp(name.text, dtype_name(type_.dtype), dims)
            case syntax.Op():
                return self.op(node)
            case syntax.Branch(condition=condition, then_block=then, else_block=otherwise):
                return graph.BranchOp(
                    then.text,
                    ref(condition) if condition else None,
                    otherwise.text if otherwise else None,
                )
            case syntax.Barrier():
                return graph.BarrierOp()
            case syntax.Dep(after=after, before=before):
                return graph.DepOp(_op_name(after.text), _op_name(before.text))
            case syntax.Transfer(source=source, target=target):
                return graph.TransferOp(ref(source), ref(target))
            case syntax.Loop():
                return graph.LoopOp(
                    node.name.text,
                    node.index.text,
                    to_size(node.start),
                    to_size(node.stop),
                    self.nodes(node.body),
                    _hints(node.hints),
                )
            case syntax.Scope(label=label, hints=hints, body=body):
                return graph.ScopeOp(str(label.value), self.nodes(body), _hints(hints))
            case syntax.Return(names=names):
                return graph.ReturnOp([name.text for name in names])
            case syntax.Yield(names=names):
                return graph.YieldOp([name.text for name in names])
            case syntax.Await(names=names):
                return graph.AwaitOp([name.text for name in names])
            case syntax.CacheRead(source=source, target=target):
                return graph.CacheReadOp(ref(source, cache=True), ref(target))
            case syntax.CacheWrite(source=source, target=target):
                return graph.CacheWriteOp(ref(source), ref(target, cache=True))
            case syntax.CacheStep(variable=variable, amount=amount):
                return graph.CacheStepOp(variable.text, amount)
            case syntax.CacheReset(target=target):
                return graph.CacheResetOp(ref(target, cache=True))
            case syntax.Broken():
                raise AssertionError("a program with errors is not built")

    def op(self, node: syntax.Op) -> Operation:
        spec = opset.find(node.name.text)
        settings: dict[str, Attribute] = {}
        for setting in node.settings:
            known = spec.setting(setting.name.text) if spec else None
            settings[known.name if known else setting.name.text] = value(setting.value)
        return graph.OpOp(
            _op_name(node.name.text),
            [ref(operand) for operand in node.operands],
            [ref(output) for output in node.outputs],
            settings,
            _hints(node.hints),
        )


def dtype_name(name: syntax.Name) -> str:
    """The canonical name of a dtype that may be written as an alias."""
    return ALIASES.get(name.text, name.text)


def _op_name(name: str) -> str:
    spec = opset.find(name)
    return spec.name if spec else name


def ref(written: syntax.Ref, *, cache: bool = False) -> graph.RefAttr:
    """The attribute of a variable use. Outside of caches a trailing comma means nothing."""
    slots = list(written.slots or ())
    if not cache and len(slots) > 1 and is_full(slots[-1]):
        slots.pop()
    return graph.RefAttr.of(
        written.name.text, [_slot(s) for s in slots], bracketed=written.slots is not None
    )


def is_full(slot: syntax.Expr | syntax.Slice) -> bool:
    """Whether a slot is empty or `..`."""
    return isinstance(slot, syntax.Slice) and slot.start is None and slot.stop is None


def _slot(slot: syntax.Expr | syntax.Slice) -> Size | Attribute:
    if not isinstance(slot, syntax.Slice):
        return to_size(slot)

    def bound(expression: syntax.Expr | None) -> Attribute:
        return StringAttr("") if expression is None else graph.SizeAttr(to_size(expression))

    return graph.SliceAttr(bound(slot.start), bound(slot.stop))


def value(written: syntax.Value) -> Attribute:
    """The attribute of a setting: i1, i64, f64, string, array, name, or size expression."""
    match written:
        case syntax.Literal(value=bool() as flag):
            return IntegerAttr.from_bool(flag)
        case syntax.Literal(value=int() as number):
            return IntegerAttr(number, i64 if -(2**63) <= number < 2**63 else _U64)
        case syntax.Literal(value=float() as number):
            return FloatAttr(number, f64)
        case syntax.Literal(value=text):
            return StringAttr(str(text))
        case syntax.ListValue(items=items):
            return ArrayAttr([value(item) for item in items])
        case syntax.Name(text=text):
            return graph.NameAttr(text)
        case _:
            size = to_size(written)
            if size.constant is not None:
                return IntegerAttr(size.constant, i64)
            name = size.single_name
            return graph.NameAttr(name) if name else graph.SizeAttr(size)


def _option(argument: syntax.Value | syntax.Setting) -> Attribute:
    if isinstance(argument, syntax.Name):  # `@ref(gamma)`
        return StringAttr(argument.text)
    assert not isinstance(argument, syntax.Setting)
    return value(argument)


def _unknown(attribute: syntax.Attribute) -> Attribute:
    """An attribute that is kept as written: unit, or an array of values and `{name = value}`."""
    if attribute.arguments is None:
        return UnitAttr()
    return ArrayAttr(
        [
            _dictionary([argument]) if isinstance(argument, syntax.Setting) else value(argument)
            for argument in attribute.arguments
        ]
    )


def _dictionary(settings: Sequence[syntax.Setting]) -> DictionaryAttr:
    return DictionaryAttr({setting.name.text: value(setting.value) for setting in settings})


def _hints(hints: Sequence[syntax.Setting]) -> dict[str, Attribute] | None:
    return dict(_dictionary(hints).data) if hints else None
