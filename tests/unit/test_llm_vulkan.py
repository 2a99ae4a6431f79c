"""Language models on a Vulkan device: steps of one row have a version of their own (`version-rows`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from llm_models import KINDS, SHAPES, VOCABULARY, Model

import openinfer as oi
from openinfer.compiler.llm.families import program_text
from openinfer.compiler.llm.runner import Part, Runner
from openinfer.runtime.devices.vulkan.step_clock import StepClock

SHAPE = SHAPES["llama"]
TEXT = [int(i) for i in np.random.default_rng(3).integers(3, VOCABULARY, 12)]


@pytest.fixture(scope="module")
def runners(tmp_path_factory: pytest.TempPathFactory, vulkan: None) -> tuple[Runner, Runner, Any]:
    """The same model on the device and in the simulator, and a clock of the device."""
    path = tmp_path_factory.mktemp("models") / "llama.gguf"
    Model(path, SHAPE, [KINDS.Q8_0])
    package = oi.open_model(path)
    text = program_text(package, cache="f16")
    with StepClock() as clock:
        found = oi.compile(text, package, device="vulkan").make_executor()
        device = Runner(found, 64, VOCABULARY, slots=2)
        device.step([Part(0, TEXT[:3], 0)])
    simulator = Runner(oi.Simulator(text, package).make_executor(), 64, VOCABULARY, slots=2)
    simulator.step([Part(0, TEXT[:3], 0)])
    return device, simulator, clock


STEPS: list[list[Part]] = [
    *([Part(0, [TEXT[n]], n)] for n in range(3, 6)),
    # The first row of the other slot, two slots at once, logits of nothing.
    [Part(1, [TEXT[0]], 0)],
    [Part(0, [TEXT[6]], 6), Part(1, [TEXT[1]], 1)],
    [Part(0, [TEXT[7]], 7, "none")],
    # What stands there is written over, once more, and read behind it.
    [Part(0, [TEXT[8]], 2)],
    [Part(0, TEXT[9:11], 3, "all")],
    [Part(0, [TEXT[11]], 5)],
]


def test_rows_of_any_number(runners: tuple[Runner, Runner, Any]) -> None:
    device, simulator, clock = runners
    commands: dict[int, int] = {}
    for parts in STEPS:
        found, wanted = device.step(parts), simulator.step(parts)
        for one, other in zip(found, wanted, strict=True):
            assert one.logits.shape == other.logits.shape
            # A key or value may be rounded to the next f16.
            off = np.abs(one.logits - other.logits)
            assert off.size == 0 or off.max() < 1e-4 * np.abs(other.logits).max()
        # Later ones write over what stands there, which is kept first.
        commands.setdefault(sum(len(part.ids) for part in parts), clock.commands)
    # Q, K and V, attention and the undo of what it writes, out, gate and up, down; ten around the layers.
    assert commands[1] <= 6 * SHAPE.layers + 10 < commands[2]


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"firsts": [1]}, id="a first row for the body of any number"),
        pytest.param({"tokens": [VOCABULARY + 7]}, id="a token for that of one row"),
    ],
)
def test_indices_outside(wrong: dict[str, list[int]], runners: tuple[Runner, Runner, Any]) -> None:
    """Both bodies refuse with the code of the simulator."""
    inputs = {name: [0] for name in ("tokens", "positions", "slots", "firsts", "rows")}
    given = {"counts": [1], **inputs, **wrong}
    said: list[str] = []
    for runner in runners[:2]:
        with pytest.raises(oi.OpenInferError) as caught:
            runner.executor.run(**{name: np.array(v, np.int32) for name, v in given.items()})
        said.append(caught.value.code)
    assert said[0] == said[1]
