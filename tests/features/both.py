"""A program on both executors, for tests that prove a feature rather than a data structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.tensors import Tensor

DEVICES = ("simulator", "cpu")
Array = np.ndarray[Any, Any]
Make = Callable[..., Any]


@dataclass
class Model:
    """The content of a package, under any names."""

    sizevars: dict[str, int] = field(default_factory=dict[str, int])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    tensors: dict[str, Any] = field(default_factory=dict[str, Any])


def package(folder: Path, **content: Any) -> oi.Package:
    """A `.oinf` file with this content, opened."""
    path = folder / "model.oinf"
    oi.write_oinf(Model(**content), path)
    return oi.open_model(path)


def executor_on(
    device: str, text: str | oi.Graph, model: Any = None, sizes: Mapping[str, int] | None = None
) -> oi.Executor:
    """An executor of the program by the simulator or on a device."""
    if device == "simulator":
        return oi.Simulator(text, model, sizes or None).make_executor()
    return oi.compile(text, model, device=device, sizes=sizes or None).make_executor()


def plain(value: Any) -> Array:
    """The values of an array or tensor."""
    return value.values() if isinstance(value, Tensor) else np.asarray(value)


def equal(value: Any, wanted: Any) -> None:
    """The same values and shape."""
    np.testing.assert_array_equal(plain(value), np.asarray(wanted))


def close(value: Any, wanted: Any) -> None:
    """The same values up to a few roundings of f32."""
    np.testing.assert_allclose(plain(value), np.asarray(wanted), rtol=2e-5, atol=1e-6)


def refused(text: str, code: str) -> oi.Diagnostic:
    """The finding with this code that the program is refused with."""
    with pytest.raises(oi.ProgramError) as caught:
        oi.graph(text).check()
    found = [d for d in caught.value.diagnostics if d.code == code]
    assert found, str(caught.value)
    return found[0]
