"""Copies and fills of device memory become kernels, as all else that happens there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import AffineMapAttr, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.lowering.buffers.outline_kernels import outline
from openinfer.lowering.buffers.uses import memory_of
from openinfer.lowering.linalg.generic import PARALLEL, identity_map
from openinfer.lowering.locations import give_location
from openinfer.lowering.places import DEVICE

COPY, FILL = "copy_box", "fill_box"
"""What the names of these kernels begin with."""


@dataclass(frozen=True)
class OutlineMoves(ModulePass):
    """Moves copies within the device's memory, guarded ones too, and fills of it, into functions that the
    device runs.

    Before:
        memref.copy %v, %place : memref<?x8xf32> to memref<?x8xf32>
    After:
        func.call @copy_box_0(%v, %place) : (memref<?x8xf32>, memref<?x8xf32>) -> ()

    So a step whose places differ from those of the last one differs in numbers of kernels, and not in
    commands.

    Requires: `lower-state`, which makes most of them.
    Leaves: copies in the memory of the host, and those of parts that are cut out of a buffer.
    """

    name: ClassVar[str] = "outline-moves"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels: dict[str, str] = {}
        for function in list(op.body.ops):
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                for inner in list(function.walk()):
                    if isinstance(inner, memref.CopyOp) and _is_copied_there(inner):
                        outline(op, _as_kernel(inner), COPY, kernels)
                    elif isinstance(inner, linalg.GenericOp):
                        outline(op, inner, COPY, kernels)
                    elif isinstance(inner, linalg.FillOp):
                        outline(op, inner, FILL, kernels)


def _is_copied_there(op: memref.CopyOp) -> bool:
    source, target = op.source, op.destination
    there = memory_of(source) == DEVICE and memory_of(target) == DEVICE
    return there and source.type == target.type


def _as_kernel(op: memref.CopyOp) -> Operation:
    """The op whose kernel copies, in place of the copy."""
    kind = op.source.type
    assert isinstance(kind, MemRefType)
    rank = kind.get_num_dims()
    block = Block(arg_types=[kind.element_type] * 2)
    block.add_op(linalg.YieldOp(block.args[0]))
    identity = AffineMapAttr(identity_map(rank))
    kernel = linalg.GenericOp(
        [op.source],
        [op.destination],
        Region(block),
        [identity, identity],
        [PARALLEL] * rank,
        [],
    )
    give_location(op.location, kernel)
    Rewriter.replace_op(op, [kernel], [])
    return kernel
