"""The pass `expand-packed`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, IntegerType, MemRefType, ModuleOp, i1, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects.extensions.arith import ExtUIOp, IndexCastOp
from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.inserted import keep_location
from openinfer.lowering.kernels.numeric import compare_integers
from openinfer.lowering.kernels.runs import collapse
from openinfer.lowering.places import is_device_kernel

_SIGNED_COMPARISONS = range(2, 6)
_SIGNED = (
    *(arith.ExtSIOp, arith.SIToFPOp, arith.IndexCastOp, arith.DivSIOp, arith.RemSIOp),
    *(arith.MinSIOp, arith.MaxSIOp, arith.ShRSIOp),
)
"""Ops that look at the sign of their operands."""


@dataclass(frozen=True)
class ExpandPacked(ModulePass):
    """
    Turn packed buffers in kernels of the device into bytes, and their elements into integers of 8 bits.

    Before:
        %v = memref.load %x[%i] : memref<?xi4>
        memref.store %v, %y[%i] : memref<?xi4>

    After:
        %byte = arith.shrui %i, %c1 : index
        %0 = memref.load %x[%byte] : memref<?xi8>
        %1 = arith.shrui %0, %shift : i8           // 0 or 4, by the last bit of %i
        %v = arith.andi %1, %c15 : i8
        %2 = memref.load %y[%byte] : memref<?xi8>
        %3 = arith.andi %2, %others : i8           // what its neighbours are
        %4 = arith.ori %3, %shifted : i8
        memref.store %4, %y[%byte] : memref<?xi8>

    An element is a number without a sign between two ops; what looks at its sign is given one. The extents of
    a buffer stay those of its elements: of its bytes only the first ones are there.

    Requires: `lower-device-kernels`, of which each invocation stores all elements of a byte, or none.
    Leaves: no integers of 2 and 4 bits in kernels of the device, and no memory of i1; functions of the host
    as they are.
    """

    name: ClassVar[str] = "expand-packed"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp) and is_device_kernel(function):
                _expand(function)


def _expand(function: FuncOp) -> None:
    plans = [plan for op in function.walk() if (plan := _plan_of(op)) is not None]
    for value in list(_values(function)):
        kind = _changed(value.type)
        if kind != value.type:
            Rewriter.replace_value_with_new_type(value, kind)
    function.update_function_type()
    for op, build in plans:
        with keep_location(op):
            results = build(LoopBuilder(InsertPoint.before(op)))
        for result, old in zip(results, op.results):
            result.name_hint = old.name_hint
        Rewriter.replace_op(op, [], results)


def _values(function: FuncOp) -> Iterator[SSAValue]:
    for op in function.walk():
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args


def _changed(kind: Attribute) -> Attribute:
    """What stands for a type."""
    if isinstance(kind, MemRefType) and is_packed(kind.element_type):
        return MemRefType(i8, kind.shape, kind.layout, kind.memory_space)
    return i8 if _bits(kind) else kind


def _bits(kind: Attribute) -> int:
    """The bits of a number that has bytes for its type from here on; 0 of others."""
    return kind.bitwidth if is_packed(kind) and isinstance(kind, IntegerType) and kind != i1 else 0


Build = Callable[[LoopBuilder], Sequence[SSAValue]]


def _plan_of(op: Operation) -> tuple[Operation, Build] | None:
    """What an op becomes once types have changed, by the types that it has; None where it stays."""
    if isinstance(op, memref.LoadOp | memref.StoreOp):
        assert isinstance(op.memref.type, MemRefType)
        element = op.memref.type.element_type
        if not isinstance(element, IntegerType) or not is_packed(element):
            return None
        bits = element.bitwidth
        if isinstance(op, memref.LoadOp):
            return op, lambda b: [_load(b, op, bits)]
        return op, lambda b: _store(b, op, bits)
    given, made = (list(map(_bits, _types(side))) for side in (op.operands, op.results))
    if not any((*given, *made)) or not op.name.startswith("arith."):
        return None
    if isinstance(op, arith.SelectOp):
        return None
    return op, lambda b: [_computed(b, op, given, made[0])]


def _types(values: Sequence[SSAValue]) -> list[Attribute]:
    return [value.type for value in values]


@dataclass(frozen=True)
class _Place:
    """Where an element of a packed buffer lies."""

    bytes: SSAValue
    byte: Sequence[SSAValue]
    """Its index in them; none of a single element."""
    shift: SSAValue
    """Bits of the byte that stand before it, as an i8."""

    @staticmethod
    def of(b: LoopBuilder, buffer: SSAValue, indices: Sequence[SSAValue], bits: int) -> _Place:
        each = 8 // bits
        number: Index = 0
        for axis, index in enumerate(indices):
            number = index if number == 0 else b.plus(b.mul(number, b.dim(buffer, axis)), index)
        flat = collapse(b, buffer, [list(range(len(indices)))]) if indices else buffer
        byte = [b.floordiv(number, each)] if indices else []
        inside = b.mul(b.rem(number, each), bits)
        return _Place(flat, byte, b.insert(IndexCastOp(inside, i8)))

    def load(self, b: LoopBuilder) -> SSAValue:
        return b.load(self.bytes, self.byte)


def _load(b: LoopBuilder, op: memref.LoadOp, bits: int) -> SSAValue:
    place = _Place.of(b, op.memref, op.indices, bits)
    moved = b.insert(arith.ShRUIOp(place.load(b), place.shift))
    found = _cut(b, moved, bits)
    return compare_integers(b, "ne", found, b.constant(0, i8)) if bits == 1 else found


def _store(b: LoopBuilder, op: memref.StoreOp, bits: int) -> Sequence[SSAValue]:
    """What lies around the element in its byte stays."""
    place = _Place.of(b, op.memref, op.indices, bits)
    value = b.insert(ExtUIOp(op.value, i8)) if bits == 1 else op.value
    mask = b.insert(arith.ShLIOp(b.constant(_mask(bits), i8), place.shift))
    others = b.insert(arith.XOrIOp(mask, b.constant(-1, i8)))
    around = b.insert(arith.AndIOp(place.load(b), others))
    moved = b.insert(arith.ShLIOp(value, place.shift))
    b.store(b.insert(arith.OrIOp(around, moved)), place.bytes, place.byte)
    return []


def _mask(bits: int) -> int:
    return (1 << bits) - 1


def _cut(b: LoopBuilder, value: SSAValue, bits: int) -> SSAValue:
    """The lowest bits of a byte."""
    return b.insert(arith.AndIOp(value, b.constant(_mask(bits), i8)))


def _with_sign(b: LoopBuilder, value: SSAValue, bits: int) -> SSAValue:
    """A number of some bits with its sign."""
    above = b.constant(8 - bits, i8)
    return b.insert(arith.ShRSIOp(b.insert(arith.ShLIOp(value, above)), above))


def _computed(b: LoopBuilder, op: Operation, given: Sequence[int], made: int) -> SSAValue:
    """An op of `arith` on bytes, of which operands and the result hold some bits, or are what they were."""
    if isinstance(op, arith.ConstantOp):
        assert isinstance(op.value, IntegerAttr)
        return b.constant(op.value.value.data & _mask(made), i8)
    operands = list(op.operands)
    if isinstance(op, _SIGNED) or (
        isinstance(op, arith.CmpiOp) and op.predicate.value.data in _SIGNED_COMPARISONS
    ):
        operands = [_with_sign(b, v, bits) if bits else v for v, bits in zip(operands, given)]
    kind = op.results[0].type
    resizes = isinstance(op, arith.ExtSIOp | arith.ExtUIOp | arith.TruncIOp)
    if resizes and operands[0].type == kind:
        result = operands[0]
    else:
        result = b.insert(
            type(op).create(operands=operands, result_types=[kind], properties=dict(op.properties))
        )
    return _cut(b, result, made) if made else result
