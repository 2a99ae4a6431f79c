"""Fourier transforms: stages of butterflies, or sums.

Before:
    nn.rfft(%x) outs(%y) scratch(table = %table, rows = %work) {n = #graph.size<8>, norm = "backward"}
      : (memref<3x8xf32>, memref<3x5x2xf32>, memref<2x8xf32>, memref<?x4x8xf32>) -> ()

After:
    scf.for %j = … { … math.cos … math.sin … } {openinfer.parallel}
    scf.for %row = … {
      … // %x to %work; stages between the two rows of %work
      scf.for %k = … { memref.store %real, %y[%row, %k, %c0] … }
    } {openinfer.parallel}

Requires: bufferised; contiguous operands; the scratch buffers of `fourier_scratch`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import f64
from xdsl.ir import Operation

from openinfer.dialects.nn import FourierOp, IrfftOp, RfftOp, element_of
from openinfer.lowering.cpu.schedules.fourier import Fourier
from openinfer.lowering.cpu.vector_width import lanes_of
from openinfer.lowering.demands import Scratch
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import wide_type
from openinfer.lowering.kernels.rules import Rule
from openinfer.runtime.sizes import THREADS, Size


def fourier_scratch(op: FourierOp) -> list[Scratch]:
    """The scratch that the lowering of `op` (on tensors) wants after its result.

    Cosines and sines `[2, n]`, and for each thread two rows of complex numbers `[threads, 4, n]`.
    """
    kind, length = wide_type(element_of(op.inputs[0])), op.n.data
    # Sums over whole rows keep f64; stages are short.
    table = kind if length.constant is not None else f64
    return [
        Scratch("table", table, (Size.of(2), length)),
        Scratch("rows", kind, (Size.name(THREADS), Size.of(4), length)),
    ]


def _lower(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, RfftOp | IrfftOp)
    Fourier(b, op, lanes_of(op, wide_type(element_of(op.inputs[0])))).emit()
    return True


RULES: dict[str, Rule] = {RfftOp.name: _lower, IrfftOp.name: _lower}
