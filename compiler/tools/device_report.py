"""What can run programs here: a row per device, with the reason where one cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """Every device of this build; the simulator needs no more than the compiler's library."""
    return [_cpu(), _simulator()]


def _simulator() -> DeviceReport:
    from openinfer.compiler.arguments import require_compiler

    try:
        require_compiler()
    except UnsupportedError as error:
        return DeviceReport("simulator", f"{error.message}: {error.hint}")
    return DeviceReport("simulator", facts={"kind": "NumPy, the reference semantics"})


def _cpu() -> DeviceReport:
    from openinfer.runtime.host import cpu_unavailable_reason
    from openinfer.runtime.options import default_threads, host_kind

    reason = cpu_unavailable_reason()
    if reason is not None:
        return DeviceReport("cpu", reason)
    try:
        import llvmlite
        from llvmlite import binding
    except (ImportError, OSError) as error:
        return DeviceReport("cpu", f"llvmlite cannot be imported ({error}): pip install llvmlite")
    from openinfer.runtime.devices.cpu_codegen import host_cpu

    cpu, features = host_cpu(host_kind())
    vectors = [name for name in ("avx2", "fma", "avx512f", "avx512bf16") if features.get(name)]
    facts = {
        "cpu": cpu,
        "vectors": ", ".join(vectors) or "baseline",
        "threads": str(default_threads()),
        "llvm": ".".join(str(part) for part in binding.llvm_version_info)
        + f" (llvmlite {llvmlite.__version__})",
    }
    return DeviceReport("cpu", None, facts)
