"""Rules of random numbers: the generator of `dialects/ops/random.py` as a chain of elementwise functions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, TensorType, UnitAttr, i1, i32, i64
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import element_type
from openinfer.dialects.ops.base import product
from openinfer.dialects.ops.random import GAMMA, MOST_CHOICES, SIGNIFICANDS, STEPS, WEIGHT_BITS
from openinfer.lowering.graph.op_rules import Call, op_rule
from openinfer.lowering.graph.scalars import Scalar, computed, dtype_of, number, widened
from openinfer.runtime.sizes import Size

_ONE = Size.of(1)
_HALF = 32
"""Bits of half a word."""


def _like(value: SSAValue, dtype: str) -> TensorType[Attribute]:
    """The type with the shape of a value and another dtype."""
    kind = value.type
    assert isinstance(kind, TensorType)
    return nn.with_element(kind, element_type(dtype))


def _outputs(call: Call, count: Size) -> SSAValue:
    """The first outputs of the generator for the seed of an op, as u64."""
    u64 = element_type("u64")
    flat = nn.tensor_type(u64, [count])
    seed = _mixed(call, number(call, call.settings["seed"], element_type("i64")))
    place = call.add(nn.IotaOp, [], flat, axis=nn.int_setting(0))
    gamma = number(call, GAMMA, u64)
    place = call.elementwise("add", [place, number(call, 1, u64)], flat)
    state = call.elementwise("mul", [place, gamma], flat)
    state = call.elementwise("add", [state, seed], flat)
    return _mixed(call, state)


@op_rule("random_uniform", scalars=("seed", "low", "high"))
def _random_uniform(call: Call) -> Sequence[SSAValue]:
    """SplitMix64 at the row-major place of each element; see its twin."""
    result = call.results[0]
    dtype = result.dtype
    wide = "f64" if dtype == "f64" else "f32"
    state = _outputs(call, result.count)
    bits = SIGNIFICANDS[dtype]
    state = call.elementwise("shr", [state], _like(state, "u64"), bits=64 - bits)
    # What is left is small, and signed integers are converted faster.
    state = widened(call, state, "i64" if bits > 31 else "i32")
    kind = nn.tensor_type(element_type(wide), [result.count])
    share = call.convert(state, kind)
    share = call.elementwise("mul", [share, number(call, 2.0**-bits, kind.element_type)], kind)
    low, high = call.settings["low"], call.settings["high"]
    if isinstance(low, Scalar) or isinstance(high, Scalar):
        double = element_type("f64")
        bounds = [number(call, low, double), number(call, high, double)]
        ordered = call.elementwise("le", bounds, nn.tensor_type(i1, []))
        call.step.elements.require(ordered, "range")
    if (low, high) != (0.0, 1.0):
        least, most = number(call, low, kind.element_type), number(call, high, kind.element_type)
        span = call.elementwise("sub", [most, least], nn.tensor_type(kind.element_type, []))
        share = call.elementwise("mul", [share, span], kind)
        share = call.elementwise("add", [share, least], kind)
    return [call.convert(call.reshape(share, result.dims), call.type)]


def _mixed(call: Call, z: SSAValue) -> SSAValue:
    """The mixing function on u64 of any shape."""
    z = _reinterpreted(call, z)
    kind = _like(z, "u64")
    for shift, factor in STEPS:
        z = call.elementwise("xor", [z, call.elementwise("shr", [z], kind, bits=shift)], kind)
        if factor is not None:
            z = call.elementwise("mul", [z, number(call, factor, kind.element_type)], kind)
    return z


def _reinterpreted(call: Call, z: SSAValue) -> SSAValue:
    """The bits of a 64-bit integer as u64."""
    if dtype_of(z) == "u64":
        return z
    return call.elementwise("cast", [z], _like(z, "u64"), saturate=False)


# Multinomial --------------------------------------------------------------------------------------


@op_rule("multinomial", scalars=("seed",))
def _multinomial(call: Call) -> Sequence[SSAValue]:
    """How many sums of weights are at most the threshold: the place of the first larger one."""
    (p,) = call.operands
    dims, samples = nn.dims_of(p), call.results[0].dims[-1]
    rows, choices = product(dims[:-1]), dims[-1]
    call.require(_ONE, choices)
    call.require(choices, Size.of(MOST_CHOICES))
    weights = _weights(call, call.reshape(p, (rows, choices)))
    sums = call.add(
        nn.CumsumOp, [weights], nn.tensor_type(i64, (rows, choices)), axis=nn.int_setting(1)
    )
    column = nn.tensor_type(i64, (rows, _ONE))
    axes = nn.ints_setting([1])
    total = call.add(
        nn.ReduceOp, [weights], column, kind=StringAttr("sum"), axes=axes, keepdims=UnitAttr()
    )
    numbers = call.reshape(_outputs(call, rows * samples), (rows, samples))
    threshold = _part_of(call, numbers, total)
    passed = call.elementwise(
        "le",
        [
            call.reshape(sums, (rows, _ONE, choices)),
            call.reshape(threshold, (rows, samples, _ONE)),
        ],
        nn.tensor_type(i1, (rows, samples, choices)),
    )
    counted = call.convert(passed, nn.tensor_type(i32, (rows, samples, choices)))
    place = call.add(
        nn.ReduceOp,
        [counted],
        nn.tensor_type(i32, (rows, samples)),
        kind=StringAttr("sum"),
        axes=nn.ints_setting([2]),
    )
    place = widened(call, place, "i64")
    some = call.elementwise("gt", [total, number(call, 0, i64)], nn.tensor_type(i1, (rows, _ONE)))
    place = call.elementwise("where", [some, place, number(call, -1, i64)], _like(place, "i64"))
    return [call.reshape(place, call.results[0].dims)]


def _weights(call: Call, p: SSAValue) -> SSAValue:
    """Rows of probabilities as integers, the largest one of each as 2**WEIGHT_BITS."""
    dtype = computed(dtype_of(p))
    p = widened(call, p, dtype)
    kind, element = _like(p, dtype), nn.element_of(p)
    rows = nn.dims_of(p)[0]
    zero, one = number(call, 0.0, element), number(call, 1.0, element)
    counts = call.elementwise("gt", [p, zero], nn.with_element(kind, i1))
    p = call.elementwise("where", [counts, p, zero], kind)
    top = call.add(
        nn.ReduceOp,
        [p],
        nn.tensor_type(element, (rows, _ONE)),
        kind=StringAttr("max"),
        axes=nn.ints_setting([1]),
        keepdims=UnitAttr(),
    )
    # Infinity divided by itself is no share.
    largest = call.elementwise("eq", [p, top], nn.with_element(kind, i1))
    share = call.elementwise("div", [p, top], kind)
    share = call.elementwise("where", [largest, one, share], kind)
    share = call.elementwise("where", [counts, share, zero], kind)
    scaled = call.elementwise("mul", [share, number(call, 2.0**WEIGHT_BITS, element)], kind)
    return widened(call, scaled, "i64")


def _part_of(call: Call, numbers: SSAValue, total: SSAValue) -> SSAValue:
    """`floor(number * total / 2**64)` of u64 and i64 that are not negative, from products of halves."""
    kind = _like(numbers, "u64")
    total = _reinterpreted(call, total)
    low = number(call, 2**_HALF - 1, kind.element_type)

    def do(name: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return call.elementwise(name, [a, b], kind if a.type == kind else _like(a, "u64"))

    def upper(value: SSAValue) -> SSAValue:
        return call.elementwise("shr", [value], _like(value, "u64"), bits=_HALF)

    a_low, a_high = do("and", numbers, low), upper(numbers)
    b_low, b_high = do("and", total, low), upper(total)
    # No sum overflows: a product of halves leaves room for two more halves.
    middle = do("add", do("mul", a_high, b_low), upper(do("mul", a_low, b_low)))
    other = do("add", do("mul", a_low, b_high), do("and", middle, low))
    part = do("add", do("mul", a_high, b_high), upper(middle))
    part = do("add", part, upper(other))
    return call.elementwise("cast", [part], _like(part, "i64"), saturate=False)
