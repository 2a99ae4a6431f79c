"""Walks nodes in program order and has each translated; a block that is called is walked in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IntegerAttr, i1
from xdsl.ir import Operation

from openinfer.dialects import nn
from openinfer.dialects.graph import (
    AssignOp,
    AwaitOp,
    BarrierOp,
    BlockOp,
    BranchOp,
    DepOp,
    LoopOp,
    OpOp,
    ReturnOp,
    ScopeOp,
    TransferOp,
    YieldOp,
)
from openinfer.lowering.graph.exchange import Exchange
from openinfer.lowering.graph.hints import Hints
from openinfer.lowering.graph.loops import Loops
from openinfer.lowering.graph.op_nodes import translate_op
from openinfer.lowering.graph.op_rules import RuleError
from openinfer.lowering.graph.region_values import RegionValues
from openinfer.lowering.graph.regions import Left, Regions
from openinfer.lowering.graph.scope import NoValue, Problem, Scope
from openinfer.lowering.graph.state_access import translate_cache
from openinfer.lowering.graph.step import Step
from openinfer.lowering.locations import call_notes, location_of
from openinfer.lowering.program.liveness import Names, nodes_of
from openinfer.runtime.errors import Diagnostic, ProgramError
from openinfer.runtime.quick_dataclass import dataclass

_TRIED_NODES, _TRIES = 50_000, 20
"""Bodies of loops are translated again where shapes change in them: so many nodes in all."""


def refusal(problem: Problem | RuleError, op: Operation) -> ProgramError:
    """The problem as a diagnostic at the place of the node or declaration."""
    place, notes = location_of(op), call_notes(op)
    found = Diagnostic(problem.code, problem.message, place, notes=notes, hint=problem.hint)
    return ProgramError([found])


@dataclass
class _Frame:
    """A list of nodes that is being translated."""

    nodes: Sequence[Operation]
    behind: Sequence[Names]
    """What is needed behind each of them."""
    scope: Scope
    after: Names
    at_return: Names
    hints: Hints
    block: BlockOp | None = None
    """The block that these are, if it was called."""
    position: int = 0


class NodeWalk:
    """Translates nodes with the current SSA value of every variable."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._values = RegionValues(step)
        self._regions = Regions(step, self._values)
        self._loops = Loops(step, self._values, self._regions, self.walk)
        self._exchange = Exchange(step, self._values, self.walk)
        self._translated = 0
        """Nodes, those of bodies that are translated again counted again."""
        self._most = _TRIED_NODES + _TRIES * step.facts.expanded
        self._ordered: set[Operation] = set()
        """Nodes that are to stay although nobody may read what they give."""

    def block(self, block: BlockOp, scope: Scope, live: Names) -> Scope:
        """Translates a block that is entered here; gives its scope."""
        b, stamps = self._step.builder, self._step.stamps
        outside = b.hints
        b.hints = outside.inside(block)
        stamps.enter(block)
        self.walk(nodes_of(block), scope, live, live)
        stamps.leave(block)
        b.hints = outside
        return scope

    def walk(
        self, nodes: Sequence[Operation], scope: Scope, after: Names, at_return: Names
    ) -> Left:
        """Translates nodes; says whether a return was met: what follows it never runs.

        A block that is called without a condition is a frame more here, not a deeper recursion.
        """
        b = self._step.builder
        outside = b.hints
        frames = [self._frame(nodes, scope, after, at_return)]
        try:
            while True:
                frame = frames[-1]
                left = self._translate_some(frame)
                if isinstance(left, BranchOp):
                    frames.append(self._call(left, frame))
                    continue
                frames.pop()
                if frame.block is not None:
                    self._step.stamps.leave(frame.block)
                if not frames:
                    return left
                b.hints = frames[-1].hints
        finally:
            b.hints = outside

    def _frame(
        self, nodes: Sequence[Operation], scope: Scope, after: Names, at_return: Names
    ) -> _Frame:
        self._ordered |= _ordered(nodes)
        behind = self._step.facts.flow.live_behind_each(nodes, after, at_return)
        return _Frame(nodes, behind, scope, after, at_return, self._step.builder.hints)

    def _call(self, op: BranchOp, caller: _Frame) -> _Frame:
        """The frame of a block that is called for sure."""
        target = self._step.facts.blocks[op.then_block.data]
        live = caller.behind[caller.position - 1]
        self._step.builder.hints = caller.hints.inside(op).inside(target)
        self._step.stamps.enter(target)
        frame = self._frame(nodes_of(target), caller.scope.without_indices(), live, live)
        frame.block = target
        return frame

    def _translate_some(self, frame: _Frame) -> Left | BranchOp:
        """Translates what is left of a frame, up to the next block that is called for sure."""
        b, stamps, loops = self._step.builder, self._step.stamps, self._loops
        nodes, scope, at_return = frame.nodes, frame.scope, frame.at_return
        while frame.position < len(nodes):
            op, live = nodes[frame.position], frame.behind[frame.position]
            frame.position += 1
            b.where = op
            self._count(op)
            if isinstance(op, ScopeOp) and loops.may_leave(nodes_of(op)):
                rest = nodes[frame.position :]
                return self.walk([*nodes_of(op), *rest], scope, frame.after, at_return)
            if isinstance(op, LoopOp) and loops.may_leave([op]):
                stamps.node(op)
                rest = nodes[frame.position :]
                try:
                    return loops.leave_or_go_on(op, rest, scope, frame.after, at_return)
                except (Problem, RuleError) as problem:
                    raise refusal(problem, op) from problem
            b.hints = frame.hints.inside(op)
            if not isinstance(op, AwaitOp):
                stamps.node(op)
            if isinstance(op, BranchOp) and (op.condition is None or op.else_block is None):
                return op
            try:
                if self._translate(op, scope, live, at_return):
                    return True
            except NoValue as problem:
                if not self._regions.choices:
                    raise refusal(problem, op) from problem
                self._fail_here(problem)
                return True
            except (Problem, RuleError) as problem:
                raise refusal(problem, op) from problem
            finally:
                b.hints = frame.hints
        return False

    def _count(self, op: Operation) -> None:
        """Another node is translated. The body of a loop is tried again where shapes change in it,
        so that loops inside of loops could be tried for ever."""
        self._translated += 1
        if self._translated <= self._most:
            return
        block = self._step.facts.nodes[op].block
        raise refusal(
            Problem(
                "OI0270",
                f"the loops around this node of block `{block}` are translated "
                "too often: the shapes that change in one change those of the others",
                "declare the dimensions instead of `_`, or nest fewer loops",
            ),
            op,
        )

    def _fail_here(self, problem: NoValue) -> None:
        """A step that comes here fails; what follows here never runs."""
        b = self._step.builder
        zero = b.constant(0)
        number = b.constant(self._step.facts.number_of(problem.variable))
        b.fail_unless(b.compare(zero, "ne", zero), problem.kind, number, zero)

    def _translate(self, op: Operation, scope: Scope, live: Names, at_return: Names) -> bool:
        """Translates a node; whether it surely returns."""
        step, variables = self._step, self._step.variables
        match op:
            case OpOp():
                self._op(op, scope)
            case TransferOp():
                variables.write(op.target, variables.read(op.source, scope), scope)
                step.stamps.value(scope.values[op.target.variable.data], op, op.target)
            case AssignOp():
                variables.assign(op, scope, live)
            case BarrierOp() | DepOp():
                # A barrier where a `dep` stands orders all that is before it and behind it.
                step.builder.insert(nn.BarrierOp())
            case ScopeOp():
                return self.walk(nodes_of(op), scope, live, at_return) is True
            case LoopOp():
                return self._loops.translate(op, scope, live, at_return)
            case BranchOp():
                self._branch(op, scope, live)
            case ReturnOp():
                return True
            case YieldOp():
                self._exchange.give(op, scope)
            case AwaitOp():
                self._exchange.take(op, scope, live)
            case _ if translate_cache(step, op, scope):
                pass
            case _:
                raise Problem("OI0713", f"{op.name} is not implemented in compiled programs yet")
        return False

    def _op(self, op: OpOp, scope: Scope) -> None:
        step = self._step
        for ref, result in zip(op.outputs, translate_op(step, op, scope)):
            step.variables.write(ref, result, scope)
            step.stamps.value(scope.values[ref.variable.data], op, ref)
            if op in self._ordered:
                step.builder.insert(nn.KeepOp(result))

    def _branch(self, op: BranchOp, scope: Scope, live: Names) -> None:
        """A branch with two blocks."""
        values, blocks = self._values, self._step.facts.blocks
        assert op.condition is not None
        assert op.else_block is not None
        targets = [blocks[op.then_block.data], blocks[op.else_block.data]]
        assigned = {n: None for target in targets for n in values.assigned(nodes_of(target))}
        needed = values.needed(assigned, live)
        condition = self._step.condition(op.condition, scope)

        def side(target: BlockOp) -> Callable[[Scope], tuple[Scope, Left]]:
            return lambda inner: (self.block(target, inner.without_indices(), live), False)

        sides = [side(target) for target in targets]
        self._regions.branch(condition, sides, assigned, needed, scope, op)


def _ordered(nodes: Sequence[Operation]) -> set[Operation]:
    """The nodes of a list that a `dep` puts in order, and those with `no_reorder = true`."""
    found: set[Operation] = set()
    for position, op in enumerate(nodes):
        if isinstance(op, OpOp) and op.hints is not None:
            if op.hints.data.get("no_reorder") == IntegerAttr(1, i1):
                found.add(op)
        if isinstance(op, DepOp):
            before = [o for o in nodes[:position] if _named(o) == op.after.data]
            behind = [o for o in nodes[position:] if _named(o) == op.before.data]
            found.update([*before[-1:], *behind[:1]])
    return found


def _named(op: Operation) -> str | None:
    return op.op_name.data if isinstance(op, OpOp) else None
