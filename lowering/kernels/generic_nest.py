"""`linalg.generic` as a nest: what every machine's schedule of it begins with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, MemRefType, VectorType
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp, IndexOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.clone_body import clone_body
from openinfer.lowering.kernels.nest import Access, Nest, nest_extents
from openinfer.lowering.kernels.nest_loops import Body, Combiner, Values
from openinfer.lowering.kernels.numeric import INF


def nest_of(b: LoopBuilder, op: GenericOp, operands: Sequence[SSAValue]) -> Nest:
    """The nest of an op, simplified, over `operands` in place of the op's own."""
    maps = [attribute.data for attribute in op.indexing_maps]
    accesses = [
        Access.of(value, map.results if isinstance(value.type, MemRefType) else ())
        for value, map in zip(operands, maps)
    ]
    count = len(op.inputs)
    reduces = [kind.data == IteratorType.REDUCTION for kind in op.iterator_types]
    extents = nest_extents(b, len(reduces), accesses, op.name)
    nest = Nest(extents, reduces, accesses[:count], accesses[count:])
    nest.simplify(kept=frozenset(_wanted_indices(op.body.block)))
    return nest


def body_of(op: GenericOp) -> Body:
    """The body of an op, built where its loops are."""
    block = op.body.block

    def body(
        b: LoopBuilder, inputs: Values, outputs: Values, index: Callable[[int], SSAValue]
    ) -> Values:
        values: dict[SSAValue, SSAValue] = dict(zip(block.args, (*inputs, *outputs)))
        return clone_body(b, block, values, index)

    return body


def _wanted_indices(block: Block) -> Sequence[int]:
    return [op.dim.value.data for op in block.ops if isinstance(op, IndexOp)]


_COMBINERS: dict[str, tuple[str, type[Operation]]] = {
    op.name: (kind, op)
    for kind, op in (
        ("add", arith.AddfOp),
        ("add", arith.AddiOp),
        ("mul", arith.MulfOp),
        ("mul", arith.MuliOp),
        ("maximumf", arith.MaximumfOp),
        ("minimumf", arith.MinimumfOp),
        ("maxnumf", arith.MaxnumfOp),
        ("minnumf", arith.MinnumfOp),
        ("maxsi", arith.MaxSIOp),
        ("minsi", arith.MinSIOp),
        ("maxui", arith.MaxUIOp),
        ("minui", arith.MinUIOp),
        ("and", arith.AndIOp),
        ("or", arith.OrIOp),
        ("xor", arith.XOrIOp),
    )
}


def combiner_of(argument: BlockArgument, position: int) -> Combiner | None:
    """How the body accumulates: the one op that joins the old value and is yielded at once."""
    uses = list(argument.uses)
    if len(uses) != 1:
        return None
    user = uses[0].operation
    last = argument.block.last_op
    if user.name not in _COMBINERS or last is None or last.operands[position] not in user.results:
        return None
    if len(list(user.results[0].uses)) != 1 or user.operands[0] == user.operands[1]:
        return None
    kind, op = _COMBINERS[user.name]
    element = argument.type
    assert not isinstance(element, VectorType)

    def join(x: SSAValue, y: SSAValue) -> Operation:
        return op.create(operands=[x, y], result_types=[x.type], properties=dict(user.properties))

    return Combiner(kind, join, _identity(kind, element))


def _identity(kind: str, element: object) -> float | int:
    """What changes nothing when it is joined."""
    if kind in ("add", "or", "xor", "maxui"):
        return 0
    if kind == "mul":
        return 1
    if kind in ("maximumf", "maxnumf"):
        return -INF
    if kind in ("minimumf", "minnumf"):
        return INF
    assert isinstance(element, IntegerType)
    if kind == "maxsi":
        return -(1 << (element.bitwidth - 1))
    if kind == "minsi":
        return (1 << (element.bitwidth - 1)) - 1
    return -1
