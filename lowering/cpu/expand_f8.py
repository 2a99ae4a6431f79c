"""The pass `expand-f8`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float8E4M3FNType,
    Float8E5M2Type,
    FloatAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    VectorType,
    f32,
    i8,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects.nn.elements import dtype_name
from openinfer.lowering.cpu.f8 import narrow, widen
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import element_type, like, resize_float
from openinfer.lowering.locations import give_location
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import to_storage

_F8 = (Float8E5M2Type, Float8E4M3FNType)
_COMPUTES = ("arith.", "math.")
"""Ops of these dialects look at the number, those of all others only move it."""
_MOVES = ("arith.bitcast", "arith.constant", "arith.select")
_ALSO_COMPUTE = (vector.FMAOp, vector.ReductionOp)


@dataclass(frozen=True)
class ExpandF8(ModulePass):
    """
    Turn 8-bit floats into bytes: conversions in integer arithmetic, all else in f32.

    Before:
        %a = vector.load %x[%i] : memref<?xf8E5M2>, vector<16xf8E5M2>
        %b = arith.extf %a : vector<16xf8E5M2> to vector<16xf32>

    After:
        %a = vector.load %x[%i] : memref<?xi8>, vector<16xi8>
        %0 = arith.extui %a : vector<16xi8> to vector<16xi16>
        %1 = arith.shli %0, %c8 : vector<16xi16>
        %2 = arith.bitcast %1 : vector<16xi16> to vector<16xf16>
        %b = arith.extf %2 : vector<16xf16> to vector<16xf32>

    A narrower result is rounded once, to nearest even. Subnormal numbers are kept, overflow of f8E5M2
    gives infinity and of f8E4M3FN, which has none, NaN.

    Requires: the loops level. Leaves: no type f8E5M2 or f8E4M3FN.
    """

    name: ClassVar[str] = "expand-f8"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not any(_is_f8(value.type) for value in _values(op)):
            return
        for inner in [o for o in op.walk() if _computes(o)]:
            _in_f32(inner)
        for inner in [o for o in op.walk() if isinstance(o, arith.ExtFOp | arith.TruncFOp)]:
            _convert(inner)
        for inner in [o for o in op.walk() if isinstance(o, arith.ConstantOp)]:
            _constant(inner)
        for value in list(_values(op)):
            if _is_f8(value.type):
                Rewriter.replace_value_with_new_type(value, _bytes(value.type))
        for inner in list(op.walk()):
            _finish(inner)


def _values(op: Operation) -> Iterator[SSAValue]:
    """All values that are made inside of an op."""
    for inner in op.walk():
        yield from inner.results
        for region in inner.regions:
            for block in region.blocks:
                yield from block.args


def _is_f8(kind: Attribute) -> bool:
    return isinstance(element_type(kind), _F8)


def _bytes(kind: Attribute) -> Attribute:
    """The type with i8 for each element."""
    if isinstance(kind, MemRefType):
        return MemRefType(i8, kind.shape, kind.layout, kind.memory_space)
    return like(kind, i8) if _is_f8(kind) else kind


def _computes(op: Operation) -> bool:
    """Whether an op does more with an 8-bit float than to move or to convert it to or from f32."""
    if not any(_is_f8(value.type) for value in (*op.operands, *op.results)):
        return False
    if isinstance(op, arith.ExtFOp | arith.TruncFOp):
        return f32 not in (element_type(op.operands[0]), element_type(op.results[0]))
    if op.name in _MOVES:
        return False
    return op.name.startswith(_COMPUTES) or isinstance(op, _ALSO_COMPUTE)


def _builder(op: Operation) -> LoopBuilder:
    return LoopBuilder(InsertPoint.before(op))


def _in_f32(op: Operation) -> None:
    """The op on f32, its operands widened before, its result rounded after it."""
    _replace(op, _conversion if isinstance(op, arith.ExtFOp | arith.TruncFOp) else _operation)


def _conversion(b: LoopBuilder, op: Operation) -> SSAValue:
    return resize_float(b, op.operands[0], element_type(op.results[0]))


def _operation(b: LoopBuilder, op: Operation) -> SSAValue:
    (result,) = op.results
    operands = [resize_float(b, v, f32) if _is_f8(v.type) else v for v in op.operands]
    kind = like(result, f32) if _is_f8(result.type) else result.type
    made = b.insert(
        type(op).create(
            operands=operands,
            result_types=[kind],
            properties=dict(op.properties),
            attributes=dict(op.attributes),
        )
    )
    return resize_float(b, made, element_type(result)) if _is_f8(result.type) else made


def _convert(op: arith.ExtFOp | arith.TruncFOp) -> None:
    """A conversion between an 8-bit float and f32."""
    source, target = element_type(op.operands[0]), element_type(op.results[0])
    if isinstance(source, _F8):
        _replace(op, lambda b, o: widen(b, o.operands[0]))
    elif isinstance(target, _F8):
        _replace(op, lambda b, o: narrow(b, o.operands[0], target))


def _replace(op: Operation, build: Callable[[LoopBuilder, Operation], SSAValue]) -> None:
    before = op.prev_op
    value = build(_builder(op), op)
    made = before.next_op if before is not None else op.parent_block().first_op  # pyright: ignore
    while made is not None and made is not op:
        give_location(op.location, made)
        made = made.next_op
    value.name_hint = op.results[0].name_hint
    Rewriter.replace_op(op, [], [value])


def _constant(op: arith.ConstantOp) -> None:
    """The bits of a constant."""
    kind, value = op.result.type, op.value
    if not _is_f8(kind):
        return
    dtype = DTYPES[dtype_name(element_type(kind))]
    if isinstance(value, FloatAttr):
        code = int(to_storage(dtype, float(value.value.data)).view("int8"))
        op.properties["value"] = IntegerAttr(code, i8)
    else:
        assert isinstance(value, DenseIntOrFPElementsAttr)
        assert isinstance(kind, VectorType)
        codes = to_storage(dtype, [float(v) for v in value.iter_values()])  # pyright: ignore
        type = VectorType(i8, kind.shape)
        numbers = codes.view("int8").tolist()
        if value.is_splat():
            numbers = numbers[:1]
        op.properties["value"] = DenseIntOrFPElementsAttr.from_list(type, numbers)


def _finish(op: Operation) -> None:
    """What says a type outside of values; bitcasts between what are bytes on both sides now."""
    if isinstance(op, arith.BitcastOp) and op.operands[0].type == op.results[0].type:
        Rewriter.replace_op(op, [], [op.operands[0]])
    elif isinstance(op, FuncOp):
        kind = op.function_type
        types = [[_bytes(t) for t in side] for side in (kind.inputs, kind.outputs)]
        op.properties["function_type"] = type(kind).from_lists(*types)
    elif isinstance(op, memref.GlobalOp) and _is_f8(op.type):
        _global(op)


def _global(op: memref.GlobalOp) -> None:
    kind = op.type
    dtype = DTYPES[dtype_name(element_type(kind))]
    if isinstance(op.initial_value, DenseIntOrFPElementsAttr):
        codes = to_storage(dtype, [float(v) for v in op.initial_value.iter_values()])  # pyright: ignore
        flat = VectorType(i8, [codes.size])
        op.properties["initial_value"] = DenseIntOrFPElementsAttr.from_list(
            flat, codes.view("int8").tolist()
        )
    op.properties["type"] = _bytes(kind)
