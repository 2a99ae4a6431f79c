"""Copies the body of a structured op to where its loop runs, on scalars or on vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, VectorType, i1
from xdsl.dialects.linalg.ops import IndexOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from openinfer.dialects.extensions.arith import Arith
from openinfer.lowering.kernels.builder import LoopBuilder

_EXTENDED = {op.name: op for op in Arith.operations}
_VECTOR_OPS = frozenset(_EXTENDED) | {op.name for op in math.Math.operations}


def can_be_vector(op: Operation) -> bool:
    """Whether an op of a body does to vectors what it does to scalars."""
    return op.name in _VECTOR_OPS or isinstance(op, IndexOp | YieldOp)


def clone_body(
    b: LoopBuilder,
    block: Block,
    values: Mapping[SSAValue, SSAValue],
    index: Callable[[int], SSAValue],
) -> list[SSAValue]:
    """Inserts the ops of a block on `values` for its arguments; returns what it yields.

    An op with a vector operand becomes an op on vectors, its scalar operands fill all lanes.
    Results that depend on no vector stay scalars.
    """
    known = dict(values)
    constants: dict[tuple[SSAValue, Attribute], SSAValue] = {}

    def constant(source: SSAValue, kind: Attribute) -> SSAValue:
        if (source, kind) not in constants:
            assert isinstance(source.owner, arith.ConstantOp)
            value = source.owner.value
            assert isinstance(value, FloatAttr | IntegerAttr)
            constants[source, kind] = b.constant(value.value.data, kind)
        return constants[source, kind]

    def scalar(operand: SSAValue) -> SSAValue:
        if operand in known:
            return known[operand]
        if isinstance(operand.owner, arith.ConstantOp):
            return constant(operand, operand.type)
        # Defined around the op: the same for all elements.
        return operand

    def in_lanes(operand: SSAValue, lanes: int) -> SSAValue:
        if operand not in known and isinstance(operand.owner, arith.ConstantOp):
            return constant(operand, VectorType(operand.type, [lanes]))
        value = scalar(operand)
        return value if isinstance(value.type, VectorType) else b.splat(value, lanes)

    for op in block.ops:
        if isinstance(op, YieldOp):
            return [scalar(operand) for operand in op.operands]
        if isinstance(op, IndexOp):
            known[op.result] = index(op.dim.value.data)
        elif not isinstance(op, arith.ConstantOp):
            lanes = _lanes_of([known.get(operand) for operand in op.operands])
            if lanes is None:
                clone = op.clone({o: scalar(o) for o in op.operands})
            else:
                clone = _on_vectors(op, lanes, scalar, in_lanes)
            b.builder.insert(clone)
            known.update(zip(op.results, clone.results))
    raise AssertionError("a body ends in a yield")


def _lanes_of(values: list[SSAValue | None]) -> int | None:
    for value in values:
        if value is not None and isinstance(value.type, VectorType):
            return value.type.get_shape()[0]
    return None


def _on_vectors(
    op: Operation,
    lanes: int,
    scalar: Callable[[SSAValue], SSAValue],
    in_lanes: Callable[[SSAValue, int], SSAValue],
) -> Operation:
    operands = [in_lanes(operand, lanes) for operand in op.operands]
    if isinstance(op, arith.SelectOp):
        condition = scalar(op.cond)
        if condition.type == i1:
            # One decision for all lanes.
            operands[0] = condition
    return _EXTENDED.get(op.name, type(op)).create(
        operands=operands,
        result_types=[VectorType(result.type, [lanes]) for result in op.results],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )
