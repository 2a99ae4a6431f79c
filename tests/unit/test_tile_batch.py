"""Chains of kernels that go through a batch image by image: the same bits, and room for one image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.api import compile as compile_without
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.manifest import Manifest
from openinfer.runtime.packages.oinf_writer import OinfContent
from openinfer.runtime.sizes import Size
from openinfer.runtime.target import TARGETS, named_target

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)
CACHE = 64 << 10
"""Bytes of a last cache that is small beside what the program hands on: 2 KiB of an image are enough."""

PROGRAM = """
dynamic { image: f32[B, 3, 16, 16]; mask: f32[B, 8, 16, 16]; }
constant {
    enter: f32[8, 3, 3, 3] @ref("enter");
    scale: f32[8] @ref("scale");
    each(b): f32[8, 1, 3, 3] @pattern("each.{b}");
    narrow(b): f32[8, 8, 1, 1] @pattern("narrow.{b}");
    wide: f32[24, 8] @ref("wide");
    back: f32[8, 24] @ref("back");
    weight: f32[8] @ref("weight");
    bias: f32[8] @ref("bias");
    far: f32[8, 8, 3, 3] @ref("far");
}
block entry {
    h = op conv2d(image, enter, padding=1);
    s = op reshape(scale, shape=[8, 1, 1]);
    s = op sqrt(s);
    h = op mul(h, s);
    h = op mul(h, mask);
    h = op relu(h);
    loop blocks (b in 0..2) {
        r = op conv2d(h, each[b], padding=1, groups=8);
        r = op relu(r);
        r = op conv2d(r, narrow[b]);
        h = op add(h, r);
    }
    a = op transpose(h, perm=[0, 2, 3, 1]);
    a = op layer_norm(a, weight, bias);
    c = op linear(a, wide);
    c = op gelu(c);
    a = op linear(c, back);
    t = op transpose(a, perm=[0, 3, 1, 2]);
    h = op add(h, t);
    p = op max_pool2d(h, kernel_size=2, stride=2);
    p = op conv2d(p, far, padding=1);
    mean = op mean_axis(p, axes=[2, 3]);
    return h, mean;
}
"""
MIXING = """
dynamic { x: f32[B, 8, 16, 16]; }
constant { W: f32[8, 8, 3, 3] @ref("far"); }
block entry {
    h = op conv2d(x, W, padding=1);
    h = op relu(h);
    middle = op mean_axis(h, axes=[0]);
    c = op sub(h, middle);
    c = op conv2d(c, W, padding=1);
    turned = op reshape(c, shape=[8, B, 16, 16]);
    turned = op tanh(turned);
    c = op add(c, reshape(turned, shape=[B, 8, 16, 16]));
    last = op conv2d(c, W, padding=1);
    last = op conv2d(relu(last), W, padding=1);
    return middle, last;
}
"""
"""A mean over images, and a tensor whose first dimension is no longer that of images, between chains."""
RISING = """
dynamic { x: f32[B, 3, 16, 16]; }
constant {
    enter: f32[8, 3, 3, 3] @ref("enter");
    up: f32[8, 4, 2, 2] @ref("up");
    bias: f32[4] @ref("four");
    far: f32[8, 8, 3, 3] @ref("far");
}
block entry {
    d = op conv2d(x, enter, padding=1);
    d = op relu(d);
    less = op max_pool2d(d, kernel_size=2);
    r = op conv_transpose2d(less, up, bias, stride=2);
    c = op concat(r, r, axis=1);
    h = op conv2d(c, far, padding=1);
    h = op relu(h);
    y = op conv2d(h, far, padding=1);
    return y;
}
"""
"""What is widened, and what joins channels, goes image by image."""


@dataclass(frozen=True)
class Both:
    """A program with the pass, and the one without it."""

    tiled: oi.Program
    plain: oi.Program
    model: oi.Model


def _tensors() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    shapes = {
        **{"enter": (8, 3, 3, 3), "wide": (24, 8), "back": (8, 24), "far": (8, 8, 3, 3)},
        **{f"each.{b}": (8, 1, 3, 3) for b in range(2)},
        **{f"narrow.{b}": (8, 8, 1, 1) for b in range(2)},
        **{"weight": (8,), "bias": (8,), "up": (8, 4, 2, 2), "four": (4,)},
    }
    found = {name: random.standard_normal(shape, np.float32) / 3 for name, shape in shapes.items()}
    return {**found, "scale": random.random(8, np.float32)}


def _inputs(batch: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(batch)
    shapes = {"image": (batch, 3, 16, 16), "mask": (batch, 8, 16, 16)}
    return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder: Path = tmp_path_factory.mktemp("tile_batch")
    oi.write_oinf(OinfContent({}, {}, _tensors()), folder / "weights.oinf")
    model = oi.open_model(folder / "weights.oinf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENINFER_CACHE_DIR", str(folder / "cache"))
        name = host_target().name
        patch.setitem(TARGETS, name, replace(named_target(name), last_cache=CACHE))
        tiled = oi.compile(PROGRAM, model, target=name)
        plain = compile_without(PROGRAM, model, target=name, without=["tile-batch"])
        yield Both(tiled, plain, model)


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_results_stay(both: Both, batch: int):
    """But for a rounding in the last vector of an image, where code has no masks. Threads change nothing."""
    inputs = _inputs(batch)
    expected = both.plain.make_executor(1).run(**inputs)
    found = []
    for threads in (1, 2):
        with both.tiled.make_executor(threads) as executor:
            found += [executor.run(**inputs) for _ in range(2)]
    for name, value in expected.items():
        np.testing.assert_allclose(found[0][name], value, rtol=2e-6, atol=1e-6, err_msg=name)
        for other in found[1:]:
            np.testing.assert_array_equal(other[name], found[0][name], err_msg=name)


def test_against_the_simulator(both: Both):
    inputs = _inputs(3)
    expected = oi.Simulator(PROGRAM, both.model).make_executor().run(**inputs)
    found = both.tiled.make_executor(1).run(**inputs)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("batch", ["B", "4"])
def test_what_mixes_images_stays_between(both: Both, batch: str):
    text = MIXING.replace("[B", f"[{batch}").replace(" B,", f" {batch},")
    x = np.random.default_rng(1).standard_normal((4, 8, 16, 16), np.float32)
    expected = oi.Simulator(text, both.model).make_executor().run(x=x)
    found = oi.compile(text, both.model, target=host_target().name).make_executor(2).run(x=x)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4, err_msg=name)


def test_joins_and_transposed_convolutions_go_image_by_image(both: Both):
    name = host_target().name
    x = np.random.default_rng(2).standard_normal((5, 3, 16, 16), np.float32)
    expected = oi.Simulator(RISING, both.model).make_executor().run(x=x)["y"]
    program = oi.compile(RISING, both.model, target=name)
    plain = compile_without(RISING, both.model, target=name, without=["tile-batch"])
    np.testing.assert_allclose(
        program.make_executor(2).run(x=x)["y"], expected, rtol=1e-4, atol=1e-4
    )
    with program.make_executor(1, trace=True) as executor:
        executor.run(x=x)
        kernels = [event.kernel.split("_")[0] for event in executor.trace() if event.kernel]
    assert [kernels.count(kind) for kind in ("fold", "matmul")] == [5, 5]
    assert _arena(program.manifest, 8) < 0.7 * _arena(plain.manifest, 8)


def test_a_trace_shows_each_image(both: Both):
    counts: list[int] = []
    with both.tiled.make_executor(1, trace=True) as executor:
        for batch in (1, 3):
            executor.clear_trace()
            executor.run(**_inputs(batch))
            counts.append(sum(event.kernel.startswith("conv_") for event in executor.trace()))
    # Two convolutions in each of two rounds go image by image; the first and the last hand on nothing.
    assert counts == [6, 2 + 3 * 4]


def _arena(manifest: Manifest, batch: int) -> int:
    return Size.of(manifest.arena).evaluate({"B": batch})


def test_memory_of_one_image(both: Both):
    # Eight images need room for what is read and given, and for one image of what is between.
    tiled, plain = (_arena(p.manifest, 8) for p in (both.tiled, both.plain))
    assert tiled < 0.7 * plain
