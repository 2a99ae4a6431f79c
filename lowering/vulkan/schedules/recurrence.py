"""`nn.lstm` and `nn.gru`: a workgroup walks a sequence, its invocations share the units.

Before:
    nn.gru(%fed, %h0, %w) outs(%y, %h) : (memref<9x2x96xf32>, memref<2x32xf32>, memref<96x32xf32>, …) -> ()

After:
    scf.if %inside {                           // %i of the sequence
      …                                        // %states takes the first state
      "gpu.barrier"()
      scf.for %n = %c0 to %c9 step %c1 {
        scf.for %j = %thread to %c32 step %c32_1 {
          %r, %z, %m = scf.for %k = … { … memref.load %states[%parity, %k] … }
          …                                    // exp and tanh of the gates
          memref.store %new, %states[%other, %j]
          memref.store %new, %y[%t, %i, %j] }
        "gpu.barrier"() }
      … }                                      // the last state leaves %states

States of more units than shared memory has room for, and of a number that only the step knows, lie in the
scratch buffer `states` of the device.

Requires: bufferised; mathematics are not strict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, Float64Type, f32, f64
from xdsl.dialects.math import FmaOp
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import GruOp, LstmOp, dims_of, element_of
from openinfer.lowering.demands import Scratch
from openinfer.lowering.facts import Facts
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import resize_float
from openinfer.lowering.kernels.recurrent_cells import next_states
from openinfer.lowering.vulkan.schedules.grid import Grid, each_group, groups_for
from openinfer.lowering.vulkan.schedules.group_line import MOST_INVOCATIONS, USUAL_INVOCATIONS
from openinfer.lowering.vulkan.schedules.workgroup import (
    Workgroup,
    barrier,
    device_barrier,
    shared_buffer,
)
from openinfer.runtime.sizes import Size


def state_scratch(op: LstmOp | GruOp) -> list[Scratch]:
    """The scratch buffer of a layer, here on tensors, whose states shared memory does not hold."""
    units = dims_of(op.inputs[1 + op.STATES])[1]
    kind = _computed(op)
    each = (1 + op.STATES) * (8 if kind is f64 else 4)
    most = Facts.of(op).device_description.shared_memory
    if units.constant is not None and units.constant * each <= most:
        return []
    return [Scratch("states", kind, (dims_of(op.inputs[0])[1], Size.of(op.PARTS), units))]


def _computed(op: LstmOp | GruOp) -> AnyFloat:
    """What states and gates are computed in."""
    return f64 if isinstance(element_of(op.inputs[0]), Float64Type) else f32


def lower_recurrence(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a recurrent layer."""
    assert isinstance(op, LstmOp | GruOp)
    layer = _Layer(b, op)
    each_group(b, b.dim(op.inputs[0], 1), layer.sequence)
    return Grid(
        lambda host, value_of: groups_for(host, host.dim(value_of(op.inputs[0]), 1)),
        layer.group.size,
    )


class _Layer:
    def __init__(self, b: LoopBuilder, op: LstmOp | GruOp) -> None:
        self.b, self.op, self.kind = b, op, _computed(op)
        self.fed, self.firsts = op.inputs[0], op.inputs[1 : 1 + op.STATES]
        self.weight, *rest = op.inputs[1 + op.STATES :]
        self.bias = rest[0] if rest else None
        self.y, *self.lasts = op.outs
        units = self.units = b.dim(self.weight, 1)
        size = max(b.facts.device_description.subgroup, 32)
        wanted = units if isinstance(units, int) else USUAL_INVOCATIONS
        while size < min(wanted, MOST_INVOCATIONS):
            size *= 2
        self.group = Workgroup(b, size)
        self.memory = op.room("states")
        """The device's, for all sequences: rows of a state as below, then the cells."""
        self.states = self.cells = None
        if self.memory is None:
            assert isinstance(units, int)
            self.states = shared_buffer(b, self.kind, [2, units], "states")
            """The hidden state of a step and that of the next one, in turn."""
            if op.STATES == 2:
                self.cells = shared_buffer(b, self.kind, [units], "cells")

    def each_unit(self, body: Callable[[SSAValue], None]) -> None:
        """`body` with each unit of this invocation."""
        self.b.loop(self.group.thread, self.units, self.group.size, body, hint="j")

    def wait(self) -> None:
        """Of all units the state is there before one of them goes on."""
        if self.memory is None:
            barrier(self.b)
        else:
            device_barrier(self.b)

    def load(self, buffer: SSAValue, place: Sequence[Index]) -> SSAValue:
        return resize_float(self.b, self.b.load(buffer, place), self.kind)

    def store(self, value: SSAValue, buffer: SSAValue, place: Sequence[Index]) -> None:
        self.b.store(resize_float(self.b, value, element_of(buffer)), buffer, place)

    def sequence(self, number: SSAValue) -> None:
        """All steps of one sequence."""
        b = self.b
        steps = b.dim(self.fed, 0)

        def begin(j: SSAValue) -> None:
            self._keep(number, [self.load(first, [number, j]) for first in self.firsts], 0, j)

        def step(n: SSAValue) -> None:
            t = n if self.op.reverse is None else b.sub(b.sub(steps, 1), n)
            parity = b.rem(n, 2)
            self.each_unit(lambda j: self._unit(number, t, parity, j))
            self.wait()

        def end(j: SSAValue) -> None:
            for value, last in zip(self._kept(number, b.rem(b.index(steps), 2), j), self.lasts):
                self.store(value, last, [number, j])

        self.each_unit(begin)
        self.wait()
        b.loop(0, steps, 1, step, hint="n")
        self.each_unit(end)

    def _places(
        self, number: SSAValue, parity: Index, j: SSAValue
    ) -> list[tuple[SSAValue, list[Index]]]:
        """Where the states of a unit lie."""
        if self.memory is not None:
            rows: list[Index] = [parity, 2]
            return [(self.memory, [number, row, j]) for row in rows[: self.op.STATES]]
        assert self.states is not None
        found: list[tuple[SSAValue, list[Index]]] = [(self.states, [parity, j])]
        if self.cells is not None:
            found.append((self.cells, [j]))
        return found

    def _kept(self, number: SSAValue, parity: Index, j: SSAValue) -> list[SSAValue]:
        """The states of a unit."""
        return [self.b.load(buffer, place) for buffer, place in self._places(number, parity, j)]

    def _keep(
        self, number: SSAValue, states: Sequence[SSAValue], parity: Index, j: SSAValue
    ) -> None:
        for value, (buffer, place) in zip(states, self._places(number, parity, j)):
            self.b.store(value, buffer, place)

    def _unit(self, number: SSAValue, t: SSAValue, parity: SSAValue, j: SSAValue) -> None:
        """One step of one unit."""
        b = self.b
        gates = range(self.op.GATES)
        rows = [b.index(b.plus(j, b.times(gate, self.units))) for gate in gates]
        fed = [self.load(self.fed, [t, number, row]) for row in rows]
        parts = self._products(number, rows, parity)
        if self.bias is not None:
            parts = [
                b.insert(arith.AddfOp(part, self.load(self.bias, [row])))
                for part, row in zip(parts, rows)
            ]
        new = next_states(b, self.op, fed, parts, self._kept(number, parity, j))
        self._keep(number, new, b.sub(b.index(1), parity), j)
        self.store(new[0], self.y, [t, number, j])

    def _products(
        self, number: SSAValue, rows: Sequence[SSAValue], parity: SSAValue
    ) -> list[SSAValue]:
        """Rows of the weight times the hidden state."""
        b = self.b

        def step(k: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
            (buffer, place), *_ = self._places(number, parity, k)
            state = b.load(buffer, place)
            return [
                b.insert(FmaOp(self.load(self.weight, [row, k]), state, total))
                for row, total in zip(rows, sums)
            ]

        zeros = [b.constant(0, self.kind) for _ in rows]
        return list(b.reduce(0, self.units, 1, zeros, step, hint="k"))
