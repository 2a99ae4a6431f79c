"""`.safetensors` packages with their `config.json`, and how `open_model` chooses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import PackageError, UnsupportedError
from openinfer.runtime.packages import open_model
from openinfer.runtime.packages.base import Package
from openinfer.runtime.packages.oinf_writer import OinfContent, to_oinf_bytes, write_oinf
from openinfer.runtime.packages.values import ScalarValue


def raw_file(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    """A file with any header, padded to 8 as writers do."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder as model hubs have it."""
    tensors = {
        "layer.1.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "layer.0.weight": np.arange(4, dtype=np.float16),
        "ids": np.arange(3),
        "mask": np.array([True, False]),
        "empty": np.zeros((0, 2), np.float32),
        "scalar": np.array(7, np.int32),
    }
    save_file(
        tensors, tmp_path / "model.safetensors", metadata={"format": "pt", "hidden_size": "x"}
    )
    config = {
        "hidden_size": 384,
        "eps": 1e-12,
        "act": "gelu",
        "use_cache": True,
        "pad": -1,
        "huge": 10**30,
        "none": None,
        "list": [1],
        "nested": {"size": 3},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def test_tensors_sizes_and_metadata(model: Path) -> None:
    with open_model(model) as package:
        assert package.format == "safetensors"
        assert package.sizes == {"hidden_size": 384}
        assert dict(package.metadata) == {
            "eps": ScalarValue(float(np.float32(1e-12)), DTYPES["f32"]),
            "act": "gelu",
            "use_cache": ScalarValue(True, DTYPES["bool"]),
            "pad": ScalarValue(-1, DTYPES["i64"]),
            "huge": ScalarValue(float(np.float32(1e30)), DTYPES["f32"]),
            "format": "pt",
        }
        shapes = {name: (info.dtype.name, info.shape) for name, info in package.tensors.items()}
        assert shapes == {
            "empty": ("f32", (0, 2)),
            "ids": ("i64", (3,)),
            "layer.0.weight": ("f16", (4,)),
            "layer.1.weight": ("f32", (2, 3)),
            "mask": ("bool", (2,)),
            "scalar": ("i32", ()),
        }
        assert package.read("layer.1.weight").tolist() == [[0, 1, 2], [3, 4, 5]]
        assert package.read("mask").tolist() == [True, False]
        assert package.read("scalar") == 7
        assert package.read("empty").shape == (0, 2)


def test_reads_are_views_and_read_only(model: Path) -> None:
    package = open_model(model / "model.safetensors")
    first, again = package.read("layer.1.weight"), package.read("layer.1.weight")
    assert first.__array_interface__["data"] == again.__array_interface__["data"]
    assert not first.flags.writeable
    package.close()
    assert first[1, 2] == 5


def test_unaligned_tensors_are_copied(tmp_path: Path) -> None:
    data = b"\1\2" + np.arange(3, dtype=np.float32).tobytes()
    header = {"a": entry("U8", [2], 0, 2), "b": entry("F32", [3], 2, 14)}
    package = open_model(raw_file(tmp_path / "m.safetensors", header, data))
    assert package.read("b").tolist() == [0, 1, 2]
    assert package.read("b").flags.aligned
    assert not package.read("b").flags.writeable


def test_narrow_floats(tmp_path: Path) -> None:
    header = {
        "b": entry("BF16", [2], 0, 4),
        "e": entry("F8_E4M3", [2], 4, 6),
        "f": entry("F8_E5M2", [2], 6, 8),
    }
    data = bytes.fromhex("a03f00c0 387e 38c4")
    package = open_model(raw_file(tmp_path / "m.safetensors", header, data))
    assert package.tensor("b").values().tolist() == [1.25, -2.0]
    assert package.tensor("e").values().tolist() == [1.0, 448.0]
    assert package.tensor("f").values().tolist() == [0.5, -4.0]
    with pytest.raises(UnsupportedError, match="'e': dtype f8e4m3"):
        to_oinf_bytes(package)


def test_a_dtype_that_we_lack_is_listed_but_not_read(tmp_path: Path) -> None:
    header = {"a": entry("U8", [2], 0, 2), "b": entry("F8_E8M0", [2], 2, 4)}
    package = open_model(raw_file(tmp_path / "m.safetensors", header, b"\1\2\3\4"))
    assert not package.tensors["b"].supported
    assert package.header_hash()
    assert package.read("a").tolist() == [1, 2]
    with pytest.raises(UnsupportedError, match="'b' has dtype F8_E8M0") as caught:
        package.read("b")
    assert caught.value.code == "OI0742"


def test_a_safetensors_model_becomes_oinf(model: Path, tmp_path: Path) -> None:
    package = open_model(model)
    write_oinf(package, tmp_path / "model.oinf")
    other = open_model(tmp_path / "model.oinf")
    assert other.header_hash() == package.header_hash()
    for name in package.tensors:
        np.testing.assert_array_equal(other.read(name), package.read(name))


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        (b"{", b"", "is no JSON"),
        (b"[" * 50_000, b"", "is no JSON"),
        (b'{"\xff": 1}', b"", "is no JSON"),
        (b'{"a": 1, "a": 2}', b"", "a key occurs twice"),
        (b"[1]", b"", "is no JSON object"),
        ({"a": 1}, b"", "tensor 'a' is no object"),
        ({"a": {"shape": [], "data_offsets": [0, 0]}}, b"", "dtype of tensor 'a'"),
        ({"a": entry("F32", [-1], 0, 0)}, b"", "shape of tensor 'a'"),
        ({"a": {**entry("F32", [], 0, 4), "shape": [1.0]}}, bytes(4), "shape of tensor 'a'"),
        ({"a": {**entry("F32", [], 0, 4), "shape": [True]}}, bytes(4), "shape of tensor 'a'"),
        ({"a": entry("F32", [1 << 62, 8], 0, 0)}, b"", "more than 2\\*\\*63"),
        ({"a": entry("F32", [0, 1 << 62, 8], 0, 0)}, b"", "more than 2\\*\\*63"),
        ({"a": entry("F32", [1] * 65, 0, 4)}, bytes(4), "65 dimensions"),
        ({"a": entry("F32", [2], 0, 4)}, bytes(4), "span 4 bytes, f32\\[2\\] takes 8"),
        ({"a": entry("F32", [2], 0, 8)}, bytes(4), "data_offsets of tensor 'a'"),
        ({"a": entry("F32", [2], 8, 0)}, bytes(8), "data_offsets of tensor 'a'"),
        ({"a": entry("F32", [2], 0, 1 << 65)}, bytes(8), "data_offsets of tensor 'a'"),
        ({"__metadata__": {"a": 1}}, b"", "__metadata__"),
        ({"a": entry("F32", [1], 0, 4)}, bytes(8), "refused by safetensors"),
        (
            {"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 0, 4)},
            bytes(4),
            "refused by safetensors",
        ),
        ({"a": entry("Q9", [1], 0, 4)}, bytes(4), "refused by safetensors"),
    ],
)
def test_damaged_headers_are_refused(
    tmp_path: Path, header: Any, data: bytes, message: str
) -> None:
    with pytest.raises(PackageError, match=message) as caught:
        open_model(raw_file(tmp_path / "m.safetensors", header, data))
    assert caught.value.code == "OI0409"
    assert caught.value.hint


@pytest.mark.parametrize("length", [9, 1 << 20, (1 << 64) - 1])
def test_header_length_is_checked(tmp_path: Path, length: int) -> None:
    with pytest.raises(PackageError, match="header"):
        open_model(raw_file(tmp_path / "m.safetensors", {}, b"", length))


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"a": 1, "a": 2}', "[" * 100_000, '{"a": ' + "9" * 5000 + "}"]
)
def test_bad_config_is_refused(model: Path, text: str) -> None:
    (model / "config.json").write_text(text)
    with pytest.raises(PackageError, match=r"config\.json: not a usable configuration") as caught:
        open_model(model)
    assert caught.value.code == "OI0410"


def test_a_model_without_config(model: Path) -> None:
    (model / "config.json").unlink()
    package = open_model(model)
    assert package.sizes == {}
    assert dict(package.metadata) == {"format": "pt", "hidden_size": "x"}


def test_data_identity_follows_the_file(model: Path) -> None:
    path = model / "model.safetensors"
    before = open_model(path).data_identity()
    assert open_model(model).data_identity() == before
    data = path.read_bytes()
    path.with_suffix(".new").write_bytes(data)
    os.replace(path.with_suffix(".new"), path)
    assert open_model(path).data_identity() != before


def test_content_decides_before_the_extension(tmp_path: Path, model: Path) -> None:
    write_oinf(OinfContent({"B": 1}), tmp_path / "weights.bin")
    assert open_model(tmp_path / "weights.bin").sizes == {"B": 1}
    os.replace(model / "model.safetensors", tmp_path / "weights")
    assert open_model(str(tmp_path / "weights")).format == "safetensors"


@pytest.mark.parametrize(
    ("name", "data", "kind", "code"),
    [
        ("m.oinf", b"", PackageError, "OI0401"),
        ("m.safetensors", b"", PackageError, "OI0401"),
        ("m.oinf", b"OIN", PackageError, "OI0403"),
        ("m.oinf", b"OINF\0\2", PackageError, "OI0403"),
        ("m.safetensors", b"1234", PackageError, "OI0409"),
        ("m.onnx", b"something else", PackageError, "OI0402"),
        ("m.gguf", b"GGUF\3\0\0\0", PackageError, "OI0418"),
        ("m.bin", b"GGUF\1\0\0\0" + bytes(16), UnsupportedError, "OI0741"),
    ],
)
def test_files_that_are_no_package(
    tmp_path: Path, name: str, data: bytes, kind: type[Exception], code: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises((PackageError, UnsupportedError)) as caught:
        open_model(path)
    assert type(caught.value) is kind
    assert caught.value.code == code
    assert str(path) in caught.value.message


def test_paths_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="cannot be opened: No such file"):
        open_model(tmp_path / "absent.oinf")
    with pytest.raises(PackageError, match="holds no model"):
        open_model(tmp_path)
    os.mkfifo(tmp_path / "pipe.oinf")
    with pytest.raises(PackageError, match="not a regular file"):
        open_model(tmp_path / "pipe.oinf")


def test_package_is_the_interface(model: Path) -> None:
    package = open_model(model)
    assert isinstance(package, Package)
    assert repr(package).startswith("<safetensors package ")
