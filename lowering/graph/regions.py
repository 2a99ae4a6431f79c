"""Branches and loops as `scf` ops, with the variables that their regions carry."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from openinfer.dialects import nn
from openinfer.lowering.graph.index_arithmetic import constant_index
from openinfer.lowering.graph.region_values import CarriedTypes, RegionValues
from openinfer.lowering.graph.requirements import Rows
from openinfer.lowering.graph.scope import Scope
from openinfer.lowering.graph.step import Step
from openinfer.lowering.graph.yielded import Yielded
from openinfer.lowering.program.liveness import Names
from openinfer.runtime.errors import ProgramError
from openinfer.runtime.quick_dataclass import dataclass

Left = bool | SSAValue
"""Whether a block was left: known, or a tensor of one i64, 0 for no."""
Assigned = Mapping[str, None]
"""The variables that a region may write."""

Walk = Callable[[Sequence[Operation], Scope, Names, Names], Left]
"""Translates nodes in a scope, with what is needed behind them and at a return; whether a return was
met: what follows it never runs."""


@dataclass
class _Mark:
    """What an attempt to translate a body may change, as it was before."""

    last: Operation | None
    rows: Rows
    yielded: Yielded


@dataclass(eq=False)
class Regions:
    """Builds the regions of branches and loops."""

    step: Step
    values: RegionValues
    choices: int = 0
    """How many regions are around a node of which only the step knows whether they run."""

    def goes_on(self, left: SSAValue) -> SSAValue:
        """Whether a block was not left, as an i1."""
        b = self.step.builder
        return b.compare(self.step.elements.number(left), "eq", b.constant(0))

    def _number(self, left: Left) -> SSAValue:
        """Whether a block was left, as a tensor of one i64."""
        if isinstance(left, bool):
            b = self.step.builder
            return b.add(nn.FromIndexOp(b.constant(int(left))))
        return left

    @contextmanager
    def _chosen(self, bounds: tuple[SSAValue, SSAValue] | None = None) -> Generator[None]:
        """A region that may run or not, the iterations of a loop with these bounds, say."""
        numbers = [constant_index(bound) for bound in bounds or ()]
        start, stop = numbers if numbers else (None, None)
        runs = start is not None and stop is not None and start < stop
        self.choices += not runs
        try:
            yield
        finally:
            self.choices -= not runs

    # Branches

    def branch(
        self,
        condition: SSAValue,
        sides: Sequence[Callable[[Scope], tuple[Scope, Left]]],
        assigned: Assigned,
        needed: Sequence[str],
        scope: Scope,
        where: Operation,
    ) -> Left:
        """One of two sides runs; `needed` of the variables that they write are carried out of it."""
        b, values = self.step.builder, self.values
        for name in needed:
            values.start(name, scope)
        ends: list[tuple[Block, Scope, Left]] = []
        for side in sides:
            block = Block()
            with b.at_end(block):
                with self._chosen():
                    inner, left = side(scope.nested())
                for name in needed:
                    values.start(name, inner)
            ends.append((block, inner, left))
        b.where = where
        found = [inner for _, inner, _ in ends]
        types: CarriedTypes = {
            name: values.joined(name, found)
            for name in needed
            if any(name in inner.values for inner in found)
        }
        lefts = [left for _, _, left in ends]
        known = lefts[0] if lefts[0] is lefts[1] and isinstance(lefts[0], bool) else None
        results: list[Attribute] = []
        for block, inner, left in ends:
            with b.at_end(block):
                given = values.operands(types, inner)
                if known is None:
                    given.append(self._number(left))
                b.insert(scf.YieldOp(*given))
            results = [value.type for value in given]
        then, otherwise = (Region(block) for block, _, _ in ends)
        choice = scf.IfOp(condition, results, then, otherwise)
        b.insert(choice)
        values.forget(assigned, scope)
        values.bind(types, choice.results, scope)
        return choice.results[-1] if known is None else known

    # Loops

    def loop(
        self,
        bounds: tuple[SSAValue, SSAValue],
        assigned: Assigned,
        needed: Sequence[str],
        scope: Scope,
        where: Operation,
        body: Callable[[Scope, SSAValue, SSAValue | None], tuple[Scope, Left]],
        *,
        leaves: bool,
    ) -> SSAValue | None:
        """A loop that carries `needed`, and with `leaves` whether the block was left.

        The body gets its scope, the index, and what was carried of the latter. It is translated
        again where variables leave an iteration with other types than they entered it with.
        """
        b, values = self.step.builder, self.values
        for name in needed:
            values.start(name, scope)
        types = values.entering(needed, scope)
        one = b.constant(1)
        mark = self._mark()
        varying = [name for name in needed if values.varies(name)]
        while True:
            initial = values.operands(types, scope)
            if leaves:
                initial.append(self._number(False))
            block = Block(arg_types=[IndexType(), *(v.type for v in initial)])
            loop = scf.ForOp(*bounds, one, initial, Region(block))
            b.insert(loop)
            inner, left = scope.nested(), False
            values.forget([name for name in assigned if name not in types], inner)
            with b.at_end(block):
                values.bind(types, block.args[1:], inner)
                kinds = {name: inner.values[name].type for name in varying}
                try:
                    with self._chosen(bounds):
                        inner, left = body(inner, block.args[0], block.args[-1] if leaves else None)
                    for name in needed:
                        values.start(name, inner)
                    again = values.widened(varying, types, kinds, inner)
                except ProgramError:
                    again = values.widest(varying, types)
                    if not again:
                        raise
                b.where = where
                if not again:
                    last = values.operands(types, inner)
                    if leaves:
                        last.append(self._number(left))
                    assert [v.type for v in last] == [v.type for v in initial]
                    b.insert(scf.YieldOp(*last))
                    break
            self._forget(mark)
        values.forget(assigned, scope)
        values.bind(types, loop.results, scope)
        return loop.results[-1] if leaves else None

    # Attempts

    def _mark(self) -> _Mark:
        step = self.step
        return _Mark(step.builder.block.last_op, dict(step.requirements.rows), step.yielded.copy())

    def _forget(self, mark: _Mark) -> None:
        """Takes back what was translated since; names stay reserved, for types may hold them."""
        step, block = self.step, self.step.builder.block
        while block.last_op is not mark.last:
            op = block.last_op
            assert op is not None
            op.detach()
            op.erase(safe_erase=False)
        step.requirements.rows = dict(mark.rows)
        step.yielded = mark.yielded.copy()
