"""Options of the runtime, and the only place that reads the environment.

variable               default                meaning
OPENINFER_CACHE_DIR    $XDG_CACHE_HOME/openinfer, else ~/.cache/openinfer
                                              where compiled programs are kept: in the folder
                                              itself when it is the user's alone (mode 0700),
                                              else in its folder `openinfer-programs`
OPENINFER_CACHE        on                     "off": neither read nor write that folder
OPENINFER_CACHE_LIMIT  1024                   MiB that the folder may hold; the least recently
                                              used entries leave first
OPENINFER_THREADS      the CPUs that this process may use
                                              threads of an executor when none are asked for
OPENINFER_COMPILE_PROCESSES
                       the CPUs that this process may use, at most 4
                                              processes that lower a program; 1: none is forked
OPENINFER_TRACE        unset                  "1": log lines of what runs; "full": with shapes,
                                              dtypes and settings
OPENINFER_HOST_FEATURES
                       all that it has        "generic", "avx2" or "avx512": openinfer treats the
                                              processor as one of that kind, for tests
OPENINFER_VULKAN_DEVICE
                       the first GPU          what plain `vulkan` means: a number, a part of a name, a
                                              UUID
OPENINFER_VULKAN_VALIDATE
                       unset                  "1": Vulkan's validation layer looks at every call;
                                              "sync": at missing barriers, too
OPENINFER_VULKAN_TIER  all that the device has
                                              "scalar", "subgroup" or "matrix": kernels use no more
                                              than that, for tests
"""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from pathlib import Path
from typing import SupportsIndex

from openinfer.runtime.errors import InputError
from openinfer.runtime.quick_dataclass import dataclass

DEFAULT_CACHE_LIMIT = 1024 << 20
MAX_THREADS = 1024
"""More threads than this are a mistake: each has its own stack and its own part of the arena."""

MAX_PROCESSES = 4
"""More find little to do: few programs have more large kernels."""

TIERS = ("scalar", "subgroup", "matrix", "matrix2")
"""What kernels of a GPU are made of, least first: invocations that share memory alone; subgroups;
matrices of a subgroup; matrices of a workgroup."""

HOST_KINDS = ("generic", "avx2", "avx512")
"""The kinds of processor that OPENINFER_HOST_FEATURES may name, least first."""


@dataclass(frozen=True)
class Options:
    """What the environment says, checked."""

    cache_dir: Path
    cache_enabled: bool = True
    cache_limit: int = DEFAULT_CACHE_LIMIT
    """Bytes."""
    threads: int | None = None
    """None: as many as CPUs that this process may use."""
    trace: str = ""
    """"", "1" or "full"."""

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Options:
        """The options of a process. Raises InputError OI0530 for a value that has no meaning."""
        values = os.environ if environment is None else environment
        limit = _natural(values, "OPENINFER_CACHE_LIMIT")
        threads = _natural(values, "OPENINFER_THREADS") or None
        if threads is not None and threads > MAX_THREADS:
            raise InputError(
                "OI0530",
                f"OPENINFER_THREADS={threads} is more than {MAX_THREADS}",
                hint="set it to the number of CPUs, or leave it out",
            )
        return Options(
            cache_dir=_cache_dir(values),
            cache_enabled=_switch(values, "OPENINFER_CACHE"),
            cache_limit=DEFAULT_CACHE_LIMIT if limit is None else limit << 20,
            threads=threads,
            trace=_trace_level(values),
        )


def checked_threads(threads: object) -> int | None:
    """A number of threads as given, None for the default. Raises InputError OI0518."""
    if threads is None:
        return None
    if isinstance(threads, bool) or not isinstance(threads, SupportsIndex):
        raise InputError(
            "OI0518",
            f"threads = {threads!r} is no whole number",
            hint=f"give a number from 1 to {MAX_THREADS}, or leave it out",
        )
    number = operator.index(threads)
    if not 1 <= number <= MAX_THREADS:
        raise InputError(
            "OI0518", f"threads = {number}", hint=f"give a number from 1 to {MAX_THREADS}"
        )
    return number


def available_cpus() -> int:
    """How many CPUs this process may use: its affinity mask, not what the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_threads() -> int:
    """Threads of an executor that names no number."""
    return Options.from_environment().threads or available_cpus()


def compile_processes() -> int:
    """Processes that may lower a program. Raises InputError OI0530 for what is no number."""
    wanted = _natural(os.environ, "OPENINFER_COMPILE_PROCESSES")
    return wanted or min(available_cpus(), MAX_PROCESSES)


def host_kind() -> str:
    """The kind of processor that OPENINFER_HOST_FEATURES lets this one appear as, "" without it.

    Raises InputError OI0530 for a kind that there is not.
    """
    kind = os.environ.get("OPENINFER_HOST_FEATURES", "").strip().lower()
    if kind and kind not in HOST_KINDS:
        raise InputError(
            "OI0530",
            f"OPENINFER_HOST_FEATURES={kind} is no kind of processor",
            hint=f"set it to {', '.join(HOST_KINDS)}, or leave it out",
        )
    return kind


def vulkan_device() -> str:
    """The device that OPENINFER_VULKAN_DEVICE names, "" without it."""
    return os.environ.get("OPENINFER_VULKAN_DEVICE", "").strip()


def vulkan_validation() -> str:
    """What OPENINFER_VULKAN_VALIDATE asks for: "", "1" or "sync". Raises InputError OI0530."""
    wanted = os.environ.get("OPENINFER_VULKAN_VALIDATE", "").strip().lower()
    if wanted in ("", "0", "off"):
        return ""
    if wanted not in ("1", "sync"):
        raise InputError(
            "OI0530",
            f"OPENINFER_VULKAN_VALIDATE={wanted} is no kind of validation",
            hint="set it to 1 or sync, or leave it out",
        )
    return wanted


def vulkan_tier() -> str:
    """The most that kernels for Vulkan may use, the last of TIERS without OPENINFER_VULKAN_TIER.

    Raises InputError OI0530 for a tier that there is not.
    """
    wanted = os.environ.get("OPENINFER_VULKAN_TIER", "").strip().lower() or TIERS[-1]
    if wanted not in TIERS:
        raise InputError(
            "OI0530",
            f"OPENINFER_VULKAN_TIER={wanted} is no tier of kernels",
            hint=f"set it to {', '.join(TIERS)}, or leave it out",
        )
    return wanted


def _cache_dir(values: Mapping[str, str]) -> Path:
    chosen = values.get("OPENINFER_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    base = values.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore a relative path.
    if base and os.path.isabs(base):
        return Path(base) / "openinfer"
    home = values.get("HOME") or os.path.expanduser("~")
    return Path(home) / ".cache" / "openinfer"


def _trace_level(values: Mapping[str, str]) -> str:
    text = values.get("OPENINFER_TRACE", "").strip().lower()
    if text in ("", "off", "0", "false", "no"):
        return ""
    if text in ("1", "full"):
        return text
    raise InputError(
        "OI0530",
        f"OPENINFER_TRACE={text} is no level of detail",
        hint="set OPENINFER_TRACE=1 or full, or leave it out",
    )


def _switch(values: Mapping[str, str], name: str) -> bool:
    text = values.get(name, "").strip().lower()
    if text in ("", "on", "1", "true", "yes"):
        return True
    if text in ("off", "0", "false", "no"):
        return False
    raise InputError("OI0530", f"{name}={text} is neither on nor off", hint=f"set {name}=off or on")


def _natural(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise InputError(
            "OI0530", f"{name}={text} is not a number", hint=f"set {name} to 0, 1, 2, …"
        )
    return int(text)
