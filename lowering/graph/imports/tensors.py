"""Tensors of the model that is being imported: passes read small ones, and add what they folded.

Weights never enter the IR, so they stand beside it: `with using_tensors(imported.tensors): …`.
"""

from __future__ import annotations

from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

FOLD_LIMIT = 1 << 20
"""Bytes of a tensor that passes look into, or fold: a file of a few bytes can ask for petabytes."""

_tensors: ContextVar[MutableMapping[str, Any]] = ContextVar("tensors")


@contextmanager
def using_tensors(tensors: MutableMapping[str, Any]) -> Generator[None]:
    """Passes inside read and write these."""
    token = _tensors.set(tensors)
    try:
        yield
    finally:
        _tensors.reset(token)


def tensors() -> MutableMapping[str, Any]:
    """The tensors of the model by name; none where nobody set any."""
    return _tensors.get({})


def small(name: str) -> np.ndarray[Any, Any] | None:
    """The content of a tensor that is there and at most `FOLD_LIMIT` bytes large, as an array."""
    found = tensors().get(name)
    if found is None:
        return None
    size = getattr(found, "nbytes", None)
    if size is None or size > FOLD_LIMIT:
        return None
    return np.asarray(found)
