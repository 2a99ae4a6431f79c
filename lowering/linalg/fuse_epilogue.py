"""Elementwise consumers of a matmul or a convolution run on its accumulators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    f32,
    f64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.fusing import may_join
from openinfer.lowering.kernels.elements import accumulator_of
from openinfer.lowering.linalg.fuse_elementwise import clone_body
from openinfer.lowering.linalg.generic import (
    identity_map,
    input_maps,
    is_elementwise,
    uses_index,
)
from openinfer.lowering.locations import absorb_nodes, give_location


@dataclass(frozen=True)
class FuseEpilogue(ModulePass):
    """Bias, activation and residual become the body of the matmul or convolution before them.

    Before:
        %y = nn.matmul(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
        %z = linalg.generic … ins(%y, %bias) { %0 = arith.addf %in, %in_1 : f32 … }
    After:
        %z = nn.matmul(%x, %w) extras(%bias) {maps = [affine_map<(d0, d1) -> (d1)>]} {
        ^bb0(%in: f32, %in_1: f32):
          %0 = arith.addf %in, %in_1 : f32
          nn.yield %0 : f32 } : …

    Requires: level `linalg` on tensors, elementwise chains fused.
    Leaves: a product with several users, or with a barrier behind it, as it is; what the machine computes
        better in a kernel of its own (`Demands.takes_in`).
    """

    name: ClassVar[str] = "fuse-epilogue"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for product in [o for o in op.walk() if isinstance(o, nn.MatmulOp | nn.ConvOp)]:
            current: Product | None = product
            while current is not None:
                current = _fuse_one(current)


Product = nn.MatmulOp | nn.ConvOp


def accumulator_type(op: Product) -> Attribute:
    """What products are summed in: f32 for floats up to f32, i32 for packed integers, else the
    result's own type."""
    if op.body:
        return op.body[0].block.args[0].type
    element = nn.element_of(op.inputs[0])
    if isinstance(element, AnyFloat):
        wide = [e for e in (element, nn.element_of(op.inputs[1])) if e == f64]
        return f64 if wide else f32
    return accumulator_of(nn.element_of(op.output))


def _fuse_one(matmul: Product) -> Product | None:
    result = matmul.result[0]
    users = {use.operation for use in result.uses}
    if len(users) != 1:
        return None
    (consumer,) = users
    if not isinstance(consumer, linalg.GenericOp) or not is_elementwise(consumer):
        return None
    if uses_index(consumer) or matmul.parent_block() is not consumer.parent_block():
        return None
    if not may_join(matmul, consumer) or not demands_of(matmul).takes_in(matmul, consumer):
        return None
    rank = len(consumer.iterator_types)
    maps = input_maps(consumer)
    if any(m != identity_map(rank) for v, m in zip(consumer.inputs, maps) if v is result):
        return None
    if nn.dims_of(consumer.res[0]) != nn.dims_of(result):
        return None
    return _fuse(matmul, consumer)


def _fuse(matmul: Product, consumer: linalg.GenericOp) -> Product:
    result = matmul.result[0]
    maps = input_maps(consumer)
    extras: list[SSAValue] = list(matmul.extras)
    places: list[AffineMap] = [m.data for m in matmul.maps or ()]
    first_new = len(extras)
    for value, mapping in zip(consumer.inputs, maps):
        if value is not result:
            extras.append(value)
            places.append(mapping)
    accumulator = accumulator_type(matmul)
    block = Block(arg_types=[accumulator, *(nn.element_of(v) for v in extras)])
    stored = nn.element_of(result)
    if matmul.body:
        old = matmul.body[0].block
        (value,) = clone_body(old, block.args[: 1 + first_new], block)
    else:
        value = block.args[0]
        if accumulator != stored:
            # The matmul's own result is rounded once before anything follows it.
            round_op = narrow(value, stored)
            block.add_op(round_op)
            value = round_op.results[0]
    rest = iter(block.args[1 + first_new :])
    arguments = [value if v is result else next(rest) for v in consumer.inputs]
    # The last argument is the old content of the result, which an elementwise body never reads.
    (final,) = clone_body(consumer.body.block, [*arguments, value], block)
    block.add_op(nn.YieldOp(final))
    kind = consumer.res[0].type
    assert isinstance(kind, TensorType)
    properties = {**matmul.own_properties, "maps": ArrayAttr([AffineMapAttr(m) for m in places])}
    new = type(matmul)(matmul.inputs, [kind], (), properties, Region(block), extras=extras)
    new.attributes.update(matmul.attributes)
    give_location(matmul.location, new)
    absorb_nodes(new, matmul, consumer)
    new.result[0].name_hint = consumer.res[0].name_hint
    Rewriter.replace_op(consumer, [new], new.result)
    matmul.detach()
    matmul.erase()
    return new


def narrow(value: SSAValue, element: Attribute) -> arith.TruncFOp | arith.ExtFOp | arith.TruncIOp:
    """The op that makes what is stored of an accumulator of another type."""
    if isinstance(element, IntegerType):
        return arith.TruncIOp(value, element)
    assert isinstance(element, AnyFloat)
    assert isinstance(value.type, AnyFloat)
    if element.bitwidth < value.type.bitwidth:
        return arith.TruncFOp(value, element)
    return arith.ExtFOp(value, element)
