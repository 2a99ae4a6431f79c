"""Kernels that a second process lowers: the same program, whatever becomes of that process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openinfer.compiler.backends import forked
from openinfer.runtime.host import cpu_unavailable_reason

ROOT = Path(__file__).parents[2]

SCRIPT = """
import hashlib, json, os, signal, sys, threading, time

import openinfer as oi
from openinfer.compiler import compile as compiling
from openinfer.compiler.backends import cpu, forked
from openinfer.lowering.cpu import emit_llvm, partition_kernels

os.environ["OPENINFER_CACHE"] = "off"
# A test run in the background of a shell ignores Ctrl-C, and so would its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
# A small program is worth it, and the child gets all of its kernels.
partition_kernels.WORTH = 0
partition_kernels.BESIDE = 10**6
model = oi.open_model("examples/mlp.oinf")
forks, real_fork = [], os.fork

def fork():
    forks.append(None)
    return real_fork()

os.fork = fork
found = {}
tries, lowered = [], compiling._lowered

def counted(*given, **options):
    tries.append(None)
    return lowered(*given, **options)

compiling._lowered = counted

def children():
    try:
        os.waitpid(-1, os.WNOHANG)
        return True
    except ChildProcessError:
        return False

def compiled(name, processes="2", text="mlp", package=model):
    os.environ["OPENINFER_COMPILE_PROCESSES"] = processes
    forks.clear()
    tries.clear()
    try:
        program = oi.compile(oi.graph_file(f"examples/{text}.oi"), package)
        result = hashlib.sha256(program.to_bytes()).hexdigest()
    except KeyboardInterrupt:
        result = "interrupted"
    found[name] = [result, len(forks), children(), len(tries)]

compiled("alone", "1")
compiled("two")
compiled("three", "3")

begin = cpu._Begun._lowered_here
def ended(*_):
    os._exit(1)
cpu._Begun._lowered_here = ended
compiled("lost at once")

def until(count):
    def part(self, *given):
        *given, tell = given
        told = []
        def counted(message):
            if len(told) == count:
                os._exit(1)
            told.append(None)
            tell(message)
        begin(self, *given, counted)
        os._exit(1)
    return part
cpu._Begun._lowered_here = until(1)
compiled("lost behind the facts")
cpu._Begun._lowered_here = until(2)
compiled("lost behind the names")

def wrong(self, *_):
    raise RuntimeError("a mistake of the compiler's")
cpu._Begun._lowered_here = wrong
compiled("failed")

cpu._Begun._lowered_here = begin

def full():
    forks.append(None)
    raise BlockingIOError
os.fork = full
compiled("no room")
os.fork = fork

pipe = os.pipe
def no_files():
    raise OSError(24, "Too many open files")
os.pipe = no_files
compiled("no pipe")
os.pipe = pipe

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def interrupted_fork():
    pid = fork()
    if pid:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
    return pid

def compiled_interrupted(name):
    open_before = descriptors()
    os.fork = interrupted_fork
    compiled(name)
    os.fork = fork
    as_before = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    found[name] += [descriptors() - open_before, as_before, len(blocked)]

compiled_interrupted("interrupted at the fork")
# The thread for progress, as any other one, takes signals that are blocked in the main thread alone.
stop = threading.Event()
thread = threading.Thread(target=stop.wait, name="openinfer-progress")
thread.start()
compiled_interrupted("interrupted beside progress")
stop.set()
thread.join()

stop = threading.Event()
thread = threading.Thread(target=stop.wait)
thread.start()
compiled("beside a thread")
stop.set()
thread.join()

# A step that looks at its data hands kernels to the team, which have two forms.
partition_kernels.BESIDE = 3000
for processes in ("1", "2", "4"):
    compiled(f"decoder {processes}", processes, "decoder", oi.open_model("examples/decoder.oinf"))

rest = emit_llvm.Texts.rest
def interrupted(*_):
    raise KeyboardInterrupt
emit_llvm.Texts.rest = interrupted
compiled("interrupted")
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    if cpu_unavailable_reason() is not None:
        pytest.skip("machine code is made on Linux alone")
    command = [sys.executable, "-W", "error::DeprecationWarning", "-c", SCRIPT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    # What a child leaves behind in stderr or stdout is seen by the user.
    assert not done.stderr
    return json.loads(done.stdout)


def test_one_process_does_not_fork(found: dict[str, Any]) -> None:
    assert found["alone"][1:] == [0, False, 1]


CASES = {
    "two": (1, 1),
    "three": (1, 1),
    "lost at once": (1, 2),
    "lost behind the facts": (1, 2),
    "lost behind the names": (1, 2),
    "failed": (1, 2),
    "no room": (1, 1),
}
"""How many children are begun, and how often the program is compiled."""


@pytest.mark.parametrize("case", CASES)
def test_the_program_is_the_same(found: dict[str, Any], case: str) -> None:
    assert found[case] == [found["alone"][0], CASES[case][0], False, CASES[case][1]]


@pytest.mark.parametrize(("processes", "forks"), [(2, 1), (4, 2)])
def test_a_program_whose_kernels_have_two_forms(
    found: dict[str, Any], processes: int, forks: int
) -> None:
    assert found[f"decoder {processes}"] == [found["decoder 1"][0], forks, False, 1]


def test_no_fork_beside_other_threads(found: dict[str, Any]) -> None:
    assert found["beside a thread"] == [found["alone"][0], 0, False, 1]


def test_an_interrupt_leaves_no_child(found: dict[str, Any]) -> None:
    assert found["interrupted"] == ["interrupted", 1, False, 1]


@pytest.mark.parametrize("case", ["interrupted at the fork", "interrupted beside progress"])
def test_an_interrupt_at_the_fork(found: dict[str, Any], case: str) -> None:
    """It leaves no child and no open file, and signals as they were."""
    assert found[case] == ["interrupted", 1, False, 1, 0, True, 0]


def test_no_room_for_another_file(found: dict[str, Any]) -> None:
    assert found["no pipe"] == [found["alone"][0], 0, False, 1]


def test_no_fork_with_devices_and_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vulkan", sys)
    assert not forked.may_fork()
