"""Literals in a program: which values a dtype holds, and which dtype a literal operand has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute

from openinfer.dialects.graph import LiteralAttr, Operand, RefAttr
from openinfer.dialects.opset import OpSpec, literal_dtypes
from openinfer.runtime.dtypes import DTYPES, DType

Number = int | float | bool

_FLOAT_MAX = {
    "f8": 57344.0,
    "f8e4m3": 448.0,
    "f16": 65504.0,
    "bf16": 3.3895313892515355e38,
    "f32": 3.4028234663852886e38,
    "f64": 1.7976931348623157e308,
}


def number_of(value: Attribute) -> Number:
    """The number of an integer, bool or float attribute."""
    if isinstance(value, FloatAttr):
        return value.value.data
    assert isinstance(value, IntegerAttr)
    return bool(value.value.data) if str(value.type) == "i1" else value.value.data


def wanted_values(value: Number, dtype: DType) -> tuple[tuple[str, str] | None, str | None]:
    """What a literal of another kind should be, with an example; else the values that fit.

    Both None for a literal that is a value of the dtype. A float may be rounded.
    """
    if dtype.is_float:
        limit = _FLOAT_MAX.get(dtype.name)
        if isinstance(value, bool):
            return ("a number", "1.0"), None
        beyond = limit is not None and abs(value) > limit and abs(value) != float("inf")
        return None, f"{-limit:g} to {limit:g}" if limit is not None and beyond else None
    if dtype.kind == "bool":
        if isinstance(value, float):
            return ("true or false", "true"), None
        return None, None if value in (0, 1) else "0 and 1"
    if isinstance(value, bool | float):
        return ("an integer", "1"), None
    if dtype.name == "t1":
        return None, None if value in (-1, 1) else "-1 and 1"
    least, most = _integer_range(dtype)
    return None, None if least <= value <= most else f"{least} to {most}"


def _integer_range(dtype: DType) -> tuple[int, int]:
    """Least and largest value of an integer, bitset or ternary dtype."""
    if dtype.kind == "ternary":
        return -1, 1
    if dtype.kind == "int":
        return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    return 0, 2**dtype.bits - 1


def operand_dtypes(
    spec: OpSpec, operands: Sequence[Operand], dtype_of: Callable[[RefAttr], str]
) -> list[str]:
    """The dtype of each operand, that of literals from those beside them. Raises OpDTypeError."""
    return literal_dtypes(spec, [dtype_of(o) if isinstance(o, RefAttr) else None for o in operands])


def literal_advice(literal: LiteralAttr, dtype: str) -> str:
    """What to write for a literal that is no value of a dtype."""
    kind, values = wanted_values(literal.number, DTYPES[dtype])
    if kind is None:
        return f"the values of {dtype} are {values}"
    if DTYPES[dtype].is_integer and isinstance(literal.number, float):
        return f"write an integer, or `op cast(…, to=f32) >> …;` the {dtype} operand first"
    return f"write {kind[0]}, `{kind[1]}`"
