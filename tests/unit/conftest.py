"""The modules beside the tests are imported by their own names, `benchmarks` from the checkout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vulkan_library import Library

sys.path.insert(0, str(Path(__file__).parent))
# Last: the checkout's folders are packages of openinfer and imported as such.
sys.path.append(str(Path(__file__).parents[2]))


@pytest.fixture
def library(vulkan: None, monkeypatch: pytest.MonkeyPatch) -> Library:
    """What all calls of the Vulkan driver go through."""
    import vulkan as module
    from vulkan_library import Library

    watched = Library(module.lib)
    monkeypatch.setattr(module, "lib", watched)
    return watched
