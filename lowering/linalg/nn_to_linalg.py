"""From whole-tensor functions to loops over elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    UnitAttr,
    UnrealizedConversionCastOp,
    i1,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import dtype_name, memory_type
from openinfer.lowering.graph.settings import python_value
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.linalg.generic import (
    PARALLEL,
    REDUCTION,
    broadcast_map,
    empty,
    generic,
    identity_map,
)
from openinfer.lowering.linalg.reduction_parts import (
    accumulator,
    combiner,
    dtype_of,
    element_count,
    emit_cast,
    neutral,
)
from openinfer.lowering.linalg.scalar_bodies import emit_body
from openinfer.lowering.linalg.scalar_emitter import memory_number
from openinfer.lowering.linalg.scalar_emitter import memory_type as scalar_type
from openinfer.lowering.locations import give_location
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import round_values


@dataclass(frozen=True)
class NnToLinalg(ModulePass):
    """Elementwise functions, reductions, fills and permutations become `linalg`; bool becomes a byte.

    Before:
        %y = nn.elementwise(%x) {kind = "neg"} : (tensor<4xf32>) -> tensor<4xf32>
    After:
        %0 = tensor.empty() : tensor<4xf32>
        %y = linalg.generic … ins(%x) outs(%0) {
          %1 = arith.negf %in : f32
          linalg.yield %1 : f32 }

    Requires: level `nn`.
    Leaves: no `nn` op but those with a hand-scheduled lowering; element types are those of memory.
    """

    name: ClassVar[str] = "nn-to-linalg"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.ops:
            if isinstance(function, FuncOp):
                _Lowering(function).run()


class _Lowering:
    def __init__(self, function: FuncOp) -> None:
        self.function = function
        self.dtypes: dict[SSAValue, str] = {}

    def run(self) -> None:
        ops = [op for op in self.function.walk() if op is not self.function]
        self._use_memory_types(ops)
        for op in ops:
            rule = _RULES.get(type(op))
            if rule is None:
                continue
            new, values = rule(self, op)
            if new or values:
                give_location(op.location, *new)
                for made in new:
                    if isinstance(made, linalg.GenericOp):
                        made.attributes.update(op.attributes)
                for value, old in zip(values, op.results):
                    value.name_hint = old.name_hint
                Rewriter.replace_op(op, new, values)
        for op in list(self.function.walk()):
            if isinstance(op, nn.FillOp) and not op.result[0].uses:
                op.detach()
                op.erase()
        self.function.update_function_type()

    def _use_memory_types(self, ops: Sequence[Operation]) -> None:
        """Remembers every dtype, then gives all values their element type in memory."""
        values: list[SSAValue] = [v for block in self.function.body.blocks for v in block.args]
        for op in ops:
            values += op.results
            values += [a for r in op.regions for b in r.blocks for a in b.args]
        for value in values:
            kind = value.type
            if isinstance(kind, TensorType) and not isinstance(kind.element_type, nn.BlockType):
                self.dtypes[value] = dtype_name(kind.element_type)
                plain = nn.with_element(kind, memory_type(kind.element_type))
                if plain != kind:
                    new = Rewriter.replace_value_with_new_type(value, plain)
                    self.dtypes[new] = self.dtypes.pop(value)

    def dtype(self, value: SSAValue) -> str:
        found = self.dtypes.get(value)
        return found if found is not None else dtype_name(nn.element_of(value))

    def is_unsigned(self, value: SSAValue) -> bool:
        if isinstance(nn.element_of(value), nn.BlockType):
            return False
        return DTYPES[self.dtype(value)].kind == "uint"

    def record(self, old: SSAValue, new: SSAValue) -> SSAValue:
        self.dtypes[new] = self.dtype(old)
        return new


Rule = Callable[[_Lowering, Operation], tuple[list[Operation], list[SSAValue]]]


def _tensor_type(value: SSAValue) -> TensorType[Attribute]:
    assert isinstance(value.type, TensorType)
    return value.type


def scalar_constant(b: LoopBuilder, value: Attribute, dtype: str) -> SSAValue:
    """The value of an `nn.fill` as a constant in the memory type of a dtype."""
    assert isinstance(value, IntegerAttr | FloatAttr)
    row = DTYPES[dtype]
    number = value.value.data
    if row.is_float:
        number = float(round_values(row, float(number)))
    return b.constant(memory_number(number, row), scalar_type(dtype))


def _elementwise(low: _Lowering, op: Operation) -> tuple[list[Operation], list[SSAValue]]:
    assert isinstance(op, nn.ElementwiseOp)
    kind, result = op.kind.data, _tensor_type(op.result[0])
    dtypes = [low.dtype(v) for v in op.inputs]
    out_dtype = low.dtype(op.result[0])
    given = op.settings.data if op.settings is not None else {}
    settings = {k: python_value(v, lambda name: name) for k, v in given.items()}
    # A fill is a constant of the body, not an operand.
    fills = {i: v.owner for i, v in enumerate(op.inputs) if isinstance(v.owner, nn.FillOp)}
    inputs = [v for i, v in enumerate(op.inputs) if i not in fills]

    def body(b: LoopBuilder, args: Sequence[SSAValue]) -> SSAValue:
        scalars: list[SSAValue] = []
        rest = iter(args)
        for i in range(len(op.inputs)):
            if i in fills:
                scalars.append(scalar_constant(b, fills[i].value, dtypes[i]))
            else:
                scalars.append(next(rest))
        return emit_body(b, kind, settings, scalars, dtypes, out_dtype)

    maps = [broadcast_map(nn.dims_of(v), nn.dims_of(result)) for v in inputs]
    new, made = generic(inputs, maps, result, body)
    return new, [low.record(op.result[0], made.res[0])]


def _fill(low: _Lowering, op: Operation) -> tuple[list[Operation], list[SSAValue]]:
    assert isinstance(op, nn.FillOp)
    if all(isinstance(use.operation, nn.ElementwiseOp) for use in op.result[0].uses):
        return [], []  # Every user takes the constant into its body.
    result = _tensor_type(op.result[0])
    new, value = fill_ops(op.value, result, low.dtype(op.result[0]))
    return new, [low.record(op.result[0], value)]


def fill_ops(
    value: Attribute, result: TensorType[Attribute], dtype: str
) -> tuple[list[Operation], SSAValue]:
    """`tensor.empty` filled with one value of a dtype."""
    from xdsl.dialects.builtin import ModuleOp as Holder

    new, start = empty(result)
    holder = Holder([])
    b = LoopBuilder(InsertPoint.at_end(holder.body.block))
    constant = scalar_constant(b, value, dtype)
    constants = list(holder.body.block.ops)
    for op in constants:
        op.detach()
    fill = linalg.FillOp([constant], [start], [result])
    return [*new, *constants, fill], fill.res[0]


def _transpose(low: _Lowering, op: Operation) -> tuple[list[Operation], list[SSAValue]]:
    assert isinstance(op, nn.TransposeOp)
    order = list(op.permutation.get_values())
    rank = len(order)
    places = [AffineDimExpr(order.index(d)) for d in range(rank)]
    new, made = generic(
        [op.inputs[0]],
        [AffineMap(rank, 0, tuple(places))],
        _tensor_type(op.result[0]),
        lambda b, args: args[0],
    )
    return new, [low.record(op.result[0], made.res[0])]


def _broadcast(low: _Lowering, op: Operation) -> tuple[list[Operation], list[SSAValue]]:
    assert isinstance(op, nn.BroadcastOp)
    source, result = op.inputs[0], _tensor_type(op.result[0])
    mapping = broadcast_map(nn.dims_of(source), nn.dims_of(result))
    new, made = generic([source], [mapping], result, lambda b, args: args[0])
    return new, [low.record(op.result[0], made.res[0])]


def _iota(low: _Lowering, op: Operation) -> tuple[list[Operation], list[SSAValue]]:
    assert isinstance(op, nn.IotaOp)
    result = _tensor_type(op.result[0])
    element = result.element_type
    axis = op.axis.value.data

    def body(b: LoopBuilder, args: Sequence[SSAValue]) -> SSAValue:
        if not result.get_shape():
            return b.constant(0, element)
        index = b.insert(linalg.IndexOp(axis))
        return b.insert(arith.IndexCastOp(index, element))

    new, made = generic([], [], result, body)
    return new, [low.record(op.result[0], made.res[0])]


def _rotary(low: _Lowering, op: Operation) -> tuple[list[Operation], list[SSAValue]]:
    """Each element with its partner: the other one of an axis of two."""
    assert isinstance(op, nn.RotaryOp)
    x, cosine, sine = op.inputs
    dtype, wide, result_dtype = (low.dtype(v) for v in (x, cosine, op.result[0]))
    *lead, last = nn.dims_of(x)
    assert last.constant is not None
    pairs, two = Size.of(last.constant // 2), Size.of(2)
    interleaved = op.interleaved is not None
    dims = (*lead, pairs, two) if interleaved else (*lead, two, pairs)
    rank = len(dims)
    half, pair = (rank - 1, rank - 2) if interleaved else (rank - 2, rank - 1)
    apart = nn.ReshapeOp([x], [nn.tensor_type(nn.element_of(x), dims)])
    places: list[AffineExpr] = [AffineDimExpr(d) for d in range(rank)]
    partner = list(places)
    partner[half] = places[half] * -1 + 1

    def angle(value: SSAValue) -> AffineMap:
        found = broadcast_map(nn.dims_of(value), (*lead, pairs))
        walked: list[AffineExpr] = [*places[: len(lead)], places[pair]]
        return found.compose(AffineMap(rank, 0, tuple(walked)))

    def body(b: LoopBuilder, args: Sequence[SSAValue]) -> SSAValue:
        own, other, c, s = args[:4]
        own, other = (emit_cast(b, value, dtype, c.type) for value in (own, other))
        along = emit_body(b, "mul", {}, [own, c], [wide, wide], wide)
        across = emit_body(b, "mul", {}, [other, s], [wide, wide], wide)
        first = emit_body(b, "sub", {}, [along, across], [wide, wide], wide)
        second = emit_body(b, "add", {}, [along, across], [wide, wide], wide)
        is_first = b.compare("eq", b.insert(linalg.IndexOp(half)), 0)
        turned = b.insert(arith.SelectOp(is_first, first, second))
        return emit_body(b, "cast", {}, [turned], [wide], result_dtype)

    new, made = generic(
        [apart.result[0], apart.result[0], cosine, sine],
        [identity_map(rank), AffineMap(rank, 0, tuple(partner)), angle(cosine), angle(sine)],
        nn.tensor_type(nn.element_of(op.result[0]), dims),
        body,
    )
    joined = nn.ReshapeOp([made.res[0]], [op.result[0].type])
    return [apart, *new, joined], [low.record(op.result[0], joined.result[0])]


def _reduce(low: _Lowering, op: Operation) -> tuple[list[Operation], list[SSAValue]]:
    assert isinstance(op, nn.ReduceOp)
    kind = op.kind.data
    if kind in ("argmax", "argmin"):
        return _marked(low, op)
    source, result = op.inputs[0], _tensor_type(op.result[0])
    dtype, out_dtype = low.dtype(source), low.dtype(op.result[0])
    unsigned = low.is_unsigned(source) or dtype == "bool"
    dims = nn.dims_of(source)
    axes = set(op.axes.get_values())
    kept = [d for d in range(len(dims)) if d not in axes]
    element = accumulator(kind, nn.element_of(source), result.element_type)
    partial = nn.tensor_type(element, [dims[d] for d in kept])
    # Of truth values the largest is 1, though a byte holds more.
    start = neutral("prod" if (kind, dtype) == ("min", "bool") else kind, element, unsigned)
    new, initial = fill_ops(start, partial, dtype_of(element))

    def combine(b: LoopBuilder, args: Sequence[SSAValue]) -> SSAValue:
        value = emit_cast(b, args[0], dtype, element)
        return b.insert(combiner(kind, element, unsigned)(args[1], value))

    rank = len(dims)
    more, made = generic(
        [source],
        [identity_map(rank)],
        partial,
        combine,
        initial=initial,
        result_map=AffineMap(rank, 0, tuple(AffineDimExpr(d) for d in kept)),
        iterators=[REDUCTION if d in axes else PARALLEL for d in range(rank)],
    )
    new += more
    value: SSAValue = made.res[0]
    if kind == "mean" or element != result.element_type:
        more, value = _finish(low, op, value, dims, axes, out_dtype)
        new += more
    if nn.dims_of(value) != nn.dims_of(result):
        reshape = nn.ReshapeOp([value], [result])
        new.append(reshape)
        value = reshape.result[0]
    return new, [low.record(op.result[0], value)]


def _finish(
    low: _Lowering,
    op: nn.ReduceOp,
    value: SSAValue,
    dims: Sequence[Size],
    axes: set[int],
    out_dtype: str,
) -> tuple[list[Operation], SSAValue]:
    """The mean's division, and the one rounding to the declared dtype."""
    count = Size.of(1)
    for axis, size in enumerate(dims):
        if axis in axes:
            count = count * size
    kind = value.type
    assert isinstance(kind, TensorType)
    target = nn.with_element(kind, _tensor_type(op.result[0]).element_type)
    size_op = nn.SizeOp(count)
    mean = op.kind.data == "mean"
    unsigned = low.is_unsigned(op.inputs[0])

    def body(b: LoopBuilder, args: Sequence[SSAValue]) -> SSAValue:
        current = args[0]
        dtype = dtype_of(current.type)
        if not isinstance(current.type, AnyFloat) and unsigned:
            dtype = f"u{dtype[1:]}"
        if mean and not isinstance(current.type, AnyFloat):
            if isinstance(target.element_type, AnyFloat):
                current, dtype = emit_body(b, "cast", {}, [current], [dtype], "f64"), "f64"
            else:
                divide = arith.DivUIOp if unsigned else arith.DivSIOp
                # The mean of nothing is 0, as its sum is.
                current = b.insert(
                    divide(current, element_count(b, count, size_op, current.type, 1))
                )
        if mean and isinstance(current.type, AnyFloat) and count.constant == 0:
            # 0 / 0, which drivers that divide by multiplying make 0.
            current = b.constant(math.nan, current.type)
        elif mean and isinstance(current.type, AnyFloat):
            current = b.insert(
                arith.DivfOp(current, element_count(b, count, size_op, current.type, 0))
            )
        # Sums in a wider integer are as good as sums in their own: both wrap.
        return emit_body(b, "cast", {"saturate": False}, [current], [dtype], out_dtype)

    rank = len(kind.get_shape())
    new, made = generic([value], [identity_map(rank)], target, body)
    lead: list[Operation] = [size_op] if mean and count.constant is None else []
    return [*lead, *new], made.res[0]


def _extract(low: _Lowering, op: Operation) -> tuple[list[Operation], list[SSAValue]]:
    assert isinstance(op, tensor.ExtractOp)
    element = nn.element_of(op.tensor)
    if element == op.result.type:
        return [], []
    new = tensor.ExtractOp(op.tensor, list(op.indices), element)
    if op.result.type != i1:
        return [new], [new.result]
    zero = arith.ConstantOp(IntegerAttr(0, IntegerType(8)))
    truth = arith.CmpiOp(new.result, zero.result, "ne")
    return [new, zero, truth], [truth.result]


def _from_index(low: _Lowering, op: Operation) -> tuple[list[Operation], list[SSAValue]]:
    """A buffer of one element that is filled with the number."""
    assert isinstance(op, nn.FromIndexOp)
    number = arith.IndexCastOp(op.index, IntegerType(64))
    new, start = empty(_tensor_type(op.value))
    fill = linalg.FillOp([number.result], [start], [op.value.type])
    return [number, *new, fill], [low.record(op.value, fill.res[0])]


def _sign_cast(low: _Lowering, op: Operation) -> tuple[list[Operation], list[SSAValue]]:
    assert isinstance(op, UnrealizedConversionCastOp)
    if op.inputs[0].type == op.outputs[0].type:
        Rewriter.replace_op(op, [], [op.inputs[0]])
    return [], []


def _marked(low: _Lowering, op: Operation) -> tuple[list[Operation], list[SSAValue]]:
    """The op says what the types of its operands no longer do: bytes are bools, integers unsigned."""
    assert isinstance(op, nn.NNOp)
    match op:
        case nn.MatmulOp() if low.dtype(op.inputs[0]) == "bool":
            op.boolean = UnitAttr()
        case nn.MatmulOp() if any(map(low.is_unsigned, op.inputs[:2])):
            op.unsigned = UnitAttr()
        case nn.ScatterOp() | nn.ScatterElementsOp() | nn.SortOp() | nn.ReduceOp() if (
            low.is_unsigned(op.inputs[0])
        ):
            op.unsigned = UnitAttr()
        case _:
            pass
    if isinstance(op, nn.GatherOp | nn.ScatterOp | nn.ElementIndexOp) and low.is_unsigned(
        op.inputs[1]
    ):
        op.unsigned_indices = UnitAttr()
    return [], []


_RULES: dict[type[Operation], Rule] = {
    nn.ElementwiseOp: _elementwise,
    nn.FillOp: _fill,
    nn.TransposeOp: _transpose,
    nn.BroadcastOp: _broadcast,
    nn.IotaOp: _iota,
    nn.ReduceOp: _reduce,
    nn.RotaryOp: _rotary,
    nn.MatmulOp: _marked,
    nn.GatherOp: _marked,
    nn.ScatterOp: _marked,
    nn.GatherElementsOp: _marked,
    nn.ScatterElementsOp: _marked,
    nn.SortOp: _marked,
    tensor.ExtractOp: _extract,
    nn.FromIndexOp: _from_index,
    UnrealizedConversionCastOp: _sign_cast,
}
