"""A few cases of each fault of `faults.py`; `python tests/fuzz/faults.py --count 1000` runs more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("faults.py")
KINDS = "together kills compilations damage disk memory descriptors forks"


@pytest.mark.parametrize("kind", KINDS.split())
def test_faults(kind: str) -> None:
    # Apart: forked processes start with one thread, and with memory that no other test has grown.
    count = "200" if kind == "together" else "24"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), kind, "--count", count, "--seed", "1"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert f"{kind}: " in done.stdout
