"""Calls of device kernels become records of what was called with how many bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp, i64
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import nn
from openinfer.lowering.buffers.uses import VIEWS, bytes_of, memory_of
from openinfer.lowering.buffers.verify_places import verify_places
from openinfer.lowering.interface import as_attribute
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.places import DEVICE, on_host
from openinfer.lowering.step_arguments import add_arguments
from openinfer.runtime.devices.null.record import RECORD_WORDS
from openinfer.runtime.manifest import CallRow
from openinfer.runtime.sizes import Size
from openinfer.runtime.slots import Slot, SlotKind

RECORD = MemRefType(i64, [RECORD_WORDS])
"""What a step writes: how many words are in use, how many calls found no room, then for each call the
number of its row in `calls` of `nn.interface`, and the bytes of each buffer."""


@dataclass(frozen=True)
class RecordCalls(ModulePass):
    """A step writes down what it asks of the device, and does only what the host does.

    Before:
        nn.transfer "to_device" %x, %x_mirror bytes <64> : …
        func.call @matmul_0(%x_mirror, %W_mirror, %y)
    After:
        %place = memref.load %calls[%c0] : memref<65536xi64>
        …
        memref.store %number, %calls[%place] : memref<65536xi64>

    Requires: `plan-memory`, and sizes not lowered: the record holds bytes.
    Leaves: no op that reads or writes device memory, but transfers to the host, which read it; no
        device kernel; the rows of the record as `calls` of `nn.interface`.
    """

    name: ClassVar[str] = "record-calls"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = {f.sym_name.data: f for f in op.body.ops if isinstance(f, FuncOp)}
        step = functions.get("step")
        if step is None:
            return
        verify_places(step)
        asked = [o for o in step.walk() if _is_asked(o)]
        if not asked:
            return
        (record,) = add_arguments(step, [(Slot(SlotKind.CALLS), RECORD)])
        rows: list[CallRow] = []
        for inner in asked:
            row, sizes = _row_of(inner)
            if row not in rows:
                rows.append(row)
            _record(LoopBuilder(InsertPoint.before(inner)), record, rows.index(row), sizes)
            if not (isinstance(inner, nn.TransferOp) and inner.direction.data == "to_host"):
                Rewriter.erase_op(inner)
        called = {o.callee.string_value() for o in op.walk() if isinstance(o, CallOp)}
        kernels = {o.callee.string_value() for o in asked if isinstance(o, CallOp)}
        for name in kernels - called:
            Rewriter.erase_op(functions[name])
        nn.update_interface(op, {"calls": as_attribute(rows)})


def _is_asked(op: Operation) -> bool:
    """Whether the device does something."""
    if isinstance(op, CallOp):
        return not on_host(op)
    if isinstance(op, memref.CopyOp):
        return memory_of(op.source) == DEVICE
    return isinstance(op, nn.TransferOp)


def _row_of(op: Operation) -> tuple[CallRow, list[Size]]:
    """What is asked of the device, and the bytes of each buffer."""
    if isinstance(op, nn.TransferOp):
        there = op.target if op.direction.data == "to_device" else op.source
        row = CallRow(f"transfer {op.direction.data.replace('_', ' ')}", [_name_of(there)])
        return row, [op.nbytes.data]
    name = op.callee.string_value() if isinstance(op, CallOp) else "copy"
    buffers = [value for value in op.operands if isinstance(value.type, MemRefType)]
    return CallRow(name, [_name_of(value) for value in buffers]), [bytes_of(v) for v in buffers]


def _name_of(buffer: SSAValue) -> str:
    """The name of a buffer, or of what it is a part of."""
    while buffer.name_hint is None and isinstance(buffer.owner, VIEWS):
        buffer = buffer.owner.source
    return (buffer.name_hint or "buffer").removesuffix("_mirror").replace("device_arena", "buffer")


def _record(build: LoopBuilder, record: SSAValue, number: int, sizes: Sequence[Size]) -> None:
    """Appends a call to the record, if there is room."""
    used = build.load(record, [0])
    end = build.add(used, build.constant(1 + len(sizes), i64))
    fits = build.compare("sle", end, build.constant(RECORD_WORDS, i64))

    def write() -> None:
        place = build.insert(arith.IndexCastOp(used, IndexType()))
        build.store(build.constant(number, i64), record, [place])
        for behind, size in enumerate(sizes, 1):
            known = size.constant
            nbytes = (
                build.insert(arith.IndexCastOp(build.insert(nn.SizeOp(size)), i64))
                if known is None
                else build.constant(known, i64)
            )
            build.store(nbytes, record, [build.add(place, behind)])
        build.store(end, record, [0])

    def drop() -> None:
        dropped = build.load(record, [1])
        build.store(build.add(dropped, build.constant(1, i64)), record, [1])

    build.when(fits, write, drop)
