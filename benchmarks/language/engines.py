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


def llama_cpp(path: Path, threads: int) -> Sequencer:
    from benchmarks.llama_library import Llama

    return Llama(path, CONTEXT, threads)


ENGINES: dict[str, tuple[str, Callable[[Path, int], Sequencer]]] = {
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
