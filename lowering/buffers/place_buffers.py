"""Which memory each buffer of a step is in, and what is copied from one memory to the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from openinfer.dialects import nn
from openinfer.lowering.buffers.place_checks import checks_of, place_checks
from openinfer.lowering.buffers.place_states import place_states
from openinfer.lowering.buffers.uses import VIEWS, bytes_of, machine_of, memory_of, root_of
from openinfer.lowering.buffers.verify_places import verify_places
from openinfer.lowering.demands import demands_of
from openinfer.lowering.interface import variable_dims
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.locations import give_location
from openinfer.lowering.places import DEVICE, HOST, MEMORY
from openinfer.lowering.step_arguments import add_arguments, slot_of
from openinfer.runtime.errors import CompileError
from openinfer.runtime.sizes import Size
from openinfer.runtime.slots import Slot, SlotKind

_UNTOUCHED = (*VIEWS, nn.KeepOp)
"""Ops that name a buffer and touch no memory."""


@dataclass(frozen=True)
class PlaceBuffers(ModulePass):
    """Puts the buffers that device kernels use into device memory, and copies what both machines use.

    Before:
        func.call @matmul_0(%x, %W, %y)
        func.call @elementwise_0(%y) {openinfer.place = "host"}
    After:
        nn.transfer "to_device" %x, %x_mirror bytes …
        func.call @matmul_0(%x_mirror, %W_mirror, %y)
        nn.transfer "to_host" %y, %y_mirror bytes …
        func.call @elementwise_0(%y_mirror) {openinfer.place = "host"}
        nn.transfer "to_device" %y_mirror, %y bytes …

    Checks of indices go to the machine that has the indices (`place_checks`).

    A buffer has a home. Device memory is the home of what a device kernel uses, and of persistent values that
    the device computes or reads (`place_states`); the host's that of all others, and of inputs. Where the
    other machine uses a buffer, it uses a mirror, which is filled before the first use and again after the
    buffer has changed at home. What the host writes into a mirror is copied home at once, so the home always
    holds the value. Weights have no mirrors: those that device kernels read are arguments of their own, put
    there at load.

    Requires: kernels outlined; buffers not planned yet, so that mirrors get their places as others do.
    Leaves: programs for a device without memory of its own as they are; every op with buffers in the
        memory of its machine (`verify_places`).
    """

    name: ClassVar[str] = "place-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not demands_of(op).own_memory:
            return
        functions = {f.sym_name.data: f for f in op.body.ops if isinstance(f, FuncOp)}
        step = functions.get("step")
        if step is not None:
            _Places(op, step, functions).run()
            verify_places(step)


Valid = set[tuple[SSAValue, Size | None]]
"""Buffers with the bytes, from the first one on, in which their mirrors hold the same; None for all."""


class _Places:
    def __init__(self, module: ModuleOp, step: FuncOp, functions: dict[str, FuncOp]) -> None:
        self.module = module
        self.step, self.functions = step, functions
        self.written = {name: _written(function) for name, function in functions.items()}
        """The arguments that each kernel writes, by number."""
        self.mirrors: dict[SSAValue, SSAValue] = {}
        self.located: dict[SSAValue, SSAValue] = {}
        """A view of a buffer to the same view of its mirror."""

    def run(self) -> None:
        for call in [op for op in self.step.walk() if machine_of(op) == DEVICE]:
            for operand in _buffers(call):
                owner = root_of(operand).owner
                if isinstance(owner, memref.AllocOp):
                    owner.attributes[MEMORY] = StringAttr(DEVICE)
        demands = demands_of(self.module)
        checks = checks_of(self.step, self.functions) if demands.checks_indices else []
        if demands.holds_states:
            place_states(self.module, self.step, checks)
        for check in place_checks(self.step, self.functions, checks, self._written_by):
            self.written[check.sym_name.data] = _written(check)
        self._block(self.step.body.block, set())
        for view in reversed([op for op in self.step.walk() if isinstance(op, VIEWS)]):
            if not view.results[0].uses:
                view.detach()
                view.erase()

    # Which mirrors hold what their homes hold

    def _block(self, block: Block, valid: Valid) -> None:
        """Rewrites the ops of a block; `valid` is kept true."""
        for op in list(block.ops):
            if op.regions:
                # Inside, and behind it: a loop may run several times, or not at all.
                for root in self._changed_inside(op):
                    _forget(valid, root)
                for inner in op.walk():
                    _redefine(valid, inner)
                for region in op.regions:
                    for inner in region.blocks:
                        self._block(inner, set(valid))
            elif isinstance(op, memref.AllocOp):
                valid.add((op.memref, None))  # Nothing has been written to either of them.
            elif isinstance(op, nn.StatePlaceOp):
                valid.add((op.view, None))  # Nothing will be read of either before it is written.
            elif isinstance(op, nn.DefineSizeOp):
                _redefine(valid, op)
            elif isinstance(op, memref.CopyOp):
                self._copy(op, valid)
            elif not isinstance(op, _UNTOUCHED):
                self._use(op, valid)

    def _changed_inside(self, op: Operation) -> set[SSAValue]:
        """The buffers that change at home while `op` runs."""
        found: set[SSAValue] = set()
        for inner in op.walk():
            machine = machine_of(inner)
            for number in self._written_by(inner):
                root = root_of(inner.operands[number])
                # A copy becomes one of the machine that it brings the value to, or a transfer.
                if isinstance(inner, memref.CopyOp) or memory_of(root) == machine:
                    found.add(root)
        return found

    def _written_by(self, op: Operation) -> Sequence[int]:
        """The operands that an op writes, by number."""
        if isinstance(op, CallOp):
            return self.written[op.callee.string_value()]
        if isinstance(op, memref.CopyOp):
            return [1]
        if isinstance(op, memref.StoreOp):
            return [1]
        return range(len(op.operands)) if isinstance(op, nn.StateLoadOp) else ()

    def _use(self, op: Operation, valid: Valid) -> None:
        """Gives an op the buffers of its machine."""
        machine, written = machine_of(op), self._written_by(op)
        for number, value in enumerate(op.operands):
            if not isinstance(value.type, MemRefType):
                continue
            root = root_of(value)
            home = memory_of(root)
            if home == machine:
                if number in written:
                    _forget(valid, root)
                continue
            other = op.operands[number] = self._locate(value)
            if not self._holds(value, valid):
                self._transfer(value, other, home, InsertPoint.before(op), op)
                valid.add((root, self._bytes(value)))
            if number in written:
                self._transfer(other, value, machine, InsertPoint.after(op), op)

    def _holds(self, value: SSAValue, valid: Valid) -> bool:
        """Whether the mirror holds a value, or a part of it."""
        root = root_of(value)
        if _weight(root) or (root, None) in valid:
            return True
        return (root, self._bytes(value)) in valid

    def _bytes(self, value: SSAValue) -> Size:
        """The bytes of a value: a buffer may be larger than what it holds, where a step fixes sizes."""
        return bytes_of(self._mirror(value) if isinstance(value, BlockArgument) else value)

    def _copy(self, op: memref.CopyOp, valid: Valid) -> None:
        """A copy from one memory to the other is a transfer, unless the source is there already."""
        source, target = op.source, op.destination
        there = memory_of(target)
        if memory_of(source) != there:
            if self._holds(source, valid):
                op.operands[0] = self._locate(source)
            else:
                self._transfer(source, target, memory_of(source), InsertPoint.before(op), op)
                op.detach()
                op.erase()
        _forget(valid, root_of(target))

    # Mirrors

    def _locate(self, value: SSAValue) -> SSAValue:
        """The same part of the mirror."""
        if value not in self.located:
            view = value.owner
            if isinstance(view, VIEWS):
                other = view.clone({view.source: self._locate(view.source)})
                block = view.parent_block()
                assert block is not None
                block.insert_op_after(other, view)
                self.located[value] = other.results[0]
            else:
                self.located[value] = self._mirror(value)
        return self.located[value]

    def _mirror(self, root: SSAValue) -> SSAValue:
        """The buffer, of the same type, in the other memory."""
        if root not in self.mirrors:
            weight = _weight(root)
            if weight is not None:
                mirror = Slot(SlotKind.DEVICE_WEIGHT, number=weight.number)
                (self.mirrors[root],) = add_arguments(self.step, [(mirror, root.type)])
            else:
                self.mirrors[root] = self._allocate(root)
            self.mirrors[root].name_hint = f"{root.name_hint or 'buffer'}_mirror"
        return self.mirrors[root]

    def _allocate(self, root: SSAValue) -> SSAValue:
        kind = root.type
        assert isinstance(kind, MemRefType)
        if isinstance(root, BlockArgument):
            if slot_of(root) == Slot(SlotKind.ERRORS):
                raise CompileError(
                    "OI0962", "a kernel of the device would write the host's record of errors"
                )
            build = LoopBuilder(InsertPoint.at_start(root.block))
            sizes = [build.insert(nn.SizeOp(dim)) for dim in self._open_dims(root)]
        else:
            assert isinstance(root.owner, memref.AllocOp | nn.StateViewOp | nn.StatePlaceOp)
            build = LoopBuilder(InsertPoint.after(root.owner))
            made = root.owner
            sizes = list(made.dynamic_sizes if isinstance(made, memref.AllocOp) else made.sizes)
        mirror = memref.AllocOp.get(kind.element_type, None, kind.get_shape(), sizes)
        if memory_of(root) == HOST:
            mirror.attributes[MEMORY] = StringAttr(DEVICE)
        return build.insert(mirror)

    def _open_dims(self, argument: BlockArgument) -> list[Size]:
        """The run-time dimensions of an input or a persistent value."""
        kind = argument.type
        assert isinstance(kind, MemRefType)
        if DYNAMIC_INDEX not in kind.get_shape():
            return []
        slot = slot_of(argument)
        assert slot is not None
        dims = variable_dims(self.module, slot.name)
        shape = kind.get_shape()
        return [Size.of(dim) for dim, extent in zip(dims, shape) if extent == DYNAMIC_INDEX]

    def _transfer(
        self, source: SSAValue, target: SSAValue, home: str, place: InsertPoint, op: Operation
    ) -> None:
        """Copies a buffer out of the memory `home`, for the sake of `op`."""
        direction = "to_device" if home == HOST else "to_host"
        transfer = nn.TransferOp(direction, source, target, self._bytes(source))
        give_location(op.location, transfer)
        LoopBuilder(place).do(transfer)


def _forget(valid: Valid, root: SSAValue) -> None:
    """The value of a buffer changes at home."""
    valid -= {key for key in valid if key[0] is root}


def _redefine(valid: Valid, op: Operation) -> None:
    """Behind an op that fixes a size, equal expressions of it mean other numbers than before."""
    if isinstance(op, nn.DefineSizeOp):
        name = op.size.data
        valid -= {key for key in valid if key[1] is not None and name in key[1].names}


def _buffers(op: Operation) -> list[SSAValue]:
    return [value for value in op.operands if isinstance(value.type, MemRefType)]


def _written(function: FuncOp) -> list[int]:
    """The arguments that a kernel writes: the destinations of its op."""
    found: set[SSAValue] = set()
    for op in function.body.ops if not function.is_declaration else ():
        if isinstance(op, nn.NNOp):
            found |= set(op.written)
        elif isinstance(op, linalg.GenericOp | linalg.FillOp):
            found |= set(op.outputs)
    return [value.index for value in found if isinstance(value, BlockArgument)]


def _weight(root: SSAValue) -> Slot | None:
    """The slot of a buffer that is a weight in the memory of the host."""
    slot = slot_of(root) if isinstance(root, BlockArgument) else None
    return slot if slot is not None and slot.kind == SlotKind.WEIGHT else None
