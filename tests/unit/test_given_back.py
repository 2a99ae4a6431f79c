"""Memory of a mapped package that was read for the last time goes back to the system; tensors stay."""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.numpy import save_file

import openinfer as oi

W = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)
PROGRAM = "dynamic { i: i32[1]; } constant { w: f32[1024, 1024]; } " + (
    "block entry { y = op gather(w, i); return y; }"
)


def written(path: Path, kind: str) -> oi.Package:
    """A package of the format whose only tensor is `w`."""
    if kind == "gguf":
        writer = gguf.GGUFWriter(path, "test")
        writer.add_tensor("w", W)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    elif kind == "safetensors":
        save_file({"w": W}, path)
    else:
        oi.write_oinf({"w": W}, path)
    return oi.open_model(path)


def resident(path: Path) -> int:
    """Bytes of a mapped file that are in the memory of this process."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            inside = words[-1] == str(path)
        elif inside and words[0] == "Rss:":
            found += 1024 * int(words[1])
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["oinf", "safetensors", "gguf", "oip"])
def test_a_tensor_that_was_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"m.{kind}"
    if kind == "oip":
        model = written(tmp_path / "m.oinf", "oinf")
        oi.compile(PROGRAM, model).save(path, embed_weights=True)
        package = oi.load(path).package
        assert package is not None
    else:
        package = written(path, kind)
    view = package.read("w")
    assert np.array_equal(view, W)
    held = resident(path)
    assert held >= W.nbytes
    package.give_back("w")
    assert resident(path) < held - W.nbytes + 65536
    assert np.array_equal(view, W)
