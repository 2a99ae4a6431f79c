"""What may remain after a phase, as data: importing this imports nothing else.

A level names whole dialects, then single ops that are allowed although their dialect is not, and
single ops that are not although their dialect is. Levels are the contract between the phases of a
pipeline, which says what each leaves: a pass may rely on the level of the phase before it.
"""

from __future__ import annotations

from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class Level:
    """What one phase may leave behind."""

    dialects: frozenset[str]
    ops: frozenset[str] = frozenset()
    """Single ops of other dialects."""
    forbidden: frozenset[str] = frozenset()
    """Single ops of `dialects` that may not remain."""
    tensors: bool = True
    """Whether values may have tensor types."""

    @staticmethod
    def of(dialects: str, *, ops: str = "", forbidden: str = "", tensors: bool = True) -> Level:
        """A level whose names stand in texts with spaces between them."""
        names = [frozenset(text.split()) for text in (dialects, ops, forbidden)]
        return Level(names[0], names[1], names[2], tensors)
