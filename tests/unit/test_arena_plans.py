"""Plans of whole programs: how near to the largest live set, and steps that allocate nothing."""

from __future__ import annotations

import ctypes
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.devices.cpu.object_symbols import PROVIDED, undefined_symbols
from openinfer.runtime.plan import lower_bound
from openinfer.runtime.program import Program
from openinfer.runtime.sizes import THREADS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

ENCODER = """
dynamic {{ x: f32[T, {d}]; }}
volatile {{ y: f32[T, {d}]; Wq: f32[{d}, {d}]; Wk: f32[{d}, {d}]; Wv: f32[{d}, {d}];
  Wo: f32[{d}, {d}]; Wu: f32[{d}, 4 * {d}]; Wd: f32[4 * {d}, {d}]; g: f32[{d}]; b: f32[{d}]; }}
block entry {{
  assign q: f32[T, {d}]; assign k: f32[T, {d}]; assign v: f32[T, {d}];
  assign qh: f32[T, 4, {d} / 4]; assign kh: f32[T, 4, {d} / 4]; assign vh: f32[T, 4, {d} / 4];
  assign qt: f32[4, T, {d} / 4]; assign kt: f32[4, {d} / 4, T]; assign vt: f32[4, T, {d} / 4];
  assign s: f32[4, T, T]; assign c: f32[4, T, {d} / 4]; assign ct: f32[T, 4, {d} / 4];
  assign h: f32[T, {d}]; assign u: f32[T, 4 * {d}];
  op matmul(x, Wq) >> q; op matmul(x, Wk) >> k; op matmul(x, Wv) >> v;
  op reshape(q, shape=[T, 4, {d} / 4]) >> qh;
  op reshape(k, shape=[T, 4, {d} / 4]) >> kh;
  op reshape(v, shape=[T, 4, {d} / 4]) >> vh;
  op transpose(qh, perm=[1, 0, 2]) >> qt;
  op transpose(kh, perm=[1, 2, 0]) >> kt;
  op transpose(vh, perm=[1, 0, 2]) >> vt;
  op matmul(qt, kt) >> s;
  op softmax(s, axis=2) >> s;
  op matmul(s, vt) >> c;
  op transpose(c, perm=[1, 0, 2]) >> ct;
  op reshape(ct, shape=[T, {d}]) >> h;
  op matmul(h, Wo) >> h;
  op add(h, x) >> h;
  op layer_norm(h, g, b) >> h;
  op matmul(h, Wu) >> u;
  op gelu(u) >> u;
  op matmul(u, Wd) >> y;
  op add(y, h) >> y;
  op layer_norm(y, g, b) >> y;
  return;
}}
"""


def example(name: str) -> Program:
    model = oi.open_model(EXAMPLES / f"{name}.oinf")
    return oi.compile(oi.graph_file(EXAMPLES / f"{name}.oi"), model)


def minilm() -> Program:
    from examples.minilm.weights import find_weights

    try:
        weights = find_weights() / "model.safetensors"
    except oi.OpenInferError as error:
        pytest.skip(f"the weights are not installed: {error}")
    return oi.compile(oi.graph_file(EXAMPLES / "minilm" / "minilm.oi"), oi.open_model(weights))


def encoder() -> Program:
    return oi.compile(oi.graph(ENCODER.format(d=64)))


NAMES = ["mlp", "vit", "cnn", "decoder"]
PROGRAMS: dict[str, Callable[[], Program]] = {
    **{name: lambda name=name: example(name) for name in NAMES},
    "encoder": encoder,
    "minilm": minilm,
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_plan_is_at_most_a_twentieth_above_the_live_set(name: str) -> None:
    program = PROGRAMS[name]()
    manifest = program.manifest
    for extent in (1, 2, 7, 16, 33, 128, 512):
        for threads in (1, 2):
            sizes = dict.fromkeys(manifest.runtime_sizes, extent)
            sizes.update(dict.fromkeys((f"bound.{size}" for size in manifest.dynamic_sizes), 64))
            for row in manifest.states:
                sizes.update({f"capacity.{row.name}.{axis}": 64 for axis in range(len(row.axes))})
            sizes[THREADS] = threads
            live = lower_bound(manifest, sizes)
            assert program.arena_bytes(sizes) <= 1.05 * live, (extent, threads)


# No allocation inside of a step

ALLOCATORS = frozenset(
    "malloc calloc realloc reallocarray free aligned_alloc posix_memalign memalign valloc mmap "
    "munmap mremap brk sbrk _Znwm _Znam".split()
)


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_the_code_of_a_step_cannot_allocate(name: str) -> None:
    symbols = set(undefined_symbols(*PROGRAMS[name]().objects))
    assert not symbols & ALLOCATORS
    # What else it calls: moves of bytes, functions of numbers, waiting for other threads, asking the host.
    assert symbols <= PROVIDED
    assert not PROVIDED & ALLOCATORS


class Mallinfo(ctypes.Structure):
    """What glibc says of its heap (`man mallinfo2`)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keep".split()
    ]


def heap_bytes() -> int:
    """Bytes that the process has allocated from the C library now."""
    library: Any = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        pytest.skip("this C library has no mallinfo2")
    library.mallinfo2.restype = Mallinfo
    found = library.mallinfo2()
    return int(found.uordblks) + int(found.hblkhd)


TABLE = """
dynamic { x: f32[B, 256]; t: i32; }
volatile { y: f32[B, 256]; all: f32[256]; }
persistent { K(i): f32[256] @table; n: i32; }
block entry {
    assign first: f32[256];
    op sum_axis(x, axis=0) >> first;
    cache.write first >> K[t];
    cache.increment n;
    cache.read K[t] >> all;
    op exp(x) >> y;
    return;
}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_step_within_capacity_allocates_nothing(threads: int) -> None:
    program = oi.compile(oi.graph(TABLE))
    with program.make_executor(threads) as executor:
        x, places = np.ones((256, 256), np.float32), [np.array(i, np.int32) for i in range(4)]
        for rows in (256, 64, 256):
            executor.run(x=x[:rows], t=places[3])
        counts = executor.arena_growths, executor.state_growths

        def steps() -> None:
            for place in places:
                executor.insert(x=x, t=place)
                executor.step()
                executor.fetch("y", copy=False)

        steps()
        # The smallest array of the step has 1 KiB, the largest 256.
        tracemalloc.start()
        try:
            steps()
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            steps()
            after, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak - before < 4096
        assert after - before < 1024
        held = heap_bytes()
        for _ in range(50):
            steps()
        # 200 steps: what each of them kept would add up.
        assert heap_bytes() - held < 50_000
        assert (executor.arena_growths, executor.state_growths) == counts


def test_growth_is_counted_and_traced() -> None:
    program = oi.compile(oi.graph(TABLE))
    with program.make_executor(1, trace=True) as executor:

        def step(rows: int, place: int) -> dict[str, object]:
            executor.clear_trace()
            executor.run(x=np.ones((rows, 256), np.float32), t=place)
            first, *others = executor.trace()
            assert not any("growths" in name for event in others for name in event.settings)
            settings = dict(first.settings)
            assert settings.pop("threads") == 1
            return settings

        assert step(4, 3) == {"arena_growths": 1}
        # The first entry that is written again takes memory to undo that with.
        assert step(4, 3) == {"state_growths": 1}
        assert step(4, 3) == {}
        assert step(2, 4) == {}
        assert step(64, 4) == {"arena_growths": 1}
        assert step(64, 500) == {"state_growths": 1}
        assert step(64, 400) == {}
        assert (executor.arena_growths, executor.state_growths) == (2, 2)


def test_the_summary_of_a_trace_counts_growth() -> None:
    from openinfer.compiler.tools.trace_profile import Profile

    with oi.compile(oi.graph(TABLE)).make_executor(1, trace=True) as executor:
        for rows, place in ((4, 3), (8, 3), (8, 500), (8, 4)):
            executor.run(x=np.ones((rows, 256), np.float32), t=place)
        profile = Profile.of(executor.trace())
    assert (profile.arena_growths, profile.state_growths) == (2, 2)
    assert "the arena 2 times, that of persistent variables 2 times" in profile.summary()
    data = profile.json(("node",))
    assert (data["arena_growths"], data["state_growths"]) == (2, 2)
