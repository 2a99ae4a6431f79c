"""Several answers at once: each request has a slot, and a step computes all slots together.

One thread owns the model. Between two steps it lets waiting requests into free slots, where as much of a
prompt as the slot still holds from an earlier one is not computed again. A step takes one token of every
answer, and a bounded piece of the prompts, so that a long prompt delays nobody by more than that piece.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from openinfer.compiler.llm.grammar import Grammar
from openinfer.compiler.llm.runner import Part, Scores
from openinfer.compiler.llm.sampling import Sampler
from openinfer.compiler.llm.stops import StopStrings
from openinfer.compiler.llm.tokenizer import Tokenizer
from openinfer.runtime.errors import UnsupportedError

_PATIENCE = 0.25
"""Seconds that answers wait for a piece of somebody's prompt, as a rule."""
_LEAST = 8
"""So many tokens of prompts are in a step in any case: a slow machine must come to its end, too."""

Finish: TypeAlias = Literal["stop", "length"]


class Slots(Protocol):
    """What the scheduler needs of a model: `compiler/llm/runner.py` has it."""

    slots: int
    context: int
    chunk: int
    held: list[list[int]]

    def step(self, parts: Sequence[Part]) -> list[Scores]: ...
    def reusable(self, slot: int, ids: Sequence[int]) -> int: ...


@dataclass(frozen=True)
class Chosen:
    """A token of an answer, with the logarithms of probabilities that were asked for."""

    id: int
    logprob: float | None = None
    best: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Wrote:
    """A token was chosen, and `text` may leave: often empty, while a character or a stop string is not
    whole."""

    text: str
    token: Chosen


@dataclass(frozen=True)
class Ended:
    """The answer is whole; `text` is what was held back until now."""

    text: str
    finish: Finish
    prompt: int
    """Tokens of the prompt."""
    written: int
    """Tokens of the answer, the one that ended it included."""
    reused: int
    """Tokens of the prompt that were not computed again."""


@dataclass(frozen=True)
class Embedded:
    """The vector of a text, of length 1, `[width]`."""

    vector: NDArray[np.float32]
    prompt: int


@dataclass(frozen=True)
class Failed:
    """The request came to nothing; nothing follows."""

    error: Exception


Event: TypeAlias = Wrote | Ended | Embedded | Failed


class Stopping(Exception):
    """The server is being stopped and takes no new request."""


class Full(Exception):
    """Too many requests wait already."""


class OutOfTime(Exception):
    """The time of a request is over."""


@dataclass(eq=False)
class Job:
    """A request as the scheduler sees it. `emit` is called by its thread, with each event."""

    ids: list[int]
    emit: Callable[[Event], None]
    deadline: float
    """When `time.monotonic` says this, the request ends."""
    sampler: Sampler | None = None
    """None: the request is for an embedding."""
    most: int = 0
    """Tokens that the answer may have."""
    stops: StopStrings = field(default_factory=StopStrings)
    grammar: Grammar | None = None
    logprobs: int | None = None
    """So many alternatives of each token, None: no logarithms of probabilities at all."""
    shown: frozenset[int] = frozenset()
    """Control tokens that are part of the text: some models begin tool calls with one."""
    cancelled: bool = False
    """Set by anybody, at any time: nobody waits for the answer."""


@dataclass(eq=False)
class _Sequence:
    """A job in its slot."""

    job: Job
    slot: int
    text: list[int]
    """Prompt and answer."""
    done: int
    """So many of `text` are computed."""
    reused: int
    stream: Any
    written: int = 0
    rows: NDArray[np.float64] | None = None
    """Sum of the rows of an embedding."""


@dataclass
class Counts:
    """What the scheduler has done since its start."""

    steps: int = 0
    step_seconds: float = 0.0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    written_tokens: int = 0
    ended: dict[str, int] = field(default_factory=dict[str, int])
    """Requests by how they ended."""


class Scheduler:
    """The thread that owns the model, and the requests in it."""

    def __init__(self, slots: Slots, tokenizer: Tokenizer, *, queue: int = 64) -> None:
        self._slots = slots
        self._tokenizer = tokenizer
        self._queue = queue
        self._waiting: deque[Job] = deque()
        self._running: list[_Sequence] = []
        self._used = [0] * slots.slots
        """When each slot was last taken: the one that nobody used for longest is overwritten first."""
        self._turn = 0
        self._pace = 0.0
        """Seconds that a token of a prompt takes, by the last steps; 0 before the first."""
        self._stopping = False
        self._wake = threading.Condition()
        self.counts = Counts()
        self._thread = threading.Thread(target=self._run, name="openinfer-serve", daemon=True)
        self._thread.start()

    def submit(self, jobs: Sequence[Job]) -> None:
        """Lets requests wait for slots, all of them or none. Raises Full where too many wait, Stopping
        after `drain`."""
        with self._wake:
            if self._stopping:
                raise Stopping
            free = len(self._used) - len(self._running)
            if len(self._waiting) + len(jobs) > self._queue + max(free, 0):
                raise Full
            self._waiting.extend(jobs)
            self._wake.notify()

    def cancel(self, job: Job) -> None:
        """Gives the slot of a job free, or its place in the queue; no event follows but those on their
        way."""
        with self._wake:
            job.cancelled = True
            self._wake.notify()

    def drain(self) -> None:
        """Ends as soon as the answers that have begun are whole; requests that wait for a slot get
        Stopping."""
        with self._wake:
            self._stopping = True
            refused, self._waiting = list(self._waiting), deque()
            self._wake.notify()
        for job in refused:
            self._end(job, Failed(Stopping()), "stopped")

    def abort(self) -> None:
        """Ends after the step that is being computed, whatever has begun."""
        self.drain()
        with self._wake:
            for one in self._running:
                one.job.cancelled = True

    def join(self, seconds: float | None = None) -> bool:
        """Waits for the thread after `drain`; whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def load(self) -> tuple[int, int]:
        """Requests in slots, and requests that wait."""
        return len(self._running), len(self._waiting)

    @property
    def stopping(self) -> bool:
        return self._stopping

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._waiting and not self._running and not self._stopping:
                    self._wake.wait()
                if self._stopping and not self._running and not self._waiting:
                    return
            self._release()
            self._admit()
            if self._running:
                self._step()

    def _release(self) -> None:
        """Takes out what nobody waits for, and what has taken too long."""
        now = time.monotonic()
        for one in list(self._running):
            if one.job.cancelled:
                self._leave(one)
                self._count("cancelled")
            elif now > one.job.deadline:
                self._leave(one)
                self._end(one.job, Failed(OutOfTime()), "timeout")
        with self._wake:
            gone = [job for job in self._waiting if job.cancelled or now > job.deadline]
            for job in gone:
                self._waiting.remove(job)
        for job in gone:
            if job.cancelled:
                self._count("cancelled")
            else:
                self._end(job, Failed(OutOfTime()), "timeout")

    def _admit(self) -> None:
        while len(self._running) < len(self._used):
            with self._wake:
                if not self._waiting:
                    return
                job = self._waiting.popleft()
                slot, reused = self._best_slot(job.ids)
                self._turn += 1
                self._used[slot] = self._turn
                # Embeddings need the rows of all tokens.
                done = reused if job.sampler is not None else 0
                stream = self._tokenizer.stream(shown=job.shown)
                self._running.append(_Sequence(job, slot, list(job.ids), done, done, stream))
            self.counts.prompt_tokens += len(job.ids)
            self.counts.reused_tokens += done

    def _best_slot(self, ids: list[int]) -> tuple[int, int]:
        """The free slot for a prompt, and how many of its tokens are there already.

        One that holds most of what it has for this prompt: the same conversation, or another one with the
        same long beginning. Else the one that nobody used for longest, so that few tokens in common do not
        cost somebody a conversation.
        """
        taken = {one.slot for one in self._running}
        free = [slot for slot in range(len(self._used)) if slot not in taken]
        reused = {slot: self._slots.reusable(slot, ids) for slot in free}

        def worth(slot: int) -> tuple[int, int]:
            count = reused[slot]
            return count if 2 * count >= len(self._slots.held[slot]) else 0, -self._used[slot]

        slot = max(free, key=worth)
        return slot, reused[slot]

    def _step(self) -> None:
        """One step of the model, and what follows of it for each sequence."""
        chosen: list[tuple[_Sequence, Part]] = []
        budget = self._budget()
        for one in self._running:
            left = len(one.text) - one.done
            count = 1 if left == 1 else min(left, budget)
            budget -= 0 if left == 1 else count
            if count:
                wants: Literal["all", "last", "none"] = "last" if count == left else "none"
                if one.job.sampler is None:
                    wants = "all"
                ids = one.text[one.done : one.done + count]
                chosen.append((one, Part(one.slot, ids, one.done, wants)))
        started = time.perf_counter()
        try:
            scores = self._slots.step([part for _, part in chosen])
        except Exception as error:
            # What the slots hold now is unknown; the others are as they were.
            for one, _ in chosen:
                self._leave(one)
                self._slots.held[one.slot].clear()
                self._end(one.job, Failed(error), "failed")
            return
        seconds = time.perf_counter() - started
        self.counts.steps += 1
        self.counts.step_seconds += seconds
        count = sum(len(part.ids) for _, part in chosen)
        if count > len(chosen):
            self._pace = 0.5 * (self._pace or seconds / count) + 0.5 * seconds / count
        for (one, part), score in zip(chosen, scores):
            one.done += len(part.ids)
            try:
                if one.job.sampler is None:
                    self._embed(one, score)
                elif one.done == len(one.text):
                    self._choose(one, one.job.sampler, score.logits[0])
            except Exception as error:
                self._leave(one)
                self._end(one.job, Failed(error), "failed")

    def _budget(self) -> int:
        """Tokens of prompts in the next step: so few that those who are being answered do not wait long for
        it."""
        chunk = self._slots.chunk
        if self._pace == 0.0 or all(len(one.text) - one.done > 1 for one in self._running):
            return chunk
        return max(min(int(_PATIENCE / self._pace), chunk), min(_LEAST, chunk))

    def _choose(self, one: _Sequence, sampler: Sampler, logits: NDArray[np.float32]) -> None:
        """The next token of an answer."""
        job = one.job
        token = sampler.choose(logits, len(one.text), one.text, constraint=job.grammar)
        one.text.append(token)
        one.written += 1
        self.counts.written_tokens += 1
        chosen = Chosen(token)
        if job.logprobs is not None:
            logits = logits[: self._tokenizer.size]
            logprob, best = Sampler.logprobs(logits, token, job.logprobs)
            chosen = Chosen(token, logprob, tuple(best))
        finish: Finish | None = None
        if token in self._tokenizer.ends:
            text, finish = job.stops.finish() if job.stops.found is None else "", "stop"
            self._emit(job, Wrote("", chosen))
        else:
            if job.grammar is not None:
                job.grammar.accept(token)
            text, stopped = job.stops.push(one.stream.push(token))
            self._emit(job, Wrote(text, chosen))
            text = ""
            if stopped:
                finish = "stop"
            elif one.written >= job.most or len(one.text) >= self._slots.context:
                finish = "length"
                text, _ = job.stops.push(one.stream.finish())
                text += job.stops.finish()
        if finish is not None:
            self._leave(one)
            ended = Ended(text, finish, len(job.ids), one.written, one.reused)
            self._end(job, ended, finish)

    def _embed(self, one: _Sequence, score: Scores) -> None:
        """Adds the rows of a part; the mean of all is the embedding."""
        if score.hidden is None:
            raise UnsupportedError(
                "OI0794",
                "the program gives no embeddings",
                hint="return `hidden`, the rows behind the last norm, beside `logits`",
            )
        rows = score.hidden.sum(axis=0, dtype=np.float64)
        rows = rows if one.rows is None else one.rows + rows
        one.rows = rows
        if one.done == len(one.text):
            vector = rows / max(float(np.linalg.norm(rows)), 1e-12)
            self._leave(one)
            self._end(one.job, Embedded(vector.astype(np.float32), len(one.text)), "stop")

    def _leave(self, one: _Sequence) -> None:
        with self._wake:
            self._running.remove(one)

    def _end(self, job: Job, event: Event, how: str) -> None:
        self._count(how)
        self._emit(job, event)

    def _emit(self, job: Job, event: Event) -> None:
        if job.cancelled:
            return
        try:
            job.emit(event)
        except RuntimeError:
            # The loop that waited for the answer is closed.
            job.cancelled = True

    def _count(self, how: str) -> None:
        self.counts.ended[how] = self.counts.ended.get(how, 0) + 1
