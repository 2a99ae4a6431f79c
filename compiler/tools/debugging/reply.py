"""What a command answers: lines for a person, data for `--json`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Reply:
    """The answer of one command."""

    lines: list[str] = field(default_factory=list[str])
    data: dict[str, Any] = field(default_factory=dict[str, Any])

    @staticmethod
    def of(lines: str | Iterable[str], **data: Any) -> Reply:
        """A reply of one or several lines."""
        return Reply([lines] if isinstance(lines, str) else list(lines), dict(data))

    def add(self, other: Reply) -> None:
        """Appends another reply; its data replaces entries of the same name."""
        self.lines += other.lines
        self.data |= other.data


class CommandError(Exception):
    """A command that was typed wrong, or cannot be done now."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(message if hint is None else f"{message}\n  fix: {hint}")
