"""The near names of a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near(name: str, known: Iterable[str], kind: str) -> str:
    """A hint: the names close to `name`, or all names of `kind` when there are few."""
    names = list(known)
    close = difflib.get_close_matches(str(name), names, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(repr(item) for item in close)}?"
    if len(names) <= 24:
        return f"known {kind}: {', '.join(names)}"
    return f"there are {len(names)} {kind}; --help lists them"
