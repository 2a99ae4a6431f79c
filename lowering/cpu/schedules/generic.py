"""`linalg.generic` as vector loops.

Before:
    linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<?x384xf32>) outs(%y : memref<?x384xf32>) {
    ^bb0(%a: f32, %o: f32):
      %r = math.exp %a : f32
      linalg.yield %r : f32 }

After:
    %n = arith.muli %rows, %c384 : index
    scf.for %j = %c0 to %n step %c16 {
      %a = vector.load %x_flat[%j] : memref<?xf32>, vector<16xf32>
      %r = math.exp %a : vector<16xf32>
      vector.store %r, %y_flat[%j] : memref<?xf32>, vector<16xf32>
    } {openinfer.parallel}

Requires: bufferised; inputs are buffers or scalars; every dimension walks some axis alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FixedBitwidthType,
    IndexType,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp, IndexOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from openinfer.dialects.nn import element_of
from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.cpu.vector_width import PACKED_LANES, bits_of, lanes_of
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.clone_body import can_be_vector, clone_body
from openinfer.lowering.kernels.nest import Access, Nest, nest_extents
from openinfer.lowering.kernels.nest_loops import Combiner, Kernel, Values, emit_kernel
from openinfer.lowering.kernels.numeric import INF
from openinfer.lowering.kernels.rules import Rule


def _lower(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, GenericOp)
    block = op.body.block
    maps = [attribute.data for attribute in op.indexing_maps]
    accesses = [
        Access.of(value, map.results if isinstance(value.type, MemRefType) else ())
        for value, map in zip((*op.inputs, *op.outputs), maps)
    ]
    count = len(op.inputs)
    reduces = [kind.data == IteratorType.REDUCTION for kind in op.iterator_types]
    extents = nest_extents(b, len(reduces), accesses, op.name)
    nest = Nest(extents, reduces, accesses[:count], accesses[count:])
    nest.simplify(kept=frozenset(_wanted_indices(block)))
    arguments = block.args[count:]
    emit_kernel(
        b,
        Kernel(
            nest,
            _cloned(block, count),
            _lanes(op, block),
            reads_output=[bool(argument.uses) for argument in arguments],
            combiners=[_combiner(a, n) for n, a in enumerate(arguments)],
            vectorisable=all(can_be_vector(inner) for inner in block.ops),
        ),
    )
    return True


def _cloned(
    block: Block, count: int
) -> Callable[[LoopBuilder, Values, Values, Callable[[int], SSAValue]], Values]:
    def body(
        b: LoopBuilder, inputs: Values, outputs: Values, index: Callable[[int], SSAValue]
    ) -> Values:
        values: dict[SSAValue, SSAValue] = dict(zip(block.args, (*inputs, *outputs)))
        return clone_body(b, block, values, index)

    return body


def _wanted_indices(block: Block) -> Sequence[int]:
    return [op.dim.value.data for op in block.ops if isinstance(op, IndexOp)]


def _lanes(op: GenericOp, block: Block) -> int:
    """Vectors are as long as the registers of the widest float in use, else the widest integer.

    Where packed integers are read or written they are as long as those of packed integers.
    """
    types = [argument.type for argument in block.args]
    types += [result.type for inner in block.ops for result in inner.results]
    floats = [t for t in types if isinstance(t, AnyFloat)]
    integers = [t for t in types if isinstance(t, IntegerType) and t.bitwidth > 1]
    widest = max(floats or integers, key=bits_of, default=IndexType())
    assert isinstance(widest, FixedBitwidthType | IndexType)
    buffers = [v for v in (*op.inputs, *op.outputs) if isinstance(v.type, MemRefType)]
    if any(is_packed(element_of(buffer)) for buffer in buffers):
        return PACKED_LANES
    return lanes_of(op, widest)


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


def _combiner(argument: BlockArgument, position: int) -> Combiner | None:
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


RULES: dict[str, Rule] = {GenericOp.name: _lower}
