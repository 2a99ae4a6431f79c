"""Whether two programs compute the same: both are run on symbols, loops iteration by iteration.

Every value becomes a number that stands for "this op, with these settings, of those values"; equal numbers
are equal computations, so results agree bit by bit whatever weights and inputs hold. What symbols cannot
follow, a loop whose bound only inputs know or a call on a condition, stands for itself: its text, with names
replaced by the values that they have there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Operation

from openinfer.dialects import opset
from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    BranchOp,
    CacheReadOp,
    CacheResetOp,
    CacheStepOp,
    CacheWriteOp,
    LoopOp,
    NameAttr,
    OpOp,
    PackageSizeOp,
    RefAttr,
    ReturnOp,
    ScopeOp,
    SizeAttr,
    SizeOp,
    TransferOp,
    VariableOp,
    YieldOp,
)
from openinfer.dialects.ops.base import REQUIRED
from openinfer.lowering.graph.imports.names_of import entry_of, mapped, rename_in
from openinfer.lowering.graph.settings import attribute_of
from openinfer.lowering.program.check_calls import without_calls
from openinfer.lowering.program.sources import member_name, package_name, pattern_of
from openinfer.runtime.sizes import Size, SizeLike

MOST_STEPS = 400_000
"""So many nodes are followed; programs with more are not compared."""


class TooLongError(Exception):
    """A program has more steps than are followed."""


@dataclass
class Numbers:
    """The numbers of values, shared by the programs that are compared."""

    known: dict[Hashable, int] = field(default_factory=dict[Hashable, int])

    def of(self, *key: Hashable) -> int:
        return self.known.setdefault(key, len(self.known))


def same_program(
    first: ModuleOp,
    second: ModuleOp,
    moved: Mapping[str, str] = MappingProxyType({}),
    literals: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """Whether both give the same results and leave the same state, whatever they are given.

    `moved` says which tensors of the first program have which names in the second one, by their new names,
    `literals` which tensors of the second one hold numbers that the first one has as operands. False also
    where a program is too long to tell. Names of temporaries and constants play no part.
    """
    numbers = Numbers()
    first, second = without_calls(first), without_calls(second)
    try:
        return _Run(first, numbers).meaning() == _Run(second, numbers, moved, literals).meaning()
    except TooLongError:
        return False


class _Run:
    """One program, run on symbols."""

    def __init__(
        self,
        module: ModuleOp,
        numbers: Numbers,
        moved: Mapping[str, str] = MappingProxyType({}),
        literals: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._numbers = numbers
        self._moved = moved
        self._literals = literals
        self._variables: dict[str, VariableOp] = {}
        self._dtypes: dict[str, str] = {}
        self._blocks: dict[str, BlockOp] = {}
        self._sizes: dict[str, SizeLike] = {}
        self._values: dict[str, int] = {}
        self._steps = 0
        self._module = module
        definitions: dict[str, Size] = {}
        for op in module.walk():
            match op:
                case VariableOp():
                    self._variables[op.variable.data] = op
                case AssignOp():
                    self._dtypes[op.variable.data] = op.dtype.data
                case BlockOp():
                    self._blocks[op.block_name.data] = op
                case SizeOp():
                    definitions[op.size.data] = op.value.data
                case PackageSizeOp():
                    self._sizes[op.size.data] = op.value.data
                case _:
                    pass
        for _ in definitions:
            self._sizes |= {
                name: size.substitute(self._sizes) for name, size in definitions.items()
            }

    def meaning(self) -> Hashable:
        """What the results are, in their order, and what each persistent variable is left with."""
        entry = entry_of(self._module)
        results: list[int] = []
        if entry is not None:
            for op in entry.body.block.ops:
                if isinstance(op, ReturnOp):
                    results = [self._value(name) for name in op.names]
                self._run(op)
        states = tuple(
            (name, self._value(name))
            for name, op in sorted(self._variables.items())
            if op.memory.data == "persistent"
        )
        return (tuple(results), states)

    # Values

    def _value(self, name: str) -> int:
        if name not in self._values:
            self._values[name] = self._first(name)
        return self._values[name]

    def _first(self, name: str) -> int:
        """What a variable holds before anything is written."""
        op = self._variables.get(name)
        if op is None:
            return self._numbers.of("zeros", name in self._dtypes)
        dims = tuple(str(self._size(dim)) for dim in op.sizes)
        if op.memory.data == "dynamic":
            return self._numbers.of("input", name, op.dtype.data, dims)
        filled = "ref" in op.options.data
        options = {k: v for k, v in op.options.data.items() if k not in ("ref", "pattern")}
        source = package_name(op) if filled or op.memory.data != "persistent" else name
        return self._numbers.of(
            *(op.memory.data, self._moved.get(source, source), op.dtype.data, dims),
            DictionaryAttr(options),
        )

    def _size(self, size: Size) -> Size:
        """The size with the numbers that sizes and indices have here; of a variable, its value."""
        size = size.substitute(self._sizes)
        scalars = size.names & (self._variables.keys() | self._dtypes.keys())
        if not scalars:
            return size
        return size.substitute({name: Size.name(f"value_{self._value(name)}") for name in scalars})

    def _attribute(self, value: Attribute) -> Attribute:
        """The same for an attribute."""

        def setting(name: str) -> str:
            if name in self._sizes:
                return str(Size.of(self._sizes[name]).substitute(self._sizes))
            if name in self._dtypes or name in self._variables:
                return f"value_{self._value(name)}"
            return name

        return _numbers(mapped(value, lambda name: name, self._size, setting))

    def _ref(self, ref: RefAttr) -> int | str:
        """The value of a use, of a family that of its member."""
        name = ref.variable.data
        op = self._variables.get(name)
        if not ref.indices.data or op is None:
            return self._value(name)
        pattern = pattern_of(op)
        if pattern is not None and op.memory.data == "constant":
            slots = [self._size(size).constant for size in ref.sizes]
            if None not in slots:
                indices = {i.data: int(slot or 0) for i, slot in zip(op.indices, slots)}
                dims = tuple(str(self._size(dim)) for dim in op.sizes)
                options = {k: v for k, v in op.options.data.items() if k != "pattern"}
                member = member_name(pattern, indices)
                member = self._moved.get(member, member)
                if member in self._literals:
                    return self._literals[member]
                key = ("constant", member, op.dtype.data, dims, DictionaryAttr(options))
                return self._numbers.of(*key)
        return self._numbers.of("member", self._value(name), self._attribute(ref.indices))

    # Statements

    def _run(self, op: Operation) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise TooLongError
        match op:
            case OpOp():
                self._run_op(op)
            case TransferOp():
                self._write(op.target, self._ref(op.source))
            case CacheReadOp():
                self._values[op.target.variable.data] = self._numbers.of(
                    "read", self._value(op.source.variable.data), self._attribute(op.source.indices)
                )
            case CacheWriteOp():
                state = op.target.variable.data
                self._values[state] = self._numbers.of(
                    *("write", self._value(state), self._attribute(op.target.indices)),
                    self._ref(op.source),
                )
            case CacheStepOp():
                state = op.variable.data
                amount = self._size(op.added)
                self._values[state] = self._numbers.of("step", self._value(state), str(amount))
            case CacheResetOp():
                state = op.target.variable.data
                self._values[state] = self._numbers.of(
                    "reset", self._value(state), self._attribute(op.target.indices)
                )
            case ScopeOp():
                for inner in op.body.block.ops:
                    self._run(inner)
            case LoopOp():
                self._run_loop(op)
            case BranchOp() if self._is_plain(op):
                for inner in self._blocks[op.then_block.data].body.block.ops:
                    self._run(inner)
            case BranchOp():
                self._opaque(op, [op, *self._called(op)])
            case _:
                return

    def _run_op(self, op: OpOp) -> None:
        operands = tuple(
            self._ref(operand) if isinstance(operand, RefAttr) else operand.text
            for operand in op.inputs
        )
        settings = tuple((key, self._attribute(value)) for key, value in sorted_settings(op))
        hints = op.hints
        for place, output in enumerate(op.outputs):
            name = output.variable.data
            dtype = self._dtypes.get(name, "")
            key = ("op", op.op_name.data, operands, settings, hints, len(op.outputs), place, dtype)
            self._write(output, self._numbers.of(*key))

    def _write(self, target: RefAttr, value: int | str) -> None:
        name = target.variable.data
        if target.indices.data:
            slots = self._attribute(target.indices)
            value = self._numbers.of("put", self._value(name), slots, value)
        self._values[name] = value if isinstance(value, int) else self._numbers.of(value)

    def _run_loop(self, op: LoopOp) -> None:
        start = self._size(op.start.data).constant
        stop = self._size(op.stop.data).constant
        if start is None or stop is None:
            self._opaque(op, [op])
            return
        index = op.index.data
        outer = self._sizes.get(index)
        for number in range(start, stop):
            self._sizes[index] = number
            for inner in op.body.block.ops:
                self._run(inner)
        self._sizes.pop(index, None)
        if outer is not None:
            self._sizes[index] = outer

    def _is_plain(self, op: BranchOp) -> bool:
        """Whether a call always runs a block to its end."""
        block = self._blocks.get(op.then_block.data)
        if op.condition is not None or block is None:
            return False
        last = block.body.block.last_op
        return all(
            inner is last if isinstance(inner, ReturnOp) else not isinstance(inner, YieldOp)
            for inner in block.walk()
        )

    # What stands for itself

    def _called(self, op: BranchOp) -> Iterable[Operation]:
        names = [op.then_block.data, *([op.else_block.data] if op.else_block else [])]
        found = dict.fromkeys(names)
        for name in list(found):
            for inner in self._blocks[name].walk():
                if isinstance(inner, BranchOp):
                    found.update(dict.fromkeys(b.block_name.data for b in self._blocks.values()))
        return [self._blocks[name] for name in found if name in self._blocks]

    def _opaque(self, op: Operation, parts: Sequence[Operation]) -> None:
        """What it writes is its text and what its names hold now."""
        order: dict[str, int] = {}
        text: list[Hashable] = [op.name]
        known = self._variables.keys() | self._dtypes.keys()

        def place(name: str) -> str:
            if name not in known:
                return name
            if name not in order:
                order[name] = len(order)
            return f"name_{order[name]}"

        for part in parts:
            for inner in part.walk():
                if isinstance(inner, AssignOp):
                    continue
                copied = (
                    inner.clone(clone_name_hints=False, clone_operands=False)
                    if not (inner.regions)
                    else None
                )
                if copied is None:
                    text.append((inner.name, *_heads(inner, place, self._size)))
                    continue
                _placed(copied, place, self._size)
                text.append((copied.name, tuple(sorted(copied.properties.items()))))
        held = tuple(self._value(name) for name in order)
        body = self._numbers.of("opaque", tuple(text), held)
        for name, number in order.items():
            written = any(_writes(part, name) for part in parts)
            if written:
                self._values[name] = self._numbers.of("of opaque", body, number)


def _numbers(value: Attribute) -> Attribute:
    """Sizes and names that stand for numbers as these numbers."""
    match value:
        case SizeAttr() if value.data.constant is not None:
            return IntegerAttr(value.data.constant, i64)
        case SizeAttr() if value.data.single_name is not None:
            return NameAttr(value.data.single_name)  # A bare name in a setting is either.
        case NameAttr() if value.data.isdigit():
            return IntegerAttr(int(value.data), i64)
        case ArrayAttr():
            return ArrayAttr([_numbers(item) for item in value])
        case _:
            return value


def sorted_settings(op: OpOp) -> list[tuple[str, Attribute]]:
    """The settings of an op by name, without those that go without saying: their order means nothing."""
    usual = _defaults(op.op_name.data)
    return sorted((k, value) for k, value in op.settings.data.items() if usual.get(k) != value)


@cache
def _defaults(name: str) -> Mapping[str, Attribute]:
    """The settings that an op has where nobody gives them."""
    spec = opset.find(name)
    settings = spec.settings if spec is not None else ()
    return {
        setting.name: attribute_of(setting.default)
        for setting in settings
        if setting.default not in (None, REQUIRED)
    }


def _placed(op: Operation, place: Callable[[str], str], size: Callable[[Size], Size]) -> None:
    def sized(value: Size) -> Size:
        value = size(value)
        return value.substitute({name: Size.name(place(name)) for name in value.names})

    rename_in(op, place, sized)


def _heads(
    op: Operation, place: Callable[[str], str], size: Callable[[Size], Size]
) -> Iterable[Hashable]:
    """What a loop, scope or block says itself."""
    for key, value in sorted(op.properties.items()):
        if not (isinstance(value, StringAttr) and key in ("block_name", "loop_name", "label")):
            yield key, mapped(value, place, size, place)


def _writes(op: Operation, name: str) -> bool:
    for inner in op.walk():
        writes = getattr(inner, "writes", None)
        if writes is not None and any(ref.variable.data == name for ref in writes()):
            return True
    return False
