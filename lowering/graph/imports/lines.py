"""The statements of `entry` as a list, with what each reads and writes: what is compared to find layers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Operation

from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    CacheReadOp,
    CacheWriteOp,
    LiteralAttr,
    OpOp,
    RefAttr,
    TransferOp,
    VariableOp,
)
from openinfer.lowering.graph.imports.names_of import entry_of, read_names, written_names
from openinfer.lowering.graph.imports.provenance import provenance_of
from openinfer.runtime.sizes import Size

Reading = RefAttr | LiteralAttr
Type = tuple[str, tuple[Size, ...]]


@dataclass
class Line:
    """A statement of `entry`."""

    op: Operation
    head: Hashable
    """What it does; two lines with equal heads may be the same line of two layers."""
    readings: list[Reading]
    """Operands; behind them what a cache is written or read at."""
    writes: list[str]
    module: str
    """Path of the module that it comes from."""

    @property
    def repeatable(self) -> bool:
        """Whether a loop may hold it."""
        return isinstance(self.op, OpOp | CacheReadOp | CacheWriteOp)


@dataclass
class Lines:
    """All of them, with the declarations of the program."""

    entry: BlockOp
    lines: list[Line]
    constants: dict[str, VariableOp]
    """Those without indices."""
    variables: dict[str, VariableOp]
    types: dict[str, Type]
    """Of temporaries and inputs."""
    assigns: dict[str, AssignOp]
    defined: dict[str, int] = field(default_factory=dict[str, int])
    """The line that writes a temporary, for those that one line writes."""
    readers: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    escaping: set[str] = field(default_factory=set[str])
    """Names that other blocks, or statements with a body, use."""

    @staticmethod
    def of(module: ModuleOp, apart: Collection[Operation] = ()) -> Lines | None:
        """None where the program has no `entry`. What is `apart` is like no other line."""
        entry = entry_of(module)
        if entry is None:
            return None
        variables = {op.variable.data: op for op in module.body.ops if isinstance(op, VariableOp)}
        constants = {
            name: op
            for name, op in variables.items()
            if op.memory.data == "constant" and not op.indices.data
        }
        assigns: dict[str, AssignOp] = {}
        written: Counter[str] = Counter()
        escaping: set[str] = set()
        for block in module.body.ops:
            if isinstance(block, BlockOp):
                for op in block.walk():
                    if isinstance(op, AssignOp):
                        assigns.setdefault(op.variable.data, op)
                    elif not op.regions:
                        written.update(written_names(op))
                if block is not entry:
                    escaping |= read_names(block) | written_names(block)
        types: dict[str, Type] = {
            name: (op.dtype.data, op.sizes)
            for name, op in {**variables, **assigns}.items()
            if not isinstance(op, VariableOp) or op.memory.data == "dynamic"
        }
        several = {name for name, count in written.items() if count > 1} & assigns.keys()
        found = Lines(entry, [], constants, variables, types, assigns, escaping=escaping)
        found._read(several, apart)
        return found

    def _read(self, several: set[str], apart: Collection[Operation]) -> None:
        readers: dict[str, list[int]] = defaultdict(list)
        for op in self.entry.body.block.ops:
            if isinstance(op, AssignOp):
                continue
            place = len(self.lines)
            line = self._line(op, several, place)
            if op in apart:
                line.head = ("alone", place)
            self.lines.append(line)
            for name in line.writes:
                if name in self.assigns and name not in several:
                    self.defined[name] = place
            for name in read_names(op):
                readers[name].append(place)
            if op.regions:
                self.escaping |= read_names(op) | written_names(op)
        self.readers = dict(readers)

    def _line(self, op: Operation, several: set[str], place: int) -> Line:
        module = provenance_of(op).module
        match op:
            case OpOp():
                readings: list[Reading] = list(op.inputs)
                writes = [ref.variable.data for ref in op.outputs]
                head = (
                    *("op", op.op_name.data, op.hints),
                    tuple(sorted(op.settings.data.items())),
                )
            case CacheReadOp():
                readings = list[Reading]([op.source])
                writes = [op.target.variable.data]
                head = ("read",)
            case CacheWriteOp():
                readings, writes = list[Reading]([op.source, op.target]), []
                head = ("write",)
            case TransferOp():
                readings, writes, head = [], [op.target.variable.data], ("alone", place)
            case _:
                readings, writes, head = [], [], ("alone", place)
        names = {r.variable.data for r in readings if isinstance(r, RefAttr)}
        others = read_names(op) - names
        if (others | names | set(writes)) & several or others & self.assigns.keys():
            head = ("alone", place)
        types = tuple(self.types.get(name) for name in writes)
        kinds = tuple(self._kind(reading) for reading in readings)
        return Line(op, (*head, types, kinds), readings, writes, module)

    def _kind(self, reading: Reading) -> Hashable:
        """What an operand is, whichever one it is."""
        if isinstance(reading, LiteralAttr):
            return ("literal", type(reading.number).__name__)
        name, slots = reading.variable.data, len(reading.indices.data)
        if name in self.types:
            return ("value", self.types[name], slots)
        if name in self.constants:
            op = self.constants[name]
            options = {k: v for k, v in op.options.data.items() if k != "ref"}
            return ("constant", op.dtype.data, op.sizes, tuple(sorted(options.items())))
        return ("variable", name, slots)

    def weights_of(self, place: int) -> int:
        """How many constants a line reads."""
        return sum(
            isinstance(reading, RefAttr) and reading.variable.data in self.constants
            for reading in self.lines[place].readings
        )


def lines_saved(lines: Lines, start: int, period: int, count: int) -> int:
    """Lines of text, declarations included, that a loop over so many layers saves."""
    first = range(start, start + period)
    layer = period + sum(lines.weights_of(place) for place in first)
    return (count - 1) * layer - 3


def replaced(readings: Sequence[Reading], op: Operation) -> None:
    """Gives a statement other operands, in the order of `Line.readings`."""
    match op:
        case OpOp():
            op.properties["inputs"] = ArrayAttr(list(readings))
        case CacheReadOp():
            op.properties["source"] = readings[0]
        case CacheWriteOp():
            op.properties["source"], op.properties["target"] = readings
        case _:
            raise TypeError(op.name)
