"""The device `vulkan`: programs whose kernels a Vulkan driver runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from openinfer.runtime.devices.cpu.device import CpuDevice
from openinfer.runtime.devices.cpu.loaded import CpuProgram
from openinfer.runtime.devices.description import PLAIN, DeviceDescription
from openinfer.runtime.devices.vulkan.ahead import busy
from openinfer.runtime.devices.vulkan.driver import (
    CHOICE,
    PhysicalDevice,
    choose,
    expect_instance,
    instance,
)
from openinfer.runtime.devices.vulkan.record import SUBMIT
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.locks import new_lock
from openinfer.runtime.options import vulkan_device, vulkan_tier
from openinfer.runtime.slots import Slot, SlotKind
from openinfer.runtime.tuning_device import tiles_of

if TYPE_CHECKING:
    from openinfer.runtime.devices.base import Memory
    from openinfer.runtime.devices.vulkan.residence import Residence
    from openinfer.runtime.devices.vulkan.trace_record import VulkanTraceRecord
    from openinfer.runtime.program import Program


class VulkanDevice(CpuDevice):
    """Runs the host half of programs as the CPU does, and their kernels on a device of a driver."""

    name = "vulkan"

    def __init__(self, which: str = "") -> None:
        """`which`: a number, a part of a name, or a UUID; without it what plain `vulkan` means."""
        self.which = which
        self._others: dict[str, VulkanDevice] = {}

    def one(self, which: str) -> VulkanDevice:
        """See `Device.one`."""
        if not which.strip():
            raise UnsupportedError(
                "OI0771",
                f"'{self.name}:{which}' names no device",
                hint="write a number, a part of a name, or a UUID behind the colon: "
                "`openinfer devices` lists them",
            )
        return self._others.setdefault(which, VulkanDevice(which))

    def each(self) -> Sequence[str]:
        """See `Device.each`."""
        try:
            return [f"{self.name}:{found.number}" for found in instance().devices]
        except UnsupportedError:
            return ()

    def unavailable_reason(self) -> str | None:
        """See `Device.unavailable_reason`."""
        reason = super().unavailable_reason()
        if reason is not None:
            return reason
        try:
            choose(self.which)
        except UnsupportedError as error:
            if self.which and error.code == "OI0771":
                raise
            return f"{error.message} ({error.hint})" if error.hint else error.message
        return None

    def facts(self) -> Mapping[str, str]:
        """See `Device.facts`."""
        from openinfer.runtime.devices.vulkan.properties import facts_of

        found = choose(self.which)
        if self.which:
            return facts_of(found)
        reason = f"{CHOICE} says so" if vulkan_device() else "the first that is no processor"
        return {"means": f"{self.name}:{found.number}, {found.name}: {reason}"}

    def describe(self) -> DeviceDescription:
        """See `Device.describe`."""
        if busy():
            _import_what_runs_programs()
        try:
            found = choose(self.which)
        except UnsupportedError:
            if self.which:
                raise
            return PLAIN
        return replace(found.description.within(vulkan_tier()), tiles=tiles_of(found.name))

    def expect(self) -> None:
        """See `Device.expect`."""
        expect_instance()

    def identity(self) -> tuple[str, str]:
        """See `Device.identity`."""
        from openinfer.runtime.devices.vulkan.properties import driver_of

        found = choose(self.which)
        return found.name, driver_of(found.handle)

    def load(self, program: Program) -> VulkanProgram:
        """See `Device.load`."""
        return VulkanProgram(program, self.which)


def _import_what_runs_programs() -> None:
    """The driver is at work: meanwhile Python reads what a step needs."""
    from importlib import import_module

    from openinfer.runtime.devices.cpu.codegen import host_target

    for name in ("compiled.executor", "vulkan.residence", "vulkan.step"):
        import_module(f"openinfer.runtime.devices.{name}")
    with suppress(UnsupportedError):  # Whoever cannot do without it says so.
        host_target()


def check_subgroup(device: PhysicalDevice, subgroup: int) -> None:
    """Raises UnsupportedError OI0773 where kernels count on another size of subgroups than the device has."""
    if subgroup not in (1, device.description.subgroup):
        raise UnsupportedError(
            "OI0773",
            f"the program was compiled for subgroups of {subgroup} invocations; {device.name} has "
            f"{device.description.subgroup}",
            hint="compile it on this machine, or anywhere with OPENINFER_VULKAN_TIER=scalar",
        )


class VulkanProgram(CpuProgram):
    """The host half of a program, and what it has on the device."""

    def __init__(self, program: Program, which: str) -> None:
        from openinfer.runtime.devices.vulkan.logical import expect_device

        expect_device(which)
        from openinfer.runtime.devices.vulkan.hand_over import submit_address
        from openinfer.runtime.devices.vulkan.residence import words_of

        self._which, self._words = which, words_of(program)
        self._residence: Residence | None = None
        self._residence_lock = new_lock()
        self._records: WeakValueDictionary[int, VulkanTraceRecord] = WeakValueDictionary()
        """By their addresses."""
        check_subgroup(choose(which), program.manifest.subgroup)
        super().__init__(program, {SUBMIT: submit_address()})
        self._steps: WeakValueDictionary[int, Any] = WeakValueDictionary()
        """The device's side of steps, by the addresses of their records."""
        frame, calls = program.manifest.frame, Slot(SlotKind.CALLS)
        self._slot = frame.index(calls) if calls in frame else None
        self._there()

    def _there(self) -> Residence:
        """What it has on the device: made anew where the one that it was made for is lost."""
        from openinfer.runtime.devices.vulkan.logical import logical_device
        from openinfer.runtime.devices.vulkan.residence import Residence

        with self._residence_lock:
            if self._residence is None or self._residence.device.lifetime.lost:
                self._residence = None
                self._residence = Residence(logical_device(self._which), self._words, self.weights)
            return self._residence

    @property
    def device_memory(self) -> Memory:
        """See `LoadedProgram.device_memory`."""
        return self._there().memory

    def device_weight_address(self, number: int) -> int:
        """See `LoadedProgram.device_weight_address`: they are uploaded when a context first asks."""
        with self._residence_lock:
            return self._there().weight_address(number)

    def make_record(self) -> VulkanTraceRecord:
        """See `LoadedProgram.make_record`."""
        from openinfer.runtime.devices.vulkan.trace_record import VulkanTraceRecord

        record = VulkanTraceRecord()
        self._records[record.address] = record
        return record

    def _record_of(self, frame: Any) -> VulkanTraceRecord | None:
        """Where the steps with a frame write what they did; None for plain builds."""
        frame_slots, trace = self.manifest.frame, Slot(SlotKind.TRACE)
        return self._records[frame[frame_slots.index(trace)]] if trace in frame_slots else None

    def call(self, frame: Any) -> Callable[[], object]:
        """See `LoadedProgram.call`."""
        from openinfer.runtime.devices.vulkan.counts import add_counts
        from openinfer.runtime.devices.vulkan.noted_errors import noted_around
        from openinfer.runtime.devices.vulkan.step import DeviceStep
        from openinfer.runtime.devices.vulkan.step_clock import take_clock

        native = super().call(frame)
        if self._slot is None:
            return native
        there, rows = self._there(), list(self.manifest.calls)
        traced, clock = self._record_of(frame), take_clock()
        step = DeviceStep(there.memory, there.kernels, rows, traced, clock)
        frame[self._slot] = step.record.ctypes.data
        self._steps[step.record.ctypes.data] = step
        step.counts = add_counts(self.manifest.frame, frame, there.memory)
        return noted_around(lambda: step.run(native), self.manifest.frame, frame, there.memory)

    def kept_log(self, frame: Any) -> int | None:
        """See `LoadedProgram.kept_log`."""
        step = self._steps.get(frame[self._slot]) if self._slot is not None else None
        return None if step is None else step.kept
