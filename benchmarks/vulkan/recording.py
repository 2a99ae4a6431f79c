"""What recording costs: the commands of a step by the runtime, and the same dispatches by a native loop."""

from __future__ import annotations

import ctypes
import time
from statistics import median
from typing import Any, Final

import llvmlite.binding as llvm
import numpy as np

import openinfer as oi
from benchmarks.vulkan.chains import Chain
from openinfer.runtime.devices.vulkan.driver import api
from openinfer.runtime.devices.vulkan.hazards import Hazards, Range
from openinfer.runtime.devices.vulkan.native_recording import Packed
from openinfer.runtime.devices.vulkan.pieces import GROUPS
from openinfer.runtime.devices.vulkan.step import NUMBERS, DeviceStep

ROUNDS: Final = 40
_ACCESSES: Final = 0x20 | 0x40 | 0x800 | 0x1000
_FUNCTIONS: Final = (
    "vkCmdPipelineBarrier",
    "vkCmdBindPipeline",
    "vkCmdPushDescriptorSetKHR",
    "vkCmdPushConstants",
    "vkCmdDispatchIndirect",
)
_ROW: Final = 8
"""Words of a dispatch: pipeline, layout, descriptors and where they are, the buffer with its numbers and the
place there, its push constant, whether a barrier stands in front of it."""
_LOOP: Final = """
define void @record(ptr %commands, ptr %rows, i64 %count, ptr %functions, ptr %barrier) {
entry:
  %f1 = getelementptr ptr, ptr %functions, i64 1
  %f2 = getelementptr ptr, ptr %functions, i64 2
  %f3 = getelementptr ptr, ptr %functions, i64 3
  %f4 = getelementptr ptr, ptr %functions, i64 4
  %wait = load ptr, ptr %functions
  %bind = load ptr, ptr %f1
  %give = load ptr, ptr %f2
  %push = load ptr, ptr %f3
  %start = load ptr, ptr %f4
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %launch ]
  %at = mul i64 %i, 8
  %row = getelementptr i64, ptr %rows, i64 %at
  %p1 = getelementptr i64, ptr %row, i64 1
  %p2 = getelementptr i64, ptr %row, i64 2
  %p3 = getelementptr i64, ptr %row, i64 3
  %p4 = getelementptr i64, ptr %row, i64 4
  %p5 = getelementptr i64, ptr %row, i64 5
  %p6 = getelementptr i64, ptr %row, i64 6
  %p7 = getelementptr i64, ptr %row, i64 7
  %pipeline = load i64, ptr %row
  %layout = load i64, ptr %p1
  %many = load i32, ptr %p2
  %writes = load ptr, ptr %p3
  %buffer = load i64, ptr %p4
  %place = load i64, ptr %p5
  %waits = load i64, ptr %p7
  %none = icmp eq i64 %waits, 0
  br i1 %none, label %launch, label %barred
barred:
  call void %wait(ptr %commands, i32 6144, i32 6144, i32 0, i32 1, ptr %barrier, i32 0, ptr null, i32 0, ptr null)
  br label %launch
launch:
  call void %bind(ptr %commands, i32 1, i64 %pipeline)
  call void %give(ptr %commands, i32 1, i64 %layout, i32 0, i32 %many, ptr %writes)
  call void %push(ptr %commands, i64 %layout, i32 32, i32 0, i32 4, ptr %p6)
  call void %start(ptr %commands, i64 %buffer, i64 %place)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""  # noqa: E501


def recorded(program: oi.Program, chain: Chain) -> dict[str, Any]:
    """Seconds of a command that the runtime records, those of its row, which is worked out once, and of a
    dispatch of the native loop."""
    found: dict[str, Any] = {}
    original: Any = DeviceStep._record

    def watched(step: Any) -> Any:
        recording = original(step)
        if not found:
            found.update(_times(step, original))
        return recording

    DeviceStep._record = watched
    try:
        with program.make_executor() as executor:
            executor.run(**chain.inputs())
    finally:
        DeviceStep._record = original
    return found


def _times(step: Any, record: Any) -> dict[str, Any]:
    commands = sum(len(asked.piece.calls) - len(asked.straight) for asked in step._asked)
    ours: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        recording = record(step)
        ours.append(time.perf_counter() - start)
        step._pool.free(recording)
    made: list[float] = []
    for _ in range(ROUNDS if step.device.native is not None else 0):
        start = time.perf_counter()
        for asked in step._asked:
            commands_of = step._commands.of(asked, asked.piece.calls, step._staging)
            Packed(commands_of, step._numbers, step._staging)
        made.append(time.perf_counter() - start)
    rows, kept = _rows(step)
    loop = NativeLoop(step.device.handle)
    native: list[float] = []
    for _ in range(ROUNDS):
        recording = step._pool.record()
        start = time.perf_counter()
        loop.record(recording.handle[0], rows)
        native.append(time.perf_counter() - start)
        recording.end()
        step._pool.free(recording)
    del kept
    return {
        "seconds": median(ours) / commands,
        "rows": median(made) / commands if made else 0.0,
        "native": median(native) / len(rows),
        "commands": commands,
        "dispatches": len(rows),
    }


def _rows(step: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """The dispatches of what a step asked for, and what keeps their descriptors alive."""
    vk = api()
    ffi = vk.ffi
    rows: list[list[int]] = []
    kept: list[Any] = []
    hazards = Hazards()
    for asked in step._asked:
        for _, launches in asked.piece.runs:
            for call in launches:
                place = asked.numbers + call.numbers
                own = [*step._commands.ranges(asked.piece, call)]
                ranges = [Range(step._numbers, 0, 4 * NUMBERS, False), *own]
                infos = ffi.new("VkDescriptorBufferInfo[]", len(ranges))
                writes = ffi.new("VkWriteDescriptorSet[]", len(ranges))
                for number, one in enumerate(ranges):
                    infos[number].buffer, infos[number].offset = one.buffer.buffer, one.start
                    infos[number].range = one.stop - one.start
                    writes[number].sType = vk.VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET
                    writes[number].dstBinding, writes[number].descriptorCount = number, 1
                    writes[number].descriptorType = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
                    writes[number].pBufferInfo = infos + number
                kept += [infos, writes]
                kernel = step.kernels[call.row.kernel]
                row = [_number(kernel.pipeline), _number(kernel.layout), len(ranges)]
                row += [_number(writes), _number(step._numbers.buffer), 4 * place, place + GROUPS]
                rows.append([*row, int(hazards.needs_barrier(ranges))])
    return np.array(rows, np.int64).reshape(-1, _ROW), kept


def _number(handle: Any) -> int:
    return int(api().ffi.cast("uintptr_t", handle))


class NativeLoop:
    """Machine code that calls the driver, without its loader in between."""

    def __init__(self, device: Any) -> None:
        vk = api()
        ffi = vk.ffi
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_LOOP), machine)
        self._engine.finalize_object()
        address = self._engine.get_function_address("record")
        kinds = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
        self._record = ctypes.CFUNCTYPE(None, *kinds)(address)
        found = [vk.lib.vkGetDeviceProcAddr(device, name.encode()) for name in _FUNCTIONS]
        self._functions = np.array([_number(one) for one in found], np.int64)
        self._barrier = ffi.new("VkMemoryBarrier *")
        self._barrier.sType = vk.VK_STRUCTURE_TYPE_MEMORY_BARRIER
        self._barrier.srcAccessMask = self._barrier.dstAccessMask = _ACCESSES

    def record(self, commands: Any, rows: np.ndarray[Any, Any]) -> None:
        """Records dispatches one behind the other."""
        self._record(
            _number(commands),
            rows.ctypes.data,
            len(rows),
            self._functions.ctypes.data,
            _number(self._barrier),
        )
