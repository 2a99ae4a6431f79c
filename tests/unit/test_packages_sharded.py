"""Models in several `.safetensors` files, and folders as models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import openinfer as oi
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.errors import PackageError
from openinfer.runtime.packages import open_model
from openinfer.runtime.packages.oinf_writer import write_oinf

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


def sharded(folder: Path, weight_map: Any = None, **more: Any) -> Path:
    """A folder with a model in two files; its index."""
    save_file({"a": np.arange(3, dtype=np.float32), "b": np.ones((2, 2))}, folder / FIRST)
    save_file({"c": np.arange(4, dtype=np.float16)}, folder / SECOND)
    if weight_map is None:
        weight_map = {"a": FIRST, "b": FIRST, "c": SECOND}
    index = {"metadata": {"total_size": 52, "kind": "test"}, "weight_map": weight_map, **more}
    (folder / INDEX).write_text(json.dumps(index))
    return folder / INDEX


def test_a_model_in_several_files(tmp_path: Path) -> None:
    index = sharded(tmp_path)
    (tmp_path / "config.json").write_text('{"hidden": 3, "act": "relu"}')
    for place in (index, tmp_path):
        with open_model(place) as package:
            assert package.sizes == {"hidden": 3}
            assert dict(package.metadata) == {"act": "relu", "kind": "test"}
            assert list(package.tensors) == ["a", "b", "c"]
            assert package.read("a").tolist() == [0, 1, 2]
            assert package.tensor("c").values().tolist() == [0, 1, 2, 3]
            assert package.guard() is not None
    with open_model(tmp_path, copy=True) as package:
        assert package.guard() is None
    text = (
        "constant { a: f32[N]; } volatile { y: f32[N]; } block entry { op neg(a) >> y; return y; }"
    )
    with oi.compile(text, open_model(tmp_path)).make_executor() as executor:
        assert np.asarray(executor.run()["y"]).tolist() == [0, -1, -2]


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    package = open_model(sharded(tmp_path))
    with (tmp_path / SECOND).open("ab") as file:
        file.write(b"more")
    guard = package.guard()
    assert guard is not None
    with pytest.raises(PackageError, match="OI0414"):
        guard()


def test_the_tools_take_indices_and_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = sharded(tmp_path)
    for place in (str(index), str(tmp_path)):
        assert main(["inspect", place]) == 0
        assert "c: f16[4]" in capsys.readouterr().out.replace("  ", " ").replace(" :", ":")
    assert main(["pack", str(tmp_path), "-o", str(tmp_path / "one.oinf")]) == 0
    with open_model(tmp_path / "one.oinf") as package:
        assert list(package.tensors) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "shard",
    [
        "../" + FIRST,
        "/tmp/" + FIRST,
        "sub/" + FIRST,
        "..",
        "",
        "a\\b.safetensors",
        "c:x.safetensors",
        "x\0.safetensors",
        "config.json",
        7,
        None,
        ["x"],
    ],
)
def test_files_stay_in_the_folder(tmp_path: Path, shard: Any) -> None:
    with pytest.raises(PackageError, match="which is no file of its folder") as caught:
        open_model(sharded(tmp_path, {"a": shard}))
    assert caught.value.code == "OI0416"


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        ({"a": FIRST, "b": FIRST, "c": SECOND, "d": SECOND}, f"{SECOND} has no tensor 'd'"),
        ({"a": FIRST, "c": SECOND}, f"tensor 'b' of {FIRST} is not in it"),
        (
            {"a": SECOND, "b": FIRST, "c": SECOND},
            f"tensor 'a' lies in {FIRST}, but it says in {SECOND}",
        ),
        ({}, "no object `weight_map`"),
        ([], "no object `weight_map`"),
    ],
)
def test_an_index_that_its_files_contradict(tmp_path: Path, weight_map: Any, message: str) -> None:
    with pytest.raises(PackageError, match=message) as caught:
        open_model(sharded(tmp_path, weight_map))
    assert caught.value.code == "OI0416"


def test_a_tensor_twice(tmp_path: Path) -> None:
    index = sharded(tmp_path)
    save_file({"c": np.zeros(4), "a": np.zeros(3)}, tmp_path / SECOND)
    with pytest.raises(PackageError, match=r"OI0416.*tensor 'a' lies in"):
        open_model(index)
    index.write_text('{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}')
    with pytest.raises(PackageError, match=r"OI0416.*twice"):
        open_model(index)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"weight_map": 3}', "[" * 100_000, "\xff"])
def test_an_index_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / INDEX).write_text(text, "latin-1")
    with pytest.raises(PackageError, match="OI0416"):
        open_model(tmp_path)


def test_a_file_that_is_missing_or_damaged(tmp_path: Path) -> None:
    index = sharded(tmp_path)
    (tmp_path / SECOND).write_bytes(b"\x08\0\0\0\0\0\0\0nonsense")
    with pytest.raises(PackageError, match="OI0409"):
        open_model(index)
    (tmp_path / SECOND).unlink()
    with pytest.raises(PackageError, match=f"OI0401.*{SECOND}"):
        open_model(index)


def test_the_only_package_of_a_folder_is_its_model(tmp_path: Path) -> None:
    write_oinf({"W": np.ones(2)}, tmp_path / "net.oinf")
    (tmp_path / "notes.txt").write_text("x")
    with open_model(tmp_path) as package:
        assert list(package.tensors) == ["W"]
    sharded(tmp_path)
    (tmp_path / INDEX).rename(tmp_path / "other.safetensors.index.json")
    with pytest.raises(PackageError, match=r"models: other\S+index.json, net.oinf\n") as caught:
        open_model(tmp_path)
    assert caught.value.code == "OI0417"
    (tmp_path / "net.oinf").unlink()
    with open_model(tmp_path) as package:
        assert list(package.tensors) == ["a", "b", "c"]


def test_standard_names_come_first_but_only_one_of_them(tmp_path: Path) -> None:
    write_oinf({"W": np.ones(2)}, tmp_path / "net.oinf")
    save_file({"a": np.ones(2)}, tmp_path / "model.safetensors")
    with open_model(tmp_path) as package:
        assert list(package.tensors) == ["a"]
    sharded(tmp_path)
    with pytest.raises(
        PackageError, match=r"OI0417.*model\.safetensors, model\.safetensors\.index"
    ):
        open_model(tmp_path)
