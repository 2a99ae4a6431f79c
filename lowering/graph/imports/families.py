"""Constants of layers become families: `layer.0.w`, `layer.1.w`, … are `W(l) @pattern("layer.{l}.w")`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects.graph import RefAttr, VariableOp
from openinfer.lowering.graph.imports.lines import Lines
from openinfer.lowering.graph.imports.names_of import fresh
from openinfer.lowering.graph.imports.tensors import tensors
from openinfer.lowering.program.sources import member_name, package_name, pattern_of
from openinfer.runtime.sizes import Size

INDEX = "l"
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Family:
    """Which tensors: `pattern` with the numbers `start`, `start + step`, …"""

    pattern: str
    start: int
    step: int

    def index(self, layer: Size) -> Size:
        """The index of a member, of layer 0 the first."""
        return layer * self.step + self.start


def progression(names: Sequence[str]) -> Family | None:
    """The family of which names are members, one for each layer; None where they are none."""
    parts = [_DIGITS.split(name) for name in names]
    if len({len(row) for row in parts}) != 1:
        return None
    pattern: list[str] = []
    found: set[tuple[int, int]] = set()
    for place, column in enumerate(zip(*parts)):
        if len(set(column)) == 1:
            pattern.append(column[0])
            continue
        if place % 2 == 0 or any(len(text) > 1 and text[0] == "0" for text in column):
            return None
        numbers = [int(text) for text in column]
        steps = {b - a for a, b in pairwise(numbers)}
        if len(steps) != 1 or min(steps) <= 0:
            return None
        found.add((numbers[0], steps.pop()))
        pattern.append(f"{{{INDEX}}}")
    if len(found) != 1:
        return None
    start, step = found.pop()
    text = "".join(pattern)
    return None if "{" in "".join(names) else Family(text, start, step)


@dataclass
class Families:
    """The families of a program, those that there are and those that are made."""

    lines: Lines
    taken: set[str]
    made: dict[str, VariableOp] = field(default_factory=dict[str, VariableOp])
    members: dict[str, RefAttr] = field(default_factory=dict[str, RefAttr])
    """Constants that are members of a family now, and how they are used."""

    def __post_init__(self) -> None:
        for op in self.lines.variables.values():
            pattern = pattern_of(op)
            if pattern is not None:
                self.made[pattern] = op

    def find(self, names: Sequence[str]) -> Family | None:
        """The family of constants, one for each layer, if there can be one.

        All tensors that a pattern stands for have one type, and none is missing: what the model is
        compared with is the whole family.
        """
        ops = [self.lines.constants[name] for name in names]
        family = progression([package_name(op) for op in ops])
        if family is None:
            return None
        by_name = {package_name(op): op for op in self.lines.constants.values()}
        last = family.start + family.step * (len(names) - 1)
        for number in range(last + 1):
            member = by_name.get(member_name(family.pattern, {INDEX: number}))
            if member is None or _type(member) != _type(ops[0]):
                return None
        return family

    def renamed(self, names: Sequence[str], pattern: str) -> Family | None:
        """The same after the tensors got names of a pattern: for those that no file has named.

        None where a tensor has several names, or one of the pattern.
        """
        ops = [self.lines.constants[name] for name in names]
        held = tensors()
        sources = [package_name(op) for op in ops]
        targets = [member_name(pattern, {INDEX: number}) for number in range(len(names))]
        others = [package_name(op) for op in self.lines.variables.values() if op not in ops]
        if len(set(sources)) != len(sources) or {*targets} & {*held, *others}:
            return None
        if {*sources} & {*others}:
            return None
        for op, source, target in zip(ops, sources, targets):
            if source in held:
                held[target] = held.pop(source)
            op.properties["options"] = _with_ref(op, target)
        return Family(pattern, 0, 1)

    def use(self, names: Sequence[str], family: Family, layer: Size) -> RefAttr:
        """How a loop uses the family; makes its declaration where the first member had its own."""
        if family.pattern not in self.made:
            self._declare(names, family)
        variable = self.made[family.pattern].variable.data
        return RefAttr.of(variable, [family.index(layer)])

    def _declare(self, names: Sequence[str], family: Family) -> None:
        ops = [self.lines.constants[name] for name in names]
        options = {k: v for k, v in ops[0].options.data.items() if k != "ref"}
        name = fresh(_word(family.pattern), self.taken)
        op = VariableOp(
            *(name, "constant", ops[0].dtype.data, ops[0].sizes, [INDEX]),
            {**options, "pattern": StringAttr(family.pattern)},
        )
        first: VariableOp | None = None
        for constant, old in self.lines.constants.items():
            number = _number(family.pattern, package_name(old))
            if number is not None and _type(old) == _type(ops[0]):
                self.members[constant] = RefAttr.of(name, [number])
                first = first or old
        assert first is not None
        Rewriter.insert_op(op, InsertPoint.before(first))
        self.made[family.pattern] = op


def _number(pattern: str, name: str) -> int | None:
    """Which member of the family a tensor is."""
    first, *rest = pattern.split(f"{{{INDEX}}}")
    expression = re.escape(first) + r"(0|[1-9][0-9]*)" + r"\1".join(map(re.escape, rest))
    match = re.fullmatch(expression, name)
    return int(match.group(1)) if match else None


def _type(op: VariableOp) -> object:
    options = {k: v for k, v in op.options.data.items() if k != "ref"}
    return (op.dtype.data, op.sizes, options)


def _with_ref(op: VariableOp, name: str) -> DictionaryAttr:
    return DictionaryAttr({**op.options.data, "ref": StringAttr(name)})


def _word(pattern: str) -> str:
    """A name for the declaration until it gets a better one."""
    return "".join(c if c.isalnum() else "_" for c in pattern.replace(f"{{{INDEX}}}", ""))
