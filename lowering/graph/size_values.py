"""What a size expression is in the step: an index, or a size over names that types may hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import LoopOp
from openinfer.lowering.graph.dynamic_sizes import DynamicSizes
from openinfer.lowering.graph.elements import Elements
from openinfer.lowering.graph.index_arithmetic import (
    IndexArithmetic,
    constant_number,
    never_negative,
)
from openinfer.lowering.graph.program_facts import Facts
from openinfer.lowering.graph.requirements import Requirements
from openinfer.lowering.graph.scope import Scope
from openinfer.lowering.graph.step_builder import StepBuilder
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import MAX_NUMBER, MAX_SIZE, Atom, Size


@dataclass(eq=False)
class SizeValues:
    """Computes size expressions over sizes, loop indices and scalar variables."""

    facts: Facts
    builder: StepBuilder
    sizes: DynamicSizes
    requirements: Requirements
    elements: Elements
    variable: Callable[[str, Scope], SSAValue]
    """The current value of a variable."""

    # As an index

    def index(self, size: Size, scope: Scope, failure: str = "number") -> SSAValue:
        """A dimension, or what is compared with one.

        `failure` says what it means where a number of it is too large for an index.
        """
        size = size.substitute(self.facts.static)
        if size.constant is not None and abs(size.constant) <= MAX_NUMBER:
            return self.builder.constant(size.constant)
        dynamic = any(self.sizes.is_dynamic(divisor) for divisor in divisors(size))
        dynamic = dynamic or self._is_large(size)
        if size.names <= self.sizes.known and not dynamic:
            for divisor in divisors(size):
                self.requirements.at_most(Size.of(1), divisor)
            return self.builder.add(nn.SizeOp(size))
        return self._computed(size, scope, failure)

    def count(self, size: Size, scope: Scope) -> SSAValue:
        """An expression that counts or selects: a bound of a loop, a slot of a cache, an amount.

        Other than a dimension, which what is in memory bounds, a product of sizes may be of any size.
        """
        return self._computed(size.substitute(self.facts.static), scope)

    def name(self, name: str, scope: Scope) -> SSAValue:
        """The value of a name as an index."""
        return self._computed(Size.name(name), scope)

    def _computed(self, size: Size, scope: Scope, failure: str = "number") -> SSAValue:
        def named(name: str) -> SSAValue:
            return self._named(name, scope)

        return IndexArithmetic(self.builder, named, failure).value(size)

    def _named(self, name: str, scope: Scope) -> SSAValue:
        if name in scope.indices:
            return scope.indices[name].value
        if name in self.sizes.known:
            return self.builder.add(nn.SizeOp(name))
        value = self.variable(name, scope)
        constant = constant_number(value)
        if constant is not None:
            return self.builder.constant(constant)
        return self.elements.index(value, name)

    # As a size that a type may hold

    def symbolic(self, size: Size, scope: Scope) -> Size:
        """The expression over known names only: scalars and loop indices become dynamic sizes."""
        found = self._symbolic(size, scope)
        self.sizes.check([found], scope)
        return found

    def _symbolic(self, size: Size, scope: Scope) -> Size:
        size = size.substitute(self.facts.static)
        unknown = sorted(size.names - self.sizes.known)
        several = len(size.terms) > 1 or any(len(monomial) > 1 for monomial, _ in size.terms)
        parts = several and any(self._may_be_negative(n, scope) for n in unknown)
        if unknown and (parts or not _is_sum(size)):
            # Its parts may be negative although it is not, and a plan wants one bound.
            values = [self._value_of(name, scope) for name in unknown]
            key = ("size", size, *values)
            if key in scope.sizes:
                return Size.name(scope.sizes[key])
            return self.sizes.define("size", self.index(size, scope), scope, key)
        if unknown and size.largest(MAX_SIZE) > MAX_NUMBER:
            # Its parts get values below, each of which is as large as a dimension at most.
            self.index(size, scope)
        replaced = size.substitute({name: self._size_of(name, scope) for name in unknown})
        if not _is_sum(replaced) and self.sizes.is_dynamic(replaced):
            # A plan has a closer bound for one name than for a difference or a quotient.
            return self.sizes.define("size", self.index(replaced, scope), scope, replaced)
        if self._is_large(replaced):
            self._check_product(replaced, scope)
        return replaced

    def _is_large(self, size: Size) -> bool:
        """Whether a size that is dynamic may be larger than a number."""
        return self.sizes.is_dynamic(size) and size.largest(MAX_SIZE) > MAX_NUMBER

    def _check_product(self, size: Size, scope: Scope) -> None:
        """A product of dynamic sizes has no capacity of its own that would be the bound of it."""
        if ("product", size) in scope.sizes:
            return
        scope.sizes["product", size] = ""
        b = self.builder
        number = self.index(size, scope)
        most = b.constant(MAX_SIZE)
        b.require(number, "sle", most, "memory")

    def _may_be_negative(self, name: str, scope: Scope) -> bool:
        """Whether a loop index or an integer scalar may be below 0."""
        index = scope.indices.get(name)
        if index is not None:
            return not never_negative(index.value)
        variable = self.facts.variables.get(name)
        return variable is None or not variable.dtype.data.startswith("u")

    def _value_of(self, name: str, scope: Scope) -> SSAValue:
        index = scope.indices.get(name)
        return self.variable(name, scope) if index is None else index.value

    def _size_of(self, name: str, scope: Scope) -> Size:
        index = scope.indices.get(name)
        if index is not None:
            return self.sizes.define(name, index.value, scope, index.value)
        value = self.variable(name, scope)
        constant = constant_number(value)
        if constant is not None:
            return Size.of(constant)
        if value in scope.sizes:
            return Size.name(scope.sizes[value])
        return self.sizes.define(name, self.name(name, scope), scope, value)

    # What is known of it

    def folded(self, size: Size, scope: Scope) -> Size:
        """The expression with what is known of its names: sizes, and scalars that are constants."""
        size = size.substitute(self.facts.static)
        found: dict[str, int] = {}
        for name in sorted(size.names - self.sizes.known - scope.indices.keys()):
            constant = constant_number(self.variable(name, scope))
            if constant is not None:
                found[name] = constant
        try:
            return size.substitute(found)
        except ZeroDivisionError:
            return size  # a mistake of the step, which says where it is

    def bounds(self, op: LoopOp) -> tuple[int, int] | None:
        """Start and stop of a loop, where they are constants."""
        start = op.start.data.substitute(self.facts.static).constant
        stop = op.stop.data.substitute(self.facts.static).constant
        return (start, stop) if start is not None and stop is not None else None

    def in_range(self, size: Size, scope: Scope) -> tuple[int, int] | None:
        """Smallest and largest value of an expression over a loop with constant bounds; None where only the
        step knows them."""
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
        turns: Sequence[int] = (low, high - 1)
        if direction(size) is None:
            # `l - l / 2 * 2` is neither smallest nor largest at an end.
            if high - low > MOST_TRIED:
                return None
            turns = range(low, high)
        try:
            values = [size.evaluate({name: i}) for i in turns]
        except ZeroDivisionError:
            return None
        return min(values), max(values)


MOST_TRIED = 1 << 12
"""So many turns of a loop are tried for the bounds of an expression that may rise and fall in it."""


def direction(size: Size) -> int | None:
    """1 for an expression of one name that never falls while the name rises, -1 for one that never rises, 0
    for a constant, None for one that may do both."""
    found = 0
    for monomial, coefficient in size.terms:
        if len(monomial) > 1:
            return None
        for atom in monomial:
            one = _direction_of(atom)
            if one is None or one * coefficient * found < 0:
                return None
            found = found or (one if coefficient > 0 else -one)
    return found


def _direction_of(atom: Atom) -> int | None:
    if atom[0] == "name":
        return 1
    operands = [operand for operand in atom[1:] if isinstance(operand, Size)]
    if atom[0] == "floordiv":
        dividend, divisor = direction(operands[0]), operands[1].constant
        if dividend is None or not divisor:
            return None
        return dividend if divisor > 0 else -dividend
    directions = {direction(operand) for operand in operands} - {0}
    return directions.pop() if len(directions) == 1 else (None if directions else 0)


def _is_sum(size: Size) -> bool:
    """Whether a size is a sum of products of names, nothing taken away or divided."""
    return all(
        coefficient > 0 and all(atom[0] == "name" for atom in monomial)
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
