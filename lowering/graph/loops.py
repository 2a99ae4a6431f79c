"""Loops, also those that leave their block by a `return`, and branches."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from openinfer.dialects.graph import AssignOp, LoopOp, ReturnOp, ScopeOp
from openinfer.lowering.graph.region_values import RegionValues
from openinfer.lowering.graph.regions import Assigned, Left, Regions, Walk
from openinfer.lowering.graph.scope import Index, Scope
from openinfer.lowering.graph.step import Step
from openinfer.lowering.program.liveness import Names, nodes_of
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(eq=False)
class Loops:
    """Translates loops; `walk` translates their bodies."""

    step: Step
    values: RegionValues
    regions: Regions
    walk: Walk

    def may_leave(self, nodes: Sequence[Operation]) -> bool:
        """Whether a return stands in a loop of which only the step knows if it runs at all."""
        for op in nodes:
            if isinstance(op, ScopeOp) and self.may_leave(nodes_of(op)):
                return True
            if isinstance(op, LoopOp) and self._returns(nodes_of(op)):
                bounds = self.step.values.bounds(op)
                if bounds is None or (bounds[0] < bounds[1] and self.may_leave(nodes_of(op))):
                    return True
        return False

    def _returns(self, nodes: Sequence[Operation]) -> bool:
        """Whether the nodes themselves may return, other than in a block that they call."""
        for op in nodes:
            if isinstance(op, ReturnOp):
                return True
            if isinstance(op, LoopOp) and (bounds := self.step.values.bounds(op)) is not None:
                if bounds[0] >= bounds[1]:
                    continue
            if isinstance(op, LoopOp | ScopeOp) and self._returns(nodes_of(op)):
                return True
        return False

    def translate(self, op: LoopOp, scope: Scope, live: Names, at_return: Names) -> bool:
        """A loop that is left nowhere, or by its first iteration for sure."""
        if self._returns(nodes_of(op)):
            return self._once(op, scope, live, at_return)
        self._iterate(op, scope, live, at_return)
        return False

    def leave_or_go_on(
        self,
        op: LoopOp,
        rest: Sequence[Operation],
        scope: Scope,
        after: Names,
        at_return: Names,
    ) -> Left:
        """A loop that may leave the block, then what follows it where it did not."""
        values, regions = self.values, self.regions
        body = nodes_of(op)
        live = self.step.facts.flow.live_before(rest, after, at_return)
        assigned = values.assigned(rest)

        def go_on(inner: Scope) -> tuple[Scope, Left]:
            return inner, self.walk(rest, inner, after, at_return)

        if self.may_leave(body):
            left = self._iterate(op, scope, live, at_return, leaves=True)
            assert left is not None
            needed = values.needed(assigned, at_return | after)
            sides = [go_on, lambda inner: (inner, True)]
            return regions.branch(regions.goes_on(left), sides, assigned, needed, scope, op)
        start, stop = self._bounds(op, scope)
        runs = self.step.builder.compare(start, "slt", stop)

        def once(inner: Scope) -> tuple[Scope, Left]:
            return inner, self._iteration(op, Index(start), inner, live, at_return)

        assigned = {**values.assigned(body), **assigned}
        needed = values.needed(assigned, at_return | after)
        return regions.branch(runs, [once, go_on], assigned, needed, scope, op)

    def _bounds(self, op: LoopOp, scope: Scope) -> tuple[SSAValue, SSAValue]:
        count = self.step.values.count
        return count(op.start.data, scope), count(op.stop.data, scope)

    def _iteration(
        self, op: LoopOp, index: Index, scope: Scope, live: Names, at_return: Names
    ) -> Left:
        """The body with a value of the index."""
        scope.indices[op.index.data] = index
        self.step.stamps.iteration(op, index.value)
        return self.walk(nodes_of(op), scope, live, at_return)

    def _iterate(
        self, op: LoopOp, scope: Scope, live: Names, at_return: Names, *, leaves: bool = False
    ) -> SSAValue | None:
        """All iterations of a loop; with `leaves`, whether one of them left the block."""
        values, regions = self.values, self.regions
        body, constant = nodes_of(op), self.step.values.bounds(op)
        assigned = values.assigned(body)
        self._fix_dims(body, assigned, scope)
        before = self.step.facts.flow.live_before(body, live, at_return)
        behind = live | at_return | before
        needed = values.needed(assigned, behind)

        def run(inner: Scope, number: SSAValue) -> tuple[Scope, Left]:
            return inner, self._iteration(op, Index(number, constant), inner, behind, at_return)

        def iteration(inner: Scope, number: SSAValue, left: SSAValue | None) -> tuple[Scope, Left]:
            number.name_hint = op.index.data
            if left is None:
                return run(inner, number)
            sides = [lambda s: run(s, number), lambda s: (s, True)]
            goes_on = regions.goes_on(left)
            return inner, regions.branch(goes_on, sides, assigned, needed, inner, op)

        bounds = self._bounds(op, scope)
        return regions.loop(bounds, assigned, needed, scope, op, iteration, leaves=leaves)

    def _fix_dims(self, nodes: Sequence[Operation], assigned: Assigned, scope: Scope) -> None:
        """Sizes that no iteration of a loop changes get their value in front of it.

        No iteration may come to the node that needs them: what is wrong with them is said there.
        """
        facts, sizes = self.step.facts, self.step.sizes
        for op in nodes:
            if isinstance(op, LoopOp | ScopeOp):
                self._fix_dims(nodes_of(op), assigned, scope)
            elif isinstance(op, AssignOp) and facts.names_scalars(op):
                for dim in op.sizes:
                    unknown = dim.names - sizes.known - facts.static.keys()
                    if all(n in facts.variables and n not in assigned for n in unknown):
                        with sizes.ahead():
                            self.step.values.symbolic(dim, scope)

    def _once(self, op: LoopOp, scope: Scope, live: Names, at_return: Names) -> bool:
        """A loop whose first iteration leaves the block, if there is one."""
        bounds = self.step.values.bounds(op)
        assert bounds is not None
        if bounds[0] >= bounds[1]:
            return False
        start = self.step.values.count(op.start.data, scope)
        index = Index(start, (bounds[0], bounds[0] + 1))
        inner = Scope(scope.values, dict(scope.indices), scope.dims, scope.sizes, scope.unset)
        self._iteration(op, index, inner, live, at_return)
        return True
