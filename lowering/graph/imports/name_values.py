"""Temporaries get the names that modules and source lines give them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    LoopOp,
    OpOp,
    RefAttr,
    ReturnOp,
    TransferOp,
    VariableOp,
)
from openinfer.lowering.graph.imports.names_of import (
    entry_of,
    first_uses,
    fresh,
    read_names,
    rename,
    taken_names,
    written_names,
)
from openinfer.lowering.graph.imports.provenance import Provenance, provenance_of
from openinfer.lowering.graph.imports.words import component, joined, path_words, safe, short

_ENDINGS = ("_w", "_b", "_mean", "_var")
_ROLES = ("q", "k", "v", "visible")
_ROWS = ("embedding", "gather")
_ARRANGING = ("reshape", "permute", "transpose", "cast", "slice", "expand", "unsqueeze", "squeeze")
CARRIED = "h"
ARGUMENT, RESULT = "x", "y"
"""Of a block that is called."""


@dataclass(frozen=True)
class NameValues(ModulePass):
    """Temporaries get the names that modules and source lines give them.

    Before:
        graph.op linear(x, query_w) -> (v7) loc("attention.query|Linear|query_layer|aten.linear")
    After:
        graph.op linear(x, query_w) -> (query) loc("attention.query|Linear|query_layer|aten.linear")

    Requires: an imported program whose constants have names; `reuse-names` has run.
    Leaves: names of inputs, results, constants and persistent variables.
    """

    name: ClassVar[str] = "name-values"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        give_names(op)


def give_names(module: ModuleOp, hidden: Collection[str] = ()) -> dict[str, str]:
    """Names all temporaries, and gives the new names by the old ones. Those that are `hidden`, which no text
    shows, get names that leave the others theirs."""
    naming = _Naming.of(module)
    taken = taken_names(module) - naming.own
    names: dict[str, str] = {}
    for name in naming.order:
        naming.given[name] = naming.stem(name)
        if name not in hidden:
            names[name] = fresh(naming.given[name], taken)
    for name in naming.order:
        if name in hidden:
            names[name] = fresh(naming.given[name], taken)
    rename(module, {old: new for old, new in names.items() if old != new})
    return names


@dataclass
class _Naming:
    own: set[str] = field(default_factory=set[str])
    """Names that may be changed."""
    order: list[str] = field(default_factory=list[str])
    makers: dict[str, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    """The statements that write a name, in program order."""
    carried: set[str] = field(default_factory=set[str])
    last_of: dict[str, Operation] = field(default_factory=dict[str, Operation])
    """The last statement of each module."""
    inner: Counter[str] = field(default_factory=Counter[str])
    """How many modules lie in a module."""
    constants: set[str] = field(default_factory=set[str])
    roles: dict[str, str] = field(default_factory=dict[str, str])
    """What attention takes a value for."""
    arguments: set[str] = field(default_factory=set[str])
    """What blocks that are called read, and write never."""
    results: set[str] = field(default_factory=set[str])
    """What they write, and `entry` reads."""
    given: dict[str, str] = field(default_factory=dict[str, str])
    """The new names without their numbers, as far as they are found."""

    @staticmethod
    def of(module: ModuleOp) -> _Naming:
        found = _Naming()
        fixed: set[str] = set()
        for op in module.walk():
            match op:
                case VariableOp():
                    if op.memory.data == "constant":
                        found.constants.add(op.variable.data)
                    fixed.add(op.variable.data)
                case AssignOp():
                    found.own.add(op.variable.data)
                case ReturnOp():
                    fixed |= set(op.names)
                case LoopOp():
                    found._carry(op)
                case BlockOp():
                    found._call(op, entry_of(module))
                case _:
                    pass
            if op.regions or isinstance(op, AssignOp | VariableOp):
                continue
            for name in sorted(written_names(op)):
                found.makers[name].append(op)
            if isinstance(op, OpOp) and op.op_name.data == "attention":
                for one, role in zip(op.inputs, _ROLES):
                    if isinstance(one, RefAttr):
                        found.roles.setdefault(one.variable.data, role)
            path = provenance_of(op).module
            found.last_of[path] = op
        for path in found.last_of:
            parts = path.split(".")
            found.inner.update(".".join(parts[:count]) for count in range(1, len(parts)))
        found.own -= fixed
        found.order = [name for name in found.makers if name in found.own]
        found.order += [name for name in sorted(found.own) if name not in found.makers]
        return found

    def _carry(self, loop: LoopOp) -> None:
        """What is written before a loop and in it, and read in it, goes round."""
        before = set(self.makers)
        inside = {name for op in loop.body.block.ops for name in written_names(op)}
        read: set[str] = set()
        for op in loop.body.block.ops:
            read |= read_names(op)
        self.carried |= inside & before & read

    def _call(self, block: BlockOp, entry: BlockOp | None) -> None:
        """What a block that is called takes and gives."""
        if entry is None or block is entry:
            return
        read: set[str] = set()
        written: set[str] = set()
        first_uses(block.body.block.ops, read, written)
        self.arguments |= (read - written) & written_names(entry)
        self.results |= written & read_names(entry)

    def stem(self, name: str) -> str:
        """What a name is called before a number makes it different from others."""
        if name in self.arguments:
            return ARGUMENT
        if name in self.results:
            return RESULT
        if name in self.carried:
            return CARRIED
        makers = self.makers.get(name, [])
        if makers and isinstance(makers[0], TransferOp) and (found := self._by_variable(makers[0])):
            return found
        for choose in (self._by_module, self._by_variable):
            for op in makers:
                if found := choose(op):
                    return found
        if name in self.roles:
            return self.roles[name]
        for op in makers:
            if isinstance(op, OpOp):
                return self._by_op(op)
        return safe(name)

    def _by_module(self, op: Operation) -> str:
        """The name of the leaf module that the value is the result of."""
        provenance = provenance_of(op)
        path = provenance.module
        if not path or self.inner[path] or self.last_of.get(path) is not op:
            return ""
        if isinstance(op, OpOp) and op.op_name.data in _ROWS and _first(op) in self.constants:
            return short(provenance.variable) or "x"
        if isinstance(op, OpOp):
            for ref in list(op.reads())[1:2]:
                weight = ref.variable.data
                if weight in self.constants and weight.endswith(_ENDINGS):
                    return weight.rpartition("_")[0]
        return _path_word(provenance)

    def _by_op(self, op: OpOp) -> str:
        """The name of what the op arranges anew, else that of the op."""
        first = op.inputs.data[0] if op.inputs.data else None
        if op.op_name.data in _ARRANGING and isinstance(first, RefAttr):
            source = first.variable.data
            return self.given.get(source, source if source not in self.own else op.op_name.data)
        return safe(op.op_name.data.removesuffix("_axis"))

    def _by_variable(self, op: Operation) -> str:
        return short(provenance_of(op).variable)


def _first(op: OpOp) -> str:
    first = op.inputs.data[0] if op.inputs.data else None
    return first.variable.data if isinstance(first, RefAttr) else ""


def _path_word(provenance: Provenance) -> str:
    words = [word for word in path_words(provenance.module) if not word.isdigit()]
    last = provenance.name
    if words and last.isdigit():
        return component(provenance.kind) if provenance.kind else words[-1]
    return joined(words[-1:]) if words else ""
