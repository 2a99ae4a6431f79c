"""What a step asks of the device becomes words in memory, which the runtime reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, gpu, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    MemRefType,
    ModuleOp,
    i1,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import nn
from openinfer.lowering.buffers.uses import VIEWS, bytes_of, memory_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.host.lower_checks import error_record
from openinfer.lowering.host.poll_loops import note_interrupted
from openinfer.lowering.interface import as_attribute
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.inserted import keep_location
from openinfer.lowering.kernels.sum_chains import constant_of
from openinfer.lowering.places import DEVICE, exact_arguments
from openinfer.lowering.state_layout import layout_of
from openinfer.lowering.step_arguments import StepArguments, add_arguments
from openinfer.lowering.vulkan.to_spirv.kernel_arguments import is_written, open_dims
from openinfer.lowering.vulkan.to_spirv.kernel_module import width_of
from openinfer.runtime.devices.vulkan.record import (
    COPY,
    EXACT_PLACE,
    RECORD_WORDS,
    SUBMIT,
    TO_DEVICE,
    TO_HOST,
    USED,
)
from openinfer.runtime.manifest import MOST_GROUPS, CallRow
from openinfer.runtime.sizes import Size
from openinfer.runtime.slots import Slot, SlotKind

HAND_OVER = "hand_over"
"""The function that has the record read."""
Words = Callable[[LoopBuilder], list[Index]]
"""Builds the words of a call behind the number of its row."""
RECORD = MemRefType(i64, [RECORD_WORDS])
"""The words in use, then those of each call (`runtime/devices/vulkan/record.py`)."""


@dataclass(frozen=True)
class LowerDispatches(ModulePass):
    """Launches, transfers and copies of device memory become records; the runtime submits them.

    Before:
        gpu.launch_func @matmul_0 blocks (%n, %c1, %c1) threads (…) args(%x, %W, %y)
        nn.transfer "to_host" %y, %y_mirror bytes <"128*B"> : …
    After:
        memref.store %row, %calls[%place] : memref<65536xi64>
        …                               // groups, addresses, bytes, words of the kernel
        %failed = func.call @hand_over(%calls, %errors, %logged) : (…) -> i1   // openinfer_submit
        nn.leave_if %failed

    What is moved between host and device is handed over at once (moves one behind the other together): what
    the host has may change behind it, and what it reads must be there. In a traced build everything is, so
    that the runtime knows which stamp has asked for it.

    Requires: `lower-device-kernels`, `plan-memory`, and sizes not lowered.
    Leaves: no op on device memory; the rows of the record as `calls` of `nn.interface`.
    """

    name: ClassVar[str] = "lower-dispatches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = {f.sym_name.data: f for f in op.body.ops if isinstance(f, FuncOp)}
        step = functions.get("step")
        if step is None:
            return
        asked = [o for o in step.walk() if _is_asked(o)]
        if not asked:
            return
        (record,) = add_arguments(step, [(Slot(SlotKind.CALLS), RECORD)])
        cells = StepArguments(step).get(SlotKind.CELLS)
        around = _Step(error_record(step), cells, layout_of(op).log)
        rows: list[CallRow] = []
        traced = Facts.of(op).traced
        for inner in asked:
            row, words = _row_of(inner, functions)
            if row not in rows:
                rows.append(row)
            with keep_location(inner):
                b = LoopBuilder(InsertPoint.before(inner))
                _record(b, record, around, [rows.index(row), *words(b)])
                if traced or (
                    isinstance(inner, nn.TransferOp)
                    and not isinstance(inner.next_op, nn.TransferOp)
                ):
                    _submit(b, record, around)
            Rewriter.erase_op(inner)
        op.body.block.add_op(_hand_over(RECORD, around.errors.type))
        op.body.block.add_op(FuncOp.external(SUBMIT, [IndexType(), i64], [i1]))
        nn.update_interface(op, {"calls": as_attribute(rows)})


@dataclass(frozen=True)
class _Step:
    """What a step says to those who call it."""

    errors: SSAValue
    cells: SSAValue | None
    log: int
    """Which of the cells says how long the undo log is."""


def _is_asked(op: Operation) -> bool:
    """Whether the device does something."""
    if isinstance(op, memref.CopyOp):
        return memory_of(op.source) == DEVICE
    return isinstance(op, nn.TransferOp | gpu.LaunchFuncOp)


def _row_of(op: Operation, functions: dict[str, FuncOp]) -> tuple[CallRow, Words]:
    """What is asked of the device, and what builds the words behind the row's number."""
    if isinstance(op, gpu.LaunchFuncOp):
        return _launch(op, functions[op.kernel.string_value()])
    if isinstance(op, nn.TransferOp):
        to_device = op.direction.data == "to_device"
        kind = TO_DEVICE if to_device else TO_HOST
        device, size = (op.target if to_device else op.source), op.nbytes.data
        source, target = op.source, op.target
    else:
        assert isinstance(op, memref.CopyOp)
        kind, device, source, target = COPY, op.source, op.source, op.destination
        size = None

    def words(b: LoopBuilder) -> list[Index]:
        nbytes = _bytes_of(b, source) if size is None else _bytes(b, size)
        return [_address(b, source), _address(b, target), nbytes]

    return CallRow(kind, [_name_of(device)]), words


def _launch(op: gpu.LaunchFuncOp, kernel: FuncOp) -> tuple[CallRow, Words]:
    """A launch: groups, then address and bytes of each buffer, then the words of the kernel."""
    given = list(op.kernelOperands)
    buffers = [value for value in given if isinstance(value.type, MemRefType)]
    arguments = [a for a in kernel.body.block.args if isinstance(a.type, MemRefType)]
    places: list[int] = []
    elements: list[int] = []
    parts: list[tuple[SSAValue, int | None] | None] = []
    exact = exact_arguments(kernel)
    for number, value in enumerate(given):
        if isinstance(value.type, MemRefType):
            places.append(EXACT_PLACE if number in exact else len(parts))
            # Of packed elements it is bytes that count.
            elements.append(max(1, width_of(value.type.element_type) // 8))
            if number not in exact:
                parts.append(None)
            parts += [(value, axis) for axis in open_dims(value.type)]
        else:
            parts.append((value, None))
    row = CallRow(
        kernel.sym_name.data,
        [_name_of(value) for value in buffers],
        [number for number, argument in enumerate(arguments) if is_written(argument)],
        places,
        elements,
        len(parts),
        _known_groups(op),
    )

    def words(b: LoopBuilder) -> list[Index]:
        found: list[Index] = [op.gridSizeX, op.gridSizeY, op.gridSizeZ]
        for value in buffers:
            found += [_address(b, value), _bytes_of(b, value)]
        for part in parts:
            if part is None:
                # Only the runtime knows how it binds the buffer.
                found.append(0)
            else:
                value, axis = part
                found.append(value if axis is None else b.dim(value, axis))
        return found

    return row, words


def _known_groups(op: gpu.LaunchFuncOp) -> list[int]:
    """How many workgroups are started, if that is the same in every step."""
    counts = [constant_of(size) for size in (op.gridSizeX, op.gridSizeY, op.gridSizeZ)]
    known = [count for count in counts if count is not None and 0 <= count <= MOST_GROUPS]
    return known if len(known) == len(counts) else []


def _name_of(buffer: SSAValue) -> str:
    """The name of a buffer, or of what it is a part of."""
    while buffer.name_hint is None and isinstance(buffer.owner, VIEWS):
        buffer = buffer.owner.source
    return (buffer.name_hint or "buffer").removesuffix("_mirror").replace("device_arena", "buffer")


def _address(b: LoopBuilder, buffer: SSAValue) -> Index:
    """Where the first element of a buffer is."""
    part = buffer.owner
    if isinstance(part, memref.ReinterpretCastOp):
        (offset,) = part.offsets
        begin = _address(b, part.source)
        return b.add(b.index(begin), _bytes_of_elements(b, buffer, offset))
    return b.insert(memref.ExtractAlignedPointerAsIndexOp.get(buffer))


def _bytes_of_elements(b: LoopBuilder, buffer: SSAValue, count: Index) -> Index:
    """The bytes of some elements; packed ones fill whole bytes."""
    kind = buffer.type
    assert isinstance(kind, MemRefType)
    bits = width_of(kind.element_type)
    return b.times(count, bits // 8) if bits >= 8 else b.ceil_div(count, 8 // bits)


def _bytes_of(b: LoopBuilder, buffer: SSAValue) -> Index:
    """The bytes of a buffer: an expression of sizes where that is known, else a product of its extents."""
    kind, owner = buffer.type, buffer.owner
    assert isinstance(kind, MemRefType)
    sizes: Sequence[SSAValue] | None = [] if DYNAMIC_INDEX not in kind.get_shape() else None
    if isinstance(owner, memref.AllocOp):
        sizes = owner.dynamic_sizes
    elif isinstance(owner, memref.ViewOp):
        sizes = owner.sizes
    if sizes is not None and all(isinstance(size.owner, nn.SizeOp) for size in sizes):
        return _bytes(b, bytes_of(buffer))
    total: Index = 1
    for axis in range(kind.get_num_dims()):
        total = b.times(total, b.dim(buffer, axis))
    return _bytes_of_elements(b, buffer, total)


def _bytes(b: LoopBuilder, size: Size) -> Index:
    known = size.constant
    return b.insert(nn.SizeOp(size)) if known is None else known


def _record(b: LoopBuilder, record: SSAValue, step: _Step, words: Sequence[Index]) -> None:
    """Appends a call; a record that is full is submitted first."""
    used = b.load(record, [USED])
    end = b.add(used, b.constant(len(words), i64))
    full = b.compare("sgt", end, b.constant(RECORD_WORDS, i64))
    b.when(full, lambda: _submit(b, record, step))
    place = b.insert(arith.IndexCastOp(b.load(record, [USED]), IndexType()))
    for behind, word in enumerate(words):
        if isinstance(word, int):
            value = b.constant(word, i64)
        elif isinstance(word.type, IndexType):
            value = b.insert(arith.IndexCastOp(word, i64))
        else:
            value = word
        b.store(value, record, [b.add(place, behind)])
    end = b.insert(arith.IndexCastOp(b.add(place, len(words)), i64))
    b.store(end, record, [USED])


def _submit(b: LoopBuilder, record: SSAValue, step: _Step) -> None:
    """Has the record read; a step whose device fails is left before it changes anything else."""
    logged = b.constant(0, i64) if step.cells is None else b.load(step.cells, [step.log])
    failed = b.insert(CallOp(HAND_OVER, [record, step.errors, logged], [i1]))
    failed.name_hint = "failed"
    b.do(nn.LeaveIfOp(failed))


def _hand_over(record: Attribute, errors: Attribute) -> FuncOp:
    """Has a record read, and notes in the record of errors where the device fails. Whether it does."""
    block = Block(arg_types=[record, errors, i64])
    for argument, hint in zip(block.args, ("calls", "errors", "logged")):
        argument.name_hint = hint
    b = LoopBuilder(InsertPoint.at_end(block))
    calls, noted, logged = block.args
    failed = b.insert(CallOp(SUBMIT, [b.index(_address(b, calls)), logged], [i1]))
    failed.name_hint = "failed"
    note_interrupted(b, failed, noted)
    b.do(ReturnOp(failed))
    return FuncOp(HAND_OVER, ([a.type for a in block.args], [i1]), Region(block), "private")
