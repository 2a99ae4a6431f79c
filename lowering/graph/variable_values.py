"""What a point of a program can see: the value of each variable, weights, indices, sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.builder import Builder
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    UnitAttr,
    UnknownLoc,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.dialects import nn
from openinfer.dialects.graph import (
    AssignOp,
    LoopOp,
    RefAttr,
    VariableOp,
)
from openinfer.dialects.nn.elements import element_type
from openinfer.lowering.fusing import NO_FUSE
from openinfer.lowering.graph.program_facts import Facts
from openinfer.lowering.options import current
from openinfer.runtime.dtypes import ALIASES
from openinfer.runtime.sizes import Size


class Problem(Exception):
    """A program that cannot be lowered; becomes a diagnostic at the node's place."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


@dataclass
class Index:
    """A loop index in scope: its value, and its bounds when they are constants."""

    value: SSAValue
    bounds: tuple[int, int] | None = None


@dataclass
class Scope:
    """What a point of the program can see."""

    values: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    indices: dict[str, Index] = field(default_factory=dict[str, Index])


class VariableValues:
    """Emits `nn` ops and knows what stands for a variable, a member, a size expression."""

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

    def condition(self, ref: RefAttr, scope: Scope) -> SSAValue:
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

    def read(self, ref: RefAttr, scope: Scope) -> SSAValue:
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
        self, size: Size, extent: int, ref: RefAttr, index: str, scope: Scope
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

    def index_bounds(self, size: Size, scope: Scope) -> tuple[int, int] | None:
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

    def write(self, ref: RefAttr, value: SSAValue, scope: Scope) -> None:
        if ref.bracketed.data:
            raise Problem("OI0716", f"{ref.text}: a member of a prefix table cannot be written")
        value.name_hint = ref.variable.data
        scope.values[ref.variable.data] = value

    def value_of(self, name: str, scope: Scope) -> SSAValue:
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

    def index_value(self, size: Size, scope: Scope) -> SSAValue:
        """A size expression over sizes, loop indices and scalar variables as an index value."""
        size = size.substitute(self.facts.static)
        if size.constant is not None:
            return self.constant_index(size.constant)
        if size.names <= self.facts.runtime:
            for divisor in _divisors(size):
                self.require(Size.of(1), divisor)
            return self.add(nn.SizeOp(size))
        return self._evaluate(size, lambda name: self._named_index(name, scope))

    def _named_index(self, name: str, scope: Scope) -> SSAValue:
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


def _divisors(size: Size) -> Iterator[Size]:
    """Everything that an expression divides by."""
    for monomial, _ in size.terms:
        for atom in monomial:
            operands = [operand for operand in atom[1:] if isinstance(operand, Size)]
            if atom[0] == "floordiv":
                yield operands[1]
            for operand in operands:
                yield from _divisors(operand)


def _element_value(value: object, kind: TensorType[Attribute]) -> Attribute:
    """A Python number as an attribute of the element type; None is zero."""
    element = kind.element_type
    number = 0 if value is None else value
    assert isinstance(number, int | float)
    if isinstance(element, IntegerType):
        return IntegerAttr(int(number), IntegerType(64))
    return FloatAttr(float(number), 64)
