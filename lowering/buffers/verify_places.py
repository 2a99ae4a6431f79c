"""Every op of a step touches the memory of its own machine only."""

from __future__ import annotations

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects import nn
from openinfer.lowering.buffers.uses import SAME_MEMORY, machine_of, memory_of
from openinfer.lowering.places import DEVICE, HOST

_ANYWHERE = (*SAME_MEMORY, memref.AllocOp, memref.DimOp, nn.KeepOp)
"""Ops that touch no memory."""


def verify_places(step: FuncOp) -> None:
    """Raises VerifyException for an op that would reach into the memory of the other machine.

    It holds from `place-buffers` on, until the calls of device kernels are gone.
    """
    for op in step.walk():
        if isinstance(op, _ANYWHERE):
            continue
        found = [memory_of(value) for value in op.operands if isinstance(value.type, MemRefType)]
        if found and found != (wanted := _wanted(op, found)):
            raise VerifyException(
                f"'{op.name}' has buffers in the memory of {', '.join(found)}: expected "
                + ", ".join(wanted)
            )


def _wanted(op: Operation, found: list[str]) -> list[str]:
    """The memory that each buffer of an op must be in."""
    if isinstance(op, nn.TransferOp):
        return [HOST, DEVICE] if op.direction.data == "to_device" else [DEVICE, HOST]
    if isinstance(op, memref.CopyOp):
        # Either machine copies in its own memory.
        return [found[0]] * 2
    return [machine_of(op)] * len(found)
