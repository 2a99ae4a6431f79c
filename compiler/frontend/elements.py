"""Elements of variables in expressions, and sizes as operands: both are read as the ops that they stand for.

    cache.write k >> K[slots[i], t];      i64_i = op iota(shape=[], start=i, dtype=i64);
                                          slots_i = op gather(slots, i64_i);
                                          cache.write k >> K[slots_i, t];
    y = op add(x, i);                     i64_i = op iota(shape=[], start=i, dtype=i64);
                                          y = op add(x, i64_i);

Elements of what callers give and of constants stay what they are: one that is used again is read once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field, replace

from openinfer.compiler.frontend.expressions import BadSize, names_of, to_size
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.syntax import (
    Assign,
    BlockCall,
    CacheRead,
    Call,
    Declaration,
    Element,
    Expr,
    ListValue,
    Name,
    Node,
    Number,
    Op,
    Product,
    Program,
    Ref,
    Setting,
    SizeDefinition,
    Sum,
    walk,
)
from openinfer.lowering.program.names import UNREADABLE
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.quick_dataclass import dataclass

STEADY = ("dynamic", "constant")
"""Memory that no statement writes."""


@dataclass(frozen=True)
class Local:
    """A size that a body defines: what its name stands for from there on."""

    name: Name
    value: Expr


@dataclass(frozen=True)
class Around:
    """What holds where a statement stands."""

    indices: frozenset[str] = frozenset()
    """Of the loops around it."""
    steady: dict[str, Name] = field(default_factory=dict[str, Name])
    """The temporaries that hold elements which no statement changes, by how they are written."""
    locals: dict[str, Local] = field(default_factory=dict[str, Local])
    hidden: frozenset[str] = frozenset()
    """Local sizes made of an index that a loop inside gives other values."""

    def inside(self, index: str | None = None) -> Around:
        """The same in a body of this statement."""
        indices = self.indices if index is None else self.indices | {index}
        kept = {t: n for t, n in self.steady.items() if index is None or index not in words(t)}
        hidden = {
            name
            for name, local in self.locals.items()
            if index in [one.text for one in names_of(local.value)]
        }
        return Around(indices, kept, dict(self.locals), self.hidden | hidden)


@dataclass(frozen=True)
class Ahead:
    """What is put in front of one statement."""

    around: Around
    prefix: str
    """What names of temporaries begin with that only this statement reads."""
    hints: tuple[Setting, ...] = ()
    """Of the statement."""
    local: bool = False
    """Whether it defines a size: what it reads keeps its value behind it."""
    own: dict[str, Name] = field(default_factory=dict[str, Name])
    nodes: list[Node] = field(default_factory=list[Node])

    def find(self, text: str) -> Name | None:
        return self.own.get(text) or self.around.steady.get(text)


class ElementReader:
    """Names what a program has, makes temporaries, and puts them in the place of elements."""

    def __init__(self, program: Program, report: Report) -> None:
        self.report = report
        self._taken = set(words(report.source.text))
        self._names: dict[str, str] = {}
        self.declared = {d.name.text: (s, d) for s in program.sections for d in s.declarations}
        self.variables = set(self.declared)
        definitions = [item for item in program.items if isinstance(item, SizeDefinition)]
        self._definitions = {item.name.text: item.value for item in definitions}
        self._within: list[str] = []
        """The definitions whose value is made now."""
        self.sizes = set(self._definitions)
        for section in program.sections:
            for declaration in section.declarations:
                names = [n.text for dim in declaration.type.dims for n in names_of(dim)]
                self.sizes.update(names)
        for block in program.blocks:
            for node in walk(block.body):
                if isinstance(node, Assign):
                    self.variables.add(node.name.text)
                elif isinstance(node, BlockCall):
                    self.variables.update(target.name.text for target in node.outputs)
                elif isinstance(node, Op | CacheRead) and node.defines:
                    targets = node.outputs if isinstance(node, Op) else (node.target,)
                    self.variables.update(target.name.text for target in targets)

    def is_steady(self, name: str) -> bool:
        """Whether no statement changes what a variable holds."""
        section, _ = self.declared.get(name, (None, None))
        return section is not None and section.memory in STEADY

    def size(self, expression: Expr, ahead: Ahead) -> Expr:
        """The expression with a temporary for each element."""
        match expression:
            case Number():
                return expression
            case Name():
                return self._name(expression, ahead)
            case Element():
                return self._element(expression, ahead)
            case Sum(terms=terms):
                return replace(expression, terms=tuple((s, self.size(t, ahead)) for s, t in terms))
            case Product(first=first, rest=rest):
                rest = tuple((o, self.size(factor, ahead)) for o, factor in rest)
                return replace(expression, first=self.size(first, ahead), rest=rest)
            case Call(arguments=arguments):
                arguments = tuple(self.size(a, ahead) for a in arguments)
                return replace(expression, arguments=arguments)

    def _name(self, name: Name, ahead: Ahead) -> Expr:
        """A name, or the value of the local size that has it."""
        if name.text in ahead.around.hidden:
            message = f"`{name.text}` is made of an index that the loop here counts anew"
            fix = "give one of the two loops another index"
            self.report.error("OI0292", name.span, message, fix=fix)
            return Name(UNREADABLE, name.span)
        local = ahead.around.locals.get(name.text)
        if local is not None:
            return replace(local.value, span=name.span)
        if ahead.local and name.text in self.variables and not self.is_steady(name.text):
            dtype = Setting(Name("to", name.span), Name("i64", name.span))
            of = Ref(name, None, name.span)
            return self._kept(name.text, name.span, ahead, False, "cast", (of,), (dtype,))
        return name

    def _element(self, element: Element, ahead: Ahead) -> Expr:
        """The temporary that holds an element of a variable with one dimension."""
        name = element.name
        section, declaration = self.declared.get(name.text, (None, None))
        if not self._has_elements(element, section.memory if section else None, declaration):
            return Name(UNREADABLE, element.span)
        index = self.size(element.index, ahead)
        text = f"{name.text}[{_text(index)}]"
        steady = self.is_steady(name.text)
        steady &= not any(n.text in self.variables for n in names_of(index))
        of = Ref(name, None, name.span)
        return self._kept(text, element.span, ahead, steady, "gather", (of, index))

    def number(self, size: Expr, ahead: Ahead) -> Name:
        """The temporary that holds the value of an expression, of type i64."""
        if isinstance(size, Name) and size.text in self._definitions:
            if size.text not in self._within:
                self._within.append(size.text)
                found = self.number(replace(self._definitions[size.text], span=size.span), ahead)
                self._within.pop()
                return found
        size = self.size(size, ahead)
        steady = not any(n.text in self.variables for n in names_of(size))
        text = f"i64 {_text(size)}"
        found = ahead.find(text)
        if found is not None:
            return Name(found.text, size.span)
        op, operands, settings = self._computed(size)
        return self._kept(text, size.span, ahead, steady, op, operands, settings)

    def _computed(self, size: Expr) -> tuple[str, Sequence[Expr], Sequence[Setting]]:
        """The op of a number: what it is called, what it takes, its settings."""
        if isinstance(size, Sum):
            *before, (sign, last) = size.terms
            if not before:
                return "neg", (last,), ()
            first = (
                before[0][1]
                if before == [(1, before[0][1])]
                else replace(size, terms=tuple(before))
            )
            return "add" if sign > 0 else "sub", (first, last), ()
        if isinstance(size, Product):
            *before, (operator, last) = size.rest
            first = replace(size, rest=tuple(before)) if before else size.first
            if operator == "*" or self._within:
                # In the definition of a size a division comes out even.
                return "mul" if operator == "*" else "floor_div", (first, last), ()
            fix = "compute the index with ops, and name it here"
            message = "the index of an element is made without divisions"
            self.report.error("OI0289", size.span, message, fix=fix)
            size = Name(UNREADABLE, size.span)
        if isinstance(size, Call):
            *before, last = size.arguments
            if not before:
                return self._computed(last)
            first = replace(size, arguments=tuple(before)) if len(before) > 1 else before[0]
            return size.function.text, (first, last), ()
        span = size.span
        start, dtype = Setting(Name("start", span), size), Name("i64", span)
        shape = Setting(Name("shape", span), ListValue((), span))
        return "iota", (), (shape, start, Setting(Name("dtype", span), dtype))

    def _kept(
        self,
        text: str,
        span: Span,
        ahead: Ahead,
        steady: bool,
        op: str,
        operands: Sequence[Expr | Ref],
        settings: Sequence[Setting] = (),
    ) -> Name:
        """The temporary for what is written so; the op that fills it stands in front of the statement."""
        found = ahead.find(text)
        if found is None:
            taken = [
                o if isinstance(o, Ref) else Ref(self.number(o, ahead), None, o.span)
                for o in operands
            ]
            own = ahead.local and not steady
            found = Name(self.fresh(f"{ahead.prefix}_{text}") if own else self._named(text), span)
            if not steady and not own:
                self.variables.add(found.text)  # It is read anew in front of another statement.
            target = Ref(found, None, span)
            name, more = Name(op, span), tuple(settings)
            ahead.nodes.append(Op(name, tuple(taken), more, (target,), (), span, defines=True))
            (ahead.around.steady if steady else ahead.own)[text] = found
        return Name(found.text, span)

    def _named(self, text: str) -> str:
        """A name for a temporary: of `slots[i]`, `slots_i`, if the program has no such name."""
        if text not in self._names:
            self._names[text] = self.fresh(text)
        return self._names[text]

    def fresh(self, text: str) -> str:
        """A name made of the words of a text, that nothing else has."""
        name = "_".join(words(text)) or "_"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def _has_elements(
        self, element: Element, section: str | None, declaration: Declaration | None
    ) -> bool:
        """Whether a variable has elements to select, as far as its declaration says."""
        name = element.name.text
        dtype = None
        if declaration is None:
            message = f"there is no variable `{name}` to select an element of"
            fix = "declare it with one dimension, or let an op give it a value"
            good = name in self.variables
        elif declaration.indices:
            message = f"`{name}` has indices: `{name}[…]` is an entry of it, no number"
            copied = (
                f"n = cache.read {name}[…];"
                if section == "persistent"
                else f"transfer {name}[…] >> n;"
            )
            fix = f"copy it first, `{copied}`, and name `n` here"
            good = False
        else:
            dims, dtype = declaration.type.dims, DTYPES.get(declaration.type.dtype.text)
            good = declaration.type.open or len(dims) == 1
            message = (
                f"`{name}` has {len(dims)} dimensions: an element is selected of one dimension"
            )
            fix = "compute the number with `op gather`, and name it here"
        if good and dtype is not None and not dtype.is_integer:
            good = False
            message = f"the elements of `{name}` are {dtype.name}, here they must be integers"
            fix = f"declare `{name}` as integers"
        if not good:
            self.report.error("OI0289", element.span, message, fix=fix)
        return good


def words(text: str) -> list[str]:
    """The names and numbers in a text."""
    return re.findall(r"\w+", text)


def _text(size: Expr) -> str:
    """How a size is written; what is no size is reported when it is built."""
    try:
        return str(to_size(size))
    except BadSize:
        return UNREADABLE
