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
from dataclasses import field
from functools import partial

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
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
    OpOp,
    PackageSizeOp,
    RefAttr,
    ReturnOp,
    ScopeOp,
    SizeOp,
    TransferOp,
    VariableOp,
)
from openinfer.dialects.graph.syntax import OPEN
from openinfer.dialects.opset import OpError, find, literal_dtype
from openinfer.lowering.locations import at_call, call_site
from openinfer.lowering.program.call_names import (
    BRACES,
    CallNames,
    around,
    mentioned,
    names_between_braces,
)
from openinfer.lowering.program.nodes import argument_text, call_text
from openinfer.lowering.program.places import Part, Place, Places
from openinfer.lowering.program.report import Report
from openinfer.lowering.program.size_definitions import definitions, expressions
from openinfer.lowering.program.size_numbers import SizeNumbers
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size


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
        self.sizes = set(_size_names(module)) - self.globals - set(written_in(module.body.ops))
        self.definitions = expressions(definitions(module))
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
    names: CallNames = field(init=False)
    assigned: set[str] = field(default_factory=set[str])
    site: LocationAttr = field(default_factory=UnknownLoc)
    """The call, as the locations of its statements name it."""

    def __post_init__(self) -> None:
        inliner = self.inliner
        counted = {
            op.index.data for op in around(self.call) if isinstance(op, LoopOp)
        } | inliner.sizes
        self.names = CallNames(
            *(inliner.report, inliner.places, self.call, self.block, counted, inliner.definitions)
        )

    def ops(self) -> list[Operation]:
        body = list(self.block.body.block.ops)
        given = {name: argument_text(value) for name, value in self.names.arguments.items()}
        self.site = call_site(call_text(self.call), given, self.call.location)
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
            and self.names.locals.keys() >= set(returned)
            and not any(ref.bracketed.data for ref in self.call.outputs)
        )
        found = self._copied(nodes[:-1] if direct else nodes)
        if direct:
            assert isinstance(last, OpOp | CallOp)
            self.assigned.update(self.names.locals[name] for name in returned)
            *before, op = self._copied([last])
            found += before
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
            if name not in self.inliner.globals and name not in self.names.arguments:
                self.names.locals[name] = self.inliner.fresh(f"{prefix}_{name}")
        given = set(mentioned(self.names.arguments.values()))
        for op in nodes:
            for one in op.walk():
                if isinstance(one, LoopOp) and one.index.data in given:
                    self.names.sizes[one.index.data] = Size.name(self.inliner.fresh(one.index.data))

    # Constants

    def _constant(self, op: VariableOp) -> None:
        name = op.variable.data
        options = dict(op.options.data)
        key = "pattern" if "pattern" in options else "ref"
        text = options.get(key, StringAttr(name))
        assert isinstance(text, StringAttr)
        tensor = self.names.text(text.data, op, ("options", key))
        own = [index.data for index in op.indices]
        outer = [one for one in dict.fromkeys(names_between_braces(tensor)) if one not in own]
        identity = (self.block.block_name.data, name, tensor)
        if identity not in self.inliner.constants:
            paths = [
                value.data
                for parameter in BRACES.findall(text.data)
                if isinstance(value := self.names.arguments.get(parameter), StringAttr)
            ]
            words = [word for path in paths for word in re.findall(r"[A-Za-z0-9]+", path)]
            stem = "_".join([*words, name])
            declared = self.inliner.fresh(f"_{stem}" if stem[0].isdigit() else stem)
            options.pop(key, None)
            options["pattern" if own or outer else "ref"] = StringAttr(tensor)
            dims = [self.names.size(dim, op, ("dims", axis)) for axis, dim in enumerate(op.sizes)]
            made = VariableOp(
                declared, op.memory.data, op.dtype.data, dims, [*outer, *own], options
            )
            made.location = at_call(op.location, self.site, name)
            self.inliner.keep_places(op, made, self.names.arguments)
            self.inliner.declare(made)
            self.inliner.constants[identity] = declared
        self.names.families[name] = RefAttr.of(
            self.inliner.constants[identity], [Size.name(index) for index in outer]
        )

    # Statements

    def _copied(self, nodes: Iterable[Operation]) -> list[Operation]:
        found: list[Operation] = []
        for node in nodes:
            own = self.names.locals.get(node.variable.data) if isinstance(node, AssignOp) else None
            if own is not None:
                self.assigned.add(own)
            found += self._declared(node)
            if isinstance(node, LoopOp | ScopeOp):
                inner = self._copied(node.body.block.ops)
                if isinstance(node, LoopOp):
                    index = self.names.sizes.get(node.index.data)
                    name = str(index) if index is not None else node.index.data
                    op: Operation = LoopOp(
                        *(node.loop_name.data, name),
                        self.names.size(node.start.data, node, ("start",)),
                        self.names.size(node.stop.data, node, ("stop",)),
                        inner,
                        node.hints.data if node.hints else None,
                    )
                else:
                    op = ScopeOp(node.label.data, inner, node.hints.data if node.hints else None)
            else:
                hints = node.hints if isinstance(node, OpOp) else None
                numbers = SizeNumbers(
                    partial(self.inliner.fresh, "number"),
                    self.inliner.definitions,
                    hints.data if hints is not None else None,
                )
                op = node.clone()
                for key, value in node.properties.items():
                    op.properties[key] = self._property(node, key, value, numbers)
                found += self._in_front(numbers, node)
            changed = {*self.names.arguments, *self.names.locals, *self.names.sizes}
            name = node.variable.data if isinstance(node, AssignOp) else ""
            if isinstance(node, LoopOp) and isinstance(op, LoopOp) and op.index != node.index:
                name = node.index.data
            op.location = at_call(node.location, self.site, name)
            self.inliner.keep_places(node, op, changed)
            found.append(op)
        return found

    def _declared(self, node: Operation) -> Iterator[Operation]:
        """Open declarations of the temporaries that a statement is the first to write."""
        writes = getattr(node, "writes", None)
        for ref in writes() if writes is not None else ():
            name = self.names.locals.get(ref.variable.data)
            if name is not None and name not in self.assigned:
                self.assigned.add(name)
                declared = AssignOp(name, OPEN)
                declared.location = at_call(node.location, self.site, ref.variable.data)
                self.inliner.places.implied.add(declared)
                self.inliner.places.parts[declared, ()] = self.inliner.places.of(node)
                yield declared

    def _in_front(self, numbers: SizeNumbers, node: Operation) -> Iterator[Operation]:
        """What computes the sizes that an op takes."""
        for op in numbers.ops:
            declared = AssignOp(op.outputs.data[0].variable.data, OPEN)
            self.inliner.places.implied.add(declared)
            for one in (declared, op):
                one.location = at_call(node.location, self.site)
                self.inliner.places.parts[one, ()] = self.inliner.places.of(node)
                yield one

    def _results(self, returned: Sequence[str]) -> list[Operation]:
        """What is returned goes where the call wants it, all at once: `a, b = branch swap(a, b);`."""
        kept: list[Operation] = []
        moved: list[Operation] = []
        written: set[str] = set()
        for name, target in zip(returned, self.call.outputs):
            value = self.names.reference(RefAttr.of(name), self.block, ("name",), literal=False)
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

    def _property(
        self, node: Operation, key: str, value: Attribute, numbers: SizeNumbers
    ) -> Attribute:
        if key in ("variable", "variables"):
            if isinstance(value, ArrayAttr):
                return ArrayAttr([self._name(name, node) for name in value])
            return self._name(value, node)
        if key in ("op", "block_name", "then_block", "else_block", "after", "before", "label"):
            return value
        texts = isinstance(node, CallOp)
        if key == "inputs" and isinstance(value, ArrayAttr):
            sizes = [self.names.number(item) if isinstance(node, OpOp) else None for item in value]
            operands = [
                self.names.value(item, node, (key, place), operand=True, texts=texts)
                if size is None
                else numbers.operand(size)
                for place, (item, size) in enumerate(zip(value, sizes))
            ]
            if isinstance(node, OpOp):
                self._whole_numbers(node, operands, numbers)
            return ArrayAttr(operands)
        if key == "settings" and isinstance(value, DictionaryAttr):
            return DictionaryAttr(
                {
                    name: self.names.value(item, node, (key, name), texts=texts)
                    for name, item in value.data.items()
                }
            )
        return self.names.value(value, node, (key,))

    def _whole_numbers(self, node: OpOp, operands: list[Attribute], numbers: SizeNumbers) -> None:
        """A whole number for a parameter is an i64, as an index would be, where no operand gives the literal
        a dtype."""
        spec = find(node.op_name.data)
        for place, item in enumerate(node.inputs if spec is not None else ()):
            size = self.names.whole_number(item)
            if spec is None or size is None:
                continue
            # Which dtype the others have is not known yet, nor does it matter.
            dtypes = [None if isinstance(one, LiteralAttr) else "f32" for one in operands]
            try:
                literal_dtype(spec, dtypes, place)
            except OpError:
                operands[place] = numbers.operand(size)

    def _name(self, value: Attribute, node: Operation) -> Attribute:
        assert isinstance(value, StringAttr)
        found = self.names.reference(RefAttr.of(value.data), node, ("variable",), literal=False)
        return found.variable if isinstance(found, RefAttr) else value


def _size_names(module: ModuleOp) -> Iterator[str]:
    """The sizes that a program names."""
    for op in module.body.ops:
        if isinstance(op, SizeOp | PackageSizeOp):
            yield op.size.data
        elif isinstance(op, VariableOp):
            indices = {index.data for index in op.indices}
            yield from (name for dim in op.sizes for name in dim.names if name not in indices)


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
