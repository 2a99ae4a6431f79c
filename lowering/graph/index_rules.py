"""Rules of the ops that choose, order or count along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, TensorType, UnitAttr, i1, i64
from xdsl.ir import SSAValue

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import element_type
from openinfer.dialects.ops.base import accumulation, normal_axis
from openinfer.lowering.graph.op_rules import Call, op_rule
from openinfer.lowering.graph.scalars import (
    computed,
    dtype_of,
    narrowed,
    number,
    stored,
    widened,
)
from openinfer.runtime.sizes import Size


def _flag(value: object) -> UnitAttr | None:
    return UnitAttr() if value else None


@op_rule("scatter")
def _scatter(call: Call) -> Sequence[SSAValue]:
    x, indices, updates = call.operands
    mode = str(call.settings["mode"])
    dtype = dtype_of(x)
    inner = stored(dtype) if mode == "set" else computed(dtype)
    x, updates = widened(call, x, inner), widened(call, updates, inner)
    indices = widened(call, indices, stored(dtype_of(indices)))
    dims = nn.dims_of(x)
    axis = normal_axis(call.settings["axis"], len(dims))
    wanted = (*dims[:axis], *nn.dims_of(indices), *dims[axis + 1 :])
    if nn.dims_of(updates) != wanted:
        kind = nn.tensor_type(nn.element_of(updates), wanted)
        updates = call.add(nn.BroadcastOp, [updates], kind)
    kind = x.type
    assert isinstance(kind, TensorType)
    value = call.add(
        nn.ScatterOp,
        [x, indices, updates],
        kind,
        axis=nn.int_setting(axis),
        mode=StringAttr(mode),
        node=nn.int_setting(call.step.builder.node),
    )
    return [narrowed(call, value, call.type)]


@op_rule("sort", "topk")
def _sort(call: Call) -> Sequence[SSAValue]:
    (x,) = call.operands
    axis = normal_axis(call.settings["axis"], len(nn.dims_of(x)))
    downwards = call.settings["largest" if call.spec.name == "topk" else "descending"]
    dims = call.inferred[0].dims
    call.require(dims[axis], nn.dims_of(x)[axis])
    x = widened(call, x, stored(dtype_of(x)))
    sort = nn.SortOp(
        [x],
        [nn.tensor_type(nn.element_of(x), dims), nn.tensor_type(i64, dims)],
        properties={"axis": nn.int_setting(axis), "descending": _flag(downwards)},
    )
    call.step.builder.add(sort)
    values = narrowed(call, sort.result[0], call.type)
    return [values, sort.result[1]][: len(call.results)]


@op_rule("argsort")
def _argsort(call: Call) -> Sequence[SSAValue]:
    (x,) = call.operands
    x = widened(call, x, stored(dtype_of(x)))
    dims = nn.dims_of(x)
    sort = nn.SortOp(
        [x],
        [nn.tensor_type(nn.element_of(x), dims), nn.tensor_type(i64, dims)],
        properties={
            "axis": nn.int_setting(normal_axis(call.settings["axis"], len(dims))),
            "descending": _flag(call.settings["descending"]),
        },
    )
    call.step.builder.add(sort)
    return [sort.result[1]]


@op_rule("cumsum", "cumprod")
def _cumsum(call: Call) -> Sequence[SSAValue]:
    (x,) = call.operands
    settings = call.settings
    inner, _ = accumulation(dtype_of(x), settings["acc"])
    x = widened(call, x, computed(inner))
    kind = x.type
    assert isinstance(kind, TensorType)
    value = call.add(
        nn.CumsumOp,
        [x],
        kind,
        axis=nn.int_setting(normal_axis(settings["axis"], len(nn.dims_of(x)))),
        exclusive=_flag(settings["exclusive"]),
        reverse=_flag(settings["reverse"]),
        product=_flag(call.spec.name == "cumprod"),
    )
    return [narrowed(call, value, call.type)]


@op_rule("one_hot", scalars=("on_value", "off_value"))
def _one_hot(call: Call) -> Sequence[SSAValue]:
    """Whether the position is the index; that the index exists is checked by a gather of itself."""
    (indices,) = call.operands
    dims = call.inferred[0].dims
    axis = normal_axis(call.settings["axis"], len(dims))
    depth = dims[axis]
    call.require(Size.of(1), depth)
    indices = widened(call, indices, stored(dtype_of(indices)))
    places = call.add(nn.IotaOp, [], nn.tensor_type(i64, [depth]), axis=nn.int_setting(0))
    checked = call.add(
        nn.GatherOp,
        [places, indices],
        nn.tensor_type(i64, nn.dims_of(indices)),
        axis=nn.int_setting(0),
        node=nn.int_setting(call.step.builder.node),
    )
    checked = call.reshape(checked, (*dims[:axis], Size.of(1), *dims[axis + 1 :]))
    along = call.reshape(places, (depth, *(Size.of(1) for _ in dims[axis + 1 :])))
    here = call.elementwise("eq", [checked, along], nn.tensor_type(i1, dims))
    # The numbers are rounded to the dtype of the result, and then only moved.
    element = element_type(stored(call.results[0].dtype))
    on, off = (number(call, call.settings[name], element) for name in ("on_value", "off_value"))
    value = call.elementwise("where", [here, on, off], nn.tensor_type(element, dims))
    return [narrowed(call, value, call.type)]
