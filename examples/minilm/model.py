"""The program `minilm.oi` with its weights: arrays of tokens in, unit vectors out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import openinfer as oi
from openinfer.compiler.tools.progress import waiting

PROGRAM = Path(__file__).with_name("minilm.oi")
Array = np.ndarray[Any, Any]


class MiniLM:
    """An embedding model; one compilation serves every number and length of sentences."""

    def __init__(self, folder: Path, executor: str = "cpu", threads: int | None = None) -> None:
        """`executor` is "cpu" (compiled) or "simulator" (NumPy, node by node).

        Raises PackageError for a folder with other files than the program needs.
        """
        self.package = oi.open_model(folder / "model.safetensors")
        graph = oi.graph_file(PROGRAM)
        if executor == "simulator":
            self.executor = oi.Simulator(graph, self.package).make_executor()
        else:
            with waiting(f"compiling {PROGRAM.name}"):
                program = oi.compile(graph, self.package)
            self.executor = program.make_executor(threads)

    def embed(self, tokens: Array, mask: Array) -> Array:
        """Unit vectors, f32 [sentences, hidden_size], for tokens and mask, i64 [sentences, length].

        Raises InputError for other dtypes or shapes.
        """
        embedding = self.executor.run(tokens=tokens, mask=mask)["embedding"]
        return np.asarray(embedding)

    def close(self) -> None:
        """Frees the executor's memory and the mapped weights."""
        self.executor.close()
        self.package.close()

    def __enter__(self) -> MiniLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
