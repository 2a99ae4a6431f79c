"""The table of devices, and a device of a test's own: what is asked of one, and by whom."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler import registry
from openinfer.compiler.backends import backend_of
from openinfer.compiler.tools.openinfer import main
from openinfer.lowering.demands import DEMANDS
from openinfer.runtime.devices import DEVICES, checked_device, device_of
from openinfer.runtime.devices.cpu.device import CpuDevice
from openinfer.runtime.program import HOST, Program

Capture = pytest.CaptureFixture[str]
TEXT = "dynamic { x: f32[2]; } block entry { assign y: f32[2]; op mul(x, x) >> y; return y; }"

ON_DEVICES = ("run", "compare", "trace", "debug", "tune", "compile", "inspect")
"""The commands that take a program and `--device`."""


class Elsewhere(CpuDevice):
    """Runs host code as `cpu` does, and says who asked for what."""

    name = "elsewhere"
    asked: list[str] = []
    reason: str | None = None

    def unavailable_reason(self) -> str | None:
        return self.reason

    def facts(self) -> Mapping[str, str]:
        return {"kind": "of a test"}

    def load(self, program: Program) -> Any:
        self.asked.append("load")
        return super().load(program)

    def make_executor(
        self, program: Program, build: Program, threads: int, max_state_bytes: int | None
    ) -> Any:
        self.asked.append("make_executor")
        return super().make_executor(program, build, threads, max_state_bytes)


ELSEWHERE = replace(backend_of("cpu"), name="elsewhere")


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    """A second device, known by its row alone; programs for it are made as those for the CPU."""
    monkeypatch.setitem(DEVICES, "elsewhere", f"{__name__}:Elsewhere")
    monkeypatch.setitem(registry.BACKENDS, "elsewhere", f"{__name__}:ELSEWHERE")
    monkeypatch.setitem(DEMANDS, "elsewhere", DEMANDS["cpu"])
    device = device_of("elsewhere")
    assert isinstance(device, Elsewhere)
    device.asked.clear()
    yield device
    device.reason = None


def for_device(program: Program, name: str) -> Program:
    return Program(replace(program.manifest, device=name), program.parts, program.package)


def test_the_table_imports_no_device() -> None:
    code = (
        "import sys, openinfer.runtime.devices, openinfer.runtime.program\n"
        "print(sorted(name for name in sys.modules if 'devices.' in name or name == 'numpy'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_device_has_a_backend_and_every_backend_a_device() -> None:
    from openinfer.compiler.pipeline import PIPELINES

    assert set(registry.BACKENDS) == set(DEVICES)
    for name in DEVICES:
        backend = backend_of(name)
        assert backend.name == device_of(name).name == name
        assert {backend.pipeline, f"{backend.pipeline}-plain"} <= set(PIPELINES)


def test_unknown_devices_are_named_with_those_there_are() -> None:
    for name, simulator in (("gpu", False), ("simulator", False), ("cup", True)):
        with pytest.raises(oi.UnsupportedError, match=f"no device '{name}'") as caught:
            checked_device(name, simulator=simulator)
        assert caught.value.code == "OI0730"
        assert caught.value.hint is not None
        assert "the devices are: cpu" in caught.value.hint
        assert ("simulator" in caught.value.hint) == simulator
    assert checked_device("simulator", simulator=True) == "simulator"
    for name in ("cpu:0", "cpu:", "null:1", "simulator:0"):
        with pytest.raises(oi.UnsupportedError, match=f"no device '{name}'") as caught:
            checked_device(name, simulator=True)
        assert caught.value.code == "OI0730"
    with pytest.raises(oi.UnsupportedError):
        oi.compile(TEXT, device="simulator")


def test_a_program_asks_the_device_of_its_manifest(elsewhere: Elsewhere) -> None:
    program = for_device(oi.compile(TEXT), "elsewhere")
    for _ in range(2):
        with program.make_executor() as executor:
            assert np.array_equal(np.asarray(executor.run(x=[2.0, 3.0])["y"]), [4, 9])
    assert elsewhere.asked == ["make_executor", "load", "make_executor"]


def test_a_program_for_a_device_that_is_not_here() -> None:
    program = for_device(oi.compile(TEXT), "elsewhere")
    with pytest.raises(oi.UnsupportedError) as caught:
        program.make_executor()
    assert caught.value.code == "OI0730"
    # It is read and looked at all the same.
    again = Program.from_bytes(program.to_bytes())
    assert again.manifest.device == "elsewhere"


def test_a_part_that_is_missing() -> None:
    program = oi.compile(TEXT)
    less = Program(program.manifest, {})
    with pytest.raises(oi.ArtefactError, match="no part 'host'") as caught:
        less.make_executor()
    assert caught.value.code == "OI0802"


def test_parts_are_kept_by_name() -> None:
    program = oi.compile(TEXT)
    parts = {HOST: program.parts[HOST], "first": b"1", "nothing": b""}
    more = Program(program.manifest, parts)
    again = Program.from_bytes(more.to_bytes())
    assert again.parts == parts
    assert list(again.parts) == list(parts)
    assert again.to_bytes() == more.to_bytes()
    assert again.code_bytes == len(program.parts[HOST]) + 1


def test_builds_for_several_devices(tmp_path: Path, elsewhere: Elsewhere, capsys: Capture) -> None:
    path = tmp_path / "both.oip"
    program = for_device(oi.compile(TEXT), "elsewhere")
    program.alternatives = (oi.compile(TEXT), for_device(oi.compile(TEXT), "nowhere"))
    program.save(path)

    # In the order of the table; what cannot run here comes last.
    loaded = oi.load(path)
    builds = [loaded, *loaded.alternatives]
    assert [build.manifest.device for build in builds] == ["cpu", "elsewhere", "nowhere"]
    assert loaded.for_device("elsewhere") is builds[1]
    with pytest.raises(oi.ArtefactError, match="no build for the device 'vulkan'") as caught:
        loaded.for_device("vulkan")
    assert caught.value.code == "OI0807"

    assert main(["run", str(path), "--input", "x=1,2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["executor"] == "cpu"
    elsewhere.asked.clear()
    arguments = ["run", str(path), "--device", "elsewhere", "--input", "x=1,2", "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["executor"] == "elsewhere"
    assert elsewhere.asked == ["make_executor", "load"]

    assert main(["inspect", str(path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["builds"]
    assert [row["device"] for row in rows] == ["cpu", "elsewhere", "nowhere"]
    assert rows[1]["parts"] == {name: len(part) for name, part in program.parts.items()}
    assert "no device 'nowhere'" in rows[2]["obstacle"]


def test_a_device_that_cannot_run_here(
    elsewhere: Elsewhere, tmp_path: Path, capsys: Capture
) -> None:
    elsewhere.reason = "there is none in this machine"
    path = tmp_path / "p.oi"
    path.write_text(TEXT)
    for command in ("run", "compare", "trace"):
        assert main([command, str(path), "--device", "elsewhere"]) == 1
        assert "error[OI0733]: there is none in this machine" in capsys.readouterr().err
    assert main(["devices"]) == 0
    assert "elsewhere  not available: there is none in this machine" in capsys.readouterr().out


def test_compile_takes_the_names_of_the_table(elsewhere: Elsewhere) -> None:
    program = oi.compile(TEXT, device="elsewhere")
    assert program.manifest.device == "elsewhere"
    with program.make_executor() as executor:
        assert np.array_equal(np.asarray(executor.run(x=[2.0, 3.0])["y"]), [4, 9])


@pytest.mark.parametrize("command", ON_DEVICES)
def test_every_command_takes_a_device(command: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "p.oi"
    path.write_text(TEXT)
    more = {
        "debug": ["--command", "continue"],
        "tune": ["-o", str(tmp_path / "t.json")],
        "inspect": ["--plan"],
    }
    line = [command, str(path), *more.get(command, [])]
    assert main([*line, "--device", "cpu"]) == 0
    capsys.readouterr()
    assert main([*line, "--device", "gpu"]) == 1
    said = capsys.readouterr().err
    assert "error[OI0730]: there is no device 'gpu'" in said
    simulates = command in ("run", "trace", "debug")
    names = [*DEVICES, *(["simulator"] if simulates else [])]
    assert f"the devices are: {', '.join(names)}\n" in said
    for option in ("--device", "--executor"):
        simulated = main([*line, option, "simulator"])
        assert (simulated == 0) == simulates
        capsys.readouterr()


def test_bench_takes_a_device(capsys: Capture) -> None:
    assert main(["bench", "--device", "gpu", "--list"]) == 1
    assert "error[OI0730]: there is no device 'gpu'" in capsys.readouterr().err
    assert main(["bench", "--device", "cpu", "--list"]) == 0
