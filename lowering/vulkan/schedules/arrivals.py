"""Which of several workgroups comes last: what they have left in memory together is its to finish.

    gpu.barrier {openinfer.of_device}                    // what this one has written is there for others
    %before = memref.atomic_rmw addi %one, %counts[%n]   // one invocation
    %last = arith.cmpi eq, %before, …
    …                                                    // 0 again, where it is the last one
    gpu.barrier {openinfer.of_device}                    // what the others have written is there for this one

Nobody waits for another workgroup, so that it does not matter in which order a device starts them. Counts
are zeros when a kernel begins, and when it has ended; kernels behind each other use the same ones.
"""

from __future__ import annotations

from xdsl.dialects.arith import ExtUIOp
from xdsl.dialects.builtin import IntegerAttr, MemRefType, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.memref import ATOMIC_KINDS, AtomicRMWOp
from openinfer.lowering.kernels.builder import Index
from openinfer.lowering.kernels.numeric import index_to
from openinfer.lowering.step_arguments import StepArguments, add_arguments
from openinfer.lowering.vulkan.schedules.workgroup import (
    Workgroup,
    device_barrier,
    shared_buffer,
)
from openinfer.runtime.manifest import DEVICE_COUNTS
from openinfer.runtime.slots import Slot, SlotKind

COUNTS = MemRefType(i32, [DEVICE_COUNTS])
"""The numbers of a step, for all of its kernels."""


def counts_of(step: FuncOp) -> SSAValue:
    """The numbers that workgroups count each other with, an argument of the step."""
    found = StepArguments(step).get(SlotKind.DEVICE_COUNTS)
    if found is None:
        (found,) = add_arguments(step, [(Slot(SlotKind.DEVICE_COUNTS), COUNTS)])
    return found


def is_last(group: Workgroup, counts: SSAValue, number: Index, count: Index) -> SSAValue:
    """Whether a workgroup is the last of `count`, which count each other with the one of a number.

    All invocations of the workgroup come here, once for a kernel."""
    b = group.b
    told = shared_buffer(b, i32, [1], "told")

    def arrive() -> None:
        kind = IntegerAttr(ATOMIC_KINDS.index("addi"), i64)
        update = AtomicRMWOp.build(
            operands=[b.constant(1, i32), counts, [b.index(number)]],
            result_types=[i32],
            properties={"kind": kind},
        )
        before = b.insert(update)
        before.name_hint = "before"
        last = b.compare("eq", before, index_to(b, b.index(b.minus(count, 1)), i32))
        b.when(last, lambda: b.store(b.constant(0, i32), counts, [number]))
        b.store(b.insert(ExtUIOp(last, i32)), told, [0])

    device_barrier(b)
    b.when(b.compare("eq", group.thread, 0), arrive)
    device_barrier(b)
    return b.compare("ne", b.load(told, [0]), b.constant(0, i32))
