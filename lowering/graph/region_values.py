"""How variables go into and out of regions, also those whose shape is not the same everywhere.

A variable with one type on all ways is carried as it is. Where a declared dimension is open or names a
scalar, the ways may differ: the value is then carried with sizes that have only a bound (`nn.loosen`),
its sizes go beside it as numbers, and `nn.settle` says behind it what they are. A variable that some way
leaves without a value takes a number along that says whether it has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import AssignOp
from openinfer.lowering.graph.contents import tensor_type
from openinfer.lowering.graph.scope import Scope
from openinfer.lowering.graph.step import Step
from openinfer.lowering.program.liveness import Names, dims_of
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size


@dataclass
class CarriedType:
    """The type with which a variable is carried."""

    kind: TensorType[Attribute]
    sizes: dict[int, str] = field(default_factory=dict[int, str])
    """The axes that differ, each with the name of a bound."""
    flagged: bool = False
    """Whether there may be no value."""

    @property
    def count(self) -> int:
        """How many values it takes: the tensor, its sizes, whether it is one."""
        return 1 + len(self.sizes) + self.flagged


CarriedTypes = dict[str, CarriedType]
"""By variable."""


@dataclass(eq=False)
class RegionValues:
    """Carries variables into and out of the regions of loops, branches and sections."""

    step: Step

    def assigned(self, nodes: Sequence[Operation]) -> dict[str, None]:
        """The variables that nodes may write and that are values: not what grows."""
        facts = self.step.facts
        names = facts.flow.written(nodes)
        for op in facts.flow.assigned_in(nodes):
            if facts.names_scalars(op):
                names[op.variable.data] = None
        return {n: None for n in names if n not in facts.states or facts.states[n].plain}

    @staticmethod
    def needed(names: Iterable[str], live: Names) -> list[str]:
        """Those of some variables of which the value or the dimensions are needed."""
        return [name for name in names if name in live or dims_of(name) in live]

    def varies(self, name: str) -> bool:
        """Whether a variable may have another shape at another time."""
        variable = self.step.facts.variables[name]
        return self.step.facts.names_scalars(variable) or any(
            dim.single_name == "_" for dim in variable.sizes
        )

    def open_axes(self, name: str) -> set[int]:
        """The axes of a variable that may differ."""
        facts = self.step.facts
        known = facts.static.keys() | facts.runtime
        return {a for a, dim in enumerate(facts.variables[name].sizes) if dim.names - known}

    def start(self, name: str, scope: Scope) -> None:
        """A variable has its value, where there is one, in front of a region or at its end."""
        facts, variables = self.step.facts, self.step.variables
        state = facts.states.get(name)
        if name in facts.unsteady and name not in scope.dims and name not in scope.values:
            # It gets the shape that it has where it is first used.
            return
        if state is not None and not state.plain:
            return
        if name not in scope.values and not variables.has_shape(name, scope):
            return
        variable = facts.variables[name]
        if isinstance(variable, AssignOp) and facts.names_scalars(variable):
            with self.step.sizes.ahead():
                variables.content(name, scope)
        else:
            variables.content(name, scope)

    def forget(self, names: Iterable[str], scope: Scope) -> None:
        """What a region wrote and does not carry out of it has no value behind it."""
        for name in names:
            scope.values.pop(name, None)
            scope.unset.pop(name, None)
            if isinstance(self.step.facts.variables.get(name), AssignOp):
                scope.dims.pop(name, None)

    # Types

    def carried(
        self, name: str, kinds: Sequence[TensorType[Attribute]], axes: set[int], flagged: bool
    ) -> CarriedType:
        """A type for all of `kinds`; `axes` differ in any case."""
        first = kinds[0]
        dims = list(nn.dims_of(first))
        different = set(axes)
        for kind in kinds[1:]:
            different |= {i for i, d in enumerate(nn.dims_of(kind)) if d != dims[i]}
        sizes = {axis: self.step.sizes.reserve(f"{name}.bound") for axis in sorted(different)}
        for axis, bound in sizes.items():
            dims[axis] = Size.name(bound)
        return CarriedType(nn.tensor_type(first.element_type, dims), sizes, flagged)

    def joined(self, name: str, scopes: Sequence[Scope]) -> CarriedType:
        """How a variable leaves several regions: as it is where its type is the same in all."""
        kinds: list[TensorType[Attribute]] = []
        for scope in scopes:
            if name in scope.values:
                kind = scope.values[name].type
                assert isinstance(kind, TensorType)
                kinds.append(kind)
        missing = len(kinds) < len(scopes)
        flagged = missing or any(name in s.unset for s in scopes)
        if not self.varies(name) or not (flagged or any(kind != kinds[0] for kind in kinds)):
            return CarriedType(kinds[0])
        return self.carried(name, kinds, self.open_axes(name) if missing else set(), flagged)

    def entering(self, names: Iterable[str], scope: Scope) -> CarriedTypes:
        """How variables enter the first iteration of a loop."""
        found: CarriedTypes = {}
        for name in names:
            if name in scope.values:
                found[name] = self.joined(name, [scope])
            else:
                dtype, dims = self.step.facts.declared(self.step.facts.variables[name])
                axes = self.open_axes(name)
                known = [Size.of(0) if i in axes else d for i, d in enumerate(dims)]
                found[name] = self.carried(name, [tensor_type(dtype, known)], axes, True)
        return found

    def widened(
        self,
        names: Iterable[str],
        types: CarriedTypes,
        first: Mapping[str, Attribute],
        scope: Scope,
    ) -> bool:
        """Whether some variable leaves an iteration otherwise than it came; it is carried so then."""
        changed = False
        for name in names:
            form, kind = types[name], first[name]
            assert isinstance(kind, TensorType)
            valued = name in scope.values
            last = nn.dims_of(scope.values[name] if valued else kind)
            axes = {i for i, d in enumerate(nn.dims_of(kind)) if d != last[i]}
            flagged = not valued or name in scope.unset
            if axes <= form.sizes.keys() and (form.flagged or not flagged):
                continue
            changed = True
            axes |= form.sizes.keys()
            types[name] = self.carried(name, [form.kind], axes, flagged or form.flagged)
        return changed

    def widest(self, names: Iterable[str], types: CarriedTypes) -> bool:
        """Carries all sizes that may differ; False when that was so already."""
        changed = False
        for name in names:
            form = types[name]
            axes = self.open_axes(name)
            if form.sizes.keys() >= axes:
                continue
            changed = True
            types[name] = self.carried(name, [form.kind], axes, form.flagged)
        return changed

    # Values

    def operands(self, types: CarriedTypes, scope: Scope) -> list[SSAValue]:
        """What stands for variables where a region is entered or left."""
        return [v for name, form in types.items() for v in self._operands(name, form, scope)]

    def _operands(self, name: str, form: CarriedType, scope: Scope) -> list[SSAValue]:
        """The value of a variable, its sizes, whether it has one."""
        step, b = self.step, self.step.builder
        value, flag = scope.values.get(name), scope.unset.get(name)
        if value is None:
            assert form.flagged
            # Its `assign` has fixed what it does not leave open; the rest is empty.
            fixed = scope.dims.get(name, [Size.of(0)] * len(nn.dims_of(form.kind)))
            nothing = {
                i: Size.of(0) if fixed[i].single_name == "_" else fixed[i] for i in form.sizes
            }
            empty = [nothing.get(i, d) for i, d in enumerate(nn.dims_of(form.kind))]
            kind = nn.tensor_type(form.kind.element_type, empty)
            value, flag = step.contents.zeros(kind), b.constant(0)
        if form.count == 1:
            return [value]
        if flag is None:
            flag = b.constant(1)
        numbers: list[SSAValue] = []
        dims = nn.dims_of(value)
        if form.sizes:
            step.sizes.check(dims, scope)
        for axis, bound in form.sizes.items():
            number = step.values.index(dims[axis], scope)
            step.sizes.give(bound, number)
            numbers.append(b.add(nn.FromIndexOp(number)))
        if form.flagged:
            numbers.append(b.add(nn.FromIndexOp(flag)))
        if form.sizes:
            value = b.add(nn.LoosenOp(value, form.kind))
        return [value, *numbers]

    def bind(self, types: CarriedTypes, values: Sequence[SSAValue], scope: Scope) -> None:
        """Variables are what was carried."""
        rest = list(values)
        for name, form in types.items():
            self._bind(name, form, rest[: form.count], scope)
            del rest[: form.count]

    def _bind(self, name: str, form: CarriedType, values: Sequence[SSAValue], scope: Scope) -> None:
        step = self.step
        value, *numbers = values
        value.name_hint = name
        scope.unset.pop(name, None)
        if form.sizes:
            dims = list(nn.dims_of(form.kind))
            for axis in form.sizes:
                number = step.elements.number(numbers.pop(0))
                dims[axis] = step.sizes.define(name, number, scope)
            kind = nn.tensor_type(form.kind.element_type, dims)
            value = step.builder.add(nn.SettleOp(value, kind))
            value.name_hint = name
        if form.flagged:
            scope.unset[name] = step.elements.number(numbers.pop(0))
        scope.values[name] = value
        variable = step.facts.variables[name]
        if isinstance(variable, AssignOp) and step.facts.names_scalars(variable):
            have = nn.dims_of(value)
            scope.dims[name] = [
                d if d.single_name == "_" else h for d, h in zip(variable.sizes, have)
            ]
