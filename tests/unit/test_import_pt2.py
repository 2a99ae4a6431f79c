"""`.pt2` files: read without running what they hold, damaged and hostile ones refused."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_imports import torch

import openinfer as oi
from openinfer.compiler.importers.torch.archive import load_exported
from openinfer.runtime.errors import PackageError


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "model.pt2"
    layer = torch.nn.Linear(3, 2)
    module = torch.nn.Sequential(layer, torch.nn.GELU())
    auto = torch.export.Dim.AUTO
    shapes = ({0: auto},)
    exported = torch.export.export(module, (torch.randn(4, 3),), dynamic_shapes=shapes)
    torch.export.save(exported, path)
    return path


def test_a_file_becomes_a_program(saved: Path) -> None:
    graph, package = oi.from_torch(saved, dynamic={"input": ("rows", None)})
    x = np.ones((5, 3), np.float32)
    (found,) = oi.Simulator(graph, package).make_executor().run(input=x).values()
    want = torch.export.load(saved).module()(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(found, want, rtol=1e-5)
    assert "input: f32[rows, 3];" in str(graph)


def changed(saved: Path, path: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    """A copy of a file with one part changed."""
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as new:
        for info in old.infolist():
            content = old.read(info)
            new.writestr(
                info.filename, change(content) if info.filename.endswith(name) else content
            )
    return path


@pytest.mark.parametrize(
    ("part", "old", "new", "reason"),
    [
        ("model.json", "torch.ops.aten.linear.default", "torch.os.system", "its graph calls"),
        ("model.json", "torch.ops.aten.linear.default", "_operator.attrgetter", "its graph calls"),
        ("model.json", "Symbol('", "__import__('", "is no size"),
        ("model.json", "{", "[", "is no JSON"),
        ("weights_config.json", '"as_int": 3', '"as_int": 4000', "is larger than its"),
        ("weights_config.json", '"as_int": 3', '"as_int": -3', "the shape of"),
        ("weights_config.json", '"use_pickle": false', '"use_pickle": true', "is pickled"),
        ("weights_config.json", "weight_0", "weight_7", "has no part"),
        ("weights_config.json", "path_name", "path", "the description of"),
    ],
)
def test_a_hostile_file(
    saved: Path, tmp_path: Path, part: str, old: str, new: str, reason: str
) -> None:
    def change(content: bytes) -> bytes:
        assert old.encode() in content
        return content.replace(old.encode(), new.encode())

    path = changed(saved, tmp_path / "model.pt2", part, change)
    with pytest.raises(PackageError, match=reason) as caught:
        load_exported(path)
    assert caught.value.code == ("OI1508" if reason == "is pickled" else "OI1507")


def described_results(spec: dict[str, Any]) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        described = json.loads(content)
        signature = described["graph_module"]["module_call_graph"][0]["signature"]
        signature["out_spec"] = json.dumps([1, spec])
        return json.dumps(described).encode()

    return change


LEAF: dict[str, Any] = {"type": None, "context": None, "children_spec": []}


def test_results_in_a_class_of_another_library(saved: Path, tmp_path: Path) -> None:
    """What transformers' models return: the names of its fields are those of a dictionary."""
    spec = {"type": "their.Output", "context": '["logits"]', "children_spec": [LEAF]}
    path = changed(saved, tmp_path / "m.pt2", "model.json", described_results(spec))
    graph, _ = oi.from_torch(path)
    assert "return logits;" in str(graph)


def test_a_structure_imports_nothing(saved: Path, tmp_path: Path) -> None:
    assert "this" not in sys.modules
    enum = {"__enum__": True, "fqn": "this:s", "name": "x"}
    for kind in ("builtins.dict", "collections.defaultdict", "builtins.list"):
        spec = {"type": kind, "context": json.dumps([enum]), "children_spec": [LEAF]}
        path = changed(saved, tmp_path / "m.pt2", "model.json", described_results(spec))
        load_exported(path)
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "spec", [{}, {**LEAF, "children_spec": 3}, {**LEAF, "context": "[", "type": "x"}]
)
def test_a_structure_that_is_none(spec: Any, saved: Path, tmp_path: Path) -> None:
    deep = LEAF
    for _ in range(70):
        deep = {"type": "builtins.tuple", "context": "null", "children_spec": [deep]}
    for one in (spec, deep):
        path = changed(saved, tmp_path / "m.pt2", "model.json", described_results(one))
        with pytest.raises(PackageError, match="a structure of arguments or results") as caught:
            load_exported(path)
        assert caught.value.code == "OI1507"


def test_a_pickled_example_is_not_read(saved: Path, tmp_path: Path) -> None:
    path = changed(saved, tmp_path / "model.pt2", "sample_inputs/model.pt", lambda _: b"no pickle")
    assert load_exported(path).graph_signature.user_inputs == ("input",)


def test_a_file_that_is_cut_off_or_missing(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    whole = saved.read_bytes()
    directory = whole.rindex(b"PK\x01\x02")
    no_name = bytearray(whole)
    no_name[directory + 9], no_name[directory + 46] = 8, 0x80  # A name that says it is UTF-8.
    for content in (b"", b"PK", whole[:900], bytes(no_name)):
        path.write_bytes(content)
        with pytest.raises(PackageError) as caught:
            load_exported(path)
        assert caught.value.code == "OI1507"
    with pytest.raises(PackageError):
        load_exported(tmp_path / "none.pt2")
