"""Scalar code of a step that the whole team follows: which ops one thread runs for all."""

from __future__ import annotations

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, SSAValue

from openinfer.dialects import nn

_ADDRESSES = (memref.ViewOp, memref.CollapseShapeOp, memref.ExpandShapeOp, nn.SubviewOp)


def is_scalar(op: Operation) -> bool:
    """Whether an op computes numbers from numbers, and nothing else."""
    return op.name.startswith(("arith.", "math."))


def scalar_chunks(block: Block) -> list[list[Operation]]:
    """Loads, what is computed of them, stores, and copies of one element: an entry for each stretch.

    A stretch ends where anything else touches memory, and at a stamp. Every thread computes addresses
    and sizes itself.
    """
    chunks: list[list[Operation]] = []
    current: list[Operation] = []
    loaded: set[SSAValue] = set()
    for op in block.ops:
        if _touches_elements(op) or (is_scalar(op) and not loaded.isdisjoint(op.operands)):
            if not current:
                chunks.append(current)
            current.append(op)
            loaded.update(op.results)
        elif not is_scalar(op) and not isinstance(op, _ADDRESSES):
            current = []
    return chunks


def _touches_elements(op: Operation) -> bool:
    if isinstance(op, memref.CopyOp):
        kind = op.source.type
        return isinstance(kind, MemRefType) and not kind.get_shape()
    return isinstance(op, memref.LoadOp | memref.StoreOp)


def is_closed(chunk: list[Operation]) -> bool:
    """Whether nothing outside of a chunk needs a value of it."""
    inside = set(chunk)
    return all(use.operation in inside for op in chunk for v in op.results for use in v.uses)
