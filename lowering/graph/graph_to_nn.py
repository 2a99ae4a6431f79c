"""From named variables to SSA values: the step of level `nn`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    FunctionType,
    IndexType,
    IntegerAttr,
    ModuleOp,
    i1,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from openinfer.dialects import nn, opset
from openinfer.dialects.extensions.arith import IndexCastOp
from openinfer.dialects.graph import (
    AssignOp,
    AwaitOp,
    BarrierOp,
    BlockOp,
    BranchOp,
    DepOp,
    LoopOp,
    OpOp,
    RefAttr,
    ReturnOp,
    ScopeOp,
    TransferOp,
    YieldOp,
)
from openinfer.lowering.graph import op_rules
from openinfer.lowering.graph.carried import CarriedValues, Left, Loose
from openinfer.lowering.graph.hints import Hints
from openinfer.lowering.graph.late_numbers import late_numbers, with_rest
from openinfer.lowering.graph.scalars import scalar_settings
from openinfer.lowering.graph.stamps import block_rows, block_stamp, node_stamp, turn_stamp
from openinfer.lowering.graph.state_access import translate_cache
from openinfer.lowering.graph.variable_values import Index, NoValue, Problem, Scope
from openinfer.lowering.interface import as_attribute
from openinfer.lowering.locations import location_of
from openinfer.lowering.program.liveness import (
    Names,
    consumer_nodes,
    consumers_of,
    dims_of,
    nodes_of,
)
from openinfer.runtime.errors import Diagnostic, ProgramError
from openinfer.runtime.manifest import BEFORE, RequirementRow
from openinfer.runtime.sizes import Size

_TRIED_NODES, _TRIES = 50_000, 20
"""Bodies of loops are translated again where shapes change in them: so many nodes in all."""


@dataclass(frozen=True)
class GraphToNn(ModulePass):
    """Turns the blocks of a program into one function over tensors, branches inlined, loops kept.

    Before:
        graph.block entry {
          graph.op matmul(x, W) -> (y)
          graph.return (y)
        }
    After:
        func.func @step(%x: tensor<4x8xf32>, %W: tensor<8x2xf32>) -> tensor<4x2xf32> {
          %y = nn.matmul(%x, %W) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
          func.return %y : tensor<4x2xf32>
        }

    Requires: a bound graph module.
    Leaves: `@step` with an argument for each input and weight, a result for each value that can be
        fetched after a step, and the interface op that names them.
    """

    name: ClassVar[str] = "graph-to-nn"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not any(isinstance(o, BlockOp) for o in op.body.ops):
            return
        Translator(op).run()


def _refusal(problem: Problem | op_rules.RuleError, op: Operation) -> ProgramError:
    """The problem as a diagnostic at the place of the node or declaration."""
    place = location_of(op)
    return ProgramError([Diagnostic(problem.code, problem.message, place, hint=problem.hint)])


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


class Translator(CarriedValues):
    """Walks the nodes in program order with the current SSA value of every variable."""

    # The function

    def run(self) -> None:
        facts = self.facts
        problems = facts.problems()
        if problems:
            raise ProgramError(problems)
        scope = Scope()
        for variable in facts.inputs():
            try:
                kind = self.declared_type(variable)
            except Problem as problem:
                raise _refusal(problem, variable) from problem
            argument = self.entry.insert_arg(kind, len(self.entry.args))
            argument.name_hint = variable.variable.data
            scope.values[variable.variable.data] = argument
        self._held(scope)
        self.translated = 0
        """Nodes, those of bodies that are translated again counted again."""
        self.most = _TRIED_NODES + _TRIES * self.facts.expanded
        self.published: dict[str, SSAValue] = {}
        self.arrived: dict[str, frozenset[str]] = {}
        """By consumer, what has been yielded of its values since it was last due."""
        self.due: set[str] = set()
        """Consumers all of whose values were yielded, and that have not run since."""
        self.ordered: set[Operation] = set()
        """Nodes that are to stay although nobody may read what they give."""
        nodes = nodes_of(facts.blocks["entry"])
        outputs = facts.outputs()
        live = frozenset(outputs) | frozenset(self.held)
        for variable in facts.variables.values():
            if not isinstance(variable, AssignOp) and variable.memory.data == "volatile":
                for dim in facts.declared(variable)[1]:
                    if dim.names and dim.names <= facts.runtime:
                        # Volatile variables are there in every step.
                        self.require(Size.of(0), dim, "negative-size", BEFORE)
        self.hints = self.hints.inside(facts.blocks["entry"])
        self.say(block_stamp(facts.blocks["entry"], "enter"))
        self.translate_nodes(nodes, scope, live, live)
        self.say(block_stamp(facts.blocks["entry"], "exit"))
        try:
            results = [self.value_of(name, scope) for name in outputs]
        except Problem as problem:
            raise _refusal(problem, facts.blocks["entry"]) from problem
        self.shapes = {n: [str(d) for d in nn.dims_of(v)] for n, v in zip(outputs, results)}
        for name, start in self.held.items():
            if (value := scope.values[name]) is not start:
                self.insert(nn.CommitOp(value, name))
        self.insert(FuncReturnOp(*results))
        self.late.finish()
        self._replace_module(outputs, results)

    def _held(self, scope: Scope) -> None:
        """An argument for each persistent variable that does not grow."""
        self.held: dict[str, SSAValue] = {}
        for name, state in self.facts.states.items():
            if state.plain:
                kind = self.tensor_type(state.dtype, state.dims)
                argument = self.entry.insert_arg(kind, len(self.entry.args))
                argument.name_hint = name
                scope.values[name] = self.held[name] = argument

    def _replace_module(self, outputs: list[str], results: list[SSAValue]) -> None:
        types = FunctionType.from_lists(self.entry.arg_types, [r.type for r in results])
        function = FuncOp("step", types, Region(self.entry))
        entries = self.facts.interface(outputs, list(self.weights), self.touched)
        entries["blocks"] = block_rows(self.facts.blocks)
        entries["held"] = list(self.held)
        used = {o.size.data for o in function.walk() if isinstance(o, nn.DefineSizeOp)}
        entries["late"] = [name for name in self.late.names if name in used]
        entries["shapes"] = self.shapes
        if self.watched_dims:
            entries["watched_dims"] = self.watched_dims
        entries["requires"] = [
            RequirementRow(low, high, node, kind)
            for (low, high, kind), node in self.requirements.items()
        ]
        block = self.module.body.block
        for op in list(block.ops):
            op.detach()
            op.erase()
        block.add_op(function)
        nn.update_interface(
            self.module, {key: as_attribute(value) for key, value in entries.items()}
        )

    # Nodes

    def translate_nodes(
        self, nodes: Sequence[Operation], scope: Scope, after: Names, at_return: Names
    ) -> Left:
        """Translates nodes; says whether a return was met: what follows it never runs.

        A block that is called without a condition is a frame more here, not a deeper recursion.
        """
        outside = self.hints
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
                    self.say(block_stamp(frame.block, "exit"))
                if not frames:
                    return left
                self.hints = frames[-1].hints
        finally:
            self.hints = outside

    def _frame(
        self, nodes: Sequence[Operation], scope: Scope, after: Names, at_return: Names
    ) -> _Frame:
        self.ordered |= _ordered(nodes)
        behind = self.facts.flow.live_behind_each(nodes, after, at_return)
        return _Frame(nodes, behind, scope, after, at_return, self.hints)

    def _call(self, op: BranchOp, caller: _Frame) -> _Frame:
        """The frame of a block that is called for sure; it sees no loop index of its caller."""
        target = self.facts.blocks[op.then_block.data]
        outer = caller.scope
        scope = Scope(outer.values, {}, outer.dims, outer.late, outer.unset)
        live = caller.behind[caller.position - 1]
        self.hints = caller.hints.inside(op).inside(target)
        self.say(block_stamp(target, "enter"))
        frame = self._frame(nodes_of(target), scope, live, live)
        frame.block = target
        return frame

    def _translate_some(self, frame: _Frame) -> Left | BranchOp:
        """Translates what is left of a frame, up to the next block that is called for sure."""
        nodes, scope, at_return = frame.nodes, frame.scope, frame.at_return
        while frame.position < len(nodes):
            op, live = nodes[frame.position], frame.behind[frame.position]
            frame.position += 1
            self.where = op
            self._count(op)
            if isinstance(op, ScopeOp) and self._may_leave(nodes_of(op)):
                rest = nodes[frame.position :]
                return self.translate_nodes([*nodes_of(op), *rest], scope, frame.after, at_return)
            if isinstance(op, LoopOp) and self._may_leave([op]):
                self.say(node_stamp(op, self.node))
                rest = nodes[frame.position :]
                try:
                    return self._leave_or_go_on(op, rest, scope, frame.after, at_return)
                except (Problem, op_rules.RuleError) as problem:
                    raise _refusal(problem, op) from problem
            self.hints = frame.hints.inside(op)
            if not isinstance(op, AwaitOp):
                self.say(node_stamp(op, self.node))
            if isinstance(op, BranchOp) and (op.condition is None or op.else_block is None):
                return op
            try:
                if self.translate_node(op, scope, live, at_return):
                    return True
            except NoValue as problem:
                if not self.choices:
                    raise _refusal(problem, op) from problem
                self._fail_here(problem)
                return True
            except (Problem, op_rules.RuleError) as problem:
                raise _refusal(problem, op) from problem
            finally:
                self.hints = frame.hints
        return False

    def _count(self, op: Operation) -> None:
        """Another node is translated. The body of a loop is tried again where shapes change in it,
        so that loops inside of loops could be tried for ever."""
        self.translated += 1
        if self.translated <= self.most:
            return
        raise _refusal(
            Problem(
                "OI0270",
                f"the loops around this node of block `{self.facts.nodes[op].block}` are translated "
                "too often: the shapes that change in one change those of the others",
                "declare the dimensions instead of `_`, or nest fewer loops",
            ),
            op,
        )

    def _fail_here(self, problem: NoValue) -> None:
        """A step that comes here fails; what follows here never runs."""
        zero = self.constant_index(0)
        number = self.constant_index(self.facts.number_of(problem.variable))
        never = self.add(arith.CmpiOp(zero, zero, "ne"))
        self.insert(nn.RequireOp(never, problem.kind, number, zero, self.node))

    def translate_node(self, op: Operation, scope: Scope, live: Names, at_return: Names) -> bool:
        match op:
            case OpOp():
                self.op_node(op, scope)
            case TransferOp():
                self.transfer(op, scope)
            case AssignOp():
                self.assign(op, scope, live)
            case BarrierOp() | DepOp():
                # A barrier where a `dep` stands orders all that is before it and behind it.
                self.insert(nn.BarrierOp())
            case ScopeOp():
                return self.translate_nodes(nodes_of(op), scope, live, at_return) is True
            case LoopOp():
                return self.loop(op, scope, live, at_return)
            case BranchOp():
                self.branch(op, scope, live)
            case ReturnOp():
                return True
            case YieldOp():
                # Values do not change: what was published is what stands here now.
                self.published.update({n: self.value_of(n, scope) for n in op.names})
                self._arrive(frozenset(op.names))
            case AwaitOp():
                self.consumers(op, scope, live)
            case _ if translate_cache(self, op, scope):
                pass
            case _:
                raise Problem("OI0713", f"{op.name} is not implemented in compiled programs yet")
        return False

    def live_before(self, nodes: Sequence[Operation], after: Names, at_return: Names) -> Names:
        """The variables whose value, or dimensions, is needed before nodes."""
        return self.facts.flow.live_before(nodes, after, at_return)

    @staticmethod
    def wanted(names: Iterable[str], live: Names) -> list[str]:
        """Those of some variables of which the value or the dimensions are needed."""
        return [name for name in names if name in live or dims_of(name) in live]

    def assign(self, op: AssignOp, scope: Scope, live: Names) -> None:
        """A temporary starts as zeros where it is first read, and again in another shape."""
        if not self.facts.names_scalars(op):
            self.require_dims(self.facts.declared(op)[1])
            return
        name = op.variable.data
        _, declared = self.facts.declared(op)
        self.require_dims(declared)
        dims = [d if d.single_name == "_" else self.late.symbolic(d, scope) for d in declared]
        scope.dims[name] = dims
        value = scope.values.get(name)
        if value is None or any(d.single_name == "_" for d in dims):
            return
        have = list(nn.dims_of(value))
        flag = scope.unset.pop(name, None)
        if have == dims and flag is None:
            return
        if name not in live:
            # What it was is written over before anybody reads it.
            scope.values.pop(name)
            return
        zero = self.constant_index(0)
        same = None if flag is None else self.add(arith.CmpiOp(flag, zero, "ne"))
        for a, b in zip(have, dims):
            if a != b:
                left, right = self.index_value(a, scope), self.index_value(b, scope)
                equal = self.add(arith.CmpiOp(left, right, "eq"))
                same = equal if same is None else self.add(arith.AndIOp(same, equal))
        assert same is not None
        kind = self.tensor_type(op.dtype.data, dims)
        sides = [
            lambda: value if value.type == kind else self.add(nn.CastDimsOp(value, kind)),
            lambda: self.first_content(op, dims),
        ]
        new = self.one_of(same, kind, sides)
        new.name_hint = name
        scope.values[name] = new

    def op_node(self, op: OpOp, scope: Scope) -> None:
        operands = [self.read(ref, scope) for ref in op.inputs]
        name = op.op_name.data
        outputs = [self.written_type(ref.variable.data, scope) for ref in op.outputs]
        settings = self.facts.settings(op)
        self.check_numbers(name, settings, scope)
        if name == "slice" and operands:
            settings = self.slice_settings(settings, nn.dims_of(operands[0]), scope)
        settings = late_numbers(self, name, operands, settings, scope)
        settings = self.late_settings(name, settings, scope)
        settings = with_rest(self, name, operands, settings)
        settings = scalar_settings(self, name, settings, scope)
        operands = op_rules.unified(self, name, operands, len(outputs), settings, scope)
        results = op_rules.translate(self, name, operands, outputs, settings, scope)
        for ref, result in zip(op.outputs, results):
            self.write(ref, result, scope)
            self.watch(scope.values[ref.variable.data], op, ref)
            if op in self.ordered:
                self.insert(nn.KeepOp(result))

    def check_numbers(self, name: str, settings: Mapping[str, object], scope: Scope) -> None:
        """Of several sizes all are checked before one is used, so that the step fails alike with each."""
        spec = opset.find(name)
        found: list[Size] = []

        def collect(value: object) -> None:
            if isinstance(value, tuple):
                for item in value:
                    collect(item)
            elif isinstance(value, Size | opset.NameRef):
                size = Size.name(value.name) if isinstance(value, opset.NameRef) else value
                size = self.late.folded(size, scope)
                if any(n in scope.indices or n in self.facts.variables for n in size.names):
                    found.append(size)

        for key, value in settings.items():
            setting = spec.setting(key) if spec else None
            if setting is not None and setting.kind in opset.SIZE_KINDS:
                collect(value)
        if len(found) > 1:
            for size in found:
                self.index_value(size, scope)

    def require_holds(self, flag: SSAValue, kind: str, shown: SSAValue | None = None) -> None:
        """The step fails with a row of the failures where a bool of one element is false."""
        zero = number = self.constant_index(0)
        if shown is not None:
            number = self.add(IndexCastOp(self.element(shown), IndexType()))
        self.insert(nn.RequireOp(self.element(flag), kind, number, zero, self.node))

    def slice_settings(
        self, settings: Mapping[str, object], dims: Sequence[Size], scope: Scope
    ) -> dict[str, object]:
        """The settings of a slice with bounds that may be negative counted from the front."""

        def from_front(value: object, axis: object) -> object:
            if isinstance(value, opset.NameRef):
                value = Size.name(value.name)
            if not isinstance(value, Size) or not isinstance(axis, int):
                return value
            unknown = value.names - self.late.known - self.facts.static.keys()
            if not unknown or not -len(dims) <= axis < len(dims):
                return value
            number = self.index_value(value, scope)
            if value.single_name is not None and self.never_negative(number):
                return value
            zero = self.constant_index(0)
            behind = self.add(arith.CmpiOp(number, zero, "slt"))
            counted = self.add(arith.AddiOp(number, self.index_value(dims[axis], scope)))
            place = self.add(arith.SelectOp(behind, counted, number))
            inside = self.add(arith.CmpiOp(place, zero, "sge"))
            self.insert(nn.RequireOp(inside, "bound", zero, place, self.node))
            # Said before a size of this value is there, which might ask for much memory.
            extent = self.index_value(dims[axis], scope)
            reached = self.add(arith.CmpiOp(place, extent, "sle"))
            self.insert(nn.RequireOp(reached, "bound", place, extent, self.node))
            return self.late.define("slice", place, scope)

        found = dict(settings)
        axes = settings.get("axes")
        for key in ("starts", "stops"):
            values = settings.get(key)
            if isinstance(values, Size | opset.NameRef):
                values = (values,)
            if isinstance(values, tuple):
                places = axes if isinstance(axes, tuple) else range(len(values))
                found[key] = tuple(from_front(v, a) for v, a in zip(values, places))
        for key in ("start", "stop"):
            if key in settings:
                found[key] = from_front(settings[key], settings.get("axis", 0))
        return found

    def late_settings(
        self, name: str, settings: Mapping[str, object], scope: Scope
    ) -> dict[str, object]:
        """The settings with sizes over scalars and loop indices as late sizes."""
        spec = opset.find(name)

        def replaced(value: object) -> object:
            if isinstance(value, tuple):
                return tuple(replaced(item) for item in value)
            if isinstance(value, opset.NameRef):
                value = Size.name(value.name)
            return self.late.symbolic(value, scope) if isinstance(value, Size) else value

        found: dict[str, object] = {}
        for key, value in settings.items():
            setting = spec.setting(key) if spec else None
            sized = setting is not None and setting.kind in ("size", "ints")
            found[key] = replaced(value) if sized else value
        return found

    def transfer(self, op: TransferOp, scope: Scope) -> None:
        self.write(op.target, self.read(op.source, scope), scope)
        self.watch(scope.values[op.target.variable.data], op, op.target)

    def loop(self, op: LoopOp, scope: Scope, live: Names, at_return: Names) -> bool:
        """A loop that is left nowhere, or by its first round for sure."""
        body = nodes_of(op)
        if self._returns(body):
            return self._once(op, scope, live, at_return)
        self._rounds(op, scope, live, at_return)
        return False

    def _rounds(
        self, op: LoopOp, scope: Scope, live: Names, at_return: Names, *, leaves: bool = False
    ) -> SSAValue | None:
        """The rounds of a loop; with `leaves`, whether one of them left the block."""
        body = nodes_of(op)
        names = self.assigned(body)
        self._fix_dims(body, names, scope)
        needed = live | at_return | self.live_before(body, live, at_return)
        carried = self.wanted(names, needed)
        start = self.counted(op.start.data, scope)
        stop = self.counted(op.stop.data, scope)

        def translate(inner: Scope, number: SSAValue) -> tuple[Scope, Left]:
            inner.indices[op.index.data] = Index(number, self.constant_bounds(op))
            self.say(turn_stamp(op, self.node, number))
            return inner, self.translate_nodes(body, inner, needed, at_return)

        def turn(inner: Scope, number: SSAValue, left: SSAValue | None) -> tuple[Scope, Left]:
            number.name_hint = op.index.data
            if left is None:
                return translate(inner, number)
            sides = [lambda s: translate(s, number), lambda s: (s, True)]
            found = self.either(self.goes_on(left), sides, names, carried, inner, op)
            return inner, found

        return self.rounds((start, stop), names, carried, scope, op, turn, leaves=leaves)

    def _fix_dims(
        self, nodes: Sequence[Operation], names: Names | dict[str, None], scope: Scope
    ) -> None:
        """Sizes that no round of a loop changes get their value in front of it.

        No round may come to the node that needs them: what is wrong with them is said there.
        """
        for op in nodes:
            if isinstance(op, LoopOp | ScopeOp):
                self._fix_dims(nodes_of(op), names, scope)
            elif isinstance(op, AssignOp) and self.facts.names_scalars(op):
                for dim in op.sizes:
                    unknown = dim.names - self.late.known - self.facts.static.keys()
                    if all(n in self.facts.variables and n not in names for n in unknown):
                        with self.late.ahead():
                            self.late.symbolic(dim, scope)

    def _returns(self, nodes: Sequence[Operation]) -> bool:
        """Whether the nodes themselves may return, other than in a block that they call."""
        for op in nodes:
            if isinstance(op, ReturnOp):
                return True
            if isinstance(op, LoopOp) and (bounds := self.constant_bounds(op)) is not None:
                if bounds[0] >= bounds[1]:
                    continue
            if isinstance(op, LoopOp | ScopeOp) and self._returns(nodes_of(op)):
                return True
        return False

    def _may_leave(self, nodes: Sequence[Operation]) -> bool:
        """Whether a return stands in a loop of which only the step knows if it runs at all."""
        for op in nodes:
            if isinstance(op, ScopeOp) and self._may_leave(nodes_of(op)):
                return True
            if isinstance(op, LoopOp) and self._returns(nodes_of(op)):
                bounds = self.constant_bounds(op)
                if bounds is None or (bounds[0] < bounds[1] and self._may_leave(nodes_of(op))):
                    return True
        return False

    def _leave_or_go_on(
        self,
        op: LoopOp,
        rest: Sequence[Operation],
        scope: Scope,
        after: Names,
        at_return: Names,
    ) -> Left:
        """A loop that may leave the block, then what follows it where it did not."""
        body = nodes_of(op)
        live = self.live_before(rest, after, at_return)
        names = self.assigned(rest)

        def go_on(inner: Scope) -> tuple[Scope, Left]:
            return inner, self.translate_nodes(rest, inner, after, at_return)

        if self._may_leave(body):
            left = self._rounds(op, scope, live, at_return, leaves=True)
            assert left is not None
            kept = self.wanted(names, at_return | after)
            sides = [go_on, lambda inner: (inner, True)]
            return self.either(self.goes_on(left), sides, names, kept, scope, op)
        start = self.counted(op.start.data, scope)
        stop = self.counted(op.stop.data, scope)
        runs = self.add(arith.CmpiOp(start, stop, "slt"))

        def once(inner: Scope) -> tuple[Scope, Left]:
            inner.indices[op.index.data] = Index(start)
            self.say(turn_stamp(op, self.node, start))
            return inner, self.translate_nodes(body, inner, live, at_return)

        names = {**self.assigned(body), **names}
        kept = self.wanted(names, at_return | after)
        return self.either(runs, [once, go_on], names, kept, scope, op)

    def _once(self, op: LoopOp, scope: Scope, live: Names, at_return: Names) -> bool:
        bounds = self.constant_bounds(op)
        assert bounds is not None
        if bounds[0] >= bounds[1]:
            return False
        start = self.counted(op.start.data, scope)
        inner = Scope(scope.values, dict(scope.indices), scope.dims, scope.late, scope.unset)
        inner.indices[op.index.data] = Index(start, (bounds[0], bounds[0] + 1))
        self.say(turn_stamp(op, self.node, start))
        self.translate_nodes(nodes_of(op), inner, live, at_return)
        return True

    def branch(self, op: BranchOp, scope: Scope, live: Names) -> None:
        blocks = self.facts.blocks
        then = blocks[op.then_block.data]
        assert op.condition is not None
        assert op.else_block is not None
        otherwise = blocks[op.else_block.data]
        names = {**self.assigned(nodes_of(then)), **self.assigned(nodes_of(otherwise))}
        kept = self.wanted(names, live)
        condition = self.condition(op.condition, scope)

        def side(target: BlockOp) -> Callable[[Scope], tuple[Scope, Left]]:
            return lambda inner: (self.called_block(target, inner, live), False)

        self.either(condition, [side(then), side(otherwise)], names, kept, scope, op)

    def _arrive(self, names: Names) -> None:
        """Entry yields values: consumers that have all of theirs now are to run."""
        for block in consumers_of(names, self.facts.blocks):
            name, first = block.block_name.data, block.body.block.first_op
            assert isinstance(first, AwaitOp)
            arrived = self.arrived.get(name, frozenset()) | (names & frozenset(first.names))
            if arrived.issuperset(first.names):
                self.due.add(name)
                arrived = frozenset[str]()
            self.arrived[name] = arrived

    def consumers(self, op: AwaitOp, scope: Scope, live: Names) -> None:
        """The blocks that await what entry takes back, as sections that may run side by side."""
        # A consumer of several values runs once, when entry asks for the first of them.
        blocks = [
            b for b in consumers_of(op.names, self.facts.blocks) if b.block_name.data in self.due
        ]
        self.due -= {b.block_name.data for b in blocks}
        regions: list[Region] = []
        results: list[str] = []
        values: list[SSAValue] = []
        loose: dict[str, Loose | None] = {}
        outer = self.builder
        changed: dict[str, None] = {}
        # What several sections read must stand in front of them.
        for block in blocks:
            needed = self.live_before(consumer_nodes(block), frozenset(), frozenset())
            for name in sorted(needed & self.facts.variables.keys()):
                state = self.facts.states.get(name)
                if state is None or state.plain:
                    self.start(name, scope)
        for target in blocks:
            body = Block()
            self.builder = Builder(InsertPoint.at_end(body))
            inner = Scope(
                {**scope.values, **self.published},
                {},
                dict(scope.dims),
                dict(scope.late),
                {n: flag for n, flag in scope.unset.items() if n not in self.published},
            )
            outside = self.hints
            self.hints = outside.inside(target)
            nodes = consumer_nodes(target)
            self.say(block_stamp(target, "enter"))
            self._say_edge(target, AwaitOp, inner)
            self.translate_nodes(nodes, inner, live, live)
            self._say_edge(target, YieldOp, inner)
            self.say(block_stamp(target, "exit"))
            self.hints = outside
            self.where = op
            names = self.assigned(nodes)
            changed.update(names)
            given: list[SSAValue] = []
            for name in names:
                if name in live:
                    self.start(name, inner)
                    if name in inner.values:
                        results.append(name)
                        loose[name] = self.joined(name, [inner])
                        given += self.give(name, inner, loose[name])
            self.insert(nn.EndSectionOp(*given))
            regions.append(Region(body))
            values += given
        self.builder = outer
        if regions:
            types = [value.type for value in values]
            sections = nn.SectionsOp([b.block_name.data for b in blocks], regions, types)
            self.insert(sections)
            self.leave(scope, changed)
            self.take_all(results, loose, scope, sections.values)
        for name in op.names:
            self.published.pop(name, None)
        self._say_awaited(op, scope)

    def _say_edge(self, target: BlockOp, form: type[AwaitOp] | type[YieldOp], scope: Scope) -> None:
        """The `await` that a consumer starts with, or the `yield` that it ends with."""
        for node in nodes_of(target):
            if isinstance(node, form):
                self._say_awaited(node, scope)

    def _say_awaited(self, node: AwaitOp | YieldOp, scope: Scope) -> None:
        """A node of the exchange, and what it gives: one value may be another one elsewhere."""
        self.say(node_stamp(node, self.facts.node_number(node)))
        for name in node.names:
            if isinstance(node, AwaitOp) and name in scope.values:
                self.watch(scope.values[name], node, RefAttr.of(name))

    def called_block(self, target: BlockOp, caller: Scope, live: Names) -> Scope:
        """Translates a block that is called; it sees no loop index of its caller."""
        scope = Scope(caller.values, {}, caller.dims, caller.late, caller.unset)
        outside = self.hints
        self.hints = outside.inside(target)
        self.say(block_stamp(target, "enter"))
        self.translate_nodes(nodes_of(target), scope, live, live)
        self.say(block_stamp(target, "exit"))
        self.hints = outside
        return scope


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
