"""Syntax tree → module: declarations with their attributes, and the blocks behind them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute, Operation

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.build_nodes import Builder, Parts, dtype_name
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Span
from openinfer.dialects import graph
from openinfer.dialects.foreign_words import VALUES
from openinfer.lowering.program.buffer_declarations import BUFFER
from openinfer.lowering.program.places import Places
from openinfer.lowering.program.report import did_you_mean
from openinfer.runtime.dtypes import BLOCK_DTYPES


def build(program: syntax.Program, report: Report) -> tuple[ModuleOp, Places]:
    """The module of a program, mistakes and all, and where its parts stand; types stay open."""
    # `?` stands where an error was reported instead of a name.
    places = Places(unreadable={*program.skipped, "?"}, aborted=program.aborted)
    builder = _ModuleBuilder(report, places, _declared(program))
    ops: list[Operation] = []
    for item in program.items:
        if isinstance(item, syntax.Section):
            ops += [builder.declaration(d, item.memory) for d in item.declarations]
        elif isinstance(item, syntax.SizeDefinition):
            ops.append(builder.size_definition(item))
        elif isinstance(item, syntax.SizeBound):
            ops.append(builder.size_bound(item))
        else:
            ops.append(builder.block(item))
    return builder.module(ops), places


def _declared(program: syntax.Program) -> set[str]:
    """The names of all variables and temporaries."""
    nodes = [node for block in program.blocks for node in syntax.walk(block.body)]
    return {
        *(d.name.text for section in program.sections for d in section.declarations),
        *(node.name.text for node in nodes if isinstance(node, syntax.Assign)),
        *(p.name.text for block in program.blocks for p in block.parameters or ()),
    }


class _ModuleBuilder(Builder):
    def module(self, ops: Sequence[Operation]) -> ModuleOp:
        module = ModuleOp(list(ops))
        self.placed(module, Span(0, 0), Parts())
        return module

    def size_definition(self, definition: syntax.SizeDefinition) -> Operation:
        parts = Parts({("name",): definition.name.span})
        value = self.size(definition.value, parts, ("value",), exact=True)
        return self.placed(graph.SizeOp(definition.name.text, value), definition.span, parts)

    def size_bound(self, bound: syntax.SizeBound) -> Operation:
        parts = Parts()
        low, size, high = (
            None if expression is None else self.size(expression, parts, (part,))
            for part, expression in (("low", bound.low), ("size", bound.size), ("high", bound.high))
        )
        assert size is not None
        return self.placed(graph.SizeBoundOp(size, low, high), bound.span, parts)

    def declaration(self, declaration: syntax.Declaration, memory: str) -> Operation:
        parts = Parts({("name",): declaration.name.span})
        for position, index in enumerate(declaration.indices):
            parts.spans["indices", position] = index.span
        dtype = dtype_name(declaration.type.dtype)
        dims = self.dims(declaration.type, parts)
        options = self.options(declaration, parts)
        if memory == "constant" and dtype in BLOCK_DTYPES and "dtype" not in options:
            # `W: q8_0[N, K]`: its values, which are f32, of a tensor that the package holds so.
            options["dtype"], dtype = graph.NameAttr(dtype), "f32"
        op = graph.VariableOp(
            declaration.name.text,
            memory,
            dtype,
            dims,
            [index.text for index in declaration.indices],
            options,
        )
        return self.placed(op, declaration.span, parts)

    def options(self, declaration: syntax.Declaration, parts: Parts) -> dict[str, Attribute]:
        """The attributes. One with wrong arguments stands without them, if it says anything then."""
        options: dict[str, Attribute] = {}
        other: dict[str, Attribute] = {}
        for attribute in self.attributes(declaration):
            name = attribute.name.text
            arguments = attribute.arguments or ()
            parts.spans["options", name] = attribute.span
            for position, argument in enumerate(arguments):
                named = isinstance(argument, syntax.Setting)
                parts.spans["options", name, position] = (
                    argument.name.span if named else argument.span
                )
            match name:
                case "init":
                    options[name] = self.init(attribute, declaration)
                case "ref" | "pattern":
                    options[name] = StringAttr(self.text(attribute))
                case "dtype":
                    options[name] = self.stored_dtype(attribute)
                case "table":
                    if arguments:
                        self.malformed(attribute, "takes no arguments", "@table")
                    options[name] = UnitAttr()
                case "auto_dim":
                    names = [a.text for a in arguments if isinstance(a, syntax.Name)]
                    good = self.indexed(attribute, len(names) == len(arguments), "@auto_dim(i, j)")
                    options[name] = ArrayAttr([StringAttr(n) for n in names if good])
                case "fixed":
                    options[name] = self.fixed(attribute, declaration, parts)
                case _:
                    other[name] = self.kept(attribute)
        if declaration.buffer and declaration.indices:
            options["table"] = UnitAttr()
            other[BUFFER] = UnitAttr()
        if other:
            options["other"] = DictionaryAttr(other)
        return options

    def attributes(self, declaration: syntax.Declaration) -> list[syntax.Attribute]:
        """The attributes, each once. A buffer is a table by itself."""
        found: dict[str, syntax.Attribute] = {}
        advice = f"remove it, or declare `{declaration.name.text}(i): f32[D] @table;`"
        for attribute in declaration.attributes:
            name = attribute.name.text
            if first := found.get(name):
                self.report.error(
                    "OI0203",
                    attribute.span,
                    f"duplicate @{name} attribute",
                    fix="remove one of them",
                    notes=[("first given here", first.span)],
                )
            elif declaration.buffer and name in ("table", "auto_dim", "fixed"):
                self.report.error(
                    "OI0255",
                    attribute.span,
                    f"@{name} on a buffer, which is a table by itself",
                    fix=advice,
                )
            else:
                found[name] = attribute
        written = [i for i in declaration.indices if i.span != declaration.name.span]
        if declaration.buffer and written:
            self.report.error(
                "OI0255",
                written[0].span,
                "a buffer declares no indices: `index=` selects one of its slots",
                fix=advice.replace("it,", "them,"),
            )
        return list(found.values())

    def malformed(self, attribute: syntax.Attribute, what: str, usage: str) -> None:
        """Reports an attribute with other arguments than it takes."""
        self.report.error(
            "OI0253",
            attribute.span,
            f"@{attribute.name.text} {what}",
            fix=f"write `{usage}`",
        )

    def init(self, attribute: syntax.Attribute, declaration: syntax.Declaration) -> Attribute:
        """The only argument, a number or bool; something else after a report."""
        arguments = attribute.arguments or ()
        literal = arguments[0] if len(arguments) == 1 else None
        if isinstance(literal, syntax.Literal) and not isinstance(literal.value, str):
            return self.value(literal, Parts(), ())
        if not declaration.type.open:  # There it cannot stand, whatever it says.
            value = VALUES.get(literal.text, "0") if isinstance(literal, syntax.Name) else "0"
            self.malformed(attribute, "takes one number or bool", f"@init({value})")
        return UnitAttr()

    def text(self, attribute: syntax.Attribute) -> str:
        """The only argument, a string. Empty after a report."""
        arguments = attribute.arguments or ()
        argument = arguments[0] if len(arguments) == 1 else None
        if isinstance(argument, syntax.Literal) and isinstance(argument.value, str):
            if argument.value:
                return argument.value
        name = attribute.name.text
        self.malformed(attribute, "takes one non-empty string", f'@{name}("NAME")')
        return ""

    def stored_dtype(self, attribute: syntax.Attribute) -> Attribute:
        """The only argument, the name of a dtype; something else after a report."""
        arguments = attribute.arguments or ()
        if len(arguments) == 1 and isinstance(arguments[0], syntax.Name):
            return graph.NameAttr(dtype_name(arguments[0]))
        self.malformed(attribute, "takes one dtype", "@dtype(f16)")
        return UnitAttr()

    def indexed(self, attribute: syntax.Attribute, good: bool, usage: str) -> bool:
        """Whether the arguments name indices in the form that the attribute takes."""
        if not attribute.arguments:
            self.malformed(attribute, "requires at least one index", usage)
            return False
        if not good:
            self.malformed(attribute, "has an argument of another form", usage)
        return good

    def fixed(
        self, attribute: syntax.Attribute, declaration: syntax.Declaration, parts: Parts
    ) -> DictionaryAttr:
        """`@fixed(i=4)`, `@fixed(i=heads)`."""
        bounds = [a for a in attribute.arguments or () if _is_bound(a)]
        good = len(bounds) == len(attribute.arguments or ())
        if not self.indexed(attribute, good, "@fixed(i=1024)"):
            return DictionaryAttr({})
        found: dict[str, Attribute] = {}
        indices = [index.text for index in declaration.indices]
        for bound in bounds:
            assert isinstance(bound, syntax.Setting)
            name = bound.name.text
            if name in found:
                self.report.error(
                    "OI0257",
                    bound.name.span,
                    f"`{name}` in @fixed is named twice of `{declaration.name.text}`",
                    fix=did_you_mean(
                        name, set(indices) - found.keys(), f"indices: {', '.join(indices)}"
                    ),
                )
            part = ("options", "fixed", name)
            found.setdefault(name, self.value(bound.value, parts, part))
        return DictionaryAttr(found)

    def kept(self, attribute: syntax.Attribute) -> Attribute:
        """An attribute that is kept as written: unit, or an array of values and `{name = value}`."""
        if attribute.arguments is None:
            return UnitAttr()
        return ArrayAttr(
            [
                DictionaryAttr(self.entries([argument], Parts(), ()))
                if isinstance(argument, syntax.Setting)
                else self.value(argument, Parts(), ())
                for argument in attribute.arguments
            ]
        )


def _is_bound(argument: syntax.Value | syntax.Setting) -> bool:
    """Whether an argument is `index=NUMBER`, or a size in its place."""
    if not isinstance(argument, syntax.Setting):
        return False
    value = argument.value
    if isinstance(value, syntax.Literal):
        return type(value.value) is int and value.value >= 0
    return not isinstance(value, syntax.ListValue)
