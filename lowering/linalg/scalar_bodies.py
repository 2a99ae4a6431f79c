"""The scalar code of every elementwise op, looked up by kind; here arithmetic, bits, comparison.

A body works on scalars and on 1-D vectors alike. Values come in their memory types: bool is i8 of 0
or 1, unsigned integers are signless and the dtype name says so. Floats narrower than f32 are
computed in f32 and rounded once; packed integers are computed in bytes and wrapped once. What a kind
computes is defined by its twin in `lowering/reference/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from openinfer.dialects.extensions import arith as extended
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import (
    INF,
    absolute,
    compare_floats,
    compare_integers,
    is_float,
    like,
)
from openinfer.lowering.linalg.scalar_conversions import CONVERSIONS
from openinfer.lowering.linalg.scalar_emitter import (
    MEMORY,
    Body,
    Scalar,
    memory_number,
    memory_type,
    registrar,
    resize_integer,
    unsupported,
)
from openinfer.lowering.linalg.scalar_functions import FUNCTIONS
from openinfer.runtime.dtypes import DTYPES, DType
from openinfer.runtime.errors import UnsupportedError

__all__ = ["emit_body", "memory_type", "scalar_kinds"]

ARITHMETIC: dict[str, Body] = {}
body = registrar(ARITHMETIC)


def emit_body(
    b: LoopBuilder,
    kind: str,
    settings: Mapping[str, object],
    args: Sequence[SSAValue],
    in_dtypes: Sequence[str],
    out_dtype: str,
) -> SSAValue:
    """One element of elementwise op `kind`, in the memory type of `out_dtype`.

    `settings` may leave out what has a default; values are attributes or Python values. Raises
    UnsupportedError OI0711 when the kind has no code for these dtypes.
    """
    function = _find(kind)
    if function is None:
        raise UnsupportedError("OI0711", f"there is no code for the elementwise op '{kind}'")
    for dtype in (*in_dtypes, out_dtype):
        if dtype not in MEMORY:
            raise unsupported(kind, dtype)
    scalar = Scalar(b, kind, settings, [DTYPES[d] for d in in_dtypes], DTYPES[out_dtype])
    return scalar.stored(function(scalar, list(args)))


def _find(kind: str) -> Body | None:
    return ARITHMETIC.get(kind) or FUNCTIONS.get(kind) or CONVERSIONS.get(kind)


def scalar_kinds() -> tuple[str, ...]:
    """The kinds that `emit_body` knows."""
    return (*ARITHMETIC, *FUNCTIONS, *CONVERSIONS)


# Arithmetic ---------------------------------------------------------------------------------------


def _float_or_integer(kind: str, float_op: str, integer_op: str, bool_op: str | None) -> None:
    @body(kind)
    def emit(s: Scalar, args: list[SSAValue]) -> SSAValue:
        if s.dtype.kind == "bool":
            if bool_op is None:
                raise s.no_code()
            return s.f(bool_op, *args)
        return s.f(float_op if s.dtype.is_float else integer_op, *s.computed(args))


_float_or_integer("add", "addf", "addi", "ori")
_float_or_integer("sub", "subf", "subi", None)
_float_or_integer("mul", "mulf", "muli", "andi")


@body("fma")
def _fma(s: Scalar, args: list[SSAValue]) -> SSAValue:
    s.require_float()
    x, y, z = s.computed(args)
    return s.f("addf", s.f("mulf", x, y), z)


@body("min", "max")
def _extreme(s: Scalar, args: list[SSAValue]) -> SSAValue:
    return _larger_or_smaller(s, s.kind, *s.computed(args))


def _larger_or_smaller(s: Scalar, which: str, x: SSAValue, y: SSAValue) -> SSAValue:
    """min or max; of a NaN and a number the number."""
    if is_float(x):
        return s.f(f"{which}numf", x, y)
    return s.f(f"{which}{'si' if s.signed else 'ui'}", x, y)


@body("neg")
def _neg(s: Scalar, args: list[SSAValue]) -> SSAValue:
    (x,) = s.computed(args)
    return s.f("negf", x) if is_float(x) else s.f("subi", s.constant(0, x), x)


@body("abs")
def _abs(s: Scalar, args: list[SSAValue]) -> SSAValue:
    if s.dtype.is_float:
        return absolute(s.b, s.computed(args)[0])
    (x,) = s.computed(args)
    if not s.signed:
        return x
    zero = s.constant(0, x)
    return s.select(s.compare("lt", x, zero), s.f("subi", zero, x), x)


@body("recip")
def _recip(s: Scalar, args: list[SSAValue]) -> SSAValue:
    s.require_float()
    (x,) = s.computed(args)
    return _masked(s, s.f("divf", s.constant(1, x), x), x)


def _masked(s: Scalar, quotient: SSAValue, divisor: SSAValue) -> SSAValue:
    """`quotient`, or the value of `div_by_zero_mask` where the divisor is 0 (integers: 0)."""
    mask = s.limit("div_by_zero_mask", quotient)
    if mask is None:
        if is_float(quotient):
            return quotient
        mask = s.constant(0, quotient)
    return s.select(s.is_zero(divisor), mask, quotient)


@body("div")
def _div(s: Scalar, args: list[SSAValue]) -> SSAValue:
    x, y = s.computed(args)
    if is_float(x):
        return _masked(s, s.f("divf", x, y), y)
    return _masked(s, _quotient(s, x, y), y)


def _divisor(s: Scalar, y: SSAValue) -> SSAValue:
    """`y`, but 1 where the machine's division would trap: 0, and -1 of the smallest integer."""
    traps = s.is_zero(y)
    if s.signed:
        traps = s.f("ori", traps, s.compare("eq", y, s.constant(-1, y)))
    return s.select(traps, s.constant(1, y), y)


def _quotient(s: Scalar, x: SSAValue, y: SSAValue) -> SSAValue:
    """x / y toward zero; x / -1 wraps, x / 0 is x."""
    s.require_integer()
    if not s.signed:
        return s.f("divui", x, _divisor(s, y))
    quotient = s.f("divsi", x, _divisor(s, y))
    negated = s.f("subi", s.constant(0, x), x)
    return s.select(s.compare("eq", y, s.constant(-1, y)), negated, quotient)


@body("floor_div")
def _floor_div(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """One less than the truncated quotient where the remainder and the divisor differ in sign."""
    s.require_integer()
    x, y = s.computed(args)
    quotient = _quotient(s, x, y)
    if s.signed:
        zero = s.constant(0, x)
        remainder = s.f("subi", x, s.f("muli", quotient, y))
        inexact = s.compare("ne", remainder, zero)
        differ = s.compare("lt", s.f("xori", remainder, y), zero)
        lower = s.f("subi", quotient, s.constant(1, x))
        quotient = s.select(s.f("andi", inexact, differ), lower, quotient)
    return _masked(s, quotient, y)


@body("rem")
def _rem(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """With the sign of x; of integers x rem 0 is x rem 1, which is 0."""
    return _remainder(s, *s.computed(args))


def _remainder(s: Scalar, x: SSAValue, y: SSAValue) -> SSAValue:
    if is_float(x):
        return s.f("remf", x, y)
    return s.f("remsi" if s.signed else "remui", x, _divisor(s, y))


@body("floor_mod")
def _floor_mod(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """The remainder, plus y where it is not 0 and the other sign."""
    x, y = s.computed(args)
    remainder = _remainder(s, x, y)
    if not is_float(x) and not s.signed:
        return remainder
    zero = s.constant(0, x)
    differ = s.b.insert(arith.XOrIOp(s.compare("lt", remainder, zero), s.compare("lt", y, zero)))
    moved = s.f("andi", s.compare("ne", remainder, zero), differ)
    return s.select(moved, s.f("addf" if is_float(x) else "addi", remainder, y), remainder)


@body("sign")
def _sign(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """(x > 0) - (x < 0) in the result's integer."""
    (x,) = s.computed(args)
    zero = s.constant(0, x)
    kind = like(x, MEMORY[s.target.name])
    above = s.b.insert(extended.ExtUIOp(s.compare("gt", x, zero), kind))
    below = s.b.insert(extended.ExtUIOp(s.compare("lt", x, zero), kind))
    return s.f("subi", above, below)


@body("clamp")
def _clamp(s: Scalar, args: list[SSAValue]) -> SSAValue:
    (x,) = s.computed(args)
    low, high = s.limit("min", x), s.limit("max", x)
    if low is not None:
        x = _larger_or_smaller(s, "max", x, low)
    return x if high is None else _larger_or_smaller(s, "min", x, high)


@body("relu")
def _relu(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """x, or slope · x below 0 (0 for slope 0, also at -inf); NaN passes all of it."""
    (x,) = s.computed(args)
    zero = s.constant(0, x)
    slope = s.number("negative_slope") or 0
    below = zero
    if slope != 0:
        below = s.f("mulf" if is_float(x) else "muli", x, s.constant(slope, x))
        if s.dtype.packed:
            # The product wraps before it is limited, as that of every other integer does.
            below = s.unpacked(resize_integer(s.b, below, s.dtype.bits, signed=True))
    x = s.select(s.compare("lt", x, zero), below, x)
    low, high = s.limit("clamp_min", x), s.limit("clamp_max", x)
    if low is not None:
        x = s.select(s.compare("lt", x, low), low, x)
    return x if high is None else s.select(s.compare("gt", x, high), high, x)


# Bits ---------------------------------------------------------------------------------------------


@body("and", "or", "xor")
def _bitwise(s: Scalar, args: list[SSAValue]) -> SSAValue:
    if s.dtype.is_float:
        raise s.no_code()
    return s.f(f"{s.kind}i", *s.computed(args))


@body("not")
def _not(s: Scalar, args: list[SSAValue]) -> SSAValue:
    if s.dtype.is_float:
        raise s.no_code()
    (x,) = s.computed(args)
    return s.f("xori", x, s.constant(1 if s.dtype.kind == "bool" else -1, x))


@body("shl", "shr")
def _shift(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """By the width of the dtype and more, nothing of x stays but the sign of a signed shr."""
    s.require_integer()
    (x,) = s.computed(args)
    bits = s.setting("bits")
    assert isinstance(bits, int)
    assert bits >= 0
    fills_with_sign = s.kind == "shr" and s.signed
    if bits >= s.dtype.bits and not fills_with_sign:
        return s.constant(0, x)
    # LLVM gives any value to a shift by the width of a register.
    count = s.constant(min(bits, s.dtype.bits - 1), x)
    if s.kind == "shl":
        return s.f("shli", x, count)
    return s.f("shrsi" if s.signed else "shrui", x, count)


@body("shift_left", "shift_right")
def _shift_by(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """As by a setting; a negative number of places is a large one."""
    s.require_integer()
    x, y = s.computed(args)
    last = s.constant(s.dtype.bits - 1, x)
    inside = compare_integers(s.b, "ule", y, last)
    count = s.select(inside, y, last)
    if s.kind == "shift_left":
        return s.select(inside, s.f("shli", x, count), s.constant(0, x))
    if s.signed:
        return s.f("shrsi", x, count)
    return s.select(inside, s.f("shrui", x, count), s.constant(0, x))


@body("popcount")
def _popcount(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """Counts in fields of 2, 4, 8, … bits, each the sum of two fields of half its width."""
    s.require_integer()
    x = s.unpacked(args[0])
    bits, width = s.dtype.bits, 1
    while width < bits:
        # Ones in every other field.
        mask = s.constant(sum(((1 << width) - 1) << at for at in range(0, bits, 2 * width)), x)
        upper = s.f("andi", s.f("shrui", x, s.constant(width, x)), mask)
        x = s.f("addi", s.f("andi", x, mask), upper)
        width *= 2
    return resize_integer(s.b, x, s.target.bits, signed=False)


# Comparison and selection -------------------------------------------------------------------------


@body("eq", "ne", "lt", "le", "gt", "ge")
def _comparison(s: Scalar, args: list[SSAValue]) -> SSAValue:
    x, y = s.computed(args) if s.dtype.is_float else map(s.unpacked, args)
    return s.compare(s.kind, x, y)


@body("is_nan")
def _is_nan(s: Scalar, args: list[SSAValue]) -> SSAValue:
    s.require_float()
    (x,) = s.computed(args)
    return compare_floats(s.b, "uno", x, x)


@body("is_inf", "is_finite")
def _is_inf(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """`is_finite` of one element here; the op of that name combines all of them."""
    s.require_float()
    (x,) = s.computed(args)
    relation = "oeq" if s.kind == "is_inf" else "olt"
    return compare_floats(s.b, relation, absolute(s.b, x), s.constant(INF, x))


@body("is_neg")
def _is_neg(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """The sign bit; false for unsigned integers and bools."""
    x = s.unpacked(args[0])
    if s.dtype.is_float:
        x = s.b.insert(arith.BitcastOp(x, like(x, IntegerType(s.dtype.bits))))
    elif not s.signed:
        return s.b.constant(0, like(x, IntegerType(8)))
    return compare_integers(s.b, "slt", x, s.constant(0, x))


@body("bit_cast")
def _bit_cast(s: Scalar, args: list[SSAValue]) -> SSAValue:
    (x,) = args
    kind = like(x, MEMORY[s.target.name])
    return x if x.type == kind else s.b.insert(arith.BitcastOp(x, kind))


@body("filter")
def _filter(s: Scalar, args: list[SSAValue]) -> SSAValue:
    x, y, condition = args
    return _chosen(s, condition, s.sources, x, y)


@body("where")
def _where(s: Scalar, args: list[SSAValue]) -> SSAValue:
    condition, x, y = args
    return _chosen(s, condition, (*s.sources[1:], s.sources[0]), x, y)


def _chosen(
    s: Scalar, condition: SSAValue, dtypes: Sequence[DType], x: SSAValue, y: SSAValue
) -> SSAValue:
    """`dtypes` are those of x, y and the condition."""
    values, chooses = (
        Scalar(s.b, s.kind, s.settings, list(own), s.target) for own in (dtypes[:2], dtypes[2:])
    )
    stays = all(source.name == s.target.name for source in values.sources)
    results = [x, y] if stays else values.computed([x, y])
    return s.select(chooses.holds(chooses.unpacked(condition)), *results)


@body("fill", "fill_nan_like")
def _fill(s: Scalar, args: list[SSAValue]) -> SSAValue:
    value = s.setting("value", float("nan"))
    assert isinstance(value, int | float)
    kind = like(args[0], MEMORY[s.target.name])
    return s.b.constant(memory_number(value, s.target), kind)
