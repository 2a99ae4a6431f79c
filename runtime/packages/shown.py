"""Names, texts and arrays as the views of packages show them, and as strict JSON can hold them."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np

from openinfer.runtime.storage import AnyArray

_PLAIN = re.compile(r"[A-Za-z0-9._/-]+")
FULL = 10
"""Values of the longest array that is shown whole."""
ENDS = 5
"""Values that are shown of each end of a longer one."""


def shown_name(name: str) -> str:
    """A name as it stands, quoted when it could confuse a reader or a terminal."""
    return name if _PLAIN.fullmatch(name) else quoted(name)


def quoted(text: str) -> str:
    """A text in quotes; what a terminal does not show, or could act on, is escaped."""
    whole = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in whole)


def value_text(value: Any) -> str:
    """The shortest text that gives the value of its own type again."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return str(value)


def listing(array: AnyArray) -> str:
    """The values of an array in braces: all of few, the first and last of many."""
    flat = array.flat
    if array.size == 0:
        return "{ }"
    if array.size <= FULL:
        return "{ " + ", ".join(value_text(flat[i]) for i in range(array.size)) + " }"
    first = ", ".join(value_text(flat[i]) for i in range(ENDS))
    last = ", ".join(value_text(flat[i]) for i in range(-ENDS, 0))
    return f"{{ {first}, ..., {last} }}"


def shape_text(shape: tuple[int, ...]) -> str:
    """Dimensions in brackets, nothing for a scalar."""
    return f"[{', '.join(str(extent) for extent in shape)}]" if shape else ""


def plain(value: Any) -> Any:
    """A value that strict JSON can hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def listing_json(array: AnyArray) -> dict[str, Any]:
    """`listing` as JSON data."""
    flat = array.flat
    if array.size <= FULL:
        return {"values": [plain(flat[i]) for i in range(array.size)]}
    return {
        "first": [plain(flat[i]) for i in range(ENDS)],
        "last": [plain(flat[i]) for i in range(-ENDS, 0)],
    }
