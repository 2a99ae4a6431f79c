"""Programs over two memories: a device that runs its kernels in an arena of its own gives what the
simulator does, whatever it refuses. So every transfer that a program needs is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from xdsl.ir import Operation

import openinfer as oi
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
        self._apart = HostMemory()

    @property
    def device_memory(self) -> HostMemory:
        return self._apart


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


IN_A_BRANCH = """
dynamic { k: i8; }
volatile { v: f32[8, 64] @init(-1); }
block entry {
    loop l (i in 0..3) { branch k then otherwise; }
    return v;
}
block then { op softmax(v, axis=1) >> v with { placement = "cpu" }; return; }
block otherwise { return; }
"""
"""What the host writes in one branch is copied in the other one."""

OPEN_SIZES = """
dynamic { a: f32[4, 4]; }
block entry {
    loop l (i in 0..3) {
        assign t: f32[_, _];
        op recip(a) >> t;
        op relu(t, negative_slope=0.5, clamp_max=6.0) >> t;
    }
    assign y: f32[_, _];
    op rms_norm(t, t, eps=0.01, axis=-2) >> y;
    return t, y;
}
"""
"""A buffer is made before the step knows how much of it will be in use."""


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("text", [IN_A_BRANCH, OPEN_SIZES])
@pytest.mark.parametrize("part", range(4))
def test_values_are_where_they_are_read(
    text: str, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ApartDemands, "part", part)
    inputs: dict[str, Any] = {"a": np.arange(-8, 8, dtype=np.float32).reshape(4, 4) + 0.5}
    if text is IN_A_BRANCH:
        inputs = {"k": np.int8(0)}
    for k in (0, 1):
        if "k" in inputs:
            inputs["k"] = np.int8(k)
        with oi.Simulator(text).make_executor() as executor:
            wanted = executor.run(**inputs)
        with oi.compile(text, device="apart").make_executor() as executor:
            found = executor.run(**inputs)
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5)
