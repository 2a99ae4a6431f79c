"""`await`: the blocks that wait for values run as sections, side by side."""

from __future__ import annotations

from xdsl.ir import Block, Region, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import AwaitOp, BlockOp, RefAttr, YieldOp
from openinfer.lowering.graph.region_values import CarriedTypes, RegionValues
from openinfer.lowering.graph.regions import Assigned, Walk
from openinfer.lowering.graph.scope import Scope
from openinfer.lowering.graph.step import Step
from openinfer.lowering.program.liveness import Names, consumer_nodes, nodes_of
from openinfer.runtime.quick_dataclass import dataclass


@dataclass
class _Section:
    """A consumer that was translated."""

    body: Region
    assigned: Assigned
    types: CarriedTypes
    given: list[SSAValue]


@dataclass(eq=False)
class Exchange:
    """Translates the nodes by which entry and its consumers exchange values."""

    step: Step
    values: RegionValues
    walk: Walk

    def give(self, op: YieldOp, scope: Scope) -> None:
        """Entry yields. Values do not change: what was yielded is what stands here now."""
        step = self.step
        step.yielded.give(
            {n: step.variables.value_of(n, scope) for n in op.names}, step.facts.blocks
        )

    def take(self, op: AwaitOp, scope: Scope, live: Names) -> None:
        """The blocks that await what entry takes back, as sections that may run side by side."""
        step, values = self.step, self.values
        blocks = step.yielded.take_due(op.names, step.facts.blocks)
        # What several sections read must stand in front of them.
        for block in blocks:
            needed = step.facts.flow.live_before(consumer_nodes(block), frozenset(), frozenset())
            for name in sorted(needed & step.facts.variables.keys()):
                values.start(name, scope)
        sections = [self._section(block, op, scope, live) for block in blocks]
        if sections:
            names = [block.block_name.data for block in blocks]
            given = [value.type for section in sections for value in section.given]
            results = nn.SectionsOp(names, [section.body for section in sections], given)
            step.builder.insert(results)
            for section in sections:
                values.forget(section.assigned, scope)
            rest = list(results.values)
            for section in sections:
                values.bind(section.types, rest[: len(section.given)], scope)
                del rest[: len(section.given)]
        step.yielded.take_back(op.names)
        self._show(op, scope)

    def _section(self, target: BlockOp, op: AwaitOp, scope: Scope, live: Names) -> _Section:
        step, b, values = self.step, self.step.builder, self.values
        nodes = consumer_nodes(target)
        yielded = step.yielded.values
        inner = Scope(
            {**scope.values, **yielded},
            {},
            dict(scope.dims),
            dict(scope.sizes),
            {n: flag for n, flag in scope.unset.items() if n not in yielded},
        )
        body, outside = Block(), b.hints
        b.hints = outside.inside(target)
        with b.at_end(body):
            step.stamps.enter(target)
            self._show_edge(target, AwaitOp, inner)
            self.walk(nodes, inner, live, live)
            self._show_edge(target, YieldOp, inner)
            step.stamps.leave(target)
            b.hints = outside
            b.where = op
            assigned = values.assigned(nodes)
            types: CarriedTypes = {}
            given: list[SSAValue] = []
            for name in assigned:
                if name in live:
                    values.start(name, inner)
                    if name in inner.values:
                        types[name] = values.joined(name, [inner])
                        given += values.operands({name: types[name]}, inner)
            b.insert(nn.EndSectionOp(*given))
        return _Section(Region(body), assigned, types, given)

    def _show_edge(
        self, target: BlockOp, form: type[AwaitOp] | type[YieldOp], scope: Scope
    ) -> None:
        """The `await` that a consumer starts with, or the `yield` that it ends with."""
        for node in nodes_of(target):
            if isinstance(node, form):
                self._show(node, scope)

    def _show(self, node: AwaitOp | YieldOp, scope: Scope) -> None:
        """A node of the exchange, and what it gives: one value may be another one elsewhere."""
        self.step.stamps.node(node)
        for name in node.names:
            if isinstance(node, AwaitOp) and name in scope.values:
                self.step.stamps.value(scope.values[name], node, RefAttr.of(name))
