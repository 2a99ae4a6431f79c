"""The statements that compute a size, for an op that takes it as an operand: an i64 without dimensions.

l              l_ = op iota(shape=[], start=l, dtype=i64);
2*l + 1        l_ = op iota(shape=[], start=l, dtype=i64); y = op mul(l_, 2); z = op add(y, 1);
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import reduce

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute

from openinfer.dialects.graph import LiteralAttr, NameAttr, Operand, OpOp, RefAttr
from openinfer.dialects.graph.syntax import number_attribute
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Atom, Size

_DTYPE = NameAttr("i64")


@dataclass
class SizeNumbers:
    """Collects the statements in front of one op."""

    fresh: Callable[[], str]
    """Makes the name of a temporary."""
    definitions: Mapping[str, Size]
    """What the sizes that the program defines stand for, in names that it does not."""
    hints: Mapping[str, Attribute] | None = None
    """Of the op, which hold for what computes its operands."""
    ops: list[OpOp] = field(default_factory=list[OpOp])
    _leaves: dict[Attribute, RefAttr] = field(default_factory=dict[Attribute, RefAttr])

    def operand(self, size: Size) -> RefAttr:
        """The temporary with the value of a size, of type i64[]."""
        found = self._value(size)
        return found if isinstance(found, RefAttr) else self._leaf(found.value)

    def _value(self, size: Size) -> Operand:
        """The same; a number is a literal beside other operands."""
        if size.constant is not None:
            return LiteralAttr(number_attribute(size.constant))
        terms: list[Operand] = []
        for monomial, coefficient in size.terms:
            factors = [self._atom(atom) for atom in monomial]
            if coefficient != 1 or not factors:
                factors.append(LiteralAttr(number_attribute(coefficient)))
            terms.append(self._joined("mul", factors))
        return self._joined("add", terms)

    def _atom(self, atom: Atom) -> Operand:
        kind, *parts = atom
        if kind == "name":
            name = str(parts[0])
            if name in self.definitions:
                return self.operand(self.definitions[name])
            return self._leaf(NameAttr(name))
        operands = [self._value(part) for part in parts if isinstance(part, Size)]
        return self._joined("floor_div" if kind == "floordiv" else str(kind), operands)

    def _leaf(self, start: Attribute) -> RefAttr:
        """What a name or a number is, once in front of an op."""
        if start not in self._leaves:
            settings = {"shape": ArrayAttr(list[Attribute]()), "start": start, "dtype": _DTYPE}
            self._leaves[start] = self._put("iota", (), settings)
        return self._leaves[start]

    def _joined(self, op: str, operands: list[Operand]) -> Operand:
        return reduce(lambda left, right: self._put(op, (left, right)), operands)

    def _put(
        self,
        op: str,
        operands: tuple[Operand, ...],
        settings: Mapping[str, Attribute] | None = None,
    ) -> RefAttr:
        target = RefAttr.of(self.fresh())
        self.ops.append(OpOp(op, operands, [target], settings, self.hints))
        return target
