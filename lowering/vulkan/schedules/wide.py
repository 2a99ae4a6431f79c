"""Neighbouring elements in one access of memory, of 4, 8 or 16 bytes.

A kernel may count on it where every call passes a buffer that begins at a multiple of 16 (`mark_aligned`),
and the last extent of the buffer is a multiple of the access.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    FixedBitwidthType,
    IntegerAttr,
    MemRefType,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.buffers.uses import SAME_MEMORY
from openinfer.lowering.facts import Facts
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.places import EXACT

BYTES = 16
"""Of the widest access, and of the places that buffers begin at."""
ALIGNED = "openinfer.aligned"
"""On the op of a kernel: the numbers of its operands that begin at a multiple of `BYTES`."""


def mark_aligned(kernel: Operation, function: FuncOp, calls: Sequence[CallOp]) -> None:
    """Writes down which operands of the op of a kernel are aligned in all calls."""
    block = function.body.block
    arguments: dict[SSAValue, int] = {a: number for number, a in enumerate(block.args)}
    found: list[int] = []
    for number, operand in enumerate(kernel.operands):
        place = arguments.get(operand)
        if place is None or not isinstance(operand.type, MemRefType):
            continue
        if is_packed(operand.type.element_type):
            continue
        if all(_begins_at(call.operands[place], BYTES) for call in calls):
            found.append(number)
    kernel.attributes[ALIGNED] = DenseArrayBase.from_list(i64, found)


def mark_exact(function: FuncOp, calls: Sequence[CallOp], moving: SSAValue | None) -> None:
    """Writes down which arguments of a kernel are bound where they begin: those that begin at a multiple of
    what the device asks for in all calls, and lie at the same place in every step. `moving`: an arena that
    does not, as its size depends on sizes that only a step knows."""
    unit = Facts.of(function).device_description.alignment
    found = [
        number
        for number, argument in enumerate(function.body.block.args)
        if isinstance(argument.type, MemRefType)
        and all(_stays(call.operands[number], unit, moving) for call in calls)
    ]
    if found:
        function.attributes[EXACT] = DenseArrayBase.from_list(i64, found)


def _begins_at(buffer: SSAValue, unit: int) -> bool:
    """Whether a buffer of a step begins at a multiple: arenas, weights and states do."""
    root, shifts = _place_of(buffer)
    return root is not None and all(_is_multiple(shift, unit) for shift in shifts)


def _stays(buffer: SSAValue, unit: int, moving: SSAValue | None) -> bool:
    """Whether it does, and lies at the same place in every step."""
    root, shifts = _place_of(buffer)
    if not isinstance(root, BlockArgument) or root is moving:
        return False
    return all(_is_multiple(shift, unit) and _is_same(shift) for shift in shifts)


def _place_of(buffer: SSAValue) -> tuple[SSAValue | None, list[SSAValue]]:
    """What a buffer is a part of, and how far behind its beginning the part begins; None where that is not
    known."""
    shifts: list[SSAValue] = []
    while isinstance(owner := buffer.owner, SAME_MEMORY):
        if isinstance(owner, nn.ViewOp | memref.ReinterpretCastOp):
            return None, []
        if isinstance(owner, memref.ViewOp):
            shifts.append(owner.byte_shift)
        buffer = owner.operands[0]
    known = isinstance(buffer.owner, Block | memref.AllocOp | memref.AllocaOp)
    return (buffer if known else None), shifts


def _is_same(value: SSAValue) -> bool:
    """Whether a number is the same in every step: in a loop, in each of its turns."""
    owner = value.owner
    if isinstance(owner, Block):
        return isinstance(owner.parent_op(), scf.ForOp) and owner.args[0] is value
    if isinstance(owner, nn.SizeOp):
        return owner.size.data.constant is not None
    if isinstance(owner, arith.MuliOp | arith.AddiOp):
        return all(map(_is_same, owner.operands))
    return isinstance(owner, arith.ConstantOp)


def _is_multiple(value: SSAValue, unit: int) -> bool:
    owner = value.owner
    if isinstance(owner, nn.SizeOp):
        return owner.size.data.is_multiple_of(unit)
    if isinstance(owner, arith.ConstantOp):
        return isinstance(owner.value, IntegerAttr) and owner.value.value.data % unit == 0
    if isinstance(owner, arith.MuliOp):
        return any(_is_multiple(operand, unit) for operand in owner.operands)
    if isinstance(owner, arith.AddiOp):
        return all(_is_multiple(operand, unit) for operand in owner.operands)
    return False


def aligned_operands(op: Operation) -> frozenset[int]:
    """The operands that begin at a multiple of `BYTES` in all calls of a kernel, by number."""
    marked = op.attributes.get(ALIGNED)
    if not isinstance(marked, DenseArrayBase):
        return frozenset()
    return frozenset(int(number) for number in marked.get_values())


def is_width(buffer: SSAValue, lanes: int) -> bool:
    """Whether `lanes` elements of a buffer are one access."""
    return lanes * width(buffer) // 8 in (4, 8, 16)


def is_multiple(buffer: SSAValue, lanes: int) -> bool:
    """Whether the last extent of a buffer is a multiple of `lanes`, so that every line begins at one."""
    assert isinstance(buffer.type, MemRefType)
    last = buffer.type.get_shape()[-1:]
    return bool(last) and last[0] != DYNAMIC_INDEX and last[0] % lanes == 0


def width(buffer: SSAValue) -> int:
    """Bits of an element."""
    assert isinstance(buffer.type, MemRefType)
    element = buffer.type.element_type
    assert isinstance(element, FixedBitwidthType)
    return element.bitwidth


def load_wide(
    b: LoopBuilder, buffer: SSAValue, place: Sequence[Index], lanes: int
) -> list[SSAValue]:
    """Neighbours along the last axis, one by one; several accesses where one is not wide enough."""
    if lanes == 1:
        return [b.load(buffer, place)]
    assert isinstance(buffer.type, MemRefType)
    element = buffer.type.element_type
    most = min(lanes, BYTES * 8 // width(buffer))
    values: list[SSAValue] = []
    for start in range(0, lanes, most):
        at = [*place[:-1], b.add(place[-1], start)] if start else place
        found = b.vload(buffer, at, most)
        values += [b.insert(vector.ExtractOp(found, [lane], element)) for lane in range(most)]
    return values


def store_wide(
    b: LoopBuilder, values: Sequence[SSAValue], buffer: SSAValue, place: Sequence[Index]
) -> None:
    """Stores neighbours along the last axis."""
    if len(values) == 1:
        b.store(values[0], buffer, place)
        return
    b.vstore(b.from_elements(values), buffer, place)


def common_lanes(op: Operation, buffers: Sequence[SSAValue]) -> int:
    """How many neighbours along the last axis of some operands of an op are one access; 1 where that is not
    possible for all of them."""
    aligned, operands = aligned_operands(op), list(op.operands)
    lanes = BYTES * 8 // max(map(width, buffers))
    fits = lanes > 1 and all(
        operands.index(buffer) in aligned and is_multiple(buffer, lanes) and is_width(buffer, lanes)
        for buffer in buffers
    )
    return lanes if fits else 1


def joint_lanes(op: Operation, buffers: Sequence[SSAValue]) -> int:
    """How many neighbours along the last axis of some operands of an op are read together: as many as are
    one access of the narrowest, and a few of the others; 1 where that is not possible for all of them."""
    aligned, operands = aligned_operands(op), list(op.operands)
    lanes = BYTES * 8 // min(map(width, buffers))
    fits = lanes > 1 and all(
        operands.index(buffer) in aligned and is_multiple(buffer, lanes) for buffer in buffers
    )
    return lanes if fits else 1
