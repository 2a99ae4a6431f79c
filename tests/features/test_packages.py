"""Model packages: rows 1 to 10 of the feature table."""

from __future__ import annotations

import json
import os
import resource
import struct
from pathlib import Path

import numpy as np
import pytest
from both import DEVICES, Make, close, equal, executor_on, package

import openinfer as oi
from openinfer.runtime.packages.base import Package

W = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_sizes_metadata_and_tensors_of_one_file(make: Make, tmp_path: Path) -> None:
    model = package(tmp_path, sizevars={"D": 4, "E": 3}, metadata={"gain": 0.5}, tensors={"W": W})
    executor = make(
        """
        dynamic { x: f32[B, D]; }
        constant { W: f32[D, E]; gain: f32; }
        block entry { assign y: f32[B, E]; op matmul(x, W) >> y; op mul(y, gain) >> y; return y; }
        """,
        model,
    )
    x = np.ones((2, 4), np.float32)
    close(executor.run(x=x)["y"], x @ W / 2)


@pytest.mark.parametrize("device", DEVICES)
def test_only_what_a_program_names_is_read(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening, checking and compiling read no tensor; a loaded one is kept for every step."""
    model = package(tmp_path, tensors={"a": W, "b": W + 1, "c": W + 2})
    read: list[str] = []
    original = Package.read

    def counted(self: Package, name: str) -> object:
        read.append(name)
        return original(self, name)

    monkeypatch.setattr(Package, "read", counted)
    text = """
    dynamic { x: f32[4, 3]; }
    constant { first: f32[4, 3] @ref("a"); b: f32[4, 3]; }
    block entry {
        assign y: f32[4, 3];
        loop twice (i in 0..2) { op add(x, first) >> y; op mul(y, b) >> y; }
        return y;
    }
    """
    oi.graph(text).check()
    assert read == []
    executor = executor_on(device, text, model)
    for step in range(3):
        close(executor.run(x=W + step)["y"], (W + step + W) * (W + 1))
    assert sorted(read) == ["a", "b"]


@pytest.mark.parametrize("device", DEVICES)
def test_a_package_may_be_larger_than_memory(device: str, tmp_path: Path) -> None:
    """40 GiB between two tensors, a hole of the file: only the ranges of what is named are read."""
    size, path = 40 << 30, tmp_path / "large.safetensors"
    places = {
        "a": ([3], 0, 12),
        "huge": ([size >> 2], 12, size + 12),
        "b": ([3], size + 12, size + 24),
    }
    header = {
        name: {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
        for name, (shape, start, end) in places.items()
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + W[0].tobytes())
        file.seek(size, os.SEEK_CUR)
        file.write(W[1].tobytes())
    if path.stat().st_blocks * 512 > 1 << 20:
        path.unlink()
        pytest.skip("this file system keeps no holes")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = oi.open_model(path)
    assert model.info("huge").shape == (size >> 2,)
    text = "constant { a: f32[3]; b: f32[3]; } block entry { assign y: f32[3]; op add(a, b) >> y; return y; }"
    equal(executor_on(device, text, model).run()["y"], W[0] + W[1])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4 << 20, "KiB"


def test_a_tensor_without_data_leaves_the_content_to_the_program(
    make: Make, tmp_path: Path
) -> None:
    absent = {n: oi.UninitializedTensor("f32", (2, 3)) for n in ("start", "empty", "kept")}
    model = package(tmp_path, sizevars={"D": 3}, tensors=absent)
    executor = make(
        """
        volatile { start: f32[2, D] @init(1.5); empty: f32[2, D]; }
        persistent { kept: f32[2, D] @init(4); }
        block entry { op add(start, kept) >> start; return; }
        """,
        model,
    )
    executor.step()
    equal(executor.fetch("start"), np.full((2, 3), 5.5))
    equal(executor.fetch("empty"), np.zeros((2, 3)))


def test_metadata_is_used_by_graphs(make: Make, tmp_path: Path) -> None:
    model = package(
        tmp_path,
        metadata={
            "slope": 0.25,
            "mode": "tanh",
            "table": oi.ScalarValue(7, "i32"),
            "window": [0.5, 1.0, 0.5],
            "flags": oi.Bitset([True, False, True]),
            "keep": True,
            "axis": oi.ScalarValue(0, "i32"),
        },
    )
    executor = make(
        """
        dynamic { x: f32[3]; }
        constant { window: f32[3]; flags: bool[3]; count: i32 @ref("table"); }
        block entry {
            assign y: f32[3]; assign g: f32[3]; assign n: i32; assign s: f32[3];
            op relu(x, negative_slope=slope) >> y;
            op mul(y, window) >> y;
            op where(flags, y, x) >> y;
            op gelu(x, approximate=mode) >> g;
            op add(count, count) >> n;
            op cumsum(x, axis=axis, reverse=keep) >> s;
            return y, g, n, s;
        }
        """,
        model,
    )
    found = executor.run(x=np.array([-4, 5, 6], np.float32))
    close(found["y"], [-0.5, 5, 3])
    equal(found["n"], 14)
    close(found["s"], [7, 11, 6])
    # Without the text from the package the first would be -0.000127.
    np.testing.assert_allclose(found["g"], [-7.0e-05, 5, 6], rtol=1e-2)


def test_products_of_sizes(make: Make, tmp_path: Path) -> None:
    model = package(tmp_path, sizevars={"D": 2}, tensors={"W": np.ones((2, 6), np.float32)})
    executor = make(
        """
        dynamic { x: f32[B, D]; }
        constant { W: f32[D, 3*D]; }
        block entry {
            assign y: f32[B, 3*D]; assign flat: f32[3*B*D]; assign rest: f32[B, 3*D - 1];
            op matmul(x, W) >> y;
            op reshape(y, shape=[3*B*D]) >> flat;
            op slice(y, axis=1, start=1) >> rest;
            return flat, rest;
        }
        """,
        model,
    )
    for batch in (1, 4):
        found = executor.run(x=np.ones((batch, 2), np.float32))
        equal(found["flat"], np.full(6 * batch, 2))
        equal(found["rest"], np.full((batch, 5), 2))


def test_sizes_agree_everywhere(make: Make, tmp_path: Path) -> None:
    model = package(tmp_path, sizevars={"D": 2}, tensors={"W": np.ones((2, 2), np.float32)})
    text = """
    dynamic { x: f32[B, D]; z: f32[B]; }
    constant { W: f32[D, D]; }
    block entry { assign y: f32[B, D]; op matmul(x, W) >> y; return y; }
    """
    with pytest.raises(oi.InputError, match="D"):
        make(text, model, D=3)
    executor = make(text, model)
    with pytest.raises(oi.InputError, match="dimension 1 is 3, it must be"):
        executor.insert(x=np.ones((4, 3), np.float32))
    with pytest.raises(oi.InputError, match=r"B = 4 from dimension 0 of x"):
        executor.run(x=np.ones((4, 2), np.float32), z=np.ones(5, np.float32))
