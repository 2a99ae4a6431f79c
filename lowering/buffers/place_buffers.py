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
from openinfer.lowering.buffers.uses import VIEWS, bytes_of, memory_of, root_of
from openinfer.lowering.buffers.verify_places import verify_places
from openinfer.lowering.demands import demands_of
from openinfer.lowering.interface import variable_dims
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.locations import give_location
from openinfer.lowering.places import DEVICE, HOST, MEMORY, on_host
from openinfer.lowering.step_arguments import add_arguments, role_of
from openinfer.runtime.errors import CompileError
from openinfer.runtime.sizes import Size

_WRITERS = (nn.StateLoadOp,)
"""Ops of `@step`, besides calls and copies, that write a buffer; the host runs them."""
_UNTOUCHED = (*VIEWS, nn.KeepOp)
"""Ops that name a buffer and touch no memory."""


@dataclass(frozen=True)
class PlaceBuffers(ModulePass):
    """Puts the buffers that device kernels use into device memory, and copies what both machines use.

    Before:
        func.call @matmul_0(%x, %W, %y)
        func.call @elementwise_0(%y) {openinfer.place = "host"}
    After:
        nn.transfer "to_device" %x, %x_twin bytes …
        func.call @matmul_0(%x_twin, %W_twin, %y)
        nn.transfer "to_host" %y, %y_twin bytes …
        func.call @elementwise_0(%y_twin) {openinfer.place = "host"}
        nn.transfer "to_device" %y_twin, %y bytes …

    A buffer has a home. Device memory is the home of what a device kernel uses; the host's that of all
    others, of inputs and of persistent values. Where the other machine uses a buffer, it uses a twin, which
    is filled before the first use and again after the buffer has changed at home. What the host writes
    into a twin is copied home at once, so the home always holds the value. Weights have no twins: those
    that device kernels read are arguments of their own, put there at load.

    Requires: kernels outlined; buffers not planned yet, so that twins get their places as others do.
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


class _Places:
    def __init__(self, module: ModuleOp, step: FuncOp, functions: dict[str, FuncOp]) -> None:
        self.module = module
        self.step = step
        self.written = {name: _written(function) for name, function in functions.items()}
        """The arguments that each kernel writes, by number."""
        self.twins: dict[SSAValue, SSAValue] = {}
        self.located: dict[SSAValue, SSAValue] = {}
        """A view of a buffer to the same view of its twin."""

    def run(self) -> None:
        for call in [op for op in self.step.walk() if isinstance(op, CallOp) and not on_host(op)]:
            for operand in _buffers(call):
                owner = root_of(operand).owner
                if isinstance(owner, memref.AllocOp):
                    owner.attributes[MEMORY] = StringAttr(DEVICE)
        self._block(self.step.body.block, set())
        for view in reversed([op for op in self.step.walk() if isinstance(op, VIEWS)]):
            if not view.results[0].uses:
                view.detach()
                view.erase()

    # Which twins hold what their homes hold

    def _block(self, block: Block, valid: set[SSAValue]) -> None:
        """Rewrites the ops of a block; `valid` are the buffers whose twins hold the same, kept true."""
        for op in list(block.ops):
            if op.regions:
                # Inside, and behind it: a loop may run several times, or not at all.
                valid -= self._changed_inside(op)
                for region in op.regions:
                    for inner in region.blocks:
                        self._block(inner, set(valid))
            elif isinstance(op, memref.AllocOp):
                valid.add(op.memref)  # Nothing has been written to either of them.
            elif isinstance(op, memref.CopyOp):
                self._copy(op, valid)
            elif isinstance(op, CallOp):
                machine = HOST if on_host(op) else DEVICE
                self._use(op, machine, self.written[op.callee.string_value()], valid)
            elif not isinstance(op, _UNTOUCHED):
                written = range(len(op.operands)) if isinstance(op, _WRITERS) else ()
                self._use(op, HOST, written, valid)

    def _changed_inside(self, op: Operation) -> set[SSAValue]:
        """The buffers in device memory that change there while `op` runs."""
        found: set[SSAValue] = set()
        for inner in op.walk():
            values: Sequence[SSAValue] = ()
            if isinstance(inner, memref.CopyOp):
                values = [inner.destination]
            elif isinstance(inner, CallOp) and not on_host(inner):
                written = self.written[inner.callee.string_value()]
                values = [inner.operands[number] for number in written]
            found |= {root_of(value) for value in values if memory_of(value) == DEVICE}
        return found

    def _use(
        self, op: Operation, machine: str, written: Sequence[int], valid: set[SSAValue]
    ) -> None:
        """Gives an op the buffers of its machine; it writes the operands with the numbers `written`."""
        for number, value in enumerate(op.operands):
            if not isinstance(value.type, MemRefType):
                continue
            root = root_of(value)
            home = memory_of(root)
            if home == machine:
                if number in written:
                    valid.discard(root)
                continue
            op.operands[number] = self._locate(value)
            if root not in valid and not self._is_weight(root):
                self._transfer(root, self._twin(root), home, InsertPoint.before(op), op)
            valid.add(root)
            if number in written:
                self._transfer(self._twin(root), root, machine, InsertPoint.after(op), op)

    def _copy(self, op: memref.CopyOp, valid: set[SSAValue]) -> None:
        """A copy from one memory to the other is a transfer, unless the source is there already."""
        source, target = op.source, op.destination
        root, there = root_of(source), memory_of(target)
        if memory_of(source) != there:
            if root in valid or self._is_weight(root):
                op.operands[0] = self._locate(source)
            else:
                self._transfer(source, target, memory_of(source), InsertPoint.before(op), op)
                op.detach()
                op.erase()
        if there == DEVICE:
            valid.discard(root_of(target))

    # Twins

    def _locate(self, value: SSAValue) -> SSAValue:
        """The same part of the twin."""
        if value not in self.located:
            view = value.owner
            if isinstance(view, VIEWS):
                other = view.clone({view.source: self._locate(view.source)})
                block = view.parent_block()
                assert block is not None
                block.insert_op_after(other, view)
                self.located[value] = other.results[0]
            else:
                self.located[value] = self._twin(value)
        return self.located[value]

    def _twin(self, root: SSAValue) -> SSAValue:
        """The buffer, of the same type, in the other memory."""
        if root not in self.twins:
            if self._is_weight(root):
                assert isinstance(root, BlockArgument)
                twin = add_arguments(self.step, [(f"{DEVICE}_{role_of(root)}", root.type)])
                self.twins[root] = twin[f"{DEVICE}_weight"]
            else:
                self.twins[root] = self._allocate(root)
            self.twins[root].name_hint = f"{root.name_hint or 'buffer'}_twin"
        return self.twins[root]

    def _is_weight(self, root: SSAValue) -> bool:
        return isinstance(root, BlockArgument) and role_of(root).startswith("weight ")

    def _allocate(self, root: SSAValue) -> SSAValue:
        kind = root.type
        assert isinstance(kind, MemRefType)
        if isinstance(root, BlockArgument):
            if role_of(root) == "errors":
                raise CompileError(
                    "OI0962", "a kernel of the device would write the host's record of errors"
                )
            build = LoopBuilder(InsertPoint.at_start(root.block))
            sizes = [build.insert(nn.SizeOp(dim)) for dim in self._open_dims(root)]
        else:
            assert isinstance(root.owner, memref.AllocOp | nn.StateViewOp)
            build = LoopBuilder(InsertPoint.after(root.owner))
            made = root.owner
            sizes = list(made.dynamic_sizes if isinstance(made, memref.AllocOp) else made.sizes)
        twin = memref.AllocOp.get(kind.element_type, None, kind.get_shape(), sizes)
        if memory_of(root) == HOST:
            twin.attributes[MEMORY] = StringAttr(DEVICE)
        return build.insert(twin)

    def _open_dims(self, argument: BlockArgument) -> list[Size]:
        """The run-time dimensions of an input or a persistent value."""
        kind = argument.type
        assert isinstance(kind, MemRefType)
        if DYNAMIC_INDEX not in kind.get_shape():
            return []
        dims = variable_dims(self.module, role_of(argument).partition(" ")[2])
        shape = kind.get_shape()
        return [Size.of(dim) for dim, extent in zip(dims, shape) if extent == DYNAMIC_INDEX]

    def _transfer(
        self, source: SSAValue, target: SSAValue, home: str, place: InsertPoint, op: Operation
    ) -> None:
        """Copies a buffer out of the memory `home`, for the sake of `op`."""
        direction = "to_device" if home == HOST else "to_host"
        sized = target if isinstance(source, BlockArgument) else source
        transfer = nn.TransferOp(direction, source, target, bytes_of(sized))
        give_location(op.location, transfer)
        LoopBuilder(place).do(transfer)


def _buffers(op: Operation) -> list[SSAValue]:
    return [value for value in op.operands if isinstance(value.type, MemRefType)]


def _written(function: FuncOp) -> list[int]:
    """The arguments that a kernel writes: the destinations of its op."""
    found: set[SSAValue] = set()
    for op in function.body.ops if not function.is_declaration else ():
        if isinstance(op, nn.NNOp):
            found |= set(op.outs)
        elif isinstance(op, linalg.GenericOp | linalg.FillOp):
            found |= set(op.outputs)
    return [value.index for value in found if isinstance(value, BlockArgument)]
