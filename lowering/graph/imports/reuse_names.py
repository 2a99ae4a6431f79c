"""A value that is needed no more gives its name to what is made of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from openinfer.dialects import opset
from openinfer.dialects.graph import (
    AssignOp,
    AwaitOp,
    BlockOp,
    CacheReadOp,
    CallOp,
    LoopOp,
    OpOp,
    ReturnOp,
    ScopeOp,
    TransferOp,
    YieldOp,
)
from openinfer.lowering.graph.imports.meaning import same_program
from openinfer.lowering.graph.imports.names_of import entry_of, read_names, rename, written_names
from openinfer.lowering.graph.imports.notes import note
from openinfer.lowering.operations import take_body
from openinfer.lowering.program.liveness import Flow, Names, nodes_of
from openinfer.runtime.sizes import Size

_STATES = ("normalise", "rotary")
"""Families of ops whose result is the operand in another state, beside those that may overwrite it."""


@dataclass(frozen=True)
class ReuseNames(ModulePass):
    """A value that is needed no more gives its name to what is made of it, of the same type.

    Before:
        graph.op linear(h, w) -> (a)
        graph.op add(a, h) -> (b)
        graph.transfer b -> h
    After:
        graph.op linear(h, w) -> (a)
        graph.op add(a, h) -> (h)

    Requires: an imported program; loops and blocks may be there.
    Leaves: the names of inputs and results, what other blocks use, and statements with names in settings.
        A copy stays where both of its names are needed.
    """

    name: ClassVar[str] = "reuse-names"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        changed = op.clone()
        blocks = [one for one in changed.body.ops if isinstance(one, BlockOp)]
        if not any([_Names(changed, block).run() for block in blocks if _is_called(block)]):
            return
        if not same_program(op, changed):
            note("names are not reused: the program could not be proven equal to the one before")
            return
        take_body(op, changed)


@dataclass
class _Names:
    """Classes of temporaries that may share a name."""

    module: ModuleOp
    block: BlockOp
    parents: dict[str, str] = field(default_factory=dict[str, str])
    conflicts: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """For each class the classes that hold something else at some time, by their first names."""
    types: dict[str, tuple[str, tuple[Size, ...]]] = field(
        default_factory=dict[str, tuple[str, tuple[Size, ...]]]
    )
    fixed: set[str] = field(default_factory=set[str])
    """Names that stay: results, what other blocks use, what settings and sizes name."""
    statements: list[tuple[Operation, Names]] = field(default_factory=list[tuple[Operation, Names]])
    """In program order, with what is needed behind each."""

    def run(self) -> bool:
        entry = self.block
        self._collect(entry)
        before = dict(self.parents)
        self._join_carried()
        self._join_results()
        self._join_operands()
        if self.parents == before:
            return False
        names = {name: self.root(name) for name in self.types if self.root(name) != name}
        rename(self.module, names)
        _drop_copies_to_itself(entry)
        _declare_once(entry)
        return True

    # What is live when

    def _collect(self, entry: BlockOp) -> None:
        blocks = {op.block_name.data: op for op in self.module.body.ops if isinstance(op, BlockOp)}
        dims: Counter[str] = Counter()
        for block in blocks.values():
            for op in block.walk():
                if isinstance(op, AssignOp):
                    name = op.variable.data
                    if name in self.types and self.types[name] != (op.dtype.data, op.sizes):
                        self.fixed.add(name)
                    self.types.setdefault(name, (op.dtype.data, op.sizes))
                    dims.update(n for dim in op.sizes for n in dim.names)
                elif not op.regions:
                    self.fixed |= _named_aside(op)
            if block is not entry:
                self.fixed |= read_names(block) | written_names(block)
        self.fixed |= dims.keys()
        for op in entry.walk():
            if isinstance(op, ReturnOp):
                self.fixed |= set(op.names)
        flow = Flow(blocks)
        # Behind a block that is called others may need whatever they name.
        left = frozenset(self.fixed & self.types.keys())
        if entry is entry_of(self.module):
            left = frozenset(
                name for op in entry.walk() if isinstance(op, ReturnOp) for name in op.names
            )
        self._walk(flow, nodes_of(entry), frozenset(), left)
        self.parents = {name: name for name in self.types}
        for op, behind in self.statements:
            source = op.source.variable.data if isinstance(op, TransferOp) else None
            for name in written_names(op):
                if name not in self.types:
                    continue
                for other in behind:
                    if other in self.types and other not in (name, source):
                        self.conflicts[name].add(other)
                        self.conflicts[other].add(name)

    def _walk(self, flow: Flow, nodes: Sequence[Operation], after: Names, left: Names) -> None:
        for op, behind in zip(nodes, flow.live_behind_each(nodes, after, left)):
            if isinstance(op, LoopOp):
                body = nodes_of(op)
                again = flow.live_before(body, behind, left) - {op.index.data}
                self._walk(flow, body, behind | again, left)
            elif isinstance(op, ScopeOp):
                self._walk(flow, nodes_of(op), behind, left)
            else:
                self.statements.append((op, behind))

    # Classes

    def root(self, name: str) -> str:
        while self.parents[name] != name:
            name = self.parents[name]
        return name

    def join(self, keep: str, other: str) -> bool:
        """Gives both one name, `keep`, if they may have it."""
        keep, other = self.root(keep), self.root(other)
        if keep == other:
            return True
        if self.types[keep] != self.types[other] or other in self.fixed:
            return False
        if {self.root(name) for name in self.conflicts[keep]} & {other}:
            return False
        if {self.root(name) for name in self.conflicts[other]} & {keep}:
            return False
        self.parents[other] = keep
        self.conflicts[keep] |= self.conflicts.pop(other)
        return True

    def _join_carried(self) -> None:
        """What a loop carries is written where it is made, before the loop and inside."""
        for op, _ in self.statements:
            if isinstance(op, TransferOp) and self._is_carried(op.target.variable.data):
                self._join_copy(op)

    def _is_carried(self, name: str) -> bool:
        return name in self.types and name not in self.fixed

    def _join_results(self) -> None:
        """What is copied into a result is made there, unless it goes round in a loop."""
        carried = self._carried()
        for op, _ in self.statements:
            if isinstance(op, TransferOp) and op.target.variable.data in self.fixed:
                source = op.source.variable.data
                if source in self.types and self.root(source) not in carried:
                    self._join_copy(op)

    def _join_copy(self, op: TransferOp) -> None:
        source, target = op.source.variable.data, op.target.variable.data
        plain = not op.source.indices.data and not op.target.indices.data
        if plain and source in self.types and target in self.types:
            self.join(target, source)

    def _join_operands(self) -> None:
        """What an op makes of a value that is needed no more gets its name, that of what is carried first."""
        copied = {
            op.target.variable.data
            for op, _ in self.statements
            if isinstance(op, TransferOp) and op.source.variable.data in self.fixed
        }
        called: set[str] = set()
        for op, behind in self.statements:
            if not isinstance(op, OpOp | CallOp) or not _changes_a_value(op):
                continue
            result = op.outputs.data[0].variable.data
            if result not in self.types:
                continue
            needed = {self.root(name) for name in behind if name in self.types}
            carried = self._carried()
            ending = [
                ref.variable.data
                for ref in op.reads()
                if ref.variable.data in self.types and self.root(ref.variable.data) not in needed
            ]
            if isinstance(op, CallOp):
                # What blocks make of one another's results is one value on its way.
                ending = [name for name in ending if name in called]
                called.add(result)
            ending.sort(key=lambda name: self.root(name) not in carried)
            for name in ending:
                kept = name in copied or self.root(name) in self.fixed
                if not kept and self.join(name, result):
                    break

    def _carried(self) -> set[str]:
        """The classes of what loops carry."""
        return {
            self.root(op.target.variable.data)
            for op, _ in self.statements
            if isinstance(op, TransferOp) and self._is_carried(op.target.variable.data)
        }


def _is_called(block: BlockOp) -> bool:
    """Whether a block runs alone: `entry`, and what is called with `branch`."""
    return not any(isinstance(op, AwaitOp | YieldOp) for op in block.walk())


def _changes_a_value(op: OpOp | CallOp) -> bool:
    """Whether an op makes another state of its operand, such as a sum, rather than another thing."""
    if isinstance(op, CallOp):
        return len(op.outputs.data) == 1
    spec = opset.find(op.op_name.data)
    one = len(op.outputs.data) == 1
    return one and spec is not None and (spec.inplace or spec.family in _STATES)


def _named_aside(op: Operation) -> set[str]:
    """Names that an op uses otherwise than as operands and results."""
    operands: set[str] = set()
    match op:
        case OpOp() | CallOp():
            operands = {ref.variable.data for ref in op.reads() if not ref.indices.data}
        case TransferOp() | CacheReadOp():
            operands = {ref.variable.data for ref in op.reads() if not ref.indices.data}
        case ReturnOp():
            return set()
        case _:
            pass
    others = read_names(op) - operands
    if isinstance(op, OpOp | CallOp):
        # A name may be an operand and a setting.
        copied = op.clone()
        copied.properties["inputs"] = op.inputs.__class__([])
        others |= read_names(copied)
    return others


def _drop_copies_to_itself(entry: BlockOp) -> None:
    for op in list(entry.walk()):
        if isinstance(op, TransferOp) and op.source == op.target:
            op.detach()
            op.erase()


def _declare_once(entry: BlockOp) -> None:
    """One declaration for each name, in front of what writes it first."""
    seen: set[str] = set()
    for op in list(entry.walk()):
        if isinstance(op, AssignOp):
            if op.variable.data in seen:
                op.detach()
                op.erase()
            seen.add(op.variable.data)
