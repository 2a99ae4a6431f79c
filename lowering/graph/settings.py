"""Settings of a `graph.op` as the registry wants them: Python values with names looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute

from openinfer.dialects.graph import NameAttr, SizeAttr
from openinfer.dialects.opset import NameRef
from openinfer.runtime.sizes import Size

_UI64 = IntegerType(64, Signedness.UNSIGNED)


def python_value(value: Attribute, lookup: Callable[[str], object]) -> object:
    """The value of a setting; `lookup` says what a bare name stands for."""
    match value:
        case IntegerAttr():
            number = value.value.data
            one_bit = isinstance(value.type, IntegerType) and value.type.width.data == 1
            return bool(number) if one_bit else number
        case FloatAttr():
            return value.value.data
        case StringAttr():
            return value.data
        case SizeAttr():
            return value.data
        case NameAttr():
            return lookup(value.data)
        case ArrayAttr():
            return tuple(python_value(item, lookup) for item in value)
        case _:
            raise TypeError(f"{value} is no setting")


def attribute_of(value: object) -> Attribute:
    """A Python setting as an attribute: bool `i1`, int `i64` (from 2**63 on `ui64`), float `f64`,
    string, size, tuple."""
    match value:
        case bool():
            return IntegerAttr(int(value), i1)
        case int():
            return IntegerAttr(value, i64 if value < 2**63 else _UI64)
        case float():
            return FloatAttr(value, f64)
        case str():
            return StringAttr(value)
        case Size():
            return SizeAttr(value)
        case tuple():
            return ArrayAttr([attribute_of(item) for item in value])
        case _:
            raise TypeError(f"{value!r} is no setting")


def substitute_sizes(settings: Mapping[str, object], sizes: Mapping[str, int]) -> dict[str, object]:
    """The settings with every size expression that `sizes` fixes replaced by its number."""

    def replaced(value: object) -> object:
        if isinstance(value, Size):
            size = value.substitute(sizes)
            return size if size.constant is None else size.constant
        if isinstance(value, tuple):
            return tuple(replaced(item) for item in value)
        if isinstance(value, NameRef) and value.name in sizes:
            return sizes[value.name]
        return value

    return {name: replaced(value) for name, value in settings.items()}
