"""Rules of `stack`, `tile`, `roll`, `tril` and `triu`: joins, stretches, gathers and choices."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, i1, i64
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.ops.arrangement import roll_shifts, tile_factors
from openinfer.dialects.ops.base import normal_axis, product
from openinfer.lowering.graph.border_rules import cut
from openinfer.lowering.graph.op_rules import Call, op_rule
from openinfer.lowering.graph.scalars import Scalar, number
from openinfer.lowering.graph.scope import Scope
from openinfer.runtime.sizes import MAX_SIZE, Size

_ONE = Size.of(1)


@op_rule("stack")
def _stack(call: Call) -> Sequence[SSAValue]:
    dims = call.inferred[0].dims
    axis = normal_axis(call.settings["axis"], len(dims))
    parts = [call.reshape(x, (*dims[:axis], _ONE, *dims[axis + 1 :])) for x in call.operands]
    joined = call.add(nn.ConcatOp, parts, call.own_type, axis=nn.int_setting(axis))
    return [call.convert(joined, call.type)]


@op_rule("tile")
def _tile(call: Call) -> Sequence[SSAValue]:
    """An axis in front of each that repeats, stretched, and both made one."""
    (x,) = call.operands
    before: list[Size] = []
    stretched: list[Size] = []
    for repeats, size in tile_factors(nn.dims_of(x), call.settings):
        call.require(Size.of(0), repeats, "below-zero")
        if repeats.constant != 1:
            before.append(_ONE)
            stretched.append(repeats)
        before.append(size)
        stretched.append(size)
    x = call.reshape(x, before)
    if stretched != before:
        x = call.add(nn.BroadcastOp, [x], nn.tensor_type(nn.element_of(x), stretched))
    return [call.convert(call.reshape(x, call.results[0].dims), call.type)]


@op_rule("roll")
def _roll(call: Call) -> Sequence[SSAValue]:
    (x,) = call.operands
    dims = nn.dims_of(x)
    if call.settings["axes"] is None:
        x = call.reshape(x, (product(dims),))
    for axis, shift in roll_shifts(len(dims), call.settings):
        x = _turned(call, x, axis, shift)
    return [call.convert(call.reshape(x, dims), call.type)]


def _turned(call: Call, x: SSAValue, axis: int, shift: Size) -> SSAValue:
    """x with its last elements of an axis in front of the others."""
    kind, size = x.type, nn.dims_of(x)[axis]
    assert isinstance(kind, TensorType)
    if size.constant in (0, 1):
        return x
    if size.constant is None or shift.constant is None:
        return _gathered(call, x, axis, shift)
    places = shift.constant % size.constant
    if places == 0:
        return x
    behind = cut(call, x, axis, size - places, Size.of(places))
    rest = cut(call, x, axis, Size.of(0), size - places)
    return call.add(nn.ConcatOp, [behind, rest], kind, axis=nn.int_setting(axis))


def _gathered(call: Call, x: SSAValue, axis: int, shift: Size) -> SSAValue:
    """The same where only the step knows how long the axis is, or how far it goes.

    Each place takes the element (place + size - places) mod size, with places = shift mod size.
    """
    kind, size = x.type, nn.dims_of(x)[axis]
    assert isinstance(kind, TensorType)
    one, line = nn.tensor_type(i64, []), nn.tensor_type(i64, [size])

    def known(value: Size) -> SSAValue:
        if value.constant is not None:
            return number(call, value.constant, i64)
        return call.step.builder.add(nn.FromIndexOp(call.step.values.index(value, Scope())))

    extent, turns = known(size), known(shift)
    whole = call.elementwise("floor_div", [turns, extent], one)
    places = call.elementwise("sub", [turns, call.elementwise("mul", [whole, extent], one)], one)
    first = call.elementwise("sub", [extent, places], one)
    found = call.add(nn.IotaOp, [], line, axis=nn.int_setting(0))
    found = call.elementwise("add", [found, first], line)
    beyond = call.elementwise("ge", [found, extent], nn.with_element(line, i1))
    found = call.elementwise(
        "where", [beyond, call.elementwise("sub", [found, extent], line), found], line
    )
    node = nn.int_setting(call.step.builder.node)
    return call.add(nn.GatherOp, [x, found], kind, axis=nn.int_setting(axis), node=node)


@op_rule("tril", "triu", scalars=("diagonal",))
def _triangle(call: Call) -> Sequence[SSAValue]:
    (x,) = call.operands
    kind = x.type
    assert isinstance(kind, TensorType)
    rows, columns = nn.dims_of(x)[-2:]
    row = call.reshape(_places(call, rows), (rows, _ONE))
    last = call.elementwise("add", [row, _diagonal(call)], nn.tensor_type(i64, (rows, _ONE)))
    relation = "le" if call.spec.name == "tril" else "ge"
    flags = nn.tensor_type(i1, (rows, columns))
    stays = call.elementwise(relation, [_places(call, columns), last], flags)
    zero = number(call, 0, kind.element_type)
    return [call.convert(call.elementwise("where", [stays, x, zero], kind), call.type)]


def _places(call: Call, count: Size) -> SSAValue:
    return call.add(nn.IotaOp, [], nn.tensor_type(i64, [count]), axis=nn.int_setting(0))


def _diagonal(call: Call) -> SSAValue:
    """The setting, not beyond the largest matrix: sums of it and of places are exact."""
    given = call.settings["diagonal"]
    if isinstance(given, Scalar):
        kind: TensorType[Attribute] = nn.tensor_type(i64, [])
        value = number(call, given, i64)
        return call.elementwise("clamp", [value], kind, min=-MAX_SIZE, max=MAX_SIZE)
    assert isinstance(given, int)
    return number(call, max(-MAX_SIZE, min(MAX_SIZE, given)), i64)
