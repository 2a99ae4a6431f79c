"""Temporaries get the names that modules and source lines give them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    CacheReadOp,
    CacheWriteOp,
    CallOp,
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
from openinfer.lowering.graph.imports.provenance import (
    Provenance,
    common_path,
    provenance_of,
)
from openinfer.lowering.graph.imports.words import component, joined, path_words, safe, short

_ENDINGS = ("_w", "_b", "_mean", "_var")
_ROLES = ("q", "k", "v", "visible")
_ROWS = ("embedding", "gather")
_ARRANGING = ("reshape", "permute", "transpose", "cast", "slice", "expand", "unsqueeze", "squeeze")
_WHOLE = ("features", "model", "layers", "layer", "blocks", "block", "net", "module", "encoder")
"""What modules are called that hold all others: no name for one of many results."""
CARRIED = "h"
ARGUMENT, RESULT = "x", "y"
"""Of a block that is called."""
NOTHING: Mapping[str, Collection[str]] = MappingProxyType({})


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


def give_names(module: ModuleOp, hidden: Mapping[str, Collection[str]] = NOTHING) -> dict[str, str]:
    """Names all temporaries, and gives the new names by the old ones, those of blocks with parameters apart.

    Those that are `hidden`, by the block with parameters that they are of, "" for the others, are in no text:
    they get names that leave the others theirs.
    """
    found: dict[str, str] = {}
    for scope, blocks in scopes(module).items():
        naming = _Naming.of(module, blocks)
        taken = taken_names(module, temporaries=not scope) - naming.own
        names: dict[str, str] = {}
        if scope:
            _name_parameters(module, blocks[0], names, taken)
            naming.turning = next((one for one in (CARRIED, RESULT) if one not in taken), CARRIED)
        unseen = hidden.get(scope, ())
        for name in naming.order:
            naming.given[name] = naming.stem(name)
            if name not in unseen:
                names[name] = fresh(naming.given[name], taken)
        for name in naming.order:
            if name in unseen:
                names[name] = fresh(naming.given[name], taken)
        rename(module, {old: new for old, new in names.items() if old != new}, blocks)
        if not scope:
            found = names
    return found


def scopes(module: ModuleOp) -> dict[str, list[BlockOp]]:
    """The blocks that share temporaries: all without parameters, as "", each with parameters by itself."""
    found: dict[str, list[BlockOp]] = {"": []}
    for op in module.body.ops:
        if isinstance(op, BlockOp):
            scope = "" if op.parameters is None else op.block_name.data
            found.setdefault(scope, []).append(op)
    return found


def _name_parameters(
    module: ModuleOp, block: BlockOp, names: dict[str, str], taken: set[str]
) -> None:
    """The values that a block takes are `x`, or `h` where the program has an `x`; then `y` and `z`."""
    calls = (op for op in module.walk() if isinstance(op, CallOp))
    given = next((op.inputs for op in calls if op.block_name == block.block_name), ())
    values = [n for n, value in zip(block.parameter_names, given) if isinstance(value, RefAttr)]
    taken |= {*block.parameter_names} - {*values}
    taken |= {op.variable.data for op in block.body.block.ops if isinstance(op, VariableOp)}
    for name, stem in zip(values, "xyz"):
        free = next((one for one in (stem, CARRIED) if one not in taken), stem)
        names[name] = fresh(free, taken)


@dataclass
class _Naming:
    own: set[str] = field(default_factory=set[str])
    """Names that may be changed."""
    order: list[str] = field(default_factory=list[str])
    makers: dict[str, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    """The statements that write a name, in program order."""
    carried: set[str] = field(default_factory=set[str])
    outer: str = ""
    """The module that a block with parameters is, as its first call has it."""
    turning: str = CARRIED
    """What that is called."""
    last_of: dict[str, Operation] = field(default_factory=dict[str, Operation])
    """The last statement of each module."""
    inner: Counter[str] = field(default_factory=Counter[str])
    """How many modules lie in a module."""
    constants: set[str] = field(default_factory=set[str])
    inputs: set[str] = field(default_factory=set[str])
    roles: dict[str, str] = field(default_factory=dict[str, str])
    """What attention takes a value for."""
    arguments: set[str] = field(default_factory=set[str])
    """What blocks that are called read, and write never."""
    results: set[str] = field(default_factory=set[str])
    """What they write, and `entry` reads."""
    given: dict[str, str] = field(default_factory=dict[str, str])
    """The new names without their numbers, as far as they are found."""

    @staticmethod
    def of(module: ModuleOp, blocks: Sequence[BlockOp]) -> _Naming:
        """Of the temporaries of some blocks."""
        found = _Naming()
        fixed: set[str] = set()
        ops = [op for op in module.body.ops if isinstance(op, VariableOp)]
        own = bool(blocks) and blocks[0].parameters is not None
        for op in (*ops, *(one for block in blocks for one in block.walk())):
            match op:
                case VariableOp():
                    if op.memory.data == "constant":
                        found.constants.add(op.variable.data)
                    elif op.memory.data == "dynamic":
                        found.inputs.add(op.variable.data)
                    fixed.add(op.variable.data)
                case AssignOp():
                    found.own.add(op.variable.data)
                case ReturnOp():
                    if not own:
                        fixed |= set(op.names)
                case LoopOp():
                    found._carry(op)
                case BlockOp() if not own:
                    found._call(op, entry_of(module))
                case _:
                    pass
            if op.regions or isinstance(op, AssignOp | VariableOp):
                continue
            for name in sorted(written_names(op)):
                if own and name in found.makers:
                    found.carried.add(name)
                found.makers[name].append(op)
            if isinstance(op, OpOp) and op.op_name.data == "attention":
                for one, role in zip(op.inputs, _ROLES):
                    if isinstance(one, RefAttr):
                        found.roles.setdefault(one.variable.data, role)
            path = provenance_of(op).module
            found.last_of[path] = op
        found._role_of_parts([op for block in blocks for op in block.walk()])
        for path in found.last_of:
            parts = path.split(".")
            found.inner.update(".".join(parts[:count]) for count in range(1, len(parts)))
        if own:
            paths = [path for path in found.last_of if path]
            found.outer = common_path(paths)
            fixed |= {*blocks[0].parameter_names}
            found.own |= found.makers.keys()
        found.own -= fixed
        found.order = [name for name in found.makers if name in found.own]
        found.order += [name for name in sorted(found.own) if name not in found.makers]
        return found

    def _role_of_parts(self, ops: Sequence[Operation]) -> None:
        """Parts of a split, which have no names of their own, are what attention takes them for: through a
        reshape, and through the table that is filled with them."""
        tables = {
            op.source.variable.data: self.roles[op.target.variable.data]
            for op in ops
            if isinstance(op, CacheReadOp) and op.target.variable.data in self.roles
        }
        found = dict(self.roles)
        for op in ops:
            if isinstance(op, CacheWriteOp) and op.target.variable.data in tables:
                found[op.source.variable.data] = tables[op.target.variable.data]
        for name, role in found.items():
            for op in self.makers.get(name, []):
                source = _first(op) if isinstance(op, OpOp) and op.op_name.data == "reshape" else ""
                makers = self.makers.get(source, [])
                if any(isinstance(one, OpOp) and len(one.outputs) > 1 for one in makers):
                    self.roles.setdefault(source, role)
                    self.roles.pop(name, None)

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
            return self.turning
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
            if isinstance(op, CallOp):
                return safe(op.block_name.data)
        return safe(name)

    def _by_module(self, op: Operation) -> str:
        """The name of the leaf module that the value is the result of."""
        provenance = provenance_of(op)
        path = provenance.module
        if isinstance(op, CallOp):
            return _part_of_model(path, self.outer)
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
        """What the source calls the value; no name for it where an input has that name."""
        found = provenance_of(op).variable
        return "" if found in self.inputs else short(found)


def _part_of_model(path: str, outer: str) -> str:
    """What the result of a call in the module `outer` is called: `layer2` of `layer2.1`, of parts of what
    only has a number `h`."""
    inside = path == outer or path.startswith(f"{outer}.")
    parts = (path[len(outer) :] if outer and inside else path).strip(".").split(".")
    while parts and (parts[-1].isdigit() or "{" in parts[-1]):
        parts.pop()
    if not parts or not parts[-1] or parts[-1] in _WHOLE or any(p.isdigit() for p in parts):
        return CARRIED
    return component(parts[-1])


def _first(op: OpOp) -> str:
    first = op.inputs.data[0] if op.inputs.data else None
    return first.variable.data if isinstance(first, RefAttr) else ""


def _path_word(provenance: Provenance) -> str:
    words = [word for word in path_words(provenance.module) if not word.isdigit()]
    last = provenance.name
    if words and last.isdigit():
        return component(provenance.kind) if provenance.kind else words[-1]
    return joined(words[-1:]) if words else ""
