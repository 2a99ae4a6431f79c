"""`openinfer pack`: objects of modules, and packages of other formats, as `.oinf` files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.packages.oinf_writer import OinfContent

Capture = pytest.CaptureFixture[str]

MODULE = """\
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openinfer import Bitset, ScalarValue, SizeVar, TensorSpec


@dataclass
class Model:
    B: int
    w: np.ndarray
    n: SizeVar = SizeVar(3)
    b: Bitset = field(default_factory=lambda: Bitset([1, 0]))
    s: ScalarValue = ScalarValue(2.0)
    t: TensorSpec = field(default_factory=lambda: TensorSpec([1, 2], "i4"))
    title: str = "né ü"


@dataclass
class Ragged:
    w: Any = field(default_factory=lambda: [[1], [2, 3]])


@dataclass
class Failing:
    w: int = 3

    def __post_init__(self) -> None:
        raise RuntimeError("not today")


class Plain:
    inner = Model(1, np.zeros(1))


model = Model(2, np.ones(3, np.float32))
number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "packing_example.py"
    path.write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield path
    sys.modules.pop("packing_example", None)


def packed(capsys: Capture, *arguments: str) -> oi.Package:
    assert main(["pack", *arguments, "-o", "out.oinf"]) == 0, capsys.readouterr().err
    return oi.open_model("out.oinf")


def test_an_instance(module: Path, capsys: Capture) -> None:
    for source in ("packing_example:model", f"{module}:model"):
        package = packed(capsys, source)
        assert package.sizes == {"B": 2, "n": 3}
        assert package.metadata["title"] == "né ü"
        assert package.tensor("w").values().tolist() == [1, 1, 1]
        assert package.tensor("t").dtype.name == "i4"
    assert packed(capsys, "packing_example:Plain.inner").sizes == {"B": 1, "n": 3}


def test_a_class_with_arguments(module: Path, capsys: Capture) -> None:
    given = {"B": 4, "w": [[1.5, 2]], "n": 9, "b": [1, 1, 1], "s": 0.5, "t": [1.0]}
    Path("ctor.json").write_text(json.dumps(given))
    package = packed(capsys, "packing_example:Model", "--arguments", "ctor.json")
    assert package.sizes == {"B": 4, "n": 9}
    assert package.metadata["b"] == oi.Bitset([1, 1, 1])
    assert getattr(package.metadata["s"], "value", None) == 0.5
    assert package.info("w").dtype_name == "f64"
    assert package.tensor("w").values().tolist() == [[1.5, 2]]
    assert package.tensor("t").values().tolist() == [1]


def test_what_it_says(module: Path, capsys: Capture) -> None:
    assert main(["pack", "packing_example:model", "-o", "a.oinf"]) == 0
    assert capsys.readouterr().out == f"a.oinf: {Path('a.oinf').stat().st_size} bytes, " + (
        "2 sizes, 3 metadata, 2 tensors\n"
    )
    assert main(["pack", "packing_example:model", "-o", "a.oinf", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tensors"] == 2


def test_another_package(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.numpy import save_file

    monkeypatch.chdir(tmp_path)
    save_file({"w": np.arange(3, dtype=np.float16)}, "model.safetensors")
    Path("config.json").write_text('{"D": 3, "act": "relu"}')
    for source in (".", "model.safetensors"):
        package = packed(capsys, source)
        assert package.sizes == {"D": 3}
        assert package.metadata["act"] == "relu"
        assert package.tensor("w").values().tolist() == [0, 1, 2]
    before = Path("out.oinf").read_bytes()
    assert packed(capsys, "out.oinf").format == "oinf 2"
    assert Path("out.oinf").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["packing_example:modle"], 1, "did you mean 'model'"),
        (["packing_example:Plain.innr"], 1, "has no 'Plain.innr'"),
        (["packing_example:Plain"], 1, "is no dataclass"),
        (["packing_example:number"], 1, "cannot write 3 as a package"),
        (["packing_example:Model"], 1, "missing 2 required positional arguments"),
        (["packing_example:Failing"], 1, "RuntimeError: not today"),
        (["packing_example:Ragged"], 1, "inhomogeneous shape"),
        (["no_such_module:x"], 1, "No module named 'no_such_module'"),
        (["no_such_file.py:x"], 1, "there is no such file"),
        (["broken.py:x"], 1, "SyntaxError"),
        (["packing_example"], 2, "names no object"),
        ([":x"], 2, "names no object"),
        (["packing_example.py"], 1, "no .oinf, .safetensors or .gguf file"),
        (["packing_example:model", "--arguments", "good.json"], 2, "is an instance"),
        (["packing_example:Model", "--arguments", "absent.json"], 1, "No such file"),
        (["packing_example:Model", "--arguments", "broken.py"], 1, "is no JSON"),
        (["packing_example:Model", "--arguments", "list.json"], 1, "no JSON object"),
        (["packing_example:Model", "--arguments", "more.json"], 1, "unexpected keyword argument"),
        (["packing_example:Model", "--arguments", "ragged.json"], 1, "argument w: "),
        (["packing_example:Model", "--arguments", "size.json"], 1, "a size lies in"),
        (["x.oinf", "--arguments", "good.json"], 2, "not for a package"),
    ],
)
def test_mistakes(
    arguments: list[str], code: int, message: str, module: Path, capsys: Capture
) -> None:
    files = {
        "broken.py": "x = (",
        "good.json": '{"B": 1, "w": [1]}',
        "list.json": "[1]",
        "more.json": '{"B": 1, "w": [1], "q": 2}',
        "ragged.json": '{"B": 1, "w": [[1], [2, 3]]}',
        "size.json": '{"B": -1, "w": [1]}',
    }
    for name, text in files.items():
        Path(name).write_text(text)
    oi.write_oinf(OinfContent(), "x.oinf")
    assert main(["pack", *arguments, "-o", "out.oinf"]) == code
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not Path("out.oinf").exists()


def test_floats_are_rounded_to_a_dtype(tmp_path: Path, capsys: Capture) -> None:
    quant = oi.QuantParams("symmetric", oi.QuantScale.per_tensor(0.5))
    content = {
        "w": np.array([1 + 2**-11, 1e6, -2.0], np.float32),
        "d": np.array([[0.1]], np.float64),
        "q": oi.TensorSpec(np.ones(2, np.float32), quant=quant),
        "later": oi.UninitializedTensor("f32", (2,)),
        "ids": np.arange(3),
        "width": 4,
        "eps": 1e-5,
    }
    oi.write_oinf(content, tmp_path / "wide.oinf")
    source, target = str(tmp_path / "wide.oinf"), str(tmp_path / "half.oinf")
    assert main(["pack", source, "-o", target, "--dtype", "f16"]) == 0
    with oi.open_model(target) as package, oi.open_model(source) as wide:
        kinds = {name: info.dtype_name for name, info in package.tensors.items()}
        assert kinds == {"w": "f16", "d": "f16", "q": "f32", "later": "f16", "ids": "i64"}
        assert package.read("w").tolist() == [1.0, np.inf, -2.0]
        assert package.read("ids").tolist() == [0, 1, 2]
        assert package.sizes == wide.sizes
        assert package.metadata["eps"] == wide.metadata["eps"]
    text = "constant { w: f32[N] @dtype(f16); } volatile { y: f32[N]; } "
    text += "block entry { op neg(w) >> y; return y; }"
    with oi.compile(text, oi.open_model(target)).make_executor() as executor:
        assert np.asarray(executor.run()["y"]).tolist() == [-1.0, -np.inf, 2.0]
    capsys.readouterr()
    for name, message in (("i8", "is no float dtype"), ("bf61", "bf16"), ("f8e4m3", "OI0743")):
        assert main(["pack", source, "-o", target, "--dtype", name]) != 0
        assert message in capsys.readouterr().err
