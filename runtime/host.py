"""What machine this is, in a form that a cache key can hold; no library is needed for it."""

from __future__ import annotations

import hashlib
import platform
import sys
from functools import cache


@cache
def cpu_identity() -> str:
    """A text that is equal on machines where the same machine code runs equally well.

    On Linux: architecture, model name and the instruction set flags of the first CPU.
    """
    lines: list[str] = []
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.strip():
                    break
                name, _, value = line.partition(":")
                if name.strip() in ("model name", "flags", "Features", "CPU part"):
                    lines.append(f"{name.strip()}={value.strip()}")
    except OSError:
        lines.append(platform.processor())
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    return f"{platform.machine()}-{digest}"


def target_identity(target_name: str) -> str:
    """The CPU target of an artefact: `host` means this machine, other names themselves."""
    return cpu_identity() if target_name == "host" else f"{platform.machine()}-{target_name}"


def cpu_unavailable_reason() -> str | None:
    """Why the `cpu` device cannot run here, None where it can."""
    machine = platform.machine().lower()
    if sys.platform != "linux" or machine not in ("x86_64", "amd64"):
        return (
            f"the cpu device needs Linux on x86-64, this is {platform.system()} on "
            f"{platform.machine()}; the simulator runs here"
        )
    return None
