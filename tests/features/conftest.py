"""The modules beside these tests are imported by their own names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from both import DEVICES, Make, executor_on


@pytest.fixture(params=DEVICES)
def make(request: pytest.FixtureRequest) -> Make:
    """An executor of a program text: once by the simulator, once by compiled code."""

    def build(text: str, model: object = None, **sizes: int) -> object:
        return executor_on(request.param, text, model, sizes)

    return build
