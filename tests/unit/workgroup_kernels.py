"""Runs kernels with matrices of a workgroup or of subgroups in NumPy, one workgroup after the other.

What is done with matrices of a workgroup is done by it as a whole, so that one invocation stands for it.
Where subgroups have matrices, each is a thread, and numbers of its invocations are arrays. Memory begins as
NaN, and what lies outside of a buffer is an error unless an access is bounded.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from xdsl.dialects import arith, gpu, memref, scf, vector
from xdsl.dialects.builtin import Float16Type, Float32Type, MemRefType, VectorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from openinfer.dialects.extensions.gpu import (
    ShuffleOp,
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
    SubgroupMmaElementwiseOp,
    SubgroupMmaLoadMatrixOp,
    SubgroupMmaStoreMatrixOp,
)
from openinfer.dialects.extensions.gpu_matrix_type import MMAMatrixType
from openinfer.dialects.extensions.gpu_tensors import (
    MatrixConvertOp,
    MatrixElementOp,
    MatrixMapOp,
    MatrixReduceOp,
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
    "arith.minsi": np.minimum,
    "arith.minui": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.andi": operator.and_,
    "arith.addf": operator.add,
    "arith.mulf": operator.mul,
    "arith.subf": operator.sub,
    "arith.divf": operator.truediv,
    "arith.maximumf": np.maximum,
}
_OF_FLOATS: dict[str, Callable[..., Any]] = {
    "math.absf": np.abs,
    "math.sqrt": np.sqrt,
    "math.exp2": np.exp2,
    "math.fma": lambda x, y, z: x * y + z,
    "arith.select": np.where,
}
_FLOAT_COMPARISONS = {1: operator.eq, 2: operator.gt, 4: operator.lt, 14: operator.ne}
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


def run_kernel(function: FuncOp, groups: int, buffers: Sequence[Array], threads: int = 1) -> None:
    """Runs the workgroups of a kernel; buffers are the arguments in order. `threads`: where invocations do
    things of their own, that many of each workgroup."""
    for group in range(groups):
        for thread in range(threads):
            _Group(group, groups, thread, alone=threads == 1).function(function, buffers)


SUBGROUP = 32


def run_subgroups(function: FuncOp, groups: int, buffers: Sequence[Array], count: int) -> None:
    """The same where workgroups are `count` subgroups, which wait for each other."""
    for group in range(groups):
        shared: dict[Operation, Array] = {}
        meeting = threading.Barrier(count)

        def run(number: int, group: int = group, meeting: Any = meeting, at: Any = shared) -> None:
            lanes = np.arange(SUBGROUP) + number * SUBGROUP
            one = _Group(group, groups, lanes, alone=False)
            one.subgroup, one.meeting, one.shared = number, meeting, at
            try:
                with np.errstate(invalid="ignore", over="ignore"):
                    one.function(function, buffers)
            except BaseException:
                meeting.abort()
                raise

        with ThreadPoolExecutor(count) as pool:
            failures = [one.exception() for one in [pool.submit(run, n) for n in range(count)]]
        # A subgroup that fails ends the others' waiting, which is no failure of theirs.
        for failure in sorted((one for one in failures if one), key=_is_of_waiting):
            raise failure


def _is_of_waiting(failure: BaseException) -> bool:
    return isinstance(failure, threading.BrokenBarrierError)


class _Group:
    subgroup = 0
    meeting: threading.Barrier | None = None
    shared: dict[Operation, Array]

    def __init__(self, number: int, groups: int, thread: Any, *, alone: bool) -> None:
        """`thread`: the number of an invocation, or of those of a subgroup; `alone`: whether one invocation
        stands for all of the workgroup."""
        self.shared = {}
        self.number, self.groups, self.thread, self.alone = number, groups, thread, alone
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
        elif isinstance(op, arith.CmpfOp):
            values[op.result] = _compared(op.predicate.value.data, *given)
        elif op.name in _OF_FLOATS:
            values[op.results[0]] = _OF_FLOATS[op.name](*given)
        elif op.name in _OF_TWO:
            values[op.results[0]] = _OF_TWO[op.name](*given)
        elif isinstance(op, arith.TruncFOp | arith.ExtFOp):
            values[op.result] = given[0].astype(kind_of(op.result.type))
        elif isinstance(op, gpu.BlockIdOp):
            values[op.result] = self.number if op.dimension.data == gpu.DimensionEnum.X else 0
        elif isinstance(op, gpu.GridDimOp):
            values[op.result] = self.groups
        elif isinstance(op, gpu.ThreadIdOp):
            values[op.result] = self.thread
        elif isinstance(op, gpu.SubgroupIdOp):
            values[op.result] = self.subgroup
        elif isinstance(op, gpu.LaneIdOp):
            values[op.result] = self.thread % SUBGROUP
        elif isinstance(op, ShuffleOp):
            assert op.mode.data.value == "xor"
            values[op.shuffled] = given[0][np.arange(SUBGROUP) ^ given[1]]
        elif op.name.startswith("vector."):
            self.neighbours(op, given)
        elif op.name == "memref.load":
            values[op.results[0]] = given[0][tuple(given[1:])]
        elif isinstance(op, memref.CollapseShapeOp):
            assert isinstance(op.result.type, MemRefType)
            values[op.result] = given[0].reshape(op.result.type.get_shape())
        elif op.name == "memref.dim":
            values[op.results[0]] = given[0].shape[given[1]]
        elif isinstance(op, scf.IfOp):
            # Of a subgroup all invocations take one way.
            (way,) = set(np.unique(given[0]))
            region = op.true_region if way else op.false_region
            found = self.block(region.block) if region.blocks else []
            values.update(zip(op.results, found))
        elif isinstance(op, scf.ForOp):
            if self.alone and isinstance(op.lb.owner, gpu.ThreadIdOp):
                # What invocations share out, one does for all of them.
                given[2] = 1
            self.loop(op, *given)
        elif isinstance(op, memref.AllocaOp):
            assert isinstance(op.memref.type, MemRefType)
            shape, element = op.memref.type.get_shape(), op.memref.type.element_type
            if isinstance(element, VectorType):
                shape, element = (*shape, element.element_count()), element.element_type
            memory = np.full(shape, np.nan, kind_of(element))
            values[op.memref] = self.shared.setdefault(op, memory)
        elif isinstance(op, memref.StoreOp):
            value = np.stack(given[0], -1) if isinstance(given[0], list) else given[0]
            given[1][tuple(given[2:])] = value
        elif isinstance(op, gpu.BarrierOp):
            if self.meeting is not None:
                self.meeting.wait(60)
            else:
                assert self.alone, "nobody waits for others"
        else:
            self.matrices(op, given)

    def neighbours(self, op: Operation, given: list[Any]) -> None:
        """Several elements in one access."""
        values = self.values
        if isinstance(op, vector.LoadOp):
            buffer, *front, at = given
            values[op.result] = [buffer[(*front, at + n)] for n in range(_count(op.result))]
        elif isinstance(op, vector.StoreOp):
            elements, buffer, *front, at = given
            for n, element in enumerate(elements):
                buffer[(*front, at + n)] = element
        elif isinstance(op, vector.ExtractOp):
            (place,) = op.static_position.get_values()
            values[op.result] = given[0][place]
        elif isinstance(op, vector.BroadcastOp):
            values[op.vector] = given * _count(op.vector)
        else:
            assert isinstance(op, vector.InsertOp), op.name
            (place,) = op.static_position.get_values()
            found = values[op.result] = list(values[op.dest])
            found[place] = values[op.source]

    def loop(self, op: scf.ForOp, first: Any, last: int, step: int, *carried: Any) -> None:
        block, turns = op.body.block, np.max(-((first - last) // step))
        assert np.all(-((first - last) // step) == turns), "invocations leave a loop by themselves"
        for turn in range(turns):
            turn = first + turn * step
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
            values[op.result] = _OF_TWO[f"arith.{op.kind.data}"](*given)
        elif isinstance(op, MatrixConvertOp):
            values[op.result] = given[0].astype(_kind(op.result))
        elif isinstance(op, MatrixMapOp):
            places = np.indices(_shape(op.result))
            values.update(zip(op.body.block.args, (*places, *given), strict=True))
            (values[op.result],) = self.block(op.body.block)
        elif isinstance(op, MatrixReduceOp):
            values[op.result] = self.reduced(op, given[0])
        elif isinstance(op, MatrixElementOp):
            values[op.result] = given[0].flat[0]
        elif isinstance(op, SubgroupMmaLoadMatrixOp):
            flat, places = _places(given[0], given[1:], op.lead_dimension.value.data, op.result)
            found = flat[places]
            values[op.result] = found if op.transpose is None else found.T
        elif isinstance(op, SubgroupMmaStoreMatrixOp):
            flat, places = _places(given[1], given[2:], op.lead_dimension.value.data, op.value)
            assert np.isnan(flat[places]).all(), "a result is stored twice"
            flat[places] = given[0]
        elif isinstance(op, TensorLoadOp):
            values[op.result] = self.load(op)
        else:
            assert isinstance(op, TensorStoreOp), op.name
            self.store(op, given[0])

    def reduced(self, op: MatrixReduceOp, value: Array) -> Array:
        """Elements joined one after the other."""
        lines = value.T if op.whole is None else value.reshape(-1, 1)
        found = lines[0]
        for line in lines[1:]:
            self.values.update(zip(op.body.block.args, (found, line), strict=True))
            (found,) = self.block(op.body.block)
        shape = _shape(op.result)
        return np.broadcast_to(found.reshape(-1, 1), shape).copy()

    def load(self, op: TensorLoadOp) -> Array:
        """A part of a buffer; 0 where it lies outside of one that may be left."""
        shape = _shape(op.result)
        turned = op.transpose is not None
        if turned:
            shape = shape[::-1]
        if op.repeated is not None:
            shape = shape[1:]
        inside = self.part(op, op.source, op.indices, shape)
        found = np.zeros(shape, _kind(op.result))
        found[tuple(slice(size) for size in inside.shape)] = inside
        if op.repeated is not None:
            return np.broadcast_to(found, _shape(op.result))
        return found.T if turned else found

    def store(self, op: TensorStoreOp, value: Array) -> None:
        inside = self.part(op, op.target, op.indices, value.shape)
        assert np.isnan(inside).all(), "a result is stored twice"
        inside[:] = value[tuple(slice(size) for size in inside.shape)]

    def part(
        self,
        op: TensorLoadOp | TensorStoreOp,
        memory: SSAValue,
        indices: Sequence[SSAValue],
        shape: Sequence[int],
    ) -> Array:
        """What lies inside of a buffer."""
        last = len(indices) - 1
        own = [last] if len(shape) == 1 else [op.row_axis(memory), last]
        at: list[Any] = [self.values[one] for one in indices]
        for axis, extent in zip(own, shape, strict=True):
            at[axis] = slice(at[axis], at[axis] + extent)
        inside = self.values[memory][tuple(at)]
        assert op.bounded is not None or inside.shape == tuple(shape), f"{at} leave the buffer"
        return inside


def _places(buffer: Array, at: Sequence[int], lead: int, matrix: SSAValue) -> tuple[Array, Array]:
    """A buffer as a line, and where the elements of a matrix lie there. Several elements may be one access,
    which indices and `lead` count then."""
    each = buffer.shape[-1] if buffer.ndim > len(at) else 1
    first = np.ravel_multi_index(tuple(at), buffer.shape[: len(at)]) * each
    row, column = np.indices(_shape(matrix))
    return buffer.reshape(-1), first + row * lead * each + column


def _count(value: SSAValue) -> int:
    assert isinstance(value.type, VectorType)
    return value.type.element_count()


def _compared(predicate: int, x: Any, y: Any) -> Any:
    """Ordered but for `une`."""
    return _FLOAT_COMPARISONS[predicate](x, y)


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, MMAMatrixType)
    return value.type.rows.data, value.type.columns.data


def _kind(value: SSAValue) -> Any:
    assert isinstance(value.type, MMAMatrixType)
    return kind_of(value.type.element_type)
