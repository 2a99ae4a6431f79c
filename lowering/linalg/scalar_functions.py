"""Scalar code of the functions of floats."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from openinfer.lowering.kernels.numeric import absolute
from openinfer.lowering.linalg.scalar_emitter import Body, Scalar, registrar

FUNCTIONS: dict[str, Body] = {}
body = registrar(FUNCTIONS)


@body("exp", "log", "sqrt", "sin", "cos", "tanh", "erf", "floor", "ceil", "round", "trunc")
def _function(s: Scalar, args: list[SSAValue]) -> SSAValue:
    s.require_float()
    return s.f(s.kind, *s.computed(args))


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
