"""The devices of this build: a name, and the module and class behind it. Nothing is imported before a
device is asked for."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from openinfer.runtime.errors import UnsupportedError

if TYPE_CHECKING:
    from openinfer.runtime.devices.base import Device

DEVICES: dict[str, str] = {
    "cpu": "openinfer.runtime.devices.cpu.device:CpuDevice",
    "null": "openinfer.runtime.devices.null.device:NullDevice",
    "vulkan": "openinfer.runtime.devices.vulkan.device:VulkanDevice",
}
"""By name; the first one is what programs are compiled for unless another one is named."""

DEFAULT_DEVICE = next(iter(DEVICES))
SIMULATOR = "simulator"
"""What the tools take in place of a device where they run a program without compiling it."""


def kind_of(name: str) -> str:
    """The row of the table that a name means: `vulkan` of `vulkan:1`."""
    return str(name).partition(":")[0]


def checked_device(name: str, *, simulator: bool = False) -> str:
    """The name itself, when there is such a device (or the simulator, where it may be).

    `KIND:WHICH` is one of several devices of a kind; whether it is there, the kind says when it is
    needed. Raises UnsupportedError OI0730 with the names that there are.
    """
    known = [*DEVICES, SIMULATOR] if simulator else list(DEVICES)
    if name in known:
        return name
    kind, colon, which = str(name).partition(":")
    if colon and kind in DEVICES:
        _loaded(DEVICES[kind]).one(which)
        return name
    from openinfer.runtime.suggest import did_you_mean

    guess = did_you_mean(str(name), known, quote="'")
    raise UnsupportedError(
        "OI0730",
        f"there is no device '{name}'",
        hint=f"{guess}the devices are: {', '.join(known)}",
    )


@cache
def _loaded(entry: str) -> Device:
    from importlib import import_module

    module, _, name = entry.partition(":")
    return getattr(import_module(module), name)()


def device_of(name: str) -> Device:
    """The device of a name. Raises UnsupportedError OI0730 for one that this build lacks."""
    kind, colon, which = checked_device(name).partition(":")
    device = _loaded(DEVICES[kind])
    return device.one(which) if colon else device


def expect(name: str) -> None:
    """A program will be compiled for a device: see `Device.expect`. What is wrong with the name is said when
    it is asked for."""
    try:
        device_of(name).expect()
    except UnsupportedError:
        return
