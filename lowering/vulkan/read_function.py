"""A function of SPIR-V words as a `spirv.func`: blocks, and constructs as regions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, FunctionType, IntegerAttr, StringAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from openinfer.dialects.spirv.composite_ops import ConstantOp
from openinfer.dialects.spirv.control_flow_ops import (
    BranchConditionalOp,
    BranchOp,
    LoopOp,
    MergeOp,
    ReturnOp,
    ReturnValueOp,
    SelectionOp,
    SwitchOp,
    UnreachableOp,
)
from openinfer.dialects.spirv.enums import (
    FunctionControlAttr,
    LoopControlAttr,
    SelectionControlAttr,
)
from openinfer.dialects.spirv.global_ops import AddressOfOp, ReferenceOfOp
from openinfer.dialects.spirv.memory_ops import LoadOp, StoreOp, VariableOp
from openinfer.dialects.spirv.structure_ops import SpirvFuncOp
from openinfer.dialects.spirv.types import PointerType
from openinfer.dialects.spirv.value_ops import VALUE_OPS
from openinfer.lowering.vulkan.read_globals import DEEPEST, Globals, cannot_hold
from openinfer.lowering.vulkan.read_op import read_op
from openinfer.runtime.spirv.words import Instruction

_MERGES = frozenset({"SelectionMerge", "LoopMerge"})


@dataclass
class _Scope:
    """A region while its blocks are read."""

    region: Region
    around: _Scope | None
    depth: int
    targets: dict[int, Block] = field(default_factory=dict[int, Block])
    """What may be branched to, by label."""
    labels: dict[Block, int] = field(default_factory=dict[Block, int])
    merge: int = 0

    def chain(self) -> Iterator[_Scope]:
        """This region and those around it."""
        scope: _Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.around


class FunctionReader:
    """Reads one function. Labels are those of the words."""

    def __init__(
        self,
        globals_: Globals,
        symbols: dict[int, str],
        kinds: Mapping[int, Attribute],
        instructions: Sequence[Instruction],
    ) -> None:
        self.globals, self.symbols, self.kinds = globals_, symbols, kinds
        self.function = instructions[0]
        self.parameters = [one for one in instructions if one.row.name == "FunctionParameter"]
        self.bodies: dict[int, list[Instruction]] = {}
        self.phis: dict[int, list[Instruction]] = {}
        self.sources: dict[int, set[int]] = {}
        label = 0
        for one in instructions[1 + len(self.parameters) : -1]:
            if one.row.name == "Label":
                label = one.of("result")[0]
                self.bodies[label], self.phis[label] = [], []
            elif one.row.name == "Phi":
                self.phis[label].append(one)
            else:
                self.bodies[label].append(one)
        for source, body in self.bodies.items():
            for target in _targets(body[-1]):
                self.sources.setdefault(target, set()).add(source)
        self.values: dict[int, SSAValue] = {}
        self.homes: dict[int, _Scope] = {}
        self.done: set[int] = set()
        self.prefix: dict[object, Operation] = {}
        """Constants and what else is the same everywhere."""
        self.variables: list[Operation] = []
        self.spilled: dict[int, VariableOp] = {}
        self.merge_variables: dict[int, list[VariableOp]] = {}
        """Variables for the phis of merge blocks, by label."""
        self.scope = self.root = _Scope(Region(), None, 0)
        self.block = Block()

    def read(self) -> SpirvFuncOp:
        """The op of the function."""
        one = self.function
        type_ = self.globals.types.get(one.of("id")[0])
        if not isinstance(type_, FunctionType) or not self.bodies:
            cannot_hold(one, "a function without a type or without blocks")
        first, *_ = self.bodies
        types = [self.globals.type(part.of("type")[0], part) for part in self.parameters]
        if first in self.sources or types != list(type_.inputs):
            cannot_hold(one, "its first block is branched to, or its parameters are of other types")
        block = Block(arg_types=types)
        for part, argument in zip(self.parameters, block.args):
            self.define(part, argument)
        self.root.targets[first] = block
        self.root.region.add_block(block)
        self.fill(first, block)
        self.reached(block, {block})
        start = block.first_op
        assert start is not None
        block.insert_ops_before([*self.prefix.values(), *self.variables], start)
        return SpirvFuncOp.build(
            regions=[self.root.region],
            properties={
                "sym_name": StringAttr(self.symbols[one.of("result")[0]]),
                "function_type": type_,
                "function_control": FunctionControlAttr(one.of("FunctionControl")[0]),
            },
        )

    # Values

    def define(self, one: Instruction, value: SSAValue) -> None:
        """Takes what an instruction gives."""
        (name,) = one.of("result")
        self.values[name], self.homes[name] = value, self.scope

    def put(self, op: Operation) -> None:
        """Appends an op to the block that is read."""
        self.block.add_op(op)

    def value(self, name: int, one: Instruction) -> SSAValue:
        """The value of an id where an instruction uses it."""
        if name not in self.values:
            return self.everywhere(name, one)
        if any(scope is self.homes[name] for scope in self.scope.chain()):
            return self.values[name]
        variable = self.spilled.get(name)
        if variable is None:
            value = self.values[name]
            variable = self.spilled[name] = self.new_variable(value.type, one)
            store = StoreOp(variable, value)
            if isinstance(value.owner, Operation):
                block = value.owner.parent_block()
                assert block is not None
                block.insert_op_after(store, value.owner)
            else:
                start = value.owner.first_op
                assert start is not None
                value.owner.insert_op_before(store, start)
        load = LoadOp(variable)
        self.put(load)
        return load.res

    def new_variable(self, type_: Attribute, one: Instruction) -> VariableOp:
        """A variable for what a region computes and the code behind it uses."""
        if isinstance(type_, PointerType):
            cannot_hold(one, f"{type_} leaves its construct, and no variable can hold it")
        variable = VariableOp(type_)
        self.variables.append(variable)
        return variable

    def everywhere(self, name: int, one: Instruction) -> SSAValue:
        """A value from outside of the function."""
        key: object
        if name in self.globals.constants:
            constant, type_ = key = self.globals.constants[name]
            made: Operation = ConstantOp(constant, type_)
        elif name in self.globals.undefined:
            key = self.globals.undefined[name]
            made = VALUE_OPS["Undef"].make(result=self.globals.undefined[name])
        elif name in self.kinds:
            key, kind = self.symbols[name], self.kinds[name]
            if isinstance(kind, PointerType):
                made = AddressOfOp(self.symbols[name], kind)
            else:
                made = ReferenceOfOp(self.symbols[name], kind)
        else:
            cannot_hold(one, f"%{name} is no value that the dialect has")
        return self.prefix.setdefault(key, made).results[0]

    # Blocks

    def reached(self, block: Block, seen: set[Block]) -> None:
        """Reads the blocks behind one of this region, in the order of the serializer."""
        scope = self.scope
        pending = [iter(_successors(block))]
        while pending:
            after = next(pending[-1], None)
            if after is None:
                pending.pop()
            elif after not in seen:
                seen.add(after)
                scope.region.add_block(after)
                self.fill(scope.labels[after], after)
                pending.append(iter(_successors(after)))

    def fill(self, label: int, block: Block, *, header: bool = False) -> None:
        """Reads the instructions of a label, and of those that follow in the same block of the dialect."""
        self.block = block
        if not header and self.merge_of(label, "LoopMerge") is not None:
            label = self.loop(label, list(block.args))
        after: int | None = label
        while after is not None:
            label = after
            if label in self.done:
                cannot_hold(self.bodies[label][0], "two constructs share this block")
            self.done.add(label)
            self.merged(label)
            body = self.bodies[label]
            merge = self.merge_of(label, "SelectionMerge")
            last = -2 if len(body) > 1 and body[-2].row.name in _MERGES else -1
            for one in body[:last]:
                read_op(self, one)
            if merge is not None:
                after = self.selection(label, merge, body[-1])
            else:
                after = self.end(label, body[-1])

    def merge_of(self, label: int, kind: str) -> Instruction | None:
        """The merge instruction of a block, if it has one of this kind."""
        body = self.bodies[label]
        return body[-2] if len(body) > 1 and body[-2].row.name == kind else None

    def end(self, label: int, one: Instruction) -> int | None:
        """The end of a block; the label that goes on in the same block of the dialect, if one does."""
        name = one.row.name
        if name == "Branch":
            (target,) = one.of("id")
            if target not in self.scope.targets and self.sources[target] - self.inside(target) == {
                label
            }:
                if self.merge_of(target, "LoopMerge") is not None:
                    return self.loop(target, self.given(label, target))
                if self.merge_of(target, "SelectionMerge") and not self.phis[target]:
                    return target
            self.put(self.branching(label, one))
        elif name in {"BranchConditional", "Switch"}:
            self.put(self.branching(label, one))
        elif name == "Return":
            self.put(ReturnOp())
        elif name == "ReturnValue":
            self.put(ReturnValueOp(self.value(one.of("id")[0], one)))
        elif name == "Unreachable":
            self.put(UnreachableOp())
        else:
            cannot_hold(one, "the dialect lacks it")
        return None

    def inside(self, header: int) -> set[int]:
        """The blocks that branch back to the header of a loop: those that the continue target leads to."""
        merge = self.merge_of(header, "LoopMerge")
        if merge is None:
            return set()
        end, first = merge.of("id")
        found, pending = {first}, [first]
        while pending:
            for target in _targets(self.bodies[pending.pop()][-1]):
                if target not in found and target not in {header, end}:
                    found.add(target)
                    pending.append(target)
        return found

    def branching(
        self, label: int, one: Instruction, scope: _Scope | None = None
    ) -> BranchOp | BranchConditionalOp | SwitchOp:
        """The branch of a block to blocks of a region, and in front of it what merge blocks are given."""
        scope = scope or self.scope
        operands: list[list[SSAValue]] = []
        condition = None
        if one.row.name != "Branch":
            condition = self.value(one.of("id")[0], one)
        targets = _targets(one)
        for place, target in enumerate(targets):
            given = self.given(label, target)
            if target in self.merge_variables and target == scope.merge:
                stored = () if target in targets[:place] else self.merge_variables[target]
                for variable, value in zip(stored, given):
                    self.put(StoreOp(variable, value))
                given = []
            operands.append(given)
        blocks = [self.target(target, one, scope) for target in targets]
        if condition is None:
            return BranchOp(blocks[0], operands[0])
        if one.row.name == "Switch":
            numbers = self.globals.literals(condition.type, one)
            cases = list(zip(numbers, blocks[1:], operands[1:]))
            return SwitchOp(condition, blocks[0], operands[0], cases)
        found = BranchConditionalOp(condition, blocks[0], blocks[1], operands[0], operands[1])
        weights = one.of("word")
        if len(weights) not in {0, 2}:
            cannot_hold(one, f"{len(weights)} weights")
        if weights:
            found.properties["branch_weights"] = ArrayAttr(
                IntegerAttr(weight, i32) for weight in weights
            )
        return found

    def target(self, label: int, one: Instruction, scope: _Scope) -> Block:
        """The block of a label in a region."""
        known = scope.targets.get(label)
        if known is not None:
            return known
        if any(label in outer.targets for outer in scope.chain()):
            cannot_hold(one, f"branches to %{label} out of its construct")
        block = scope.targets[label] = self.with_phis(label, scope)
        scope.labels[block] = label
        return block

    def with_phis(self, label: int, scope: _Scope) -> Block:
        """A block with an argument for each phi. Those of a loop's header are arguments in the region."""
        phis = self.phis[label]
        block = Block(arg_types=[self.globals.type(one.of("type")[0], one) for one in phis])
        for one, argument in zip(phis, block.args):
            (name,) = one.of("result")
            self.values[name], self.homes[name] = argument, scope
        return block

    def given(self, source: int, target: int) -> list[SSAValue]:
        """What a block gives to the phis of another one."""
        found: list[SSAValue] = []
        for one in self.phis[target]:
            edges = one.of("id")
            value = next((v for v, label in zip(edges[::2], edges[1::2]) if label == source), None)
            if value is None:
                cannot_hold(one, f"has no value for the block %{source}")
            found.append(self.value(value, one))
        return found

    # Constructs

    def open(self, merge: int, one: Instruction) -> _Scope:
        """The region of a construct that ends at a label."""
        scope = _Scope(Region(), self.scope, self.scope.depth + 1, merge=merge)
        if scope.depth > DEEPEST:
            cannot_hold(
                one, f"constructs stand {scope.depth} deep in each other, at most {DEEPEST}"
            )
        if any(merge in outer.targets for outer in self.scope.chain()):
            cannot_hold(one, f"%{merge} ends two constructs")
        scope.targets[merge] = Block([MergeOp()])
        self.merge_variables[merge] = [
            self.new_variable(self.globals.type(phi.of("type")[0], phi), phi)
            for phi in self.phis[merge]
        ]
        return scope

    def merged(self, label: int) -> None:
        """Reads what the blocks of a construct stored for the phis behind it."""
        for phi, variable in zip(self.phis[label], self.merge_variables.get(label, ())):
            load = LoadOp(variable)
            self.put(load)
            self.define(phi, load.res)

    def selection(self, label: int, one: Instruction, branch: Instruction) -> int:
        """A selection; its header holds nothing but the branch. The label behind it."""
        (merge,) = one.of("id")
        scope = self.open(merge, one)
        outer, block = self.scope, self.block
        end = self.branching(label, branch, scope)
        header = Block([end])
        scope.region.add_block(header)
        self.scope = scope
        self.reached(header, {scope.targets[merge], header})
        scope.region.add_block(scope.targets[merge])
        self.scope, self.block = outer, block
        op = SelectionOp(scope.region)
        op.properties["selection_control"] = SelectionControlAttr(one.of("SelectionControl")[0])
        self.put(op)
        return merge

    def loop(self, label: int, arguments: Sequence[SSAValue]) -> int:
        """A loop by its header. The label behind it."""
        one = self.bodies[label][-2]
        merge, continuing = one.of("id")
        if merge in {continuing, label}:
            cannot_hold(one, "a loop ends in a block of its own")
        scope = self.open(merge, one)
        if any(continuing in outer.targets for outer in self.scope.chain()):
            cannot_hold(one, f"%{continuing} goes on with two loops")
        outer, block = self.scope, self.block
        self.scope = scope
        header = scope.targets[label] = self.with_phis(label, scope)
        scope.region.add_block(Block([BranchOp(header, arguments)]))
        scope.region.add_block(header)
        if continuing == label:
            # A loop of one block: it is the continue block, and the header leads to it.
            last = Block()
            header.add_op(BranchOp(last))
            scope.region.add_block(last)
            self.fill(label, last, header=True)
        else:
            last = scope.targets[continuing] = self.with_phis(continuing, scope)
            self.fill(label, header, header=True)
            self.reached(header, {header, last, scope.targets[merge]})
            scope.region.add_block(last)
            self.fill(continuing, last)
        if not set(_successors(last)) <= {header, scope.targets[merge]}:
            cannot_hold(one, f"more than one block behind the continue target %{continuing}")
        scope.region.add_block(scope.targets[merge])
        self.scope, self.block = outer, block
        op = LoopOp(scope.region)
        op.properties["loop_control"] = LoopControlAttr(one.of("LoopControl")[0])
        self.put(op)
        return merge


def _successors(block: Block) -> Sequence[Block]:
    last = block.last_op
    return last.successors if last is not None else ()


def _targets(one: Instruction) -> list[int]:
    """The labels that the end of a block may go on with."""
    if one.row.name in {"Branch", "BranchConditional", "Switch"}:
        return one.of("id")[one.row.name != "Branch" :]
    return []
