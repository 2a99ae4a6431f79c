"""Sizes that only the step itself knows: a slice's length, a dimension that names a scalar.

Such a size gets a name of its own, `step.0` say, and `nn.define_size` gives it a value where the
program fixes it. Types name it like any other run-time size.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from openinfer.dialects import nn
from openinfer.lowering.graph.index_arithmetic import constant_number
from openinfer.runtime.sizes import MAX_NUMBER, MAX_SIZE, Size

if TYPE_CHECKING:
    from openinfer.lowering.graph.variable_values import Scope, VariableValues


class LateSizes:
    """The late sizes of a program, in the order in which they are made."""

    def __init__(self, values: VariableValues) -> None:
        self.values = values
        self.names: list[str] = []
        self.unchecked: dict[str, list[nn.RequireOp]] = {}
        """Those that got their value ahead of where a node needs them, 0 where it is none, each with
        what must hold where one does. Those ops are in no block."""

    @property
    def known(self) -> frozenset[str]:
        """Every name that a type may hold: sizes that inputs fix, and late ones."""
        return self.values.facts.runtime | frozenset(self.names)

    def is_late(self, size: Size) -> bool:
        return bool(size.names & frozenset(self.names))

    def define(self, hint: str, value: SSAValue, scope: Scope, key: object = None) -> Size:
        """A late size with the value of an index, the one made before for the same key."""
        if key is not None and key in scope.late:
            return Size.name(scope.late[key])
        name = self.reserve(hint)
        if self.values.postponed is not None:
            value = self._or_zero(value, self.values.postponed)
            self.unchecked[name] = self.values.postponed
        self.values.insert(nn.DefineSizeOp(name, value, self.values.node))
        if self.values.trace:
            self.values.insert(nn.StampOp("size", name, (), value))
        if key is not None:
            scope.late[key] = name
        return Size.name(name)

    def reserve(self, hint: str) -> str:
        """The name of a new late size; who asks for it defines it."""
        name = f"{hint}.{len(self.names)}"
        self.names.append(name)
        return name

    @contextmanager
    def ahead(self) -> Generator[None]:
        """Inside of it, expressions get their values before the step is known to come where they are
        needed, so that values keep their shape from round to round of a loop.

        Nothing fails there: `check` says what is wrong where a node needs them.
        """
        outer, self.values.postponed = self.values.postponed, []
        try:
            yield
        finally:
            self.values.postponed = outer

    def check(self, dims: Sequence[Size], scope: Scope) -> None:
        """The step fails where one of these sizes got its value ahead and has none."""
        if self.values.postponed is not None:
            return
        for name in sorted({name for dim in dims for name in dim.names} & self.unchecked.keys()):
            if ("checked", name) not in scope.late:
                scope.late["checked", name] = ""
                for op in self.unchecked[name]:
                    axis = op.axis.value.data if op.axis is not None else None
                    kind, node = op.kind.data, self.values.node
                    again = nn.RequireOp(op.condition, kind, op.first, op.second, node, axis)
                    self.values.insert(again)

    def finish(self) -> None:
        """Behind the whole step: what was to be checked uses no value any more."""
        for ops in self.unchecked.values():
            for op in ops:
                op.drop_all_references()

    def _or_zero(self, value: SSAValue, requires: list[nn.RequireOp]) -> SSAValue:
        """The value where it is one of a dimension and the requirements hold, else 0."""
        values = self.values
        zero, most = values.constant_index(0), values.constant_index(MAX_SIZE)
        positive = values.add(arith.CmpiOp(value, zero, "sge"))
        values.insert(nn.RequireOp(positive, "negative-size", value, zero, values.node))
        fits = values.add(arith.CmpiOp(value, most, "sle"))
        values.insert(nn.RequireOp(fits, "memory", value, most, values.node))
        holds, *others = [op.condition for op in requires]
        for each in others:
            holds = values.add(arith.AndIOp(holds, each))
        return values.add(arith.SelectOp(holds, value, zero))

    def symbolic(self, size: Size, scope: Scope) -> Size:
        """A size expression over known names only: scalars and loop indices become late sizes."""
        found = self._symbolic(size, scope)
        self.check([found], scope)
        return found

    def _symbolic(self, size: Size, scope: Scope) -> Size:
        size = size.substitute(self.values.facts.static)
        unknown = sorted(size.names - self.known)
        several = len(size.terms) > 1 or any(len(monomial) > 1 for monomial, _ in size.terms)
        parts = several and any(self._may_be_negative(n, scope) for n in unknown)
        if unknown and (parts or not _is_sum(size)):
            # Its parts may be negative although it is not, and a plan wants one bound.
            values = [self._value_of(name, scope) for name in unknown]
            key = ("size", size, *values)
            if key in scope.late:
                return Size.name(scope.late[key])
            return self.define("size", self.values.index_value(size, scope), scope, key)
        if unknown and size.largest(MAX_SIZE) > MAX_NUMBER:
            # Its parts get values below, each of which is as large as a dimension at most.
            self.values.index_value(size, scope)
        replaced = size.substitute({name: self._of_name(name, scope) for name in unknown})
        if not _is_sum(replaced) and self.is_late(replaced):
            # A plan has a closer bound for one name than for a difference or a quotient.
            return self.define("size", self.values.index_value(replaced, scope), scope, replaced)
        if self.is_late(replaced) and replaced.largest(MAX_SIZE) > MAX_NUMBER:
            self._check_product(replaced, scope)
        return replaced

    def _check_product(self, size: Size, scope: Scope) -> None:
        """A product of late sizes has no capacity of its own that would be the bound of it."""
        if ("product", size) in scope.late:
            return
        scope.late["product", size] = ""
        self._require_fits(self.values.index_value(size, scope))

    def _require_fits(self, number: SSAValue) -> None:
        values = self.values
        most = values.constant_index(MAX_SIZE)
        fits = values.add(arith.CmpiOp(number, most, "sle"))
        values.insert(nn.RequireOp(fits, "memory", number, most, values.node))

    def folded(self, size: Size, scope: Scope) -> Size:
        """The expression with what is known of its names: sizes, and scalars that are constants."""
        size = size.substitute(self.values.facts.static)
        found: dict[str, int] = {}
        for name in sorted(size.names - self.known - scope.indices.keys()):
            constant = constant_number(self.values.value_of(name, scope))
            if constant is not None:
                found[name] = constant
        try:
            return size.substitute(found)
        except ZeroDivisionError:
            return size  # a mistake of the step, which says where it is

    def _may_be_negative(self, name: str, scope: Scope) -> bool:
        """Whether a loop index or an integer scalar may be below 0."""
        index = scope.indices.get(name)
        if index is not None:
            return not self.values.never_negative(index.value)
        variable = self.values.facts.variables.get(name)
        return variable is None or not variable.dtype.data.startswith("u")

    def _value_of(self, name: str, scope: Scope) -> SSAValue:
        index = scope.indices.get(name)
        return self.values.value_of(name, scope) if index is None else index.value

    def _of_name(self, name: str, scope: Scope) -> Size:
        values = self.values
        index = scope.indices.get(name)
        if index is not None:
            return self.define(name, index.value, scope, index.value)
        value = values.value_of(name, scope)
        constant = constant_number(value)
        if constant is not None:
            return Size.of(constant)
        if value in scope.late:
            return Size.name(scope.late[value])
        return self.define(name, values.named_index(name, scope), scope, value)


def _is_sum(size: Size) -> bool:
    """Whether a size is a sum of products of names, nothing taken away or divided."""
    return all(
        coefficient > 0 and all(atom[0] == "name" for atom in monomial)
        for monomial, coefficient in size.terms
    )
