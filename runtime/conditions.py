"""Values of the expressions that `condition_syntax` reads, over what a running step holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from openinfer.runtime.condition_syntax import (
    Apply,
    Binary,
    Name,
    Node,
    Number,
    Pick,
    Slot,
    names_of,
    parse_condition,
)
from openinfer.runtime.errors import InputError
from openinfer.runtime.storage import AnyArray

Index = int | tuple[int | None, int | None]
"""A slot with its numbers: one index, or a half-open range."""


class NoValue(Exception):
    """A known name has no value at this point of the step."""


class Scope(Protocol):
    """Where names get their values."""

    def value(self, name: str, slots: Sequence[Index] | None) -> AnyArray:
        """The value array of a name, with its slots applied; None: none were written.

        Raises NoValue where a known name has none now, InputError for an unknown name or an index
        that is outside.
        """
        ...


class Condition:
    """A parsed expression; `holds` asks for a yes or no, `evaluate` for the value."""

    def __init__(self, text: str) -> None:
        """Raises InputError OI0561 for a text that is no expression."""
        self.text = text.strip()
        self.tree = parse_condition(text)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that is used."""
        return frozenset(names_of(self.tree))

    def evaluate(self, scope: Scope) -> AnyArray:
        """The value as an array; a number has shape []. Raises NoValue, InputError OI0562."""
        try:
            with np.errstate(all="ignore"):
                return _value(self.tree, scope)
        except (TypeError, ValueError, OverflowError) as error:
            # NumPy's words: shapes that do not broadcast, a sign that a dtype does not have.
            raise self._wrong(str(error)) from None
        except InputError as error:
            if error.code != "OI0562":
                raise
            raise self._wrong(error.message, error.hint) from None

    def holds(self, scope: Scope) -> bool:
        """Whether it is true; not where a name has no value yet. Raises InputError OI0562."""
        try:
            value = self.evaluate(scope)
        except NoValue:
            return False
        try:
            return _truth(value)
        except InputError as error:
            raise self._wrong(error.message, error.hint) from None

    def _wrong(self, what: str, hint: str | None = None) -> InputError:
        usual = "`print` shows shapes; reductions are any, all, min, max, mean, sum, count"
        return InputError("OI0562", f"expression `{self.text}`: {what}", hint=hint or usual)

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"


def _value(node: Node, scope: Scope) -> AnyArray:
    match node:
        case Number():
            return np.asarray(node.value)
        case Name():
            return scope.value(node.name, _indices(node.slots, scope))
        case Pick():
            return take(_value(node.operand, scope), _indices(node.slots, scope) or ())
        case Apply():
            return _apply(node.function, _value(node.operand, scope))
        case Binary(sign="and"):
            short = not _truth(_value(node.left, scope))
            return np.asarray(False if short else _truth(_value(node.right, scope)))
        case Binary(sign="or"):
            short = _truth(_value(node.left, scope))
            return np.asarray(True if short else _truth(_value(node.right, scope)))
        case Binary():
            left, right = _value(node.left, scope), _value(node.right, scope)
            return np.asarray(_BINARY[node.sign](left, right))


def _indices(slots: Sequence[Slot] | None, scope: Scope) -> list[Index] | None:
    if slots is None:
        return None
    found: list[Index] = []
    for slot in slots:
        if slot.single and slot.start is not None:
            found.append(_integer(slot.start, scope))
            continue
        ends = (None if n is None else _integer(n, scope) for n in (slot.start, slot.stop))
        start, stop = ends
        found.append((start, stop))
    return found


def _integer(node: Node, scope: Scope) -> int:
    value = _value(node, scope)
    if value.size != 1 or value.dtype.kind not in "iub":
        shape = list(value.shape)
        raise InputError("OI0562", f"an index is one integer, found {value.dtype}{shape}")
    return int(value.reshape(-1)[0])


def take(array: AnyArray, slots: Sequence[Index], name: str = "the value") -> AnyArray:
    """The part of an array that slots pick. Raises InputError OI0562 for one outside."""
    if len(slots) > array.ndim:
        raise InputError(
            "OI0562", f"{name} has {array.ndim} axes, {len(slots)} indices were written"
        )
    places: list[int | slice] = []
    for axis, (slot, extent) in enumerate(zip(slots, array.shape)):
        ends = (slot, slot) if isinstance(slot, int) else slot
        last = extent - 1 if isinstance(slot, int) else extent
        for end in ends:
            if end is not None and not -extent <= end <= last:
                raise InputError(
                    "OI0562", f"{name}: index {end} of axis {axis} is outside 0..{extent}"
                )
        places.append(slot if isinstance(slot, int) else slice(*slot))
    return np.asarray(array[tuple(places)])


def _truth(value: AnyArray) -> bool:
    if value.size != 1:
        raise InputError(
            "OI0562",
            f"one value is needed where shape {list(value.shape)} was found",
            hint="write any(…) or all(…), or pick one element",
        )
    return bool(value.reshape(-1)[0])


def _apply(function: str, operand: AnyArray) -> AnyArray:
    if operand.size == 0 and function in ("min", "max"):
        raise InputError("OI0562", f"{function} of an empty value (shape {list(operand.shape)})")
    return np.asarray(_FUNCTIONS[function](operand))


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[AnyArray, AnyArray], Any]:
    """Integers are computed in 64 bits, so that a difference of u8 does not wrap."""
    return lambda left, right: function(_number(left), _number(right))


def _number(array: AnyArray) -> AnyArray:
    narrow = array.dtype.kind in "bui" and array.dtype != np.uint64
    return array.astype(np.int64) if narrow else array


def _wide(array: AnyArray) -> AnyArray:
    return array.astype(np.float64)


def _of_floats(
    function: Callable[[AnyArray], AnyArray], otherwise: bool
) -> Callable[[AnyArray], AnyArray]:
    """A test of floats; every integer answers `otherwise`."""
    return lambda a: function(a) if a.dtype.kind == "f" else np.full(a.shape, otherwise)


_is_nan = _of_floats(np.isnan, False)
_is_inf = _of_floats(np.isinf, False)

_FUNCTIONS: dict[str, Callable[[AnyArray], Any]] = {
    "-": lambda a: -_number(a),
    "not": lambda a: not _truth(a),
    "abs": lambda a: np.abs(_number(a)),
    "all": np.all,
    "any": np.any,
    "count": np.count_nonzero,
    "inf": lambda a: np.count_nonzero(_is_inf(a)),
    "isfinite": _of_floats(np.isfinite, True),
    "isinf": _is_inf,
    "isnan": _is_nan,
    "max": np.max,
    "mean": lambda a: np.mean(_wide(a)),
    "min": np.min,
    "nan": lambda a: np.count_nonzero(_is_nan(a)),
    "rank": lambda a: a.ndim,
    "shape": lambda a: np.asarray(a.shape, np.int64),
    "size": lambda a: a.size,
    "sqrt": lambda a: np.sqrt(_wide(a)),
    "std": lambda a: np.std(_wide(a)),
    "sum": lambda a: np.sum(_wide(a) if a.dtype.kind == "f" else _number(a)),
}

_BINARY: dict[str, Callable[[AnyArray, AnyArray], Any]] = {
    "+": _arithmetic(np.add),
    "-": _arithmetic(np.subtract),
    "*": _arithmetic(np.multiply),
    "/": _arithmetic(np.true_divide),
    "//": _arithmetic(np.floor_divide),
    "%": _arithmetic(np.mod),
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "&": np.logical_and,
}
