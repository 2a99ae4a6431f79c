"""Shapes as verifiers see them: sizes that are known, named or unknown, and what must hold of them.

A tensor's dimension is an int or a `Size` over names; two are equal exactly when their expressions
are. A buffer's `?` is None, which fits everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    IntegerType,
    MemRefType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.nn.attributes import DimsAttr
from openinfer.runtime.sizes import Size

Dim = int | Size | None
Dims = tuple[Dim, ...]


def refuse(op: Operation, message: str) -> NoReturn:
    """Raises VerifyException with the op's name in front."""
    raise VerifyException(f"{op.name}: {message}")


def shape_of(value: SSAValue) -> Dims:
    """The dimensions of a tensor or a buffer. Raises VerifyException for a bad `#nn.dims`."""
    kind = value.type
    if isinstance(kind, MemRefType):
        return tuple(None if s == DYNAMIC_INDEX else s for s in kind.get_shape())
    if not isinstance(kind, TensorType):
        raise VerifyException(f"expected a tensor or a memref, found {kind}")
    shape = kind.get_shape()
    if not isinstance(kind.encoding, DimsAttr):
        if DYNAMIC_INDEX in shape:
            raise VerifyException(f"{kind} has run-time sizes, expected a #nn.dims that names them")
        return shape
    dims = tuple(s if s.constant is None else s.constant for s in kind.encoding.data)
    if shape != tuple(DYNAMIC_INDEX if isinstance(d, Size) else d for d in dims):
        raise VerifyException(f"the #nn.dims of {kind} are not those of its shape")
    return dims


def element(value: SSAValue) -> Attribute:
    """The element type of a tensor or a buffer."""
    kind = value.type
    if not isinstance(kind, TensorType | MemRefType):
        raise VerifyException(f"expected a tensor or a memref, found {kind}")
    return kind.get_element_type()


def text(dims: Iterable[Dim]) -> str:
    """`[4, N, ?]`"""
    return f"[{', '.join('?' if d is None else str(d) for d in dims)}]"


# Arithmetic of sizes


def times(dims: Iterable[Dim]) -> Dim:
    """The product; None when a factor is unknown."""
    total: int | Size = 1
    for dim in dims:
        if dim is None:
            return None
        total = total * dim
    return _plain(total)


def plus(dims: Iterable[Dim]) -> Dim:
    """The sum; None when a part is unknown."""
    total: int | Size = 0
    for dim in dims:
        if dim is None:
            return None
        total = total + dim
    return _plain(total)


def ceil_div(dim: Dim, divisor: int) -> Dim:
    """How many parts of `divisor` cover `dim`."""
    return None if dim is None else _plain((dim + (divisor - 1)) // divisor)


def _plain(size: int | Size) -> Dim:
    return size.constant if isinstance(size, Size) and size.constant is not None else size


# Comparisons


def fits(left: Dim, right: Dim) -> bool:
    """Whether two dimensions are equal, or one is unknown."""
    return left is None or right is None or left == right


def same(left: Dims, right: Dims) -> bool:
    """Whether two shapes are equal as far as they are known."""
    return left == right or (len(left) == len(right) and all(map(fits, left, right)))


def stretches(source: Dims, target: Dims) -> bool:
    """Whether `source` broadcasts to `target`: aligned right, a dimension of 1 is repeated."""
    lead = len(target) - len(source)
    return lead >= 0 and all(s == 1 or fits(s, t) for s, t in zip(source, target[lead:]))


def joined(left: Dims, right: Dims) -> Dims | None:
    """The common shape of two that broadcast, None when they do not."""
    rank = max(len(left), len(right))
    ones: Dims = (1,) * rank
    found: list[Dim] = []
    for a, b in zip((ones + left)[-rank:] if rank else (), (ones + right)[-rank:]):
        if not (a == 1 or b == 1 or fits(a, b)):
            return None
        # An unknown size beside 1 stays unknown; beside another one it must be that one.
        found.append(b if a == 1 or (a is None and b != 1) else a)
    return tuple(found)


# Demands


def expect_shape(op: Operation, what: str, found: Dims, expected: Dims) -> None:
    """Raises VerifyException unless a shape is the expected one."""
    if not same(found, expected):
        refuse(op, f"{what} has shape {text(found)}, expected {text(expected)}")


def expect_axis(op: Operation, axis: int, rank: int, *, from_end: bool = False) -> int:
    """The axis counted from the front; with `from_end` -1 is the last one.

    Raises VerifyException unless it is one of `rank` axes.
    """
    least = -rank if from_end else 0
    if not least <= axis < rank:
        legal = f"{least} to {rank - 1}" if rank else "no axis of a scalar"
        refuse(op, f"axis {axis} is out of range, expected {legal}")
    return axis % rank


def expect_element(op: Operation, what: str, found: Attribute, expected: Attribute) -> None:
    """Raises VerifyException unless an element type is the expected one."""
    if found != expected:
        refuse(op, f"{what} has elements {found}, expected {expected}")


def expect_floats(op: Operation, values: Sequence[SSAValue]) -> None:
    """Raises VerifyException unless all elements are floats."""
    for value in values:
        if not isinstance(element(value), AnyFloat):
            refuse(op, f"expected float elements, found {element(value)}")


def expect_plain_integers(op: Operation, flag: str, values: Sequence[SSAValue]) -> None:
    """Raises VerifyException unless one of the values has integers whose type does not say their sign.

    Only of these a property `flag` has to say what their bits mean.
    """
    kinds = [element(value) for value in values]
    if not any(
        isinstance(kind, IntegerType) and kind.signedness.data is Signedness.SIGNLESS
        for kind in kinds
    ):
        found = " and ".join(map(str, kinds))
        refuse(op, f"{flag} says what signless integers are, found elements {found}")


def is_integer(kind: Attribute) -> bool:
    """Whether an element type is an integer, bool not being one."""
    return isinstance(kind, IntegerType) and kind.width.data > 1
