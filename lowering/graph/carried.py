"""How variables pass through loops and branches, also those whose shape is not the same everywhere.

A variable with one type on all ways is handed on as it is. Where a declared dimension is open or names
a scalar, the ways may differ: the value is then handed on with sizes that have only a bound
(`nn.loosen`), its sizes go beside it as numbers, and `nn.settle` says behind it what they are. A
variable that some way leaves without a value takes a number along that says whether it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.dialects import nn
from openinfer.dialects.graph import AssignOp
from openinfer.lowering.graph.variable_values import Scope, VariableValues
from openinfer.runtime.errors import ProgramError
from openinfer.runtime.sizes import Size

Left = bool | SSAValue
"""Whether a block was left: known, or a number that the step computes, 0 for no."""


@dataclass
class Loose:
    """The type with which a variable is handed on."""

    kind: TensorType[Attribute]
    sizes: dict[int, str] = field(default_factory=dict[int, str])
    """The axes that differ, each with the name of a bound."""
    flagged: bool = False
    """Whether there may be no value."""


@dataclass
class _Mark:
    """What an attempt to translate a body may change, as it was before."""

    last: Operation | None
    names: int
    published: dict[str, SSAValue]
    arrived: dict[str, frozenset[str]]
    due: set[str]
    requirements: dict[tuple[str, str, str], int]


def constant_of(value: SSAValue) -> int | None:
    """The number that an index is, where it is written down."""
    owner = value.owner
    number = owner.value if isinstance(owner, arith.ConstantOp) else None
    return number.value.data if isinstance(number, IntegerAttr) else None


class CarriedValues(VariableValues):
    """Hands variables through the bodies of loops and branches."""

    published: dict[str, SSAValue]
    arrived: dict[str, frozenset[str]]
    due: set[str]

    def assigned(self, nodes: Sequence[Operation]) -> dict[str, None]:
        """The variables that nodes may write and that are values: not what grows."""
        states = self.facts.states
        flow = self.facts.flow
        names = flow.written(nodes)
        for op in flow.assigned_in(nodes):
            if self.facts.names_scalars(op):
                names[op.variable.data] = None
        return {n: None for n in names if n not in states or states[n].plain}

    def varies(self, name: str) -> bool:
        """Whether a variable may have another shape at another time."""
        variable = self.facts.variables[name]
        return self.facts.names_scalars(variable) or any(
            dim.single_name == "_" for dim in variable.sizes
        )

    def start(self, name: str, scope: Scope) -> None:
        """A variable has its value, where there is one, in front of a body or at its end."""
        state = self.facts.states.get(name)
        kept = state is not None and not state.plain
        if name in self.facts.unsteady and name not in scope.dims and name not in scope.values:
            # It gets the shape that it has where it is first used.
            return
        if not kept and (name in scope.values or self.has_shape(name, scope)):
            variable = self.facts.variables[name]
            if isinstance(variable, AssignOp) and self.facts.names_scalars(variable):
                with self.late.ahead():
                    self.content(name, scope)
            else:
                self.content(name, scope)

    # One value

    def loose(
        self, name: str, kinds: Sequence[TensorType[Attribute]], axes: set[int], flagged: bool
    ) -> Loose:
        """A type for all of `kinds`; `axes` differ in any case."""
        first = kinds[0]
        dims = list(nn.dims_of(first))
        different = set(axes)
        for kind in kinds[1:]:
            different |= {i for i, d in enumerate(nn.dims_of(kind)) if d != dims[i]}
        found = Loose(first, {}, flagged)
        for axis in sorted(different):
            found.sizes[axis] = self.late.reserve(f"{name}.bound")
        found.kind = self._with_sizes(first, found.sizes)
        return found

    @staticmethod
    def _with_sizes(kind: TensorType[Attribute], sizes: dict[int, str]) -> TensorType[Attribute]:
        named = {axis: Size.name(bound) for axis, bound in sizes.items()}
        dims = [named.get(axis, dim) for axis, dim in enumerate(nn.dims_of(kind))]
        return nn.tensor_type(kind.element_type, dims)

    def open_axes(self, name: str) -> set[int]:
        """The axes of a variable that may differ."""
        known = self.facts.static.keys() | self.facts.runtime
        sizes = self.facts.variables[name].sizes
        return {axis for axis, dim in enumerate(sizes) if dim.names - known}

    def give(self, name: str, scope: Scope, loose: Loose | None) -> list[SSAValue]:
        """What is handed on of a variable: its value, its sizes, whether it has one."""
        if loose is None:
            return [self.content(name, scope)]
        flag = scope.unset.get(name)
        value = scope.values.get(name)
        if value is None:
            nothing = dict.fromkeys(loose.sizes, Size.of(0))
            empty = [nothing.get(i, d) for i, d in enumerate(nn.dims_of(loose.kind))]
            kind = nn.tensor_type(loose.kind.element_type, empty)
            value, flag = self.zeros(kind), self.constant_index(0)
        elif flag is None:
            flag = self.constant_index(1)
        numbers: list[SSAValue] = []
        dims = nn.dims_of(value)
        if loose.sizes:
            self.late.check(dims, scope)
        for axis, bound in loose.sizes.items():
            number = self.index_value(dims[axis], scope)
            self.insert(nn.DefineSizeOp(bound, number, self.node))
            numbers.append(self.add(nn.FromIndexOp(number)))
        if loose.flagged:
            numbers.append(self.add(nn.FromIndexOp(flag)))
        if loose.sizes:
            value = self.add(nn.LoosenOp(value, loose.kind))
        return [value, *numbers]

    def take(
        self, name: str, scope: Scope, loose: Loose | None, values: Sequence[SSAValue]
    ) -> None:
        """A variable is what was handed on."""
        value, *numbers = values
        value.name_hint = name
        scope.unset.pop(name, None)
        if loose is not None and loose.sizes:
            dims = list(nn.dims_of(loose.kind))
            for axis in loose.sizes:
                dims[axis] = self.late.define(name, self.number(numbers.pop(0)), scope)
            kind = nn.tensor_type(loose.kind.element_type, dims)
            value = self.add(nn.SettleOp(value, kind))
            value.name_hint = name
        if loose is not None and loose.flagged:
            scope.unset[name] = self.number(numbers.pop(0))
        scope.values[name] = value
        variable = self.facts.variables[name]
        if isinstance(variable, AssignOp) and self.facts.names_scalars(variable):
            have = nn.dims_of(value)
            scope.dims[name] = [
                d if d.single_name == "_" else h for d, h in zip(variable.sizes, have)
            ]

    def number(self, value: SSAValue) -> SSAValue:
        """The index that a tensor of one i64 holds."""
        return self.add(arith.IndexCastOp(self.element(value), IndexType()))

    def leave(self, scope: Scope, names: dict[str, None]) -> None:
        """What a body wrote and does not hand on has no value behind it."""
        for name in names:
            scope.values.pop(name, None)
            scope.unset.pop(name, None)
            if isinstance(self.facts.variables.get(name), AssignOp):
                scope.dims.pop(name, None)

    @contextmanager
    def chosen(self, bounds: tuple[SSAValue, SSAValue] | None = None) -> Generator[None]:
        """A body that may run or not, the rounds of a loop with these bounds, say."""
        numbers = [constant_of(bound) for bound in bounds or ()]
        start, stop = numbers if numbers else (None, None)
        runs = start is not None and stop is not None and start < stop
        self.choices += not runs
        try:
            yield
        finally:
            self.choices -= not runs

    # Branches

    def either(
        self,
        condition: SSAValue,
        sides: Sequence[Callable[[Scope], tuple[Scope, Left]]],
        names: dict[str, None],
        kept: Sequence[str],
        scope: Scope,
        where: Operation,
    ) -> Left:
        """One of two sides runs; `kept` of the variables that they write are needed behind it."""
        for name in kept:
            self.start(name, scope)
        outer = self.builder
        ends: list[tuple[Builder, Scope, Left]] = []
        blocks: list[Block] = []
        for side in sides:
            block = Block()
            self.builder = Builder(InsertPoint.at_end(block))
            with self.chosen():
                inner, left = side(scope.nested())
            for name in kept:
                self.start(name, inner)
            ends.append((self.builder, inner, left))
            blocks.append(block)
        self.where = where
        found = [inner for _, inner, _ in ends]
        results: list[str] = []
        loose: dict[str, Loose | None] = {}
        for name in kept:
            if any(name in inner.values for inner in found):
                results.append(name)
                loose[name] = self.joined(name, found)
        lefts = [left for _, _, left in ends]
        known = lefts[0] if lefts[0] is lefts[1] and isinstance(lefts[0], bool) else None
        types: list[Attribute] = []
        for builder, inner, left in ends:
            self.builder = builder
            values = [v for name in results for v in self.give(name, inner, loose[name])]
            if known is None:
                values.append(self.left_number(left))
            types = [value.type for value in values]
            self.insert(scf.YieldOp(*values))
        self.builder = outer
        choice = scf.IfOp(condition, types, Region(blocks[0]), Region(blocks[1]))
        self.insert(choice)
        self.leave(scope, names)
        self.take_all(results, loose, scope, choice.results)
        return choice.results[-1] if known is None else known

    def left_number(self, left: Left) -> SSAValue:
        """Whether a block was left, as a tensor of one i64."""
        if isinstance(left, bool):
            return self.add(nn.FromIndexOp(self.constant_index(int(left))))
        return left

    def goes_on(self, left: SSAValue) -> SSAValue:
        """Whether a block was not left, as an i1."""
        return self.add(arith.CmpiOp(self.number(left), self.constant_index(0), "eq"))

    def joined(self, name: str, scopes: Sequence[Scope]) -> Loose | None:
        """How a variable leaves several bodies; None where its type is the same in all."""
        if not self.varies(name):
            return None
        missing = any(name not in s.values for s in scopes)
        flagged = missing or any(name in s.unset for s in scopes)
        kinds: list[TensorType[Attribute]] = []
        for scope in scopes:
            if name in scope.values:
                kind = scope.values[name].type
                assert isinstance(kind, TensorType)
                kinds.append(kind)
        if not flagged and all(kind == kinds[0] for kind in kinds):
            return None
        return self.loose(name, kinds, self.open_axes(name) if missing else set(), flagged)

    def take_all(
        self,
        names: Sequence[str],
        loose: dict[str, Loose | None],
        scope: Scope,
        values: Sequence[SSAValue],
    ) -> None:
        rest = list(values)
        for name in names:
            form = loose[name]
            count = 1 if form is None else 1 + len(form.sizes) + form.flagged
            self.take(name, scope, form, rest[:count])
            del rest[:count]

    # Loops

    def rounds(
        self,
        bounds: tuple[SSAValue, SSAValue],
        names: dict[str, None],
        carried: Sequence[str],
        scope: Scope,
        where: Operation,
        body: Callable[[Scope, SSAValue, SSAValue | None], tuple[Scope, Left]],
        *,
        leaves: bool,
    ) -> SSAValue | None:
        """A loop whose rounds hand on `carried`, and with `leaves` whether the block was left.

        The body gets its scope, the index, and what was handed on of the latter.
        """
        for name in carried:
            self.start(name, scope)
        loose: dict[str, Loose | None] = {}
        for name in carried:
            if name in scope.values:
                loose[name] = self.joined(name, [scope])
            else:
                dtype, dims = self.facts.declared(self.facts.variables[name])
                axes = self.open_axes(name)
                known = [Size.of(0) if i in axes else d for i, d in enumerate(dims)]
                loose[name] = self.loose(name, [self.tensor_type(dtype, known)], axes, True)
        one = self.constant_index(1)
        mark = self._mark()
        varying = [name for name in carried if self.varies(name)]
        left: Left = False
        while True:
            initial = [v for name in carried for v in self.give(name, scope, loose[name])]
            if leaves:
                initial.append(self.left_number(False))
            block = Block(arg_types=[IndexType(), *(v.type for v in initial)])
            loop = scf.ForOp(*bounds, one, initial, Region(block))
            self.insert(loop)
            inner = scope.nested()
            self.leave(inner, {n: None for n in names if n not in loose})
            outer, self.builder = self.builder, Builder(InsertPoint.at_end(block))
            self.take_all(carried, loose, inner, block.args[1:])
            kinds = {name: inner.values[name].type for name in varying}
            try:
                with self.chosen(bounds):
                    inner, left = body(inner, block.args[0], block.args[-1] if leaves else None)
                for name in carried:
                    self.start(name, inner)
                again = self._widened(varying, loose, kinds, inner)
            except ProgramError:
                again = self._widest(varying, loose, scope)
                if not again:
                    raise
            self.where = where
            if not again:
                break
            self.builder = outer
            self._forget(mark)
        last = [v for name in carried for v in self.give(name, inner, loose[name])]
        if leaves:
            last.append(self.left_number(left))
        assert [v.type for v in last] == [v.type for v in initial]
        self.insert(scf.YieldOp(*last))
        self.builder = outer
        self.leave(scope, names)
        self.take_all(carried, loose, scope, loop.results)
        return loop.results[-1] if leaves else None

    def _widened(
        self,
        names: Sequence[str],
        loose: dict[str, Loose | None],
        kinds: dict[str, Attribute],
        inner: Scope,
    ) -> bool:
        """Whether some variable leaves a round otherwise than it came; it is handed on so then."""
        changed = False
        for name in names:
            form, first = loose[name], kinds[name]
            assert isinstance(first, TensorType)
            valued = name in inner.values
            last = nn.dims_of(inner.values[name] if valued else first)
            axes = {i for i, d in enumerate(nn.dims_of(first)) if d != last[i]}
            old = set(form.sizes) if form is not None else set[int]()
            flagged = not valued or name in inner.unset
            had = form is not None and form.flagged
            if axes <= old and (had or not flagged):
                continue
            changed = True
            kind = form.kind if form is not None else first
            loose[name] = self.loose(name, [kind], axes | old, flagged or had)
        return changed

    def _widest(self, names: Sequence[str], loose: dict[str, Loose | None], scope: Scope) -> bool:
        """Hands on all sizes that may differ; False when that was so already."""
        changed = False
        for name in names:
            form = loose[name]
            axes = self.open_axes(name)
            if form is not None and set(form.sizes) >= axes:
                continue
            changed = True
            kind = form.kind if form is not None else scope.values[name].type
            assert isinstance(kind, TensorType)
            flagged = form is not None and form.flagged
            loose[name] = self.loose(name, [kind], axes, flagged)
        return changed

    # Attempts

    def _mark(self) -> _Mark:
        block = self.builder.insertion_point.block
        return _Mark(
            block.last_op,
            len(self.late.names),
            dict(self.published),
            dict(self.arrived),
            set(self.due),
            dict(self.requirements),
        )

    def _forget(self, mark: _Mark) -> None:
        """Takes back what was translated since; names stay reserved, for types may hold them."""
        block = self.builder.insertion_point.block
        while block.last_op is not mark.last:
            op = block.last_op
            assert op is not None
            op.detach()
            op.erase(safe_erase=False)
        self.published, self.arrived = dict(mark.published), dict(mark.arrived)
        self.due = set(mark.due)
        self.requirements = dict(mark.requirements)
