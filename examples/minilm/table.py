"""The similarity table, as plain text."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

CELL = 7


def similarity_table(sentences: Sequence[str], similarity: np.ndarray[Any, Any]) -> str:
    """One row per sentence: its number, its similarity to all, and its text, cut to the window."""
    number = max(3, len(str(len(sentences))) + 1)
    window = shutil.get_terminal_size((100, 24)).columns
    room = max(20, window - number - CELL * len(sentences) - 2)
    lines = [" " * number + "".join(f"{i:>{CELL}}" for i in range(1, len(sentences) + 1))]
    for row, (sentence, values) in enumerate(zip(sentences, similarity), 1):
        cells = "".join(f"{value:>{CELL}.3f}" for value in values)
        lines.append(f"{row:>{number}}{cells}  {_cut(sentence, room)}".rstrip())
    return "\n".join(lines)


def _cut(text: str, room: int) -> str:
    """The text on one line, in at most `room` columns; wide letters count two."""
    flat = " ".join(text.split())
    columns = 0
    for place, letter in enumerate(flat):
        columns += 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if columns > room:
            return flat[: max(0, place - 1)] + "…"
    return flat
