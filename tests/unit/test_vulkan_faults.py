"""What a Vulkan driver may say instead of doing its work: faults between openinfer and the loader."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from vulkan_library import Library

import openinfer as oi
from openinfer.runtime.devices.vulkan import kernels
from openinfer.runtime.devices.vulkan.driver import DEVICE_LOST, NOT_READY, TIMEOUT
from openinfer.runtime.devices.vulkan.logical import LogicalDevice, logical_device
from openinfer.runtime.errors import OpenInferError

NO_HOST_MEMORY, NO_DEVICE_MEMORY = -1, -2
PROGRAM = """
dynamic { x: f32[B, 300]; }
constant { w: f32[300, 300] @init(0.01); }
persistent { seen: i32; }
block entry {
    assign h: f32[B, 300];
    op matmul(x, w) >> h;
    op softmax(h, axis=1) >> h;
    cache.increment seen;
    return h, seen;
}
"""


def drawn(batch: int = 3, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((batch, 300), np.float32)


def expected(x: Any) -> Any:
    return oi.Simulator(PROGRAM).make_executor().run(x=x)["h"]


def program() -> oi.Program:
    return oi.compile(PROGRAM, device="vulkan")


def works(executor: Any, batch: int = 3) -> Any:
    """Whether a step is right; gives its results."""
    found = executor.run(x=drawn(batch))
    assert np.allclose(found["h"], expected(drawn(batch)), atol=1e-6)
    return found


def refusal(call: Callable[[], object]) -> OpenInferError:
    with pytest.raises(OpenInferError) as raised:
        call()
    return raised.value


def error_of(call: Callable[[], object]) -> str | None:
    """The code of what a call raises, if anything."""
    try:
        call()
    except OpenInferError as error:
        return error.code
    return None


@pytest.fixture(params=["Python", "machine code"])
def library(request: pytest.FixtureRequest) -> Library:
    """What the calls of the driver go through, whoever makes them."""
    found: Library = request.getfixturevalue(
        "python_library" if request.param == "Python" else "native_library"
    )
    return found


@pytest.fixture
def device(library: Library) -> LogicalDevice:
    """One that nobody else has, so that all of it can end."""
    logical_device().lose()
    return logical_device()


def answers(library: Library, call: str, result: int, after: int = 0) -> None:
    """The driver gives `result` for a call, behind so many that it does as ever."""
    real, count = getattr(library.lib, call), [0]

    def replaced(*given: Any) -> int:
        count[0] += 1
        return real(*given) if count[0] <= after else result

    library.replaced[call] = replaced


# Devices that are lost


@pytest.mark.parametrize("call", ["vkQueueSubmit", "vkWaitForFences"])
def test_a_program_goes_on_with_a_new_device(
    library: Library, device: LogicalDevice, call: str
) -> None:
    """Its kernels and weights are made anew; what an executor had on the old one is gone."""
    there = program()
    executor: Any = there.make_executor()
    works(executor)
    answers(library, call, DEVICE_LOST)
    error = refusal(partial(executor.run, x=drawn()))
    assert error.code == "OI0774"
    assert error.message == f"{call}: device lost"
    assert "make a new executor" in str(error)
    library.replaced.clear()
    assert logical_device() is not device
    for _ in range(2):
        error = refusal(partial(executor.run, x=drawn()))
        assert error.code == "OI0774"
        assert "was lost in an earlier step, with what this executor kept on it" in error.message
    made = library.counts["vkCreateComputePipelines"]
    with there.make_executor() as again:
        assert works(again)["seen"] == 1
        assert library.counts["vkCreateComputePipelines"] > made
        # The step that failed is none: its state is that of the step before it.
        assert executor.fetch("seen") == 1


def test_everything_of_a_lost_device_is_freed(library: Library, device: LogicalDevice) -> None:
    """Each object once, the device at last, when nobody has anything on it any more."""
    there = program()
    executor: Any = there.make_executor()
    works(executor)
    ended: list[str] = []
    watch(library, device, ended)
    answers(library, "vkQueueSubmit", DEVICE_LOST)
    refusal(partial(executor.run, x=drawn()))
    library.replaced.pop("vkQueueSubmit")
    assert "vkDestroyDevice" not in ended
    with there.make_executor() as again:
        works(again)
    ended.clear()
    executor.close()
    del executor, again
    gc.collect()
    assert ended.count("vkDestroyDevice") == 1
    assert ended[-1] == "vkDestroyDevice"
    for name in (
        "Buffer",
        "Pipeline",
        "PipelineLayout",
        "DescriptorSetLayout",
        "CommandPool",
        "Fence",
    ):
        assert f"vkDestroy{name}" in ended
    assert "vkFreeMemory" in ended


KINDS = ["Buffer", "Pipeline", "PipelineLayout", "DescriptorSetLayout", "CommandPool", "Fence"]


def watch(library: Library, device: LogicalDevice, ended: list[str]) -> None:
    """Writes down what of a device is destroyed."""
    handle = device.handle

    def follow(name: str) -> None:
        real = getattr(library.lib, name)

        def destroy(owner: Any, *given: Any) -> None:
            if owner == handle:
                ended.append(name)
            real(owner, *given)

        library.replaced[name] = destroy

    for name in [*(f"vkDestroy{kind}" for kind in KINDS), "vkFreeMemory", "vkDestroyDevice"]:
        follow(name)


VALIDATED = """
import gc, sys, numpy as np, vulkan, openinfer as oi
from openinfer.runtime.devices.vulkan.logical import logical_device
sys.path.insert(0, sys.argv[2])
from vulkan_library import Library
from openinfer.runtime.devices.vulkan import native
library = vulkan.lib = Library(vulkan.lib)
native.address_of = library.address_of
program = oi.compile(sys.argv[1], device="vulkan")
x = np.ones((3, 300), np.float32)
for turn in range(3):
    executor = program.make_executor()
    executor.run(x=x)
    library.replaced["vkQueueSubmit"] = lambda *_: -4
    try:
        executor.run(x=x)
    except oi.OpenInferError as error:
        assert error.code == "OI0774", error
    library.replaced.clear()
program.make_executor().run(x=x)
del executor
gc.collect()
assert library.counts["vkDestroyDevice"] == 3, library.counts
"""


def test_the_layer_says_nothing_of_a_device_that_ends(vulkan: None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", VALIDATED, PROGRAM, os.path.dirname(__file__)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENINFER_VULKAN_VALIDATE": "sync"},
        check=False,
    )
    if "a layer is not present" in done.stdout + done.stderr:
        pytest.skip("the Khronos validation layer is not installed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "VUID" not in done.stdout
    assert "SYNC-" not in done.stdout


def test_work_that_hangs_keeps_what_it_uses(library: Library, device: LogicalDevice) -> None:
    """Until it ends after all; the process goes on with a new device at once."""
    there = program()
    executor: Any = there.make_executor()
    works(executor)
    ended: list[str] = []
    watch(library, device, ended)
    answers(library, "vkWaitForFences", TIMEOUT)
    answers(library, "vkGetFenceStatus", NOT_READY)
    error = refusal(partial(executor.run, x=drawn()))
    assert error.code == "OI0774"
    assert "work of more than 60 s: timeout" in error.message
    del library.replaced["vkWaitForFences"]
    with there.make_executor() as again:
        works(again)
    before = list(ended)
    executor.close()
    del executor, error
    gc.collect()
    assert ended == before
    del library.replaced["vkGetFenceStatus"]
    assert library.lib.vkDeviceWaitIdle(device.handle) == 0
    logical_device()
    del device
    gc.collect()
    assert ended[-1] == "vkDestroyDevice"


def test_a_wait_that_fails_is_a_device_that_is_lost(
    library: Library, device: LogicalDevice
) -> None:
    """Nobody knows whether the work has ended."""
    executor: Any = program().make_executor()
    works(executor)
    answers(library, "vkWaitForFences", NO_HOST_MEMORY)
    error = refusal(partial(executor.run, x=drawn()))
    assert error.message == "vkWaitForFences: out of host memory"
    assert logical_device() is not device
    library.replaced.clear()
    assert library.lib.vkDeviceWaitIdle(device.handle) == 0
    works(program().make_executor())


def test_a_step_that_is_interrupted_ends_before_the_next(python_library: Library) -> None:
    """Ctrl-C while Python waits: what the work uses stays until it has ended, and nothing is lost."""
    device = logical_device()
    executor: Any = program().make_executor()
    works(executor)
    real, waits = python_library.lib.vkWaitForFences, [0]

    def interrupted(*given: Any) -> int:
        waits[0] += 1
        if waits[0] == 1:
            raise KeyboardInterrupt
        return real(*given)

    python_library.replaced["vkWaitForFences"] = interrupted
    with pytest.raises(KeyboardInterrupt):
        executor.run(x=drawn())
    assert waits == [2]
    assert works(executor)["seen"] == 2
    assert logical_device() is device


def test_a_device_that_is_lost_while_another_thread_loads(
    library: Library, device: LogicalDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks it for pipelines has them until they are made; then it ends."""
    monkeypatch.setenv("OPENINFER_CACHE", "off")  # Kernels that are kept were checked before.
    ended: list[Any] = []
    library.replaced["vkDestroyDevice"] = lambda handle, _: ended.append(handle)
    make = kernels.check_words
    asked, lost = threading.Event(), threading.Event()

    def slowly(words: bytes) -> Any:
        asked.set()
        assert lost.wait(60)
        return make(words)

    monkeypatch.setattr(kernels, "check_words", slowly)
    errors: list[OpenInferError] = []

    def load() -> None:
        errors.append(refusal(lambda: works(program().make_executor())))

    thread = threading.Thread(target=load)
    thread.start()
    assert asked.wait(60)
    device.lose()
    gc.collect()
    handle = device.handle
    assert handle not in ended
    lost.set()
    thread.join(60)
    del device
    gc.collect()
    assert ended.count(handle) == 1
    assert [error.code for error in errors] == ["OI0774"]
    monkeypatch.undo()
    works(program().make_executor())


# Memory that is not there


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("vkAllocateMemory", "OI0604"),
        ("vkCreateBuffer", "OI0604"),
        ("vkBindBufferMemory", "OI0604"),
        ("vkMapMemory", "OI0604"),
        ("vkQueueSubmit", "OI0774"),
        ("vkAllocateCommandBuffers", "OI0774"),
        ("vkBeginCommandBuffer", "OI0774"),
        ("vkEndCommandBuffer", "OI0774"),
        ("vkCreateCommandPool", "OI0774"),
        ("vkCreateFence", "OI0774"),
    ],
)
@pytest.mark.parametrize("after", [0, 1])
def test_a_step_without_memory_leaves_the_device_as_it_was(
    library: Library, device: LogicalDevice, call: str, code: str, after: int
) -> None:
    """A larger step, which asks for more; wherever it fails, the same executor goes on."""
    executor: Any = program().make_executor()
    works(executor)
    answers(library, call, NO_DEVICE_MEMORY, after)
    rows = 1 << 12
    found = error_of(lambda: executor.run(x=drawn(rows)))
    failed = found is not None
    assert failed or after
    assert found in (None, code)
    library.replaced.clear()
    assert works(executor)["seen"] == 3 - failed
    assert logical_device() is device


@pytest.mark.parametrize("after", [0, 1, 3])
@pytest.mark.parametrize(
    "call",
    ["vkAllocateMemory", "vkCreateBuffer", "vkCreateShaderModule", "vkCreateComputePipelines"],
)
def test_a_program_that_finds_no_memory(
    library: Library, device: LogicalDevice, call: str, after: int
) -> None:
    """Loading it fails, or its first step; then it works."""
    there = program()
    answers(library, call, NO_DEVICE_MEMORY, after)
    found = error_of(lambda: works(there.make_executor()))
    assert found is not None or after
    assert found in (None, "OI0774", "OI0813", "OI0604")
    library.replaced.clear()
    works(there.make_executor())
    assert logical_device() is device


def test_weights_that_do_not_fit_say_so(library: Library, device: LogicalDevice) -> None:
    there = program()
    there.loaded()
    answers(library, "vkAllocateMemory", NO_DEVICE_MEMORY)
    error = refusal(there.make_executor)
    assert error.code == "OI0813"
    assert f"weights of the program on {device.physical.name}: " in error.message


# State that lies on the device

RING = """
dynamic { x: f32[1, 300]; at: i32; }
constant { w: f32[300, 300] @init(0.01); }
persistent { t(i): f32[300] @table; n: i32; }
block entry {
    assign h: f32[1, 300]; assign all: f32[at + 1, 300]; assign y: f32[1, 300];
    op matmul(x, w) >> h;
    cache.write h >> t[at..at + 1];
    cache.read t[0..at + 1] >> all;
    op sum_axis(all, axes=[0], keepdims=true) >> y;
    cache.increment n;
    return y;
}
"""


def ring() -> tuple[Any, Any]:
    """An executor that has a table on the device, and the simulator, after the same steps."""
    compiled = oi.compile(RING, device="vulkan")
    assert [row.name for row in compiled.manifest.states if row.device] == ["t"]
    both: tuple[Any, Any] = compiled.make_executor(), oi.Simulator(RING).make_executor()
    for step in range(4):
        agree(both, step)
    return both


def agree(both: tuple[Any, Any], step: int) -> None:
    """A step of both, with the same results and state."""
    given = {"x": drawn(1, step), "at": np.int32(step % 4)}
    found, wanted = (one.run(**given)["y"] for one in both)
    assert np.allclose(found, wanted, atol=1e-5)
    same(both)


def same(both: tuple[Any, Any]) -> None:
    for name in ("t", "n"):
        found, wanted = (np.asarray(one.fetch(name)) for one in both)
        assert np.allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("wait", range(2))
def test_state_of_the_device_after_an_interrupt(
    library: Library, device: LogicalDevice, wait: int
) -> None:
    """The work that it came into ends; what that has overwritten is put back."""
    both = ring()
    real, waits = library.lib.vkWaitForFences, [0]

    def interrupted(*given: Any) -> int:
        waits[0] += 1
        if waits[0] == wait + 1:
            raise KeyboardInterrupt
        return real(*given)

    library.replaced["vkWaitForFences"] = interrupted
    stopped = False
    try:
        both[0].run(x=drawn(1, 9), at=np.int32(1))
    except KeyboardInterrupt:
        stopped = True
    library.replaced.clear()
    assert stopped or wait
    if not stopped:
        both[1].run(x=drawn(1, 9), at=np.int32(1))
    same(both)
    for step in range(4, 7):
        agree(both, step)


def test_state_of_a_lost_device_is_gone(library: Library, device: LogicalDevice) -> None:
    """Who asks for it is told; what lies with the host is as before; an earlier snapshot goes on."""
    both = ring()
    kept = both[0].snapshot()
    answers(library, "vkQueueSubmit", DEVICE_LOST)
    error = refusal(partial(both[0].run, x=drawn(1, 9), at=np.int32(1)))
    assert (error.code, error.message) == ("OI0774", "vkQueueSubmit: device lost")
    library.replaced.clear()
    assert both[0].fetch("n") == 4
    for call in (partial(both[0].fetch, "t"), both[0].snapshot):
        error = refusal(call)
        assert error.code == "OI0774"
        assert "was lost in an earlier step, with what this executor kept on it" in error.message
    again: Any = oi.compile(RING, device="vulkan").make_executor()
    again.restore(kept)
    for step in range(4, 7):
        agree((again, both[1]), step)
