"""What the fourth word of a step's error record means, and what is said of it.

The record is node + 1, two numbers, and a row of this table, with `PLACE` times where: an axis of a
state, or which one of the indices of a gather, plus 1. Rows that ask for memory never reach a
user: the executor gives the memory and runs the step again.
"""

from __future__ import annotations

from openinfer.runtime.quick_dataclass import dataclass

INTERRUPTED = -1
"""The fourth word of a step that an interrupt ended: Python has the exception, and nothing is said."""


PLACE = 256
"""More than there are rows."""


@dataclass(frozen=True)
class Failure:
    """A row: `message` may name the numbers `a` and `b`, for states `axis` (`index l = 3 of K`), and
    `place` (` of index l of K`), `state` and `variable`."""

    code: str
    message: str
    hint: str
    state: bool = False
    """Whether `b` names a state and an axis of it, and `a` is the index."""
    held: bool = False
    """Whether `b` names a state and one of its dimensions, which is `a` now."""
    memory: bool = False
    """Whether the step only wants more memory."""


FAILURES: dict[str, Failure] = {
    "index": Failure(
        "OI0601", "index {a}{place} is outside 0..{b}", "check the indices that the step is given"
    ),
    "dynamic": Failure("OI0604", "a size of {a} needs more memory", "", memory=True),
    "capacity": Failure("OI0604", "an extent of {a} needs more memory", "", memory=True),
    "log": Failure("OI0604", "the undo log needs {a} bytes", "", memory=True),
    "fixed": Failure(
        "OI0606",
        "{axis} would reach {a}, beyond its fixed bound",
        "write within @fixed, or raise the bound",
        state=True,
    ),
    "negative": Failure("OI0606", "{axis} is negative", "indices count from 0", state=True),
    "slice-start": Failure(
        "OI0606", "a slice starts below 0: {axis}", "slices start at 0 or later", state=True
    ),
    "slice-order": Failure(
        "OI0606",
        "a slice {a}..{b}{place} ends before it starts",
        "bounds are half-open: start <= end",
    ),
    "slice-end": Failure(
        "OI0606",
        "a slice{place} that ends at {a} reaches below 0: the present extent is {b}",
        "a negative end counts from the present extent",
    ),
    "position": Failure(
        "OI0606", "position {a}{place} is outside 0..{b}, the present extent", "read what is there"
    ),
    "shape": Failure(
        "OI0602", "the value has extent {a} where {b} is declared", "both sides have one shape"
    ),
    "stack": Failure(
        "OI0607",
        "matrices{state} cannot be stacked: extents {a} and {b}{place}",
        "let all entries of the slice grow alike",
    ),
    "negative-size": Failure("OI0603", "a dimension is {a}", "sizes are never negative"),
    "bound": Failure(
        "OI0602", "bound {a} must not exceed {b}", "give inputs or state of another size"
    ),
    "memory": Failure(
        "OI0604", "no memory holds a dimension of {a}, it is {b} at most", "use smaller sizes"
    ),
    "number": Failure(
        "OI0611",
        "a number of an expression is beyond 2^62 - 1",
        "count in smaller numbers: indices, bounds and amounts lie between -(2^62 - 1) and 2^62 - 1",
    ),
    "division": Failure("OI0603", "{a} is divided by {b}", "divide by a size that is not 0"),
    "unwritten": Failure(
        "OI0602",
        "{variable} has an open dimension and was not written yet",
        "write it before it is read",
    ),
    "unassigned": Failure(
        "OI0603",
        "a dimension of {variable} names the index of a loop that has not run",
        "declare the variable where its dimensions have values",
    ),
    "resized": Failure(
        "OI0608",
        "it holds values for dimensions of an earlier step",
        "call reset() on the executor before a step with other sizes",
        held=True,
    ),
    "window": Failure("OI0602", "window={a} lets no position attend", "use 1 or more"),
    "softcap": Failure("OI0602", "softcap is not above 0 and finite", "leave it out for no cap"),
    "eps": Failure("OI0602", "eps is negative", "use 0 or a small positive number"),
    "base": Failure("OI0602", "base is not positive and finite", "10000 is usual"),
    "range": Failure("OI0602", "high lies below low", "low <= high"),
    "shift": Failure("OI0602", "bits={a} is negative", "a shift goes 0 places or more"),
    "not-positive": Failure("OI0602", "a size, stride or dilation is {a}", "use {b} or more"),
    "padded": Failure("OI0604", "no memory holds a padding of more than {b}", "use less padding"),
    "below-zero": Failure("OI0602", "a padding or count is {a}", "use {b} or more"),
    "parts": Failure(
        "OI0602", "equal parts of an axis of {a} hold only {b}", "give the sizes: `sizes=[…]`"
    ),
    "squeezed": Failure(
        "OI0602",
        "squeeze without axes keeps an axis only where it is not 1",
        "name the axes: `axes=[…]`",
    ),
    "one": Failure(
        "OI0605",
        "{a} and {b} elements where one is needed",
        "a condition or number has one element",
    ),
    "remainder": Failure(
        "OI0603",
        "a division of a size that the program defines leaves a remainder",
        "use other sizes",
    ),
    "alpha": Failure("OI0602", "alpha is 0", "`relu` is what it comes near to"),
    "exponent": Failure("OI0602", "p is not positive and finite", "p=2 is the length"),
}
"""By name, in the order of their numbers."""


def failure_word(kind: str, axis: int | None = None) -> int:
    """The fourth word of a record: a row, and an axis of a state that its message names."""
    return list(FAILURES).index(kind) + (0 if axis is None else PLACE * (1 + axis))
