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

from xdsl.dialects.builtin import (
    AnyFloat,
    FixedBitwidthType,
    IndexType,
    IntegerType,
    MemRefType,
)
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Block, Operation

from openinfer.dialects.nn import element_of
from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.cpu.vector_width import PACKED_LANES, bits_of, lanes_of
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.clone_body import can_be_vector
from openinfer.lowering.kernels.epilogue import weight_of
from openinfer.lowering.kernels.generic_nest import body_of, combiner_of, nest_of
from openinfer.lowering.kernels.nest_loops import Kernel, emit_kernel
from openinfer.lowering.kernels.rules import Rule


def _lower(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, GenericOp)
    block = op.body.block
    arguments = block.args[len(op.inputs) :]
    emit_kernel(
        b,
        Kernel(
            nest_of(b, op, (*op.inputs, *op.outputs)),
            body_of(op),
            _lanes(op, block),
            reads_output=[bool(argument.uses) for argument in arguments],
            combiners=[combiner_of(a, n) for n, a in enumerate(arguments)],
            vectorisable=all(can_be_vector(inner) for inner in block.ops),
            weight=sum(weight_of(inner) for inner in block.ops),
        ),
    )
    return True


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


RULES: dict[str, Rule] = {GenericOp.name: _lower}
