"""What a measurement was made with: processor, versions, commit."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.instruction_sets import HOST
from benchmarks.limits import caches
from benchmarks.peers import PEERS
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.target import TargetDescription, named_target

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ("numpy", "llvmlite", "xdsl")
FLAGS = ("avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "avx512_fp16", "amx_bf16")
"""Those that decide which kernels can run."""


def described(target: str) -> TargetDescription:
    """The target of that name, of which "host" is this processor."""
    return host_target() if target == HOST else named_target(target)


def describe(peers: Sequence[str], target: str = HOST) -> dict[str, Any]:
    """Everything, as JSON."""
    known = caches()
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": cpu_field("model name") or platform.processor() or platform.machine(),
        "microarchitecture": host_target().cpu,
        "flags": sorted(set(FLAGS) & set(cpu_field("flags").split())),
        "cpus": len(os.sched_getaffinity(0)),
        "caches": {"l2": known.second, "l3": known.last},
        "target": described(target).name,
        "commit": commit(),
        "system": platform.system() + " " + platform.release().partition("-")[0],
        "versions": versions(peers),
    }


def versions(peers: Sequence[str]) -> dict[str, str]:
    """What took part, by the name of its package."""
    found = {"python": platform.python_version()}
    names = dict.fromkeys([*LIBRARIES, *(PEERS[peer].distribution for peer in peers)])
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # a checkout in the path, which nobody installed
            found[name] = "not installed"
    return found


def cpu_field(name: str) -> str:
    """A line of Linux's description of the first CPU, "" elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    for line in text.splitlines():
        if line.partition(":")[0].strip() == name:
            return line.partition(":")[2].strip()
    return ""


def commit() -> str:
    """The commit of the checkout, with a + when files differ from it; "" without git."""
    try:
        head = _git("rev-parse", "--short=10", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head + ("+" if changed else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True, timeout=20
    )
    return done.stdout.strip()
