"""Buffers that loops, branches, sections and functions hand values on in."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import memref, scf, tensor
from xdsl.dialects.builtin import (
    MemRefType,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.lowering.buffers.bufferize_states import keep_states
from openinfer.lowering.buffers.bufferizer import (
    Bufferizer,
    Rule,
    buffer_type,
    root_of,
)


def _loop(b: Bufferizer, op: Operation) -> None:
    """Carried tensors live in buffers made before the loop; each iteration ends by filling them."""
    assert isinstance(op, scf.ForOp)
    carried: list[SSAValue] = []
    for initial, argument in zip(op.iter_args, op.body.block.args[1:]):
        target = b.allocate_for(argument)
        _hand_on(b, initial, b.buffer(initial), target)
        carried.append(target)
        b.define(argument, target)
    body = op.body.block
    b.block(body)
    b.current = body.last_op
    assert isinstance(b.current, scf.YieldOp)
    _assign_together(b, list(b.current.operands), carried)
    Rewriter.replace_op(b.current, [scf.YieldOp()], [])
    b.current = op
    for result, buffer in zip(op.res, carried):
        b.define(result, buffer)
    region = op.body
    op.detach_region(region)
    new = scf.ForOp(op.lb, op.ub, op.step, [], region)
    b.insert(new)
    # Erased last: the ops inside that use the old arguments are retired, not gone yet.
    for argument in list(body.args[1:]):
        placeholder = tensor.EmptyOp([], TensorType(i64, []))
        b.insert(placeholder)
        argument.replace_all_uses_with(placeholder.tensor)
        b.dead.insert(0, placeholder)
        body.erase_arg(argument)
    b.retire(op)


def _assign_together(
    b: Bufferizer, values: Sequence[SSAValue], targets: Sequence[SSAValue]
) -> None:
    """All targets take their values at once: a value that lies in another target is saved."""
    saved: list[SSAValue] = []
    for value, own in zip(values, targets):
        source = b.buffer(value)
        root = root_of(source)
        if root in targets and root is not own:
            element = source.type
            assert isinstance(element, MemRefType)
            copy = b.allocate(element.element_type, b.dims[source], "saved")
            b.copy(source, copy)
            saved.append(copy)
        else:
            saved.append(source)
    for value, source, target in zip(values, saved, targets):
        # A view of the target holds the value already.
        if root_of(source) is not target:
            _hand_on(b, value, source, target)


def _hand_on(b: Bufferizer, value: SSAValue, source: SSAValue, target: SSAValue) -> None:
    """Copies a value to where it is handed on; a loosened one keeps its own shape there."""
    if isinstance(value.owner, nn.LoosenOp):
        kind = source.type
        assert isinstance(kind, MemRefType)
        target = b.value(nn.ViewOp(target, b.extents(b.dims[source]), kind))
    b.copy(source, target)


def _branch(b: Bufferizer, op: Operation) -> None:
    """Both sides write into buffers made before the branch."""
    assert isinstance(op, scf.IfOp)
    targets = [b.allocate_for(result) for result in op.output]
    regions: list[Region] = []
    for region in (op.true_region, op.false_region):
        if region.blocks:
            block = region.block
            b.block(block)
            b.current = block.last_op
            if isinstance(b.current, scf.YieldOp):
                for value, target in zip(b.current.operands, targets):
                    _hand_on(b, value, b.buffer(value), target)
                Rewriter.replace_op(b.current, [scf.YieldOp()], [])
            b.current = op
        regions.append(region)
    for result, target in zip(op.output, targets):
        b.define(result, target)
    condition = op.cond
    for region in regions:
        op.detach_region(region)
    b.insert(scf.IfOp(condition, [], regions[0], regions[1]))
    b.retire(op)


_STATE_CHANGES = (nn.GrowOp, nn.SetExtentOp, nn.StateWriteOp, nn.StateResetOp)


def _sections(b: Bufferizer, op: Operation) -> None:
    """Each section fills buffers made before all of them."""
    assert isinstance(op, nn.SectionsOp)
    targets = [b.allocate_for(result) for result in op.values]
    rest = list(targets)
    for region in op.bodies:
        b.block(region.block)
        end = b.current = region.block.last_op
        assert isinstance(end, nn.EndSectionOp)
        for value in end.operands:
            b.copy(b.buffer(value), rest.pop(0))
        Rewriter.replace_op(end, [nn.EndSectionOp()], [])
    b.current = op
    for result, target in zip(op.values, targets):
        b.define(result, target)
    regions = list(op.bodies)
    for region in regions:
        op.detach_region(region)
    made = nn.SectionsOp([n.data for n in op.names], regions, [])
    if any(isinstance(o, _STATE_CHANGES) for o in made.walk()):
        # They share the undo log, and extents may grow by reading.
        made.serial = UnitAttr()
    b.insert(made)
    b.retire(op)


def _return(b: Bufferizer, op: Operation) -> None:
    assert isinstance(op, ReturnOp)
    step = b.function.sym_name.data == "step"
    published: set[SSAValue] = set()
    for number, value in enumerate(op.arguments):
        source = b.buffer(value)
        root = root_of(source)
        if not step:
            _fill_argument(b, value, source)
            continue
        if not isinstance(root.owner, memref.AllocOp) or root in published:
            # An input, a weight or another result's buffer: the caller gets a copy of its own.
            copy = b.allocate_for(value)
            b.copy(source, copy)
            source = root = copy
        published.add(root)
        b.insert(nn.PublishOp(source, b.outputs[number]))
    if step:
        keep_states(b)
    b.insert(ReturnOp())
    b.retire(op)


def _fill_argument(b: Bufferizer, value: SSAValue, source: SSAValue) -> None:
    """What a prepare function returns is computed where its caller wants it: nothing plans the
    memory of such a function."""
    block = b.function.body.block
    target = block.insert_arg(buffer_type(value), len(block.args))
    target.name_hint = "result"
    made = source.owner
    if isinstance(made, memref.AllocOp) and made.parent_block() is block:
        source.replace_all_uses_with(target)
        b.buffers[value] = target
        made.detach()
        made.erase()
    else:
        b.copy(source, target)


RULES: dict[type[Operation], Rule] = {
    scf.ForOp: _loop,
    scf.IfOp: _branch,
    nn.SectionsOp: _sections,
    ReturnOp: _return,
}
