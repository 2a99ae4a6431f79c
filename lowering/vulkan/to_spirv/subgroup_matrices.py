"""Matrices that a subgroup holds, in SPIR-V (`SPV_KHR_cooperative_matrix`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from openinfer.dialects.extensions.gpu import (
    TOGETHER,
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
    SubgroupMmaElementwiseOp,
    SubgroupMmaLoadMatrixOp,
    SubgroupMmaStoreMatrixOp,
)
from openinfer.dialects.spirv.composite_ops import CompositeConstructOp
from openinfer.dialects.spirv.enums import MemoryAccessAttr
from openinfer.dialects.spirv.value_ops import VALUE_OPS
from openinfer.lowering.vulkan.to_spirv.kernel_module import KernelModule, lowered_type
from openinfer.lowering.vulkan.to_spirv.value_conversions import Values

OF_MATRICES = (
    SubgroupMmaLoadMatrixOp,
    SubgroupMmaStoreMatrixOp,
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
    SubgroupMmaElementwiseOp,
)
_ELEMENTWISE = {"addf": "FAdd", "mulf": "FMul", "subf": "FSub"}


class Body(Protocol):
    """What is asked of the code that is being built."""

    kernel: KernelModule
    block: Block
    values: dict[SSAValue, SSAValue]
    arithmetic: Values

    def put(self, op: Operation) -> SSAValue: ...
    def access(self, memory: SSAValue) -> str | None: ...
    def element(self, memory: SSAValue, indices: Sequence[SSAValue]) -> SSAValue: ...
    def address_of(
        self, memory: SSAValue, indices: Sequence[SSAValue], count: int
    ) -> tuple[SSAValue, int]: ...


def build_matrices(body: Body, op: Operation) -> None:
    """One of `OF_MATRICES`, where the kernel is being built."""
    if isinstance(op, SubgroupMmaLoadMatrixOp):
        pointer, lead = _matrix_place(body, op)
        stride = body.kernel.number(lead)
        layout = "RowMajor" if op.transpose is None else "ColumnMajor"
        load, kind = VALUE_OPS["KHR.CooperativeMatrixLoad"], lowered_type(op.result.type)
        loaded = load.make(pointer, stride, result=kind, matrix_layout=layout)
        body.values[op.result] = body.put(_accessed(body, loaded, op.source))
    elif isinstance(op, SubgroupMmaStoreMatrixOp):
        pointer = body.element(op.target, op.indices)
        stride = body.kernel.number(op.lead_dimension.value.data)
        store = VALUE_OPS["KHR.CooperativeMatrixStore"]
        stored = store.make(pointer, body.values[op.value], stride, matrix_layout="RowMajor")
        body.block.add_op(_accessed(body, stored, op.target))
    elif isinstance(op, SubgroupMmaComputeOp):
        operands = [body.values[value] for value in op.operands]
        kind = lowered_type(op.result.type)
        multiply = VALUE_OPS["KHR.CooperativeMatrixMulAdd"]
        body.values[op.result] = body.put(multiply.make(*operands, result=kind))
    elif isinstance(op, SubgroupMmaConstantMatrixOp):
        kind = lowered_type(op.result.type)
        body.values[op.result] = body.put(CompositeConstructOp([body.values[op.value]], kind))
    elif isinstance(op, SubgroupMmaElementwiseOp):
        operands = [body.values[value] for value in op.operands]
        body.values[op.result] = body.arithmetic.op(_ELEMENTWISE[op.kind.data], *operands)


def _matrix_place(body: Body, op: SubgroupMmaLoadMatrixOp) -> tuple[SSAValue, int]:
    """Where a matrix begins, and what lies from one row to the next, in elements or in accesses."""
    lead, together = op.lead_dimension.value.data, op.attributes.get(TOGETHER)
    if not isinstance(together, IntegerAttr):
        return body.element(op.source, op.indices), lead
    count = together.value.data
    address, _ = body.address_of(op.source, op.indices, count)
    return address, lead // count


def _accessed(body: Body, op: Operation, memory: SSAValue) -> Operation:
    """A load or store of a matrix, which says how memory is accessed."""
    access = body.access(memory)
    if access is not None:
        op.properties["memory_operand"] = MemoryAccessAttr.of(access)
    return op
