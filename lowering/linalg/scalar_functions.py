"""Scalar code of the functions of floats."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from openinfer.dialects.ops.activations import SELU_ALPHA, SELU_SCALE
from openinfer.lowering.kernels.numeric import absolute
from openinfer.lowering.linalg.scalar_emitter import Body, Scalar, registrar

FUNCTIONS: dict[str, Body] = {}
body = registrar(FUNCTIONS)


@body("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "tanh", "atan", "atan2", "erf")
@body("floor", "ceil", "round", "trunc")
def _function(s: Scalar, args: list[SSAValue]) -> SSAValue:
    s.require_float()
    return s.f(s.kind, *s.computed(args))


@body("round_even")
def _round_even(s: Scalar, args: list[SSAValue]) -> SSAValue:
    s.require_float()
    return s.f("roundeven", *s.computed(args))


@body("pow")
def _pow(s: Scalar, args: list[SSAValue]) -> SSAValue:
    s.require_float()
    return s.f("powf", *s.computed(args))


@body("rsqrt")
def _rsqrt(s: Scalar, args: list[SSAValue]) -> SSAValue:
    s.require_float()
    (x,) = s.computed(args)
    return s.f("divf", s.constant(1, x), s.f("sqrt", x))


@body("sigmoid")
def _sigmoid(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """1 / (1 + exp(-x)): the exponential may overflow, then the result is 0 as it should."""
    s.require_float()
    (x,) = s.computed(args)
    one = s.constant(1, x)
    return s.f("divf", one, s.f("addf", one, s.f("exp", s.f("negf", x))))


@body("silu")
def _silu(s: Scalar, args: list[SSAValue]) -> SSAValue:
    s.require_float()
    (x,) = s.computed(args)
    power = s.f("exp", s.f("negf", x))
    return s.f("divf", x, s.f("addf", s.constant(1, x), power))


@body("gelu")
def _gelu(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """x/2 · erfc(-x/√2), or x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))."""
    s.require_float()
    (x,) = s.computed(args)
    half = s.f("mulf", x, s.constant(0.5, x))
    if s.setting("approximate", "none") == "tanh":
        square = s.f("mulf", x, x)
        cubic = s.f("mulf", s.f("mulf", square, s.constant(0.044715, x)), x)
        inner = s.f("mulf", s.f("addf", x, cubic), s.constant(math.sqrt(2 / math.pi), x))
        return s.f("mulf", half, s.f("addf", s.f("tanh", inner), s.constant(1, x)))
    return s.f("mulf", half, s.f("erfc", s.f("mulf", x, s.constant(-math.sqrt(0.5), x))))


@body("softplus")
def _softplus(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """max(x, 0) + log(1 + e) with e = exp(-|x|).

    log(1 + e) = log(u) · e / (u - 1) with u = 1 + e rounded, and e where u is 1: exact for small e.
    """
    s.require_float()
    (x,) = s.computed(args)
    one, zero = s.constant(1, x), s.constant(0, x)
    e = s.f("exp", s.f("negf", absolute(s.b, x)))
    u = s.f("addf", one, e)
    difference = s.f("subf", u, one)
    tiny = s.compare("eq", difference, zero)
    ratio = s.f("divf", e, s.select(tiny, one, difference))
    logarithm = s.select(tiny, e, s.f("mulf", s.f("log", u), ratio))
    # A NaN is in `logarithm` already.
    return s.f("addf", s.select(s.compare("gt", x, zero), x, zero), logarithm)


@body("elu", "celu")
def _elu(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """x, and alpha · (exp(x) - 1) below 0; celu divides x by alpha before."""
    s.require_float()
    (x,) = s.computed(args)
    number = s.number("alpha")
    alpha = s.constant(1.0 if number is None else float(number), x)
    inner = s.f("divf", x, alpha) if s.kind == "celu" and number not in (None, 1) else x
    return _from_zero_on(s, x, s.f("mulf", alpha, s.f("expm1", inner)))


@body("selu")
def _selu(s: Scalar, args: list[SSAValue]) -> SSAValue:
    s.require_float()
    (x,) = s.computed(args)
    below = s.f("mulf", s.constant(SELU_SCALE * SELU_ALPHA, x), s.f("expm1", x))
    return _from_zero_on(s, x, below, s.f("mulf", s.constant(SELU_SCALE, x), x))


def _from_zero_on(
    s: Scalar, x: SSAValue, below: SSAValue, above: SSAValue | None = None
) -> SSAValue:
    """`above`, or x itself, where x is positive, else `below`, which a NaN goes through."""
    return s.select(s.compare("gt", x, s.constant(0, x)), x if above is None else above, below)


@body("mish")
def _mish(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """x · n / (n + 2) with n = e (e + 2) and e = exp(x), which is tanh(log(1 + e)); x itself from 20 on."""
    s.require_float()
    (x,) = s.computed(args)
    limit = s.constant(20, x)
    e = s.f("exp", s.select(s.compare("gt", x, limit), limit, x))
    n = s.f("mulf", e, s.f("addf", e, s.constant(2, x)))
    return s.f("mulf", x, s.f("divf", n, s.f("addf", n, s.constant(2, x))))


@body("hard_swish")
def _hard_swish(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """x · (min(max(x + 3, 0), 6) / 6): the other order overflows."""
    s.require_float()
    (x,) = s.computed(args)
    zero, six = s.constant(0, x), s.constant(6, x)
    gate = s.f("addf", x, s.constant(3, x))
    gate = s.select(s.compare("lt", gate, zero), zero, gate)
    gate = s.select(s.compare("gt", gate, six), six, gate)
    return s.f("mulf", x, s.f("divf", gate, six))


@body("asin", "acos")
def _arcs(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """The angle of a point on the unit circle, whose other part is sqrt((1 - x) (1 + x)), exact near 1."""
    s.require_float()
    (x,) = s.computed(args)
    one = s.constant(1, x)
    other = s.f("sqrt", s.f("mulf", s.f("subf", one, x), s.f("addf", one, x)))
    return s.f("atan2", x, other) if s.kind == "asin" else s.f("atan2", other, x)


@body("sinh")
def _sinh(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """(e + e / (e + 1)) / 2 with e = exp(|x|) - 1, exact near 0."""
    s.require_float()
    (x,) = s.computed(args)
    size, half = absolute(s.b, x), s.constant(0.5, x)
    e = s.f("expm1", size)
    small = s.f("addf", e, s.f("divf", e, s.f("addf", e, s.constant(1, x))))
    return _odd(s, x, _or_large(s, size, s.f("mulf", small, half)))


@body("cosh")
def _cosh(s: Scalar, args: list[SSAValue]) -> SSAValue:
    s.require_float()
    (x,) = s.computed(args)
    size = absolute(s.b, x)
    e = s.f("exp", size)
    both = s.f("addf", e, s.f("divf", s.constant(1, x), e))
    return _or_large(s, size, s.f("mulf", both, s.constant(0.5, x)))


def _or_large(s: Scalar, size: SSAValue, near: SSAValue) -> SSAValue:
    """exp(size) / 2 from 40 on, where exp(-size) is nothing beside it, else `near`."""
    half = s.constant(0.5, size)
    root = s.f("exp", s.f("mulf", size, half))
    return s.select(
        s.compare("gt", size, s.constant(40, size)),
        s.f("mulf", s.f("mulf", root, half), root),
        near,
    )


@body("asinh")
def _asinh(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """log1p(a + a² / (1 + sqrt(1 + a²))) of a = |x|."""
    s.require_float()
    (x,) = s.computed(args)
    size, one = absolute(s.b, x), s.constant(1, x)
    square = s.f("mulf", size, size)
    root = s.f("addf", one, s.f("sqrt", s.f("addf", one, square)))
    near = s.f("log1p", s.f("addf", size, s.f("divf", square, root)))
    return _odd(s, x, _or_far(s, size, near))


@body("acosh")
def _acosh(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """log1p(t + sqrt(t (t + 2))) of t = x - 1, which is exact near 1."""
    s.require_float()
    (x,) = s.computed(args)
    one = s.constant(1, x)
    t = s.f("subf", x, one)
    root = s.f("sqrt", s.f("mulf", t, s.f("addf", t, s.constant(2, x))))
    found = _or_far(s, x, s.f("log1p", s.f("addf", t, root)))
    return s.select(s.compare("lt", x, one), s.constant(math.nan, x), found)


def _or_far(s: Scalar, size: SSAValue, near: SSAValue) -> SSAValue:
    """log(2 size) where the square of `size` may overflow, and 1 is nothing beside it, else `near`."""
    far = s.f("addf", s.f("log", size), s.constant(math.log(2), size))
    return s.select(s.compare("gt", size, s.constant(1e9, size)), far, near)


@body("atanh")
def _atanh(s: Scalar, args: list[SSAValue]) -> SSAValue:
    """log1p(2 a / (1 - a)) / 2 of a = |x|."""
    s.require_float()
    (x,) = s.computed(args)
    size = absolute(s.b, x)
    ratio = s.f("divf", s.f("addf", size, size), s.f("subf", s.constant(1, x), size))
    return _odd(s, x, s.f("mulf", s.f("log1p", ratio), s.constant(0.5, x)))


def _odd(s: Scalar, x: SSAValue, value: SSAValue) -> SSAValue:
    """The value of |x| with the sign of x; a zero is x itself."""
    zero = s.constant(0, x)
    signed = s.select(s.compare("lt", x, zero), s.f("negf", value), value)
    return s.select(s.compare("eq", x, zero), x, signed)
