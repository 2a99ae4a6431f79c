"""`openinfer import` writes a text that one edits, its package and a report; or nothing."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.importers import readers, written
from openinfer.compiler.importers.graph_writer import GraphWriter, Imported
from openinfer.compiler.importers.written import NAMES
from openinfer.compiler.tools.openinfer import main
from openinfer.lowering.graph.imports.provenance import Provenance
from openinfer.runtime.errors import UnsupportedError

Capture = pytest.CaptureFixture[str]


def read_net(path: Path) -> Imported:
    """A residual network of three layers, as a reader gives it."""
    if path.stem == "bad":
        raise UnsupportedError("OI1500", "2 ops cannot be imported")
    rng = np.random.default_rng(0)
    g = GraphWriter(reserved=["x", "y"])
    h = g.input("x", "f32", ["B", 4])
    for i in range(3):
        with g.at(Provenance(f"layers.{i}.up", "Linear", "a")):
            w = rng.standard_normal((4, 4), dtype=np.float32)
            a = g.op("linear", h, g.weight(f"layers.{i}.up.weight", w, "f32", [4, 4]))
        with g.at(Provenance(f"layers.{i}", "Layer", "h")):
            a = g.op("mul", g.op("gelu", a), 0.5)
            h = g.op("add", a, h)
    return g.finish([("y", h)], source=path.name, calls=12)


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(readers.READERS, ".net", f"{__name__}:read_net")
    path = tmp_path / "model.net"
    path.write_bytes(b"")
    return path


def test_what_is_written_runs(net: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "new" / "model"
    assert main(["import", str(net), "-o", str(out)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("model.net: 12 nodes became ")
    assert shown.endswith(f"next: openinfer run {out / 'model.oi'}\n")
    assert sorted(path.name for path in out.iterdir()) == sorted(NAMES)
    assert "roll-layers" in (out / "report.txt").read_text()
    assert main(["run", str(out / "model.oi"), "--size", "B=2"]) == 0
    assert main(["fmt", "--check", str(out / "model.oi")]) == 0
    first = [(out / name).read_bytes() for name in NAMES]
    assert main(["import", str(net), "-o", str(out), "--force", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (facts["loops"], facts["tensors"]) == (1, 3)
    assert [(out / name).read_bytes() for name in NAMES] == first, "other bytes of the same model"


def test_an_edited_text_is_another_model(net: Path, tmp_path: Path) -> None:
    """The activation of a layer changed by hand: a diff of one line, and the numbers of that model."""
    assert main(["import", str(net), "-o", str(tmp_path / "m")]) == 0
    text = (tmp_path / "m/model.oi").read_text()
    edited = text.replace("gelu(", "silu(")
    changed = [
        line for line in difflib.ndiff(text.splitlines(), edited.splitlines()) if line[0] in "+-"
    ]
    assert [line.split(maxsplit=1) for line in changed] == [
        ["-", "up = op gelu(linear(h, up_w[l]));"],
        ["+", "up = op silu(linear(h, up_w[l]));"],
    ]
    (tmp_path / "m/model.oi").write_text(edited)
    model = oi.open_model(tmp_path / "m/model.oinf")
    program = oi.compile(oi.graph_file(tmp_path / "m/model.oi"), model)
    x = np.random.default_rng(1).standard_normal((2, 4), dtype=np.float32)
    want = x
    for i in range(3):
        a = want @ np.asarray(model.tensor(f"layers.{i}.up.weight")).T
        want = a / (1 + np.exp(-a)) * np.float32(0.5) + want
    np.testing.assert_allclose(program.make_executor().run(x=x)["y"], want, rtol=1e-5, atol=1e-6)


def test_an_onnx_file_is_read(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the extra `import`")
    h = onnx.helper
    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    graph = h.make_graph(
        [h.make_node("MatMul", ["x", "w"], ["a"]), h.make_node("Relu", ["a"], ["y"])],
        "net",
        [h.make_tensor_value_info("x", 1, ["N", 3])],
        [h.make_tensor_value_info("y", 1, ["N", 2])],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 18)]), tmp_path / "net.onnx")
    assert main(["import", str(tmp_path), "-o", str(tmp_path / "out")]) == 0
    model = oi.open_model(tmp_path / "out/model.oinf")
    program = oi.Simulator(oi.graph_file(tmp_path / "out/model.oi"), model)
    x = np.array([[1, -2, 0.5], [0, 1, 1]], np.float32)
    np.testing.assert_allclose(program.make_executor().run(x=x)["y"], np.maximum(x @ w, 0))


def test_files_that_are_there_stay(net: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "model.oi").write_text("mine")
    assert main(["import", str(net), "-o", str(tmp_path)]) == 2
    assert "has model.oi\n  fix: --force replaces them" in capsys.readouterr().err
    assert (tmp_path / "model.oi").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.h5", "is no .onnx or .pt2"),
        ("empty", "holds not one .onnx or .pt2"),
        ("bad.net", "2 ops cannot be imported"),
        ("model.net", "no room"),
    ],
)
def test_what_fails_writes_nothing(
    name: str,
    message: str,
    net: Path,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "empty").mkdir()

    def full(path: Path, text: str) -> None:
        raise OSError(28, "no room", str(path))

    if name == "model.net":
        monkeypatch.setattr(written, "write_text", full)
    assert main(["import", str(tmp_path / name), "-o", str(tmp_path / "out")]) != 0
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert not (tmp_path / "out").exists()
