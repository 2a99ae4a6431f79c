"""What machine this is, in a form that a cache key can hold; no library is needed for it."""

from __future__ import annotations

import hashlib
import platform
import sys
from functools import cache
from pathlib import Path

from openinfer.runtime.options import host_kind

USUAL_CACHE = 32 << 20
"""Bytes of the last cache of a processor that does not say."""


def cpu_identity() -> str:
    """A text that is equal on machines where the same machine code runs equally well.

    On Linux: architecture, model name, the instruction set flags and the last cache of the first CPU,
    and the kind that OPENINFER_HOST_FEATURES lets it appear as.
    """
    return _identity(host_kind())


@cache
def _identity(kind: str) -> str:
    lines = [f"last cache={last_cache()}"]
    if kind:
        lines.append(f"appears as={kind}")
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


@cache
def cache_sizes() -> dict[int, int]:
    """Bytes of the first CPU's data caches by level, as Linux describes them; {} where it is silent."""
    sizes: dict[int, int] = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            kind, level, text = (
                (index / name).read_text().strip() for name in ("type", "level", "size")
            )
            unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
            if kind != "Instruction":
                sizes[int(level)] = int(text.rstrip("KMG")) * unit
        except (OSError, ValueError):
            continue
    return sizes


def last_cache() -> int:
    """Bytes of the last cache that the first CPU reaches, which others may share."""
    sizes = cache_sizes()
    return sizes[max(sizes)] if sizes else USUAL_CACHE


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
