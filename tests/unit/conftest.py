"""The modules beside the tests are imported by their own names, `benchmarks` from the checkout."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vulkan_library import Library

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def library(python_library: Library) -> Library:
    """What all calls of the Vulkan driver go through."""
    return python_library


@pytest.fixture
def python_library(vulkan: None, monkeypatch: pytest.MonkeyPatch) -> Library:
    """What all calls of the Vulkan driver go through, which Python makes."""
    import vulkan as module
    from vulkan_library import Library

    from openinfer.runtime.devices.vulkan.logical import LogicalDevice

    watched = Library(module.lib)
    monkeypatch.setattr(module, "lib", watched)
    hidden = property(lambda _: None, lambda self, found: self.__dict__.update(native=found))
    monkeypatch.setattr(LogicalDevice, "native", hidden, raising=False)
    return watched


@pytest.fixture
def native_library(vulkan: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """The same, where machine code makes them that can."""
    import vulkan as module
    from vulkan_library import Library

    from openinfer.runtime.devices.vulkan import native
    from openinfer.runtime.devices.vulkan.logical import logical_device

    if native.native_code() is None:
        pytest.skip("machine code is not made here")
    watched = Library(module.lib)
    monkeypatch.setattr(module, "lib", watched)
    monkeypatch.setattr(native, "address_of", watched.address_of)
    logical_device().lose()
    yield watched
    # Its functions are those of this library.
    logical_device().lose()
