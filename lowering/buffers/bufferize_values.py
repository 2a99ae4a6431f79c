"""Buffers of what operations compute, of members of families, and of one value under another type."""

from __future__ import annotations

from xdsl.dialects import arith, memref, tensor
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import SizeAttr
from openinfer.lowering.buffers.bufferizer import (
    Bufferizer,
    Rule,
    buffer_type,
    byte_size_of,
    kept_attributes,
)
from openinfer.lowering.demands import demands_of
from openinfer.lowering.places import keep_place, to_host

_Indexed = nn.GatherOp | nn.ScatterOp | nn.ElementIndexOp
"""Ops that check indices, their second operand."""


def _destination(b: Bufferizer, op: Operation) -> None:
    """An `nn` op writes into new buffers, and gets its scratch."""
    assert isinstance(op, nn.NNOp)
    inputs = [b.buffer(v) for v in op.inputs]
    outs = [b.allocate_for(v) for v in op.result]
    for old, new in zip(op.result, outs):
        b.buffers[old] = new
    scratch: dict[str, SSAValue] = {}
    for row in demands_of(op).scratch(op):
        scratch[row.name] = b.allocate(row.element, row.dims, "scratch")
    if isinstance(op, _Indexed) and b.errors is not None:
        if demands_of(op).own_memory:
            _check_on_host(b, op, b.errors)
        else:
            scratch["errors"] = b.errors
    extras = [b.buffer(v) for v in op.extras]
    bodies = list(op.body)
    for body in bodies:
        op.detach_region(body)
    new_op = type(op)(inputs, [], outs, op.own_properties, bodies, scratch, extras)
    new_op.attributes.update(kept_attributes(op))
    b.insert(new_op)
    b.retire(op)


def _check_on_host(b: Bufferizer, op: _Indexed, errors: SSAValue) -> None:
    """The host, whose record of errors no device sees, looks at the indices in front of the device's op."""
    bound = nn.dims_of(op.inputs[0])[op.axis.value.data]
    settings = {
        "bound": SizeAttr.of(bound),
        "node": op.node,
        "unsigned_indices": op.unsigned_indices,
    }
    check = nn.CheckIndicesOp([b.buffer(op.inputs[1])], [], [errors], settings)
    check.attributes.update(kept_attributes(op))
    to_host(check)
    b.insert(check)


def _generic(b: Bufferizer, op: Operation) -> None:
    assert isinstance(op, linalg.GenericOp)
    inputs = [b.buffer(v) for v in op.inputs]
    outs = [_initial(b, v) for v in op.outputs]
    region = op.body
    op.detach_region(region)
    new = linalg.GenericOp(
        inputs, outs, region, op.indexing_maps, op.iterator_types, [], op.doc, op.library_call
    )
    new.attributes.update(kept_attributes(op))
    b.insert(new)
    for old, buffer in zip(op.res, outs):
        b.define(old, buffer)
    b.retire(op)


def _initial(b: Bufferizer, value: SSAValue) -> SSAValue:
    """The destination that starts as `value`: its own buffer when nobody else reads it."""
    if isinstance(value.owner, tensor.EmptyOp):
        return b.allocate_for(value)
    source = b.buffer(value)
    owner, user = value.owner, b.current
    assert user is not None
    # In another block, a loop say, the next iteration would start from what this one leaves.
    if value.has_one_use() and isinstance(owner, linalg.FillOp | linalg.GenericOp):
        if owner.parent_block() is user.parent_block():
            return source
    target = b.allocate_for(value)
    b.copy(source, target)
    return target


def _fill(b: Bufferizer, op: Operation) -> None:
    assert isinstance(op, linalg.FillOp)
    target = b.allocate_for(op.res[0])
    new = linalg.FillOp(list(op.inputs), [target], [])
    keep_place(op, new)
    b.insert(new)
    b.define(op.res[0], target)
    b.retire(op)


def _reshape(b: Bufferizer, op: Operation) -> None:
    """The same bytes seen with another shape: flattened, then cut anew."""
    assert isinstance(op, nn.ReshapeOp)
    source = b.buffer(op.inputs[0])
    target = buffer_type(op.result[0])
    sizes = nn.dims_of(op.result[0])
    view = b.value(nn.ViewOp(source, b.extents(sizes), target))
    view.name_hint = op.result[0].name_hint
    b.define(op.result[0], view)
    b.retire(op)


def _member(b: Bufferizer, op: Operation) -> None:
    """A member starts at its number times the size of a member."""
    assert isinstance(op, nn.MemberOp)
    family = b.buffer(op.family)
    extents = [d.evaluate({}) for d in nn.dims_of(op.family)][: len(op.indices)]
    number: SSAValue | None = None
    for index, extent in zip(op.indices, extents):
        if number is None:
            number = index
        else:
            scaled = b.value(arith.MuliOp(number, b.index(extent)))
            number = b.value(arith.AddiOp(scaled, index))
    assert number is not None
    offset = b.value(arith.MuliOp(number, b.index(byte_size_of(op.member))))
    view = b.value(memref.ViewOp(family, offset, [], buffer_type(op.member)))
    view.name_hint = op.member.name_hint
    b.define(op.member, view)
    b.retire(op)


def _extract(b: Bufferizer, op: Operation) -> None:
    assert isinstance(op, tensor.ExtractOp)
    loaded = b.value(memref.LoadOp.get(b.buffer(op.tensor), list(op.indices)))
    op.result.replace_all_uses_with(loaded)
    b.retire(op)


def _observe(b: Bufferizer, op: Operation) -> None:
    assert isinstance(op, nn.ObserveOp)
    b.insert(nn.ObserveOp(b.buffer(op.value), op.node.value.data, op.output.data))
    b.retire(op)


def _keep_value(b: Bufferizer, op: Operation) -> None:
    assert isinstance(op, nn.KeepOp)
    b.insert(nn.KeepOp(b.buffer(op.value)))
    b.retire(op)


def _cast_dims(b: Bufferizer, op: Operation) -> None:
    assert isinstance(op, nn.CastDimsOp)
    source = b.buffer(op.source)
    target = buffer_type(op.result)
    if source.type == target:
        b.buffers[op.result] = source
    else:
        view = b.value(nn.ViewOp(source, b.extents(nn.dims_of(op.result)), target))
        view.name_hint = op.result.name_hint
        b.buffers[op.result] = view
        b.dims[view] = nn.dims_of(op.result)
    b.retire(op)


def _loosen(b: Bufferizer, op: Operation) -> None:
    """The buffer as it is: who takes the value over copies it."""
    assert isinstance(op, nn.LoosenOp)
    b.buffers[op.result] = b.buffer(op.source)
    b.retire(op)


def _settle(b: Bufferizer, op: Operation) -> None:
    """A view with the sizes that hold now."""
    assert isinstance(op, nn.SettleOp)
    sizes = nn.dims_of(op.result)
    view = b.value(nn.ViewOp(b.buffer(op.source), b.extents(sizes), buffer_type(op.result)))
    view.name_hint = op.result.name_hint
    b.define(op.result, view)
    b.retire(op)


def _empty(b: Bufferizer, op: Operation) -> None:
    b.retire(op)


RULES: dict[type[Operation], Rule] = {
    nn.NNOp: _destination,
    linalg.GenericOp: _generic,
    linalg.FillOp: _fill,
    nn.ReshapeOp: _reshape,
    nn.MemberOp: _member,
    nn.ObserveOp: _observe,
    nn.KeepOp: _keep_value,
    nn.CastDimsOp: _cast_dims,
    nn.LoosenOp: _loosen,
    nn.SettleOp: _settle,
    tensor.ExtractOp: _extract,
    tensor.EmptyOp: _empty,
}
