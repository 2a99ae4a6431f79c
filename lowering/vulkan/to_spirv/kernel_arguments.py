"""What a kernel does with its arguments: which buffers it stores into, which extents it is told."""

from __future__ import annotations

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.gpu import SubgroupMmaStoreMatrixOp
from openinfer.dialects.extensions.gpu_tensors import TensorStoreOp


def is_written(buffer: SSAValue) -> bool:
    """Whether a kernel stores into a buffer, directly or through views."""
    for use in buffer.uses:
        op = use.operation
        if isinstance(op, memref.StoreOp):
            if op.memref is buffer:
                return True
        elif isinstance(op, vector.StoreOp):
            if op.base is buffer:
                return True
        elif isinstance(op, TensorStoreOp):
            if op.target is buffer:
                return True
        elif isinstance(op, memref.AtomicRMWOp):
            return True
        elif isinstance(op, SubgroupMmaStoreMatrixOp):
            return True
        elif op.results and isinstance(op.results[0].type, MemRefType):
            if is_written(op.results[0]):
                return True
    return False


def open_dims(type_: MemRefType) -> list[int]:
    """The axes of a buffer whose extents the host passes."""
    return [axis for axis, extent in enumerate(type_.get_shape()) if extent == DYNAMIC_INDEX]
