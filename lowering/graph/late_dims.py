"""Dimensions of persistent variables that name scalars: the first step that touches one fixes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.dialects import nn
from openinfer.dialects.graph import VariableOp
from openinfer.lowering.graph.states import State
from openinfer.runtime.sizes import Size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.lowering.graph.variable_values import Scope, VariableValues


class LateDims:
    """The late dimensions of a state at one use: their values, and that they are those of before.

    A state without such dimensions has nothing to do here.
    """

    def __init__(self, t: VariableValues, state: State, scope: Scope) -> None:
        self.t = t
        self.state = state
        self.scope = scope
        self.values = {axis: t.index_value(state.dims[axis], scope) for axis in state.late}
        """By dimension; an index of the step."""

    def dims(self) -> list[Size]:
        """The dimensions of an entry, scalars replaced by late sizes; `_` stays."""
        dims = self.state.dims
        return [
            self.t.late.symbolic(dim, self.scope) if axis in self.values else dim
            for axis, dim in enumerate(dims)
        ]

    def touch(self) -> None:
        """The step uses the state: its dimensions are fixed, if they were not; else they are equal.

        Where it was said before with the same scalars there is nothing to say.
        """
        t, state = self.t, self.state
        if not self.values:
            return
        names = sorted({n for axis in state.late for n in state.dims[axis].names})
        scalars = [n for n in names if n not in t.late.known and n not in t.facts.static]
        key = ("touched", state.name, *(t.value_of(n, self.scope) for n in scalars))
        if key in self.scope.late:
            return
        self.scope.late[key] = ""
        zero = t.constant_index(0)
        for value in self.values.values():
            if not t.never_negative(value):
                holds = t.add(arith.CmpiOp(value, zero, "sge"))
                t.insert(nn.RequireOp(holds, "negative-size", value, zero, t.node))
        touched = t.add(nn.ExtentOp(state.name, [], state.fact()))
        fresh = t.add(arith.CmpiOp(touched, zero, "eq"))
        for axis, value in self.values.items():
            held = t.add(nn.ExtentOp(state.name, [], state.fact(axis)))
            same = t.add(arith.CmpiOp(held, value, "eq"))
            same = t.add(arith.OrIOp(same, fresh))
            number = t.constant_index(state.number * 64 + axis)
            t.insert(nn.RequireOp(same, "resized", value, number, t.node))
        if state.auto:
            self._when(fresh, self._check_restored)
        for axis, value in self.values.items():
            t.insert(nn.SetExtentOp(state.name, state.fact(axis), value, t.node))
        t.insert(nn.SetExtentOp(state.name, state.fact(), t.constant_index(1), t.node))
        self.keep()

    def keep(self) -> None:
        """The extents of the dimensions: at the first use, and after a reset, which keeps them."""
        t, state = self.t, self.state
        if not state.open:
            return
        for axis, value in self.values.items():
            t.insert(nn.SetExtentOp(state.name, state.settled + 1 + axis, value, t.node))
        if self.values and not state.waits and self._source() is None:
            one = t.constant_index(1)
            t.insert(nn.SetExtentOp(state.name, state.settled, one, t.node))

    def load(self) -> None:
        """A plain state that the package fills is filled where it is first read."""
        t, state, source = self.t, self.state, self._source()
        if source is None:
            return
        settled = t.add(nn.ExtentOp(state.name, [], state.settled))
        zero = t.constant_index(0)
        absent = t.add(arith.CmpiOp(settled, zero, "eq"))
        dims = self.dims()

        def fill() -> None:
            stored = t.first_content(source, dims)
            kept = [state.settled + 1 + axis for axis in range(len(dims))]
            offsets = [zero] * len(state.axes)
            t.insert(nn.StateWriteOp(stored, state.name, offsets, kept, t.node))
            one = t.constant_index(1)
            t.insert(nn.SetExtentOp(state.name, state.settled, one, t.node))

        self._when(absent, fill)

    def _source(self) -> VariableOp | None:
        """The declaration, when a tensor of the package is the first content."""
        variable = self.t.facts.variables[self.state.name]
        assert isinstance(variable, VariableOp)
        plain = not self.state.table and not self.state.auto
        return variable if plain and self.t.facts.tensor_of(variable) is not None else None

    def _check_restored(self) -> None:
        """Matrices of a snapshot may belong to these dimensions: each is as large, and no larger than
        its bounds let it grow."""
        t, state = self.t, self.state
        tables = len(state.table)
        zero = t.constant_index(0)

        def check(entry: Sequence[SSAValue]) -> None:
            extents = {
                axis: t.add(nn.ExtentOp(state.name, entry, tables + axis))
                for axis in range(len(state.auto))
            }
            # One that is not there has no extent along these axes.
            absent: SSAValue | None = None
            for axis in state.late:
                none = t.add(arith.CmpiOp(extents[axis], zero, "eq"))
                absent = none if absent is None else t.add(arith.AndIOp(absent, none))
            assert absent is not None
            for axis, value in self.values.items():
                fits = t.add(arith.CmpiOp(value, extents[axis], "sle"))
                bound = state.fixed.get(state.auto[axis])
                if bound is not None:
                    most = t.add(arith.AddiOp(value, t.constant_index(bound)))
                    below = t.add(arith.CmpiOp(extents[axis], most, "sle"))
                    fits = t.add(arith.AndIOp(fits, below))
                fits = t.add(arith.OrIOp(fits, absent))
                number = t.constant_index(state.number * 64 + axis)
                t.insert(nn.RequireOp(fits, "resized", value, number, t.node))

        self._entries([], check)

    def _entries(
        self, entry: Sequence[SSAValue], body: Callable[[Sequence[SSAValue]], None]
    ) -> None:
        """For every entry of a table."""
        t, state = self.t, self.state
        if len(entry) == len(state.table):
            body(entry)
            return
        block = Block(arg_types=[IndexType()])
        extent = t.add(nn.ExtentOp(state.name, [], len(entry)))
        bounds = t.constant_index(0), extent, t.constant_index(1)
        t.insert(scf.ForOp(*bounds, [], Region(block)))
        outer, t.builder = t.builder, Builder(InsertPoint.at_end(block))
        self._entries([*entry, block.args[0]], body)
        t.insert(scf.YieldOp())
        t.builder = outer

    def _when(self, condition: SSAValue, body: Callable[[], None]) -> None:
        t = self.t
        block = Block()
        t.insert(scf.IfOp(condition, [], Region(block), Region()))
        outer, t.builder = t.builder, Builder(InsertPoint.at_end(block))
        body()
        t.insert(scf.YieldOp())
        t.builder = outer
