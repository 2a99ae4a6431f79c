"""Stretches of statements that do the same up to what a block with parameters may be given.

A statement has a key, which is the op with the kinds of its parts, and slots, which hold what may differ from
place to place: values, numbers, names of tensors, settings. Two stretches whose keys are equal may be two
calls of one block; `alike` says which of them are wired alike inside and give the same of their results.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    CallOp,
    LiteralAttr,
    LoopOp,
    NameAttr,
    OpOp,
    RefAttr,
    SizeAttr,
    SliceAttr,
    TransferOp,
    VariableOp,
)
from openinfer.dialects.ops.base import REQUIRED
from openinfer.lowering.graph.imports.names_of import entry_of, read_names, written_names
from openinfer.lowering.graph.imports.provenance import (
    Provenance,
    common_path,
    provenance_of,
)
from openinfer.lowering.graph.imports.uses import registered
from openinfer.lowering.graph.settings import attribute_of
from openinfer.lowering.program.call_names import arguments_of
from openinfer.lowering.program.sources import PLACEHOLDER, package_name, pattern_of
from openinfer.runtime.sizes import Size, SizeLike

LONGEST = 32
"""Statements of a block; longer stretches are found as calls of shorter ones."""
MOST_RESULTS = 2
_FIRST = ("conv", "linear", "matmul", "embedding")
"""How names of ops begin that a reader expects at the beginning of a block."""

_CONTAINERS = ("Sequential", "ModuleList", "ModuleDict", "Module")
"""Classes that say nothing of what is in them."""
_LONGEST_CLASS = 18
"""Letters of a class that a block is called after."""


@dataclass(frozen=True)
class Type:
    """What a value is: in a block that several places call, what it is in each of them."""

    dtype: str
    rank: int
    dims: Hashable


@dataclass(frozen=True)
class Slot:
    """A part of a statement that may differ from place to place."""

    kind: str
    """`value`, `number`, `tensor` (its name in the package), `text` (an argument of a call), `setting`."""
    value: Hashable
    type: Hashable = None
    """What is equal in all places."""
    name: str = ""
    """Of a setting its name, of a tensor that of its declaration."""


@dataclass
class Statement:
    """A statement of `entry`, of a loop there, or of a block with parameters."""

    op: Operation
    body: Operation
    key: Hashable
    slots: list[Slot]
    results: list[str]
    provenance: Provenance

    @property
    def lines(self) -> int:
        """Of a text: itself, and the declarations of its tensors."""
        return 1 + sum(slot.kind == "tensor" for slot in self.slots)


@dataclass(frozen=True)
class Alike:
    """Stretches, by their first statements, that one block may stand for."""

    length: int
    starts: tuple[int, ...]
    wiring: tuple[tuple[int, int] | None, ...]
    """For each value that statements read, in order: the statement and result that it is, if it is one."""
    results: tuple[tuple[int, int], ...]
    """What is needed behind the stretch."""


@dataclass
class Statements:
    """All statements that a block may hold, and others between them."""

    module: ModuleOp
    types: dict[str, Type]
    statements: list[Statement] = field(default_factory=list[Statement])
    used: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The statements that read or write a name; -1 for another block."""
    variables: dict[str, VariableOp] = field(default_factory=dict[str, VariableOp])
    blocks: dict[str, BlockOp] = field(default_factory=dict[str, BlockOp])
    keys: list[int] = field(default_factory=list[int])
    _several: set[str] = field(default_factory=set[str])
    _indices: set[str] = field(default_factory=set[str])
    _mixed: set[str] = field(default_factory=set[str])

    @staticmethod
    def of(module: ModuleOp, types: Mapping[str, Type]) -> Statements:
        """Those of a program. `types` are those of temporaries of blocks with parameters."""
        found = Statements(module, dict(types))
        found._declare()
        entry = entry_of(module)
        for block in module.body.ops:
            if not isinstance(block, BlockOp):
                continue
            if block is entry or block.parameters is not None:
                found._read(block)
            else:
                for name in read_names(block) | written_names(block):
                    found.used[name].add(-1)
        known: dict[Hashable, int] = {}
        found.keys = [known.setdefault(one.key, len(known)) for one in found.statements]
        return found

    def _declare(self) -> None:
        written: Counter[str] = Counter()
        for op in self.module.walk():
            match op:
                case VariableOp():
                    self.variables[op.variable.data] = op
                case AssignOp():
                    self._typed(op)
                case LoopOp():
                    self._indices.add(op.index.data)
                case BlockOp():
                    self.blocks[op.block_name.data] = op
                case _:
                    pass
            if not op.regions and not isinstance(op, AssignOp):
                written.update(written_names(op))
        for op in self.variables.values():
            if op.memory.data in ("dynamic", "constant") and not op.indices.data:
                self._typed(op)
        self._several = {name for name, count in written.items() if count > 1}
        self._mixed = _mixed_families(self.module, self.variables)

    def _typed(self, op: VariableOp | AssignOp) -> None:
        self.types[op.variable.data] = Type(op.dtype.data, len(op.sizes), op.sizes)

    # Statements

    def _read(self, body: BlockOp | LoopOp) -> None:
        inner: list[LoopOp] = []
        for op in body.body.block.ops:
            if isinstance(op, AssignOp | VariableOp):
                continue
            place = len(self.statements)
            one = self._statement(op, body)
            self.statements.append(one or Statement(op, body, place, [], [], provenance_of(op)))
            if isinstance(op, LoopOp):
                inner.append(op)
                names = {*op.start.data.names, *op.stop.data.names}
            else:
                names = read_names(op) | written_names(op)
            for name in names:
                self.used[name].add(place)
        for op in inner:
            self._read(op)

    def _statement(self, op: Operation, body: Operation) -> Statement | None:
        """A statement with its slots; None for one that no block may hold."""
        slots: list[Slot] = []
        head: Hashable
        match op:
            case OpOp():
                head = (op.op_name.data, op.hints)
                slots += [self._operand(value) for value in op.inputs]
                slots += [self._setting(key, value) for key, value in _settings(op).items()]
            case CallOp():
                block = self.blocks[op.block_name.data]
                head = ("call", op.block_name.data)
                arguments = arguments_of(op, block)
                for number, name in enumerate(block.parameter_names):
                    value = arguments[name]
                    if number < len(op.inputs):
                        slots.append(self._operand(value))
                    else:
                        slots.append(self._setting(name, value))
            case _:
                return None
        results = [ref.variable.data for ref in op.outputs]
        if any(slot.kind == "" for slot in slots) or any(ref.bracketed.data for ref in op.outputs):
            return None
        if any(name in self._several or name not in self.types for name in results):
            return None
        kinds = tuple(
            (slot.kind, slot.type, slot.kind == "setting" and slot.name) for slot in slots
        )
        types = tuple((self.types[name].dtype, self.types[name].rank) for name in results)
        return Statement(op, body, (head, kinds, types), slots, results, provenance_of(op))

    def _operand(self, value: Attribute) -> Slot:
        match value:
            case LiteralAttr():
                return Slot("number", value, type(value.number).__name__)
            case StringAttr():
                return Slot("text", value.data)
            case RefAttr():
                name = value.variable.data
                variable = self.variables.get(name)
                if variable is not None and variable.memory.data == "constant":
                    text = self._tensor(variable, value)
                    if text is not None:
                        options = dict(variable.options.data)
                        for key in ("ref", "pattern"):
                            options.pop(key, None)
                        kind = (variable.dtype.data, len(variable.sizes), DictionaryAttr(options))
                        return Slot("tensor", text, kind, name)
                if value.bracketed.data or name not in self.types:
                    return Slot("", None)
                found = self.types[name]
                return Slot("value", name, (found.dtype, found.rank))
            case _:
                return Slot("", None)

    def _tensor(self, op: VariableOp, ref: RefAttr) -> str | None:
        """The name of a tensor of the package, of a member of a family with its index; None for another
        constant."""
        if not op.indices.data:
            return package_name(op) if "ref" in op.options.data and not ref.bracketed.data else None
        pattern = pattern_of(op)
        if pattern is None or ref.variable.data in self._mixed or not _are_sizes(ref):
            return None
        slots = {index.data: size for index, size in zip(op.indices, ref.sizes)}
        return _member_text(pattern, slots)

    def _setting(self, name: str, value: Attribute) -> Slot:
        """A setting; one that names something of the place where it stands cannot go into a block."""
        own = self._indices | self._several | self.types.keys()
        if any(one in own for one in names_in(value)):
            return Slot("", None)
        return Slot("setting", value, None, name)

    # Stretches

    def candidates(self) -> Iterator[tuple[int, list[int]]]:
        """(length, starts) of equal keys, those that may save most lines first."""
        lines = [one.lines for one in self.statements]
        classes: list[int] = list(self.keys)
        found: list[tuple[int, int, int, list[int]]] = []
        for length in range(2, LONGEST + 1):
            known: dict[tuple[int, int], int] = {}
            groups: dict[int, list[int]] = defaultdict(list)
            last = len(self.keys) - length + 1
            longer: list[int] = []
            for start in range(max(last, 0)):
                end = start + length - 1
                one = known.setdefault((classes[start], self.keys[end]), len(known))
                longer.append(one)
                if self.statements[start].body is self.statements[end].body:
                    groups[one].append(start)
            several = False
            for starts in groups.values():
                if len(starts) < 2:
                    continue
                several = True
                each = sum(lines[starts[0] : starts[0] + length])
                likely = len(_apart(starts, length))
                saved = (likely - 1) * each - likely
                first = self.statements[starts[0]].op
                begins = isinstance(first, OpOp) and first.op_name.data.startswith(_FIRST)
                found.append((-saved, 0 if begins else 1, length, starts))
            if not several:
                break
            classes = longer
        for _, _, length, starts in sorted(found, key=lambda one: (*one[:3], one[3][0])):
            yield length, starts

    def alike(self, length: int, starts: Sequence[int]) -> list[Alike]:
        """Those of equal keys that are also wired alike and cut no module into parts, in groups."""
        groups: dict[Hashable, list[int]] = defaultdict(list)
        for start in starts:
            wired = self._wired(start, length)
            if wired is not None:
                groups[wired].append(start)
        found: list[Alike] = []
        for (wiring, results), members in groups.items():  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
            apart = _apart(members, length)
            if len(apart) > 1:
                found.append(Alike(length, tuple(apart), wiring, results))  # pyright: ignore[reportUnknownArgumentType]
        return found

    def _wired(
        self, start: int, length: int
    ) -> tuple[tuple[tuple[int, int] | None, ...], tuple[tuple[int, int], ...]] | None:
        if self._cuts(start, length):
            return None
        made: dict[str, tuple[int, int]] = {}
        wiring: list[tuple[int, int] | None] = []
        for number, one in enumerate(self.statements[start : start + length]):
            wiring += [made.get(str(s.value)) for s in one.slots if s.kind == "value"]
            made |= {name: (number, place) for place, name in enumerate(one.results)}
        inside = range(start, start + length)
        needed = tuple(
            place
            for name, place in made.items()
            if any(user not in inside for user in self.used[name])
        )
        return (tuple(wiring), needed) if 0 < len(needed) <= MOST_RESULTS else None

    def path(self, start: int, length: int) -> str:
        """The module that a stretch lies in."""
        paths = [one.provenance.module for one in self.statements[start : start + length]]
        return common_path(paths)

    def _cuts(self, start: int, length: int) -> bool:
        """Whether a stretch begins or ends inside one of the modules that it consists of."""
        path = self.path(start, length)
        for edge, neighbour in ((start, start - 1), (start + length - 1, start + length)):
            child = _child(self.statements[edge].provenance.module, path)
            other = self._beside(edge, neighbour)
            if child and other is not None and _child(other.provenance.module, path) == child:
                if other.provenance.module.startswith(f"{path}." if path else ""):
                    return True
        return False

    def _beside(self, edge: int, place: int) -> Statement | None:
        """What stands before or behind a statement; copies for the next turn of a loop are nothing."""
        step = 1 if place > edge else -1
        while 0 <= place < len(self.statements):
            if not isinstance(self.statements[place].op, TransferOp):
                break
            place += step
        if not 0 <= place < len(self.statements):
            return None
        found = self.statements[place]
        return found if found.body is self.statements[edge].body else None

    def module_of(self, start: int, length: int) -> str:
        """The module that a stretch is all of, the innermost one that has a class of its own; nothing where
        it is only a part of one."""
        path = self.path(start, length)
        found = ""
        while path and self._is_whole(path, start, length):
            found = found or path
            if self.class_at(path, start, length):
                return path
            path = path.rpartition(".")[0]
        return found

    def class_at(self, path: str, start: int, length: int) -> str:
        """The class of the module around a stretch, if it says what is in it."""
        stretch = self.statements[start : start + length]
        kind = next(filter(None, (one.provenance.class_of(path) for one in stretch)), "")
        return "" if kind in _CONTAINERS or len(kind) > _LONGEST_CLASS else kind

    def _is_whole(self, path: str, start: int, length: int) -> bool:
        """Whether nothing of a module stands before or behind a stretch; what has no module may be of it."""
        for place, step in ((start - 1, -1), (start + length, 1)):
            found = self._beside(place - step, place)
            while found is not None and not found.provenance.module:
                place += step
                found = self._beside(place - step, place)
            if found is not None and f"{found.provenance.module}.".startswith(f"{path}."):
                return False
        return True


def _settings(op: OpOp) -> dict[str, Attribute]:
    """The settings that are written and those that go without saying, in the order of the op's row."""
    found: dict[str, Attribute] = {}
    for setting in spec.settings if (spec := registered(op)) is not None else ():
        if setting.name in op.settings.data:
            found[setting.name] = op.settings.data[setting.name]
        elif setting.default not in (None, REQUIRED):
            found[setting.name] = attribute_of(setting.default)
    return {**found, **dict(sorted(op.settings.data.items()))}


def names_in(value: Attribute) -> Iterator[str]:
    """The names that a setting says: of sizes, variables and parameters."""
    match value:
        case NameAttr():
            yield value.data
        case SizeAttr():
            yield from value.data.names
        case SliceAttr():
            yield from names_in(value.start)
            yield from names_in(value.stop)
        case ArrayAttr():
            for item in value:
                yield from names_in(item)
        case _:
            return


def _child(path: str, outer: str) -> str:
    """The part of the module `outer` that a path leads into."""
    rest = path.removeprefix(outer).removeprefix(".") if path != outer else ""
    return rest.partition(".")[0]


def _apart(starts: Sequence[int], length: int) -> list[int]:
    """Those that do not overlap, from the first on."""
    found: list[int] = []
    for start in starts:
        if not found or start >= found[-1] + length:
            found.append(start)
    return found


def _are_sizes(ref: RefAttr) -> bool:
    return all(isinstance(slot, SizeAttr) for slot in ref.indices)


def _member_text(pattern: str, slots: Mapping[str, SizeLike]) -> str | None:
    """The pattern with indices put in, which must be patterns again: `layer1.{l + 1}.w`."""
    parts: list[str] = []
    position = 0
    for match in PLACEHOLDER.finditer(pattern):
        size = Size.of(slots[match.group(1)]) + int(match.group(2) or 0)
        text = str(size) if size.constant is not None else f"{{{size}}}"
        if size.constant is None and not PLACEHOLDER.fullmatch(text):
            return None
        parts += [pattern[position : match.start()], text]
        position = match.end()
    return "".join([*parts, pattern[position:]])


def _mixed_families(module: ModuleOp, variables: Mapping[str, VariableOp]) -> set[str]:
    """Families whose members others use alone, too: a pattern would hold these twice."""
    alone: dict[str, set[int]] = defaultdict(set)
    patterns: dict[str, set[str]] = defaultdict(set)
    for op in module.walk():
        for ref in op.inputs if isinstance(op, OpOp) else ():
            if not isinstance(ref, RefAttr) or not ref.indices.data or not _are_sizes(ref):
                continue
            variable = variables.get(ref.variable.data)
            if variable is None or variable.memory.data != "constant":
                continue
            name = ref.variable.data
            if len(ref.sizes) != 1:
                alone[name].add(0)
                patterns[name].add("")
            elif ref.sizes[0].constant is not None:
                alone[name].add(ref.sizes[0].constant)
            else:
                patterns[name].add(str(ref.sizes[0]))
    found: set[str] = set()
    for name, texts in patterns.items():
        begins = [_begin(text) for text in texts]
        if len(texts) > 1 or any(one >= min(begins) for one in alone[name]):
            found.add(name)
    return found


def _begin(text: str) -> int:
    """The least index of `l + 1`."""
    match = PLACEHOLDER.fullmatch(f"{{{text}}}")
    return int(match.group(2) or 0) if match else 0
