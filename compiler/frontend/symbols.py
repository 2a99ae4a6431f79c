"""What the names of a program stand for, collected before anything is checked against them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.expressions import BadSize, to_size
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.syntax import walk
from openinfer.lowering.graph.buffers import BUFFER
from openinfer.runtime.dtypes import ALIASES, DTYPES, DType
from openinfer.runtime.sizes import Size

TEMPORARY = "temporary"


@dataclass(frozen=True)
class Symbol:
    """A declared variable or a temporary."""

    name: str
    memory: str
    """A memory kind, or "temporary"."""
    type: syntax.Type
    indices: tuple[str, ...]
    attributes: frozenset[str]
    span: Span
    auto: tuple[str, ...] = ()
    """The indices that `@auto_dim` names."""
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])
    """The bounds that `@fixed` gives."""
    buffer: bool = False

    @property
    def rank(self) -> int | None:
        """The number of dimensions; None when it is not known yet."""
        if self.type.open or (self.buffer and self.indices):
            return None
        return len(self.type.dims)

    @property
    def table_indices(self) -> tuple[str, ...]:
        """The indices that select an entry: those that `@auto_dim` does not name."""
        return tuple(index for index in self.indices if index not in self.auto)

    @property
    def dtype(self) -> DType | None:
        """None when the dtype is unknown (and reported)."""
        name = self.type.dtype.text
        return DTYPES.get(ALIASES.get(name, name))

    @property
    def dims(self) -> tuple[Size | None, ...]:
        """The shape; None for a dimension that is no valid size, or is `_`."""
        return tuple(None if is_open(dim) else size_or_none(dim) for dim in self.type.dims)

    @property
    def maybe_single(self) -> bool:
        """Whether nothing is known against its having one element."""
        return all(d is None or d.constant in (None, 1) for d in self.dims) and not self.indices

    @property
    def scalar(self) -> bool:
        """Whether it has no dimensions, or only ones of size 1."""
        return all(d is None or d.constant == 1 for d in self.dims) and not self.indices

    @property
    def maybe_integer(self) -> bool:
        return self.dtype is None or self.dtype.is_integer or self.dtype.kind == "bool"

    @property
    def what(self) -> str:
        """As a message says it: "constant variable" or "temporary"."""
        return self.memory if self.memory == TEMPORARY else f"{self.memory} variable"


@dataclass
class Symbols:
    """All names of a program."""

    declared: dict[str, Symbol] = field(default_factory=dict[str, Symbol])
    temporaries: dict[str, Symbol] = field(default_factory=dict[str, Symbol])
    blocks: dict[str, syntax.Block] = field(default_factory=dict[str, syntax.Block])
    loop_indices: set[str] = field(default_factory=set[str])
    unreadable: set[str] = field(default_factory=set[str])
    """Names in text with syntax errors, of which nothing can be said."""

    def find(self, name: str) -> Symbol | None:
        return self.declared.get(name) or self.temporaries.get(name)

    @property
    def variables(self) -> set[str]:
        return {*self.declared, *self.temporaries}


def is_open(dim: syntax.Expr) -> bool:
    """Whether a dimension is `_`: it is taken from the value that is written."""
    return isinstance(dim, syntax.Name) and dim.text == "_"


def size_or_none(expression: syntax.Expr) -> Size | None:
    """The size of an expression, None when it is refused elsewhere."""
    try:
        return to_size(expression)
    except BadSize:
        return None


def collect(program: syntax.Program) -> Symbols:
    """The names of a program; of those that are given twice, the first one."""
    # `?` stands where an error was reported instead of a name.
    symbols = Symbols(unreadable={*program.skipped, "?"})
    for section in program.sections:
        for declaration in section.declarations:
            _declare(symbols, declaration, section.memory)
    for block in program.blocks:
        symbols.blocks.setdefault(block.name.text, block)
        for node in walk(block.body):
            if isinstance(node, syntax.Assign) and node.name.text not in symbols.declared:
                name = node.name
                symbol = Symbol(name.text, TEMPORARY, node.type, (), frozenset(), name.span)
                symbols.temporaries.setdefault(name.text, symbol)
            elif isinstance(node, syntax.Loop):
                symbols.loop_indices.add(node.index.text)
    return symbols


def _declare(symbols: Symbols, declaration: syntax.Declaration, memory: str) -> None:
    name = declaration.name
    attributes = {attribute.name.text for attribute in declaration.attributes}
    if declaration.buffer and declaration.indices:
        attributes.add("table")
    symbol = Symbol(
        name.text,
        memory,
        declaration.type,
        tuple(index.text for index in declaration.indices),
        frozenset(attributes),
        name.span,
        tuple(a.text for a in _arguments(declaration, "auto_dim") if isinstance(a, syntax.Name)),
        dict(_bounds(declaration)),
        declaration.buffer or BUFFER in attributes,
    )
    symbols.declared.setdefault(name.text, symbol)


def _arguments(
    declaration: syntax.Declaration, attribute: str
) -> tuple[syntax.Value | syntax.Setting, ...]:
    for found in declaration.attributes:
        if found.name.text == attribute:
            return found.arguments or ()
    return ()


def _bounds(declaration: syntax.Declaration) -> Iterator[tuple[str, int]]:
    for argument in _arguments(declaration, "fixed"):
        if isinstance(argument, syntax.Setting) and isinstance(argument.value, syntax.Literal):
            value = argument.value.value
            if isinstance(value, int) and not isinstance(value, bool):
                yield argument.name.text, value
