"""What is known while one function is converted: values, blocks, constants, the insertion point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    LocationAttr,
    UnknownLoc,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from openinfer.lowering.attributes import i64_attribute
from openinfer.lowering.cpu.to_llvm.multiples import Multiples
from openinfer.lowering.quick_ops import append_new
from openinfer.runtime.errors import CompileError
from openinfer.runtime.quick_dataclass import dataclass

Int = int | SSAValue
"""An i64: a Python int when it is known at compile time."""


@dataclass(slots=True)
class Buffer:
    """A memref value: element `i` lies `offset + sum(i * strides)` elements after `pointer`."""

    pointer: SSAValue
    offset: Int
    sizes: list[Int]
    strides: list[Int]
    element: Attribute


class State:
    """Value maps, blocks and constants of one function; `Converter` adds what rules build."""

    def __init__(self) -> None:
        self.entry = Block()
        self.region = Region([self.entry])
        self.block = self.entry
        self.location: LocationAttr = UnknownLoc()
        self.needed: dict[str, llvm.LLVMFunctionType] = {}
        """Outside functions (of libm) that the converted body calls."""
        self._values: dict[SSAValue, SSAValue] = {}
        self._buffers: dict[SSAValue, Buffer] = {}
        self._blocks: dict[Block, Block] = {}
        self._known: dict[SSAValue, int] = {}
        self._constants: dict[tuple[Attribute, Attribute], SSAValue] = {}
        self._same: dict[tuple[int, int], SSAValue] = {}
        """The same by identities, which cost less than hashes."""
        self._kept: list[tuple[Attribute, Attribute]] = []
        """What has these identities."""
        self._integers: dict[int, SSAValue] = {}
        self._prologue: list[Operation] = []
        self._shared: dict[tuple[object, ...], SSAValue] = {}
        self.multiples = Multiples(self._known)

    # Values -------------------------------------------------------------------------------------

    def value(self, old: SSAValue) -> SSAValue:
        """The converted scalar or vector."""
        try:
            return self._values[old]
        except KeyError:
            raise self.undefined(old) from None

    def values(self, old: Sequence[SSAValue]) -> list[SSAValue]:
        known = self._values
        try:
            return [known[value] for value in old]
        except KeyError:
            return [self.value(value) for value in old]

    def integer(self, old: SSAValue) -> Int:
        """The converted integer, as an int when it is known."""
        value = self.value(old)
        return self._known.get(value, value)

    def buffer(self, old: SSAValue) -> Buffer:
        """The description of a memref value."""
        try:
            return self._buffers[old]
        except KeyError:
            raise self.undefined(old) from None

    def undefined(self, old: SSAValue) -> CompileError:
        name = old.name_hint or "unnamed"
        return CompileError(
            "OI0980",
            f"value %{name} of type {old.type} is used before its definition was converted",
            hint="definitions must stand before their uses; a loop must not carry a memref",
        )

    def set(self, old: SSAValue, new: SSAValue) -> None:
        """Record that `new` stands for `old`."""
        self._values[old] = new
        hint = old._name  # pyright: ignore[reportPrivateUsage]
        if hint is not None and new._name is None:  # pyright: ignore[reportPrivateUsage]
            new._name = hint  # pyright: ignore[reportPrivateUsage]

    def set_integer(self, old: SSAValue, new: Int) -> None:
        self.set(old, self.as_value(new))

    def set_buffer(self, old: SSAValue, buffer: Buffer) -> None:
        self._buffers[old] = buffer
        hint = old.name_hint
        if hint is not None and buffer.pointer.name_hint is None:
            buffer.pointer.name_hint = hint

    # Blocks -------------------------------------------------------------------------------------

    def new_block(self, argument_types: Sequence[Attribute] = ()) -> Block:
        """A block after those made so far; does not move the insertion point."""
        block = Block(arg_types=argument_types)
        return block

    def enter(self, block: Block) -> None:
        """Append `block` to the function and insert there from now on."""
        self.region.add_block(block)
        self.block = block

    def target(self, old: Block) -> Block:
        """The converted block of a `cf` successor."""
        return self._blocks[old]

    def set_target(self, old: Block, new: Block) -> None:
        self._blocks[old] = new

    def scoped(self) -> dict[tuple[object, ...], SSAValue]:
        """Start a scope of shared computations; give the result to `restore` at its end."""
        saved = self._shared
        self._shared = dict(saved)
        return saved

    def restore(self, saved: dict[tuple[object, ...], SSAValue]) -> None:
        self._shared = saved

    def forget(self) -> None:
        """Share nothing from here on: the next block may be reached from elsewhere."""
        self._shared = {}

    # Building -----------------------------------------------------------------------------------

    def emit(
        self,
        op: type[Operation],
        operands: Sequence[SSAValue],
        result: Attribute | None = None,
        properties: Mapping[str, Attribute] = {},
    ) -> SSAValue:
        """Append an op and give its result (the op has at most one)."""
        return append_new(self.block, op, operands, result, properties, self.location)

    def append(self, op: Operation) -> Operation:
        op.location = self.location
        self.block.add_op(op)
        return op

    def in_entry(self, op: Operation) -> SSAValue:
        """Put an op at the start of the function (constants, static stack space)."""
        self._prologue.append(op)
        return op.results[0]

    def finish(self) -> Region:
        """Put the prologue in place and give the finished body."""
        first = self.entry.first_op
        assert first is not None
        self.entry.insert_ops_before(self._prologue, first)
        return self.region

    def constant(self, value: Attribute, type: Attribute) -> SSAValue:
        """A constant of an `llvm` type, made once per function."""
        identity = (id(value), id(type))
        made = self._same.get(identity)
        if made is None:
            key = (value, type)
            made = self._constants.get(key)
            if made is None:
                op = llvm.ConstantOp.create(result_types=(type,), properties={"value": value})
                made = self._constants[key] = self.in_entry(op)
                if isinstance(value, IntegerAttr) and type == i64:
                    self._known[made] = value.value.data
                    self._integers.setdefault(value.value.data, made)
            self._same[identity] = made
            self._kept.append(key)
        return made

    def as_value(self, number: Int) -> SSAValue:
        """The i64 value of an integer."""
        if not isinstance(number, int):
            return number
        made = self._integers.get(number)
        return made if made is not None else self.constant(i64_attribute(number), i64)

    def integer_constant(self, number: int, type: IntegerType) -> SSAValue:
        return self.constant(IntegerAttr(number, type), type)

    def share(self, key: tuple[object, ...], build: Callable[[], SSAValue]) -> SSAValue:
        """The value recorded under `key` in this scope, else a new one."""
        value = self._shared.get(key)
        if value is None:
            value = self._shared[key] = build()
        return value
