"""What a row was measured with: device, driver, clock, commit."""

from __future__ import annotations

import datetime
import shutil
import subprocess
from typing import Any

from benchmarks.environment import commit
from openinfer.runtime.devices.vulkan.driver import PhysicalDevice, choose
from openinfer.runtime.devices.vulkan.properties import facts_of


def physical(device: str) -> PhysicalDevice:
    """The device that a name like `vulkan:1` means."""
    return choose(device.partition(":")[2])


def describe(device: str) -> dict[str, Any]:
    """What every row says."""
    found = physical(device)
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": found.name,
        "driver": facts_of(found)["driver"],
        "software": found.software,
        "commit": commit(),
    }


def clock() -> float | None:
    """The clock of the multiprocessors in MHz, where NVIDIA's tool says it."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    asked = [tool, "--query-gpu=clocks.sm", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=10)
        return float(done.stdout.splitlines()[0])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
