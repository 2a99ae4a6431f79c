"""Graph JSON → `graph` dialect: read into syntax, then checked and built as a program text is."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr

from openinfer.compiler.frontend import ParseResult, checked, syntax
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Source, Span
from openinfer.compiler.graph_json.positions import Json, read_json
from openinfer.compiler.graph_json.read_nodes import NodeReader
from openinfer.compiler.graph_json.schema import Refused

KINDS = {
    "Dynamic": "dynamic",
    "Volatile": "volatile",
    "Constant": "constant",
    "Persistent": "persistent",
}
_VARIABLE = (
    "ref_name", "pattern", "table_indices", "table", "auto_dim", "fixed", "init", "attributes",
    "location",
)  # fmt: skip


def parse_json(text: str, file: str = "<graph>", strict: bool = False) -> ParseResult:
    """Reads, checks and builds a graph JSON; never raises for a bad text.

    Diagnostics stand at the places of the JSON text. With `strict`, unknown hints and attributes
    are errors instead of warnings.
    """
    source = Source(text, file)
    report = Report(strict, source=source)
    program: syntax.Program | None = None
    reader = _GraphReader(source, report)
    whole = read_json(source, report)
    if whole is not None:
        try:
            program = reader.graph(whole)
        except Refused:
            program = None
    if program is None or report.errors:
        # What could not be read would only be missed everywhere else.
        return ParseResult(None, report.sorted(), source)
    result = checked(program, report)
    if result.module is not None:
        _relocate(result.module, source, reader.places)
    return result


@dataclass(frozen=True)
class _Place:
    """Where the program text has what a JSON object says."""

    file: str
    line: int
    column: int


class _GraphReader(NodeReader):
    def __init__(self, source: Source, report: Report) -> None:
        super().__init__(source, report)
        self.places: dict[Span, _Place] = {}

    def graph(self, value: Json) -> syntax.Program:
        if value.kind == "array":
            raise self.refuse(
                value,
                "this is an array, a graph is an object",
                "a trace is shown by `openinfer trace FILE`",
            )
        members = self.fields(
            value,
            "a graph",
            ("vars", "blocks"),
            ("next_index", "source", "sizes", "size_bounds"),
        )
        if "next_index" in members:
            self.whole(members["next_index"], "next_index", 0)
        program = syntax.Program()
        for key, item in self.expect(members["vars"], "object", "vars").members.items():
            try:
                memory, declaration = self.declaration(key, item)
            except Refused:
                continue
            section = program.sections[-1] if program.sections else None
            if section is not None and section.memory == memory:
                program.sections[-1] = syntax.Section(
                    memory, (*section.declarations, declaration), section.span
                )
            else:
                program.sections.append(syntax.Section(memory, (declaration,), item.span))
        program.blocks = self.blocks(members["blocks"])
        sizes = self.sizes(members["sizes"]) if "sizes" in members else []
        bounds = self.size_bounds(members["size_bounds"]) if "size_bounds" in members else []
        program.items = [*sizes, *bounds, *program.sections, *program.blocks]
        if "source" in members:
            self._read_places(value, members["source"])
        return program

    def sizes(self, value: Json) -> list[syntax.SizeDefinition]:
        """`[{"name": "head", "value": "hidden/heads"}]`."""
        found: list[syntax.SizeDefinition] = []
        for item in self.items(value, "sizes"):
            members = self.fields(item, "a size", ("name", "value"), ("location",))
            name = self.name(members["name"], "the name of a size")
            size = self.expression(members["value"], "a size")
            found.append(syntax.SizeDefinition(name, size, item.span))
        return found

    def size_bounds(self, value: Json) -> list[syntax.SizeBound]:
        """`[{"size": "L", "low": "1", "high": "context"}]`, with one of both limits at least."""
        found: list[syntax.SizeBound] = []
        for item in self.items(value, "size_bounds"):
            keys = ("low", "high", "location")
            members = self.fields(item, "the bound of a size", ("size",), keys)
            if "low" not in members and "high" not in members:
                raise self.refuse(item, 'the bound of a size lacks "low" or "high"')
            low, size, high = (
                self.expression(members[key], f'"{key}" of a bound') if key in members else None
                for key in ("low", "size", "high")
            )
            assert size is not None
            found.append(syntax.SizeBound(low, size, high, item.span))
        return found

    # Declarations.

    def declaration(self, key: str, value: Json) -> tuple[str, syntax.Declaration]:
        """The memory kind and the declaration of a variable."""
        members = self.fields(value, "a variable", ("name", "dtype", "dims", "kind"), _VARIABLE)
        name = self.name(members["name"], "the name of a variable")
        if name.text != key:
            raise self.refuse(
                members["name"], f"the variable is called {name.text} here and {key} by its key"
            )
        kind, content = self.variant(members["kind"], "kind of memory", KINDS)
        if content is not None:
            raise self.refuse(members["kind"], f"{kind} has no content", f'write "{kind}"')
        indices: tuple[syntax.Name, ...] = ()
        if "table_indices" in members:
            indices = self.names(members["table_indices"], "table_indices")
        type_ = self.type(members["dtype"], members["dims"])
        attributes = self.attributes(members, type_.dtype.text)
        return KINDS[kind], syntax.Declaration(name, indices, type_, attributes, value.span)

    def attributes(self, members: dict[str, Json], dtype: str) -> tuple[syntax.Attribute, ...]:
        found: list[syntax.Attribute] = []

        def add(name: str, value: Json, *arguments: syntax.Value | syntax.Setting) -> None:
            found.append(syntax.Attribute(syntax.Name(name, value.span), arguments, value.span))

        given = {key: member for key, member in members.items() if member.kind != "null"}
        if "init" in given:
            add("init", given["init"], self.initial(given["init"], dtype))
        for key, attribute in (("ref_name", "ref"), ("pattern", "pattern")):
            if key in given:
                text = self.text(given[key], key)
                add(attribute, given[key], syntax.Literal(text, given[key].span))
        if "table" in given and self.flag(given["table"], "table"):
            found.append(
                syntax.Attribute(
                    syntax.Name("table", given["table"].span), None, given["table"].span
                )
            )
        if "auto_dim" in given and (names := self.names(given["auto_dim"], "auto_dim")):
            add("auto_dim", given["auto_dim"], *names)
        if "fixed" in given and (bounds := self.fixed(given["fixed"])):
            add("fixed", given["fixed"], *bounds)
        if "attributes" in given:
            found += [self.attribute(a) for a in self.items(given["attributes"], "attributes")]
        return tuple(found)

    def fixed(self, value: Json) -> list[syntax.Setting]:
        """`[["i", 4]]`."""
        found: list[syntax.Setting] = []
        for item in self.items(value, "fixed"):
            pair = self.items(item, "an item of fixed")
            if len(pair) != 2:
                raise self.refuse(item, "an item of fixed is [NAME, NUMBER]")
            name = self.name(pair[0], "an index")
            bound: syntax.Value
            if pair[1].kind == "string":
                bound = self.expression(pair[1], "a bound")
            else:
                whole = self.whole(pair[1], "a bound", 0, 2**63 - 1)
                bound = syntax.Literal(whole, pair[1].span)
            found.append(syntax.Setting(name, bound))
        return found

    def attribute(self, value: Json) -> syntax.Attribute:
        """`{"name": "layout", "arguments": […]}`, an argument being a value or `{"Named": …}`."""
        members = self.fields(value, "an attribute", ("name",), ("arguments",))
        name = self.name(members["name"], "the name of an attribute")
        written = members.get("arguments")
        if written is None or written.kind == "null":
            return syntax.Attribute(name, None, value.span)
        arguments: list[syntax.Value | syntax.Setting] = []
        for item in self.items(written, "arguments"):
            named = item.members.get("Named")
            if named is None or len(item.members) != 1:
                arguments.append(self.value(item))
                continue
            parts = self.fields(named, "Named", ("name", "value"))
            arguments.append(
                syntax.Setting(self.name(parts["name"], "the name"), self.value(parts["value"]))
            )
        return syntax.Attribute(name, tuple(arguments), value.span)

    # Places of the program text.

    def _read_places(self, whole: Json, value: Json) -> None:
        """The places that `source` and the `location` keys give."""
        file = self.text(self.fields(value, "source", ("file",))["file"], "file")
        pending = [whole]
        while pending:
            item = pending.pop()
            pending += item.children()
            place = item.members.get("location")
            # A variable or a block may have that name.
            if place is None or item in (whole.members["vars"], whole.members["blocks"]):
                continue
            numbers = self.items(place, "location")
            if len(numbers) != 2:
                raise self.refuse(place, "location is [LINE, COLUMN]")
            line, column = (self.whole(n, "a place", 1, 2**31) for n in numbers)
            self.places[item.span] = _Place(file, line, column)


def _relocate(module: ModuleOp, source: Source, places: dict[Span, _Place]) -> None:
    """Gives ops the places of the program text instead of those in the JSON text."""
    if not places:
        return
    known = {source.place(span.start): place for span, place in places.items()}
    file = next(iter(places.values())).file
    module.location = FileLineColLoc(StringAttr(file), IntAttr(1), IntAttr(1))
    for op in module.walk():
        if isinstance(op.location, FileLineColLoc):
            place = known.get((op.location.line.data, op.location.column.data))
            if place is not None:
                op.location = FileLineColLoc(
                    StringAttr(place.file), IntAttr(place.line), IntAttr(place.column)
                )
