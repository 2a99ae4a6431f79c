"""Programs over two memories: a device that runs its kernels in an arena of its own gives what the
simulator does, whatever it refuses. So every transfer that a program needs is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest
from xdsl.ir import Operation

from openinfer.compiler import registry
from openinfer.compiler.backends import backend_of
from openinfer.compiler.pipeline import PIPELINES
from openinfer.compiler.tools.openinfer import main
from openinfer.dialects import nn
from openinfer.lowering import demands
from openinfer.lowering.cpu.demands import CpuDemands
from openinfer.runtime.devices import DEVICES
from openinfer.runtime.devices.cpu.device import CpuDevice
from openinfer.runtime.devices.cpu.loaded import CpuProgram
from openinfer.runtime.devices.cpu.memory import HostMemory
from openinfer.runtime.program import Program

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.oi"))


class ApartProgram(CpuProgram):
    """Kernels of the device work in an arena of their own."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.device_memory = HostMemory()


class ApartDevice(CpuDevice):
    """The CPU as two machines, each with an arena of its own."""

    name = "apart"

    def load(self, program: Program) -> ApartProgram:
        return ApartProgram(program)


class ApartDemands(CpuDemands):
    """Those of the CPU; it refuses some ops, which ones the part says."""

    own_memory = True
    part = 0
    """0: none; else those whose name and types hash to it, of three."""

    def supports(self, op: Operation) -> str | None:
        if isinstance(op, nn.GatherOp | nn.ScatterOp):
            return "it checks indices"
        kinds = f"{op.name} {[str(value.type) for value in (*op.operands, *op.results)]}"
        return "refused" if self.part and crc32(kinds.encode()) % 3 == self.part - 1 else None


APART = replace(backend_of("null"), name="apart", pipeline="apart")


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device `apart`: that of `null` where kernels are lowered and run."""
    phases = tuple(
        replace(phase, steps=tuple(step for step in phase.steps if step.name != "record-calls"))
        for phase in PIPELINES["null"]
    )
    monkeypatch.setitem(DEVICES, "apart", f"{__name__}:ApartDevice")
    monkeypatch.setitem(registry.BACKENDS, "apart", f"{__name__}:APART")
    monkeypatch.setitem(demands.DEMANDS, "apart", f"{__name__}:ApartDemands")
    monkeypatch.setitem(PIPELINES, "apart", phases)
    monkeypatch.setenv("OPENINFER_CACHE", "off")


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(
    ("name", "part"),
    [(path.stem, number % 4) for number, path in enumerate(EXAMPLES)]
    + [("decoder", part) for part in range(4)],
)
def test_examples_on_two_memories(name: str, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ApartDemands, "part", part)
    path = EXAMPLES[0].with_name(f"{name}.oi")
    assert main(["compare", str(path), "--device", "apart", "--steps", "3"]) == 0
