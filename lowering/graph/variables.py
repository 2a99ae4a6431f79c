"""What a name of the program holds at a point of it: values, dimensions, tensors of the package."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import product

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import AssignOp, RefAttr, VariableOp
from openinfer.lowering.graph.contents import Contents, tensor_type
from openinfer.lowering.graph.dynamic_sizes import DynamicSizes
from openinfer.lowering.graph.program_facts import Facts
from openinfer.lowering.graph.requirements import Requirements
from openinfer.lowering.graph.scope import NoValue, Problem, Scope
from openinfer.lowering.graph.size_values import SizeValues
from openinfer.lowering.graph.step_builder import StepBuilder
from openinfer.lowering.program.liveness import Names
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size

MOST_TURNS = 1 << 20
"""So many turns of loops are tried to find out which members of a family with gaps they read. A division,
`W[l / 1000]`, keeps the number in brackets in bounds however long the loop is."""


@dataclass(eq=False)
class Variables:
    """Reads and writes variables; what they hold is in the scope that each method is given."""

    facts: Facts
    builder: StepBuilder
    sizes: DynamicSizes
    requirements: Requirements
    values: SizeValues
    contents: Contents
    stored: Callable[[str, Scope], SSAValue]
    """Reads a persistent variable to which a step gives its shape."""
    touched: dict[str, str] = field(default_factory=dict[str, str])
    """The persistent variables that are used, where sizes of the inputs are dimensions of them: the
    dynamic size that says whether a step does, empty for those that every step uses."""
    gaps: dict[str, dict[tuple[int, ...], str]] = field(
        default_factory=dict[str, dict[tuple[int, ...], str]]
    )
    """The members that the package lacks, of the families that were read so far."""

    # Values of variables

    def read(self, ref: RefAttr, scope: Scope) -> SSAValue:
        name = ref.variable.data
        if not ref.bracketed.data:
            return self.value_of(name, scope)
        variable = self.facts.variables[name]
        if not isinstance(variable, VariableOp) or "pattern" not in variable.options.data:
            raise Problem("OI0715", f"{ref.text}: {name} is not a prefix table")
        family = self.contents.weight(variable)
        reach = [range(*ends) for ends in zip(self.facts.firsts[name], self.facts.extents[name])]
        indices: list[SSAValue] = []
        for size, there, index in zip(ref.sizes, reach, variable.indices):
            indices.append(self.member_index(size, there, ref, index.data, scope))
        # Behind the checks of the bounds: it goes through all turns of the loops that give a place.
        self._require_members(ref, variable, scope)
        member = self.contents.declared_type(variable)
        return self.builder.add(nn.MemberOp(family, indices, member))

    def _require_members(self, ref: RefAttr, variable: VariableOp, scope: Scope) -> None:
        """Of a family with gaps in the package, a use must name members that are there."""
        name = variable.variable.data
        if name not in self.gaps:
            self.gaps[name] = self.facts.gaps(variable)
        gaps = self.gaps[name]
        if not gaps:
            return
        sizes = [size.substitute(self.facts.static) for size in ref.sizes]
        if any(self.values.in_range(size, scope) is None for size in sizes):
            missing = next(iter(gaps.values()))
            raise Problem(
                "OI0327",
                f"{ref.text}: the model has no {missing}, and only a step knows which one is read",
                "read the members that are there in a loop with constant bounds",
            )
        names = sorted({name for size in sizes for name in size.names})
        turns = [range(*(scope.indices[name].bounds or (0, 0))) for name in names]
        # Not len(), which refuses ranges beyond the word of the machine.
        count = math.prod(one.stop - one.start for one in turns)
        most = max(MOST_TURNS, math.prod(self.facts.extents[name]))
        if count > most:
            missing = next(iter(gaps.values()))
            raise Problem(
                "OI0327",
                f"{ref.text}: the model has no {missing}, and {count} turns of the loops are too many to "
                f"tell whether one reads it; at most {most} are tried",
                "write two loops, one inside the other, and only the index of the outer one in the brackets",
            )
        for numbers in product(*turns):
            values = dict(zip(names, numbers))
            place = tuple(size.evaluate(values) for size in sizes)
            if place in gaps:
                listed = ", ".join(f"{one.data} = {n}" for one, n in zip(variable.indices, place))
                raise Problem(
                    "OI0327",
                    f"{ref.text}: {listed} is {gaps[place]}, which the model does not have",
                    "change the loop, or use a model with more members",
                )

    def member_index(
        self, size: Size, there: range, ref: RefAttr, index: str, scope: Scope
    ) -> SSAValue:
        """A number in brackets of a family, of which the package has the members `there`."""
        size = size.substitute(self.facts.static)
        bounds = self.values.in_range(size, scope)
        has = f"the model has {ref.variable.data} for {index} in {there.start}..{there.stop}"
        if bounds is None:
            if there.start:
                raise Problem(
                    "OI0327",
                    f"{ref.text}: {has}, and only a step knows {index}",
                    f"count from 0: write {{{index} + {there.start}}} in the pattern",
                )
            value = self.values.count(size, scope)
            return self.builder.add(
                nn.CheckIndexOp(value, there.stop, self.facts.reference_number(ref))
            )
        low, high = bounds
        if low < there.start or high >= there.stop:
            wrong = low if low < there.start else high
            raise Problem(
                "OI0327",
                f"{ref.text}: {index} = {wrong} but {has}",
                "change the loop, or use a model with more members",
            )
        return self.values.index(size, scope)

    def write(self, ref: RefAttr, value: SSAValue, scope: Scope) -> None:
        """A variable has a new value from here on; its type must be the declared one.

        Sizes that only the step knows are compared by the step.
        """
        name = ref.variable.data
        if ref.bracketed.data and name not in self.facts.states:
            raise Problem("OI0716", f"{ref.text}: a member of a prefix table cannot be written")
        dtype, dims = self.written_type(name, scope)
        wanted = tensor_type(dtype, [h if d is None else d for d, h in _pairs(dims, value)])
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
        self._assigned_or_not(name, scope)
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
        return [d if d.single_name == "_" else self.values.symbolic(d, scope) for d in dims]

    def _assigned_or_not(self, name: str, scope: Scope) -> None:
        """A temporary of which only the step knows whether its `assign` has run: it is what that made
        it, else zeros of the shape that it would get here. Where it would have none, the step fails.
        """
        if name not in scope.unset or name not in scope.dims or name not in self.facts.unsteady:
            return
        variable = self.facts.variables[name]
        flag = scope.unset.pop(name)
        held, value = scope.dims.pop(name), scope.values.pop(name)
        if not self.has_shape(name, scope):
            self._require_value(name, flag)
            scope.dims[name], scope.values[name] = held, value
            return
        assigned = self.builder.compare(flag, "ne", self.builder.constant(0))
        dims: list[Size] = []
        for then, now in zip(held, self.dims_now(variable, scope)):
            if not self.sizes.is_dynamic(now):
                # The same wherever it was assigned, so that types still say what it is.
                dims.append(now)
                continue
            one, other = self.values.index(then, scope), self.values.index(now, scope)
            number = self.builder.add(arith.SelectOp(assigned, one, other))
            dims.append(self.sizes.define(name, number, scope))
        kind = nn.tensor_type(nn.element_of(value), dims)
        sides = [
            lambda: self.builder.add(nn.CastDimsOp(value, kind)),
            lambda: self.contents.first(variable, dims),
        ]
        scope.dims[name], scope.values[name] = dims, self.builder.one_of(assigned, kind, sides)

    def _require_value(self, name: str, flag: SSAValue) -> None:
        """The step fails where a variable that may have no value has none."""
        zero = self.builder.constant(0)
        number = self.builder.constant(self.facts.number_of(name))
        written = self.builder.compare(flag, "ne", zero)
        sizes = self.facts.variables[name].sizes
        open_dims = any(dim.single_name == "_" for dim in sizes)
        kind = "unwritten" if open_dims else "unassigned"
        self.builder.fail_unless(written, kind, number, zero)

    def has_shape(self, name: str, scope: Scope, *, open_too: bool = False) -> bool:
        """Whether all dimensions of a declaration have a value here, or are open with `open_too`."""
        if name in scope.dims:
            return open_too or all(d.single_name != "_" for d in scope.dims[name])
        sizes = self.facts.variables[name].sizes
        if not open_too and any(dim.single_name == "_" for dim in sizes):
            return False
        known = self.sizes.known | self.facts.static.keys() | {"_"}
        found = scope.indices.keys() | self.facts.variables.keys()
        return all(dim.names - known <= found for dim in sizes)

    def _checked(
        self, ref: RefAttr, value: SSAValue, wanted: TensorType[Attribute], scope: Scope
    ) -> SSAValue:
        """The value as `wanted`, its dynamic sizes compared when the step runs."""
        have, want = nn.dims_of(value), nn.dims_of(wanted)
        fits = nn.element_of(value) == wanted.element_type and len(have) == len(want)
        for a, b in zip(have, want):
            fits = fits and (a == b or self.sizes.is_dynamic(a) or self.sizes.is_dynamic(b))
        if not fits:
            raise Problem(
                "OI0312",
                f"{ref.text} is {wanted}, the value is {value.type}",
                "source and target have one dtype and shape",
            )
        for a, b in zip(have, want):
            if a != b:
                self.requirements.equal(a, b, scope)
        return self.builder.add(nn.CastDimsOp(value, wanted))

    def value_of(self, name: str, scope: Scope) -> SSAValue:
        """The current value of a variable; its first content when nothing was written yet.

        Where only the step knows whether there is one, the step checks that.
        """
        self.touch(name)
        self._assigned_or_not(name, scope)
        value = self.content(name, scope)
        self.sizes.check(nn.dims_of(value), scope)
        flag = scope.unset.pop(name, None)
        if flag is not None:
            self._require_value(name, flag)
        return value

    def touch(self, name: str) -> None:
        """A persistent variable has the shape of the first step that uses it: notes this use."""
        state = self.facts.states.get(name)
        if state is None or not any(dim.names & self.facts.runtime for dim in state.dims):
            return
        self.requirements.not_negative(state.dims)
        if self.builder.block is self.builder.entry:
            self.touched[name] = ""
        elif name not in self.touched:
            self.touched[name] = self.sizes.reserve(f"{name}.touched")
        if self.touched[name]:
            self.sizes.give(self.touched[name], self.builder.constant(1))

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
            return self.stored(name, scope)
        self.contents.require_closed(variable)
        dims = self.dims_now(variable, scope) if self.facts.names_scalars(variable) else None
        value = self.contents.first(variable, dims)
        scope.values[name] = value
        return value

    def assign(self, op: AssignOp, scope: Scope, live: Names) -> None:
        """A temporary starts as zeros where it is first read, and again in another shape."""
        if not self.facts.names_scalars(op):
            self.requirements.not_negative(self.facts.declared(op)[1])
            return
        name = op.variable.data
        _, declared = self.facts.declared(op)
        self.requirements.not_negative(declared)
        dims = [d if d.single_name == "_" else self.values.symbolic(d, scope) for d in declared]
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
        zero = self.builder.constant(0)
        same = None if flag is None else self.builder.compare(flag, "ne", zero)
        for a, b in zip(have, dims):
            if a != b:
                left, right = self.values.index(a, scope), self.values.index(b, scope)
                equal = self.builder.compare(left, "eq", right)
                same = equal if same is None else self.builder.add(arith.AndIOp(same, equal))
        assert same is not None
        kind = tensor_type(op.dtype.data, dims)
        sides = [
            lambda: value if value.type == kind else self.builder.add(nn.CastDimsOp(value, kind)),
            lambda: self.contents.first(op, dims),
        ]
        new = self.builder.one_of(same, kind, sides)
        new.name_hint = name
        scope.values[name] = new


def _pairs(dims: Sequence[Size | None], value: SSAValue) -> Iterator[tuple[Size | None, Size]]:
    """Declared and actual dimensions; the declared ones alone where the ranks differ."""
    have = nn.dims_of(value)
    for axis, dim in enumerate(dims):
        yield dim, have[axis] if axis < len(have) else Size.of(1)
