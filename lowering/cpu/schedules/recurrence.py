"""LSTM and GRU: a loop through time for each sequence.

Before:
    nn.lstm(%fed, %h0, %c0, %w) outs(%y, %h, %c) scratch(states = %scratch) : (…) -> ()

After:
    scf.for %b = %c0 to %batch step %c1 {
      … // %scratch takes the first states
      scf.for %t = %c0 to %steps step %c1 {
        scf.for %j = … { … vector.reduction <add> … memref.store %part, %scratch[…] }
        scf.for %j = … { … math.exp … math.tanh … vector.store %h, %y[%t, %b, %j] }
      }
      … // the last states leave %scratch
    } {openinfer.parallel}

Requires: bufferised; contiguous operands; the scratch buffer of `recurrent_scratch`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import GruOp, LstmOp, RecurrentOp, ThreadOp, dims_of, element_of
from openinfer.lowering.cpu.vector_width import lanes_of
from openinfer.lowering.demands import Scratch
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import element_type, reduction, resize_float, wide_type
from openinfer.lowering.kernels.recurrent_cells import next_states
from openinfer.lowering.kernels.rules import Rule
from openinfer.lowering.kernels.runs import (
    Extent,
    bank_count,
    fitting_lanes,
    reduce_run,
    vector_run,
)
from openinfer.lowering.kernels.scratch import scratch_of
from openinfer.runtime.sizes import THREADS, Size


def recurrent_scratch(op: RecurrentOp) -> list[Scratch]:
    """The scratch that the lowering of `op` (on tensors) wants after its results.

    For each thread the hidden parts of all gates, and the states between two steps, unrounded.
    """
    hidden = dims_of(op.inputs[1 + op.STATES])[1]
    kind = wide_type(element_of(op.inputs[0]))
    return [Scratch("states", kind, (Size.name(THREADS), Size.of(op.PARTS), hidden))]


def _lower(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, LstmOp | GruOp)
    _Layer(b, op).emit()
    return True


class _Layer:
    """Emits the loops of one layer; every sequence of the batch is walked by one thread."""

    def __init__(self, b: LoopBuilder, op: LstmOp | GruOp) -> None:
        self.b = b
        self.op = op
        self.fed = op.inputs[0]
        self.firsts = op.inputs[1 : 1 + op.STATES]
        self.weight = op.inputs[1 + op.STATES]
        self.bias = op.inputs[2 + op.STATES] if len(op.inputs) > 2 + op.STATES else None
        self.y, self.lasts = op.outs[0], op.outs[1 : 1 + op.STATES]
        (self.scratch,) = scratch_of(op, "states")
        self.computed = element_type(self.scratch)
        self.hidden = b.dim(self.weight, 1)
        self.extent = Extent((self.hidden,))
        # Sums go in the order of their indices where mathematics are strict.
        lanes = 1 if b.facts.strict_math else lanes_of(op, self.computed)
        self.lanes = fitting_lanes(self.extent, lanes)
        self.thread = b.insert(ThreadOp())

    def emit(self) -> None:
        b = self.b
        b.loop(0, b.dim(self.fed, 1), 1, self._sequence, parallel=True, hint="b")

    # Elements of gates and states, all of them in scratch

    def _part(self, number: int, j: SSAValue, mask: SSAValue | None) -> SSAValue:
        place = [self.thread, number, j]
        return self.b.vload(self.scratch, place, self.lanes, mask)

    def _keep(self, value: SSAValue, number: int, j: SSAValue, mask: SSAValue | None) -> None:
        self.b.vstore(value, self.scratch, [self.thread, number, j], mask)

    def _wide(self, value: SSAValue) -> SSAValue:
        return resize_float(self.b, value, self.computed)

    # The loops

    def _sequence(self, batch: SSAValue) -> None:
        b, gates = self.b, self.op.GATES
        for number, source in enumerate(self.firsts):

            def take(
                j: SSAValue, mask: SSAValue | None, number: int = number, source: SSAValue = source
            ) -> None:
                value = b.vload(source, [batch, j], self.lanes, mask)
                self._keep(self._wide(value), gates + number, j, mask)

            vector_run(b, self.extent, self.lanes, take, hint="j")
        steps = b.dim(self.fed, 0)

        def step(number: SSAValue) -> None:
            t = number
            if self.op.reverse is not None:
                t = b.sub(b.sub(steps, 1), number)
            b.loop(0, self.hidden, 1, self._products, hint="j")
            vector_run(
                b,
                self.extent,
                self.lanes,
                lambda j, mask: self._update(t, batch, j, mask),
                hint="j",
            )

        b.loop(0, steps, 1, step, hint="t")
        for number, target in enumerate(self.lasts):

            def give(
                j: SSAValue, mask: SSAValue | None, number: int = number, target: SSAValue = target
            ) -> None:
                value = resize_float(b, self._part(gates + number, j, mask), element_type(target))
                b.vstore(value, target, [batch, j], mask)

            vector_run(b, self.extent, self.lanes, give, hint="j")

    def _products(self, j: SSAValue) -> None:
        """Row j of every gate's weight times the hidden state, with the hidden bias."""
        b, gates = self.b, self.op.GATES
        rows = [b.plus(j, b.mul(gate, self.hidden)) if gate else j for gate in range(gates)]
        rows = [b.index(row) for row in rows]

        def add(k: SSAValue, mask: SSAValue | None, sums: Sequence[SSAValue]) -> list[SSAValue]:
            state = self._part(gates, k, mask)
            found: list[SSAValue] = []
            for row, total in zip(rows, sums):
                # Lanes behind the end are 0 on both sides.
                weight = self._wide(b.vload(self.weight, [row, k], self.lanes, mask))
                found.append(b.fma(weight, state, total))
            return found

        zero = b.splat(b.constant(0, self.computed), self.lanes)
        width = bank_count(self.b, self.extent, self.lanes, 2)
        banks = reduce_run(b, self.extent, self.lanes, [[zero] * gates] * width, add)
        for gate, row in enumerate(rows):
            total = banks[0][gate]
            for bank in banks[1:]:
                total = b.insert(arith.AddfOp(total, bank[gate]))
            value = reduction(b, "add", total)
            if self.bias is not None:
                value = b.insert(arith.AddfOp(value, self._wide(b.load(self.bias, [row]))))
            b.store(value, self.scratch, [self.thread, gate, j])

    def _update(self, t: SSAValue, batch: SSAValue, j: SSAValue, mask: SSAValue | None) -> None:
        """The gates at j, the new states, and y."""
        b, gates = self.b, self.op.GATES
        fed: list[SSAValue] = []
        for gate in range(gates):
            place = [t, batch, b.plus(j, b.mul(gate, self.hidden)) if gate else j]
            fed.append(self._wide(b.vload(self.fed, place, self.lanes, mask)))
        parts = [self._part(gate, j, mask) for gate in range(gates)]
        old = [self._part(gates + number, j, mask) for number in range(self.op.STATES)]
        new = next_states(b, self.op, fed, parts, old)
        for number, value in enumerate(new):
            self._keep(value, gates + number, j, mask)
        hidden = resize_float(b, new[0], element_type(self.y))
        b.vstore(hidden, self.y, [t, batch, j], mask)


RULES: dict[str, Rule] = {LstmOp.name: _lower, GruOp.name: _lower}
