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
from dataclasses import dataclass, field, replace

from openinfer.compiler.frontend.expressions import BadSize, names_of, to_size
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.syntax import (
    Assign,
    Block,
    CacheRead,
    CacheReset,
    CacheStep,
    CacheWrite,
    Call,
    Declaration,
    Element,
    Expr,
    Item,
    ListValue,
    Literal,
    Loop,
    Name,
    Node,
    Number,
    Op,
    Product,
    Program,
    Ref,
    Scope,
    Setting,
    SizeDefinition,
    Slice,
    Sum,
    Transfer,
    Value,
    walk,
)
from openinfer.lowering.program.names import UNREADABLE
from openinfer.runtime.dtypes import DTYPES

STEADY = ("dynamic", "constant")
"""Memory that no statement writes."""


def read_elements(program: Program, report: Report) -> None:
    """Puts ops in front of the statements that name elements, or sizes as operands. Changes the program; an
    element where no statement stands is left, and reported when the size is built."""
    reader = _Reader(program, report)
    items: list[Item] = []
    for item in program.items:
        if isinstance(item, Block):
            item = replace(item, body=reader.block(item.body))
        items.append(item)
    program.items = items
    program.blocks = [item for item in items if isinstance(item, Block)]


@dataclass(frozen=True)
class _Around:
    """What holds where a statement stands."""

    indices: frozenset[str]
    """Of the loops around it."""
    steady: dict[str, Name]
    """The temporaries that hold elements which no statement changes, by how they are written."""

    def inside(self, index: str | None = None) -> _Around:
        """The same in a body of this statement."""
        indices = self.indices if index is None else self.indices | {index}
        kept = {t: n for t, n in self.steady.items() if index is None or index not in _words(t)}
        return _Around(indices, kept)


@dataclass(frozen=True)
class _Ahead:
    """What is put in front of one statement."""

    around: _Around
    own: dict[str, Name] = field(default_factory=dict[str, Name])
    nodes: list[Node] = field(default_factory=list[Node])

    def find(self, text: str) -> Name | None:
        return self.own.get(text) or self.around.steady.get(text)


class _Reader:
    def __init__(self, program: Program, report: Report) -> None:
        self._report = report
        self._taken = set(_words(report.source.text))
        self._names: dict[str, str] = {}
        self._declared = {d.name.text: (s, d) for s in program.sections for d in s.declarations}
        self._variables = set(self._declared)
        definitions = [item for item in program.items if isinstance(item, SizeDefinition)]
        self._definitions = {item.name.text: item.value for item in definitions}
        self._within: list[str] = []
        """The definitions whose value is made now."""
        self._sizes = set(self._definitions)
        for section in program.sections:
            for declaration in section.declarations:
                names = [n.text for dim in declaration.type.dims for n in names_of(dim)]
                self._sizes.update(names)
        for block in program.blocks:
            for node in walk(block.body):
                if isinstance(node, Assign):
                    self._variables.add(node.name.text)
                elif isinstance(node, Op | CacheRead) and node.defines:
                    targets = node.outputs if isinstance(node, Op) else (node.target,)
                    self._variables.update(target.name.text for target in targets)

    def block(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """The statements of a block, whose temporaries are its own: a block that it calls has others."""
        self._names.clear()
        return self.body(nodes, _Around(frozenset(), {}))

    def body(self, nodes: Sequence[Node], around: _Around) -> tuple[Node, ...]:
        """The statements of a body, each behind what it needs."""
        found: list[Node] = []
        for node in nodes:
            ahead = _Ahead(around)
            node = self._node(node, ahead)
            found += [*ahead.nodes, node]
        return tuple(found)

    def _node(self, node: Node, ahead: _Ahead) -> Node:
        match node:
            case Assign(type=type_):
                dims = tuple(self._size(dim, ahead) for dim in type_.dims)
                return replace(node, type=replace(type_, dims=dims))
            case Op():
                operands = tuple(self._operand(o, ahead) for o in node.operands)
                settings = tuple(
                    replace(s, value=self._value(s.value, ahead)) for s in node.settings
                )
                return replace(node, operands=operands, settings=settings)
            case Loop(index=index):
                start, stop = self._size(node.start, ahead), self._size(node.stop, ahead)
                names = self._names
                if index.text in ahead.around.indices:
                    # Temporaries of the outer index hold their values while the inner one counts.
                    self._names = {}
                body = self.body(node.body, ahead.around.inside(index.text))
                self._names = names
                return replace(node, start=start, stop=stop, body=body)
            case Scope():
                return replace(node, body=self.body(node.body, ahead.around.inside()))
            case CacheRead(source=ref):
                return replace(node, source=self._ref(ref, ahead))
            case CacheWrite():
                source, target = self._ref(node.source, ahead), self._ref(node.target, ahead)
                return replace(node, source=source, target=target)
            case CacheReset(target=ref):
                return replace(node, target=self._ref(ref, ahead))
            case CacheStep(amount=amount):
                return replace(node, amount=self._size(amount, ahead))
            case Transfer(source=ref):
                return replace(node, source=self._ref(ref, ahead))
            case _:
                return node

    def _operand(self, operand: Ref | Literal, ahead: _Ahead) -> Ref | Literal:
        """A size as an operand is a temporary; a variable's name is the variable."""
        if isinstance(operand, Literal):
            return operand
        name = operand.name
        known = name.text in ahead.around.indices or name.text in self._sizes
        if operand.slots is None and known and name.text not in self._variables:
            return Ref(self._number(name, ahead), None, operand.span)
        return self._ref(operand, ahead)

    def _ref(self, ref: Ref, ahead: _Ahead) -> Ref:
        if not ref.slots:
            return ref
        slots: list[Expr | Slice] = []
        for slot in ref.slots:
            if isinstance(slot, Slice):
                start = slot.start and self._size(slot.start, ahead)
                stop = slot.stop and self._size(slot.stop, ahead)
                slots.append(Slice(start, stop, slot.span))
            else:
                slots.append(self._size(slot, ahead))
        return replace(ref, slots=tuple(slots))

    def _value(self, value: Value, ahead: _Ahead) -> Value:
        match value:
            case Literal():
                return value
            case ListValue(items=items):
                return replace(value, items=tuple(self._value(item, ahead) for item in items))
            case _:
                return self._size(value, ahead)

    def _size(self, expression: Expr, ahead: _Ahead) -> Expr:
        """The expression with a temporary for each element."""
        match expression:
            case Name() | Number():
                return expression
            case Element():
                return self._element(expression, ahead)
            case Sum(terms=terms):
                return replace(expression, terms=tuple((s, self._size(t, ahead)) for s, t in terms))
            case Product(first=first, rest=rest):
                rest = tuple((o, self._size(factor, ahead)) for o, factor in rest)
                return replace(expression, first=self._size(first, ahead), rest=rest)
            case Call(arguments=arguments):
                arguments = tuple(self._size(a, ahead) for a in arguments)
                return replace(expression, arguments=arguments)

    def _element(self, element: Element, ahead: _Ahead) -> Expr:
        """The temporary that holds an element of a variable with one dimension."""
        name = element.name
        section, declaration = self._declared.get(name.text, (None, None))
        if not self._has_elements(element, section.memory if section else None, declaration):
            return Name(UNREADABLE, element.span)
        index = self._size(element.index, ahead)
        text = f"{name.text}[{_text(index)}]"
        steady = section is not None and section.memory in STEADY
        steady &= not any(n.text in self._variables for n in names_of(index))
        of = Ref(name, None, name.span)
        return self._kept(text, element.span, ahead, steady, "gather", (of, index))

    def _number(self, size: Expr, ahead: _Ahead) -> Name:
        """The temporary that holds the value of an expression, of type i64."""
        if isinstance(size, Name) and size.text in self._definitions:
            if size.text not in self._within:
                self._within.append(size.text)
                found = self._number(replace(self._definitions[size.text], span=size.span), ahead)
                self._within.pop()
                return found
        size = self._size(size, ahead)
        steady = not any(n.text in self._variables for n in names_of(size))
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
            self._report.error("OI0289", size.span, message, fix=fix)
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
        ahead: _Ahead,
        steady: bool,
        op: str,
        operands: Sequence[Expr | Ref],
        settings: Sequence[Setting] = (),
    ) -> Name:
        """The temporary for what is written so; the op that fills it stands in front of the statement."""
        found = ahead.find(text)
        if found is None:
            taken = [
                o if isinstance(o, Ref) else Ref(self._number(o, ahead), None, o.span)
                for o in operands
            ]
            found = Name(self._named(text), span)
            target = Ref(found, None, span)
            name, more = Name(op, span), tuple(settings)
            ahead.nodes.append(Op(name, tuple(taken), more, (target,), (), span, defines=True))
            (ahead.around.steady if steady else ahead.own)[text] = found
        return Name(found.text, span)

    def _named(self, text: str) -> str:
        """A name for a temporary: of `slots[i]`, `slots_i`, if the program has no such name."""
        if text not in self._names:
            name = "_".join(_words(text)) or "_"
            while name in self._taken:
                name += "_"
            self._taken.add(name)
            self._names[text] = name
        return self._names[text]

    def _has_elements(
        self, element: Element, section: str | None, declaration: Declaration | None
    ) -> bool:
        """Whether a variable has elements to select, as far as its declaration says."""
        name = element.name.text
        dtype = None
        if declaration is None:
            message = f"there is no variable `{name}` to select an element of"
            fix = "declare it with one dimension, or let an op give it a value"
            good = name in self._variables
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
            self._report.error("OI0289", element.span, message, fix=fix)
        return good


def _words(text: str) -> list[str]:
    """The names and numbers in a text."""
    return re.findall(r"\w+", text)


def _text(size: Expr) -> str:
    """How a size is written; what is no size is reported when it is built."""
    try:
        return str(to_size(size))
    except BadSize:
        return UNREADABLE
