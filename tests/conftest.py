"""What every test shares: paths, a cache of its own, and the pieces that may be absent."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from openinfer.dialects.quick_xdsl import import_xdsl

REPOSITORY = Path(__file__).resolve().parent.parent
# Last: the checkout's folders are packages of openinfer and imported as such.
sys.path.append(str(REPOSITORY))
# Before a test imports a part of it: its classes are those that a compilation has.
import_xdsl()


ASKS_THE_HOST = "cpu_identity host_can_run host_target named_target skip_unless_it_runs".split()
"""Who imports one of these asks what this processor is, or makes code for others."""
KINDS = {"generic", "avx2", "avx512"}


@pytest.fixture(autouse=True, scope="session")
def verified() -> None:
    """Every compilation checks the IR after each phase, also where LLVM would do it again."""
    from openinfer.compiler import pipeline

    pipeline.VERIFY_EMITTED = True


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only tests with the marker `host` are asked for, files that can have none are not imported."""
    asked = str(config.getoption("markexpr") or "").startswith("host")
    if not asked or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    return None if any(name in text for name in ASKS_THE_HOST) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of every file that asks for the processor: CI repeats them with it masked.

    Not those that are given a kind of processor: their code is the same wherever it is made, and what this
    one can run has run.
    """
    for item in items:
        module = getattr(item, "module", None)
        callspec = getattr(item, "callspec", None)
        given = [str(value) for value in callspec.params.values()] if callspec is not None else []
        if any(hasattr(module, name) for name in ASKS_THE_HOST) and not KINDS & set(given):
            item.add_marker(pytest.mark.host)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """In a process of pytest-xdist an interrupt that leaves a test is its failure. It would end the process,
    and with it the run."""
    try:
        return (yield)
    except KeyboardInterrupt as error:
        if "PYTEST_XDIST_WORKER" in os.environ:
            raise AssertionError("an interrupt left the test") from error
        raise


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
