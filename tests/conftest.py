"""What every test shares: paths, a cache of its own, and the pieces that may be absent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


ASKS_THE_HOST = "cpu_identity host_can_run host_target named_target skip_unless_it_runs".split()
"""Who imports one of these asks what this processor is, or makes code for others."""


@pytest.fixture(autouse=True, scope="session")
def verified() -> None:
    """Every compilation checks the IR after each phase, also where LLVM would do it again."""
    from openinfer.compiler import pipeline

    pipeline.VERIFY_EMITTED = True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of every file that asks for the processor: CI repeats them with it masked."""
    for item in items:
        module = getattr(item, "module", None)
        if any(hasattr(module, name) for name in ASKS_THE_HOST):
            item.add_marker(pytest.mark.host)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture
def unseen_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the CPU a device whose memory the host does not see (`conformance/unseen.py`)."""
    from openinfer.runtime.devices import DEVICES

    monkeypatch.syspath_prepend(str(Path(__file__).parent / "conformance"))
    monkeypatch.setitem(DEVICES, "cpu", "unseen:UnseenDevice")


LAVAPIPE = Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json")
"""The driver that computes on the processor, as Debian installs it."""


@pytest.fixture(scope="session")
def vulkan() -> None:
    """A Vulkan driver: that of OPENINFER_VULKAN_DEVICE, else lavapipe. Skips without one, or fails where
    OPENINFER_REQUIRE_VULKAN is 1."""
    if "OPENINFER_VULKAN_DEVICE" not in os.environ:
        os.environ["OPENINFER_VULKAN_DEVICE"] = "llvmpipe"
        if LAVAPIPE.exists():
            os.environ.setdefault("VK_ICD_FILENAMES", str(LAVAPIPE))
    from openinfer.runtime.devices import device_of

    reason = device_of("vulkan").unavailable_reason()
    if reason is None:
        return
    if os.environ.get("OPENINFER_REQUIRE_VULKAN") == "1":
        pytest.fail(f"no Vulkan: {reason}")
    pytest.skip(f"no Vulkan: {reason}")


@pytest.fixture
def everything_on_vulkan(vulkan: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small values, too, are computed by the device, which is what tests have."""
    from openinfer.lowering.linalg import choose_places

    monkeypatch.setattr(choose_places, "MOST_ELEMENTS", 0)
    # What was compiled in this way is nothing for others.
    monkeypatch.setenv("OPENINFER_CACHE", "off")


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tests neither use nor fill the cache of the person who runs them; all workers of a run have one."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "programs"
    folder.mkdir(mode=0o700, exist_ok=True)
    before = os.environ.get("OPENINFER_CACHE_DIR")
    os.environ["OPENINFER_CACHE_DIR"] = str(folder)
    yield folder
    if before is None:
        del os.environ["OPENINFER_CACHE_DIR"]
    else:
        os.environ["OPENINFER_CACHE_DIR"] = before
