"""What a driver takes its time for begins early, and changes nothing but that."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

import openinfer as oi
from openinfer.runtime.devices import expect
from openinfer.runtime.devices.vulkan import ahead


def wait() -> None:
    end = time.monotonic() + 60
    while ahead.busy():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_it_is_busy_until_the_work_has_ended() -> None:
    go, done = threading.Event(), threading.Event()
    ahead.begin(lambda: (go.wait(60), done.set()))
    assert ahead.busy()
    go.set()
    wait()
    assert done.is_set()


def test_what_fails_is_said_to_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise oi.UnsupportedError("OI0770", "there is no driver")

    ahead.begin(fail)
    wait()
    assert capfd.readouterr().err == ""


def test_a_fork_waits_for_it() -> None:
    if not hasattr(os, "fork"):
        pytest.skip("there are no forks here")
    done: list[int] = []
    ahead.begin(lambda: (time.sleep(0.2), done.append(1)))
    child = os.fork()
    if not child:
        os._exit(0 if done and not ahead.busy() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("name", ["vulkan:", "vulkan:no such device", "volcano", "cpu"])
def test_names_are_judged_by_who_uses_them(vulkan: None, name: str) -> None:
    expect(name)
    if name == "cpu":
        return
    with pytest.raises(oi.UnsupportedError) as raised:
        oi.compile("dynamic { x: f32[2]; } block entry { return x; }", device=name)
    assert raised.value.code == ("OI0730" if name == "volcano" else "OI0771")


PROCESS = """
import threading, openinfer as oi
from openinfer.runtime.devices.vulkan import driver, logical
made = []
for owner, kind in ((driver, "Instance"), (logical, "LogicalDevice")):
    real = getattr(owner, kind)
    def make(*given, real=real, kind=kind):
        made.append((kind, threading.current_thread() is threading.main_thread()))
        return real(*given)
    setattr(owner, kind, make)
program = oi.compile("dynamic { x: f32[2]; } block entry { assign y: f32[2]; op relu(x) >> y; return y; }",
                     device="vulkan")
print(program.make_executor().run(x=[1.0, -1.0])["y"].tolist())
print(made)
"""


def test_instance_and_device_are_made_once_by_other_threads(vulkan: None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROCESS], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "[1.0, 0.0]",
        "[('Instance', False), ('LogicalDevice', False)]",
    ], done.stderr


def test_without_a_loader_the_error_is_what_it_was(vulkan: None) -> None:
    code = (
        "import sys, openinfer as oi; sys.modules['vulkan'] = None\n"
        "try:\n    oi.compile('dynamic { x: f32[2]; } block entry { return x; }', device='vulkan')"
        ".make_executor()\n"
        "except oi.UnsupportedError as error:\n    print(error.code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "OI0770\n", done.stderr
    assert done.stderr == ""
