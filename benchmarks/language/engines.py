"""The engines of W7 behind one interface: a model in a file, and one sequence of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Protocol

from benchmarks.language.models import CONTEXT, Array

OURS, PEER = "openinfer", "llama.cpp"


class Sequencer(Protocol):
    """What an engine is asked for."""

    def step(self, ids: Sequence[int]) -> Array:
        """Takes tokens; the logits behind the last one, [tokens of the vocabulary]."""
        ...

    def cut(self, position: int) -> None:
        """Forgets the tokens from a position on."""
        ...


class Ours:
    """Our engine as `openinfer generate` makes it; a prompt is computed in chunks of as many tokens."""

    def __init__(self, path: Path, threads: int, device: str) -> None:
        import openinfer as oi

        made = oi.Engine(path, device=device, threads=threads, context=CONTEXT)
        self._runner = made.runner
        self._position = 0

    def step(self, ids: Sequence[int]) -> Array:
        from openinfer.compiler.llm.runner import Part

        chunk, last = self._runner.chunk, len(ids)
        for start in range(0, last, chunk):
            stop = min(start + chunk, last)
            wants = "last" if stop == last else "none"
            (found,) = self._runner.step([Part(0, ids[start:stop], self._position, wants)])
            self._position += stop - start
        return found.logits[0]

    def cut(self, position: int) -> None:
        self._position = position


def llama_cpp(path: Path, threads: int, device: str) -> Sequencer:
    """On the processor, wherever we are."""
    del device
    from benchmarks.llama_library import Llama

    return Llama(path, CONTEXT, threads)


ENGINES: dict[str, tuple[str, Callable[[Path, int, str], Sequencer]]] = {
    OURS: ("openinfer", Ours),
    PEER: ("xllamacpp", llama_cpp),
}
"""Distribution and maker by name."""


def missing(name: str) -> str | None:
    """Why an engine cannot run here, None when it can."""
    distribution, _ = ENGINES[name]
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return f"`{distribution}` is not installed"
    return None
