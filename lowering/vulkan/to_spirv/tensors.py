"""Matrices of a workgroup in SPIR-V: parts of buffers by tensor layouts, functions of elements by functions.

A layout says the extents and strides of a buffer's last two axes, once for each buffer, at the beginning of a
kernel; a slice of it is what one matrix has of them. Batches are in the address.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, Region, SSAValue

from openinfer.dialects.extensions.gpu_matrix_type import MMAMatrixType
from openinfer.dialects.extensions.gpu_tensors import (
    MatrixConvertOp,
    MatrixMapOp,
    MatrixYieldOp,
    TensorLoadOp,
    TensorStoreOp,
)
from openinfer.dialects.spirv.control_flow_ops import ReturnValueOp
from openinfer.dialects.spirv.memory_ops import AccessChainOp
from openinfer.dialects.spirv.structure_ops import SpirvFuncOp
from openinfer.dialects.spirv.tensor_ops import (
    LoadTensorOp,
    PerElementOp,
    SetDimensionOp,
    SetStrideOp,
    SliceOp,
    StoreTensorOp,
)
from openinfer.dialects.spirv.types import TensorLayoutType, TensorViewType
from openinfer.dialects.spirv.value_ops import VALUE_OPS
from openinfer.lowering.vulkan.to_spirv.kernel_module import Buffer, KernelModule, lowered_type
from openinfer.lowering.vulkan.to_spirv.value_conversions import Values

OF_TENSORS = (TensorLoadOp, TensorStoreOp, MatrixConvertOp, MatrixMapOp)


class _Body(Protocol):
    """What is asked of the code that is being built."""

    kernel: KernelModule
    block: Block
    values: dict[SSAValue, SSAValue]
    buffers: dict[SSAValue, Buffer]
    arithmetic: Values

    def put(self, op: Operation) -> SSAValue: ...
    def value(self, number: SSAValue | int) -> SSAValue: ...
    def times(self, a: SSAValue | int, b: SSAValue | int) -> SSAValue | int: ...
    def ops(self, block: Block) -> None: ...
    def inner(self, block: Block) -> _Body: ...


class Tensors:
    """Builds the ops on matrices of a workgroup in one kernel."""

    def __init__(self, body: _Body) -> None:
        self.body, self.kernel = body, body.kernel
        self._layouts: dict[tuple[object, ...], SSAValue] = {}

    def build(self, op: Operation) -> None:
        """One of `OF_TENSORS`, where the kernel is being built."""
        body = self.body
        if isinstance(op, TensorLoadOp):
            body.values[op.result] = self._load(op)
        elif isinstance(op, TensorStoreOp):
            pointer, layout = self._part(op.target, op.indices, op.value.type, op)
            value = body.values[op.value]
            body.block.add_op(StoreTensorOp(pointer, value, layout))
        elif isinstance(op, MatrixConvertOp):
            kind = lowered_type(op.result.type)
            body.values[op.result] = body.arithmetic.op(
                "FConvert", body.values[op.value], result=kind
            )
        elif isinstance(op, MatrixMapOp):
            body.values[op.result] = self._map(op)

    def _load(self, op: TensorLoadOp) -> SSAValue:
        body, kind = self.body, lowered_type(op.result.type)
        pointer, layout = self._part(op.source, op.indices, op.result.type, op)
        # Nothing of it is left: a view leaves nothing out.
        old = body.put(VALUE_OPS["Undef"].make(result=kind))
        view: SSAValue | None = None
        if op.transpose is not None:
            turned = VALUE_OPS["NV.CreateTensorView"].make(result=TensorViewType.of(1, 0))
            view = body.put(turned)
        return body.put(LoadTensorOp(pointer, old, layout, view))

    def _part(
        self,
        memory: SSAValue,
        indices: Sequence[SSAValue],
        matrix: object,
        op: TensorLoadOp | TensorStoreOp,
    ) -> tuple[SSAValue, SSAValue]:
        """The address where a batch of a buffer begins, and the layout of what a matrix has of it."""
        body, buffer = self.body, self.body.buffers[memory]
        assert isinstance(matrix, MMAMatrixType)
        assert buffer.first is not None, "a part of a buffer that the host binds"
        extents: list[int] = [matrix.rows.data, matrix.columns.data]
        repeated = isinstance(op, TensorLoadOp) and op.repeated is not None
        if isinstance(op, TensorLoadOp) and op.transpose is not None:
            extents.reverse()
        axes = 1 if repeated else 2
        leading, last = indices[:-axes], [body.values[one] for one in indices[-axes:]]
        dims, strides = list(buffer.dims[-axes:]), [buffer.dims[-1], 1]
        if repeated:
            dims, strides, last = [extents[0], *dims], [0, 1], [self.kernel.number(0), *last]
        layout = self._layout(dims, strides, bounded=op.bounded is not None)
        numbers = [
            one
            for first, extent in zip(last, extents, strict=True)
            for one in (first, self.kernel.number(extent))
        ]
        sliced = body.put(SliceOp(layout, numbers))
        place = self._batch(buffer, leading, axes)
        chain = AccessChainOp(buffer.pointer, [self.kernel.number(0), place])
        return body.put(chain), sliced

    def _batch(self, buffer: Buffer, leading: Sequence[SSAValue], axes: int) -> SSAValue:
        """The number of the first element of a batch, from where the binding begins."""
        body = self.body
        assert buffer.first is not None
        place: SSAValue | None = None
        for index, extent in zip(leading, buffer.dims):
            here = body.values[index]
            if place is not None:
                moved = body.value(body.times(place, extent))
                here = body.arithmetic.op("IAdd", moved, here)
            place = here
        if place is None:
            return buffer.first
        each: SSAValue | int = 1
        for extent in buffer.dims[-axes:]:
            each = body.times(each, extent)
        return body.arithmetic.op("IAdd", buffer.first, body.value(body.times(place, each)))

    def _layout(
        self, dims: Sequence[SSAValue | int], strides: Sequence[SSAValue | int], *, bounded: bool
    ) -> SSAValue:
        """The layout of all of a buffer; made at the beginning of the kernel, if its numbers are there."""
        body, kernel = self.body, self.kernel
        key = (*dims, *strides, bounded)
        if key in self._layouts:
            return self._layouts[key]
        early = all(isinstance(n, int) or _is_early(n, kernel) for n in (*dims, *strides))
        put = kernel.put if early else body.put
        kind = TensorLayoutType.of(2, "Constant" if bounded else "Undefined")
        made = put(VALUE_OPS["NV.CreateTensorLayout"].make(result=kind))
        made = put(SetDimensionOp(made, [body.value(n) for n in dims]))
        made = put(SetStrideOp(made, [body.value(n) for n in strides]))
        if early:
            self._layouts[key] = made
        return made

    def _map(self, op: MatrixMapOp) -> SSAValue:
        """A function of row, column and element, in front of the kernel's."""
        kernel = self.kernel
        kernel.capabilities.add("CooperativeMatrixPerElementOperationsNV")
        given = op.body.block
        element = lowered_type(given.args[0].type)
        block = Block(arg_types=[i32, i32, element])
        inner = self.body.inner(block)
        inner.values[given.args[0]] = block.args[2]
        inner.ops(given)
        last = given.last_op
        assert isinstance(last, MatrixYieldOp)
        inner.block.add_op(ReturnValueOp(inner.values[last.value]))
        name = f"{kernel.name}_element_{len(kernel.functions)}"
        types = [one.type for one in block.args]
        kernel.functions.append(SpirvFuncOp(name, Region(block), types, [element]))
        return self.body.put(PerElementOp(name, [self.body.values[op.value]]))


def _is_early(value: SSAValue, kernel: KernelModule) -> bool:
    """Whether a number is computed in the first block of a kernel."""
    owner = value.owner
    return isinstance(owner, Operation) and owner.parent is kernel.entry
