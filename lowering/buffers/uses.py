"""Who touches a buffer, when, and in which memory: uses through views, positions in a block."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import byte_size
from openinfer.lowering.places import DEVICE, HOST, MEMORY, on_host
from openinfer.lowering.step_arguments import slot_of
from openinfer.runtime.sizes import Size
from openinfer.runtime.slots import ON_DEVICE

VIEWS = (nn.ViewOp, nn.SubviewOp, memref.ViewOp)
SAME_MEMORY = (
    *VIEWS,
    memref.CollapseShapeOp,
    memref.ExpandShapeOp,
    memref.CastOp,
    memref.ReinterpretCastOp,
)


def root_of(buffer: SSAValue) -> SSAValue:
    """The buffer that a chain of views looks at."""
    while isinstance(buffer.owner, VIEWS):
        buffer = buffer.owner.source
    return buffer


def users(buffer: SSAValue) -> Iterator[Operation]:
    """Every operation that reads or writes a buffer, directly or through views."""
    for use in buffer.uses:
        if isinstance(use.operation, VIEWS):
            yield from users(use.operation.results[0])
        else:
            yield use.operation


def ancestor_in(op: Operation, block: Block) -> Operation | None:
    """The operation of `block` that is `op` or holds it, if any."""
    current: Operation | None = op
    while current is not None and current.parent_block() is not block:
        current = current.parent_op()
    return current


def positions(block: Block) -> dict[Operation, int]:
    """The place of each operation in its block."""
    return {op: i for i, op in enumerate(block.ops)}


def memory_of(buffer: SSAValue) -> str:
    """The memory that a buffer of `@step` is in, before `plan-memory` and behind it: HOST or DEVICE."""
    while isinstance(buffer.owner, SAME_MEMORY):
        buffer = buffer.owner.operands[0]
    if isinstance(buffer, BlockArgument):
        step = buffer.owner.parent_op()
        slot = slot_of(buffer) if isinstance(step, FuncOp) else None
        return DEVICE if slot is not None and slot.kind in ON_DEVICE else HOST
    owner = buffer.owner
    assert isinstance(owner, Operation)
    return DEVICE if MEMORY in owner.attributes else HOST


def machine_of(op: Operation) -> str:
    """Who runs an op of `@step`: HOST or DEVICE. What moves a state of the device is the device's."""
    if isinstance(op, CallOp):
        return HOST if on_host(op) else DEVICE
    if isinstance(op, nn.StateLoadOp | nn.StateWriteOp | nn.StateResetOp | nn.CommitOp):
        return DEVICE if MEMORY in op.attributes else HOST
    return HOST


def bytes_of(buffer: SSAValue) -> Size:
    """The bytes of a buffer whose run-time sizes are `nn.size` ops."""
    kind = buffer.type
    assert isinstance(kind, MemRefType)
    owner = buffer.owner
    sizes = (
        owner.dynamic_sizes
        if isinstance(owner, memref.AllocOp)
        else owner.sizes
        if isinstance(owner, nn.ViewOp | memref.ViewOp | nn.StateViewOp | nn.StatePlaceOp)
        else ()
    )
    known = iter([value.owner for value in sizes])
    dims: list[Size] = []
    for extent in kind.get_shape():
        if extent != DYNAMIC_INDEX:
            dims.append(Size.of(extent))
            continue
        size = next(known)
        assert isinstance(size, nn.SizeOp)
        dims.append(size.size.data)
    return byte_size(kind.element_type, dims)


def captured(op: Operation) -> list[SSAValue]:
    """Values from outside that the op's body uses."""
    inside = {v for o in op.walk() for v in o.results}
    inside |= {a for o in op.walk() for r in o.regions for b in r.blocks for a in b.args}
    found: dict[SSAValue, None] = {}
    for o in op.walk():
        if o is not op:
            found.update({v: None for v in o.operands if v not in inside})
    return list(found)
