"""Numbers and texts as the language writes them."""

from __future__ import annotations

import math


def float_text(number: float) -> str:
    """A float as the language writes it."""
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return repr(number)


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


def string_text(text: str) -> str:
    """A text in quotes, with escapes."""
    parts = [_ESCAPES.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in text]
    return f'"{"".join(parts)}"'
