"""Weights of f16 files, and blocks that are rounded to f16: f16 in memory, widened in registers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.llm.engine import used_precision

KINDS = gguf.GGMLQuantizationType
LAYERS, WIDTH, HIDDEN, VOCABULARY = 2, 64, 96, 200
TEXT = f"""
dynamic {{ ids: i32[N]; }}
constant {{
    table: f32[{VOCABULARY}, {WIDTH}] @dtype(_);
    up(l): f32[{HIDDEN}, {WIDTH}] @pattern("up.{{l}}") @dtype(_);
    down(l): f32[{WIDTH}, {HIDDEN}] @pattern("down.{{l}}") @dtype(_);
    turned: f32[{WIDTH}, {HIDDEN}] @dtype(_);
    scale: f32[{VOCABULARY}, {WIDTH}] @dtype(_);
}}
block entry {{
    h = op embedding(table, ids);
    loop layers (l in 0..{LAYERS}) {{
        m = op linear(h, up[l]);
        m = op tanh(m);
        d = op linear(m, down[l]);
        h = op add(h, d);
    }}
    squared = op mul(scale, scale);
    s = op embedding(squared, ids);
    h = op mul(h, s);
    y = op linear(h, table);
    z = op matmul(h, turned);
    return y, z;
}}
"""
NARROW = {"table": "f16", "up": "f16", "down": "f16", "turned": "f16"}
"""What products and tables read; `scale` is squared first, so it becomes f32 as it is loaded."""


class File:
    """Such a model, and its values in float64."""

    def __init__(self, path: Path, kind: Any, size: float = 1.0) -> None:
        self.path = path
        draw = np.random.default_rng(11)
        writer = gguf.GGUFWriter(path, "none")
        self.values: dict[str, Any] = {}
        shapes = {"table": (VOCABULARY, WIDTH), "scale": (VOCABULARY, WIDTH)}
        shapes["turned"] = (WIDTH, HIDDEN)
        for layer in range(LAYERS):
            shapes |= {f"up.{layer}": (HIDDEN, WIDTH), f"down.{layer}": (WIDTH, HIDDEN)}
        for name, shape in shapes.items():
            drawn = size * draw.standard_normal(shape).astype(np.float32) / np.sqrt(shape[-1])
            data = gguf.quantize(drawn, kind)
            writer.add_tensor(name, data, raw_dtype=kind)
            self.values[name] = gguf.dequantize(data, kind).astype(np.float64)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def results(self, ids: Any) -> tuple[Any, Any]:
        w = self.values
        h = w["table"][ids]
        for layer in range(LAYERS):
            h = h + np.tanh(h @ w[f"up.{layer}"].T) @ w[f"down.{layer}"].T
        h = h * w["scale"][ids] ** 2
        return h @ w["table"].T, h @ w["turned"]

    def error(self, program: oi.Program, rows: int) -> float:
        """The largest difference, relative to the largest value."""
        ids = np.random.default_rng(rows).integers(0, VOCABULARY, rows).astype(np.int32)
        with program.make_executor() as executor:
            found = executor.run(ids=ids)
        pairs = zip(("y", "z"), self.results(ids), strict=True)
        return max(
            float(np.abs(np.asarray(found[name]) - wanted).max() / np.abs(wanted).max())
            for name, wanted in pairs
        )


@pytest.fixture(scope="module")
def file_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any], File]:
    folder = tmp_path_factory.mktemp("narrow")
    made: dict[Any, File] = {}

    def of(kind: Any) -> File:
        return made.setdefault(kind, File(folder / f"{kind.name}.gguf", kind))

    return of


def compiled(file: File, device: str, **options: Any) -> tuple[oi.Program, list[str]]:
    """The program, and what it says of weights that are unpacked."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", oi.ModelWarning)
        program = oi.compile(TEXT, oi.open_model(file.path), device, **options)
    return program, [str(one.message) for one in found]


def narrow(program: oi.Program) -> dict[str, str]:
    rows = program.manifest.weights
    return {row.variable: row.dtype for row in rows if row.dtype is not None}


@pytest.mark.parametrize("device", ["cpu", "vulkan:0"])
@pytest.mark.usefixtures("everything_on_vulkan")
def test_an_f16_file_is_f16_in_memory(file_of: Callable[[Any], File], device: str) -> None:
    """It computes what it would in f32: one row, a few, and tiles of many."""
    file = file_of(KINDS.F16)
    program, notes = compiled(file, device)
    assert (narrow(program), notes) == (NARROW, [])
    rows = {row.variable: row for row in program.manifest.weights if row.prepare is None}
    if device != "cpu":
        assert rows["up"].nbytes == 2 * LAYERS * HIDDEN * WIDTH
        assert rows["scale"].nbytes == 4 * VOCABULARY * WIDTH
    for count in (1, 7, 150):
        assert file.error(program, count) < 1e-6


@pytest.mark.usefixtures("everything_on_vulkan")
def test_blocks_are_rounded_to_f16_with_q8_alone(file_of: Callable[[Any], File]) -> None:
    file = file_of(KINDS.Q8_0)
    exact, said = compiled(file, "vulkan:0")
    assert narrow(exact) == {}
    assert "in f32" in said[0]
    rounded, said = compiled(file, "vulkan:0", precision="q8")
    assert narrow(rounded) == NARROW
    assert "in f16 and f32, rounded" in said[0]
    for count in (1, 150):
        assert file.error(exact, count) < 1e-6
        # Each value is off by up to 2^-11 of itself.
        assert 1e-6 < file.error(rounded, count) < 1e-3


def test_blocks_that_no_kernel_of_the_cpu_reads(tmp_path: Path) -> None:
    """q8 rounds those of q2_k to f16 on the CPU, too."""
    path = tmp_path / "q2_k.gguf"
    writer = gguf.GGUFWriter(path, "none")
    draw = np.random.default_rng(5)
    blocks = draw.integers(0, 256, (8, 84), dtype=np.uint8)
    blocks[:, 80:] = np.array([0.01, 0.02], np.float16).view(np.uint8)
    writer.add_tensor("W", blocks, raw_dtype=KINDS.Q2_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    text = (
        "dynamic { x: f32[2, 256]; } constant { W: f32[8, 256] @dtype(_); }\n"
        "block entry { y = op linear(x, W); return y; }"
    )
    with pytest.warns(oi.ModelWarning, match="in f16, rounded"):
        program = oi.compile(text, oi.open_model(path), precision="q8")
    assert narrow(program) == {"W": "f16"}
    x = draw.standard_normal((2, 256)).astype(np.float32)
    weight = gguf.dequantize(blocks, KINDS.Q2_K).astype(np.float16).astype(np.float64)
    with program.make_executor() as executor:
        found = np.asarray(executor.run(x=x)["y"])
    np.testing.assert_allclose(found, x @ weight.T, rtol=1e-5, atol=1e-5)


def test_what_f16_does_not_hold_is_refused(tmp_path: Path) -> None:
    file = File(tmp_path / "large.gguf", KINDS.Q8_0, size=1e6)
    program, _ = compiled(file, "vulkan:0", precision="q8")
    with pytest.raises(oi.PackageError, match=r"OI0422.*'table' \(q8_0\) do not fit f16"):
        program.make_executor()
    program, _ = compiled(file, "vulkan:0")
    program.make_executor().close()


def test_where_q8_means_something(file_of: Callable[[Any], File]) -> None:
    with oi.open_model(file_of(KINDS.Q8_0).path) as package:
        assert used_precision("q8", "vulkan:0", package) == "q8"
        assert used_precision("q8", "null", package) is None
        assert used_precision("bf16", "vulkan:0", package) == "bf16"
    with oi.open_model(file_of(KINDS.F16).path) as package:
        assert used_precision("q8", "vulkan:0", package) is None
