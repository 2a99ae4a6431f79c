"""The view of a package: text and JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openinfer.runtime.packages import open_model
from openinfer.runtime.packages.base import Package
from openinfer.runtime.packages.inspect import inspect_json, inspect_text
from openinfer.runtime.packages.oinf_writer import OinfContent, write_oinf
from openinfer.runtime.packages.values import (
    Bitset,
    QuantParams,
    QuantScale,
    QuantZeroPoint,
    ScalarValue,
    TensorSpec,
    UninitializedTensor,
)


@pytest.fixture
def package(tmp_path: Path) -> Package:
    tensors: dict[str, Any] = {
        "few": np.array([3, 3, 5], np.int16),
        "grid": np.arange(12, dtype=np.float32).reshape(3, 4),
        "later": UninitializedTensor("f16", (2, 4)),
        "odd": np.array([1.0, math.nan, math.inf, -math.inf, 3.0], np.float32),
        "q": TensorSpec(
            np.zeros((2, 2), np.int8),
            quant=QuantParams(
                "asymmetric",
                QuantScale.per_channel(0, [0.1, 0.2]),
                QuantZeroPoint.per_channel(0, [1, 2]),
            ),
        ),
        "scalar": np.array(2.5),
        "vast": np.array([-1.7e308, 1.7e308]),
        "void": np.zeros((0, 3), np.float32),
        "wide": np.array([0, 2**63], np.uint64),
    }
    metadata: dict[str, Any] = {
        "bits": Bitset([1, 0]),
        "eps": 1e-12,
        "nan": ScalarValue(math.nan, "f64"),
        "on": True,
        "table": [1, 2, 300],
        "title": 'a "b" \x1b[31m',
    }
    path = tmp_path / "model.oinf"
    write_oinf(OinfContent({"B": 4}, metadata, tensors), path)
    return open_model(path)


def test_text(package: Package) -> None:
    lines = inspect_text(package).splitlines()
    for line in [
        "; oinf 2: 1 sizes, 6 metadata, 9 tensors",
        "B := 4",
        "bits: bitset[2] = { 1, 0 }",
        "eps: f32 = 1e-12",
        "nan: f64 = nan",
        "on: bool = true",
        "table: i16[3] = { 1, 2, 300 }",
        'title: str = "a \\"b\\" \\u001b[31m"',
        "few: i16[3] = { 3, 3, 5 }",
        "  stats: nbytes=6 min=3 max=5 mean=3.66667 median=3 std=0.942809",
        "  histogram: 3 2 | 5 1",
        "grid: f32[3, 4] = { 0.0, 1.0, 2.0, 3.0, 4.0, ..., 7.0, 8.0, 9.0, 10.0, 11.0 }",
        "  stats: nbytes=48 min=0 max=11 mean=5.5 median=5.5 std=3.45205",
        "later: f16[2, 4] -- uninitialized",
        "odd: f32[5] = { 1.0, nan, inf, -inf, 3.0 }",
        "  stats: nbytes=20 min=1 max=3 mean=2 median=2 std=1 nan=1 inf=2",
        "  quant: asymmetric, scale per_channel axis 0 { 0.1, 0.2 }, "
        "zero_point per_channel axis 0 { 1, 2 }",
        "scalar: f64 = 2.5",
        "  histogram: [2.5] 1",
        "  stats: nbytes=16 min=-1.7e+308 max=1.7e+308 mean=0 median=0 std=1.7e+308",
        "void: f32[0, 3] = { }",
        "wide: u64[2] = { 0, 9223372036854775808 }",
    ]:
        assert line in lines, line
    grid = next(i for i, line in enumerate(lines) if line.startswith("grid:"))
    histogram = lines[grid + 2]
    assert histogram.startswith("  histogram: [0, 1.1) 2 | [1.1, 2.2) 1 |")
    assert histogram.endswith("| [9.9, 11] 2")


def test_json(package: Package) -> None:
    data = json.loads(json.dumps(inspect_json(package), allow_nan=False))
    assert data["format"] == "oinf 2"
    assert data["sizes"] == {"B": 4}
    assert data["metadata"]["nan"] == {"type": "f64", "value": "NaN"}
    assert data["metadata"]["bits"] == {"type": "bitset", "value": [1, 0]}
    assert data["metadata"]["table"] == {"type": "i16", "shape": [3], "values": [1, 2, 300]}
    tensors = data["tensors"]
    assert tensors["later"] == {"dtype": "f16", "shape": [2, 4], "nbytes": 0, "has_data": False}
    assert tensors["few"]["values"] == [3, 3, 5]
    assert tensors["few"]["stats"]["max"] == 5
    assert tensors["few"]["histogram"] == [{"bin": "3", "count": 2}, {"bin": "5", "count": 1}]
    assert tensors["grid"]["first"] == [0, 1, 2, 3, 4]
    assert tensors["grid"]["last"] == [7, 8, 9, 10, 11]
    assert sum(item["count"] for item in tensors["grid"]["histogram"]) == 12
    assert tensors["odd"]["values"] == [1.0, "NaN", "Infinity", "-Infinity", 3.0]
    assert tensors["q"]["quant"]["zero_point"]["values"] == [1, 2]
    assert "stats" not in tensors["void"]


def test_every_value_falls_in_a_bin(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    tensors = {
        f"t{i}": (generator.standard_normal(1000) * 10.0**power).astype(np.float64)
        for i, power in enumerate((-320, -300, 0, 5, 300))
    }
    write_oinf(OinfContent(tensors=dict(tensors)), tmp_path / "m.oinf")
    data = inspect_json(open_model(tmp_path / "m.oinf"))
    for name in tensors:
        assert sum(item["count"] for item in data["tensors"][name]["histogram"]) == 1000, name


def test_a_dtype_that_we_lack_is_shown(tmp_path: Path) -> None:
    header = json.dumps(
        {"odd name\n": {"dtype": "F8_E8M0", "shape": [2], "data_offsets": [0, 2]}}
    ).encode()
    header += b" " * (-len(header) % 8)
    path = tmp_path / "m.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\1\2")
    with open_model(path) as package:
        text = inspect_text(package)
        assert '"odd name\\n": F8_E8M0[2] -- 2 bytes of a dtype that openinfer lacks' in text
        assert inspect_json(package)["tensors"]["odd name\n"]["dtype"] == "F8_E8M0"
