"""Which tensor of a model was probably meant by a name that it does not have."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable


def near_tensors(name: str, tensors: Iterable[str], used: Collection[str]) -> str:
    """A sentence that ends in a space: names close to `name`, else the few that are not `used`."""
    known = list(tensors)
    close = difflib.get_close_matches(name, known, n=2)
    if close:
        return f"did you mean {' or '.join(repr(item) for item in close)}? "
    left = [tensor for tensor in known if tensor not in used]
    if not left or len(left) > 6:
        return ""
    return f"the program does not use {', '.join(repr(tensor) for tensor in left)} of the model; "
