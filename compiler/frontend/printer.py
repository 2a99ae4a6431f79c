"""`graph` dialect → `.oi` text, in one canonical layout: parsing it gives the same module again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation

from openinfer.compiler.frontend.nesting import Nested, part_of
from openinfer.compiler.frontend.text_parts import float_text, string_text
from openinfer.dialects import graph
from openinfer.lowering.program.buffer_declarations import BUFFER
from openinfer.runtime.sizes import Size

_INDENT = "    "


def _nothing(op: Operation) -> Sequence[str] | None:
    return None


@dataclass(frozen=True)
class Style:
    """How a program is written; as it stands in the IR where nothing is said."""

    short: bool = False
    """`y = op relu(x);` for `op relu(x) >> y;`."""
    implied: Collection[str] = ()
    """Temporaries of which the op that writes them first gives the type: they have no `assign`."""
    nested: Nested = field(default_factory=Nested)
    """Ops that stand in other statements, as their operands."""
    above: Callable[[Operation], Sequence[str] | None] = _nothing
    """Lines that stand above a declaration or a statement: comments, or "" for an empty one."""


def print_program(module: ModuleOp, style: Style = Style()) -> str:
    """The program text of a graph module. Raises TypeError for an op that is no program text."""
    parts: list[str] = []
    section = ""
    ops = list(module.body.ops)
    for op, following in zip(ops, [*ops[1:], None]):
        match op:
            case graph.SizeOp():
                if section:
                    parts.append("}\n\n")
                    section = ""
                parts.append(f"size {op.size.data} = {size_text(op.value.data)};\n")
                if not isinstance(following, graph.SizeOp | graph.SizeBoundOp):
                    parts.append("\n")
            case graph.SizeBoundOp():
                if section:
                    parts.append("}\n\n")
                    section = ""
                parts.append(f"size {op.text};\n")
                if not isinstance(following, graph.SizeOp | graph.SizeBoundOp):
                    parts.append("\n")
            case graph.VariableOp():
                if op.memory.data != section:
                    if section:
                        parts.append("}\n\n")
                    section = op.memory.data
                    parts.append(f"{section} {{\n")
                parts += _above(op, style, _INDENT, opened=parts[-1].endswith("{\n"))
                parts.append(f"{_INDENT}{_variable(op)}\n")
            case graph.BlockOp():
                if section:
                    parts.append("}\n\n")
                    section = ""
                parts.append(f"block {op.block_name.data}{_parameters(op)}{_hints(op.hints)} {{\n")
                constants = [one for one in op.body.block.ops if isinstance(one, graph.VariableOp)]
                if constants:
                    parts.append(f"{_INDENT}constant {{\n")
                    parts += [f"{2 * _INDENT}{_variable(one)}\n" for one in constants]
                    parts.append(f"{_INDENT}}}\n\n")
                rest = [one for one in op.body.block.ops if not isinstance(one, graph.VariableOp)]
                parts += _lines(rest, 1, style)
                parts.append("}\n\n")
            case graph.PackageSizeOp() | graph.PackageTensorOp() | graph.PackageValueOp():
                # What is known of the package is no part of the program.
                continue
            case _:
                raise TypeError(f"{op.name} has no program text")
    if section:
        parts.append("}\n\n")
    return "".join(parts).rstrip("\n") + "\n" if parts else ""


def _lines(ops: Iterable[Operation], depth: int, style: Style) -> list[str]:
    found: list[str] = []
    indent = _INDENT * depth
    inside = {one for inner in style.nested.values() for one in inner.values()}
    for op in ops:
        if op in inside or (isinstance(op, graph.AssignOp) and op.variable.data in style.implied):
            continue
        found += _above(op, style, indent, opened=not found)
        match op:
            case graph.LoopOp():
                bounds = f"{op.index.data} in {size_text(op.start.data)}..{size_text(op.stop.data)}"
                head = f"loop {op.loop_name.data} ({bounds}){_hints(op.hints)}"
            case graph.ScopeOp():
                head = f"scope {string_text(op.label.data)}{_hints(op.hints)}"
            case _:
                found.append(f"{indent}{statement_text(op, style)}\n")
                continue
        found.append(f"{indent}{head} {{\n")
        found += _lines(op.body.block.ops, depth + 1, style)
        found.append(f"{indent}}}\n")
    return found


def _above(op: Operation, style: Style, indent: str, *, opened: bool) -> list[str]:
    """The lines above an op; no empty one where a brace was just opened."""
    lines = style.above(op) or ()
    return [f"{indent}{line}".rstrip() + "\n" for line in lines if line or not opened]


def statement_text(op: Operation, style: Style) -> str:
    """A statement on its line, without indentation; what is nested in it, too."""
    short = style.short
    match op:
        case graph.AssignOp():
            return f"assign {op.variable.data}: {_type(op.dtype, op.sizes)};"
        case graph.OpOp():
            outputs = ", ".join(ref_text(r) for r in op.outputs)
            call = _call(op, style.nested)
            if short and not any(r.bracketed.data for r in op.outputs):
                return f"{outputs} = op {call}{_hints(op.hints)};"
            return f"op {call} >> {outputs}{_hints(op.hints)};"
        case graph.BranchOp():
            if op.condition is not None and op.else_block is not None:
                targets = f"{op.then_block.data} {op.else_block.data}"
                return f"branch {ref_text(op.condition)} {targets};"
            return f"branch {op.then_block.data};"
        case graph.CallOp():
            return _block_call(op, style.nested)
        case graph.BarrierOp():
            return "barrier;"
        case graph.DepOp():
            return f"dep after({op.after.data}) before({op.before.data});"
        case graph.TransferOp():
            return f"transfer {ref_text(op.source)} >> {ref_text(op.target)};"
        case graph.ReturnOp():
            return f"return {', '.join(op.names)};" if op.names else "return;"
        case graph.YieldOp():
            return f"yield {', '.join(op.names)};"
        case graph.AwaitOp():
            return f"await {', '.join(op.names)};"
        case graph.CacheReadOp() if short:
            return f"{ref_text(op.target)} = cache.read {ref_text(op.source)};"
        case graph.CacheReadOp():
            return f"cache.read {ref_text(op.source)} >> {ref_text(op.target)};"
        case graph.CacheWriteOp():
            inner = style.nested.get(op, {}).get(0)
            source = ref_text(op.source) if inner is None else _inner(inner, style.nested)
            return f"cache.write {source} >> {ref_text(op.target)};"
        case graph.CacheStepOp():
            return _cache_step(op)
        case graph.CacheResetOp():
            return f"cache.reset {ref_text(op.target)};"
        case _:
            raise TypeError(f"{op.name} has no program text")


def _call(op: graph.OpOp, nested: Nested) -> str:
    """`add(h, linear(a, W), axis=0)`."""
    inside = nested.get(op, {})
    arguments = [
        _inner(inside[place], nested) if place in inside else operand_text(operand)
        for place, operand in enumerate(op.inputs)
    ]
    arguments += [f"{name}={_value(value)}" for name, value in op.settings.data.items()]
    return f"{op.op_name.data}({', '.join(arguments)})"


def _inner(op: Operation, nested: Nested) -> str:
    """An op, a range or the read of a table as an operand."""
    if isinstance(op, graph.CacheReadOp):
        return ref_text(op.source)
    if (part := part_of(op, nested)) is not None:
        return f"{part[0].text}[{part[1]}]"
    assert isinstance(op, graph.OpOp)
    return _call(op, nested)


def _block_call(op: graph.CallOp, nested: Nested) -> str:
    """`y = branch conv(relu(x), "layer1.0", stride=2);`"""
    inside = nested.get(op, {})
    given: list[str] = []
    for place, value in enumerate(op.inputs):
        if place in inside:
            given.append(_inner(inside[place], nested))
        elif isinstance(value, graph.RefAttr | graph.LiteralAttr):
            given.append(operand_text(value))
        else:
            given.append(_value(value))
    given += [f"{name}={_value(value)}" for name, value in op.settings.data.items()]
    targets = ", ".join(ref_text(ref) for ref in op.outputs)
    return f"{f'{targets} = ' if targets else ''}branch {op.block_name.data}({', '.join(given)});"


def _parameters(op: graph.BlockOp) -> str:
    if op.parameters is None:
        return ""
    defaults = op.defaults.data if op.defaults is not None else {}
    shown = [
        f"{name}={_value(defaults[name])}" if name in defaults else name
        for name in op.parameter_names
    ]
    return f"({', '.join(shown)})"


def _cache_step(op: graph.CacheStepOp) -> str:
    down, amount = op.counted
    text = size_text(amount)
    if text.startswith("-"):
        text = f"({text})"  # No amount starts with a sign.
    word, count = "decrement" if down else "increment", "" if text == "1" else f"{text} "
    return f"cache.{word} {count}{op.variable.data};"


def _variable(op: graph.VariableOp) -> str:
    indices = f"({', '.join(i.data for i in op.indices)})" if op.indices.data else ""
    options = dict(op.options.data)
    other = options.pop("other", None)
    type_ = _type(op.dtype, op.sizes)
    if isinstance(other, DictionaryAttr):
        options.update(other.data)
        if BUFFER in other.data:
            # Its index and its table go without saying.
            indices, type_ = "", _buffer(op)
            options = {k: v for k, v in options.items() if k not in (BUFFER, "table")}
    attributes = "".join(f" {_attribute(k, v)}" for k, v in options.items())
    return f"{op.variable.data}{indices}: {type_}{attributes};"


def _buffer(op: graph.VariableOp) -> str:
    dims = ", ".join(map(size_text, op.sizes))
    return f"buffer({op.dtype.data}{f', [{dims}]' if dims else ''})"


def _attribute(name: str, value: Attribute) -> str:
    match value:
        case UnitAttr():
            return f"@{name}"
        case ArrayAttr(data=items):
            # `@auto_dim` keeps its names as strings, unknown attributes keep values as written.
            return (
                f"@{name}({', '.join(_argument(item, bare=name == 'auto_dim') for item in items)})"
            )
        case _:
            return f"@{name}({_argument(value)})"


def _argument(value: Attribute, *, bare: bool = False) -> str:
    if bare and isinstance(value, StringAttr):
        return value.data
    if isinstance(value, DictionaryAttr):
        return ", ".join(f"{k}={_value(v)}" for k, v in value.data.items())
    return _value(value)


def _hints(hints: DictionaryAttr | None) -> str:
    if hints is None or not hints.data:
        return ""
    return f" with {{ {_pairs(hints.data)} }}"


def _pairs(entries: Mapping[str, Attribute]) -> str:
    return ", ".join(f"{name} = {_value(value)}" for name, value in entries.items())


def _type(dtype: StringAttr, dims: tuple[Size, ...]) -> str:
    return f"{dtype.data}[{', '.join(map(size_text, dims))}]" if dims else dtype.data


def _value(value: Attribute) -> str:
    match value:
        case IntegerAttr():
            number = value.value.data
            if _is_bool(value):
                return "true" if number else "false"
            return str(number)
        case FloatAttr():
            return float_text(value.value.data)
        case StringAttr():
            return string_text(value.data)
        case ArrayAttr(data=items):
            return f"[{', '.join(_value(item) for item in items)}]"
        case graph.NameAttr():
            return value.data
        case graph.SizeAttr():
            # A value cannot start with the sign of a name.
            text = size_text(value.data)
            return f"0 - {text[1:]}" if text.startswith("-") else text
        case _:
            raise TypeError(f"{value} has no program text")


def _is_bool(value: IntegerAttr) -> bool:
    return getattr(value.type, "bitwidth", 0) == 1


def operand_text(operand: graph.Operand) -> str:
    """An operand as it is written: `h`, `W[l]`, `0.5`."""
    return operand.text if isinstance(operand, graph.LiteralAttr) else ref_text(operand)


def ref_text(ref: graph.RefAttr) -> str:
    """A variable use as it is written: `W[l]`, `K[l, ..n]`, `A[i, ]`, `A[..]`."""
    if not ref.bracketed.data:
        return ref.variable.data
    slots: list[str] = []
    for index in ref.indices:
        match index:
            case graph.SizeAttr():
                slots.append(size_text(index.data))
            case graph.SliceAttr():
                text = "..".join(_bound(b) for b in (index.start, index.stop))
                slots.append("" if text == ".." and len(ref.indices) > 1 else text)
            case _:
                raise TypeError(f"{index} is no index")
    return f"{ref.variable.data}[{', '.join(slots)}]"


def _bound(bound: Attribute) -> str:
    return size_text(bound.data) if isinstance(bound, graph.SizeAttr) else ""


def size_text(size: Size) -> str:
    """A size as the language writes it."""
    return str(size)
