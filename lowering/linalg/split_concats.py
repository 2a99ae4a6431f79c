"""Joins of more values than a kernel of the machine may have buffers for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.locations import give_location
from openinfer.lowering.operations import operations
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class SplitConcats(ModulePass):
    """Joins neighbours first where there are more values than a kernel may have buffers for.

    Before:
        %y = nn.concat(%a, …, %z, %extra) {axis = 0 : i64} : …   // 30 values; a kernel has 29 buffers
    After:
        %0 = nn.concat(%a, …) {axis = 0 : i64} : …               // 28 of them
        %1 = nn.concat(…, %extra) {axis = 0 : i64} : …           // the other 2
        %y = nn.concat(%0, %1) {axis = 0 : i64} : …

    `Demands.most_buffers` says how many a kernel may have. Every element is copied once more for each level.

    Requires: before `choose-places`, which leaves to the host what has too many buffers.
    Leaves: joins of fewer values, and all of a machine without such a limit; values that come several times
        count once.
    """

    name: ClassVar[str] = "split-concats"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        most = demands_of(op).most_buffers
        if most is None:
            return
        for found in operations(op.body):
            if isinstance(found, nn.ConcatOp) and len(set(found.inputs)) >= most:
                _split(found, most - 1)


def _split(op: nn.ConcatOp, most: int) -> None:
    """Joins up to `most` neighbours at a time, until there are no more than that."""
    inputs = list(op.inputs)
    while len(inputs) > most:
        groups = [inputs[start : start + most] for start in range(0, len(inputs), most)]
        inputs = [_joined(op, group) for group in groups]
    last = _inserted(op, inputs, op.output.type)
    last.name_hint = op.output.name_hint
    Rewriter.replace_op(op, [], [last])


def _joined(op: nn.ConcatOp, values: Sequence[SSAValue]) -> SSAValue:
    """Some neighbours of a join as one value."""
    if len(values) == 1:
        return values[0]
    dims = [nn.dims_of(value) for value in values]
    axis = op.axis.value.data % len(dims[0])
    extent = sum((one[axis] for one in dims), Size.of(0))
    shape = (*dims[0][:axis], extent, *dims[0][axis + 1 :])
    return _inserted(op, values, nn.tensor_type(nn.element_of(op.output), shape))


def _inserted(op: nn.ConcatOp, values: Sequence[SSAValue], kind: Attribute) -> SSAValue:
    """A join in front of another one, of the same node."""
    part = nn.ConcatOp(values, [kind], properties=op.own_properties)
    part.attributes.update(op.attributes)
    give_location(op.location, part)
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(part, op)
    return part.result[0]
