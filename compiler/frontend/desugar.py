"""Short forms of statements are read as the statements that they stand for, which are put in front.

y = op add(h, linear(x, W));          y_linear = op linear(x, W);
                                      y = op add(h, y_linear);
y = op relu(x[a..b]);                 y_x = op slice(x, start=a, stop=b);
                                      y = op relu(y_x);
y = op softmax(K[l, 0..n]);           y_K = cache.read K[l, 0..n];
                                      y = op softmax(y_K);
size n = a + 1;                       nothing: `n` is written out where it is named
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openinfer.compiler.frontend.elements import Ahead, Around, ElementReader, Local
from openinfer.compiler.frontend.expressions import BadSize, to_size
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.syntax import (
    Assign,
    Block,
    BlockCall,
    CacheRead,
    CacheReset,
    CacheStep,
    CacheWrite,
    Expr,
    Item,
    ListValue,
    Literal,
    Loop,
    Name,
    Node,
    Number,
    Op,
    Operand,
    Program,
    Ref,
    Scope,
    Section,
    Setting,
    SizeDefinition,
    Slice,
    Sum,
    Transfer,
    Value,
)


def desugar(program: Program, report: Report) -> None:
    """Puts statements in front of those that use short forms. Changes the program; an element where no
    statement stands is left, and reported when the size is built."""
    desugarer = Desugarer(program, report)
    items: list[Item] = []
    for item in program.items:
        if isinstance(item, Block):
            item = replace(item, body=desugarer.block(item))
        items.append(item)
    program.items = items
    program.blocks = [item for item in items if isinstance(item, Block)]


class Desugarer(ElementReader):
    """Walks over the statements of blocks."""

    def block(self, block: Block) -> tuple[Node, ...]:
        """The statements of a block, whose temporaries are its own: a block that it calls has others."""
        self._names.clear()
        section = Section("constant", block.declarations, block.span)
        constants = {d.name.text: (section, d) for d in block.declarations}
        own = {*(p.name.text for p in block.parameters or ()), *constants}
        declared, self.declared = self.declared, {**self.declared, **constants}
        variables, self.variables = self.variables, self.variables | own
        found = self.body(block.body, Around())
        self.declared = declared
        self.variables = variables | (self.variables - own)
        return found

    def body(self, nodes: Sequence[Node], around: Around) -> tuple[Node, ...]:
        """The statements of a body, each behind what it needs."""
        found: list[Node] = []
        for node in nodes:
            hints = node.hints if isinstance(node, Op) else ()
            ahead = Ahead(around, _prefix(node), hints, isinstance(node, SizeDefinition))
            rest = self.node(node, ahead)
            found += [*ahead.nodes, *([] if rest is None else [rest])]
        return tuple(found)

    def node(self, node: Node, ahead: Ahead) -> Node | None:
        """The statement without short forms; None for a definition of a size."""
        match node:
            case Assign(type=type_):
                dims = tuple(self.size(dim, ahead) for dim in type_.dims)
                return replace(node, type=replace(type_, dims=dims))
            case Op():
                operands = tuple(self.operand(o, ahead) for o in node.operands)
                settings = tuple(
                    replace(s, value=self.value(s.value, ahead)) for s in node.settings
                )
                return replace(node, operands=operands, settings=settings)
            case BlockCall():
                inputs = tuple(self.argument(one, ahead) for one in node.inputs)
                settings = tuple(
                    replace(s, value=self.value(s.value, ahead)) for s in node.settings
                )
                return replace(node, inputs=inputs, settings=settings)
            case Loop(index=index):
                start, stop = self.size(node.start, ahead), self.size(node.stop, ahead)
                if index.text in ahead.around.locals:
                    message = f"loop index `{index.text}` has the name of a size"
                    note = ("defined here", ahead.around.locals[index.text].name.span)
                    self.report.error(
                        "OI0258", index.span, message, fix="rename the index", notes=[note]
                    )
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
                return replace(node, source=self.access(ref, ahead))
            case CacheWrite(source=source, target=target):
                source = self.source(source, ahead)
                return replace(node, source=source, target=self.access(target, ahead))
            case CacheReset(target=ref):
                return replace(node, target=self.access(ref, ahead))
            case CacheStep(amount=amount):
                return replace(node, amount=self.size(amount, ahead))
            case Transfer(source=source):
                return replace(node, source=self.source(source, ahead))
            case SizeDefinition():
                return self.define(node, ahead)
            case _:
                return node

    # Sizes of a body.

    def define(self, node: SizeDefinition, ahead: Ahead) -> None:
        """From here to the end of the body the name stands for the value that the expression has here."""
        name, around = node.name, ahead.around
        what = None
        if name.text in self.variables:
            what = "a variable"
        elif name.text in around.indices:
            what = "an index of a loop around it"
        elif name.text in self.sizes:
            what = "a size of the program"
        elif name.text in around.locals:
            what = "a size that is defined above"
        if what is not None:
            message = f"size `{name.text}` has the name of {what}"
            self.report.error("OI0286", name.span, message, fix="rename it")
            return
        around.locals[name.text] = Local(name, self.size(node.value, ahead))

    # Operands.

    def operand(self, operand: Operand, ahead: Ahead) -> Ref | Literal:
        """An operand as a variable, the entry of one, or a literal."""
        match operand:
            case Literal():
                return operand
            case Op():
                return self.inner_op(operand, ahead)
            case Ref(name=name, slots=None):
                known = {*ahead.around.indices, *ahead.around.locals, *self.sizes}
                if name.text in known and name.text not in self.variables:
                    return Ref(self.number(name, ahead), None, operand.span)
                return operand
            case Ref(name=name):
                section, declaration = self.declared.get(name.text, (None, None))
                if declaration is None:
                    plain = name.text in self.variables
                else:
                    plain = not declaration.indices and not declaration.buffer
                if plain and operand.slots:
                    return self.part(operand, ahead)
                if not plain and section is not None and section.memory == "persistent":
                    read = CacheRead(self.access(operand, ahead), operand, operand.span, True)
                    return self.named(read, name.text, ahead)
                return self.access(operand, ahead)

    def argument(self, operand: Operand | Expr, ahead: Ahead) -> Ref | Literal | Expr:
        """What a block is given: a size stays one, since the block may need it in expressions."""
        if isinstance(operand, Ref) and operand.slots is None:
            return operand
        if isinstance(operand, Ref | Literal | Op):
            return self.operand(operand, ahead)
        return self.size(operand, ahead)

    def source(self, source: Ref | Op, ahead: Ahead) -> Ref:
        """What a statement stores: no number."""
        if isinstance(source, Ref) and source.slots is None:
            return source
        found = self.operand(source, ahead)
        assert isinstance(found, Ref)
        return found

    def inner_op(self, op: Op, ahead: Ahead) -> Ref:
        """The temporary that an op fills in front of the statement; hints of the statement hold for it."""
        settings = tuple(replace(s, value=self.value(s.value, ahead)) for s in op.settings)
        operands = tuple(self.operand(o, ahead) for o in op.operands)
        done = replace(op, operands=operands, settings=settings, hints=ahead.hints)
        return self.named(done, op.name.text, ahead)

    def part(self, ref: Ref, ahead: Ahead) -> Ref:
        """`x[a..b, i]`: a range of an axis keeps it, an index takes it away."""
        found, axis = Ref(ref.name, None, ref.span), 0
        slots = list(ref.slots or ())
        for slot in slots:
            if isinstance(slot, Slice):
                bounds = [("start", slot.start), ("stop", slot.stop)]
                given = [(n, self.size(e, ahead)) for n, e in bounds if e is not None]
                if given:
                    found = self._cut(found, ref, axis, given, ahead)
                axis += 1
                continue
            index = self.size(slot, ahead)
            given = [("start", index)]
            if not _is_last(index):
                given.append(("stop", Sum(((1, index), (1, Number(1, slot.span))), slot.span)))
            found = self._cut(found, ref, axis, given, ahead)
            axes = Setting(Name("axes", ref.span), ListValue((_integer(axis, ref.span),), ref.span))
            squeezed = Op(
                Name("squeeze", ref.span), (found,), (axes,), (), ahead.hints, ref.span, True
            )
            found = self.named(squeezed, ref.name.text, ahead)
        return found

    def _cut(
        self, x: Ref, ref: Ref, axis: int, bounds: Sequence[tuple[str, Expr]], ahead: Ahead
    ) -> Ref:
        span = ref.span
        first = [("axis", Literal(axis, span))] if axis else []
        pairs: list[tuple[str, Value]] = [*first, *((n, _setting(e)) for n, e in bounds)]
        settings = tuple(Setting(Name(name, span), value) for name, value in pairs)
        cut = Op(Name("slice", span), (x,), settings, (), ahead.hints, span, True)
        return self.named(cut, ref.name.text, ahead)

    def named(self, node: Op | CacheRead, what: str, ahead: Ahead) -> Ref:
        """Puts a statement in front that fills a temporary of its own."""
        name = Name(self.fresh(f"{ahead.prefix}_{what}"), node.span)
        target = Ref(name, None, node.span)
        ahead.nodes.append(
            replace(node, outputs=(target,))
            if isinstance(node, Op)
            else replace(node, target=target)
        )
        return target

    # Expressions in what stays.

    def access(self, ref: Ref, ahead: Ahead) -> Ref:
        """The entry of a variable, its expressions without elements."""
        if not ref.slots:
            return ref
        slots: list[Expr | Slice] = []
        for slot in ref.slots:
            if isinstance(slot, Slice):
                start = slot.start and self.size(slot.start, ahead)
                stop = slot.stop and self.size(slot.stop, ahead)
                slots.append(Slice(start, stop, slot.span))
            else:
                slots.append(self.size(slot, ahead))
        return replace(ref, slots=tuple(slots))

    def value(self, value: Value, ahead: Ahead) -> Value:
        match value:
            case Literal():
                return value
            case ListValue(items=items):
                return replace(value, items=tuple(self.value(item, ahead) for item in items))
            case _:
                return self.size(value, ahead)


def _prefix(node: Node) -> str:
    """What temporaries of a statement are called after: what it gives a value, or fills."""
    match node:
        case Op(outputs=(first, *_)) | BlockCall(outputs=(first, *_)):
            return first.name.text
        case CacheWrite(target=target) | Transfer(target=target):
            return target.name.text
        case SizeDefinition(name=name):
            return name.text
        case _:
            return ""


def _is_last(index: Expr) -> bool:
    """Whether an index is -1, behind which there is nothing."""
    try:
        return to_size(index).constant == -1
    except BadSize:
        return False


def _integer(value: int, span: Span) -> Literal:
    return Literal(value, span)


def _setting(size: Expr) -> Value:
    """An expression as the value of a setting, where a number is a literal."""
    if isinstance(size, Number):
        return Literal(size.value, size.span)
    return size
