"""What a device kernel computes, with NumPy: the invocations of a workgroup go through it side by side.

Kernels that multiply matrices are run so, as no driver that computes on the processor has matrices. Each op
is done for all invocations before the next one: a missing barrier does not show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith, gpu, memref, scf, vector
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from openinfer.dialects.extensions.arith import CmpfOp
from openinfer.dialects.extensions.gpu import (
    ShuffleOp,
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
    SubgroupMmaLoadMatrixOp,
    SubgroupMmaStoreMatrixOp,
)
from openinfer.dialects.extensions.memref import AtomicRMWOp

Array = np.ndarray[Any, Any]

_OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divui": np.floor_divide,
    "arith.divsi": np.floor_divide,
    "arith.floordivsi": np.floor_divide,
    "arith.remui": np.mod,
    "arith.remsi": np.mod,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
}
_OF_ONE: dict[str, Callable[[Any], Any]] = {
    "arith.negf": np.negative,
    "math.exp": np.exp,
    "math.sqrt": np.sqrt,
    "math.tanh": np.tanh,
}
_COMPARED: tuple[Callable[[Any, Any], Any], ...] = (
    np.equal,
    np.not_equal,
    *(np.less, np.less_equal, np.greater, np.greater_equal) * 2,
)
_COMPARED_FLOATS: Mapping[int, Callable[[Any, Any], Any]] = {
    1: np.equal,
    2: np.greater,
    3: np.greater_equal,
    4: np.less,
    5: np.less_equal,
    6: np.not_equal,
}
_CONVERSIONS = ("arith.extf", "arith.truncf", "arith.index_cast", "arith.sitofp", "arith.extui")


def run_kernel(function: FuncOp, buffers: Sequence[Array], groups: int, subgroup: int = 32) -> None:
    """Runs workgroups one by one on the arguments of a kernel, which are written in place."""
    sizes = function.attributes["gpu.known_block_size"]
    assert isinstance(sizes, DenseArrayBase)
    threads = int(sizes.get_values()[0])
    for group in range(groups):
        _Workgroup(threads, subgroup, group, groups).run(function, buffers)


def _dtype(kind: Attribute) -> Any:
    if isinstance(kind, IndexType):
        return np.int64
    if isinstance(kind, IntegerType):
        return np.bool_ if kind.width.data == 1 else np.dtype(f"i{kind.width.data // 8}")
    return {"f16": np.float16, "f32": np.float32, "f64": np.float64}[str(kind)]


class _Workgroup:
    """Values have an axis of invocations; matrices one of subgroups."""

    def __init__(self, threads: int, subgroup: int, group: int, groups: int) -> None:
        self.threads, self.subgroup, self.group, self.groups = threads, subgroup, group, groups
        self.values: dict[SSAValue, Any] = {}
        self.memory: dict[SSAValue, Array] = {}
        self.active = np.ones(threads, np.bool_)
        self.numbers = np.arange(threads)

    def run(self, function: FuncOp, buffers: Sequence[Array]) -> None:
        block = function.body.block
        self.memory.update(zip(block.args, buffers, strict=True))
        self.block(block)

    def block(self, block: Block) -> list[Any]:
        """The ops of a block; what it yields."""
        for op in block.ops:
            if isinstance(op, scf.YieldOp):
                return [self.values[value] for value in op.operands]
            if not isinstance(op, ReturnOp):
                self.op(op)
        return []

    def full(self, value: Any) -> Array:
        """A value for each invocation."""
        return np.broadcast_to(value, (self.threads, *np.shape(value)[1:]))

    def places(self, memory: Array, indices: Sequence[SSAValue]) -> tuple[Array, ...]:
        """Indices of all invocations; those that do nothing read the nearest element."""
        found = [self.full(self.values[index]) for index in indices]
        for axis, index in enumerate(found):
            here = index[self.active]
            assert ((here >= 0) & (here < memory.shape[axis])).all(), "beyond a buffer"
        return tuple(np.clip(index, 0, n - 1) for index, n in zip(found, memory.shape))

    def op(self, op: Operation) -> None:
        known = _HANDLERS.get(type(op))
        if known is not None:
            known(self, op)
            return
        operands = [self.values[value] for value in op.operands]
        kind = _dtype(op.results[0].type) if len(op.results) == 1 else None
        with np.errstate(all="ignore"):
            if op.name in _OF_TWO:
                found = _OF_TWO[op.name](*operands)
            elif op.name in _OF_ONE:
                found = _OF_ONE[op.name](*operands)
            elif op.name == "math.fma":
                x, y, z = (np.asarray(value, np.float64) for value in operands)
                found = x * y + z
            elif op.name in _CONVERSIONS:
                found = operands[0]
            elif op.name == "arith.select":
                found = np.where(*operands)
            else:
                raise NotImplementedError(op.name)
        self.values[op.results[0]] = np.asarray(found).astype(kind)

    def constant(self, op: arith.ConstantOp) -> None:
        assert isinstance(op.value, IntegerAttr | FloatAttr)
        self.values[op.result] = np.full(1, op.value.value.data, _dtype(op.result.type))

    def compare(self, op: arith.CmpiOp) -> None:
        x, y = (self.values[value] for value in op.operands)
        self.values[op.result] = _COMPARED[op.predicate.value.data](x, y)

    # Control flow

    def compare_floats(self, op: CmpfOp) -> None:
        """Ordered comparisons are 1 to 6, those that NaN fulfils 8 to 13."""
        number = op.predicate.value.data
        x, y = self.values[op.lhs], self.values[op.rhs]
        found = _COMPARED_FLOATS[number % 7](x, y)
        nan = np.isnan(x) | np.isnan(y)
        self.values[op.result] = (found & ~nan) if number < 7 else (found | nan)

    def condition(self, op: scf.IfOp) -> None:
        before, chosen = self.active, self.full(self.values[op.cond])
        sides: list[list[Any]] = []
        for region, where in ((op.true_region, chosen), (op.false_region, ~chosen)):
            self.active = before & where
            run = region.blocks and self.active.any()
            sides.append(self.block(region.block) if run else [0] * len(op.results))
        self.active = before
        for result, one, other in zip(op.results, *sides):
            self.values[result] = np.where(chosen, one, other)

    def loop(self, op: scf.ForOp) -> None:
        """Invocations that have no more rounds wait for the others."""
        place, last, step = (self.values[v] for v in (op.lb, op.ub, op.step))
        carried, before = [self.values[value] for value in op.iter_args], self.active
        while (self.full(place < last) & before).any():
            goes_on = self.full(place < last)
            self.active = before & goes_on
            arguments = [place, *carried]
            self.values.update(zip(op.body.block.args, arguments, strict=True))
            found = self.block(op.body.block)
            if goes_on.all():
                carried = found
            else:
                carried = [
                    np.where(goes_on, self.full(one).T, self.full(other).T).T
                    for one, other in zip(found, carried)
                ]
            place = place + step
        self.active = before
        self.values.update(zip(op.results, carried, strict=True))

    # Memory

    def allocate(self, op: memref.AllocaOp) -> None:
        kind = op.memref.type
        assert isinstance(kind, MemRefType)
        shape, element = list(kind.get_shape()), kind.element_type
        if isinstance(element, VectorType):
            shape, element = [*shape, element.element_count()], element.element_type
        # What nobody has written shows.
        kind = np.dtype(_dtype(element))
        unwritten = np.nan if kind.kind == "f" else -1
        self.memory[op.memref] = np.full(shape, unwritten, kind)

    def dim(self, op: memref.DimOp) -> None:
        axis = int(self.values[op.index][0])
        self.values[op.result] = np.full(1, self.memory[op.source].shape[axis])

    def load(self, op: memref.LoadOp) -> None:
        memory = self.memory[op.memref]
        self.values[op.res] = memory[self.places(memory, op.indices)]

    def store(self, op: memref.StoreOp) -> None:
        memory, on = self.memory[op.memref], self.active
        at = tuple(index[on] for index in self.places(memory, op.indices))
        memory[at] = self.full(self.values[op.value])[on]

    def update(self, op: memref.AtomicRMWOp) -> None:
        """One invocation after the other adds to an element."""
        memory = self.memory[op.memref]
        places = self.places(memory, op.indices)
        value, found = self.full(self.values[op.value]), np.zeros(self.threads, memory.dtype)
        for number in np.flatnonzero(self.active):
            at = tuple(index[number] for index in places)
            found[number] = memory[at]
            memory[at] += value[number]
        self.values[op.result] = found

    def neighbours(
        self, memory: Array, indices: Sequence[SSAValue], count: int
    ) -> tuple[Array, ...]:
        *outer, last = self.places(memory, indices)
        assert not (last[self.active] % count).any(), "an access at no multiple of its width"
        last = np.minimum(last, memory.shape[-1] - count)
        return (*(index[:, None] for index in outer), last[:, None] + np.arange(count))

    def load_wide(self, op: vector.LoadOp) -> None:
        memory = self.memory[op.base]
        count = _count(op.result)
        self.values[op.result] = memory[self.neighbours(memory, op.indices, count)]

    def store_wide(self, op: vector.StoreOp) -> None:
        memory, on = self.memory[op.base], self.active
        at = self.neighbours(memory, op.indices, _count(op.vector))
        memory[tuple(index[on] for index in at)] = self.full(self.values[op.vector])[on]

    def broadcast(self, op: vector.BroadcastOp) -> None:
        value = self.full(self.values[op.source])
        self.values[op.vector] = np.repeat(value[:, None], _count(op.vector), axis=1)

    def insert(self, op: vector.InsertOp) -> None:
        found = np.array(self.full(self.values[op.dest]))
        (lane,) = op.static_position.get_values()
        found[:, int(lane)] = self.values[op.source]
        self.values[op.result] = found

    def extract(self, op: vector.ExtractOp) -> None:
        (lane,) = op.static_position.get_values()
        self.values[op.result] = self.values[op.vector][:, int(lane)]

    # What invocations do together

    def built_in(self, op: Operation) -> None:
        axis = op.properties.get("dimension")
        along_x = isinstance(axis, gpu.DimensionAttr) and axis.data is gpu.DimensionEnum.X
        match op:
            case gpu.ThreadIdOp():
                found = self.numbers
            case gpu.SubgroupIdOp():
                found = self.numbers // self.subgroup
            case gpu.LaneIdOp():
                found = self.numbers % self.subgroup
            case gpu.BlockIdOp():
                found = np.full(1, self.group if along_x else 0)
            case _:
                found = np.full(1, self.groups if along_x else 1)
        self.values[op.results[0]] = found

    def shuffle(self, op: ShuffleOp) -> None:
        assert op.mode.data.value == "xor"
        other = self.numbers ^ self.full(self.values[op.offset])
        self.values[op.shuffled] = self.full(self.values[op.value])[other]

    def matrix_at(
        self, memory: SSAValue, indices: Sequence[SSAValue], lead: int
    ) -> tuple[Array, list[Array]]:
        """Memory as elements in a row, and where the elements of the matrix of each subgroup lie."""
        buffer = self.memory[memory]
        kind = memory.type
        assert isinstance(kind, MemRefType)
        together = _count_of(kind.element_type)
        shape = kind.get_shape()
        found: list[Array] = []
        for subgroup in range(self.threads // self.subgroup):
            at = [int(self.full(self.values[i])[subgroup * self.subgroup]) for i in indices]
            first = int(np.ravel_multi_index(at, shape)) * together
            found.append(first + np.arange(16)[:, None] * lead * together + np.arange(16))
        return buffer.reshape(-1), found

    def load_matrix(self, op: SubgroupMmaLoadMatrixOp) -> None:
        flat, places = self.matrix_at(op.source, op.indices, op.lead_dimension.value.data)
        found = np.stack([flat[place] for place in places])
        self.values[op.result] = found if op.transpose is None else found.swapaxes(1, 2)

    def store_matrix(self, op: SubgroupMmaStoreMatrixOp) -> None:
        flat, places = self.matrix_at(op.target, op.indices, op.lead_dimension.value.data)
        for place, matrix in zip(places, self.values[op.value]):
            flat[place] = matrix

    def multiply(self, op: SubgroupMmaComputeOp) -> None:
        x, y, total = (self.values[value] for value in op.operands)
        found = np.asarray(x, np.float32) @ np.asarray(y, np.float32)
        self.values[op.result] = total + found

    def constant_matrix(self, op: SubgroupMmaConstantMatrixOp) -> None:
        value = self.values[op.value].reshape(-1)[0]
        shape = self.threads // self.subgroup, 16, 16
        self.values[op.result] = np.full(shape, value, np.float32)

    def nothing(self, op: Operation) -> None:
        pass


def _count_of(kind: Attribute) -> int:
    return kind.element_count() if isinstance(kind, VectorType) else 1


def _count(value: SSAValue) -> int:
    return _count_of(value.type)


_HANDLERS: Mapping[type[Operation], Callable[[_Workgroup, Any], None]] = {
    arith.ConstantOp: _Workgroup.constant,
    arith.CmpiOp: _Workgroup.compare,
    CmpfOp: _Workgroup.compare_floats,
    scf.IfOp: _Workgroup.condition,
    scf.ForOp: _Workgroup.loop,
    memref.AllocaOp: _Workgroup.allocate,
    memref.DimOp: _Workgroup.dim,
    memref.LoadOp: _Workgroup.load,
    memref.StoreOp: _Workgroup.store,
    AtomicRMWOp: _Workgroup.update,
    vector.LoadOp: _Workgroup.load_wide,
    vector.StoreOp: _Workgroup.store_wide,
    vector.BroadcastOp: _Workgroup.broadcast,
    vector.InsertOp: _Workgroup.insert,
    vector.ExtractOp: _Workgroup.extract,
    gpu.ThreadIdOp: _Workgroup.built_in,
    gpu.BlockIdOp: _Workgroup.built_in,
    gpu.GridDimOp: _Workgroup.built_in,
    gpu.SubgroupIdOp: _Workgroup.built_in,
    gpu.LaneIdOp: _Workgroup.built_in,
    gpu.BarrierOp: _Workgroup.nothing,
    ShuffleOp: _Workgroup.shuffle,
    SubgroupMmaLoadMatrixOp: _Workgroup.load_matrix,
    SubgroupMmaStoreMatrixOp: _Workgroup.store_matrix,
    SubgroupMmaComputeOp: _Workgroup.multiply,
    SubgroupMmaConstantMatrixOp: _Workgroup.constant_matrix,
}
