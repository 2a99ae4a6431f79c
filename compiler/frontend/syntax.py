"""The syntax tree: what was written, with the span of every part. Nothing is resolved here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from openinfer.compiler.frontend.source import Span
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class Name:
    """An identifier."""

    text: str
    span: Span


# Size expressions: sums and products are flat, so that a long chain is not a deep tree.


@dataclass(frozen=True)
class Number:
    value: int
    span: Span


@dataclass(frozen=True)
class Sum:
    """`a + b - c`: each term with its sign, 1 or -1."""

    terms: tuple[tuple[int, Expr], ...]
    span: Span


@dataclass(frozen=True)
class Product:
    """`a * b / c`: the first factor, then each with `*` or `/`."""

    first: Expr
    rest: tuple[tuple[str, Expr], ...]
    span: Span


@dataclass(frozen=True)
class Call:
    """`max(a, b)` or `min(a, b)`."""

    function: Name
    arguments: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True)
class Element:
    """`slots[i]`: an element of a variable with one dimension. `read_elements` puts a name in its place."""

    name: Name
    index: Expr
    span: Span


Expr = Name | Number | Sum | Product | Call | Element


# Values of settings, attributes and hints.


@dataclass(frozen=True)
class Literal:
    """An int, float, bool or string; `-`, `inf`, `-inf` and `nan` are already applied."""

    value: int | float | bool | str
    span: Span


@dataclass(frozen=True)
class ListValue:
    items: tuple[Value, ...]
    span: Span


Value = Literal | ListValue | Expr
"""A name may be a dtype, a size, a scalar variable or a metadata entry; an expression is a size."""


@dataclass(frozen=True)
class Setting:
    """`name=value`."""

    name: Name
    value: Value

    @property
    def span(self) -> Span:
        return self.name.span.to(self.value.span)


@dataclass(frozen=True)
class Attribute:
    """`@name` or `@name(arguments)` on a declaration."""

    name: Name
    arguments: tuple[Value | Setting, ...] | None
    """None when no parentheses were written."""
    span: Span


# Declarations.


@dataclass(frozen=True)
class Type:
    """`f32[B, 3*D]`; the type `_` is taken from the package, or from what is written."""

    dtype: Name
    dims: tuple[Expr, ...]
    span: Span

    @property
    def open(self) -> bool:
        """Whether it is `_`."""
        return self.dtype.text == "_"


@dataclass(frozen=True)
class Declaration:
    name: Name
    indices: tuple[Name, ...]
    type: Type
    attributes: tuple[Attribute, ...]
    span: Span
    buffer: bool = False
    """Whether it was written as `c: buffer(f32, [B, T]);`."""


@dataclass(frozen=True)
class SizeDefinition:
    """`size head = hidden / heads;`, at the top of a program or in a body."""

    name: Name
    value: Expr
    span: Span


@dataclass(frozen=True)
class SizeBound:
    """`size 1 <= L <= 512;`, at the top of a program; one of both limits may be missing."""

    low: Expr | None
    size: Expr
    high: Expr | None
    span: Span


@dataclass(frozen=True)
class Section:
    """`volatile { … }`."""

    memory: str
    declarations: tuple[Declaration, ...]
    span: Span


# Nodes.


@dataclass(frozen=True)
class Slice:
    """A slot `a..b` of a cache access; an empty slot is `..`."""

    start: Expr | None
    stop: Expr | None
    span: Span


@dataclass(frozen=True)
class Ref:
    """A use of a variable: `h`, `W[l]`, `K[l, 0..n]`, `K[]`."""

    name: Name
    slots: tuple[Expr | Slice, ...] | None
    """None when no brackets were written."""
    span: Span


@dataclass(frozen=True)
class Assign:
    name: Name
    type: Type
    span: Span
    implied: bool = False
    """Whether it stands for the definition `y = …` behind it."""


@dataclass(frozen=True)
class Op:
    """An op; one that is the operand of another statement has no outputs before `Desugarer` names them."""

    name: Name
    operands: tuple[Operand, ...]
    settings: tuple[Setting, ...]
    outputs: tuple[Ref, ...]
    hints: tuple[Setting, ...]
    span: Span
    defines: bool = False
    """Whether it was written `y = op …`: a new name is then a temporary with an inferred type."""


Operand = Ref | Literal | Op


@dataclass(frozen=True)
class Branch:
    condition: Ref | None
    then_block: Name
    else_block: Name | None
    span: Span


@dataclass(frozen=True)
class BlockCall:
    """`y = branch conv(x, "layer1.0", stride=2);`"""

    block: Name
    inputs: tuple[Operand | Expr, ...]
    """Texts, too, and sizes such as `n + 1`."""
    settings: tuple[Setting, ...]
    outputs: tuple[Ref, ...]
    span: Span


@dataclass(frozen=True)
class Barrier:
    span: Span


@dataclass(frozen=True)
class Dep:
    """`dep after(matmul) before(cache.write);`."""

    after: Name
    before: Name
    span: Span


@dataclass(frozen=True)
class Transfer:
    source: Ref
    target: Ref
    span: Span


@dataclass(frozen=True)
class Loop:
    name: Name
    index: Name
    start: Expr
    stop: Expr
    hints: tuple[Setting, ...]
    body: tuple[Node, ...]
    span: Span


@dataclass(frozen=True)
class Scope:
    label: Literal
    hints: tuple[Setting, ...]
    body: tuple[Node, ...]
    span: Span


@dataclass(frozen=True)
class Return:
    names: tuple[Name, ...]
    span: Span


@dataclass(frozen=True)
class Yield:
    names: tuple[Name, ...]
    span: Span


@dataclass(frozen=True)
class Await:
    names: tuple[Name, ...]
    span: Span


@dataclass(frozen=True)
class CacheRead:
    source: Ref
    target: Ref
    span: Span
    defines: bool = False
    """Whether it was written `y = cache.read …`, or `y = effect read(…)`."""


@dataclass(frozen=True)
class CacheWrite:
    source: Ref | Op
    target: Ref
    span: Span


@dataclass(frozen=True)
class CacheStep:
    """`cache.increment 2 n`, `cache.increment T + 1 n`; `down` for a decrement."""

    variable: Name
    amount: Expr
    down: bool
    span: Span


@dataclass(frozen=True)
class CacheReset:
    target: Ref
    span: Span


@dataclass(frozen=True)
class Broken:
    """A statement that could not be read; its errors are reported already."""

    span: Span


Node = (
    Assign | Op | Branch | BlockCall | Barrier | Dep | Transfer | Loop | Scope | Return | Yield | Await
    | CacheRead | CacheWrite | CacheStep | CacheReset | SizeDefinition | Broken
)  # fmt: skip


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """All nodes of a body in text order, those of loops and scopes included."""
    for node in nodes:
        yield node
        if isinstance(node, Loop | Scope):
            yield from walk(node.body)


@dataclass(frozen=True)
class Parameter:
    """`path` or `stride=1` of a block."""

    name: Name
    default: Value | None


@dataclass(frozen=True)
class Block:
    name: Name
    hints: tuple[Setting, ...]
    body: tuple[Node, ...]
    span: Span
    close: Span
    """The closing brace."""
    closed: bool = True
    """Whether the brace is there."""
    parameters: tuple[Parameter, ...] | None = None
    """None when no parentheses were written."""
    declarations: tuple[Declaration, ...] = ()
    """Constants of each call."""


Item = Section | Block | SizeDefinition | SizeBound


@dataclass
class Program:
    sections: list[Section] = field(default_factory=list[Section])
    blocks: list[Block] = field(default_factory=list[Block])
    items: list[Item] = field(default_factory=list["Item"])
    """Sections, blocks, definitions and bounds of sizes in text order."""
    links: list[Declaration] = field(default_factory=list[Declaration])
    """Constants that `model["…"]` in the text stands for."""
    skipped: set[str] = field(default_factory=set[str])
    """Names in text that a syntax error made unreadable: nobody complains of their absence."""
    aborted: bool = False
    """Whether the end of the text was not read."""
