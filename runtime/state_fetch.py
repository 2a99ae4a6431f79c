"""What a snapshot alone says of a variable whose sizes no step has fixed yet."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from openinfer.runtime.errors import InputError
from openinfer.runtime.state import StateValue
from openinfer.runtime.tensors import Tensor

_MOST_ENTRIES = 1 << 24


def held_value(
    name: str,
    value: StateValue,
    index: tuple[int, ...] | None,
    fill: float | int,
    *,
    counted: bool,
) -> Tensor | None:
    """A variable as a dense array, or the entries whose indices start with `index`.

    Entries that are not there are `fill`, in the shape of those that are. None where that is not
    known: no entry is there, or each has a shape of its own (`counted`). Raises InputError OI0547 for
    an entry outside of the extents, OI0548 for matrices of different shapes.
    """
    first = index or ()
    extents = value.extents
    if len(first) > len(extents) or any(not 0 <= i < n for i, n in zip(first, extents)):
        shown = ", ".join(f"0..{n}" for n in extents)
        raise InputError(
            "OI0547",
            f"{name}{list(first)} is not there: its indices are {shown or 'none'}",
            hint="fetch an entry that a step has touched",
        )
    rest = extents[len(first) :]
    if prod(rest) > _MOST_ENTRIES:
        return None
    places = [(*first, *tail) for tail in product(*(range(n) for n in rest))]
    if not value.entries or (counted and any(p not in value.entries for p in places)):
        return None
    shapes = {value.entries[p].shape for p in places if p in value.entries}
    if len(shapes) > 1:
        raise InputError(
            "OI0548",
            f"the matrices of {name} have different shapes",
            hint=f"fetch {name}[i] one by one",
        )
    shape = shapes.pop() if shapes else next(iter(value.entries.values())).shape
    dense = np.full((*rest, *shape), fill, np.dtype(value.dtype.value))
    for place in places:
        if place in value.entries:
            dense[place[len(first) :]] = value.entries[place].values()
    return Tensor.from_values(value.dtype, dense)
