"""Twins of arithmetic, bit operations, rounding, comparison and selection."""

from __future__ import annotations

from typing import Any

import numpy as np

from openinfer.lowering.program.value_arrays import into_range, pattern, wrap
from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import AnyArray, to_storage, to_values


def _is_float(call: Call, number: int = 0) -> bool:
    return DTYPES[call.dtypes[number]].is_float


def _accumulated(call: Call) -> list[AnyArray]:
    """The operands, in the wider integer of `acc` when it is given."""
    acc = call.settings.get("acc")
    arrays = [call.wide(i) for i in range(len(call.inputs))]
    if isinstance(acc, tuple):
        return [a.astype(DTYPES[str(acc[0])].value) for a in arrays]
    return arrays


@twin("add")
def _add(call: Call) -> AnyArray:
    x, y = _accumulated(call)
    return x | y if call.dtypes[0] == "bool" else x + y


@twin("sub")
def _sub(call: Call) -> AnyArray:
    x, y = _accumulated(call)
    return x - y


@twin("mul")
def _mul(call: Call) -> AnyArray:
    x, y = _accumulated(call)
    return x & y if call.dtypes[0] == "bool" else x * y


def _masked(call: Call, quotient: AnyArray, divisor: AnyArray, default: int | None) -> AnyArray:
    """`quotient` with the value of `div_by_zero_mask` where the divisor is zero."""
    mask = call.settings.get("div_by_zero_mask")
    if mask is None:
        mask = default
    if mask is None:
        return quotient
    value = into_range(mask, call.dtypes[0])
    return np.where(divisor == 0, np.asarray(value).astype(quotient.dtype), quotient)


@twin("div")
def _div(call: Call) -> AnyArray:
    x, y = call.wide(0), call.wide(1)
    if _is_float(call):
        return _masked(call, x / y, y, None)
    safe = np.where(y == 0, np.ones_like(y), y)
    floored = x // safe
    inexact = floored * safe != x
    # Floor and truncation differ by one where the exact quotient is negative and not whole.
    truncated = np.where(inexact & ((x < 0) != (safe < 0)), floored + 1, floored)
    return _masked(call, truncated.astype(x.dtype), y, 0)


@twin("floor_div")
def _floor_div(call: Call) -> AnyArray:
    x, y = call.wide(0), call.wide(1)
    return _masked(call, x // np.where(y == 0, np.ones_like(y), y), y, 0)


@twin("rem")
def _rem(call: Call) -> AnyArray:
    x, y = call.wide(0), call.wide(1)
    if _is_float(call):
        return np.fmod(x, y)
    # x rem ±1 is 0; asking NumPy for it would overflow for the smallest integer.
    trivial = (y == 0) | (y == 1)
    if y.dtype.kind == "i":
        trivial = trivial | (y == -1)
    remainder = np.fmod(x, np.where(trivial, np.ones_like(y), y))
    return np.where(trivial, np.zeros_like(remainder), remainder)


@twin("floor_mod")
def _floor_mod(call: Call) -> AnyArray:
    x, y = call.wide(0), call.wide(1)
    if _is_float(call):
        remainder = np.fmod(x, y)
        other = (remainder != 0) & (np.signbit(remainder) != np.signbit(y))
        return np.where(other, remainder + y, remainder)
    trivial = y == 0
    if y.dtype.kind == "i":
        trivial = trivial | (y == -1)  # NumPy would overflow for the smallest integer.
    remainder = np.mod(x, np.where(trivial, np.ones_like(y), y))
    return np.where(trivial, np.zeros_like(remainder), remainder)


@twin("fma")
def _fma(call: Call) -> AnyArray:
    return call.wide(0) * call.wide(1) + call.wide(2)


@twin("min")
def _min(call: Call) -> AnyArray:
    return np.fmin(call.wide(0), call.wide(1))


@twin("max")
def _max(call: Call) -> AnyArray:
    return np.fmax(call.wide(0), call.wide(1))


@twin("neg")
def _neg(call: Call) -> AnyArray:
    return -call.wide()


@twin("abs")
def _abs(call: Call) -> AnyArray:
    return np.abs(_accumulated(call)[0])


@twin("recip")
def _recip(call: Call) -> AnyArray:
    x = call.wide()
    return _masked(call, 1 / x, x, None)


@twin("sign")
def _sign(call: Call) -> AnyArray:
    x = call.wide()
    return (x > 0).astype(np.int8) - (x < 0).astype(np.int8)


@twin("clamp")
def _clamp(call: Call) -> AnyArray:
    return limited(call, call.wide(), call.settings["min"], call.settings["max"])


def limited(call: Call, x: AnyArray, low: object, high: object) -> AnyArray:
    """`min(max(x, low), high)`; an absent limit does nothing, a NaN takes a given limit."""
    if low is not None:
        x = np.fmax(x, np.asarray(into_range(low, call.dtypes[0])).astype(x.dtype))
    if high is not None:
        x = np.fmin(x, np.asarray(into_range(high, call.dtypes[0])).astype(x.dtype))
    return x


@twin("floor")
def _floor(call: Call) -> AnyArray:
    return np.floor(call.wide())


@twin("ceil")
def _ceil(call: Call) -> AnyArray:
    return np.ceil(call.wide())


@twin("trunc")
def _trunc(call: Call) -> AnyArray:
    return np.trunc(call.wide())


@twin("round")
def _round(call: Call) -> AnyArray:
    return round_half_away(call.wide())


@twin("round_even")
def _round_even(call: Call) -> AnyArray:
    return np.rint(call.wide())


def round_half_away(x: AnyArray) -> AnyArray:
    """The nearest integer, halves away from zero; exact, because `x - trunc(x)` is."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x).astype(x.dtype), whole)


@twin("and")
def _and(call: Call) -> AnyArray:
    return call.inputs[0] & call.inputs[1]


@twin("or")
def _or(call: Call) -> AnyArray:
    return call.inputs[0] | call.inputs[1]


@twin("xor")
def _xor(call: Call) -> AnyArray:
    return call.inputs[0] ^ call.inputs[1]


@twin("not")
def _not(call: Call) -> AnyArray:
    return ~call.inputs[0]


def _shift_count(call: Call) -> int:
    bits = call.settings["bits"]
    assert isinstance(bits, int)
    return bits


def _widened(call: Call) -> AnyArray:
    x = call.inputs[0]
    return x.astype(np.int64 if x.dtype.kind == "i" else np.uint64)


@twin("shl")
def _shl(call: Call) -> AnyArray:
    bits, x = _shift_count(call), _widened(call)
    return x << x.dtype.type(bits) if bits < 64 else np.zeros_like(x)


@twin("shr")
def _shr(call: Call) -> AnyArray:
    bits, x = _shift_count(call), _widened(call)
    if bits >= 64 and x.dtype.kind == "u":
        return np.zeros_like(x)
    return x >> x.dtype.type(min(bits, 63))


@twin("shift_left")
def _shift_left(call: Call) -> AnyArray:
    x, y = _widened(call), call.inputs[1]
    inside = (y >= 0) & (y < 64)
    return np.where(inside, x << np.where(inside, y, 0).astype(x.dtype), x.dtype.type(0))


@twin("shift_right")
def _shift_right(call: Call) -> AnyArray:
    x, y = _widened(call), call.inputs[1]
    inside = (y >= 0) & (y < 64)
    # Shifting twice clears all bits but copies of the sign.
    out = x >> x.dtype.type(63) >> x.dtype.type(1)
    return np.where(inside, x >> np.where(inside, y, 0).astype(x.dtype), out)


@twin("popcount")
def _popcount(call: Call) -> AnyArray:
    return np.bitwise_count(pattern(call.inputs[0], call.dtypes[0]))


_COMPARISONS: dict[str, Any] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _register_comparison(name: str, function: Any) -> None:
    @twin(name)
    def compare(call: Call) -> AnyArray:
        return np.asarray(function(call.wide(0), call.wide(1)))


for _name, _function in _COMPARISONS.items():
    _register_comparison(_name, _function)


@twin("is_finite")
def _is_finite(call: Call) -> AnyArray:
    return np.asarray(np.isfinite(call.inputs[0]).all())


@twin("is_nan")
def _is_nan(call: Call) -> AnyArray:
    return np.isnan(call.inputs[0])


@twin("is_inf")
def _is_inf(call: Call) -> AnyArray:
    return np.isinf(call.inputs[0])


@twin("is_neg")
def _is_neg(call: Call) -> AnyArray:
    x = call.inputs[0]
    return np.signbit(x) if x.dtype.kind == "f" else x < 0


@twin("bit_cast")
def _bit_cast(call: Call) -> AnyArray:
    source, target = DTYPES[call.dtypes[0]], DTYPES[call.outputs[0]]
    x = call.inputs[0]
    if source.name == "bf16":
        # What rounding would do to the bits of a NaN is not asked here.
        stored = (x.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    else:
        stored = to_storage(source, x)
    return to_values(target, np.ascontiguousarray(stored).view(target.storage), x.shape)


@twin("filter")
def _filter(call: Call) -> AnyArray:
    x, y, condition = call.inputs
    return np.where(condition != 0, x, y)


@twin("where")
def _where(call: Call) -> AnyArray:
    condition, x, y = call.inputs
    return np.where(condition != 0, x, y)


@twin("fill", "fill_nan_like")
def _fill(call: Call) -> AnyArray:
    value = call.settings["value"]
    assert isinstance(value, int | float)
    shape = call.inputs[0].shape
    if _is_float(call):
        return np.full(shape, value, np.float64)
    wrapped = wrap(np.asarray(int(value)), call.dtypes[0]) if value < 2**63 else int(value)
    return np.full(shape, wrapped, DTYPES[call.dtypes[0]].value)
