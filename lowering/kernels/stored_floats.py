"""Floats that a machine stores, but does not compute with: integers that are converted to f32 and back.

    expand(op, StoredFloats((BFloat16Type,), widen, narrow))

turns everything inside of `op`: conversions to and from f32 are what `widen` and `narrow` build, other ops on
such floats become ops on f32 between conversions, and what only moves them moves integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FixedBitwidthType,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
    f32,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects.nn.elements import dtype_name
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import element_type, like, resize_float
from openinfer.lowering.locations import give_location
from openinfer.lowering.operations import operations_of
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.storage import to_storage

_COMPUTES = ("arith.", "math.")
"""Ops of these dialects look at the number, those of all others only move it."""
_MOVES = ("arith.bitcast", "arith.constant", "arith.select")
_ALSO_COMPUTE = (vector.FMAOp, vector.ReductionOp)


@dataclass(frozen=True)
class StoredFloats:
    """Float types, and how they become f32 and are made of it."""

    kinds: tuple[type[AnyFloat], ...]
    widen: Callable[[LoopBuilder, SSAValue], SSAValue]
    narrow: Callable[[LoopBuilder, SSAValue, Attribute], SSAValue]
    """Of an f32, rounded to nearest even, as the type that is named."""


def expand(op: Operation, stored: StoredFloats) -> None:
    """Leaves none of the types inside of an op, nor in the types of its functions."""
    _Expansion(op, stored).run()


class _Expansion:
    def __init__(self, op: Operation, stored: StoredFloats) -> None:
        self.op, self.stored = op, stored

    def run(self) -> None:
        # Values share their types: each one is looked at once.
        kinds = {id(value.type): value.type for value in _values(self.op)}
        if not any(map(self._is_one, kinds.values())):
            return
        for inner in [o for o in operations_of(self.op) if self._computes(o)]:
            self._in_f32(inner)
        for inner in [
            o for o in operations_of(self.op) if isinstance(o, arith.ExtFOp | arith.TruncFOp)
        ]:
            self._convert(inner)
        for inner in [o for o in operations_of(self.op) if isinstance(o, arith.ConstantOp)]:
            self._constant(inner)
        for value in list(_values(self.op)):
            if self._is_one(value.type):
                Rewriter.replace_value_with_new_type(value, self._bits(value.type))
        for inner in operations_of(self.op):
            self._finish(inner)

    def _is_one(self, kind: Attribute) -> bool:
        return type(element_type(kind)) in self.stored.kinds

    def _bits(self, kind: Attribute) -> Attribute:
        """The type with an integer for each element."""
        if not self._is_one(kind):
            return kind
        integer = _integer_of(kind)
        if isinstance(kind, MemRefType):
            return MemRefType(integer, kind.shape, kind.layout, kind.memory_space)
        return like(kind, integer)

    def _computes(self, op: Operation) -> bool:
        """Whether an op does more than to move or to convert between f32 and one of the types."""
        if not any(self._is_one(value.type) for value in (*op.operands, *op.results)):
            return False
        if isinstance(op, arith.ExtFOp | arith.TruncFOp):
            return f32 not in (element_type(op.operands[0]), element_type(op.results[0]))
        if op.name in _MOVES:
            return False
        return op.name.startswith(_COMPUTES) or isinstance(op, _ALSO_COMPUTE)

    def _in_f32(self, op: Operation) -> None:
        """The op on f32, its operands widened before, its result rounded after it."""
        converts = isinstance(op, arith.ExtFOp | arith.TruncFOp)
        _replace(op, self._conversion if converts else self._operation)

    def _conversion(self, b: LoopBuilder, op: Operation) -> SSAValue:
        (value,) = op.operands
        if self._is_one(value.type):
            value = resize_float(b, value, f32)
        return resize_float(b, value, element_type(op.results[0]))

    def _operation(self, b: LoopBuilder, op: Operation) -> SSAValue:
        (result,) = op.results
        operands = [resize_float(b, v, f32) if self._is_one(v.type) else v for v in op.operands]
        kind = like(result, f32) if self._is_one(result.type) else result.type
        made = b.insert(
            type(op).create(
                operands=operands,
                result_types=[kind],
                properties=dict(op.properties),
                attributes=dict(op.attributes),
            )
        )
        return resize_float(b, made, element_type(result)) if self._is_one(result.type) else made

    def _convert(self, op: arith.ExtFOp | arith.TruncFOp) -> None:
        """A conversion between one of the types and f32."""
        stored = self.stored
        source, target = element_type(op.operands[0]), element_type(op.results[0])
        if isinstance(source, stored.kinds):
            _replace(op, lambda b, o: stored.widen(b, o.operands[0]))
        elif isinstance(target, stored.kinds):
            _replace(op, lambda b, o: stored.narrow(b, o.operands[0], target))

    def _constant(self, op: arith.ConstantOp) -> None:
        """The bits of a constant."""
        kind, value = op.result.type, op.value
        if not self._is_one(kind):
            return
        if isinstance(value, FloatAttr):
            (code,) = _codes(kind, [float(value.value.data)])
            op.properties["value"] = IntegerAttr(code, _integer_of(kind))
        else:
            assert isinstance(value, DenseIntOrFPElementsAttr)
            assert isinstance(kind, VectorType)
            numbers = _codes(kind, [float(v) for v in value.iter_values()])  # pyright: ignore
            if value.is_splat():
                numbers = numbers[:1]
            flat = VectorType(_integer_of(kind), kind.shape)
            op.properties["value"] = DenseIntOrFPElementsAttr.from_list(flat, numbers)

    def _finish(self, op: Operation) -> None:
        """What says a type outside of values; bitcasts between what are integers on both sides now."""
        if isinstance(op, arith.BitcastOp) and op.operands[0].type == op.results[0].type:
            Rewriter.replace_op(op, [], [op.operands[0]])
        elif isinstance(op, FuncOp):
            kind = op.function_type
            types = [[self._bits(t) for t in side] for side in (kind.inputs, kind.outputs)]
            op.properties["function_type"] = type(kind).from_lists(*types)
        elif isinstance(op, memref.GlobalOp) and self._is_one(op.type):
            self._global(op)

    def _global(self, op: memref.GlobalOp) -> None:
        kind = op.type
        if isinstance(op.initial_value, DenseIntOrFPElementsAttr):
            codes = _codes(kind, [float(v) for v in op.initial_value.iter_values()])  # pyright: ignore
            flat = VectorType(_integer_of(kind), [len(codes)])
            op.properties["initial_value"] = DenseIntOrFPElementsAttr.from_list(flat, codes)
        op.properties["type"] = self._bits(kind)


def _values(op: Operation) -> Iterator[SSAValue]:
    """All values that are made inside of an op."""
    for inner in operations_of(op):
        yield from inner.results
        for region in inner.regions:
            for block in region.blocks:
                yield from block.args


def _integer_of(kind: Attribute) -> IntegerType:
    """The integer that is as wide as an element."""
    element = element_type(kind)
    assert isinstance(element, FixedBitwidthType)
    return IntegerType(element.bitwidth)


def _codes(kind: Attribute, values: list[float]) -> list[int]:
    """The bits of some elements, as integers with a sign."""
    dtype = DTYPES[dtype_name(element_type(kind))]
    return to_storage(dtype, values).view(f"int{_integer_of(kind).bitwidth}").tolist()


def _replace(op: Operation, build: Callable[[LoopBuilder, Operation], SSAValue]) -> None:
    before = op.prev_op
    value = build(LoopBuilder(InsertPoint.before(op)), op)
    made = before.next_op if before is not None else op.parent_block().first_op  # pyright: ignore
    while made is not None and made is not op:
        give_location(op.location, made)
        made = made.next_op
    value.name_hint = op.results[0].name_hint
    Rewriter.replace_op(op, [], [value])
