"""What passes of an import say of their work: lines for its report."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_notes: ContextVar[list[str] | None] = ContextVar("notes", default=None)


@contextmanager
def collecting_notes() -> Generator[list[str]]:
    """What passes inside note, in its order."""
    found: list[str] = []
    token = _notes.set(found)
    try:
        yield found
    finally:
        _notes.reset(token)


def note(text: str) -> None:
    """A line of the report; nothing where nobody collects them."""
    found = _notes.get()
    if found is not None and text not in found:
        found.append(text)
