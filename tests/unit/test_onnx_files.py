"""ONNX files that nobody should trust: each is refused with code and place, before anything is allocated."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openinfer.compiler.importers.onnx.element_types import ELEMENT_TYPES
from openinfer.compiler.importers.onnx.model_file import ModelFile, load_model
from openinfer.runtime.errors import OpenInferError, PackageError, UnsupportedError

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

W = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)


def sample() -> Any:
    """A product, a branch whose graphs use outer names, a call of a function, weights large and small."""
    then = helper.make_graph([helper.make_node("Relu", ["h"], ["t"])], "then", [], [_info("t")])
    other = helper.make_graph([helper.make_node("Neg", ["h"], ["e"])], "other", [], [_info("e")])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="product"),
        helper.make_node("If", ["flag"], ["r"], then_branch=then, else_branch=other),
        helper.make_node("Twice", ["r"], ["y"], domain="own"),
    ]
    graph = helper.make_graph(
        nodes,
        "main",
        [_info("x", ["B", 64]), helper.make_tensor_value_info("flag", onnx.TensorProto.BOOL, [])],
        [_info("y")],
        [numpy_helper.from_array(W, "w"), numpy_helper.from_array(W[0, :3], "small")],
    )
    function = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 21)],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=10)


def _info(name: str, dims: Any = None) -> Any:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)


def values(model: ModelFile, name: str) -> Any:
    (found,) = [one for one in model.proto.graph.initializer if one.name == name]
    return model.tensor(found)


def read_all(path: Path) -> None:
    model = load_model(path)
    for tensor in model.proto.graph.initializer:
        model.tensor(tensor)


def test_tensors_stay_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(sample(), path)
    model = load_model(path)
    assert model.opsets == {"": 21, "own": 1}
    assert len(model.proto.SerializeToString()) < 4096
    np.testing.assert_array_equal(values(model, "w").storage, W)
    np.testing.assert_array_equal(values(model, "small").storage, W[0, :3])
    assert not values(model, "w").storage.flags.writeable
    for source in (path.read_bytes(), sample()):
        np.testing.assert_array_equal(values(load_model(source), "w").storage, W)


@pytest.mark.parametrize("kind", ELEMENT_TYPES)
def test_every_element_type_in_fields_and_bytes(kind: int) -> None:
    shown = np.array([0, 1, 1, 0, 1])
    expected = None
    for raw in (False, True):
        model = sample()
        array = shown.astype(helper.tensor_dtype_to_np_dtype(kind))
        tensor = numpy_helper.from_array(array, "small")
        if not raw:
            tensor = helper.make_tensor("small", kind, [5], array)
        model.graph.initializer[1].CopyFrom(tensor)
        found = values(load_model(model), "small")
        assert found.dtype.name == ELEMENT_TYPES[kind]
        np.testing.assert_array_equal(found.values().astype(np.int64), shown)
        expected = found.storage if expected is None else expected
        assert found.storage.tobytes() == expected.tobytes()


def external(folder: Path, location: str = "w.bin", **numbers: Any) -> Path:
    """A model whose weight lies in `w.bin`, 64 bytes from its beginning."""
    model = sample()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entries = {"location": location, "offset": 64, "length": W.nbytes} | numbers
    for key, value in entries.items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    (folder / "w.bin").write_bytes(bytes(64) + W.tobytes())
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("location", ["w.bin", "./w.bin", "deep/er/w.bin"])
def test_external_data_is_mapped(tmp_path: Path, location: str) -> None:
    path = external(tmp_path, location)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    os.link(tmp_path / "w.bin", tmp_path / "deep" / "er" / "w.bin")
    found = values(load_model(path), "w")
    np.testing.assert_array_equal(found.storage, W)
    assert not found.storage.flags.owndata


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"location": "../w.bin"}, "without `..`"),
        ({"location": "deep/../w.bin"}, "without `..`"),
        ({"location": "/etc/passwd"}, "relative path"),
        ({"location": "C:w.bin"}, "relative path"),
        ({"location": "a\\w.bin"}, "relative path"),
        ({"location": "w.bin\0"}, "relative path"),
        ({"location": ""}, "relative path"),
        ({"location": "link.bin"}, "instead of a link"),
        ({"location": "linked/w.bin"}, "cannot be opened"),
        ({"location": "folder"}, "not a regular file"),
        ({"location": "pipe"}, "not a regular file"),
        ({"location": "absent"}, "No such file"),
        ({"offset": -1}, "no number of bytes"),
        ({"offset": 1 << 62}, "of a file of"),
        ({"offset": 65}, "of a file of"),
        ({"offset": "9" * 5000}, "no number of bytes"),
        ({"offset": "\u0661"}, "no number of bytes"),
        ({"length": W.nbytes - 1}, "make 8192 bytes"),
        ({"length": 1 << 62}, "make 8192 bytes"),
    ],
)
def test_external_data_that_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = external(tmp_path, **change)
    (tmp_path / "link.bin").symlink_to(tmp_path / "w.bin")
    (tmp_path / "linked").symlink_to(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PackageError, match="tensor 'w'") as caught:
        values(load_model(path), "w")
    assert caught.value.code == "OI1554"
    assert message in str(caught.value)


def test_external_data_of_a_model_in_memory(tmp_path: Path) -> None:
    data = external(tmp_path).read_bytes()
    np.testing.assert_array_equal(values(load_model(data, folder=tmp_path), "w").storage, W)
    with pytest.raises(PackageError, match="has no folder"):
        values(load_model(data), "w")


def _set(path: str, value: Any) -> Callable[[Any], None]:
    """Sets `graph.node[0].name`."""

    def change(model: Any) -> None:
        *way, last = path.replace("]", "").replace("[", ".").split(".")
        at = model
        for step in way:
            at = at[int(step)] if step.isdecimal() else getattr(at, step)
        if last.isdecimal():
            at[int(last)] = value
        else:
            setattr(at, last, value)

    return change


def _node(index: int, node: Any) -> Callable[[Any], None]:
    return lambda model: model.graph.node[index].CopyFrom(node)


def _dims(*dims: int) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        model.graph.initializer[1].dims[:] = dims

    return change


def _calls(*bodies: tuple[str, list[str]]) -> Callable[[Any], None]:
    """Functions by name, and which others each calls."""

    def change(model: Any) -> None:
        del model.functions[:]
        for name, called in bodies:
            nodes = [
                helper.make_node(other, ["a"], [f"b{index}"], domain="own")
                for index, other in enumerate(called or ["Leaf"])
            ]
            opsets = [helper.make_opsetid("own", 1)]
            model.functions.append(helper.make_function("own", name, ["a"], ["b0"], nodes, opsets))

    return change


def _old_form(model: Any) -> None:
    model.opset_import[0].version = 6
    _node(0, helper.make_node("Add", ["x", "w"], ["h"]))(model)


def _sparse(model: Any) -> None:
    model.graph.sparse_initializer.add()


def _sparse_attribute(model: Any) -> None:
    attribute = model.graph.node[0].attribute.add(name="s")
    attribute.type = onnx.AttributeProto.SPARSE_TENSOR
    attribute.sparse_tensor.SetInParent()


def _texts(model: Any) -> None:
    model.graph.initializer[1].CopyFrom(helper.make_tensor("small", 8, [1], [b"x"]))


HOSTILE: dict[str, tuple[str, Callable[[Any], None]]] = {
    "no IR version": ("OI1551", lambda m: m.ClearField("ir_version")),
    "newer IR": ("OI1551", _set("ir_version", 99)),
    "no opset": ("OI1551", lambda m: m.ClearField("opset_import")),
    "opset of the future": ("OI1551", _set("opset_import[0].version", 999)),
    "negative opset": ("OI1551", _set("opset_import[0].version", -1)),
    "old form": ("OI1551", _old_form),
    "opset twice": ("OI1551", lambda m: m.opset_import.add(domain="ai.onnx", version=20)),
    "unknown domain": ("OI1551", _set("graph.node[0].domain", "elsewhere")),
    "no graph": ("OI1550", lambda m: m.ClearField("graph")),
    "input twice": ("OI1552", lambda m: m.graph.input.append(m.graph.input[0])),
    "input without name": ("OI1552", _set("graph.input[0].name", "")),
    "initializer twice": ("OI1552", _set("graph.initializer[1].name", "w")),
    "value twice": ("OI1552", _set("graph.node[1].output[0]", "h")),
    "value of an input": ("OI1552", _set("graph.node[0].output[0]", "x")),
    "cycle": ("OI1552", _set("graph.node[0].input[0]", "r")),
    "own output": ("OI1552", _set("graph.node[0].input[0]", "h")),
    "undefined": ("OI1552", _set("graph.node[0].input[0]", "nobody")),
    "undefined in a branch": (
        "OI1552",
        lambda m: m.graph.node[1].attribute[0].g.node[0].input.__setitem__(0, "nobody"),
    ),
    "undefined output": ("OI1552", _set("graph.output[0].name", "nobody")),
    "output twice": ("OI1552", lambda m: m.graph.output.append(m.graph.output[0])),
    "negative input": (
        "OI1552",
        _set("graph.input[0].type.tensor_type.shape.dim[1].dim_value", -5),
    ),
    "function twice": ("OI1552", lambda m: m.functions.append(m.functions[0])),
    "function without end": ("OI1552", _set("functions[0].output[0]", "nobody")),
    "negative dimension": ("OI1553", _dims(-3)),
    "overflow": ("OI1553", _dims(1 << 40, 1 << 40)),
    "overflow around zero": ("OI1553", _dims(1 << 40, 0, 1 << 40)),
    "petabytes": ("OI1553", _dims(1 << 50)),
    "too few bytes": ("OI1553", _set("graph.initializer[1].raw_data", bytes(11))),
    "too few bytes left in the file": (
        "OI1553",
        _set("graph.initializer[0].raw_data", bytes(4096)),
    ),
    "no element type": ("OI1553", _set("graph.initializer[1].data_type", 99)),
    "data twice": ("OI1553", lambda m: m.graph.initializer[1].float_data.append(1)),
    "other field": (
        "OI1553",
        lambda m: m.graph.initializer[1].CopyFrom(
            onnx.TensorProto(name="small", data_type=1, dims=[1], int32_data=[1])
        ),
    ),
    "beyond the dtype": (
        "OI1553",
        lambda m: m.graph.initializer[1].CopyFrom(
            onnx.TensorProto(name="small", data_type=3, dims=[1], int32_data=[999])
        ),
    ),
    "no bool": (
        "OI1553",
        lambda m: m.graph.initializer[1].CopyFrom(
            onnx.TensorProto(name="small", data_type=9, dims=[1], raw_data=b"\x07")
        ),
    ),
    "segment": ("OI1553", _set("graph.initializer[1].segment.begin", 0)),
    "attribute of another type": (
        "OI1555",
        _node(0, helper.make_node("Concat", ["x"], ["h"], axis=1.5)),
    ),
    "attribute of two types": ("OI1555", _set("graph.node[1].attribute[0].i", 3)),
    "attribute without type": ("OI1555", _set("graph.node[1].attribute[0].type", 0)),
    "unknown attribute": ("OI1555", _node(0, helper.make_node("Relu", ["x"], ["h"], leak=1))),
    "missing attribute": ("OI1555", _node(0, helper.make_node("Concat", ["x"], ["h"]))),
    "attribute twice": (
        "OI1555",
        lambda m: m.graph.node[1].attribute.append(m.graph.node[1].attribute[0]),
    ),
    "attribute of no function": ("OI1555", _set("graph.node[1].attribute[0].ref_attr_name", "a")),
    "too many inputs": ("OI1555", _node(0, helper.make_node("Relu", ["x", "w"], ["h"]))),
    "too few inputs": ("OI1555", _node(0, helper.make_node("MatMul", ["x"], ["h"]))),
    "function of itself": ("OI1556", _calls(("Twice", ["Twice"]))),
    "functions in a circle": ("OI1556", _calls(("Twice", ["More"]), ("More", ["Twice"]))),
    "functions that multiply": (
        "OI1556",
        _calls(
            ("Twice", ["F0", "F0"]),
            *[(f"F{i}", [f"F{i + 1}", f"F{i + 1}"]) for i in range(40)],
            ("F40", []),
        ),
    ),
    "sparse initializer": ("OI1557", _sparse),
    "sparse attribute": ("OI1557", _sparse_attribute),
    "texts": ("OI1557", _texts),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_models_are_refused(name: str, tmp_path: Path) -> None:
    code, change = HOSTILE[name]
    model = sample()
    change(model)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(OpenInferError) as caught:
        read_all(path)
    assert caught.value.code == code, str(caught.value)
    assert caught.value.hint
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, UnsupportedError if code == "OI1557" else PackageError)


def test_operators_of_old_sets_that_have_not_changed() -> None:
    graph = helper.make_graph(
        [helper.make_node("Not", ["x"], ["y"])],
        "main",
        [helper.make_tensor_value_info("x", onnx.TensorProto.BOOL, [2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.BOOL, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 1)], ir_version=4)
    assert load_model(model).opsets == {"": 7}


def _field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer with a length."""
    length = len(content)
    varint = bytearray()
    while length >= 0x80:
        varint.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *varint, length]) + content


def test_nested_graphs_and_noise() -> None:
    deep = b""
    for _ in range(150):
        for field in (6, 5, 1):  # the graph of an attribute of a node of a graph
            deep = _field(field, deep)
    nested = sample().SerializeToString()[:2] + _field(7, deep)
    for data in (nested, b"", b"\xff" * 40, b"PK\x03\x04", sample().SerializeToString()[:-7]):
        with pytest.raises(PackageError) as caught:
            load_model(data)
        assert caught.value.code in ("OI1550", "OI1551")
    with pytest.raises(PackageError, match="two graphs"):
        load_model(sample().SerializeToString() * 2)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name, code in (("absent", "OI0401"), (".", "OI0401"), ("empty", "OI1550")):
        with pytest.raises(PackageError) as caught:
            load_model(tmp_path / name)
        assert caught.value.code == code
