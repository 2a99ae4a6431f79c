"""Buffers of persistent values: views of their memory, copies of it, and what a step commits."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    MemRefType,
    TensorType,
)
from xdsl.ir import Operation, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import whole_bytes
from openinfer.lowering.buffers.bufferizer import (
    Bufferizer,
    Rule,
    buffer_type,
    root_of,
)
from openinfer.lowering.interface import strings


def keep_states(b: Bufferizer) -> None:
    """Persistent values take what was committed, all at once and after all results."""
    commits = _commits(b)
    held = strings(b.module, "held")
    inputs = len(strings(b.module, "inputs"))
    own = {name: b.buffers_of_arguments[inputs + i] for i, name in enumerate(held)}
    saved: list[tuple[SSAValue, str]] = []
    for source, name in commits:
        root = root_of(source)
        if root in own.values() and root is not own[name]:
            kind = source.type
            assert isinstance(kind, MemRefType)
            copy = b.allocate(kind.element_type, b.dims[source], "saved")
            b.copy(source, copy)
            source = copy
        saved.append((source, name))
    for source, name in saved:
        b.insert(nn.CommitOp(source, name))


def _commit(b: Bufferizer, op: Operation) -> None:
    """Collected until the end: what is committed may be read until then."""
    b.retire(op)


def _commits(b: Bufferizer) -> list[tuple[SSAValue, str]]:
    return [
        (b.buffer(op.value), op.state.data)
        for op in b.function.walk()
        if isinstance(op, nn.CommitOp) and isinstance(op.value.type, TensorType)
    ]


def _state_read(b: Bufferizer, op: Operation) -> None:
    """A view of the state's own memory where the part lies together and stays as it is; a copy else."""
    assert isinstance(op, nn.StateReadOp)
    kept = list(op.kept.get_values())
    offsets = list(op.offsets)
    dims = nn.dims_of(op.value)
    element = buffer_type(op.value).element_type
    together = not kept or (kept == [len(offsets) - 1] and whole_bytes(element, dims[1:]))
    if together and not _changes_meanwhile(op):
        kind = buffer_type(op.value)
        view = b.value(nn.StateViewOp(op.state.data, offsets, b.extents(dims), kind))
        view.name_hint = op.value.name_hint
        b.define(op.value, view)
    else:
        target = b.allocate_for(op.value)
        b.insert(nn.StateLoadOp(op.state.data, offsets, kept, target))
        b.define(op.value, target)
    b.retire(op)


_SAME_BUFFER = (nn.CastDimsOp, nn.LoosenOp, nn.SettleOp, nn.ReshapeOp)
"""What gives another type to a buffer."""


def _changes_meanwhile(op: nn.StateReadOp) -> bool:
    """Whether a state may be written between a read and the last use of what was read."""
    block = op.parent_block()
    assert block is not None
    order = {inner: i for i, inner in enumerate(block.ops)}
    last = -1
    pending: list[SSAValue] = [op.value]
    while pending:
        for use in pending.pop().uses:
            holder: Operation | None = use.operation
            while holder is not None and holder.parent_block() is not block:
                holder = holder.parent_op()
            if holder is None:
                return True
            last = max(last, order[holder])
            # The same buffer under another type, or handed on as what a body gives.
            if isinstance(use.operation, _SAME_BUFFER):
                pending.append(use.operation.results[0])
    for holder in list(block.ops)[order[op] + 1 : last + 1]:
        for inner in holder.walk():
            if isinstance(inner, nn.StateWriteOp | nn.StateResetOp):
                if inner.state.data == op.state.data:
                    return True
    return False


def _state_write(b: Bufferizer, op: Operation) -> None:
    assert isinstance(op, nn.StateWriteOp)
    kept = list(op.kept.get_values())
    node = op.node.value.data
    b.insert(nn.StateWriteOp(b.buffer(op.value), op.state.data, list(op.offsets), kept, node))
    b.retire(op)


RULES: dict[type[Operation], Rule] = {
    nn.CommitOp: _commit,
    nn.StateReadOp: _state_read,
    nn.StateWriteOp: _state_write,
}
