"""Runs kernels with matrices of a workgroup in NumPy, one workgroup after the other.

All that such a kernel does is done by the workgroup as a whole, so that one invocation stands for it. Memory
begins as NaN, and what lies outside of a buffer is an error unless an access is bounded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith, gpu, scf
from xdsl.dialects.builtin import Float16Type, Float32Type
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from openinfer.dialects.extensions.gpu import (
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
    SubgroupMmaElementwiseOp,
)
from openinfer.dialects.extensions.gpu_matrix_type import MMAMatrixType
from openinfer.dialects.extensions.gpu_tensors import (
    MatrixConvertOp,
    MatrixMapOp,
    TensorLoadOp,
    TensorStoreOp,
)

Array = np.ndarray[Any, Any]
_KINDS: dict[type[Attribute], Any] = {Float16Type: np.float16, Float32Type: np.float32}
_OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.divui": operator.floordiv,
    "arith.remui": operator.mod,
    "arith.minsi": min,
    "arith.minui": min,
    "arith.maxsi": max,
    "arith.andi": operator.and_,
    "arith.addf": operator.add,
    "arith.mulf": operator.mul,
    "arith.maximumf": np.maximum,
}
_COMPARISONS = {
    predicate: function
    for names, function in (
        ((2, 6), operator.lt),
        ((3, 7), operator.le),
        ((4, 8), operator.gt),
        ((5, 9), operator.ge),
        ((0,), operator.eq),
        ((1,), operator.ne),
    )
    for predicate in names
}


def kind_of(element: Attribute) -> Any:
    """The dtype of NumPy."""
    return _KINDS[type(element)]


def run_kernel(function: FuncOp, groups: int, buffers: Sequence[Array]) -> None:
    """Runs the workgroups of a kernel; buffers are the arguments in order."""
    for group in range(groups):
        _Group(group, groups).function(function, buffers)


class _Group:
    def __init__(self, number: int, groups: int) -> None:
        self.number, self.groups = number, groups
        self.values: dict[SSAValue, Any] = {}

    def function(self, function: FuncOp, buffers: Sequence[Array]) -> None:
        block = function.body.block
        self.values.update(zip(block.args, buffers, strict=True))
        self.block(block)

    def block(self, block: Block) -> list[Any]:
        """What the last op of a block yields."""
        for op in block.ops:
            if op is not block.last_op:
                self.op(op)
        assert block.last_op is not None
        return [self.values[one] for one in block.last_op.operands]

    def op(self, op: Operation) -> None:
        """One op."""
        values = self.values
        given = [values[one] for one in op.operands]
        if isinstance(op, arith.ConstantOp):
            values[op.result] = getattr(op.value, "value").data  # noqa: B009
        elif isinstance(op, arith.CmpiOp):
            values[op.result] = _COMPARISONS[op.predicate.value.data](*given)
        elif op.name in _OF_TWO:
            values[op.results[0]] = _OF_TWO[op.name](*given)
        elif isinstance(op, arith.TruncFOp | arith.ExtFOp):
            values[op.result] = given[0].astype(kind_of(op.result.type))
        elif isinstance(op, gpu.BlockIdOp):
            values[op.result] = self.number if op.dimension.data == gpu.DimensionEnum.X else 0
        elif isinstance(op, gpu.GridDimOp):
            values[op.result] = self.groups
        elif op.name == "memref.dim":
            values[op.results[0]] = given[0].shape[given[1]]
        elif isinstance(op, scf.IfOp):
            region = op.true_region if given[0] else op.false_region
            found = self.block(region.block) if region.blocks else []
            values.update(zip(op.results, found))
        elif isinstance(op, scf.ForOp):
            self.loop(op, *given)
        else:
            self.matrices(op, given)

    def loop(self, op: scf.ForOp, first: int, last: int, step: int, *carried: Any) -> None:
        block = op.body.block
        for turn in range(first, last, step):
            self.values.update(zip(block.args, (turn, *carried), strict=True))
            carried = tuple(self.block(block))
        self.values.update(zip(op.results, carried))

    def matrices(self, op: Operation, given: list[Any]) -> None:
        """What is done with matrices."""
        values = self.values
        if isinstance(op, SubgroupMmaConstantMatrixOp):
            values[op.result] = np.full(_shape(op.result), given[0], _kind(op.result))
        elif isinstance(op, SubgroupMmaComputeOp):
            left, right, total = given
            product = left.astype(np.float32) @ right.astype(np.float32)
            values[op.result] = product + total
        elif isinstance(op, SubgroupMmaElementwiseOp):
            assert op.kind.data == "addf"
            values[op.result] = given[0] + given[1]
        elif isinstance(op, MatrixConvertOp):
            values[op.result] = given[0].astype(_kind(op.result))
        elif isinstance(op, MatrixMapOp):
            places = np.indices(_shape(op.result))
            values.update(zip(op.body.block.args, (*places, *given), strict=True))
            (values[op.result],) = self.block(op.body.block)
        elif isinstance(op, TensorLoadOp):
            values[op.result] = self.load(op)
        else:
            assert isinstance(op, TensorStoreOp), op.name
            self.store(op, given[0])

    def load(self, op: TensorLoadOp) -> Array:
        """A part of a buffer; 0 where it lies outside of one that may be left."""
        shape = _shape(op.result)
        turned = op.transpose is not None
        if turned:
            shape = shape[::-1]
        if op.repeated is not None:
            shape = shape[1:]
        inside = self.part(op.source, op.indices, shape, bounded=op.bounded is not None)
        found = np.zeros(shape, _kind(op.result))
        found[tuple(slice(size) for size in inside.shape)] = inside
        if op.repeated is not None:
            return np.broadcast_to(found, _shape(op.result))
        return found.T if turned else found

    def store(self, op: TensorStoreOp, value: Array) -> None:
        inside = self.part(op.target, op.indices, value.shape, bounded=op.bounded is not None)
        assert np.isnan(inside).all(), "a result is stored twice"
        inside[:] = value[tuple(slice(size) for size in inside.shape)]

    def part(
        self,
        memory: SSAValue,
        indices: Sequence[SSAValue],
        shape: Sequence[int],
        *,
        bounded: bool,
    ) -> Array:
        """What lies inside of a buffer."""
        at, axes = [self.values[one] for one in indices], len(shape)
        batch = self.values[memory][tuple(at[:-axes])]
        places = [slice(first, first + size) for first, size in zip(at[-axes:], shape, strict=True)]
        inside = batch[tuple(places)]
        assert bounded or inside.shape == tuple(shape), f"{places} of {batch.shape}"
        return inside


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, MMAMatrixType)
    return value.type.rows.data, value.type.columns.data


def _kind(value: SSAValue) -> Any:
    assert isinstance(value.type, MMAMatrixType)
    return kind_of(value.type.element_type)
