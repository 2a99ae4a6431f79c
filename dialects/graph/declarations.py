"""Operations at the top of a graph module: variables, blocks, and what is known of the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import opt_prop_def, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryWriteEffect, NoTerminator
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.graph.attributes import KINDS, SizeAttr, parse_size, print_size
from openinfer.dialects.graph.syntax import (
    GraphOp,
    as_text,
    check_dtype,
    parse_body,
    parse_dict,
    parse_entries,
    parse_text,
    parse_type,
    print_dict,
    print_type,
)
from openinfer.dialects.late_syntax import op_definition
from openinfer.runtime.dtypes import PACKAGE_DTYPES
from openinfer.runtime.sizes import Size, SizeLike


@op_definition
class VariableOp(GraphOp):
    """A declaration: `graph.variable W(l) constant f32 [D, "3*D"] {pattern = "W.{l}"}`.

    `options` may hold `init` (Float/Integer attr), `ref` and `pattern` (string), `table` (unit),
    `auto_dim` (array of strings), `fixed` (dictionary), `dtype` (name: what the package holds), and
    unknown attributes under `other`.
    """

    name = "graph.variable"

    variable = prop_def(StringAttr)
    memory = prop_def(StringAttr)
    dtype = prop_def(StringAttr)
    dims = prop_def(ArrayAttr[SizeAttr])
    indices = prop_def(ArrayAttr[StringAttr])
    options = prop_def(DictionaryAttr)

    traits = traits_def(MemoryWriteEffect())

    def __init__(
        self,
        variable: str,
        memory: str,
        dtype: str,
        dims: Sequence[SizeLike] = (),
        indices: Sequence[str] = (),
        options: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            properties={
                "variable": StringAttr(variable),
                "memory": StringAttr(memory),
                "dtype": StringAttr(dtype),
                "dims": ArrayAttr([SizeAttr.of(d) for d in dims]),
                "indices": ArrayAttr([StringAttr(i) for i in indices]),
                "options": DictionaryAttr(dict(options or {})),
            }
        )

    @property
    def sizes(self) -> tuple[Size, ...]:
        return tuple(d.data for d in self.dims)

    def option(self, key: str) -> Attribute | None:
        return self.options.data.get(key)

    def verify_(self) -> None:
        check_dtype(self, self.dtype)
        if self.memory.data not in KINDS:
            raise VerifyException(f"graph.variable: unknown memory kind {self.memory.data!r}")
        if "pattern" in self.options.data and not self.indices.data:
            raise VerifyException("graph.variable: a pattern needs at least one index")

    @classmethod
    def parse(cls, parser: Parser) -> VariableOp:
        name = parser.parse_identifier("variable name")
        indices = parser.parse_optional_comma_separated_list(
            Parser.Delimiter.PAREN, parser.parse_identifier
        )
        memory = parser.parse_identifier("memory kind")
        dtype, dims = parse_type(parser)
        options = parse_entries(parser)
        return cls(name, memory, dtype.data, [d.data for d in dims], indices or (), options)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.variable.data}")
        if self.indices.data:
            printer.print_string(f"({', '.join(i.data for i in self.indices)})")
        printer.print_string(f" {self.memory.data} ")
        print_type(printer, self.dtype, self.dims)
        if self.options.data:
            printer.print_string(" ")
            printer.print_attr_dict(self.options.data)


@op_definition
class PackageSizeOp(GraphOp):
    """A named size of the package (or given by the caller): `graph.package_size B = 4`."""

    name = "graph.package_size"

    size = prop_def(StringAttr)
    value = prop_def(SizeAttr)

    traits = traits_def(MemoryWriteEffect())

    def __init__(self, size: str, value: int) -> None:
        super().__init__(properties={"size": StringAttr(size), "value": SizeAttr.of(value)})

    @classmethod
    def parse(cls, parser: Parser) -> PackageSizeOp:
        name = parse_text(parser)
        parser.parse_punctuation("=")
        return cls(name, parser.parse_integer())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.size.data)
        printer.print_string(f" = {self.value.data}")


@op_definition
class SizeOp(GraphOp):
    """A size that the program defines: `graph.size head = "hidden/heads"`."""

    name = "graph.size"

    size = prop_def(StringAttr)
    value = prop_def(SizeAttr)

    traits = traits_def(MemoryWriteEffect())

    def __init__(self, size: str, value: SizeLike) -> None:
        super().__init__(properties={"size": StringAttr(size), "value": SizeAttr.of(value)})

    @classmethod
    def parse(cls, parser: Parser) -> SizeOp:
        name = parser.parse_identifier("size name")
        parser.parse_punctuation("=")
        return cls(name, parse_size(parser))

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.size.data} = ")
        print_size(printer, self.value.data)


@op_definition
class SizeBoundOp(GraphOp):
    """What a size may be, limits included: `graph.size_bound L at_least 1 at_most 512`, one or both."""

    name = "graph.size_bound"

    size = prop_def(SizeAttr)
    low = opt_prop_def(SizeAttr)
    high = opt_prop_def(SizeAttr)

    traits = traits_def(MemoryWriteEffect())

    def __init__(
        self, size: SizeLike, low: SizeLike | None = None, high: SizeLike | None = None
    ) -> None:
        super().__init__(
            properties={
                "size": SizeAttr.of(size),
                "low": None if low is None else SizeAttr.of(low),
                "high": None if high is None else SizeAttr.of(high),
            }
        )

    @property
    def text(self) -> str:
        """As a program writes it: `1 <= L <= 512`."""
        parts = [part for part in (self.low, self.size, self.high) if part is not None]
        return " <= ".join(str(part.data) for part in parts)

    def verify_(self) -> None:
        if self.low is None and self.high is None:
            raise VerifyException("graph.size_bound: needs `at_least`, `at_most` or both")

    @classmethod
    def parse(cls, parser: Parser) -> SizeBoundOp:
        size = parse_size(parser)
        low = parse_size(parser) if parser.parse_optional_keyword("at_least") else None
        high = parse_size(parser) if parser.parse_optional_keyword("at_most") else None
        return cls(size, low, high)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_size(printer, self.size.data)
        for word, limit in (("at_least", self.low), ("at_most", self.high)):
            if limit is not None:
                printer.print_string(f" {word} ")
                print_size(printer, limit.data)


@op_definition
class PackageTensorOp(GraphOp):
    """A tensor of the package: `graph.package_tensor "W.0" f32 [384, 384]`, `absent` if no data.

    The dtype is that of the package, which may be a block format.
    """

    name = "graph.package_tensor"

    tensor = prop_def(StringAttr)
    dtype = prop_def(StringAttr)
    dims = prop_def(ArrayAttr[SizeAttr])
    absent = opt_prop_def(StringAttr)

    traits = traits_def(MemoryWriteEffect())

    def __init__(
        self, tensor: str, dtype: str, dims: Sequence[int], *, absent: bool = False
    ) -> None:
        super().__init__(
            properties={
                "tensor": StringAttr(tensor),
                "dtype": StringAttr(dtype),
                "dims": ArrayAttr([SizeAttr.of(d) for d in dims]),
                "absent": StringAttr("absent") if absent else None,
            }
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(d.data.evaluate({}) for d in self.dims)

    def verify_(self) -> None:
        check_dtype(self, self.dtype, PACKAGE_DTYPES)

    @classmethod
    def parse(cls, parser: Parser) -> PackageTensorOp:
        name = parse_text(parser)
        dtype, dims = parse_type(parser)
        absent = parser.parse_optional_keyword("absent") is not None
        return cls(name, dtype.data, [d.data.evaluate({}) for d in dims], absent=absent)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.tensor.data)
        printer.print_string(" ")
        print_type(printer, self.dtype, self.dims)
        if self.absent is not None:
            printer.print_string(" absent")


@op_definition
class PackageValueOp(GraphOp):
    """A metadata entry that the program names: `graph.package_value "eps" = 1.0e-12 : f64`."""

    name = "graph.package_value"

    entry = prop_def(StringAttr)
    value = prop_def(Attribute)

    traits = traits_def(MemoryWriteEffect())

    def __init__(self, entry: str, value: Attribute) -> None:
        super().__init__(properties={"entry": StringAttr(entry), "value": value})

    @classmethod
    def parse(cls, parser: Parser) -> PackageValueOp:
        name = parse_text(parser)
        parser.parse_punctuation("=")
        return cls(name, as_text(parser.parse_attribute()))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.entry.data)
        printer.print_string(" = ")
        printer.print_attribute(self.value)


@op_definition
class BlockOp(GraphOp):
    """A named block of nodes: `graph.block entry { … }`.

    A block with parameters, `graph.block conv(x, path, stride) defaults {stride = 1} { … }`, is copied to
    each place that calls it (`inline-calls`): its temporaries, which no `graph.assign` declares, and the
    constants that it declares are anew for each call.
    """

    name = "graph.block"

    block_name = prop_def(StringAttr)
    parameters = opt_prop_def(ArrayAttr[StringAttr])
    defaults = opt_prop_def(DictionaryAttr)
    hints = opt_prop_def(DictionaryAttr)
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), MemoryWriteEffect())

    def __init__(
        self,
        block_name: str,
        body: Region | Sequence[Operation],
        hints: Mapping[str, Attribute] | None = None,
        parameters: Sequence[str] | None = None,
        defaults: Mapping[str, Attribute] | None = None,
    ) -> None:
        named = None if parameters is None else ArrayAttr([StringAttr(p) for p in parameters])
        super().__init__(
            properties={
                "block_name": StringAttr(block_name),
                "parameters": named,
                "defaults": DictionaryAttr(dict(defaults)) if defaults else None,
                "hints": DictionaryAttr(dict(hints)) if hints else None,
            },
            regions=[body if isinstance(body, Region) else Region(Block(body))],
        )

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """What a call gives, in order; none also of a block that takes no parameters."""
        return tuple(p.data for p in self.parameters) if self.parameters is not None else ()

    @classmethod
    def parse(cls, parser: Parser) -> BlockOp:
        name = parser.parse_identifier("block name")
        parameters = parser.parse_optional_comma_separated_list(
            Parser.Delimiter.PAREN, parser.parse_identifier
        )
        defaults = parse_dict(parser, "defaults")
        hints = parse_dict(parser, "with")
        return cls(
            name,
            parse_body(parser),
            hints.data if hints else None,
            parameters,
            defaults.data if defaults else None,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.block_name.data}")
        if self.parameters is not None:
            printer.print_string(f"({', '.join(self.parameter_names)})")
        print_dict(printer, "defaults", self.defaults)
        print_dict(printer, "with", self.hints)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)


# Nodes --------------------------------------------------------------------------------------------
