"""From named variables to SSA values: the step of level `nn`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    i1,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from openinfer.dialects import nn
from openinfer.dialects.graph import (
    AssignOp,
    BarrierOp,
    BlockOp,
    BranchOp,
    DepOp,
    LoopOp,
    OpOp,
    ReturnOp,
    ScopeOp,
    TransferOp,
)
from openinfer.lowering.graph import op_rules
from openinfer.lowering.graph.liveness import Names, live_before, nodes_of, written
from openinfer.lowering.graph.variable_values import Index, Problem, Scope, VariableValues
from openinfer.lowering.locations import location_of
from openinfer.runtime.errors import Diagnostic, ProgramError


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


class Translator(VariableValues):
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
        nodes = nodes_of(facts.blocks["entry"])
        outputs = facts.outputs()
        live = frozenset(outputs)
        self.no_fuse = _kept_apart(facts.blocks["entry"])
        self.translate_nodes(nodes, scope, live, live)
        try:
            results = [self.value_of(name, scope) for name in outputs]
        except Problem as problem:
            raise _refusal(problem, facts.blocks["entry"]) from problem
        self.insert(FuncReturnOp(*results))
        self._replace_module(outputs, results)

    def _replace_module(self, outputs: list[str], results: list[SSAValue]) -> None:
        types = FunctionType.from_lists(self.entry.arg_types, [r.type for r in results])
        function = FuncOp("step", types, Region(self.entry))
        entries = self.facts.attributes(outputs, list(self.weights))
        entries["requires"] = ArrayAttr(
            [
                DictionaryAttr(
                    {
                        "low": StringAttr(low),
                        "high": StringAttr(high),
                        "node": IntegerAttr(node, IntegerType(64)),
                    }
                )
                for (low, high), node in self.requirements.items()
            ]
        )
        block = self.module.body.block
        for op in list(block.ops):
            op.detach()
            op.erase()
        block.add_op(function)
        nn.update_interface(self.module, entries)

    # Nodes

    def translate_nodes(
        self, nodes: Sequence[Operation], scope: Scope, after: Names, at_return: Names
    ) -> bool:
        """Translates nodes; True when a return was met (what follows it never runs)."""
        for position, op in enumerate(nodes):
            live = live_before(nodes[position + 1 :], after, at_return, self.facts.blocks)
            self.where = op
            outside = self.no_fuse
            self.no_fuse = outside or _kept_apart(op)
            try:
                if self.translate_node(op, scope, live, at_return):
                    return True
            except (Problem, op_rules.RuleError) as problem:
                raise _refusal(problem, op) from problem
            finally:
                self.no_fuse = outside
        return False

    def translate_node(self, op: Operation, scope: Scope, live: Names, at_return: Names) -> bool:
        match op:
            case OpOp():
                self.op_node(op, scope)
            case TransferOp():
                self.transfer(op, scope)
            case AssignOp():
                # A temporary starts as zeros where it is first read.
                pass
            case BarrierOp() | DepOp():
                # A barrier where a `dep` stands orders all that is before it and behind it.
                self.insert(nn.BarrierOp())
            case ScopeOp():
                return self.translate_nodes(nodes_of(op), scope, live, at_return)
            case LoopOp():
                return self.loop(op, scope, live, at_return)
            case BranchOp():
                self.branch(op, scope, live)
            case ReturnOp():
                return True
            case _:
                raise Problem("OI0713", f"{op.name} is not implemented in compiled programs yet")
        return False

    def op_node(self, op: OpOp, scope: Scope) -> None:
        operands = [self.read(ref, scope) for ref in op.inputs]
        outputs = [self.facts.type_of(ref) for ref in op.outputs]
        results = op_rules.translate(
            self, op.op_name.data, operands, outputs, self.facts.settings(op)
        )
        for ref, result in zip(op.outputs, results):
            self.write(ref, result, scope)
            if self.observe:
                self.insert(nn.ObserveOp(result, self.facts.node_number(op), ref.variable.data))

    def transfer(self, op: TransferOp, scope: Scope) -> None:
        value = self.read(op.source, scope)
        wanted = self.tensor_type(*self.facts.type_of(op.target))
        if value.type != wanted:
            raise Problem(
                "OI0312",
                f"transfer of {value.type} to {op.target.text}, which is {wanted}",
                "source and target of a transfer have one dtype and shape",
            )
        self.write(op.target, value, scope)
        if self.observe:
            name = op.target.variable.data
            self.insert(nn.ObserveOp(value, self.facts.node_number(op), name))

    def loop(self, op: LoopOp, scope: Scope, live: Names, at_return: Names) -> bool:
        body = nodes_of(op)
        blocks = self.facts.blocks
        leaves = self._returns(body)
        names = written(body, blocks)
        needed = live | at_return | live_before(body, live, at_return, blocks)
        carried = [name for name in names if name in needed]
        start = self.index_value(op.start.data, scope)
        stop = self.index_value(op.stop.data, scope)
        bounds = self.constant_bounds(op)
        initial = [self.value_of(name, scope) for name in carried]
        if leaves:
            # A return in a loop leaves the block: the body runs once.
            return self._once(op, scope, live, at_return, carried, initial, start, stop)
        block = Block(arg_types=[IndexType(), *(v.type for v in initial)])
        block.args[0].name_hint = op.index.data
        one = self.constant_index(1)
        inner = Scope(dict(scope.values), dict(scope.indices))
        inner.indices[op.index.data] = Index(block.args[0], bounds)
        for name, argument in zip(carried, block.args[1:]):
            inner.values[name] = argument
            argument.name_hint = name
        for name in names:
            if name not in carried:
                inner.values.pop(name, None)
        loop = scf.ForOp(start, stop, one, initial, Region(block))
        self.insert(loop)
        outer, self.builder = self.builder, Builder(InsertPoint.at_end(block))
        self.translate_nodes(body, inner, needed, at_return)
        self.where = op
        self.insert(scf.YieldOp(*(self.value_of(name, inner) for name in carried)))
        self.builder = outer
        self._leave(scope, names, carried, loop.results)
        return False

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

    def _once(
        self,
        op: LoopOp,
        scope: Scope,
        live: Names,
        at_return: Names,
        carried: list[str],
        initial: list[SSAValue],
        start: SSAValue,
        stop: SSAValue,
    ) -> bool:
        bounds = self.constant_bounds(op)
        if bounds is None:
            raise Problem(
                "OI0714",
                "a `return` inside a loop whose bounds are only known at run time "
                "is not implemented in compiled programs yet",
                "run it with the simulator, or put the return behind the loop",
            )
        if bounds[0] >= bounds[1]:
            return False
        inner = Scope(scope.values, dict(scope.indices))
        inner.indices[op.index.data] = Index(start, (bounds[0], bounds[0] + 1))
        self.translate_nodes(nodes_of(op), inner, live, at_return)
        return True

    def branch(self, op: BranchOp, scope: Scope, live: Names) -> None:
        blocks = self.facts.blocks
        then = blocks[op.then_block.data]
        if op.condition is None or op.else_block is None:
            self.called_block(then, scope.values, live)
            return
        otherwise = blocks[op.else_block.data]
        names = {**written(nodes_of(then), blocks), **written(nodes_of(otherwise), blocks)}
        results = [name for name in names if name in live]
        condition = self.condition(op.condition, scope)
        regions: list[Region] = []
        types: list[Attribute] = []
        outer = self.builder
        # Values that both sides start from must stand before the branch.
        for name in results:
            self.value_of(name, scope)
        for target in (then, otherwise):
            block = Block()
            self.builder = Builder(InsertPoint.at_end(block))
            inner = self.called_block(target, dict(scope.values), live)
            self.where = op
            values = [self.value_of(name, inner) for name in results]
            types = [value.type for value in values]
            self.insert(scf.YieldOp(*values))
            regions.append(Region(block))
        self.builder = outer
        op_if = scf.IfOp(condition, types, regions[0], regions[1])
        self.insert(op_if)
        self._leave(scope, names, results, op_if.results)

    def called_block(self, target: BlockOp, values: dict[str, SSAValue], live: Names) -> Scope:
        """Translates a block that is called; it sees no loop index of its caller."""
        scope = Scope(values)
        outside = self.no_fuse
        self.no_fuse = outside or _kept_apart(target)
        self.translate_nodes(nodes_of(target), scope, live, live)
        self.no_fuse = outside
        return scope

    @staticmethod
    def _leave(
        scope: Scope, names: dict[str, None], kept: list[str], results: Sequence[SSAValue]
    ) -> None:
        for name in names:
            scope.values.pop(name, None)
        for name, result in zip(kept, results):
            result.name_hint = name
            scope.values[name] = result


def _kept_apart(op: Operation) -> bool:
    """Whether the hints of a node, a loop, a scope or a block forbid to fuse what it holds."""
    hints = op.hints if isinstance(op, OpOp | LoopOp | ScopeOp | BlockOp) else None
    if hints is None:
        return False
    fuse, fixed = hints.data.get("fuse"), hints.data.get("no_reorder")
    return fuse == IntegerAttr(0, i1) or fixed == IntegerAttr(1, i1)
