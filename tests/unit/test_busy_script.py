"""`scripts/beside_busy_cpus.py` keeps every CPU busy while a command runs, and no longer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

# What the script has started, the command itself included.
CHILDREN = """
import os, sys
parent = os.getppid()
children = open(f"/proc/{parent}/task/{parent}/children").read()
print(*(pid for pid in children.split() if int(pid) != os.getpid()), flush=True)
sys.exit(5)
"""


def works(pid: str) -> bool:
    try:
        words = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return words[0] != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_cpus_are_busy_as_long_as_the_command_runs(repository: Path) -> None:
    script = [sys.executable, repository / "scripts" / "beside_busy_cpus.py"]
    done = subprocess.run(
        [*script, sys.executable, "-c", CHILDREN], capture_output=True, text=True, check=False
    )
    assert done.returncode == 5
    loads = done.stdout.split()
    assert len(loads) == len(os.sched_getaffinity(0))
    assert not any(works(pid) for pid in loads)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_they_end_where_the_script_is_killed(repository: Path) -> None:
    command = [sys.executable, "-c", CHILDREN.replace("sys.exit(5)", "import time; time.sleep(60)")]
    script = [sys.executable, repository / "scripts" / "beside_busy_cpus.py"]
    with subprocess.Popen([*script, *command], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        loads = running.stdout.readline().split()
        sleeper = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        assert all(works(pid) for pid in loads)
        running.kill()
        for pid in set(sleeper) - set(loads):
            os.kill(int(pid), 9)
    end = time.monotonic() + 60
    while any(works(pid) for pid in loads) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(works(pid) for pid in loads)
