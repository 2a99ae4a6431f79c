"""Builds and reads `linalg.generic`: bodies as Python callables, maps by shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import tensor
from xdsl.dialects.builtin import AffineMapAttr, TensorType
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from openinfer.dialects import nn
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.runtime.sizes import Size

PARALLEL = IteratorTypeAttr(IteratorType.PARALLEL)
REDUCTION = IteratorTypeAttr(IteratorType.REDUCTION)

Body = Callable[[LoopBuilder, Sequence[SSAValue]], SSAValue]
"""Emits the element of the result from one element of each input, then the current result."""


def identity_map(rank: int) -> AffineMap:
    return AffineMap.identity(rank)


def broadcast_map(source: Sequence[Size], target: Sequence[Size]) -> AffineMap:
    """From the indices of `target` to those of `source`, aligned right, size 1 stretched."""
    rank, lead = len(target), len(target) - len(source)
    results: list[AffineExpr] = []
    for i, size in enumerate(source):
        stretched = size.constant == 1 and target[lead + i].constant != 1
        results.append(AffineConstantExpr(0) if stretched else AffineDimExpr(lead + i))
    return AffineMap(rank, 0, tuple(results))


def empty(kind: TensorType[Attribute]) -> tuple[list[Operation], SSAValue]:
    """A `tensor.empty` of a type with `#nn.dims`, and the sizes that it needs."""
    sizes = [nn.SizeOp(size) for size in nn.dims_of(kind) if size.constant is None]
    op = tensor.EmptyOp([size.value for size in sizes], kind)
    return [*sizes, op], op.tensor


def generic(
    inputs: Sequence[SSAValue],
    maps: Sequence[AffineMap],
    result: TensorType[Attribute],
    body: Body,
    *,
    initial: SSAValue | None = None,
    result_map: AffineMap | None = None,
    iterators: Sequence[IteratorTypeAttr] | None = None,
) -> tuple[list[Operation], linalg.GenericOp]:
    """A generic op with one result; without `initial` the result starts as `tensor.empty`."""
    new: list[Operation] = []
    if initial is None:
        new, initial = empty(result)
    rank = len(result.get_shape())
    block = Block(arg_types=[nn.element_of(v) for v in (*inputs, initial)])
    builder = LoopBuilder(InsertPoint.at_end(block))
    value = body(builder, block.args)
    builder.do(linalg.YieldOp(value))
    op = linalg.GenericOp(
        inputs,
        [initial],
        Region(block),
        [AffineMapAttr(m) for m in (*maps, result_map or identity_map(rank))],
        iterators or [PARALLEL] * rank,
        [result],
    )
    return [*new, op], op


def is_elementwise(op: linalg.GenericOp) -> bool:
    """All loops parallel, one result, written at its own indices."""
    maps = [m.data for m in op.indexing_maps]
    rank = len(op.iterator_types)
    return (
        len(op.outputs) == 1
        and all(kind == PARALLEL for kind in op.iterator_types)
        and maps[-1] == identity_map(rank)
        and not op.body.block.args[-1].uses
    )


def input_maps(op: linalg.GenericOp) -> list[AffineMap]:
    """The indexing map of each input."""
    return [m.data for m in op.indexing_maps.data[: len(op.inputs)]]


def uses_index(op: linalg.GenericOp) -> bool:
    """Whether the body asks for its loop indices."""
    return any(isinstance(inner, linalg.IndexOp) for inner in op.body.block.ops)


def is_elementwise_on_buffers(op: linalg.GenericOp) -> bool:
    """`is_elementwise` for the destination form."""
    return not op.res and is_elementwise(op)
