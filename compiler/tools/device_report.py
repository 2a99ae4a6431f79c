"""What can run programs here: a row per device, with the reason where one cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from openinfer.runtime.devices import DEVICES, SIMULATOR, device_of
from openinfer.runtime.errors import UnsupportedError


@dataclass(frozen=True)
class DeviceReport:
    """One row of `openinfer devices`."""

    name: str
    reason: str | None = None
    """Why it is not available; None when it is."""
    facts: Mapping[str, str] = field(default_factory=lambda: dict[str, str]())

    @property
    def available(self) -> bool:
        return self.reason is None

    def json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "available": self.available,
            "reason": self.reason,
            "facts": dict(self.facts),
        }


def device_reports() -> list[DeviceReport]:
    """Every device of this build, those of one kind behind it; the simulator needs no more than the
    compiler's library."""
    names = [one for kind in DEVICES for one in (kind, *device_of(kind).each())]
    return [*map(_compiled, names), _simulator()]


def _simulator() -> DeviceReport:
    from openinfer.compiler.arguments import check_compiler

    try:
        check_compiler()
    except UnsupportedError as error:
        return DeviceReport(SIMULATOR, f"{error.message}: {error.hint}")
    return DeviceReport(SIMULATOR, facts={"kind": "NumPy, the reference semantics"})


def _compiled(name: str) -> DeviceReport:
    device = device_of(name)
    reason = device.unavailable_reason()
    if reason is not None:
        return DeviceReport(name, reason)
    try:
        return DeviceReport(name, facts=device.facts())
    except UnsupportedError as error:
        return DeviceReport(name, f"{error.message}: {error.hint}")
