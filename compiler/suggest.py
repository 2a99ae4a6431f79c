"""The near names of a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable

from openinfer.runtime.suggest import nearest


def near(name: str, known: Iterable[str], kind: str) -> str:
    """A hint: the names close to `name`, or all names of `kind` when there are few."""
    names = list(known)
    close = nearest(str(name), names, 3)
    if close:
        return f"did you mean {' or '.join(repr(item) for item in close)}?"
    if len(names) <= 24:
        return f"known {kind}: {', '.join(names)}"
    return f"there are {len(names)} {kind}; --help lists them"
