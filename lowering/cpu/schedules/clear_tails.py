"""The pass `clear-tails`: nothing but zeros behind the last element of a packed buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, ModuleOp, NoneAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.inserted import keep_location
from openinfer.lowering.kernels.packed_loops import is_store, stored_buffer
from openinfer.lowering.kernels.runs import extent_of
from openinfer.lowering.operations import operations_of
from openinfer.lowering.places import is_device_kernel

_VIEWS = (
    memref.CastOp,
    memref.CollapseShapeOp,
    memref.ExpandShapeOp,
    memref.ReinterpretCastOp,
    memref.SubviewOp,
)


@dataclass(frozen=True)
class ClearTails(ModulePass):
    """
    A function that writes a packed buffer ends by clearing the rest of the buffer's last byte.

    Before:
        memref.store %v, %y[%i] : memref<5xi4>
        func.return

    After:
        memref.store %v, %y[%i] : memref<5xi4>
        %0 = memref.reinterpret_cast %y to offset: [0], sizes: [6], strides: [1] …
        scf.for %j = %c5 to %c6 step %c1 { memref.store %c0_i4, %0[%j] : memref<6xi4> }
        func.return

    So equal values have equal bytes, wherever they come from.

    Requires: schedules lowered to loops.
    Leaves: buffers whose size is known to be whole bytes, and those with gaps; kernels of a device.
    """

    name: ClassVar[str] = "clear-tails"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.ops:
            # Invocations of a device clear theirs themselves.
            if isinstance(function, FuncOp) and not (
                function.is_declaration or is_device_kernel(function)
            ):
                _clear(function)


def _clear(function: FuncOp) -> None:
    last = function.body.blocks[-1].last_op
    if not isinstance(last, ReturnOp):
        return
    written: dict[SSAValue, Operation] = {}
    for op in operations_of(function):
        if is_store(op):
            root = _root(stored_buffer(op))
            if isinstance(root, BlockArgument) and root.block is function.body.blocks[0]:
                written.setdefault(root, op)
    for buffer, op in written.items():
        kind = buffer.type
        assert isinstance(kind, MemRefType)
        if is_packed(kind.element_type) and isinstance(kind.layout, NoneAttr):
            with keep_location(op):
                _clear_tail(LoopBuilder(InsertPoint.before(last)), buffer, kind)


def _root(buffer: SSAValue) -> SSAValue:
    while isinstance(buffer.owner, _VIEWS):
        buffer = buffer.owner.operands[0]
    return buffer


def _clear_tail(b: LoopBuilder, buffer: SSAValue, kind: MemRefType) -> None:
    each = 8 // kind.element_type.bitwidth  # pyright: ignore
    extent = extent_of(b, buffer, range(kind.get_num_dims()))
    if extent.known % each == 0:
        return
    count = extent.value(b)
    groups = b.ceil_div(count, each)
    whole = b.times(groups, each)
    shape = [whole if isinstance(whole, int) else DYNAMIC_INDEX]
    flat = b.insert(
        memref.ReinterpretCastOp.from_dynamic(
            buffer, [0], [whole], [1], MemRefType(kind.element_type, shape)
        )
    )
    zero = b.constant(0, kind.element_type)
    b.loop(count, whole, 1, lambda i: b.store(zero, flat, [i]))
