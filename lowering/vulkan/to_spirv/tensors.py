"""Matrices of a workgroup in SPIR-V: parts of buffers by tensor layouts, functions of elements by functions.

A layout says the extents and strides of a buffer's last two axes, once for each buffer, at the beginning of a
kernel; a slice of it is what one matrix has of them. Batches are in the address.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from openinfer.dialects.extensions.gpu_matrix_type import MMAMatrixType
from openinfer.dialects.extensions.gpu_tensors import (
    MatrixConvertOp,
    MatrixElementOp,
    MatrixMapOp,
    MatrixReduceOp,
    MatrixYieldOp,
    TensorLoadOp,
    TensorStoreOp,
)
from openinfer.dialects.spirv.composite_ops import CompositeExtractOp, ConstantOp
from openinfer.dialects.spirv.control_flow_ops import ReturnValueOp
from openinfer.dialects.spirv.global_ops import AddressOfOp
from openinfer.dialects.spirv.memory_ops import AccessChainOp
from openinfer.dialects.spirv.structure_ops import SpirvFuncOp
from openinfer.dialects.spirv.tensor_ops import (
    LoadTensorOp,
    PerElementOp,
    ReduceOp,
    SetDimensionOp,
    SetStrideOp,
    SliceOp,
    StoreTensorOp,
)
from openinfer.dialects.spirv.types import TensorLayoutType, TensorViewType
from openinfer.dialects.spirv.value_ops import VALUE_OPS
from openinfer.lowering.vulkan.to_spirv.kernel_module import Buffer, KernelModule, lowered_type
from openinfer.lowering.vulkan.to_spirv.value_conversions import Values

OF_TENSORS = (
    TensorLoadOp,
    TensorStoreOp,
    MatrixConvertOp,
    MatrixMapOp,
    MatrixReduceOp,
    MatrixElementOp,
)


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
            body.values[op.result] = self._converted(op)
        elif isinstance(op, MatrixMapOp):
            body.values[op.result] = self._map(op)
        elif isinstance(op, MatrixReduceOp):
            body.values[op.result] = self._reduced(op)
        elif isinstance(op, MatrixElementOp):
            body.values[op.result] = body.put(CompositeExtractOp(body.values[op.value], [0]))

    def _converted(self, op: MatrixConvertOp) -> SSAValue:
        """Other elements first, then another use."""
        body, given, kind = self.body, op.value.type, op.result.type
        assert isinstance(given, MMAMatrixType)
        assert isinstance(kind, MMAMatrixType)
        value = body.values[op.value]
        if given.element_type != kind.element_type:
            between = lowered_type(given.with_element(kind.element_type))
            value = body.arithmetic.op("FConvert", value, result=between)
        if given.operand != kind.operand:
            self.kernel.capabilities.add("CooperativeMatrixConversionsNV")
            name = "EXT.CooperativeMatrixConvertUse"
            value = body.arithmetic.op(name, value, result=lowered_type(kind))
        return value

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
        axis = len(indices) - 1
        if repeated:
            dims, strides = [extents[0], buffer.dims[axis]], [0, 1]
            last, own = [self.kernel.number(0), body.values[indices[axis]]], {axis}
        else:
            row = op.row_axis(memory)
            between: SSAValue | int = 1
            for extent in buffer.dims[row + 1 :]:
                between = body.times(between, extent)
            dims, strides, own = [buffer.dims[row], buffer.dims[axis]], [between, 1], {row, axis}
            last = [body.values[indices[row]], body.values[indices[axis]]]
        layout = self._layout(dims, strides, bounded=op.bounded is not None)
        numbers = [
            one
            for first, extent in zip(last, extents, strict=True)
            for one in (first, self.kernel.number(extent))
        ]
        sliced = body.put(SliceOp(layout, numbers))
        place = self._batch(buffer, indices, own)
        chain = AccessChainOp(buffer.pointer, [self.kernel.number(0), place])
        return body.put(chain), sliced

    def _batch(self, buffer: Buffer, indices: Sequence[SSAValue], own: set[int]) -> SSAValue:
        """The number of the element where a part would begin whose indices along its own axes are 0, from
        where the binding begins."""
        body = self.body
        assert buffer.first is not None
        place: SSAValue | int = 0
        for axis, (index, extent) in enumerate(zip(indices, buffer.dims, strict=True)):
            place = 0 if place == 0 else body.times(place, extent)
            if axis in own:
                continue
            here = body.values[index]
            place = here if place == 0 else body.arithmetic.op("IAdd", body.value(place), here)
        if place == 0:
            return buffer.first
        return body.arithmetic.op("IAdd", buffer.first, body.value(place))

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
        """A function of row, column and elements, in front of the kernel's."""
        self.kernel.capabilities.add("CooperativeMatrixPerElementOperationsNV")
        name, places = self._function(op.body.block, "element", op.values)
        values = [one for one in op.values if not isinstance(one.type, MemRefType)]
        given = [*(self.body.values[one] for one in values), *places]
        return self.body.put(PerElementOp(name, given))

    def _reduced(self, op: MatrixReduceOp) -> SSAValue:
        self.kernel.capabilities.add("CooperativeMatrixReductionsNV")
        (name, _), value = self._function(op.body.block, "pair"), self.body.values[op.value]
        what = "Row" if op.whole is None else "Row|Column"
        return self.body.put(ReduceOp(what, name, value, lowered_type(op.result.type)))

    def _function(
        self, given: Block, hint: str, values: Sequence[SSAValue] = ()
    ) -> tuple[str, list[SSAValue]]:
        """The name of a function of the module that does what a region says. It takes no buffers, but where
        those among `values` begin, as far as that is no constant: what it is given for that."""
        kernel = self.kernel
        plain = [one for one in given.args if not isinstance(one.type, MemRefType)]
        block = Block(arg_types=[lowered_type(one.type) for one in plain])
        inner = self.body.inner(block)
        inner.arithmetic.keeps = False
        inner.values.update(zip(plain, block.args))
        places: list[SSAValue] = []
        # The arguments behind row and column are the values.
        for argument, value in zip(given.args[2:], values):
            if isinstance(argument.type, MemRefType):
                buffer = self.body.buffers[value]
                inner.buffers[argument] = self._seen_from(inner, buffer, places)
        inner.ops(given)
        last = given.last_op
        assert isinstance(last, MatrixYieldOp)
        result = inner.values[last.value]
        inner.block.add_op(ReturnValueOp(result))
        name = f"{kernel.name}_{hint}_{len(kernel.functions)}"
        types = [one.type for one in block.args]
        made = SpirvFuncOp(name, Region(block), types, [result.type])
        for known in kernel.functions:
            # Many matrices of a subgroup are given to one function.
            made.sym_name = known.sym_name
            if made.is_structurally_equivalent(known):
                return known.sym_name.data, places
        made.sym_name = StringAttr(name)
        kernel.functions.append(made)
        return name, places

    def _seen_from(self, inner: _Body, buffer: Buffer, places: list[SSAValue]) -> Buffer:
        """A buffer of known extents, for another function. Where it begins is one of its arguments, if it is
        no constant; `places` takes what is passed for it."""
        address, first = buffer.pointer.owner, buffer.first
        assert isinstance(address, AddressOfOp)
        assert all(isinstance(extent, int) for extent in buffer.dims)
        if first is None:
            return replace(buffer, pointer=inner.put(address.clone()))
        if isinstance(first.owner, ConstantOp):
            first = inner.put(first.owner.clone())
        else:
            places.append(first)
            first = inner.block.insert_arg(first.type, len(inner.block.args))
        return replace(buffer, pointer=inner.put(address.clone()), first=first)


def _is_early(value: SSAValue, kernel: KernelModule) -> bool:
    """Whether a number is computed in the first block of a kernel."""
    owner = value.owner
    return isinstance(owner, Operation) and owner.parent is kernel.entry
