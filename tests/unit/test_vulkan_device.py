"""The device `vulkan`: programs on it, what it refuses, its memory; and what needs no driver."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vulkan_library import Library

import openinfer as oi
from openinfer.compiler.api import compile
from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.openinfer_opt import main as optimise
from openinfer.lowering.vulkan.spirv_text import print_text
from openinfer.runtime.devices.base import Box
from openinfer.runtime.devices.vulkan import driver
from openinfer.runtime.devices.vulkan.commands import CommandPool, Recording
from openinfer.runtime.devices.vulkan.hazards import Hazards, Range
from openinfer.runtime.devices.vulkan.native_recording import Recorder
from openinfer.runtime.devices.vulkan.parts import part_of
from openinfer.runtime.errors import ArtefactError, OpenInferError, UnsupportedError
from openinfer.runtime.spirv.check_limits import Limits
from openinfer.runtime.spirv.check_words import check_words
from tests.sweeps import FULL

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.oi"))
LAYER = """
dynamic { x: f32[B, 300]; }
constant { w: f32[300, 300] @init(0.01); }
block entry {
    assign h: f32[B, 300];
    op matmul(x, w) >> h;
    op gelu(h) >> h;
    op softmax(h, axis=1) >> h;
    return h;
}
"""
GROWING = """
dynamic { x: f32[1, 300]; }
constant { w: f32[300, 300] @init(0.01); }
persistent { n: i32; t(i): f32[300] @table; }
block entry {
    assign h: f32[1, 300]; assign all: f32[n + 1, 300]; assign y: f32[1, 300];
    op matmul(x, w) >> h;
    op add(h, x) >> h;
    cache.write h >> t[n..n + 1];
    cache.read t[0..n + 1] >> all;
    op softmax(all, axis=1) >> all;
    op sum_axis(all, axes=[0], keepdims=true) >> y;
    cache.increment n;
    return y;
}
"""


def layer(x: Any) -> Any:
    return oi.Simulator(LAYER).make_executor().run(x=x)["h"]


def drawn(batch: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((batch, 300), np.float32)


# Programs


def test_examples_agree_and_the_layer_says_nothing(vulkan: None, tmp_path: Path) -> None:
    """In a process of its own, whose driver is watched for mistakes and missing barriers."""
    script = (
        "import sys; from openinfer.compiler.tools.openinfer import main\n"
        "codes = [main(['compare', path, '--device', 'vulkan', '--steps', '8']) for path in sys.argv[1:]]\n"
        "codes.append(main(['trace', sys.argv[-1], '--device', 'vulkan', '--steps', '8']))\n"
        "sys.exit(codes != [0] * len(codes))"
    )
    environment = {**os.environ, "OPENINFER_VULKAN_VALIDATE": "sync"}
    growing = tmp_path / "growing.oi"
    growing.write_text(GROWING)
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, EXAMPLES), str(growing)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if "a layer is not present" in done.stdout + done.stderr:
        pytest.skip("the Khronos validation layer is not installed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "VUID" not in done.stdout
    assert "SYNC-" not in done.stdout


def test_sizes_change_between_steps(vulkan: None) -> None:
    with oi.compile(LAYER, device="vulkan").make_executor() as executor:
        for batch in (1, 70, 3, 0, 200):
            x = drawn(batch, batch)
            assert np.allclose(executor.run(x=x)["h"], layer(x), atol=1e-6)


def test_commands_are_recorded_once_for_equal_steps(
    vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other inputs, and sizes that were there before, need no recording."""
    recorded: list[int] = []
    record = CommandPool.record

    def counted(self: CommandPool, *given: Any) -> Recording:
        recorded.append(1)
        return record(self, *given)

    with oi.compile(LAYER, device="vulkan").make_executor() as executor:
        for batch in (70, 3):  # The larger one makes the arena.
            executor.run(x=drawn(batch))
        monkeypatch.setattr(CommandPool, "record", counted)
        for seed in range(4):
            for batch in (3, 70):
                x = drawn(batch, seed)
                assert np.allclose(executor.run(x=x)["h"], layer(x), atol=1e-6)
        assert not recorded
        executor.run(x=drawn(4))
        assert recorded


def test_a_text_that_grows_is_not_recorded_anew(
    vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step has other sizes and places; after some of them no launch is recorded any more."""
    recorded: list[int] = []
    dispatch = Recording.dispatch

    def counted(*given: Any) -> None:
        recorded.append(1)
        dispatch(*given)

    monkeypatch.setattr(Recording, "dispatch", counted)
    record = Recorder.record

    def counted_rows(recorder: Recorder, recording: Recording, parts: Any, *given: Any) -> None:
        recorded.extend(1 for part in parts if part.packed.rows[:, 0].any())
        record(recorder, recording, parts, *given)

    monkeypatch.setattr(Recorder, "record", counted_rows)
    simulator: Any = oi.Simulator(GROWING).make_executor()
    counts: list[int] = []
    with oi.compile(GROWING, device="vulkan").make_executor() as executor:
        for step in range(40):
            x = drawn(1, step)
            before = len(recorded)
            assert np.allclose(executor.run(x=x)["y"], simulator.run(x=x)["y"], atol=1e-5), step
            counts.append(len(recorded) - before)
    assert counts[0]
    # Its arena grows now and then: another block, and once more the commands that use it.
    assert sum(map(bool, counts[6:])) <= 4, counts


def test_a_failed_step_leaves_nothing_for_the_next(vulkan: None) -> None:
    """Its transfers and launches are not those of the step behind it."""
    program = """
dynamic { x: f32[B, 300]; i: i32[1]; }
constant { w: f32[300, 300] @init(0.01); t: f32[4, 2] @init(1.0); }
block entry {
    assign h: f32[B, 300]; assign g: f32[1, 2];
    op matmul(x, w) >> h;
    op gather(t, i, axis=0) >> g;
    return h, g;
}
"""
    with oi.compile(program, device="vulkan").make_executor() as executor:
        x = drawn(5)
        for _ in range(2):
            with pytest.raises(oi.StepError):
                executor.run(x=2 * x, i=np.array([9], np.int32))
            found = executor.run(x=x, i=np.array([3], np.int32))["h"]
            assert np.allclose(found, x @ np.full((300, 300), 0.01, np.float32), atol=1e-4)


def test_threads_share_a_program_and_an_executor(vulkan: None) -> None:
    program = oi.compile(LAYER, device="vulkan")
    shared: Any = program.make_executor()

    def work(seed: int) -> bool:
        x = drawn(5, seed)
        with program.make_executor() as own:
            found = own.run(x=x)["h"], shared.run(x=x)["h"]
        return all(np.allclose(one, layer(x), atol=1e-6) for one in found)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(12)))


def test_packages_and_builds(vulkan: None, tmp_path: Path) -> None:
    x = drawn(4)
    oi.compile(LAYER, device="vulkan").save(tmp_path / "layer.oip")
    again = oi.load(tmp_path / "layer.oip")
    assert again.manifest.device == "vulkan"
    assert part_of("matmul_0") in again.parts
    assert np.allclose(again.make_executor().run(x=x)["h"], layer(x), atol=1e-6)
    for plain in (True, False):
        program = compile(LAYER, device="vulkan", optimise=not plain, strict_math=not plain)
        assert np.allclose(program.make_executor().run(x=x)["h"], layer(x), atol=1e-5)


def test_commands_take_it(vulkan: None, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["devices"]) == 0
    assert "vulkan" in capsys.readouterr().out
    path = tmp_path / "layer.oi"
    path.write_text(LAYER)
    for command in ("run", "trace", "compare"):
        assert main([command, str(path), "--size", "B=3", "--device", "vulkan"]) == 0
        assert "error" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["growing", *(["decoder"] if FULL else [])])
def test_levels_resume(name: str, tmp_path: Path) -> None:
    """No driver is needed to lower programs."""
    program, dumps = tmp_path / "growing.oi", tmp_path / "levels"
    program.write_text(GROWING)
    if name == "decoder":
        program = EXAMPLES[0].with_name("decoder.oi")
    whole, again = tmp_path / "whole.mlir", tmp_path / "again.mlir"
    line = [str(program), "--pipeline", "vulkan", "--to", "llvm", "--dump-dir", str(dumps)]
    assert optimise([*line, "-o", str(whole)]) == 0
    wanted = whole.read_text().partition("spirv.module")[2]
    assert wanted
    # Each kernel as words, and as the text of them.
    files = sorted(dumps.glob("*-llvm/*.spv"))
    assert len(files) == whole.read_text().count("spirv.module")
    for file in files:
        title, _, text = file.with_suffix(".spvasm").read_text().partition("\n")
        assert title == f"; function {file.stem}, after phase llvm of pipeline vulkan"
        assert text == print_text(check_words(file.read_bytes()))
    for level in ("linalg", "buffers", "kernels", "threads"):
        (dump,) = dumps.glob(f"*-{level}.mlir")
        line = [str(dump), "--pipeline", "vulkan", "--from", level, "--to", "llvm"]
        assert optimise([*line, "-o", str(again)]) == 0
        assert again.read_text().partition("spirv.module")[2] == wanted, level


# What it refuses


def test_edited_words_never_reach_the_driver(vulkan: None, tmp_path: Path) -> None:
    program = oi.compile(LAYER, device="vulkan")
    words = bytearray(program.parts[part_of("matmul_0")])
    draw, refused = random.Random(7), 0
    for _ in range(40):
        damaged = bytearray(words)
        damaged[draw.randrange(20, len(words))] ^= 1 << draw.randrange(8)
        try:
            check_words(bytes(damaged))
        except ArtefactError:
            refused += 1
    assert refused > 10
    cut = oi.Program(
        program.manifest, {**program.parts, part_of("matmul_0"): bytes(words[:-6])}, None
    )
    with pytest.raises(ArtefactError) as raised:
        cut.make_executor()
    assert raised.value.code == "OI0760"


def test_a_name_of_no_device(vulkan: None, monkeypatch: pytest.MonkeyPatch) -> None:
    known = driver.instance().devices
    assert driver.choose("0") == known[0]
    assert driver.choose(known[0].uuid) == known[0]
    assert driver.choose(known[0].name[2:8].upper()) == known[0]
    with pytest.raises(UnsupportedError, match="no Vulkan device is called 'none'") as raised:
        driver.choose("none")
    assert known[0].name in str(raised.value)
    # A number is never a part of a name, as the 5 of "LLVM 15" would be.
    error = refusal(lambda: driver.choose("5" if len(known) < 6 else "500"))
    assert error.code == "OI0771"


def test_a_device_is_chosen_by_number_name_and_uuid(
    vulkan: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = driver.choose()
    x = drawn(3)
    for which in (str(found.number), found.name[:4].lower(), found.uuid):
        name = f"vulkan:{which}"
        program = oi.compile(LAYER, device=name)
        assert (program.device, program.manifest.device) == (name, "vulkan")
        with program.make_executor() as executor:
            assert np.allclose(executor.run(x=x)["h"], layer(x), atol=1e-6)
    path, saved = tmp_path / "layer.oi", tmp_path / "layer.oip"
    path.write_text(LAYER)
    line = ["--size", "B=3", "--device", f"vulkan:{found.number}"]
    assert main(["run", str(path), *line]) == 0
    # What is saved goes anywhere: the choice is not part of it.
    oi.compile(LAYER, device=f"vulkan:{found.number}").save(saved)
    assert oi.load(saved).device == "vulkan"
    assert main(["run", str(saved), *line]) == 0
    capsys.readouterr()
    assert main(["run", str(path), "--device", "vulkan:none"]) == 1
    said = capsys.readouterr().err
    assert "error[OI0771]: no Vulkan device is called 'none'" in said
    assert found.name in said
    for refused in ("vulkan:none", "vulkan:", "vulkan: "):
        assert refusal(lambda name=refused: oi.compile(LAYER, device=name)).code == "OI0771"


def test_a_program_goes_to_another_device_of_its_kind(vulkan: None) -> None:
    program, x = oi.compile(LAYER, device="vulkan"), drawn(2)
    other = program.for_device(f"vulkan:{driver.choose().number}")
    assert other is not program
    assert program.for_device("vulkan") is program
    with program.make_executor() as one, other.make_executor() as two:
        assert np.array_equal(one.run(x=x)["h"], two.run(x=x)["h"])
    assert other.loaded() is not program.loaded()
    assert other.traced().device == other.device
    assert other.observed().device == other.device


def test_devices_are_listed_with_what_they_can_do(
    vulkan: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["devices", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    found = driver.choose()
    assert rows["vulkan"]["facts"]["means"].startswith(f"vulkan:{found.number}, {found.name}: ")
    facts = rows[f"vulkan:{found.number}"]["facts"]
    assert facts["name"] == found.name
    assert "f16" in facts["numbers of kernels"]
    assert {"kind", "api", "driver", "uuid", "memory", "subgroup", "matrices"} <= set(facts)


TWO = """
import sys, numpy as np, openinfer as oi
from openinfer.runtime.devices.vulkan.logical import logical_device
text, x = sys.argv[1], np.linspace(-1, 1, 1200, dtype=np.float32).reshape(4, 300)
programs = [oi.compile(text, device=f"vulkan:{number}") for number in (0, 1)]
one, two = [program.make_executor() for program in programs]
for step in (1, 2):
    assert np.array_equal(one.run(x=step * x)["h"], two.run(x=step * x)["h"])
assert logical_device("0").handle != logical_device("1").handle
"""


def test_two_devices_at_once(vulkan: None, tmp_path: Path) -> None:
    """A driver that is listed twice gives two devices, which have all but the number in common."""
    listed = sorted(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))
    if not listed:
        pytest.skip("lavapipe is not installed where Debian has it")
    again = tmp_path / "again.json"
    again.write_bytes(listed[0].read_bytes())
    environment = {**os.environ, "VK_ICD_FILENAMES": f"{listed[0]}:{again}"}
    environment.pop("VK_DRIVER_FILES", None)
    done = subprocess.run(
        [sys.executable, "-c", TWO, LAYER],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_processor_is_taken_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(driver.CHOICE, raising=False)
    limits = Limits(64, (64, 64, 64), 16384, 30)
    soft = driver.PhysicalDevice(0, None, "llvmpipe", "CPU", (1, 3, 0), "00", limits, 64, 16)

    class Instance:
        devices = [soft]

    monkeypatch.setattr(driver, "instance", Instance)
    with pytest.raises(UnsupportedError, match="no GPU has a Vulkan driver"):
        driver.choose()
    monkeypatch.setenv(driver.CHOICE, "llvm")
    assert driver.choose() == soft


def test_without_the_package_everything_else_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vulkan", None)
    with pytest.raises(UnsupportedError, match="`vulkan` is not installed"):
        driver.api()


def test_a_lost_device_is_an_error_and_comes_back(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openinfer.runtime.devices.vulkan import commands
    from openinfer.runtime.devices.vulkan.logical import logical_device

    lost, x = logical_device(), drawn(3)
    executor: Any = oi.compile(LAYER, device="vulkan").make_executor()
    assert np.allclose(executor.run(x=x)["h"], layer(x), atol=1e-6)

    def check(call: str, result: int) -> None:
        if call == "vkQueueSubmit":
            raise driver.VulkanFailure(call, driver.DEVICE_LOST)
        driver.check(call, result)

    with monkeypatch.context() as patch:
        patch.setattr(commands, "check", check)
        error = refusal(lambda: executor.run(x=x))
    assert error.code == "OI0774"
    assert "device lost" in error.message
    assert logical_device() is not lost
    with oi.compile(LAYER, device="vulkan").make_executor() as again:
        assert np.allclose(again.run(x=x)["h"], layer(x), atol=1e-6)


# Its memory


def memory() -> Any:
    from openinfer.runtime.devices.vulkan.logical import logical_device
    from openinfer.runtime.devices.vulkan.memory import VulkanMemory

    return VulkanMemory(logical_device())


def test_memory_moves_boxes(vulkan: None) -> None:
    there, draw = memory(), np.random.default_rng(3)
    block, other = there.allocate(6 * 5 * 4 * 3), there.allocate(4 * 5 * 7 * 3)
    assert not there.read(block, 0, block.nbytes).any()
    data = draw.integers(0, 255, block.nbytes, np.uint8)
    there.write(block, 0, data)
    assert np.array_equal(there.read(block, 5, 50), data[5:55])
    source = Box(block, (6, 5, 4), 3, (1, 2, 1), (3, 2, 2))
    target = Box(other, (4, 5, 7), 3, (0, 1, 4), (3, 2, 2))
    there.copy(source, target)
    found = there.read(other, 0, other.nbytes).reshape(4, 5, 7, 3)
    assert np.array_equal(found[0:3, 1:3, 4:6], data.reshape(6, 5, 4, 3)[1:4, 2:4, 1:3])
    assert found.sum(dtype=np.int64) == found[0:3, 1:3, 4:6].sum(dtype=np.int64)
    there.fill(target, np.array([1, 2, 3], np.uint8))
    found = there.read(other, 0, other.nbytes).reshape(4, 5, 7, 3)
    assert (found[0:3, 1:3, 4:6] == [1, 2, 3]).all()
    assert np.array_equal(there.gather(source), data.reshape(6, 5, 4, 3)[1:4, 2:4, 1:3].reshape(-1))


def test_memory_that_is_not_there(vulkan: None) -> None:
    with pytest.raises(MemoryError):
        memory().allocate(1 << 46)


# Barriers


@pytest.mark.parametrize(
    ("before", "then", "needed"),
    [
        ((0, 8, True), (4, 12, False), True),
        ((0, 8, False), (4, 12, True), True),
        ((0, 8, True), (4, 12, True), True),
        ((0, 8, False), (4, 12, False), False),
        ((0, 8, True), (8, 12, True), False),
        ((0, 8, True), (4, 4, True), False),
    ],
)
def test_a_barrier_stands_where_ranges_meet(
    before: tuple[int, int, bool], then: tuple[int, int, bool], needed: bool
) -> None:
    hazards = Hazards()
    assert not hazards.needs_barrier([Range("a", *before), Range("b", 0, 100, True)])
    assert hazards.needs_barrier([Range("a", *then)]) == needed
    # Behind a barrier nothing before it counts.
    assert hazards.needs_barrier([Range("b", 0, 4, True)]) != needed


def refusal(call: Callable[[], object]) -> OpenInferError:
    with pytest.raises(OpenInferError) as raised:
        call()
    return raised.value


def test_a_buffer_that_no_kernel_can_take(vulkan: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from openinfer.runtime.devices.vulkan.logical import logical_device

    device = logical_device()
    monkeypatch.setattr(device, "physical", replace(device.physical, largest_binding=1000))
    executor: Any = oi.compile(LAYER, device="vulkan").make_executor()
    error = refusal(lambda: executor.run(x=drawn(4)))
    assert error.code == "OI0773"
    assert "1000 at most" in error.message
