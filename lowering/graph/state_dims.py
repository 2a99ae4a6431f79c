"""Dimensions of persistent variables that name scalars: the first step that touches one fixes them."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import VariableOp
from openinfer.lowering.graph.index_arithmetic import never_negative
from openinfer.lowering.graph.state_axes import Entry, StateAxes
from openinfer.runtime.sizes import Size


class StateDims:
    """The dimensions of a state at one use: their values, and that they are those of before.

    A state whose dimensions name no scalars has nothing to do here.
    """

    def __init__(self, axes: StateAxes) -> None:
        self._axes = axes
        self._step = axes.step
        self._state = axes.state

    def symbolic(self) -> list[Size]:
        """The dimensions of an entry, scalars replaced by dynamic sizes; `_` stays."""
        symbolic, axes = self._step.values.symbolic, self._axes
        return [
            symbolic(dim, axes.scope) if axis in axes.scalars else dim
            for axis, dim in enumerate(self._state.dims)
        ]

    def touch(self) -> None:
        """The step uses the state: its dimensions are fixed, if they were not; else they are equal.

        Where it was said before with the same scalars there is nothing to say.
        """
        axes, state, step, b = self._axes, self._state, self._step, self._step.builder
        if not axes.scalars:
            return
        names = {n for axis in state.scalar_dims for n in state.dims[axis].names}
        scalars = sorted(names - step.sizes.known - step.facts.static.keys())
        values = [step.variables.value_of(name, axes.scope) for name in scalars]
        key = ("touched", state.name, *values)
        if key in axes.scope.sizes:
            return
        axes.scope.sizes[key] = ""
        zero = b.constant(0)
        for value in axes.scalars.values():
            if not never_negative(value):
                b.require(value, "sge", zero, "negative-size")
        touched = axes.present([], state.fact())
        fresh = b.compare(touched, "eq", zero)
        for axis, value in axes.scalars.items():
            same = b.compare(axes.present([], state.fact(axis)), "eq", value)
            same = b.add(arith.OrIOp(same, fresh))
            b.fail_unless(same, "resized", value, axes.shown(axis))
        if state.auto:
            b.when(fresh, self._check_restored)
        for axis, value in axes.scalars.items():
            axes.set(state.fact(axis), value)
        axes.set(state.fact(), b.constant(1))
        self.keep()

    def keep(self) -> None:
        """The extents of the dimensions: at the first use, and after a reset, which keeps them."""
        axes, state = self._axes, self._state
        if not state.open:
            return
        for axis, value in axes.scalars.items():
            axes.set(state.settled + 1 + axis, value)
        if axes.scalars and not state.waits and self._source() is None:
            axes.set(state.settled, self._step.builder.constant(1))

    def load(self) -> None:
        """A plain state that the package fills is filled where it is first read."""
        axes, state, source, b = self._axes, self._state, self._source(), self._step.builder
        if source is None:
            return
        settled = axes.present([], state.settled)
        zero = b.constant(0)
        absent = b.compare(settled, "eq", zero)
        dims = self.symbolic()

        def fill() -> None:
            stored = self._step.contents.first(source, dims)
            kept = [state.settled + 1 + axis for axis in range(len(dims))]
            offsets = [zero] * len(state.axes)
            b.insert(nn.StateWriteOp(stored, state.name, offsets, kept, b.node))
            axes.set(state.settled, b.constant(1))

        b.when(absent, fill)

    def _source(self) -> VariableOp | None:
        """The declaration, when a tensor of the package is the first content."""
        state, facts = self._state, self._step.facts
        variable = facts.variables[state.name]
        assert isinstance(variable, VariableOp)
        plain = not state.table and not state.auto
        return variable if plain and facts.tensor_of(variable) is not None else None

    def _check_restored(self) -> None:
        """Matrices of a snapshot may belong to these dimensions: each is as large, and no larger than
        its bounds let it grow."""
        axes, state, b = self._axes, self._state, self._step.builder
        tables = len(state.table)
        zero = b.constant(0)

        def check(entry: Entry) -> None:
            extents = [axes.present(entry, tables + axis) for axis in range(len(state.auto))]
            # One that is not there has no extent along these axes.
            absent: SSAValue | None = None
            for axis in state.scalar_dims:
                none = b.compare(extents[axis], "eq", zero)
                absent = none if absent is None else b.add(arith.AndIOp(absent, none))
            assert absent is not None
            for axis, value in axes.scalars.items():
                fits = b.compare(value, "sle", extents[axis])
                bound = state.fixed.get(state.auto[axis])
                if bound is not None:
                    most = b.add(arith.AddiOp(value, b.constant(bound)))
                    below = b.compare(extents[axis], "sle", most)
                    fits = b.add(arith.AndIOp(fits, below))
                fits = b.add(arith.OrIOp(fits, absent))
                b.fail_unless(fits, "resized", value, axes.shown(axis))

        axes.every(check)
