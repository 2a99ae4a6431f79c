"""What the rules of `bufferize` share: buffers of tensors, allocation, insertion, the arguments of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from xdsl.dialects import arith, memref, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.extensions.memref import CopyOp
from openinfer.dialects.nn.elements import byte_size
from openinfer.lowering.fusing import NO_FUSE
from openinfer.lowering.interface import input_count, read_rows, strings
from openinfer.lowering.locations import give_location
from openinfer.lowering.state_layout import layout_of
from openinfer.lowering.step_arguments import name_hint
from openinfer.runtime.manifest import RequirementRow
from openinfer.runtime.sizes import Size
from openinfer.runtime.slots import Slot, SlotKind


def buffer_type(value: SSAValue | Attribute) -> MemRefType[Attribute]:
    """The contiguous buffer that holds a tensor."""
    kind = value.type if isinstance(value, SSAValue) else value
    assert isinstance(kind, TensorType)
    return MemRefType(kind.element_type, kind.get_shape())


class Bufferizer:
    """What the rules share while a function gets its buffers."""

    def __init__(
        self,
        module: ModuleOp,
        function: FuncOp,
        outputs: list[str],
        rules: Mapping[type[Operation], Rule],
    ) -> None:
        self.rules = rules
        """By class of op; the one of `nn.NNOp` is for all `nn` ops without their own."""
        self.module = module
        self.function = function
        self.outputs = outputs
        self.buffers: dict[SSAValue, SSAValue] = {}
        self.dims: dict[SSAValue, tuple[Size, ...]] = {}
        """Sizes of each buffer that stands for a tensor."""
        self.checked = {
            row.high
            for row in read_rows(module, "requires", RequirementRow)
            if row.kind == "negative-size"
        }
        """Dimensions that are known not to be negative before a step begins."""
        self.buffers_of_arguments: list[SSAValue] = []
        self.dead: list[Operation] = []
        self.current: Operation | None = None
        self.errors: SSAValue | None = None

    def run(self) -> None:
        """Lowers the function in place."""
        block = self.function.body.block
        slots = self._arguments(block)
        self.block(block)
        for op in reversed(self.dead):
            op.detach()
            op.erase()
        for argument in [a for a in block.args if isinstance(a.type, TensorType)]:
            block.erase_arg(argument)
        kind = FunctionType.from_lists([a.type for a in block.args], [])
        self.function.properties["function_type"] = kind
        if slots:
            rows = [nn.argument_row(slot) for slot in slots]
            self.function.properties["arg_attrs"] = ArrayAttr(rows)

    def _arguments(self, block: Block) -> list[Slot]:
        """A buffer argument for each tensor argument, then the error record of a step."""
        step = self.function.sym_name.data == "step"
        inputs = strings(self.module, "inputs")
        held = strings(self.module, "held")
        count = input_count(self.module)
        slots: list[Slot] = []
        originals = list(block.args)
        for number, old in enumerate(originals):
            assert isinstance(old.type, TensorType)
            members = [u.operation for u in old.uses if isinstance(u.operation, nn.MemberOp)]
            kind: MemRefType[Attribute] = buffer_type(old)
            if members:
                kind = MemRefType(IntegerType(8), [_family_bytes(members[0])])
            new = block.insert_arg(kind, len(block.args))
            new.name_hint = old.name_hint
            self.buffers[old] = new
            self.buffers_of_arguments.append(new)
            self.dims[new] = nn.dims_of(old)
            if step:
                slots.append(_slot(number, inputs, held, count))
        if step:
            self.errors = block.insert_arg(MemRefType(i64, [4]), len(block.args))
            self.errors.name_hint = "errors"
            slots.append(Slot(SlotKind.ERRORS))
            self._state_arguments(block, slots)
        return slots

    def _state_arguments(self, block: Block, slots: list[Slot]) -> None:
        """The memory of growing states, the cells, the undo log."""
        layout = layout_of(self.module)
        if not layout.needed:
            return
        wanted: list[tuple[Slot, MemRefType[Attribute]]] = [
            (Slot(SlotKind.CELLS), MemRefType(i64, [layout.count]))
        ]
        octets = MemRefType(IntegerType(8), [DYNAMIC_INDEX])
        for name, place in layout.states.items():
            wanted.append((Slot(SlotKind.STATE, name), octets))
            if place.counted:
                words = MemRefType(i64, [DYNAMIC_INDEX])
                wanted.append((Slot(SlotKind.COUNTS, name), words))
            if place.marks:
                wanted.append((Slot(SlotKind.MARKS, name), octets))
        if layout.states:
            wanted.append((Slot(SlotKind.LOG), octets))
        for slot, kind in wanted:
            argument = block.insert_arg(kind, len(block.args))
            argument.name_hint = name_hint(slot)
            slots.append(slot)

    def block(self, block: Block) -> None:
        """Applies the rules to the operations of a block in their order."""
        for op in list(block.ops):
            rule = self.rules.get(type(op))
            if rule is None and isinstance(op, nn.NNOp):
                rule = self.rules[nn.NNOp]
            if rule is None:
                continue
            self.current = op
            rule(self, op)

    # Emission

    def insert(self, op: Operation) -> Operation:
        """Inserts in front of the op that is being replaced."""
        assert self.current is not None
        give_location(self.current.location, op)
        block = self.current.parent_block()
        assert block is not None
        block.insert_op_before(op, self.current)
        return op

    def value(self, op: Operation) -> SSAValue:
        return self.insert(op).results[0]

    def index(self, number: int) -> SSAValue:
        return self.value(arith.ConstantOp(IntegerAttr(number, IndexType())))

    def size(self, size: Size) -> SSAValue:
        if size.constant is not None:
            return self.index(size.constant)
        return self.value(nn.SizeOp(size))

    def extents(self, dims: Sequence[Size]) -> list[SSAValue]:
        """The values of those dimensions that are no numbers.

        None is negative: a first value stands in front of a loop that may not come to the node that
        checks its dimensions.
        """
        safe = [
            d if d.nonnegative or str(d) in self.checked else Size.max(d, 0)
            for d in dims
            if d.constant is None
        ]
        return [self.value(nn.SizeOp(d)) for d in safe]

    def allocate(self, element: Attribute, dims: Sequence[Size], hint: str | None) -> SSAValue:
        """A new buffer."""
        dynamic = self.extents(dims)
        shape = [DYNAMIC_INDEX if d.constant is None else d.constant for d in dims]
        buffer = self.value(memref.AllocOp.get(element, None, shape, dynamic))
        buffer.name_hint = hint
        self.dims[buffer] = tuple(dims)
        return buffer

    def allocate_for(self, value: SSAValue) -> SSAValue:
        """A new buffer for a tensor."""
        kind = buffer_type(value)
        return self.allocate(kind.element_type, nn.dims_of(value), value.name_hint)

    def buffer(self, value: SSAValue) -> SSAValue:
        """The buffer of a tensor; other values stand for themselves."""
        if not isinstance(value.type, TensorType):
            return value
        if value not in self.buffers and isinstance(value.owner, tensor.EmptyOp):
            self.buffers[value] = self.allocate_for(value)
        return self.buffers[value]

    def define(self, old: SSAValue, buffer: SSAValue) -> None:
        """Says which buffer stands for a tensor."""
        self.buffers[old] = buffer
        self.dims[buffer] = nn.dims_of(old)

    def copy(self, source: SSAValue, target: SSAValue) -> None:
        self.insert(CopyOp(source, target))

    def retire(self, op: Operation) -> None:
        """Erases the op at the end: others may still use what it gave."""
        self.dead.append(op)


def byte_size_of(value: SSAValue) -> int:
    """Bytes of a tensor whose sizes are all known."""
    kind = buffer_type(value)
    return byte_size(kind.element_type, nn.dims_of(value)).evaluate({})


def _family_bytes(op: nn.MemberOp) -> int:
    """Bytes of all members; each one begins with a byte of its own."""
    extents = nn.dims_of(op.family)[: len(op.indices)]
    return prod(d.evaluate({}) for d in extents) * byte_size_of(op.member)


def _slot(number: int, inputs: Sequence[str], held: Sequence[str], count: int) -> Slot:
    """What an argument of the step is: inputs, then persistent values, then weights."""
    if number < len(inputs):
        return Slot(SlotKind.INPUT, inputs[number])
    if number < count:
        return Slot(SlotKind.HELD, held[number - len(inputs)])
    return Slot(SlotKind.WEIGHT, number=number - count)


Rule = Callable[[Bufferizer, Operation], None]


def kept_attributes(op: Operation) -> dict[str, Attribute]:
    """What is still to be obeyed: nothing is fused any more."""
    return {k: v for k, v in op.attributes.items() if k != NO_FUSE}


def root_of(buffer: SSAValue) -> SSAValue:
    """The buffer that a chain of views looks at."""
    while isinstance(buffer.owner, nn.ViewOp | memref.ViewOp):
        buffer = buffer.owner.source
    return buffer
