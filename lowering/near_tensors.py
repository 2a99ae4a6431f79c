"""Which tensor of a model was probably meant by a name that it does not have."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from openinfer.runtime.suggest import did_you_mean


def near_tensors(name: str, tensors: Iterable[str], used: Collection[str]) -> str:
    """A sentence that ends in a space: names close to `name`, else the few that are not `used`."""
    known = list(tensors)
    guess = did_you_mean(name, known, 2, quote="'")
    if guess:
        return guess
    left = [tensor for tensor in known if tensor not in used]
    if not left or len(left) > 6:
        return ""
    return f"the program does not use {', '.join(repr(tensor) for tensor in left)} of the model; "
