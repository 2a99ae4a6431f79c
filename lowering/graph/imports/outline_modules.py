"""Modules that a model calls several times become blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    BranchOp,
    LoopOp,
    OpOp,
    RefAttr,
    ReturnOp,
    TransferOp,
    VariableOp,
)
from openinfer.lowering.graph.imports.lines import Type
from openinfer.lowering.graph.imports.meaning import same_program
from openinfer.lowering.graph.imports.names_of import (
    entry_of,
    first_uses,
    fresh,
    mapped,
    read_names,
    rename_in,
    taken_names,
    written_names,
)
from openinfer.lowering.graph.imports.notes import note
from openinfer.lowering.graph.imports.provenance import Provenance, provenance_of, set_provenance
from openinfer.lowering.graph.imports.words import joined, path_words
from openinfer.lowering.operations import take_body
from openinfer.runtime.sizes import Size

_LEAST = 4
"""Lines that a block saves, or more."""
_MOST_VALUES = 3
"""Values that a block takes, and that it gives; more are no easier to read than the statements."""
_TRIED = 40
"""So many stretches are looked at."""


@dataclass(frozen=True)
class OutlineModules(ModulePass):
    """Statements that do the same with the same weights for several inputs become one block, called for each.

    Before:
        graph.op linear(left, w) -> (a)
        graph.op relu(a) -> (b)
        graph.op linear(right, w) -> (c)
        graph.op relu(c) -> (d)
    After:
        graph.transfer left -> x
        graph.branch encoder
        graph.transfer y -> b
        graph.transfer right -> x
        graph.branch encoder
        …
        graph.block encoder { graph.op linear(x, w) -> (a) … graph.op relu(a) -> (y) graph.return }

    Requires: an imported program in which each temporary is written once, or carried by one loop.
    Leaves: statements with other weights or shapes: the blocks made here have no parameters, they read
        and write variables of one type. What saves fewer than four lines, or takes or gives more than
        three values.
        A program that would compute anything else than before is left as it was.
    """

    name: ClassVar[str] = "outline-modules"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        outlined = op.clone()
        notes: list[str] = []
        while (said := _outline(outlined)) is not None:
            notes.append(said)
        if not notes:
            return
        if not same_program(op, outlined):
            note("modules are not blocks: the program could not be proven equal to the one before")
            return
        for said in notes:
            note(said)
        take_body(op, outlined)


def _outline(module: ModuleOp) -> str | None:
    """Makes the block that saves most lines; what it was, None where there is none."""
    entry = entry_of(module)
    if entry is None:
        return None
    program = _Program.of(module, entry)
    for start, length in program.stretches():
        calls = program.calls(start, length)
        if len(calls) > 1:
            saved = program.saved(calls)
            if saved >= _LEAST:
                return _Outliner(module, program, calls).outline(saved)
    return None


@dataclass
class _Call:
    """A stretch of statements that one call of a block stands for."""

    start: int
    length: int
    names: dict[str, str]
    """Temporaries and inputs of the first stretch, and what they are here."""


@dataclass
class _Program:
    """The statements of `entry`, and what is the same of them."""

    entry: BlockOp
    types: dict[str, Type]
    """Of what a call may be given or give."""
    assigns: dict[str, AssignOp]
    ops: list[Operation] = field(default_factory=list[Operation])
    keys: list[int] = field(default_factory=list[int])
    """Two statements have one key if they are equal up to the names of temporaries and inputs."""
    used: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    """The statements that read or write a name; -1 for another block."""

    @staticmethod
    def of(module: ModuleOp, entry: BlockOp) -> _Program:
        inputs = {
            op.variable.data: (op.dtype.data, op.sizes)
            for op in module.body.ops
            if isinstance(op, VariableOp) and op.memory.data == "dynamic"
        }
        assigns = {op.variable.data: op for op in entry.walk() if isinstance(op, AssignOp)}
        types: dict[str, Type] = {
            **inputs,
            **{name: (op.dtype.data, op.sizes) for name, op in assigns.items()},
        }
        found = _Program(entry, types, assigns)
        found._read(module)
        return found

    def _read(self, module: ModuleOp) -> None:
        known: dict[object, int] = {}
        for op in self.entry.body.block.ops:
            if isinstance(op, AssignOp):
                continue
            place = len(self.ops)
            self.ops.append(op)
            key = self._key(op) or ("alone", place)
            self.keys.append(known.setdefault(key, len(known)))
            for name in read_names(op) | written_names(op):
                self.used.setdefault(name, set()).add(place)
        for block in module.body.ops:
            if isinstance(block, BlockOp) and block is not self.entry:
                for name in read_names(block) | written_names(block):
                    self.used.setdefault(name, set()).add(-1)

    def _key(self, op: Operation) -> object:
        """A statement without its names; None for one that no block may hold."""
        found: list[object] = []
        for one in op.walk():
            if isinstance(one, AssignOp):
                continue
            if not isinstance(one, OpOp | TransferOp | LoopOp):
                return None
            found.append((one.name, *self._parts(one, lambda name: str(self.types[name]))))
        return tuple(found)

    def _parts(self, op: Operation, named: Callable[[str], str]) -> Iterator[object]:
        """The properties of a statement, with other names of temporaries and inputs."""

        def variable(name: str) -> str:
            return named(name) if name in self.types else name

        for key, value in sorted(op.properties.items()):
            if key != "loop_name":
                yield key, mapped(value, variable, _same, variable)

    def names(self, op: Operation) -> list[str]:
        """The temporaries and inputs that a statement names, in a fixed order."""
        found: list[str] = []

        def noted(name: str) -> str:
            found.append(name)
            return name

        for one in op.walk():
            if not isinstance(one, AssignOp):
                list(self._parts(one, noted))
        return found

    # Stretches

    def stretches(self) -> Iterator[tuple[int, int]]:
        """(start, length) of statements that come again, those that save most first."""
        keys = np.array(self.keys)
        sizes = np.array([sum(not isinstance(o, AssignOp) for o in op.walk()) for op in self.ops])
        weight = np.concatenate([[0], np.cumsum(sizes)])
        found: set[tuple[int, int, int]] = set()
        for distance in range(1, len(keys)):
            equal = np.concatenate([[False], keys[:-distance] == keys[distance:], [False]])
            edges = np.flatnonzero(equal[1:] != equal[:-1])
            for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist()):
                length = min(stop - start, distance)
                lines = int(weight[start + length] - weight[start])
                if lines > _LEAST:
                    found.add((-lines, start, length))
        for _, start, length in sorted(found)[:_TRIED]:
            yield start, length

    def calls(self, start: int, length: int) -> list[_Call]:
        """The stretches that are the same as one, that one first."""
        wanted = self.keys[start : start + length]
        found: list[_Call] = []
        place = start
        while place + length <= len(self.keys):
            names = None
            if self.keys[place : place + length] == wanted:
                names = self._match(start, place, length)
            if names is None:
                place += 1
                continue
            found.append(_Call(place, length, names))
            place += length
        return found

    def _match(self, start: int, other: int, length: int) -> dict[str, str] | None:
        """The names of one stretch in another, one to one; None where one value there is two here."""
        there: dict[str, str] = {}
        here: dict[str, str] = {}
        for j in range(length):
            for a, b in zip(self.names(self.ops[start + j]), self.names(self.ops[other + j])):
                if there.setdefault(a, b) != b or here.setdefault(b, a) != a:
                    return None
        stretch = range(other, other + length)
        read: set[str] = set()
        written: set[str] = set()
        first_uses(self.ops[other : other + length], read, written)
        writers = {place for name in written for place in self._writers(name)}
        return None if read & written or not writers <= set(stretch) else there

    def _writers(self, name: str) -> Iterator[int]:
        for place in self.used.get(name, ()):
            if place < 0 or name in written_names(self.ops[place]):
                yield place

    # What goes in and out

    def arguments(self, calls: Sequence[_Call]) -> list[str]:
        """What differs from call to call of what the first stretch reads and does not write."""
        written = self._written(calls[0])
        return [
            name
            for name in calls[0].names
            if name not in written and len({call.names[name] for call in calls}) > 1
        ]

    def results(self, calls: Sequence[_Call]) -> list[str]:
        """What the first stretch writes, and something behind one of the calls needs."""
        written = self._written(calls[0])
        return [
            name
            for name in calls[0].names
            if name in written and any(self.needed(call, name) for call in calls)
        ]

    def needed(self, call: _Call, name: str) -> bool:
        stretch = range(call.start, call.start + call.length)
        return any(place not in stretch for place in self.used.get(call.names[name], ()))

    def _written(self, call: _Call) -> set[str]:
        stretch = self.ops[call.start : call.start + call.length]
        return {name for op in stretch for name in written_names(op)}

    def saved(self, calls: Sequence[_Call]) -> int:
        """Lines that are fewer with a block; none where it takes or gives too much."""
        first = calls[0]
        stretch = self.ops[first.start : first.start + first.length]
        lines = sum(not isinstance(one, AssignOp) for op in stretch for one in op.walk())
        taken, given = len(self.arguments(calls)), len(self.results(calls))
        # A block without arguments would compute one value twice: nobody calls it.
        if not 0 < taken <= _MOST_VALUES or not 0 < given <= _MOST_VALUES:
            return 0
        around = 4 + taken + given
        return (len(calls) - 1) * (lines - given) - len(calls) * (1 + taken) - around


class _Outliner:
    """Makes one block."""

    def __init__(self, module: ModuleOp, program: _Program, calls: Sequence[_Call]) -> None:
        self._module = module
        self._program = program
        self._calls = calls
        taken = taken_names(module)
        self._arguments = {name: fresh("x", taken) for name in program.arguments(calls)}
        self._results = {name: fresh("y", taken) for name in program.results(calls)}

    def outline(self, saved: int) -> str:
        program, calls = self._program, self._calls
        first = calls[0]
        ops = program.ops[first.start : first.start + first.length]
        path = _common([provenance_of(op).module for op in ops])
        name = self._name(path)
        block = BlockOp(name, [*self._body(ops), ReturnOp([])])
        declared = [
            AssignOp(new, *program.types[old])
            for names in (self._arguments, self._results)
            for old, new in names.items()
        ]
        for call in calls:
            point = self._call(call, name, last=call is calls[-1])
            while declared and call is first:
                Rewriter.insert_op(declared.pop(0), InsertPoint.before(point))
        Rewriter.insert_op(block, InsertPoint.after(program.entry))
        shown = f"`{path}`" if path else "equal statements"
        return f"outlined {shown}: called {len(calls)} times, {saved} lines less"

    def _name(self, path: str) -> str:
        taken = {op.block_name.data for op in self._module.body.ops if isinstance(op, BlockOp)}
        taken |= taken_names(self._module)
        return fresh(joined(path_words(path)[-1:]) if path else "shared", taken)

    def _body(self, ops: Sequence[Operation]) -> list[Operation]:
        names = {**self._arguments, **self._results}
        body: list[Operation] = []
        declared: set[str] = set()
        for op in ops:
            for written in sorted(written_names(op)):
                assign = self._program.assigns.get(written)
                outside = assign is not None and assign.parent is self._program.entry.body.block
                if assign is not None and outside and written not in self._results:
                    if written not in declared:
                        body.append(assign.clone())
                    declared.add(written)
            body.append(op.clone())
        for op in body:
            for one in op.walk():
                rename_in(one, lambda name: names.get(name, name), _same)
        return body

    def _call(self, call: _Call, name: str, *, last: bool) -> Operation:
        """Puts a call in the place of a stretch; gives its first statement."""
        program = self._program
        ops = program.ops[call.start : call.start + call.length]
        point = _before(ops[0])
        new: list[Operation] = [
            TransferOp(RefAttr.of(call.names[old]), RefAttr.of(argument))
            for old, argument in self._arguments.items()
        ]
        new.append(BranchOp(name))
        kept: dict[str, Operation] = {}
        for old, result in self._results.items():
            own = call.names[old]
            if not program.needed(call, old):
                continue
            if last and not self._returned(own):
                self._read_instead(own, result)
                continue
            kept[own] = TransferOp(RefAttr.of(result), RefAttr.of(own))
            set_provenance(kept[own], Provenance(variable=self._called(call, name)))
            new.append(kept[own])
        for one in new:
            Rewriter.insert_op(one, InsertPoint.before(point))
        for op in ops:
            for written in sorted(written_names(op)):
                assign = program.assigns.get(written)
                if assign is None or assign.parent is not program.entry.body.block:
                    continue
                assign.detach()
                if written in kept:
                    Rewriter.insert_op(assign, InsertPoint.before(kept[written]))
                else:
                    assign.erase()
            op.detach()
            op.erase()
        return new[0]

    def _called(self, call: _Call, name: str) -> str:
        """What the result of a call is called: `tower_query` of the input `query`."""
        given = [call.names[old] for old in self._arguments]
        inputs = [one for one in given if one not in self._program.assigns]
        return f"{name}_{inputs[0]}" if len(given) == len(inputs) == 1 else name

    def _returned(self, name: str) -> bool:
        return any(
            isinstance(op, ReturnOp) and name in op.names for op in self._program.entry.walk()
        )

    def _read_instead(self, old: str, new: str) -> None:
        for op in self._program.ops[self._calls[-1].start + self._calls[-1].length :]:
            for one in op.walk():
                rename_in(one, lambda name: new if name == old else name, _same)


def _same(size: Size) -> Size:
    return size


def _before(op: Operation) -> Operation:
    """The first of the declarations in front of a statement, or itself."""
    while isinstance(op.prev_op, AssignOp):
        op = op.prev_op
    return op


def _common(paths: Sequence[str]) -> str:
    """The module that most statements lie in, as deep as they share it."""
    split = [path.split(".") for path in paths if path]
    found: list[str] = []
    for column in zip(*split):
        if len(set(column)) > 1:
            break
        found.append(column[0])
    return ".".join(found)
