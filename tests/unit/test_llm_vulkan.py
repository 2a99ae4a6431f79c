"""Language models on a Vulkan device: steps of one row have a version of their own (`version-rows`), and the
commands for language models with `--device vulkan`."""

from __future__ import annotations

import io
import json
import threading
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from benchmarks.language.engines import ENGINES, OURS
from openinfer.compiler.api import Graph
from openinfer.compiler.llm.families import program_text
from openinfer.compiler.llm.runner import Part, Runner
from openinfer.compiler.llm.server.run import Server
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.devices.vulkan.step_clock import StepClock

TINY = Path(__file__).parents[2] / "examples" / "tiny" / "tiny-q8_0.gguf"
VOCABULARY, LAYERS = 608, 4
TEXT = [int(i) for i in np.random.default_rng(3).integers(3, VOCABULARY, 12)]
QUESTION = "What does the cow say?"
# What the fixture compiles; the commands find it in the cache.
OPTIONS = ["--device", "vulkan", "--precision", "f32", "--cache", "f16", "-c", "128", "--json"]


@pytest.fixture(scope="module")
def runners(vulkan: None) -> tuple[Runner, Runner, Any]:
    """The same model on the device and in the simulator, and a clock of the device."""
    package = oi.open_model(TINY)
    text = Graph(program_text(package, cache="f16"), "the model's program")
    with StepClock() as clock:
        found = oi.compile(text, package, device="vulkan", precision="f32").make_executor()
        device = Runner(found, 64, VOCABULARY, slots=2)
        device.step([Part(0, TEXT[:3], 0)])
    with pytest.warns(oi.ModelWarning, match="OI0331"):  # The simulator computes with floats.
        executor = oi.Simulator(text, package).make_executor()
    simulator = Runner(executor, 64, VOCABULARY, slots=2)
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
            # Keys and values may be rounded to the next f16, which ones depends on NumPy's sums: up to
            # 1.8e-4 on a Zen 5, where the device and the CPU differ by 1.5e-5.
            off = np.abs(one.logits - other.logits)
            assert off.size == 0 or off.max() < 5e-4 * np.abs(other.logits).max()
        # Later ones write over what stands there, which is kept first.
        commands.setdefault(sum(len(part.ids) for part in parts), clock.commands)
    # Q, K and V, attention and the undo of what it writes, out, gate and up, down; ten around the layers.
    assert commands[1] <= 6 * LAYERS + 10 < commands[2]


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


@pytest.fixture(scope="module")
def answer(runners: tuple[Runner, Runner, Any]) -> str:
    """That of the simulator."""
    with pytest.warns(oi.ModelWarning, match="OI0331"):
        made = oi.Engine(TINY, device="simulator", precision=None, cache="f16", context=128)
    with made as engine:
        return "".join(engine.chat([{"role": "user", "content": QUESTION}], temperature=0))


def test_generate(answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(TINY), "Once upon", *OPTIONS, "-n", "6", "--temp", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["text"].startswith(" a time")


def test_chat(
    answer: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{QUESTION}\n"))
    assert main(["chat", str(TINY), *OPTIONS, "--temp", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == answer


def test_serve(
    answer: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []

    def ask(server: Server) -> None:
        body = {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0}
        url, kind = f"{server.url}/v1/chat/completions", {"Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(body).encode(), kind)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                found.append(json.load(reply))
        finally:
            server.stop()

    startup = Server.startup

    async def started(server: Server, sockets: Any = None) -> None:
        await startup(server, sockets)
        threading.Thread(target=ask, args=(server,), daemon=True).start()

    monkeypatch.setattr(Server, "startup", started)
    assert main(["serve", str(TINY), *OPTIONS, "--port", "0", "-np", "2"]) == 0
    assert json.loads(capsys.readouterr().out)["parallel"] == 2
    assert found[0]["choices"][0]["message"]["content"] == answer


def test_the_engine_of_the_benchmark(
    runners: tuple[Runner, Runner, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m benchmarks.language --device vulkan`; here with what the fixture compiled."""
    monkeypatch.setattr(oi, "Engine", partial(oi.Engine, precision="f32", cache="f16"))
    _, make = ENGINES[OURS]
    found = make(TINY, 1, "vulkan").step(TEXT)
    (wanted,) = runners[1].step([Part(1, TEXT, 0)])
    assert np.abs(found - wanted.logits[0]).max() < 1e-4 * np.abs(wanted.logits).max()
