"""What a point of a program can see: the value of each variable, weights, indices, sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.builder import Builder
from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    ModuleOp,
    Signedness,
    TensorType,
    UnknownLoc,
    UnrealizedConversionCastOp,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.dialects import nn
from openinfer.dialects.extensions.arith import IndexCastUIOp
from openinfer.dialects.graph import (
    AssignOp,
    LoopOp,
    RefAttr,
    VariableOp,
)
from openinfer.dialects.nn.elements import element_type
from openinfer.lowering.facts import Facts as CompilationFacts
from openinfer.lowering.graph.hints import Hints
from openinfer.lowering.graph.index_arithmetic import (
    LARGEST_WORD,
    IndexArithmetic,
    constant_number,
)
from openinfer.lowering.graph.late_sizes import LateSizes
from openinfer.lowering.graph.program_facts import Facts
from openinfer.lowering.locations import node_location
from openinfer.runtime.dtypes import ALIASES
from openinfer.runtime.sizes import MAX_NUMBER, MAX_SIZE, Size


class Problem(Exception):
    """A program that cannot be lowered; becomes a diagnostic at the node's place."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


class NoValue(Problem):
    """What is read here has no shape on any way that leads here: a step that comes here fails."""

    def __init__(self, code: str, message: str, hint: str, kind: str, variable: str) -> None:
        super().__init__(code, message, hint)
        self.variable = variable
        self.kind = kind
        """The row of `runtime/devices/failures.py` for a step."""


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
    dims: dict[str, list[Size]] = field(default_factory=dict[str, list[Size]])
    """Dimensions of variables that name scalars, as they were where the declaration stands."""
    late: dict[object, str] = field(default_factory=dict[object, str])
    """Late sizes that have a value here, by what they are the value of."""
    unset: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    """For a variable that may have no value yet the index that is 0 then."""

    def nested(self) -> Scope:
        """A copy for a body: what it defines is not seen behind it."""
        return Scope(
            dict(self.values),
            dict(self.indices),
            dict(self.dims),
            dict(self.late),
            dict(self.unset),
        )


class VariableValues:
    """Emits `nn` ops and knows what stands for a variable, a member, a size expression."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.facts = Facts.of(module)
        self.entry = Block()
        self.builder = Builder(InsertPoint.at_end(self.entry))
        self.where: Operation | None = None
        self.weights: dict[str, SSAValue] = {}
        compilation = CompilationFacts.of(module)
        self.observe, self.trace = compilation.observed, compilation.traced
        self.late = LateSizes(self)
        self.watched_dims: dict[str, list[str]] = {}
        """`NODE NAME` to the dimensions of what a watched or traced build shows there; `NODE NAME#1`,
        `NODE NAME#2` … where it has others."""
        self.requirements: dict[tuple[str, str, str], int] = {}
        """What run-time sizes must hold before the step runs at all: low <= high, by kind."""
        self.postponed: list[nn.RequireOp] | None = None
        """Where sizes are made ahead of their use: what must hold of them there."""
        self.touched: dict[str, str] = {}
        """The persistent variables that are used, where sizes of the inputs are dimensions of them:
        the late size that says whether a step does, empty for those that every step uses."""
        self.stops = False
        """Whether something that stands before may end the step."""
        self.hints = Hints()
        """What holds for the node that is being translated."""
        self.choices = 0
        """How many branches and loops are around it of which the step knows whether they run."""

    @property
    def node(self) -> int:
        """The running index of the node that is being translated."""
        assert self.where is not None
        return self.facts.node_number(self.where)

    def insert(self, op: Operation) -> Operation:
        if self.where is not None and isinstance(op.location, UnknownLoc):
            op.location = self.place_of(self.where)
        self.hints.mark(op)
        if self.postponed is not None and isinstance(op, nn.RequireOp):
            self.postponed.append(op)
            return op
        self.stops = self.stops or isinstance(op, nn.RequireOp | nn.DefineSizeOp | nn.GrowOp)
        self.builder.insert(op)
        return op

    def place_of(self, node: Operation) -> LocationAttr:
        """The location of what a node becomes; in a traced build it names the node."""
        info = self.facts.nodes.get(node) if self.trace else None
        return node.location if info is None else node_location(node.location, info.index)

    def say(self, stamp: nn.StampOp | None) -> None:
        """Inserts a stamp, if there is one."""
        if stamp is not None:
            self.insert(stamp)

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
        element = self.signless(element)
        zero = self.add(arith.ConstantOp(IntegerAttr(0, IntegerType(kind.width.data))))
        return self.add(arith.CmpiOp(element, zero, "ne"))

    def signless(self, element: SSAValue) -> SSAValue:
        """An integer as `arith` takes it: the type says nothing of a sign."""
        kind = element.type
        assert isinstance(kind, IntegerType)
        if kind.signedness.data is Signedness.SIGNLESS:
            return element
        plain = IntegerType(kind.width.data)
        return self.add(UnrealizedConversionCastOp.get([element], [plain]))

    def element(self, value: SSAValue) -> SSAValue:
        """The only element of a tensor."""
        kind = value.type
        assert isinstance(kind, TensorType)
        count = Size.of(1)
        for dim in nn.dims_of(value):
            count = count * dim
        if count.constant != 1:
            self.require(count, Size.of(1), "one")
            self.require(Size.of(1), count, "one")
            first = [self.constant_index(0)] * len(kind.get_shape())
            return self.add(tensor.ExtractOp(value, first, kind.element_type))
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
            value = self.counted(size, scope)
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
        """A variable has a new value from here on; its type must be the declared one.

        Sizes that only the step knows are compared by the step.
        """
        name = ref.variable.data
        if ref.bracketed.data and name not in self.facts.states:
            raise Problem("OI0716", f"{ref.text}: a member of a prefix table cannot be written")
        dtype, dims = self.written_type(name, scope)
        wanted = self.tensor_type(dtype, [h if d is None else d for d, h in _pairs(dims, value)])
        if value.type != wanted:
            value = self._checked(ref, value, wanted, scope)
        value.name_hint = name
        scope.values[name] = value
        scope.unset.pop(name, None)

    def written_type(self, name: str, scope: Scope) -> tuple[str, list[Size | None]]:
        """Declared dtype and dimensions of a variable now; None for a dimension `_`."""
        variable = self.facts.variables.get(name)
        if variable is None:
            raise Problem("OI0210", f"{name} is not declared")
        dtype, _ = self.facts.declared(variable)
        dims = self.dims_now(variable, scope)
        return dtype, [None if d.single_name == "_" else d for d in dims]

    def dims_now(self, variable: VariableOp | AssignOp, scope: Scope) -> list[Size]:
        """The dimensions that a declaration has here: as its `assign` gave them, or evaluated now."""
        name = variable.variable.data
        if name in scope.unset and name in scope.dims and name in self.facts.unsteady:
            self.assigned_or_not(name, scope)
        found = scope.dims.get(name)
        if found is not None:
            return found
        _, dims = self.facts.declared(variable)
        if not self.facts.names_scalars(variable):
            return dims
        if not self.has_shape(name, scope, open_too=True):
            raise NoValue(
                "OI0603",
                f"a dimension of {name} names the index of a loop that does not run here",
                "declare it where the loop is around it",
                "unassigned",
                name,
            )
        return [d if d.single_name == "_" else self.late.symbolic(d, scope) for d in dims]

    def assigned_or_not(self, name: str, scope: Scope) -> None:
        """A temporary of which only the step knows whether its `assign` has run: it is what that made
        it, else zeros of the shape that it would get here. Where it would have none, the step fails.
        """
        variable = self.facts.variables[name]
        flag = scope.unset.pop(name)
        held, value = scope.dims.pop(name), scope.values.pop(name)
        if not self.has_shape(name, scope):
            self._require_value(name, flag, scope)
            scope.dims[name], scope.values[name] = held, value
            return
        assigned = self.add(arith.CmpiOp(flag, self.constant_index(0), "ne"))
        dims: list[Size] = []
        for then, now in zip(held, self.dims_now(variable, scope)):
            if not self.late.is_late(now):
                # The same wherever it was assigned, so that types still say what it is.
                dims.append(now)
                continue
            one, other = self.index_value(then, scope), self.index_value(now, scope)
            number = self.add(arith.SelectOp(assigned, one, other))
            dims.append(self.late.define(name, number, scope))
        kind = nn.tensor_type(nn.element_of(value), dims)
        sides = [
            lambda: self.add(nn.CastDimsOp(value, kind)),
            lambda: self.first_content(variable, dims),
        ]
        scope.dims[name], scope.values[name] = dims, self.one_of(assigned, kind, sides)

    def _require_value(self, name: str, flag: SSAValue, scope: Scope) -> None:
        """The step fails where a variable that may have no value has none."""
        zero = self.constant_index(0)
        number = self.constant_index(self.facts.number_of(name))
        written = self.add(arith.CmpiOp(flag, zero, "ne"))
        variable = self.facts.variables[name]
        open_dims = any(dim.single_name == "_" for dim in variable.sizes)
        # Without a value it was not assigned either, if it has one as soon as it is.
        named = all(self._has_numbers(dim, scope) for dim in variable.sizes)
        unassigned = not open_dims or (not named and self.facts.written_at_once(variable))
        kind = "unassigned" if unassigned else "unwritten"
        self.insert(nn.RequireOp(written, kind, number, zero, self.node))

    def one_of(
        self,
        condition: SSAValue,
        kind: TensorType[Attribute],
        sides: Sequence[Callable[[], SSAValue]],
    ) -> SSAValue:
        """The value that one of two ways gives."""
        outer = self.builder
        regions: list[Region] = []
        for side in sides:
            block = Block()
            self.builder = Builder(InsertPoint.at_end(block))
            self.insert(scf.YieldOp(side()))
            regions.append(Region(block))
        self.builder = outer
        return self.add(scf.IfOp(condition, [kind], regions[0], regions[1]))

    def has_shape(self, name: str, scope: Scope, *, open_too: bool = False) -> bool:
        """Whether all dimensions of a declaration have a value here, or are open with `open_too`."""
        if name in scope.dims:
            return open_too or all(d.single_name != "_" for d in scope.dims[name])
        sizes = self.facts.variables[name].sizes
        if not open_too and any(dim.single_name == "_" for dim in sizes):
            return False
        return all(self._has_numbers(dim, scope) for dim in sizes)

    def _has_numbers(self, dim: Size, scope: Scope) -> bool:
        """Whether everything that a dimension names has a value here, or it is open."""
        known = self.late.known | self.facts.static.keys() | {"_"}
        found = scope.indices.keys() | self.facts.variables.keys()
        return dim.names - known <= found

    def _checked(
        self, ref: RefAttr, value: SSAValue, wanted: TensorType[Attribute], scope: Scope
    ) -> SSAValue:
        """The value as `wanted`, its late sizes compared when the step runs."""
        have, want = nn.dims_of(value), nn.dims_of(wanted)
        fits = nn.element_of(value) == wanted.element_type and len(have) == len(want)
        for a, b in zip(have, want):
            fits = fits and (a == b or self.late.is_late(a) or self.late.is_late(b))
        if not fits:
            raise Problem(
                "OI0312",
                f"{ref.text} is {wanted}, the value is {value.type}",
                "source and target have one dtype and shape",
            )
        for a, b in zip(have, want):
            if a != b:
                self.require_equal(a, b, scope)
        return self.add(nn.CastDimsOp(value, wanted))

    def require_equal(self, a: Size, b: Size, scope: Scope) -> None:
        """The step fails where two sizes differ."""
        left, right = self.index_value(a, scope), self.index_value(b, scope)
        same = self.add(arith.CmpiOp(left, right, "eq"))
        self.insert(nn.RequireOp(same, "shape", left, right, self.node))

    def watch(self, value: SSAValue, op: Operation, ref: RefAttr) -> None:
        """Shows a value to the host after a node, in a watched build; a traced one its shape."""
        if not (self.observe or self.trace):
            return
        node, name = self.facts.node_number(op), ref.variable.data
        dims = [str(d) for d in nn.dims_of(value)]
        # A block that is called from several places has sizes of its own at each.
        shown, copies = name, 0
        while self.watched_dims.setdefault(f"{node} {shown}", dims) != dims:
            copies += 1
            shown = f"{name}#{copies}"
        if self.observe:
            self.insert(nn.ObserveOp(value, node, shown))

    def value_of(self, name: str, scope: Scope) -> SSAValue:
        """The current value of a variable; its first content when nothing was written yet.

        Where only the step knows whether there is one, the step checks that.
        """
        self.touch(name)
        if name in scope.unset and name in scope.dims and name in self.facts.unsteady:
            self.assigned_or_not(name, scope)
        value = self.content(name, scope)
        self.late.check(nn.dims_of(value), scope)
        flag = scope.unset.pop(name, None)
        if flag is not None:
            self._require_value(name, flag, scope)
        return value

    def touch(self, name: str) -> None:
        """A persistent variable has the shape of the first step that uses it: notes this use."""
        state = self.facts.states.get(name)
        if state is None or not any(dim.names & self.facts.runtime for dim in state.dims):
            return
        self.require_dims(state.dims)
        if self.builder.insertion_point.block is self.entry:
            self.touched[name] = ""
        elif name not in self.touched:
            self.touched[name] = self.late.reserve(f"{name}.touched")
        if self.touched[name]:
            one = self.constant_index(1)
            self.insert(nn.DefineSizeOp(self.touched[name], one, self.node))

    def content(self, name: str, scope: Scope) -> SSAValue:
        """The same, for one that is only handed on."""
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
        state = self.facts.states.get(name)
        if state is not None and state.open and not state.table:
            from openinfer.lowering.graph.state_access import open_value

            return open_value(self, name, scope)
        dims = self.dims_now(variable, scope) if self.facts.names_scalars(variable) else None
        value = self.first_content(variable, dims)
        scope.values[name] = value
        return value

    def zeros(self, kind: TensorType[Attribute]) -> SSAValue:
        """A tensor of zeros."""
        return self.add(nn.FillOp([], [kind], properties={"value": fill_value(None, kind)}))

    def first_content(
        self, variable: VariableOp | AssignOp, dims: Sequence[Size] | None = None
    ) -> SSAValue:
        """Model tensor, else metadata, else `@init`, else zeros; `dims` where they name scalars."""
        if isinstance(variable, VariableOp):
            if self.facts.tensor_of(variable) is not None:
                return self._fitting(self.weight(variable), dims)
            constant = self.facts.constant_of(variable)
        else:
            constant = None
        kind = self.declared_type(variable)
        if dims is not None:
            kind = nn.tensor_type(kind.element_type, dims)
        if any(d.single_name == "_" for d in nn.dims_of(kind)):
            raise NoValue(
                "OI0602",
                f"{variable.variable.data} has an open dimension and was not written yet",
                "write it before it is read",
                "unwritten",
                variable.variable.data,
            )
        self.require_dims(nn.dims_of(kind))
        fill = nn.FillOp([], [kind], properties={"value": fill_value(constant, kind)})
        fill.result[0].name_hint = variable.variable.data
        return self.add(fill)

    def _fitting(self, value: SSAValue, dims: Sequence[Size] | None) -> SSAValue:
        """A tensor of the package as a variable whose dimensions name scalars; the step fails where
        it has another shape."""
        if dims is None or tuple(dims) == nn.dims_of(value):
            return value
        for have, want in zip(nn.dims_of(value), dims):
            if have != want:
                self.require_equal(have, want, Scope())
        return self.add(nn.CastDimsOp(value, nn.tensor_type(nn.element_of(value), dims)))

    def weight(self, variable: VariableOp) -> SSAValue:
        """The argument that holds a tensor of the package, or a whole family of them."""
        name = variable.variable.data
        if name not in self.weights:
            kind = self.declared_type(variable)
            source = self.facts.tensor_of(variable)
            if source is not None and self.facts.names_scalars(variable):
                kind = nn.tensor_type(kind.element_type, self.facts.bindings.tensors[source].shape)
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
        return nn.tensor_type(element_type(ALIASES.get(dtype, dtype)), dims)

    def require(self, low: Size, high: Size, kind: str = "bound", node: int | None = None) -> None:
        """Has low <= high checked, unless it always holds: by the step, where it runs this node.

        What every step needs, and first of all, is checked before it runs.
        """
        if _holds_always(high - low):
            return
        node = self.node if node is None else node
        names = low.names | high.names
        always = self.builder.insertion_point.block is self.entry and not self.stops
        always = always and self.postponed is None
        if names <= self.facts.runtime and always:
            self.requirements.setdefault((str(low), str(high), kind), node)
            return
        unknown = sorted(names - self.late.known)
        if unknown:
            raise Problem(
                "OI0712",
                f"a bound names {unknown[0]}, which has no value here",
                "run it with the simulator",
            )
        # Whatever is compared with what there is in memory cannot be too large in another way.
        left = self.index_value(low, Scope(), failure=kind)
        right = self.index_value(high, Scope(), failure=kind)
        holds = self.add(arith.CmpiOp(left, right, "sle"))
        shown = (right, left) if kind == "negative-size" else (left, right)
        self.insert(nn.RequireOp(holds, kind, *shown, node))

    def require_dims(self, dims: Sequence[Size]) -> None:
        """Has dimensions over run-time sizes checked: none is negative."""
        for dim in dims:
            if dim.names and dim.names <= self.facts.runtime:
                self.require(Size.of(0), dim, "negative-size")

    # Index arithmetic

    def never_negative(self, value: SSAValue) -> bool:
        """Whether an index is known to be 0 or more: a constant, a size, the index of a loop."""
        owner = value.owner
        if isinstance(owner, arith.ConstantOp):
            number = owner.value
            return isinstance(number, IntegerAttr) and number.value.data >= 0
        if isinstance(owner, arith.AddiOp | arith.MuliOp):
            return all(self.never_negative(operand) for operand in owner.operands)
        if isinstance(owner, Block):
            loop = owner.parent_op()
            return isinstance(loop, scf.ForOp) and self.never_negative(loop.lb)
        if isinstance(owner, nn.SizeOp):
            return all(coefficient >= 0 for _, coefficient in owner.size.data.terms)
        return isinstance(owner, nn.ExtentOp)

    def constant_index(self, value: int) -> SSAValue:
        return self.add(arith.ConstantOp(IntegerAttr(value, IndexType())))

    def index_value(self, size: Size, scope: Scope, *, failure: str = "number") -> SSAValue:
        """A size expression over sizes, loop indices and scalar variables as an index value.

        `failure` says what it means where a number of it is too large for one.
        """
        size = size.substitute(self.facts.static)
        if size.constant is not None and abs(size.constant) <= MAX_NUMBER:
            return self.constant_index(size.constant)
        late = any(self.late.is_late(divisor) for divisor in divisors(size))
        late = late or (self.late.is_late(size) and size.largest(MAX_SIZE) > MAX_NUMBER)
        if size.names <= self.late.known and not late:
            for divisor in divisors(size):
                self.require(Size.of(1), divisor)
            return self.add(nn.SizeOp(size))
        return IndexArithmetic(self, lambda name: self._named(name, scope), failure).value(size)

    def named_index(self, name: str, scope: Scope) -> SSAValue:
        """The value of a name as an index."""
        arithmetic = IndexArithmetic(self, lambda name: self._named(name, scope))
        return arithmetic.value(Size.name(name))

    def counted(self, size: Size, scope: Scope) -> SSAValue:
        """An expression that counts or selects: a bound of a loop, a slot of a cache, an amount.

        Other than a dimension, which what is in memory bounds, a product of sizes may be of any size.
        """
        size = size.substitute(self.facts.static)
        return IndexArithmetic(self, lambda name: self._named(name, scope)).value(size)

    def _named(self, name: str, scope: Scope) -> SSAValue:
        if name in scope.indices:
            return scope.indices[name].value
        if name in self.late.known:
            return self.add(nn.SizeOp(name))
        value = self.value_of(name, scope)
        constant = constant_number(value)
        if constant is not None:
            return self.constant_index(constant)
        element = self.element(value)
        kind = element.type
        if not isinstance(kind, IntegerType):
            raise Problem("OI0306", f"{name} is not an integer scalar")
        plain = self.signless(element)
        if kind.signedness.data is not Signedness.UNSIGNED:
            return self.add(arith.IndexCastOp(plain, IndexType()))
        index = self.add(IndexCastUIOp(plain, IndexType()))
        if kind.width.data < 64:
            return index
        # Half of these numbers would be negative as an index.
        return self.add(arith.MinUIOp(index, self.constant_index(LARGEST_WORD)))

    def constant_bounds(self, op: LoopOp) -> tuple[int, int] | None:
        start = op.start.data.substitute(self.facts.static).constant
        stop = op.stop.data.substitute(self.facts.static).constant
        return (start, stop) if start is not None and stop is not None else None


def _pairs(dims: Sequence[Size | None], value: SSAValue) -> Iterator[tuple[Size | None, Size]]:
    """Declared and actual dimensions; the declared ones alone where the ranks differ."""
    have = nn.dims_of(value)
    for axis, dim in enumerate(dims):
        yield dim, have[axis] if axis < len(have) else Size.of(1)


def _holds_always(size: Size) -> bool:
    """Whether a size is 0 or more whatever its names are, as far as its form tells."""
    return all(
        coefficient >= 0
        and all(
            _holds_always(operand)
            for atom in monomial
            for operand in atom[1:]
            if isinstance(operand, Size)
        )
        for monomial, coefficient in size.terms
    )


def divisors(size: Size) -> Iterator[Size]:
    """Everything that an expression divides by."""
    for monomial, _ in size.terms:
        for atom in monomial:
            operands = [operand for operand in atom[1:] if isinstance(operand, Size)]
            if atom[0] == "floordiv":
                yield operands[1]
            for operand in operands:
                yield from divisors(operand)


def fill_value(value: object, kind: TensorType[Attribute]) -> Attribute:
    """A Python number as an attribute of the element type; None is zero."""
    element = kind.element_type
    number = 0 if value is None else value
    assert isinstance(number, int | float)
    if isinstance(element, AnyFloat):
        return FloatAttr(float(number), 64)
    return IntegerAttr(int(number), IntegerType(64))
