"""Where memory or threads end: an error with a code or fewer threads, and state as it was."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.devices.cpu import codegen, early_memory, linking, memory

TEXT = """
dynamic { x: f32[B, 64]; }
persistent { n: i32; a: f32[64]; K(t): f32[64] @table; C(i): f32[2] @auto_dim(i); }
block entry {
    assign y: f32[B, 64];
    assign row: f32[64];
    assign grown: f32[_];
    op mul(x, x) >> y;
    op sum_axis(y, axes=[0]) >> row;
    cache.write row >> K[n];
    cache.read C[n] >> grown;
    cache.increment n;
    return y;
}
"""


def failing(call: Callable[..., Any], after: int) -> Callable[..., Any]:
    """The function, out of memory from its call number `after` on."""
    calls = 0

    def limited(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > after:
            raise MemoryError
        return call(*arguments)

    return limited


@pytest.mark.parametrize("after", range(4))
def test_a_snapshot_that_memory_does_not_hold(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((2, 64), np.float32)
    with oi.compile(TEXT).make_executor(threads=1) as other:
        for _ in range(40):
            other.run(x=x)
        state = other.snapshot()
    with oi.compile(TEXT).make_executor(threads=1) as executor:
        executor.run(x=x)
        before = executor.snapshot()
        with monkeypatch.context() as patch:
            patch.setattr(memory, "aligned_bytes", failing(memory.aligned_bytes, after))
            try:
                executor.restore(state)
            except oi.ArtefactError as error:
                assert error.code == "OI0812"  # noqa: PT017
                assert executor.snapshot() == before
            else:
                assert after > 1
                assert executor.snapshot() == state
                executor.restore(before)
        executor.run(x=x)
        assert executor.fetch("n") == 2
        executor.restore(state)
        assert executor.snapshot() == state
        with monkeypatch.context() as patch:
            patch.setattr(np, "ascontiguousarray", failing(np.ascontiguousarray, 3))
            with pytest.raises(oi.ArtefactError, match="OI0812"):
                executor.restore(before)
            assert executor.fetch("n") == 40


def test_weights_that_memory_does_not_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    oi.write_oinf({"W": np.ones((64, 64), np.float32)}, tmp_path / "m.oinf")
    text = "dynamic { x: f32[B, 64]; } constant { W: f32[64, 64]; } block entry {"
    text += " assign y: f32[B, 64]; op matmul(x, W) >> y; return y; }"
    program = oi.compile(text, oi.open_model(tmp_path / "m.oinf"))
    with monkeypatch.context() as patch:
        patch.setattr(early_memory, "aligned_bytes", failing(memory.aligned_bytes, 0))
        with pytest.raises(oi.ArtefactError, match=r"OI0813.* bytes"):
            program.make_executor(threads=1)
    result = program.make_executor(threads=1).run(x=np.ones((1, 64), np.float32))["y"]
    np.testing.assert_array_equal(result, np.full((1, 64), 64))


def test_a_library_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite.binding as binding

    def broken() -> None:
        raise OSError("cannot allocate memory in static TLS block")

    monkeypatch.setattr(binding, "initialize_native_target", broken)
    codegen._llvm.cache_clear()  # pyright: ignore[reportPrivateUsage]
    try:
        with pytest.raises(oi.UnsupportedError, match=r"OI0781.*static TLS"):
            codegen.prepared()
    finally:
        codegen._llvm.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("given", range(3))
def test_fewer_threads_than_asked_for(given: int, monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = threading.Thread.start, list[threading.Thread]()

    def limited(thread: threading.Thread) -> None:
        if len(started) == given:
            raise RuntimeError("can't start new thread")
        start(thread)
        started.append(thread)

    text = "dynamic { x: f32[N, 512]; w: f32[512, 512]; } block entry { assign y: f32[N, 512];"
    text += " op matmul(x, w) >> y; op tanh(y) >> y; return y; }"
    program = oi.compile(text)
    draw = np.random.default_rng(3)
    x, w = (draw.normal(size=(512, 512)).astype(np.float32) for _ in range(2))
    expected = np.asarray(program.make_executor(threads=1).run(x=x, w=w)["y"]).copy()
    monkeypatch.setattr(threading.Thread, "start", limited)
    with program.make_executor(threads=4) as executor:
        for _ in range(5):
            np.testing.assert_array_equal(executor.run(x=x, w=w)["y"], expected)
        assert len(started) == given
    assert not any(thread.is_alive() for thread in started)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_limit_at_which_code_is_linked_is_an_error_and_no_abort() -> None:
    program = oi.compile(TEXT)
    program.loaded()
    child = os.fork()
    if not child:
        code = ""
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        try:
            for _ in range(50):
                linking.load_objects(program.objects, ["openinfer_step"])
        except oi.ArtefactError as error:
            code = error.code
        finally:
            os._exit(0 if code == "OI0813" else 1)
    assert os.waitpid(child, 0)[1] == 0
