"""From named variables to SSA values: the step of level `nn`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Region, SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.dialects.graph import AssignOp, BlockOp
from openinfer.lowering.graph.contents import tensor_type
from openinfer.lowering.graph.node_walk import NodeWalk, refusal
from openinfer.lowering.graph.scope import Problem, Scope
from openinfer.lowering.graph.stamps import block_rows
from openinfer.lowering.graph.step import Step
from openinfer.lowering.interface import as_attribute
from openinfer.lowering.program.size_definitions import quotients
from openinfer.runtime.errors import ProgramError
from openinfer.runtime.manifest import BEFORE, RequirementRow
from openinfer.runtime.sizes import Size


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
        if any(isinstance(o, BlockOp) for o in op.body.ops):
            _translate(op)


def _translate(module: ModuleOp) -> None:
    step = Step(module)
    facts, b = step.facts, step.builder
    if problems := facts.problems():
        raise ProgramError(problems)
    scope = Scope()
    _inputs(step, scope)
    held = _held(step, scope)
    _require_volatile_dims(step)
    _require_even_divisions(step, module)
    entry, outputs = facts.blocks["entry"], facts.outputs()
    # What is made for the results behind it belongs to entry, too.
    b.hints = b.hints.inside(entry)
    NodeWalk(step).block(entry, scope, frozenset(outputs) | held.keys())
    try:
        results = [step.variables.value_of(name, scope) for name in outputs]
    except Problem as problem:
        raise refusal(problem, entry) from problem
    for name, start in held.items():
        if (value := scope.values[name]) is not start:
            b.insert(nn.CommitOp(value, name))
    b.insert(FuncReturnOp(*results))
    step.sizes.finish()
    types = FunctionType.from_lists(b.entry.arg_types, [r.type for r in results])
    function = FuncOp("step", types, Region(b.entry))
    entries = facts.interface(outputs, list(step.contents.weights), step.variables.touched)
    entries["blocks"] = block_rows(facts.blocks)
    entries["held"] = list(held)
    used = {o.size.data for o in function.walk() if isinstance(o, nn.DefineSizeOp)}
    entries["dynamic_sizes"] = [name for name in step.sizes.names if name in used]
    entries["shapes"] = {n: [str(d) for d in nn.dims_of(v)] for n, v in zip(outputs, results)}
    if step.stamps.dims:
        entries["watched_dims"] = step.stamps.dims
    entries["bounds"] = [
        row for row in facts.bounds.values() if not facts.static.keys() >= row.names
    ]
    entries["requires"] = [
        RequirementRow(low, high, node, kind)
        for (low, high, kind), node in step.requirements.rows.items()
    ]
    for op in list(module.body.block.ops):
        op.detach()
        op.erase()
    module.body.block.add_op(function)
    nn.update_interface(module, {key: as_attribute(value) for key, value in entries.items()})


def _inputs(step: Step, scope: Scope) -> None:
    """An argument for each input."""
    for variable in step.facts.inputs():
        name = variable.variable.data
        try:
            kind = step.contents.declared_type(variable)
        except Problem as problem:
            raise refusal(problem, variable) from problem
        scope.values[name] = step.builder.argument(name, kind)


def _held(step: Step, scope: Scope) -> dict[str, SSAValue]:
    """An argument for each persistent variable that does not grow."""
    held: dict[str, SSAValue] = {}
    for name, state in step.facts.states.items():
        if state.plain:
            kind = tensor_type(state.dtype, state.dims)
            scope.values[name] = held[name] = step.builder.argument(name, kind)
    return held


def _require_even_divisions(step: Step, module: ModuleOp) -> None:
    """The divisions of the sizes that the program defines leave no remainder."""
    facts = step.facts
    for quotient in quotients(module):
        left, right = (s.substitute(facts.static) for s in (quotient.left, quotient.right))
        names = left.names | right.names
        if names and names <= facts.runtime:
            rounded = right * (left // right)
            step.requirements.at_most(left, rounded, "remainder", BEFORE)


def _require_volatile_dims(step: Step) -> None:
    """Volatile variables are there in every step, so none of their dimensions is negative."""
    facts = step.facts
    for variable in facts.variables.values():
        if not isinstance(variable, AssignOp) and variable.memory.data == "volatile":
            for dim in facts.declared(variable)[1]:
                if dim.names and dim.names <= facts.runtime:
                    step.requirements.at_most(Size.of(0), dim, "negative-size", BEFORE)
