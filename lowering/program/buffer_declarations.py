"""Buffers of the first edition: what one of their slots holds, read off the values that go into it.

A value of the buffer's shape: each slot holds one such tensor. A value with one dimension less: the
missing dimension counts the slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import DictionaryAttr

from openinfer.dialects.graph import AssignOp, VariableOp
from openinfer.runtime.sizes import Size

BUFFER = "buffer"
"""The attribute of a table that is declared as a buffer, and with the dimensions of one."""

Entry = tuple[tuple[Size, ...], Size | None]
"""The dimensions of what a slot holds, and the size that counts the slots, if one does."""


def is_buffer(op: AssignOp | VariableOp) -> bool:
    """Whether a declaration is a buffer that nothing has decided yet."""
    if not isinstance(op, VariableOp):
        return False
    other = op.option("other")
    return isinstance(other, DictionaryAttr) and BUFFER in other.data


def entry_of(
    dims: tuple[Size, ...], value: tuple[Size, ...], sizes: Mapping[str, int]
) -> Entry | None:
    """What a slot of a buffer holds, from the shape of a value for it; None when nothing fits."""

    def same(left: Sequence[Size], right: Sequence[Size]) -> bool:
        return len(left) == len(right) and all(
            a == b or valued(a, sizes) == valued(b, sizes) for a, b in zip(left, right)
        )

    if same(dims, value):
        return dims, None
    for position in _slot_positions(dims):
        rest = dims[:position] + dims[position + 1 :]
        if same(rest, value):
            return rest, dims[position]
    return None


def _slot_positions(dims: tuple[Size, ...]) -> Iterator[int]:
    """Dimensions that may count the slots, the usual one, behind the batch, first."""
    if len(dims) > 1:
        yield 1
    yield from (position for position in range(len(dims)) if position != 1)


def usual_entry(dims: tuple[Size, ...]) -> Entry:
    """Without a value to look at: the second dimension, or the only one, counts the slots."""
    for position in _slot_positions(dims):
        return dims[:position] + dims[position + 1 :], dims[position]
    return dims, None


def valued(size: Size, values: Mapping[str, int]) -> Size:
    """The size with what is known put in; as it is when that divides by zero, an error elsewhere."""
    try:
        return size.substitute(values)
    except ZeroDivisionError:
        return size
