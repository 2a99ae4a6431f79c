"""Calls of blocks with parameters are replaced by the statements of the block.

Temporaries of the block, and the constants that it declares, are anew for each call, so each call has types
of its own. A constant whose text names a parameter in braces is the tensor of the name that comes out:
`@ref("{path}.weight")` with `path` "layer1.0" is `layer1.0.weight`; where that text has the index of a loop
of the caller, it is a family.

Every statement keeps its place in the block; its location also says which call it is of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    LocationAttr,
    ModuleOp,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    CallOp,
    LiteralAttr,
    LoopOp,
    NameAttr,
    OpOp,
    PackageSizeOp,
    RefAttr,
    ReturnOp,
    ScopeOp,
    SizeAttr,
    SizeOp,
    SliceAttr,
    TransferOp,
    VariableOp,
)
from openinfer.dialects.graph.syntax import OPEN
from openinfer.lowering.locations import at_call, call_site
from openinfer.lowering.program.nodes import call_text
from openinfer.lowering.program.places import Part, Place, Places
from openinfer.lowering.program.report import Report
from openinfer.runtime.sizes import Size, SizeLike

_BRACES = re.compile(r"\{([^{}]*)\}")


def has_calls(module: ModuleOp) -> bool:
    """Whether a program has blocks with parameters, or calls of them."""
    return any(
        (isinstance(op, BlockOp) and op.parameters is not None) or isinstance(op, CallOp)
        for op in module.walk()
    )


def written_in(ops: Iterable[Operation]) -> Iterator[str]:
    """The names that statements write or declare, those in loops and scopes too."""
    for op in ops:
        for one in op.walk():
            if isinstance(one, AssignOp):
                yield one.variable.data
            elif (writes := getattr(one, "writes", None)) is not None:
                yield from (ref.variable.data for ref in writes())


def arguments_of(call: CallOp, block: BlockOp) -> dict[str, Attribute]:
    """What a call, which gives all that the block needs, gives each parameter."""
    found = dict(block.defaults.data) if block.defaults is not None else {}
    found |= dict(zip(block.parameter_names, call.inputs))
    return found | dict(call.settings.data)


def inline_calls(module: ModuleOp, report: Report, places: Places) -> None:
    """Changes the module: no call and no block with parameters is left.

    Calls are those that `check_calls` found right; that an argument is none for its use is reported here.
    """
    _Inliner(module, report, places).run()


class _Inliner:
    def __init__(self, module: ModuleOp, report: Report, places: Places) -> None:
        self.module = module
        self.report = report
        self.places = places
        self.blocks = {
            op.block_name.data: op
            for op in module.body.ops
            if isinstance(op, BlockOp) and op.parameters is not None
        }
        self.globals = {op.variable.data for op in module.body.ops if isinstance(op, VariableOp)}
        self.taken = set(_names(module))
        self.constants: dict[tuple[str, str, str], str] = {}
        """The declarations that calls have made, by block, name and tensor."""
        self.parts: dict[Operation, list[tuple[Part, Place]]] = {}
        for (op, part), place in places.parts.items():
            self.parts.setdefault(op, []).append((part, place))
        self.names: dict[Operation, list[tuple[Part, Sequence[tuple[str, Place]]]]] = {}
        for (op, part), found in places.names.items():
            self.names.setdefault(op, []).append((part, found))
        self.written: dict[Operation, list[tuple[Part, str]]] = {}
        for (op, part), text in places.written.items():
            self.written.setdefault(op, []).append((part, text))

    def run(self) -> None:
        for block in self.blocks.values():
            block.detach()
        for block in [op for op in self.module.body.ops if isinstance(op, BlockOp)]:
            for call in [op for op in block.walk() if isinstance(op, CallOp)]:
                todo = [call]
                while todo:
                    first = todo.pop()
                    new = _Call(self, first, self.blocks[first.block_name.data]).ops()
                    for op in new:
                        Rewriter.insert_op(op, InsertPoint.before(first))
                    inner = [one for op in new for one in op.walk() if isinstance(one, CallOp)]
                    todo += reversed(inner)
                    first.detach()
                    first.erase()
        for block in self.blocks.values():
            block.erase()

    def fresh(self, name: str) -> str:
        """A name that nothing has."""
        found, number = name, 1
        while found in self.taken:
            number += 1
            found = f"{name}_{number}"
        self.taken.add(found)
        return found

    def declare(self, op: VariableOp) -> None:
        first = next(one for one in self.module.body.ops if isinstance(one, BlockOp))
        Rewriter.insert_op(op, InsertPoint.before(first))

    def keep_places(self, old: Operation, new: Operation, changed: Iterable[str]) -> None:
        """What is copied stands where the original does."""
        gone = set(changed)
        places = self.places
        for part, place in self.parts.get(old, ()):
            places.parts[new, part] = place
            self.parts.setdefault(new, []).append((part, place))
        for part, found in self.names.get(old, ()):
            if not gone & {name for name, _ in found}:
                places.names[new, part] = found
                self.names.setdefault(new, []).append((part, found))
        for part, text in self.written.get(old, ()):
            places.written[new, part] = text
            self.written.setdefault(new, []).append((part, text))
        for group in (places.unread, places.implied):
            if old in group:
                group.add(new)


@dataclass
class _Call:
    """One call, on its way to become statements."""

    inliner: _Inliner
    call: CallOp
    block: BlockOp
    arguments: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    locals: dict[str, str] = field(default_factory=dict[str, str])
    sizes: dict[str, SizeLike] = field(default_factory=dict[str, SizeLike])
    """What parameters and indices of loops are in sizes."""
    families: dict[str, RefAttr] = field(default_factory=dict[str, RefAttr])
    """The constants of the block, and how they are used here."""
    assigned: set[str] = field(default_factory=set[str])
    site: LocationAttr = field(default_factory=UnknownLoc)
    """The call, as the locations of its statements name it."""

    def ops(self) -> list[Operation]:
        body = list(self.block.body.block.ops)
        self.arguments = arguments_of(self.call, self.block)
        self.site = call_site(call_text(self.call), self.call.location)
        for name, value in self.arguments.items():
            size = _as_size(value)
            if size is not None:
                self.sizes[name] = size
        constants = [op for op in body if isinstance(op, VariableOp)]
        nodes = [op for op in body if not isinstance(op, VariableOp | ReturnOp)]
        returned = list(body[-1].names) if body and isinstance(body[-1], ReturnOp) else []
        outputs = [ref.variable.data for ref in self.call.outputs]
        self._name_locals(nodes, outputs[0] if outputs else self.block.block_name.data)
        for op in constants:
            self._constant(op)
        # The last statement gives the result under its own name, where it is nothing but that.
        last = nodes[-1] if nodes else None
        direct = (
            isinstance(last, OpOp | CallOp)
            and len(returned) == 1
            and [ref.text for ref in last.outputs] == returned
            and self.locals.keys() >= set(returned)
            and not any(ref.bracketed.data for ref in self.call.outputs)
        )
        found = self._copied(nodes[:-1] if direct else nodes)
        if direct:
            assert isinstance(last, OpOp | CallOp)
            self.assigned.update(self.locals[name] for name in returned)
            (op,) = self._copied([last])
            op.properties["outputs"] = self.call.outputs
            op.location = at_call(last.location, self.site, returned[0])
            found.append(op)
        else:
            found += self._results(returned)
        hints = self.block.hints
        if hints is not None and hints.data:
            scope = ScopeOp(self.block.block_name.data, found, hints.data)
            scope.location = self.call.location
            self.inliner.keep_places(self.call, scope, ())
            return [scope]
        return found

    def _name_locals(self, nodes: Sequence[Operation], prefix: str) -> None:
        written = dict.fromkeys(written_in(nodes))
        for name in written:
            if name not in self.inliner.globals and name not in self.arguments:
                self.locals[name] = self.inliner.fresh(f"{prefix}_{name}")
        mentioned = set(_mentioned(self.arguments.values()))
        for op in nodes:
            for one in op.walk():
                if isinstance(one, LoopOp) and one.index.data in mentioned:
                    self.sizes[one.index.data] = Size.name(self.inliner.fresh(one.index.data))

    # Constants

    def _constant(self, op: VariableOp) -> None:
        name = op.variable.data
        options = dict(op.options.data)
        key = "pattern" if "pattern" in options else "ref"
        text = options.get(key, StringAttr(name))
        assert isinstance(text, StringAttr)
        tensor = self.text(text.data, op, ("options", key))
        own = [index.data for index in op.indices]
        outer = [one for one in dict.fromkeys(names_between_braces(tensor)) if one not in own]
        identity = (self.block.block_name.data, name, tensor)
        if identity not in self.inliner.constants:
            paths = [
                value.data
                for parameter in _BRACES.findall(text.data)
                if isinstance(value := self.arguments.get(parameter), StringAttr)
            ]
            words = [word for path in paths for word in re.findall(r"[A-Za-z0-9]+", path)]
            stem = "_".join([*words, name])
            declared = self.inliner.fresh(f"_{stem}" if stem[0].isdigit() else stem)
            options.pop(key, None)
            options["pattern" if own or outer else "ref"] = StringAttr(tensor)
            dims = [self.size(dim, op, ("dims", axis)) for axis, dim in enumerate(op.sizes)]
            made = VariableOp(
                declared, op.memory.data, op.dtype.data, dims, [*outer, *own], options
            )
            made.location = at_call(op.location, self.site, name)
            self.inliner.keep_places(op, made, self.arguments)
            self.inliner.declare(made)
            self.inliner.constants[identity] = declared
        self.families[name] = RefAttr.of(
            self.inliner.constants[identity], [Size.name(index) for index in outer]
        )

    # Statements

    def _copied(self, nodes: Iterable[Operation]) -> list[Operation]:
        found: list[Operation] = []
        for node in nodes:
            own = self.locals.get(node.variable.data) if isinstance(node, AssignOp) else None
            if own is not None:
                self.assigned.add(own)
            found += self._declared(node)
            if isinstance(node, LoopOp | ScopeOp):
                inner = self._copied(node.body.block.ops)
                if isinstance(node, LoopOp):
                    index = self.sizes.get(node.index.data)
                    name = str(index) if index is not None else node.index.data
                    op: Operation = LoopOp(
                        *(node.loop_name.data, name),
                        self.size(node.start.data, node, ("start",)),
                        self.size(node.stop.data, node, ("stop",)),
                        inner,
                        node.hints.data if node.hints else None,
                    )
                else:
                    op = ScopeOp(node.label.data, inner, node.hints.data if node.hints else None)
            else:
                op = node.clone()
                for key, value in node.properties.items():
                    op.properties[key] = self._property(node, key, value)
            changed = {*self.arguments, *self.locals, *self.sizes}
            name = node.variable.data if isinstance(node, AssignOp) else ""
            op.location = at_call(node.location, self.site, name)
            self.inliner.keep_places(node, op, changed)
            found.append(op)
        return found

    def _declared(self, node: Operation) -> Iterator[Operation]:
        """Open declarations of the temporaries that a statement is the first to write."""
        writes = getattr(node, "writes", None)
        for ref in writes() if writes is not None else ():
            name = self.locals.get(ref.variable.data)
            if name is not None and name not in self.assigned:
                self.assigned.add(name)
                declared = AssignOp(name, OPEN)
                declared.location = at_call(node.location, self.site, ref.variable.data)
                self.inliner.places.implied.add(declared)
                self.inliner.places.parts[declared, ()] = self.inliner.places.of(node)
                yield declared

    def _results(self, returned: Sequence[str]) -> list[Operation]:
        """What is returned goes where the call wants it, all at once: `a, b = branch swap(a, b);`."""
        kept: list[Operation] = []
        moved: list[Operation] = []
        written: set[str] = set()
        for name, target in zip(returned, self.call.outputs):
            value = self.reference(RefAttr.of(name), self.block, ("name",), literal=False)
            source = value if isinstance(value, RefAttr) else RefAttr.of(name)
            if source.variable.data in written:
                copy = self.inliner.fresh(name)
                kept += [AssignOp(copy, OPEN), TransferOp(source, RefAttr.of(copy))]
                source = RefAttr.of(copy)
            written.add(target.variable.data)
            moved.append(TransferOp(source, target))
        for op in (*kept, *moved):
            op.location = self.call.location
            self.inliner.places.parts[op, ()] = self.inliner.places.of(self.call)
        return [*kept, *moved]

    def _property(self, node: Operation, key: str, value: Attribute) -> Attribute:
        if key in ("variable", "variables"):
            if isinstance(value, ArrayAttr):
                return ArrayAttr([self._name(name, node) for name in value])
            return self._name(value, node)
        if key in ("op", "block_name", "then_block", "else_block", "after", "before", "label"):
            return value
        texts = isinstance(node, CallOp)
        if key == "inputs" and isinstance(value, ArrayAttr):
            return ArrayAttr(
                [
                    self.value(item, node, (key, place), operand=True, texts=texts)
                    for place, item in enumerate(value)
                ]
            )
        if key == "settings" and isinstance(value, DictionaryAttr):
            return DictionaryAttr(
                {
                    name: self.value(item, node, (key, name), texts=texts)
                    for name, item in value.data.items()
                }
            )
        return self.value(value, node, (key,))

    def _name(self, value: Attribute, node: Operation) -> Attribute:
        assert isinstance(value, StringAttr)
        found = self.reference(RefAttr.of(value.data), node, ("variable",), literal=False)
        return found.variable if isinstance(found, RefAttr) else value

    # Attributes

    def value(
        self,
        value: Attribute,
        node: Operation,
        part: Part,
        *,
        operand: bool = False,
        texts: bool = False,
    ) -> Attribute:
        """The attribute with what parameters and temporaries are here."""
        match value:
            case RefAttr():
                return self.reference(value, node, part, literal=operand, texts=texts)
            case SizeAttr():
                return SizeAttr(self.size(value.data, node, part))
            case SliceAttr():
                start = self.value(value.start, node, (*part, "start"))
                return SliceAttr(start, self.value(value.stop, node, (*part, "stop")))
            case NameAttr():
                return self._setting(value, texts)
            case ArrayAttr():
                items = enumerate(value)
                return ArrayAttr([self.value(item, node, (*part, i)) for i, item in items])
            case DictionaryAttr():
                return DictionaryAttr(
                    {k: self.value(v, node, (*part, k)) for k, v in value.data.items()}
                )
            case StringAttr() if texts:
                return StringAttr(self.text(value.data, node, part))
            case _:
                return value

    def _setting(self, value: NameAttr, texts: bool) -> Attribute:
        """A bare name in a setting: a parameter, a temporary, or something of the program."""
        name = value.data
        if name in self.arguments:
            found = self.arguments[name]
            if isinstance(found, LiteralAttr):
                return found.value
            if isinstance(found, RefAttr) and not texts:
                if not found.bracketed.data:
                    return NameAttr(found.variable.data)
                self._wrong(name, "a setting names variables without indices")
                return value
            return found
        if name in self.sizes:
            return NameAttr(str(self.sizes[name]))
        return NameAttr(self.locals.get(name, name))

    def reference(
        self, ref: RefAttr, node: Operation, part: Part, *, literal: bool, texts: bool = False
    ) -> Attribute:
        """The use of a variable. A parameter may be a number where one may stand."""
        name = ref.variable.data
        slots = [self.value(slot, node, (*part, i)) for i, slot in enumerate(ref.indices)]
        bracketed = bool(ref.bracketed.data)
        if name in self.families:
            family = self.families[name]
            return RefAttr.of(family.variable.data, [*family.indices, *slots], bracketed=bracketed)
        if name not in self.arguments:
            return RefAttr.of(self.locals.get(name, name), slots, bracketed=bracketed)
        value = self.arguments[name]
        if isinstance(value, NameAttr):
            value = RefAttr.of(value.data)
        if isinstance(value, RefAttr):
            if not bracketed:
                return value
            if value.bracketed.data:
                self._wrong(name, "it has an index already")
            return RefAttr.of(value.variable.data, slots, bracketed=True)
        if texts and not bracketed:
            return value.value if isinstance(value, LiteralAttr) else value
        if literal and not bracketed:
            if isinstance(value, LiteralAttr):
                return value
            if isinstance(value, IntegerAttr | FloatAttr):
                return LiteralAttr(value)  # pyright: ignore[reportUnknownArgumentType]
            self._wrong(name, "an operand is a variable or a number")
        else:
            self._wrong(name, "a variable stands here")
        return RefAttr.of(name, slots, bracketed=bracketed)

    def size(self, size: Size, node: Operation, part: Part) -> Size:
        for name in size.names & self.arguments.keys():
            if name not in self.sizes:
                self._wrong(name, "a size is made of whole numbers, sizes and integer variables")
        renamed = {old: Size.name(new) for old, new in self.locals.items()}
        return size.substitute({**renamed, **self.sizes})

    def text(self, text: str, node: Operation, part: Part) -> str:
        """A text with what stands in braces written out."""

        def written(match: re.Match[str]) -> str:
            inner = match[1]
            value = self.arguments.get(inner.strip())
            if isinstance(value, StringAttr):
                return value.data
            if inner.strip() in self.arguments and inner.strip() not in self.sizes:
                self._wrong(inner.strip(), "a text or a number stands in the braces")
                return match[0]
            try:
                size = Size.of(inner).substitute(self.sizes)
            except (ValueError, ZeroDivisionError):
                return match[0]
            return f"{{{size}}}" if size.constant is None else str(size.constant)

        return _BRACES.sub(written, text)

    def _wrong(self, name: str, what: str) -> None:
        """Reports an argument that is none for a use of its parameter."""
        call, block = self.call, self.block
        if name in call.settings.data:
            part: Part = ("settings", name)
        elif name in block.parameter_names[: len(call.inputs)]:
            part = ("inputs", block.parameter_names.index(name))
        else:
            part = ()
        self.inliner.report.error(
            "OI0275",
            self.inliner.places.of(call, part),
            f"`{name}` of block `{block.block_name.data}` is given what it cannot be: {what}",
            fix=f"give `{name}` something else, or use it in another way in the block",
            notes=[("the block", self.inliner.places.of(block, ("name",)))],
        )


def _as_size(value: Attribute) -> Size | None:
    """An argument in an expression; None for one that is no number."""
    match value:
        case LiteralAttr():
            return _as_size(value.value)
        case IntegerAttr() if getattr(value.type, "bitwidth", 0) != 1:
            return Size.of(value.value.data)
        case SizeAttr():
            return value.data
        case NameAttr():
            return Size.name(value.data)
        case RefAttr() if not value.bracketed.data:
            return Size.name(value.variable.data)
        case _:
            return None


def names_between_braces(text: str) -> list[str]:
    """The names in the braces of a text."""
    return [name for inner in _BRACES.findall(text) for name in _identifiers(inner)]


def _mentioned(values: Iterable[Attribute]) -> Iterator[str]:
    """The names in arguments."""
    for value in values:
        match value:
            case RefAttr():
                yield value.variable.data
                yield from _mentioned(value.indices)
            case SizeAttr():
                yield from value.data.names
            case SliceAttr():
                yield from _mentioned((value.start, value.stop))
            case NameAttr():
                yield value.data
            case ArrayAttr():
                yield from _mentioned(value)
            case StringAttr():
                yield from names_between_braces(value.data)
            case _:
                pass


def _identifiers(text: str) -> list[str]:
    return re.findall(r"[A-Za-z_]\w*", text)


def _names(module: ModuleOp) -> Iterator[str]:
    """Every name that a program has for something."""
    for op in module.walk():
        match op:
            case VariableOp():
                yield op.variable.data
                yield from (index.data for index in op.indices)
                yield from (name for dim in op.sizes for name in dim.names)
            case AssignOp():
                yield op.variable.data
            case SizeOp() | PackageSizeOp():
                yield op.size.data
            case LoopOp():
                yield op.index.data
            case BlockOp():
                yield from op.parameter_names
            case _:
                pass
        if (writes := getattr(op, "writes", None)) is not None:
            yield from (ref.variable.data for ref in writes())
