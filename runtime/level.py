"""A level of a program's compilation as text."""

from __future__ import annotations

from dataclasses import dataclass

from openinfer.runtime.tables import html_text


@dataclass(frozen=True, repr=False)
class Level:
    """What a program is at one level of its IR; `str(level)` is the text."""

    name: str
    """"graph", "nn", "linalg", "buffers", …: the phases of the pipeline of its device."""
    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return html_text(self.text)
