"""Views of equal bytes in other shapes become memref operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.lowering.locations import give_location


@dataclass(frozen=True)
class LowerViews(ModulePass):
    """A view of an arena buffer is another view of the arena; others are flattened and cut anew.

    Before:
        %v = nn.view %x [%n] : memref<?x4xf32> to memref<?xf32>
    After:
        %v = memref.collapse_shape %x [[0, 1]] : memref<?x4xf32> into memref<?xf32>

    Requires: `plan-memory`.
    Leaves: no `nn.view`.
    """

    name: ClassVar[str] = "lower-views"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for view in [o for o in op.walk() if isinstance(o, nn.ViewOp)]:
            new, result = _lower(view)
            give_location(view.location, *new)
            result.name_hint = view.view.name_hint
            Rewriter.replace_op(view, new, [result])


def _lower(op: nn.ViewOp) -> tuple[list[Operation], SSAValue]:
    kind = op.view.type
    assert isinstance(kind, MemRefType)
    source = op.source.owner
    if isinstance(source, memref.ViewOp):
        view = memref.ViewOp(source.source, source.byte_shift, list(op.sizes), kind)
        return [view], view.result
    flat, new = _flatten(op.source)
    if len(kind.get_shape()) == 1 and flat.type == kind:
        return new, flat
    return _cut(flat, new, kind, list(op.sizes))


def _flatten(value: SSAValue) -> tuple[SSAValue, list[Operation]]:
    """One dimension of all elements."""
    kind = value.type
    assert isinstance(kind, MemRefType)
    shape = kind.get_shape()
    if len(shape) == 1:
        return value, []
    total = 1
    for extent in shape:
        total = DYNAMIC_INDEX if DYNAMIC_INDEX in (total, extent) else total * extent
    flat = MemRefType(kind.element_type, [total])
    if not shape:
        op: Operation = memref.ExpandShapeOp(
            operands=[value, []],
            result_types=[flat],
            properties={
                "reassociation": _groups([]),
                "static_output_shape": DenseArrayBase.from_list(i64, [1]),
            },
        )
    else:
        op = memref.CollapseShapeOp(
            operands=[value],
            result_types=[flat],
            properties={"reassociation": _groups([list(range(len(shape)))])},
        )
    return op.results[0], [op]


def _cut(
    flat: SSAValue, new: list[Operation], kind: MemRefType[Attribute], sizes: list[SSAValue]
) -> tuple[list[Operation], SSAValue]:
    shape = kind.get_shape()
    if not shape:
        op: Operation = memref.CollapseShapeOp(
            operands=[flat], result_types=[kind], properties={"reassociation": _groups([])}
        )
    else:
        op = memref.ExpandShapeOp(
            operands=[flat, sizes],
            result_types=[kind],
            properties={
                "reassociation": _groups([list(range(len(shape)))]),
                "static_output_shape": DenseArrayBase.from_list(i64, list(shape)),
            },
        )
    return [*new, op], op.results[0]


def _groups(groups: list[list[int]]) -> ArrayAttr[Attribute]:
    return ArrayAttr([ArrayAttr([IntegerAttr(d, i64) for d in group]) for group in groups])
