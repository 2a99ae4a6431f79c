"""Pipelines of a Vulkan device: what is kept of them on disk, and who makes them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from vulkan_library import Library

import openinfer as oi
from openinfer.runtime.cache import Cache
from openinfer.runtime.devices.vulkan import kernels
from openinfer.runtime.devices.vulkan.driver import DriverIdentity
from openinfer.runtime.devices.vulkan.kernels import Kernels, Words
from openinfer.runtime.devices.vulkan.logical import logical_device
from openinfer.runtime.devices.vulkan.parts import part_of
from openinfer.runtime.devices.vulkan.pipeline_cache import HEADER, fits, header_of
from openinfer.runtime.devices.vulkan.record import MOVES
from openinfer.runtime.errors import ArtefactError, UnsupportedError
from openinfer.runtime.options import Options

PROGRAM = """
dynamic { x: f32[B, 300]; }
constant { w: f32[300, 300] @init(0.01); }
block entry {
    assign h: f32[B, 300];
    op matmul(x, w) >> h;
    op softmax(h, axis=1) >> h;
    return h;
}
"""


@cache
def modules() -> list[Words]:
    """Those of a program, which is compiled once."""
    program = oi.compile(PROGRAM, device="vulkan")
    rows = {row.kernel: len(row.buffers) + 1 for row in program.manifest.calls}
    return [
        Words(program.part(part_of(name)), bindings, name)
        for name, bindings in rows.items()
        if name not in MOVES
    ]


def make(wanted: list[Words]) -> None:
    """Makes them as a process does that has made none before."""
    device = logical_device()
    Kernels(device.physical, device.handle, device.lifetime).make(wanted)


@pytest.fixture
def folder(vulkan: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    logical_device()  # What its machine code leaves lies elsewhere.
    place = tmp_path / "cache"
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(place))
    return place


class Recorder:
    """A driver whose caches have content, which those of lavapipe do not have; and what it is given."""

    def __init__(self, library: Library, content: bytes) -> None:
        import vulkan

        self.ffi, self._library, self._content = vulkan.ffi, library, content
        self.given: list[bytes] = []
        library.replaced["vkCreatePipelineCache"] = self._create
        library.replaced["vkGetPipelineCacheData"] = self._data

    def _create(self, device: Any, create: Any, allocator: Any, made: Any) -> int:
        self.given.append(bytes(self.ffi.buffer(create.pInitialData, create.initialDataSize)))
        create.initialDataSize = 0
        return self._library.lib.vkCreatePipelineCache(device, create, allocator, made)

    def _data(self, device: Any, cache: Any, count: Any, data: Any) -> int:
        count[0] = len(self._content)
        if data != self.ffi.NULL:
            self.ffi.memmove(data, self._content, len(self._content))
        return 0


def content(more: bytes = b"pipelines") -> bytes:
    return header_of(logical_device().physical.driver) + more


def entry(folder: Path) -> Path:
    (found,) = folder.glob("*.oic")
    return found


def test_pipelines_are_kept_for_the_next_process(library: Library, folder: Path) -> None:
    wanted = modules()
    before = set(folder.glob("*.oic"))
    driver = Recorder(library, content())
    make(wanted)
    (kept,) = set(folder.glob("*.oic")) - before
    make(list(reversed(wanted)))
    assert driver.given == [b"", content()]
    # Other kernels are another entry.
    make(wanted[:1])
    assert driver.given[2:] == [b""]
    rows = {row.key: row.description for row in Cache(folder, 1 << 30).entries()}
    assert "kernels as " in rows[kept.stem]


def test_what_the_driver_adds_is_kept_too(library: Library, folder: Path) -> None:
    wanted = modules()
    for more in (b"one", b"one and two"):
        Recorder(library, content(more))
        make(wanted)
    driver = Recorder(library, content(b"one"))
    make(wanted)
    make(wanted)
    assert driver.given == [content(b"one and two")] * 2


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_is_ignored_and_replaced(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw, wanted = random.Random(seed), modules()
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(folder / "kernels"))
    driver = Recorder(library, content(draw.randbytes(500)))
    make(wanted)
    path = entry(folder / "kernels")
    whole = path.read_bytes()
    damaged = bytearray(whole)
    if seed:
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    else:
        del damaged[-draw.randrange(1, 300) :]
    path.write_bytes(damaged)
    make(wanted)
    assert driver.given == [b"", b""]
    assert path.read_bytes() == whole


def another(position: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


@pytest.mark.parametrize(
    "change",
    [
        *map(another, (0, 4, 8, 12, 16, 31)),
        lambda data: data[: HEADER.size],
        lambda data: data[:10],
        lambda data: b"",
    ],
)
def test_what_another_driver_wrote_never_reaches_this_one(
    library: Library,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[bytes], bytes],
) -> None:
    """Not even where it lies under the right name, with a checksum that is right."""
    wanted = modules()
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(folder / "kernels"))
    driver = Recorder(library, content())
    make(wanted)
    path = entry(folder / "kernels")
    assert Cache.of(Options.from_environment()).put(path.stem, change(content()))
    make(wanted)
    make(wanted)
    assert driver.given == [b"", b"", content()]


def test_the_header() -> None:
    driver = DriverIdentity(0x10DE, 0x2335, 7, "ab", bytes(range(16)))
    data = header_of(driver) + b"x"
    assert data[:20] == bytes(
        [32, 0, 0, 0, 1, 0, 0, 0, 0xDE, 0x10, 0, 0, 0x35, 0x23, 0, 0, 0, 1, 2, 3]
    )
    assert fits(data, driver)
    assert not fits(data[:-1], driver)
    assert not fits(data, driver._replace(vendor=1))


def test_no_cache_no_files(library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENINFER_CACHE", "off")
    driver, wanted = Recorder(library, content()), modules()
    make(wanted)
    make(wanted)
    assert driver.given == [b"", b""]
    assert not folder.exists()


@pytest.mark.parametrize("call", ["vkCreatePipelineCache", "vkGetPipelineCacheData"])
def test_a_driver_without_caches_makes_pipelines(library: Library, folder: Path, call: str) -> None:
    wanted = modules()
    before = set(folder.glob("*"))
    library.replaced[call] = lambda *_: -1
    make(wanted)
    assert library.counts["vkCreateComputePipelines"] >= len(wanted)
    assert set(folder.glob("*")) == before


def test_several_threads_make_the_pipelines_of_a_program(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them are in the driver at the same time: the one waits for the other."""
    from openinfer.runtime.devices.vulkan import kernels

    monkeypatch.setattr(kernels, "available_cpus", lambda: 2)
    meeting = threading.Barrier(2)

    def create(*given: Any) -> int:
        meeting.wait(timeout=60)
        return library.lib.vkCreateComputePipelines(*given)

    wanted = modules()
    library.replaced["vkCreateComputePipelines"] = create
    make((wanted * 2)[: len(wanted) // 2 * 2])
    assert library.counts["vkCreateComputePipelines"] == len(wanted) // 2 * 2


def test_a_kernel_that_the_driver_refuses(library: Library) -> None:
    wanted = modules()
    library.replaced["vkCreateComputePipelines"] = lambda *_: -13
    with pytest.raises(ArtefactError, match="refuses the kernel") as raised:
        make(wanted)
    assert raised.value.code == "OI0772"


# Words are checked once


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The words that are checked."""
    found: list[bytes] = []
    real = kernels.check_words

    def watched(words: bytes) -> Any:
        found.append(words)
        return real(words)

    monkeypatch.setattr(kernels, "check_words", watched)
    return found


def test_words_that_are_kept_were_checked(
    library: Library, folder: Path, checked: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other words, another name, number of bindings, limit or version of the checks: once more."""
    Recorder(library, content())
    wanted = modules()
    make(wanted)
    assert sorted(checked) == sorted(one.words for one in wanted)
    checked.clear()
    make(wanted)
    assert checked == []
    make(wanted[:1])
    assert checked == [wanted[0].words]
    for other in (wanted[0]._replace(name="another"), wanted[0]._replace(bindings=1)):
        with pytest.raises(ArtefactError, match="OI0761"):
            make([other])
    damaged = wanted[0]._replace(words=wanted[0].words[:-4])
    with pytest.raises(ArtefactError):
        make([damaged])
    physical = logical_device().physical
    smaller = replace(physical, limits=replace(physical.limits, invocations=1))
    monkeypatch.setattr(logical_device(), "physical", smaller)
    with pytest.raises(UnsupportedError, match="OI0773"):
        make(wanted)
    monkeypatch.setattr(logical_device(), "physical", physical)
    checked.clear()
    make(wanted)
    assert checked == []
    monkeypatch.setattr(kernels, "source_fingerprint", lambda: "of other sources")
    make(wanted)
    assert len(checked) == len(wanted)


def test_words_are_checked_where_nothing_is_kept(
    library: Library, folder: Path, checked: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a cache, and where the file is damaged."""
    Recorder(library, content())
    wanted = modules()
    before = set(folder.glob("*.oic"))
    make(wanted)
    (path,) = set(folder.glob("*.oic")) - before
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    checked.clear()
    make(wanted)
    assert len(checked) == len(wanted)
    monkeypatch.setenv("OPENINFER_CACHE", "off")
    make(wanted)
    assert len(checked) == 2 * len(wanted)
