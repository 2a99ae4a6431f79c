"""The server over the engine: the same texts as from `Engine`, whatever else is computed beside them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import llm_servers as servers
import numpy as np
import openai
import pytest

from openinfer.compiler.llm.engine import Engine

TINY = Path(__file__).parents[2] / "examples" / "tiny" / "tiny-q8_0.gguf"
PROMPTS = [
    "Tell me a story about Tom",
    "What does the cow say?",
    "a " * 150,
    "Anna has",
    "Say",
    "Z",
]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    # The command below finds what is compiled here in the cache.
    with Engine(TINY, context=512, slots=3, chunk=32) as made:
        yield made


def test_answers_are_those_of_the_engine(engine: Engine) -> None:
    options: dict[str, Any] = {"max_tokens": 24, "temperature": 0.9, "seed": 5}
    wanted = ["".join(engine.generate(prompt, **options)) for prompt in PROMPTS]
    messages: Any = [{"role": "user", "content": PROMPTS[1]}]
    chat = "".join(engine.chat(messages, **options))
    vectors = engine.embed(PROMPTS[:2])
    with servers.serving(engine) as (url, server), ThreadPoolExecutor(6) as pool:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=60)

        def complete(prompt: str) -> str:
            return client.completions.create(model="tiny", prompt=prompt, **options).choices[0].text

        assert list(pool.map(complete, PROMPTS)) == wanted
        assert server.service.scheduler.counts.steps < 6 * 24
        found = client.chat.completions.create(model="tiny", messages=messages, **options)
        assert found.choices[0].message.content == chat
        rows = [
            row.embedding for row in client.embeddings.create(model="tiny", input=PROMPTS[:2]).data
        ]
        np.testing.assert_allclose(rows, vectors, rtol=1e-4, atol=1e-6)


def test_the_command_ends_well_when_it_is_told_to(engine: Engine) -> None:
    command = [sys.executable, "-m", "openinfer.compiler.tools.openinfer", "serve", str(TINY)]
    command += ["--port", "0", "--json", "-c", "512", "-np", "3", "-a", "tiny"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        facts = json.loads(served.stdout.readline())
        assert (facts["model"], facts["context"], facts["parallel"]) == ("tiny", 512, 3)
        client = openai.OpenAI(base_url=facts["url"], api_key="none", max_retries=0, timeout=60)
        # No token that ends: the answer is as long as it may be.
        never: Any = dict.fromkeys(map(str, engine.tokenizer.ends), -100)
        stream = client.completions.create(
            model="tiny", prompt="Tell", max_tokens=100, stream=True, seed=1, logit_bias=never
        )
        first = next(stream)
        served.send_signal(signal.SIGTERM)
        last = [first, *stream][-1]
        assert last.choices[0].finish_reason == "length"
        assert served.wait(30) == 0
        assert "Traceback" not in (served.stderr.read() if served.stderr else "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-np", "0"], "--parallel is 0"),
        (["--port", "70000"], "--port"),
        (["--max-tokens", "0"], "--max-tokens is 0"),
        (["--api-key", "a", "--api-key-file", "b"], "two keys"),
        (["--api-key", ""], "the key is empty"),
        (["--host", "192.0.2.1"], "cannot listen at 192.0.2.1"),
    ],
)
def test_options_that_cannot_be(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from openinfer.compiler.tools.openinfer import main

    assert main(["serve", str(TINY), *options]) != 0
    assert words in capsys.readouterr().err
