"""What a test does about code that this processor cannot run."""

from __future__ import annotations

import pytest

from openinfer.runtime.devices.cpu.support import host_can_run
from openinfer.runtime.target import TargetDescription


def skip_unless_it_runs(target: str | TargetDescription) -> None:
    """Skips the rest of a test, which has compiled and linked its code by now."""
    if (reason := host_can_run(target)) is not None:
        pytest.skip(f"compiled and linked, not run: {reason}")
