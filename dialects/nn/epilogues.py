"""The body of a product: what is done with each sum before it is stored."""

from __future__ import annotations

from xdsl.dialects.builtin import AffineMapAttr, AnyFloat, ArrayAttr, IntegerType, f32, f64
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from openinfer.dialects.nn.base import NNOp, YieldOp
from openinfer.dialects.nn.checks import (
    Dim,
    Dims,
    element,
    expect_element,
    fits,
    refuse,
    shape_of,
    text,
)


def check_extras(op: NNOp, maps: ArrayAttr[AffineMapAttr] | None, result: Dims) -> None:
    """That each extra operand has a map from the indices of the result to its own.

    Raises VerifyException.
    """
    extras, given = op.extras, maps.data if maps is not None else ()
    if len(extras) != len(given):
        refuse(op, f"one map for each extra operand: {len(extras)} operands, {len(given)} maps")
    for number, (value, attribute) in enumerate(zip(extras, given)):
        mapping, dims = attribute.data, shape_of(value)
        found = (mapping.num_dims, mapping.num_symbols, len(mapping.results))
        if found != (len(result), 0, len(dims)):
            refuse(
                op,
                f"the map {mapping} of extra operand {number} does not lead from the indices of "
                f"{text(result)} to those of {text(dims)}",
            )
        for expr, size in zip(mapping.results, dims):
            if not _inside(expr, size, result):
                refuse(
                    op,
                    f"the map {mapping} reads extra operand {number} of shape {text(dims)} outside "
                    f"its bounds for a result {text(result)}",
                )


def check_body(op: NNOp, sums: int = 1, results: int = 1) -> None:
    """That the body takes its sums and one element of each extra operand, and yields what is stored: one
    element, or as many as `results`.

    Raises VerifyException.
    """
    extras = op.extras
    if not op.body:
        if extras:
            refuse(op, f"{len(extras)} extra operands and no body that takes them")
        return
    if len(op.body[0].blocks) != 1:
        refuse(op, f"the body has {len(op.body[0].blocks)} blocks, expected 1")
    block = op.body[0].block
    found = block.arg_types
    if len(found) != sums + len(extras):
        refuse(op, f"the body takes {len(found)} arguments, expected {sums + len(extras)}")
    for kind in found[:sums]:
        if isinstance(element(op.inputs[0]), AnyFloat) or getattr(op, "in_bytes", False):
            if kind not in (f32, f64):
                refuse(op, f"the body takes a product of type {kind}, expected f32 or f64")
        elif not isinstance(kind, IntegerType):
            refuse(op, f"the body takes a product of type {kind}, expected an integer")
    for number, (kind, value) in enumerate(zip(found[sums:], extras), sums):
        expect_element(op, f"argument {number} of the body", kind, element(value))
    last = block.last_op
    if not isinstance(last, YieldOp):
        refuse(op, "the body ends without nn.yield")
    wanted = element(op.output)
    if tuple(last.values.types) != (wanted,) * results:
        given = ", ".join(str(t) for t in last.values.types)
        expected = ", ".join([str(wanted)] * results)
        refuse(op, f"the body yields ({given}), expected ({expected})")


def _inside(expr: AffineExpr, size: Dim, result: Dims) -> bool:
    """Whether a result of a map stays within `size`, as far as that is easily seen."""
    if isinstance(expr, AffineDimExpr):
        return fits(result[expr.position], size)
    if isinstance(expr, AffineConstantExpr):
        return expr.value >= 0 and (not isinstance(size, int) or expr.value < max(size, 1))
    return True
