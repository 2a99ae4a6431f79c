"""Ops that compute each element by itself: arithmetic, bits, rounding, functions, comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import (
    ACC,
    FLOATS,
    INTEGERS,
    NUMBERS,
    REQUIRED,
    SIGNED,
    SIGNED_NUMBERS,
    STORED,
    TERNARY,
    UNSIGNED,
    Infer,
    OpDTypeError,
    OpSpec,
    Setting,
    SettingError,
    TensorSpec,
    broadcast_dims,
    same_dtype,
)
from openinfer.runtime.dtypes import DTYPES

_NAMES = ("x", "y", "z")
MASK = Setting(
    "div_by_zero_mask", "number", None, "what division by zero gives; without it IEEE, ints 0"
)
_PLACES = "places, any number from 0; a negative one is an error"
SHIFTABLE = (*SIGNED[:-1], *UNSIGNED[:-1])


def _pointwise(
    result: str | None = None, acc: bool = False, names: Sequence[str] = _NAMES
) -> Infer:
    """Operands of one dtype, broadcast; the result has that dtype, or `result`."""

    def infer(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
        dtype = same_dtype(operands, names)
        dims = broadcast_dims([o.dims for o in operands])
        if acc and settings.get("acc") is not None:
            dtype = _widened(dtype, settings["acc"])
        check_scalars(settings, dtype)
        return [TensorSpec(result or dtype, dims)]

    return infer


def _widened(dtype: str, acc: object) -> str:
    """The result dtype of `add(…, acc=…)`: a strictly wider integer of the same signedness."""
    assert isinstance(acc, tuple)
    source, wide = DTYPES[dtype], DTYPES[str(acc[0])]
    if acc[0] != acc[1] or not source.is_integer or wide.kind != source.kind:
        raise SettingError(
            "acc",
            f"acc=[{acc[0]}, {acc[1]}] does not fit operands of dtype {dtype}",
            "an elementwise op accumulates integers in one wider integer of the same signedness",
        )
    if wide.bits <= source.bits or wide.packed:
        raise SettingError("acc", f"acc={wide.name} is not wider than the operands ({dtype})")
    return wide.name


def check_scalars(settings: Mapping[str, object], dtype: str) -> None:
    """Number settings of an integer op must be integers that fit, and no shift goes a negative number
    of places. Raises SettingError."""
    row = DTYPES[dtype]
    places = settings.get("bits")
    if isinstance(places, int) and places < 0:
        raise SettingError("bits", f"bits={places} is negative", "a shift goes 0 places or more")
    if row.is_float:
        return
    for name in ("value", "min", "max", "negative_slope", "clamp_min", "clamp_max", MASK.name):
        value = settings.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if name != "value" and value in (float("inf"), float("-inf")):
            continue
        if isinstance(value, float) and not (name == "negative_slope" and value.is_integer()):
            raise SettingError(
                name, f"{name}={value} is a float but the op computes in {dtype}", "write an int"
            )
        if value < 0 and row.kind != "int" and row.kind != "ternary":
            raise SettingError(name, f"{name}={value} is negative but {dtype} is unsigned")
        if name == "value" and not _fits(int(value), dtype):
            raise SettingError(name, f"{name}={value} does not fit {dtype}")


def _fits(value: int, dtype: str) -> bool:
    row = DTYPES[dtype]
    if row.kind == "bool":
        return value in (0, 1)
    if row.kind == "ternary":
        return value in ((-1, 1) if row.name == "t1" else (-1, 0, 1))
    if row.kind == "int":
        return -(1 << (row.bits - 1)) <= value < 1 << (row.bits - 1)
    return 0 <= value < 1 << row.bits


def _select(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    """`where(condition, x, y)`."""
    condition, x, y = operands
    dtype = same_dtype((x, y), ("x", "y"))
    _check_condition(condition, dtype)
    return [TensorSpec(dtype, broadcast_dims([o.dims for o in operands]))]


def _filter(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    """`filter(x, y, condition)`."""
    x, y, condition = operands
    return _select((condition, x, y), settings)


def _check_condition(condition: TensorSpec, dtype: str) -> None:
    if condition.dtype not in ("bool", "bitset", *INTEGERS, dtype) or condition.dtype == "t1":
        raise OpDTypeError(
            f"the condition is {condition.dtype}",
            f"use bool, an integer, or {dtype}, the dtype of the values"
            if dtype != "t1"
            else "use bool or an integer: a t1 is never 0",
        )


def _cast(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    return [TensorSpec(str(settings["to"]), operands[0].dims)]


def _bit_cast(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    target = str(settings["to"])
    source = operands[0].dtype
    row = DTYPES[target]
    if target not in _WHOLE_BYTES or row.bits != DTYPES[source].bits:
        same = [name for name in _WHOLE_BYTES if DTYPES[name].bits == DTYPES[source].bits]
        raise SettingError(
            "to",
            f"the bits of {source} are no {target}",
            f"a dtype of {DTYPES[source].bits} bits: {', '.join(same)}",
        )
    return [TensorSpec(target, operands[0].dims)]


def _all_finite(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    return [TensorSpec("bool", ())]


def _binary(
    name: str,
    doc: str,
    dtypes: tuple[str, ...] = NUMBERS,
    *settings: Setting,
    expensive: bool = False,
    partial: bool = False,
) -> OpSpec:
    return OpSpec(
        name,
        ("x", "y"),
        _pointwise(acc=ACC in settings),
        doc,
        "elementwise",
        dtypes,
        settings,
        broadcast=True,
        inplace=True,
        expensive=expensive,
        partial=partial,
    )


def _unary(
    name: str,
    doc: str,
    dtypes: tuple[str, ...] = FLOATS,
    *settings: Setting,
    result: str | None = None,
    aliases: tuple[str, ...] = (),
    expensive: bool = False,
    partial: bool = False,
) -> OpSpec:
    return OpSpec(
        name,
        ("x",),
        _pointwise(result, acc=ACC in settings),
        doc,
        "elementwise",
        dtypes,
        settings,
        inplace=result is None,
        aliases=aliases,
        expensive=expensive,
        partial=partial,
    )


def _compare(name: str, symbol: str, dtypes: tuple[str, ...] = NUMBERS) -> OpSpec:
    doc = f"`x {symbol} y`, IEEE comparison; the result is bool."
    return OpSpec(name, ("x", "y"), _pointwise("bool"), doc, "compare", dtypes, broadcast=True)


_WHOLE_BYTES = tuple(name for name in NUMBERS if not DTYPES[name].packed)
_SUMS = (*NUMBERS, "bool", "bitset")
_BITS = (*INTEGERS, "bool")
_ORDERED = (*NUMBERS, *TERNARY)
# A t1 is never 0.
_CONDITIONS = tuple(name for name in STORED if name != "t1")
_LIMIT = "absent: no limit; NaN is replaced by the limit"

SPECS: tuple[OpSpec, ...] = (
    _binary("add", "`x + y`; integers wrap, bool is OR.", _SUMS, ACC),
    _binary("sub", "`x - y`; integers wrap.", NUMBERS, ACC),
    _binary("mul", "`x * y`; integers wrap, bool is AND.", _SUMS, ACC),
    _binary(
        "div", "`x / y`: IEEE for floats; integers truncate toward 0.", NUMBERS, MASK, partial=True
    ),
    _binary("floor_div", "`floor(x / y)` of integers; x / 0 is 0.", INTEGERS, MASK, partial=True),
    _binary(
        "rem",
        "Remainder with the sign of x, exact for floats, whose quotient is truncated; integer x rem 0 is 0.",
        NUMBERS,
        partial=True,
    ),
    _binary(
        "floor_mod",
        "Remainder with the sign of y: the quotient is rounded down. Integer x floor_mod 0 is 0; for floats "
        "it is `rem`, plus y where the signs differ.",
        NUMBERS,
        partial=True,
    ),
    _binary("pow", "`x ** y`.", FLOATS, expensive=True),
    _binary("min", "The smaller one; a NaN is ignored when the other is a number."),
    _binary("max", "The larger one; a NaN is ignored when the other is a number."),
    OpSpec(
        "fma",
        ("x", "y", "z"),
        _pointwise(),
        "`x * y + z`, in f32 for narrower floats.",
        "elementwise",
        FLOATS,
        broadcast=True,
        inplace=True,
    ),
    _unary("neg", "`-x`; integers wrap.", SIGNED_NUMBERS),
    _unary("abs", "`|x|`; the smallest integer stays.", SIGNED_NUMBERS, ACC),
    _unary("recip", "`1 / x`.", FLOATS, MASK),
    _unary("sign", "-1, 0 or 1 as i8; 0 for NaN.", SIGNED_NUMBERS, result="i8"),
    _unary(
        "clamp",
        "`min(max(x, min), max)`.",
        NUMBERS,
        Setting("min", "number", None, f"lower limit; {_LIMIT}"),
        Setting("max", "number", None, f"upper limit; {_LIMIT}"),
    ),
    _unary("floor", "The next integer below."),
    _unary("ceil", "The next integer above."),
    _unary("round", "The nearest integer, halves away from zero."),
    _unary("round_even", "The nearest integer, halves to the even one."),
    _unary("trunc", "The next integer toward zero."),
    _binary("and", "Bitwise AND; logical for bool.", _BITS),
    _binary("or", "Bitwise OR; logical for bool.", _BITS),
    _binary("xor", "Bitwise XOR; logical for bool.", _BITS),
    _unary("not", "Bitwise NOT; logical for bool.", _BITS),
    _unary(
        "shl",
        "`x << bits`, bits cut off at the dtype's width: by that width and more it is 0.",
        SHIFTABLE,
        Setting("bits", "int", REQUIRED, _PLACES),
        partial=True,
    ),
    _unary(
        "shr",
        "`x >> bits`, arithmetic for signed dtypes: by the dtype's width and more it is 0, or -1 for a "
        "negative x.",
        SHIFTABLE,
        Setting("bits", "int", REQUIRED, _PLACES),
        partial=True,
    ),
    _binary(
        "shift_left",
        "`x << y`, bits cut off at the dtype's width: by that width and more, or by less than 0, it is 0.",
        SHIFTABLE,
    ),
    _binary(
        "shift_right",
        "`x >> y`, arithmetic for signed dtypes: by the dtype's width and more, or by less than 0, it is 0, "
        "or -1 for a negative x.",
        SHIFTABLE,
    ),
    _unary("popcount", "Number of set bits, as u8.", SHIFTABLE, result="u8"),
    _unary("exp", "`e ** x`.", expensive=True),
    _unary("expm1", "`e ** x - 1`, exact near 0 too.", expensive=True),
    _unary("log", "Natural logarithm.", expensive=True),
    _unary("log1p", "`log(1 + x)`, exact near 0 too.", expensive=True),
    _unary("sqrt", "Square root.", expensive=True),
    _unary("rsqrt", "`1 / sqrt(x)`.", expensive=True),
    _unary("sin", "Sine of radians.", expensive=True),
    _unary("cos", "Cosine of radians.", expensive=True),
    _unary("tan", "Tangent of radians.", expensive=True),
    _unary("atan", "Arctangent, in radians.", expensive=True),
    _unary("asin", "Arcsine, in radians; NaN outside of -1..1.", expensive=True),
    _unary("acos", "Arccosine, in radians; NaN outside of -1..1.", expensive=True),
    OpSpec(
        "atan2",
        ("y", "x"),
        _pointwise(names=("y", "x")),
        "The angle of the point (x, y) in radians, from -pi to pi; signs of zeros count.",
        "elementwise",
        FLOATS,
        broadcast=True,
        inplace=True,
        expensive=True,
    ),
    _unary("sinh", "Hyperbolic sine.", expensive=True),
    _unary("cosh", "Hyperbolic cosine.", expensive=True),
    _unary("tanh", "Hyperbolic tangent.", expensive=True),
    _unary("asinh", "Inverse of the hyperbolic sine.", expensive=True),
    _unary("acosh", "Inverse of the hyperbolic cosine, from 0 on; NaN below 1.", expensive=True),
    _unary("atanh", "Inverse of the hyperbolic tangent; NaN outside of -1..1.", expensive=True),
    _unary("erf", "The error function.", expensive=True),
    _unary("sigmoid", "`1 / (1 + exp(-x))`.", expensive=True),
    _unary("silu", "`x * sigmoid(x)`.", aliases=("swish",), expensive=True),
    _unary(
        "gelu",
        "`x * Phi(x)`, Phi the normal distribution function.",
        FLOATS,
        Setting(
            "approximate",
            "string",
            "none",
            '"none": by erf; "tanh": the tanh formula',
            choices=("none", "tanh"),
        ),
        expensive=True,
    ),
    _unary("softplus", "`log(1 + exp(x))`.", expensive=True),
    _unary(
        "relu",
        "`x` where x >= 0, else `negative_slope * x`, then clamped.",
        SIGNED_NUMBERS,
        Setting("negative_slope", "number", 0, "slope below zero", aliases=("alpha",)),
        Setting("clamp_min", "number", None, "lower limit of the result"),
        Setting("clamp_max", "number", None, "upper limit of the result"),
    ),
    _compare("eq", "==", STORED),
    _compare("ne", "!=", STORED),
    _compare("lt", "<", _ORDERED),
    _compare("le", "<=", _ORDERED),
    _compare("gt", ">", _ORDERED),
    _compare("ge", ">=", _ORDERED),
    OpSpec(
        "is_finite",
        ("x",),
        _all_finite,
        "One bool: true when every element is finite.",
        "reduce",
        FLOATS,
    ),
    _unary("is_nan", "True where x is NaN.", FLOATS, result="bool"),
    _unary("is_inf", "True where x is infinite.", FLOATS, result="bool"),
    _unary("is_neg", "True where the sign bit is set (-0.0 too).", NUMBERS, result="bool"),
    OpSpec(
        "filter",
        ("x", "y", "condition"),
        _filter,
        "`x` where the condition is not zero, else `y`.",
        "elementwise",
        STORED,
        broadcast=True,
        inplace=True,
    ),
    OpSpec(
        "where",
        ("condition", "x", "y"),
        _select,
        "`x` where the condition is not zero, else `y`.",
        "elementwise",
        _CONDITIONS,
        broadcast=True,
        inplace=True,
        aliases=("select",),
    ),
    OpSpec(
        "cast",
        ("x",),
        _cast,
        "Another dtype: to floats rounding to nearest even, to integers as the settings say; to t2 "
        "and t1 always the nearest value, for t1 -1 where x is not above 0.",
        "elementwise",
        STORED,
        (
            Setting("to", "dtype", REQUIRED, "the dtype of the result", aliases=("dtype",)),
            Setting(
                "rounding_mode",
                "string",
                "trunc",
                "float to integer: trunc, floor, ceil, nearest (halves away from zero), even "
                "(nearest, halves to even)",
                choices=("trunc", "floor", "ceil", "nearest", "even"),
            ),
            Setting("saturate", "bool", True, "out of range: the nearest value, else wraps"),
        ),
    ),
    OpSpec(
        "bit_cast",
        ("x",),
        _bit_cast,
        "The same bits as another dtype of as many bits.",
        "elementwise",
        _WHOLE_BYTES,
        (Setting("to", "dtype", REQUIRED, "the dtype of the result", aliases=("dtype",)),),
    ),
    _unary(
        "fill",
        "Every element is `value`.",
        STORED,
        Setting("value", "number", REQUIRED, "the value of every element"),
    ),
    _unary(
        "fill_nan_like",
        "A tensor like x, every element NaN, or `value`.",
        FLOATS,
        Setting("value", "number", float("nan"), "the value of every element"),
    ),
)
