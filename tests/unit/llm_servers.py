"""A server in this process, on a port that the system chooses, over a model that is a table of texts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llm_vocabularies as vocabularies
import numpy as np

from openinfer.compiler.llm.runner import Part, Scores
from openinfer.compiler.llm.server.run import Server
from openinfer.compiler.llm.server.service import Limits, Service
from openinfer.compiler.llm.template import ChatTemplate
from openinfer.compiler.llm.tokenizer import Tokenizer
from openinfer.runtime.packages import open_model


@dataclass
class TableRunner:
    """Answers with the text that a table has for what the prompt contains, then the end token.

    The logits of a row depend only on the tokens that its slot holds, as those of a model do.
    """

    tokenizer: Tokenizer
    answers: Mapping[str, str]
    slots: int = 4
    context: int = 400
    chunk: int = 64
    delay: float = 0.0
    """Seconds of a step."""
    permits: threading.Semaphore | None = None
    """A step takes one of them, or waits for it; None: none is needed."""
    held: list[list[int]] = field(default_factory=list[list[int]])
    widths: list[int] = field(default_factory=list[int])
    """Parts of each step."""
    tokens: list[int] = field(default_factory=list[int])
    """Tokens of each step."""
    fails: bool = False

    def __post_init__(self) -> None:
        self.held = [[] for _ in range(self.slots)]

    def hold(self, steps: int = 0) -> None:
        """Makes the model wait behind so many steps, until a test has all of its requests there."""
        self.permits = threading.Semaphore(steps)

    def go(self, steps: int | None = None) -> None:
        """Lets it take so many steps more, or as many as it likes."""
        held = self.permits
        if steps is None:
            self.permits = None
        if held is not None:
            held.release(steps or 1000)

    def step(self, parts: Sequence[Part]) -> list[Scores]:
        if self.fails:
            self.fails = False
            raise RuntimeError("the step failed")
        if (permits := self.permits) is not None:
            permits.acquire()
        time.sleep(self.delay)
        assert len({part.slot for part in parts}) == len(parts)
        self.widths.append(len(parts))
        self.tokens.append(sum(len(part.ids) for part in parts))
        scores: list[Scores] = []
        for part in parts:
            held = self.held[part.slot]
            assert part.position <= len(held)
            rows: list[Any] = []
            for token in part.ids:
                position = part.position + len(rows)
                del held[position:]
                held.append(token)
                rows.append(self._next(held) if part.wants != "none" else 0)
            first = {"all": 0, "last": len(rows) - 1, "none": len(rows)}[part.wants]
            logits = np.full((len(rows) - first, self.tokenizer.size + 3), -9, np.float32)
            for row, token in enumerate(rows[first:]):
                logits[row, token] = 9
            hidden = np.array([[token, 1.0] for token in part.ids[first:]], np.float32)
            scores.append(Scores(logits, hidden))
        return scores

    def reusable(self, slot: int, ids: Sequence[int]) -> int:
        common = 0
        for one, other in zip(self.held[slot], ids[:-1]):
            if one != other:
                break
            common += 1
        return common

    def _next(self, held: list[int]) -> int:
        end = self.tokenizer.controls["<|im_end|>"]
        text = self.tokenizer.decode(held, special=True)
        key = max((key for key in self.answers if key in text), key=text.rfind, default=None)
        if key is None:
            return end
        answer = self.tokenizer.encode(self.answers[key])
        done = len(held) - self._begin(held, key)
        return answer[done] if done < len(answer) else end

    def _begin(self, held: list[int], key: str) -> int:
        """Where the answer begins: in a chat behind the last "assistant", else behind the key."""
        begins = self.tokenizer.encode("assistant\n")
        for start in range(len(held), len(begins) - 1, -1):
            if held[start - len(begins) : start] == begins:
                return start
        size = 0
        text = self.tokenizer.decode(held, special=True).encode()
        wanted = text.find(key.encode()) + len(key)
        for start, token in enumerate(held):
            if size >= wanted:
                return start
            size += len(self.tokenizer.piece(token, special=True))
        return len(held)


@dataclass
class TableEngine:
    """What the server needs of an engine."""

    model: Any
    runner: TableRunner
    tokenizer: Tokenizer
    template: ChatTemplate | None


def table_engine(
    path: Path, answers: Mapping[str, str], *, keys: vocabularies.Keys | None = None, **more: Any
) -> TableEngine:
    model = open_model(vocabularies.write(path, keys or vocabularies.bpe()))
    tokenizer = Tokenizer.of(model)
    template = ChatTemplate.of(model, tokenizer)
    return TableEngine(model, TableRunner(tokenizer, answers, **more), tokenizer, template)


@contextmanager
def serving(engine: Any, *, key: str | None = None, **limits: Any) -> Generator[tuple[str, Server]]:
    """The address of a server and the server, which is stopped at the end."""
    listens = threading.Event()
    service = Service.of(engine, "tiny", Limits(**limits))
    server = Server(service, port=0, key=key, started=lambda url: listens.set())
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    assert listens.wait(60)
    try:
        yield server.url, server
    finally:
        if isinstance(engine, TableEngine):
            engine.runner.go()
        server.stop()
        thread.join(60)
        assert not thread.is_alive()
        assert service.scheduler.join(60)
