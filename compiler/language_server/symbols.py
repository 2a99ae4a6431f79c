"""What names stand for: symbols, the words that name them, their definitions, the parts between braces."""

from __future__ import annotations

from dataclasses import dataclass, field

from openinfer.compiler.frontend.source import Span


@dataclass(frozen=True)
class Symbol:
    """What a name stands for. Two names with equal symbols are the same thing."""

    kind: str
    """"variable" (temporaries too), "parameter" of a block, "index" of a loop, "slot" (the index of a
    declaration), "size", "block", "loop", "op", "setting", "attribute", "dtype", "hint", "keyword",
    "cache", "open" (the dimension `_`) or "unknown"."""
    name: str
    owner: str = ""
    """The op of a setting, the variable of a slot, the place of the loop of an index; the block of a
    parameter, and of a variable that a block with parameters has for itself."""


@dataclass(frozen=True)
class Word:
    """A name of the text."""

    span: Span
    role: str
    """"ref" where a variable must stand, "value" where a size may, or the kind of the symbol."""
    text: str
    owner: str = ""
    defines: bool = False


@dataclass
class Definition:
    """Where something is declared."""

    symbol: Symbol
    name: Span
    whole: Span
    memory: str = ""
    """Memory kind of a variable, "temporary" for one of a block."""
    type_text: str = ""
    """The type as written; empty for one that is inferred. The parameters of a block: `(x, stride=1)`."""
    block: str = ""
    """The block that it stands in."""

    @property
    def is_declared(self) -> bool:
        """Whether it is a variable that a section declares."""
        return self.symbol.kind == "variable" and self.memory not in ("", "temporary")


@dataclass
class Region:
    """A part between braces: a section, block, loop or scope."""

    kind: str
    name: str
    label: Span
    whole: Span
    body: Span
    definition: Definition | None = None
    inner: list[Region] = field(default_factory=list["Region"])
