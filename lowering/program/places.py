"""Where a text has the parts of the ops that were read from it: finer than the locations of ops.

A part is a path into an op: `("inputs", 0)` is a use, `("inputs", 0, "name")` its name, `("inputs", 0, 1)`
its second index, `("settings", "axis")` a value. IR has no text of its own: there everything stands at
its op.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import field

from xdsl.ir import Operation

from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size

Part = tuple[str | int, ...]
Place = Hashable
"""A span of a text, or an op: what a report can show."""


@dataclass
class Places:
    """The places of one program."""

    parts: dict[tuple[Operation, Part], Place] = field(
        default_factory=dict[tuple[Operation, Part], Place]
    )
    names: dict[tuple[Operation, Part], Sequence[tuple[str, Place]]] = field(
        default_factory=dict[tuple[Operation, Part], Sequence[tuple[str, Place]]]
    )
    """The names in a size expression, in text order."""
    written: dict[tuple[Operation, Part], str] = field(
        default_factory=dict[tuple[Operation, Part], str]
    )
    """What was written where an alias was."""
    unreadable: set[str] = field(default_factory=set[str])
    """Names in text with syntax errors, of which nothing can be said."""
    unfinished: set[Operation] = field(default_factory=set[Operation])
    """Blocks without a closing brace: their end may be in another one."""
    unread: set[Operation] = field(default_factory=set[Operation])
    """Barriers that stand for statements that could not be read."""
    implied: set[Operation] = field(default_factory=set[Operation])
    """Assigns that stand for the definition `y = …` behind them."""
    aborted: bool = False
    """Whether the end of the text was not read."""

    def of(self, op: Operation, part: Part = ()) -> Place:
        """The place of a part, or of what holds it, or the op itself."""
        while part and (op, part) not in self.parts:
            part = part[:-1]
        return self.parts.get((op, part), op)

    def names_in(self, op: Operation, part: Part, size: Size) -> Iterable[tuple[str, Place]]:
        """The names in a size expression, each with its place."""
        found = self.names.get((op, part))
        if found is not None:
            return found
        place = self.of(op, part)
        return [(name, place) for name in sorted(size.names)]
