"""Runs a command while every CPU of this process has other work: `beside_busy_cpus.py COMMAND …`.

One process for each CPU counts for ever at the priority of the command. They end with it, whatever
ends it: by its exit, an interrupt, or, where this process is killed, because they look for it. They
are told its number: one that asked for its parent itself, after this process was killed, would watch
the process that adopted it.
"""

from __future__ import annotations

import os
import subprocess
import sys

_BUSY = """
import os, sys
parent = int(sys.argv[1])
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


def main(command: list[str]) -> int:
    if not command:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    cpus = len(os.sched_getaffinity(0))
    loads = [subprocess.Popen([sys.executable, "-c", _BUSY, str(os.getpid())]) for _ in range(cpus)]
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        for load in loads:
            load.kill()
        for load in loads:
            load.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
