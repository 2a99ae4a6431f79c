"""From named variables to SSA values: the step of level `nn`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    UnknownLoc,
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
    RefAttr,
    ReturnOp,
    ScopeOp,
    TransferOp,
    VariableOp,
)
from openinfer.dialects.nn.elements import element_type
from openinfer.lowering.fusing import NO_FUSE
from openinfer.lowering.graph import op_rules
from openinfer.lowering.graph.liveness import Names, live_before, nodes_of, written
from openinfer.lowering.graph.program_facts import Facts
from openinfer.lowering.locations import location_of
from openinfer.lowering.options import current
from openinfer.runtime.dtypes import ALIASES
from openinfer.runtime.errors import Diagnostic, ProgramError
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
        fetched after a step, and module attributes that name them.
    """

    name: ClassVar[str] = "graph-to-nn"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not any(isinstance(o, BlockOp) for o in op.body.ops):
            return
        Translator(op).run()


class Problem(Exception):
    """A program that cannot be lowered; becomes a diagnostic at the node's place."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


def _refusal(problem: Problem | op_rules.RuleError, op: Operation) -> ProgramError:
    """The problem as a diagnostic at the place of the node or declaration."""
    place = location_of(op)
    return ProgramError([Diagnostic(problem.code, problem.message, place, hint=problem.hint)])


@dataclass
class _Index:
    """A loop index in scope: its value, and its bounds when they are constants."""

    value: SSAValue
    bounds: tuple[int, int] | None = None


@dataclass
class _Scope:
    """What a point of the program can see."""

    values: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    indices: dict[str, _Index] = field(default_factory=dict[str, _Index])


class Translator:
    """Walks the nodes in program order with the current SSA value of every variable."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.facts = Facts.of(module)
        self.entry = Block()
        self.builder = Builder(InsertPoint.at_end(self.entry))
        self.where: Operation | None = None
        self.weights: dict[str, SSAValue] = {}
        self.observe = current().observe
        self.requirements: dict[tuple[str, str], int] = {}
        self.no_fuse = False
        """Whether a hint around the node that is being translated keeps it apart from others."""

    # The function

    def run(self) -> None:
        facts = self.facts
        problems = facts.problems()
        if problems:
            raise ProgramError(problems)
        scope = _Scope()
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

    @property
    def node(self) -> int:
        """The running index of the node that is being translated."""
        assert self.where is not None
        return self.facts.node_number(self.where)

    def insert(self, op: Operation) -> Operation:
        if self.where is not None and isinstance(op.location, UnknownLoc):
            op.location = self.where.location
        if self.no_fuse and isinstance(op, nn.NNOp):
            op.attributes[NO_FUSE] = UnitAttr()
        self.builder.insert(op)
        return op

    def add(self, op: Operation) -> SSAValue:
        """Inserts an op and returns its first result."""
        return self.insert(op).results[0]

    # Nodes

    def translate_nodes(
        self, nodes: Sequence[Operation], scope: _Scope, after: Names, at_return: Names
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

    def translate_node(self, op: Operation, scope: _Scope, live: Names, at_return: Names) -> bool:
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

    def op_node(self, op: OpOp, scope: _Scope) -> None:
        operands = [self.read(ref, scope) for ref in op.inputs]
        outputs = [self.facts.type_of(ref) for ref in op.outputs]
        results = op_rules.translate(
            self, op.op_name.data, operands, outputs, self.facts.settings(op)
        )
        for ref, result in zip(op.outputs, results):
            self.write(ref, result, scope)
            if self.observe:
                self.insert(nn.ObserveOp(result, self.facts.node_number(op), ref.variable.data))

    def transfer(self, op: TransferOp, scope: _Scope) -> None:
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

    def loop(self, op: LoopOp, scope: _Scope, live: Names, at_return: Names) -> bool:
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
        inner = _Scope(dict(scope.values), dict(scope.indices))
        inner.indices[op.index.data] = _Index(block.args[0], bounds)
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
        scope: _Scope,
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
        inner = _Scope(scope.values, dict(scope.indices))
        inner.indices[op.index.data] = _Index(start, (bounds[0], bounds[0] + 1))
        self.translate_nodes(nodes_of(op), inner, live, at_return)
        return True

    def branch(self, op: BranchOp, scope: _Scope, live: Names) -> None:
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

    def called_block(self, target: BlockOp, values: dict[str, SSAValue], live: Names) -> _Scope:
        """Translates a block that is called; it sees no loop index of its caller."""
        scope = _Scope(values)
        outside = self.no_fuse
        self.no_fuse = outside or _kept_apart(target)
        self.translate_nodes(nodes_of(target), scope, live, live)
        self.no_fuse = outside
        return scope

    @staticmethod
    def _leave(
        scope: _Scope, names: dict[str, None], kept: list[str], results: Sequence[SSAValue]
    ) -> None:
        for name in names:
            scope.values.pop(name, None)
        for name, result in zip(kept, results):
            result.name_hint = name
            scope.values[name] = result

    def condition(self, ref: RefAttr, scope: _Scope) -> SSAValue:
        """A one-element tensor as `i1`: not zero is true."""
        element = self.element(self.read(ref, scope))
        kind = element.type
        if kind == i1:
            return element
        if not isinstance(kind, IntegerType):
            raise Problem(
                "OI0306",
                f"the condition {ref.text} is {kind}, not a bool or an integer",
                "compare it: `op ne(x, zero) >> c`",
            )
        if kind.signedness.data.name != "SIGNLESS":
            kind = IntegerType(kind.width.data)
            from xdsl.dialects.builtin import UnrealizedConversionCastOp

            element = self.add(UnrealizedConversionCastOp.get([element], [kind]))
        zero = self.add(arith.ConstantOp(IntegerAttr(0, kind)))
        return self.add(arith.CmpiOp(element, zero, "ne"))

    def element(self, value: SSAValue) -> SSAValue:
        """The only element of a tensor."""
        kind = value.type
        assert isinstance(kind, TensorType)
        if kind.get_shape():
            scalar = TensorType(kind.element_type, [])
            value = self.add(nn.ReshapeOp([value], [scalar]))
        return self.add(tensor.ExtractOp(value, [], kind.element_type))

    # Values of variables

    def read(self, ref: RefAttr, scope: _Scope) -> SSAValue:
        name = ref.variable.data
        if not ref.bracketed.data:
            return self.value_of(name, scope)
        variable = self.facts.variables[name]
        if not isinstance(variable, VariableOp) or "pattern" not in variable.options.data:
            raise Problem("OI0715", f"{ref.text}: {name} is not a prefix table")
        family = self.weight(variable)
        extents = self.facts.extents[name]
        indices: list[SSAValue] = []
        for size, extent, index in zip(ref.sizes, extents, variable.indices):
            indices.append(self.member_index(size, extent, ref, index.data, scope))
        member = self.declared_type(variable)
        return self.add(nn.MemberOp(family, indices, member))

    def member_index(
        self, size: Size, extent: int, ref: RefAttr, index: str, scope: _Scope
    ) -> SSAValue:
        size = size.substitute(self.facts.static)
        bounds = self.index_bounds(size, scope)
        if bounds is None:
            value = self.index_value(size, scope)
            return self.add(nn.CheckIndexOp(value, extent, self.facts.reference_number(ref)))
        low, high = bounds
        if low < 0 or high >= extent:
            wrong = low if low < 0 else high
            raise Problem(
                "OI0327",
                f"{ref.text}: {index} = {wrong} but the model has {ref.variable.data} "
                f"for {index} in 0..{extent}",
                "shorten the loop, or use a model with more members",
            )
        return self.index_value(size, scope)

    def index_bounds(self, size: Size, scope: _Scope) -> tuple[int, int] | None:
        """Smallest and largest value of `a*i + b` over a loop with constant bounds."""
        if size.constant is not None:
            return size.constant, size.constant
        if len(size.names) != 1:
            return None
        (name,) = size.names
        index = scope.indices.get(name)
        if index is None or index.bounds is None:
            return None
        low, high = index.bounds
        if high <= low:
            return None
        ends = [size.evaluate({name: i}) for i in (low, high - 1)]
        return (min(ends), max(ends)) if all(len(m) <= 1 for m, _ in size.terms) else None

    def write(self, ref: RefAttr, value: SSAValue, scope: _Scope) -> None:
        if ref.bracketed.data:
            raise Problem("OI0716", f"{ref.text}: a member of a prefix table cannot be written")
        value.name_hint = ref.variable.data
        scope.values[ref.variable.data] = value

    def value_of(self, name: str, scope: _Scope) -> SSAValue:
        """The current value of a variable; its first content when nothing was written yet."""
        found = scope.values.get(name)
        if found is not None:
            return found
        variable = self.facts.variables.get(name)
        if variable is None:
            if name in scope.indices or name in self.facts.static:
                raise Problem(
                    "OI0717",
                    f"{name} is a size or loop index, an op needs a variable",
                    "use it in an expression, or `op fill`",
                )
            raise Problem("OI0210", f"{name} is not declared")
        value = self.first_content(variable)
        scope.values[name] = value
        return value

    def first_content(self, variable: VariableOp | AssignOp) -> SSAValue:
        """Model tensor, else metadata, else `@init`, else zeros."""
        if isinstance(variable, VariableOp):
            if self.facts.tensor_of(variable) is not None:
                return self.weight(variable)
            constant = self.facts.constant_of(variable)
        else:
            constant = None
        kind = self.declared_type(variable)
        fill = nn.FillOp([], [kind], properties={"value": _element_value(constant, kind)})
        fill.result[0].name_hint = variable.variable.data
        return self.add(fill)

    def weight(self, variable: VariableOp) -> SSAValue:
        """The argument that holds a tensor of the package, or a whole family of them."""
        name = variable.variable.data
        if name not in self.weights:
            kind = self.declared_type(variable)
            if name in self.facts.extents:
                extents = self.facts.extents[name]
                kind = nn.tensor_type(kind.element_type, [*extents, *nn.dims_of(kind)])
            argument = self.entry.insert_arg(kind, len(self.entry.args))
            argument.name_hint = name
            self.weights[name] = argument
        return self.weights[name]

    def declared_type(self, variable: VariableOp | AssignOp) -> TensorType[Attribute]:
        return self.tensor_type(*self.facts.declared(variable))

    def tensor_type(self, dtype: str, dims: Sequence[Size]) -> TensorType[Attribute]:
        element = element_type(ALIASES.get(dtype, dtype))
        if element is None:
            raise Problem(
                "OI0710",
                f"dtype {dtype} is not implemented in compiled programs yet",
                "run it with the simulator, or use a wider dtype",
            )
        return nn.tensor_type(element, dims)

    def require(self, low: Size, high: Size) -> None:
        """Records low <= high for the runtime to check, unless it always holds."""
        if all(coefficient >= 0 for _, coefficient in (high - low).terms):
            return
        unknown = sorted((low.names | high.names) - self.facts.runtime)
        if unknown:
            raise Problem(
                "OI0712",
                f"a bound names {unknown[0]}: bounds that only a step knows are not implemented "
                "in compiled programs yet",
                "run it with the simulator",
            )
        self.requirements.setdefault((str(low), str(high)), self.node)

    # Index arithmetic

    def constant_index(self, value: int) -> SSAValue:
        return self.add(arith.ConstantOp(IntegerAttr(value, IndexType())))

    def index_value(self, size: Size, scope: _Scope) -> SSAValue:
        """A size expression over sizes, loop indices and scalar variables as an index value."""
        size = size.substitute(self.facts.static)
        if size.constant is not None:
            return self.constant_index(size.constant)
        if size.names <= self.facts.runtime:
            return self.add(nn.SizeOp(size))
        return self._evaluate(size, lambda name: self._named_index(name, scope))

    def _named_index(self, name: str, scope: _Scope) -> SSAValue:
        if name in scope.indices:
            return scope.indices[name].value
        if name in self.facts.runtime:
            return self.add(nn.SizeOp(name))
        element = self.element(self.value_of(name, scope))
        if not isinstance(element.type, IntegerType):
            raise Problem("OI0306", f"{name} is not an integer scalar")
        return self.add(arith.IndexCastOp(element, IndexType()))

    def _evaluate(self, size: Size, named: Callable[[str], SSAValue]) -> SSAValue:
        total: SSAValue | None = None
        for monomial, coefficient in size.terms:
            product: SSAValue | None = None
            for atom in monomial:
                if atom[0] != "name":
                    raise Problem("OI0718", f"{size}: division of run-time values in an index")
                factor = named(str(atom[1]))
                product = factor if product is None else self.add(arith.MuliOp(product, factor))
            if product is None:
                product = self.constant_index(coefficient)
            elif coefficient != 1:
                product = self.add(arith.MuliOp(product, self.constant_index(coefficient)))
            total = product if total is None else self.add(arith.AddiOp(total, product))
        return total if total is not None else self.constant_index(0)

    def constant_bounds(self, op: LoopOp) -> tuple[int, int] | None:
        start = op.start.data.substitute(self.facts.static).constant
        stop = op.stop.data.substitute(self.facts.static).constant
        return (start, stop) if start is not None and stop is not None else None


def _kept_apart(op: Operation) -> bool:
    """Whether the hints of a node, a loop, a scope or a block forbid to fuse what it holds."""
    hints = op.hints if isinstance(op, OpOp | LoopOp | ScopeOp | BlockOp) else None
    if hints is None:
        return False
    fuse, fixed = hints.data.get("fuse"), hints.data.get("no_reorder")
    return fuse == IntegerAttr(0, i1) or fixed == IntegerAttr(1, i1)


def _element_value(value: object, kind: TensorType[Attribute]) -> Attribute:
    """A Python number as an attribute of the element type; None is zero."""
    element = kind.element_type
    number = 0 if value is None else value
    assert isinstance(number, int | float)
    if isinstance(element, IntegerType):
        return IntegerAttr(int(number), IntegerType(64))
    return FloatAttr(float(number), 64)
