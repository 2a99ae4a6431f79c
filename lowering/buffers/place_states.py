"""Which persistent values lie in the memory of the device: those that its kernels work with."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import element_type, is_packed, memory_type
from openinfer.lowering.buffers.uses import machine_of, memory_of, root_of, users
from openinfer.lowering.interface import as_attribute, read_rows
from openinfer.lowering.places import DEVICE, MEMORY
from openinfer.lowering.step_arguments import StepArguments, add_arguments
from openinfer.runtime.manifest import StateRow
from openinfer.runtime.slots import THERE, Slot, SlotKind

StateOp = nn.StateViewOp | nn.StatePlaceOp | nn.StateLoadOp | nn.StateWriteOp | nn.StateResetOp


def place_states(module: ModuleOp, step: FuncOp, checks: Collection[Operation] = ()) -> None:
    """Puts persistent values into device memory, where device kernels compute or read them.

    A value that does not grow: where the device computes what is committed, and nothing but the device
    reads it. A growing state: where at least as many buffers of the device as of the host come from it or
    go to it. Their ops say so (`openinfer.memory`), and the arguments of the step that they lie behind.
    Packed elements stay with the host. `checks` read what lies on either machine: they count for neither.

    Requires: the buffers of device kernels marked, mirrors not made.
    """
    rows = read_rows(module, "states", StateRow)
    there = {row.name for row in rows if _is_there(row, step, checks)}
    if not there:
        return
    for op in step.walk():
        if isinstance(op, StateOp | nn.CommitOp) and op.state.data in there:
            op.attributes[MEMORY] = StringAttr(DEVICE)
    _move_arguments(step, there)
    rows = [replace(row, device=row.name in there) for row in rows]
    if any(row.axes and row.device for row in rows):
        octets = MemRefType(IntegerType(8), [DYNAMIC_INDEX])
        add_arguments(step, [(Slot(SlotKind.DEVICE_LOG), octets)])
    nn.update_interface(module, {"states": as_attribute(rows)})


def _is_there(row: StateRow, step: FuncOp, checks: Collection[Operation]) -> bool:
    if is_packed(memory_type(element_type(row.dtype))):
        return False
    decide = _grows_there if row.axes else _is_held_there
    return decide(row.name, step, checks)


def _grows_there(name: str, step: FuncOp, checks: Collection[Operation]) -> bool:
    """Whether at least as many buffers of the device as of the host come from a state or go to it."""
    device = host = 0
    for op in step.walk():
        if isinstance(op, StateOp) and op.state.data == name:
            for machine in _machines(op, checks):
                if machine == DEVICE:
                    device += 1
                else:
                    host += 1
    return 0 < device >= host


def _machines(op: StateOp, checks: Collection[Operation]) -> Iterator[str]:
    """The machines that work with what an op reads or writes of a state."""
    match op:
        case nn.StateViewOp() | nn.StatePlaceOp():
            yield from {machine_of(user) for user in users(op.view) if user not in checks}
        case nn.StateLoadOp():
            yield memory_of(root_of(op.target))
        case nn.StateWriteOp():
            yield memory_of(root_of(op.value))
        case _:
            pass


def _is_held_there(name: str, step: FuncOp, checks: Collection[Operation]) -> bool:
    """Whether the device computes what is committed, and nothing but the device reads it."""
    argument = StepArguments(step).of(SlotKind.HELD, name)
    commits = [op for op in step.walk() if isinstance(op, nn.CommitOp) and op.state.data == name]
    if not commits or any(memory_of(root_of(op.value)) != DEVICE for op in commits):
        return False
    others = [user for user in users(argument) if user not in checks]
    return all(_is_device_use(user, argument) for user in others)


def _is_device_use(op: Operation, argument: SSAValue) -> bool:
    if isinstance(op, memref.CopyOp) and root_of(op.source) is argument:
        return memory_of(root_of(op.destination)) == DEVICE
    return machine_of(op) == DEVICE


def _move_arguments(step: FuncOp, there: set[str]) -> None:
    """The arguments that these variables lie behind are of the device."""
    assert step.arg_attrs is not None
    attributes = list(step.arg_attrs)
    for argument, slot in zip(step.body.block.args, nn.slots_of(step)):
        if slot is not None and slot.name in there and slot.kind in THERE:
            moved = Slot(THERE[slot.kind], slot.name)
            attributes[argument.index] = nn.argument_row(moved)
    step.properties["arg_attrs"] = ArrayAttr(attributes)
