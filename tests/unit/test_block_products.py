"""Products and tables of weights in blocks: kernels against the unpacked values, format by format."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

import openinfer as oi
from openinfer.lowering.cpu.schedules.block_codes import READERS
from openinfer.lowering.cpu.schedules.block_rows import ROW_READERS
from openinfer.runtime.blocks import BLOCKS
from openinfer.runtime.errors import ModelWarning
from openinfer.runtime.unpacking import unpacked

Array = NDArray[Any]

K, N = 512, 37
"""Two blocks of 256, and a panel that is filled in part on every target."""
ROWS = (1, 2, 3, 7, 8, 19)

PROGRAM = """
dynamic { x: f32[B, 512]; ids: i32[B]; }
constant {
    W: f32[37, 512] @dtype(_);
    bias: f32[37] @init(0.5);
}
block entry {
    p = op linear(x, W);
    p = op add(p, bias);
    y = op relu(p);
    rows = op embedding(W, ids);
    return y, rows;
}
"""


def blocks(name: str, rows: int, columns: int, seed: int) -> Array:
    """Random blocks whose scales are finite, as rows of bytes."""
    block = BLOCKS[name]
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 256, (rows, columns // block.elements, block.nbytes), dtype=np.uint8)
    for part in block.parts:
        if part.name in ("d", "m", "dmin"):
            scale = rng.standard_normal((*found.shape[:2], 1)) * 0.02
            found[..., part.offset : part.offset + 2] = scale.astype("<f2").view(np.uint8)
        if part.name == "e":
            found[..., part.offset] = rng.integers(118, 124, found.shape[:2])
    return found.reshape(rows, -1)


def write(path: Path, tensors: dict[str, tuple[str, Array]], **sizes: int) -> Path:
    """A model of tensors in blocks; f32 ones have the format `f32`."""
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in sizes.items():
        writer.add_uint32(f"llama.{key}", value)
    for name, (kind, data) in tensors.items():
        raw = gguf.GGMLQuantizationType[kind.upper()] if kind != "f32" else None
        writer.add_tensor(name, data, raw_dtype=raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def values(name: str, data: Array) -> Array:
    """The exact values of rows of blocks, in f64."""
    flat = unpacked(BLOCKS[name], data.reshape(-1)).astype(np.float64)
    return flat.reshape(data.shape[0], -1)


def rounded(x: Array) -> tuple[Array, Array]:
    """What `nn.quantize_rows` makes of f32 rows: integers, and the scales of their blocks of 32."""
    parts = x.reshape(x.shape[0], -1, 32)
    most = np.abs(parts).max(-1, keepdims=True)
    inverse = np.divide(np.float32(127), most, out=np.zeros_like(most), where=most > 0)
    codes = np.rint(parts * inverse)
    return codes, most / np.float32(127)


TARGETS = ("avx512", "avx2", "generic")


def cases(*targets: str) -> list[tuple[str, str]]:
    """Each format on one of the targets, and two formats on all of them."""
    names = sorted(READERS)
    found = [(name, targets[n % len(targets)]) for n, name in enumerate(names)]
    return sorted({*found, *((name, t) for name in ("q8_0", "iq4_xs") for t in targets)})


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The name of a format, its rows of blocks, the model that holds them, a target."""
    name, target = request.param
    data = blocks(name, N, K, seed=len(name))
    path = write(tmp_path_factory.mktemp(name) / "w.gguf", {"W": (name, data)})
    return name, data, oi.open_model(path), target


def inputs(rows: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((max(ROWS), K)).astype(np.float32) * rng.exponential(1, K)
    ids = rng.integers(0, N, max(ROWS))
    return x.astype(np.float32)[:rows], ids.astype(np.int32)[:rows]


def run(executor: Any, rows: int) -> tuple[Array, Array]:
    x, ids = inputs(rows)
    executor.insert(x=x, ids=ids)
    executor.step()
    return executor.fetch("y"), executor.fetch("rows")


def compiled(package: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        # Nothing is unpacked, so nobody is told that something is.
        warnings.simplefilter("error", ModelWarning)
        return oi.compile(oi.graph(PROGRAM), package, **options)


@pytest.mark.parametrize("model", cases(*TARGETS), indirect=True, ids="-".join)
def test_exact_products_are_those_of_the_unpacked_values(model: Any) -> None:
    name, data, package, target = model
    weight = values(name, data)
    executor = compiled(package, target=target).make_executor()
    first: Array | None = None
    for rows in ROWS:
        x, ids = inputs(rows)
        y, gathered = run(executor, rows)
        product = x.astype(np.float64) @ weight.T
        allowed = 1e-6 * (np.abs(x).astype(np.float64) @ np.abs(weight).T)
        if name in ("q4_1", "q4_k", "q5_1", "q5_k"):
            allowed *= 2  # Scale times code and minimum are added up to the value, in one rounding.
        assert (np.abs(y - np.maximum(product + 0.5, 0)) <= allowed + 1e-6).all()
        first = y[:1] if first is None else first
        assert np.abs(y[:1] - first).max() <= 1e-6 * np.abs(product).max()
        assert np.array_equal(gathered, weight[ids].astype(np.float32))


@pytest.mark.parametrize("model", cases("host", *TARGETS), indirect=True, ids="-".join)
def test_products_of_bytes_are_their_definition(model: Any) -> None:
    """Bit for bit the same for one row and for many, and within rounding of sums of what they round to; the
    error against the exact product is within its bound."""
    name, data, package, target = model
    weight = values(name, data)
    options = {} if target == "host" else {"target": target}
    executor = compiled(package, precision="q8", **options).make_executor()
    first: Array | None = None
    for rows in ROWS:
        x, _ = inputs(rows)
        y, _ = run(executor, rows)
        codes, scales = rounded(x)
        left = (codes.astype(np.float64) * scales).reshape(rows, -1)
        size = np.abs(left) @ np.abs(weight).T
        assert (np.abs(y - np.maximum(left @ weight.T + 0.5, 0)) <= 4e-6 * size + 1e-6).all()
        bound = np.repeat(np.abs(x).reshape(rows, -1, 32).max(-1) / 254, 32, axis=-1)
        exact = np.maximum(x.astype(np.float64) @ weight.T + 0.5, 0)
        assert (np.abs(y - exact) <= 1.001 * (bound @ np.abs(weight).T) + 1e-6).all()
        first = y[:1] if first is None else first
        assert np.array_equal(y[:1], first)


def test_rows_that_are_not_finite(tmp_path: Path) -> None:
    """A row with an infinite element gives NaN, and the others are as they are; zeros give zeros."""
    path = write(tmp_path / "w.gguf", {"W": ("q8_0", blocks("q8_0", N, K, seed=1))})
    executor = compiled(oi.open_model(path), precision="q8").make_executor()
    x, ids = inputs(4)
    x[1, 7], x[2, 500], x[3] = np.inf, np.nan, 0
    executor.insert(x=x, ids=ids)
    executor.step()
    y = executor.fetch("y")
    assert np.isfinite(y[0]).all()
    assert not np.isfinite(y[1:3]).any()
    assert (y[3] == 0.5).all()


def test_tables_and_products_read_the_same_formats() -> None:
    assert set(READERS) == set(ROW_READERS)


def test_large_weights_are_laid_out_by_threads_and_leave_the_file(tmp_path: Path) -> None:
    """Many members, more bytes than one thread lays out: all are in their place, and views of the file stay
    right although its pages were given back."""
    count, size = 5, 2048
    text = """
    dynamic { x: f32[B, 2048]; }
    constant { W(l): f32[1024, 2048] @pattern("w.{l}") @dtype(_); }
    block entry {
        y = op linear(x, W[0]);
        loop layers (l in 1..block_count) {
            z = op linear(x, W[l]);
            y = op add(y, z);
        }
        return y;
    }
    """
    data = [np.tile(blocks("q8_0", 32, size, n), (32, 1)) for n in range(count)]
    tensors = {f"w.{n}": ("q8_0", rows) for n, rows in enumerate(data)}
    package = oi.open_model(write(tmp_path / "m.gguf", tensors, block_count=count))
    view = package.read("w.3")
    executor = oi.compile(oi.graph(text), package).make_executor()
    x = np.random.default_rng(1).standard_normal((1, size)).astype(np.float32)
    wanted = sum(x.astype(np.float64) @ values("q8_0", rows[:32]).T for rows in data)
    found = np.asarray(executor.run(x=x)["y"]).reshape(32, 32)
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
    assert np.array_equal(view, data[3])


LAYERS = """
dynamic { x: f32[B, 32]; }
constant {
    A(l): f32[32, 32] @pattern("a.{l}") @dtype(_);
    W(l): f32[32, 32] @pattern("w.{l}") @dtype(_);
}
block entry {
    h = op linear(x, W[1]);
    loop layers (l in 0..block_count) {
        n = op rms_norm(h, eps=1e-5);
        n = op linear(n, A[l]);
        n = op linear(n, W[l]);
        h = op add(h, n);
    }
    return h;
}
"""


def test_layers_of_several_formats(tmp_path: Path) -> None:
    """Files mix formats over the layers of a loop, here more layers than a word has bits."""
    count = 70
    kinds = np.random.default_rng(2).choice(["q8_0", "q4_1", "q5_0"], count).tolist()
    tensors = {f"w.{n}": (kind, blocks(kind, 32, 32, n)) for n, kind in enumerate(kinds)}
    tensors |= {f"a.{n}": ("q4_0", blocks("q4_0", 32, 32, 100 + n)) for n in range(count)}
    package = oi.open_model(write(tmp_path / "m.gguf", tensors, block_count=count))
    x = np.random.default_rng(3).standard_normal((3, 32)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        simulator = oi.Simulator(oi.graph(LAYERS), package)
    wanted = np.asarray(simulator.make_executor().run(x=x)["h"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ModelWarning)
        program = oi.compile(oi.graph(LAYERS), package)
    rows = [row for row in program.manifest.weights if row.variable == "W"]
    assert {row.block: sum(map(bool, row.sources)) for row in rows} == {
        kind: kinds.count(kind) for kind in set(kinds)
    }
    assert all(
        row.held == kinds.count(row.block) * 32 * BLOCKS[row.block or ""].nbytes for row in rows
    )
    executor = program.make_executor()
    found = np.asarray(executor.run(x=x)["h"])
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
