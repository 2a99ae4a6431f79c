"""Mistakes that beginners make: each gets one message, with the place and what to do."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.errors import InputError, ModelWarning, ProgramError
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.packages.oinf_writer import OinfContent

Capture = pytest.CaptureFixture[str]

MLP = """\
dynamic { x: f32[B, D]; }
constant { w1: f32[D, hidden]; w2: f32[hidden, O]; }
volatile { y: f32[B, O]; z: f32[B, O]; }
block entry {
  assign t: f32[B, hidden];
  assign u: f32[B, hidden];
  op matmul(x, w1) >> t;
  op relu(t) >> u;
  op matmul(u, w2) >> y;
  op relu(y) >> z;
  return;
}
"""
RENAMED = MLP.replace("w1", "weight1")
X = np.ones((3, 4), np.float32)

needs_cpu = pytest.mark.skipif(cpu_unavailable_reason() is not None, reason="needs the cpu device")


@pytest.fixture
def model_path(tmp_path: Path) -> Path:
    tensors = {"w1": np.ones((4, 8), np.float32), "w2": np.ones((8, 2), np.float32)}
    path = tmp_path / "mlp.oinf"
    oi.write_oinf(OinfContent({"D": 4, "hidden": 8, "O": 2}, {}, tensors), path)
    return path


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def problems(text: str, model: oi.Package | None = None) -> list[oi.Diagnostic]:
    with pytest.raises(ProgramError) as caught:
        oi.Simulator(text, model)
    return caught.value.diagnostics


# Constants that nothing fills.


def test_a_misspelt_constant_warns(model_path: Path) -> None:
    with oi.open_model(model_path) as model:
        with pytest.warns(ModelWarning, match="OI0330.*weight1 has no tensor in mlp.oinf") as found:
            executor = oi.Simulator(RENAMED, model).make_executor()
        assert len(found) == 1
        assert found[0].filename == __file__
        assert "does not use 'w1' of the model" in str(found[0].message)
        assert not np.asarray(executor.run(x=X)["y"]).any()
        misspelt = MLP.replace("w2", "w22")
        with pytest.warns(ModelWarning, match="did you mean 'w2'"):
            oi.Simulator(misspelt, model)
        with pytest.raises(ProgramError, match=r":2:12: error\[OI0330\]"):
            oi.Simulator(RENAMED, model, strict=True)


@needs_cpu
def test_compiling_warns_from_the_cache_too(model_path: Path) -> None:
    with oi.open_model(model_path) as model:
        for _ in range(2):
            with pytest.warns(ModelWarning, match="weight1 has no tensor") as found:
                oi.compile(RENAMED, model)
            assert [one.filename for one in found] == [__file__]
        with pytest.raises(ProgramError, match="OI0330"):
            oi.compile(RENAMED, model, strict=True)


@pytest.mark.parametrize("text", [MLP, RENAMED.replace("weight1:", 'weight1 @ref("w1"):')])
def test_filled_constants_do_not_warn(model_path: Path, text: str) -> None:
    text = text.replace(
        'weight1 @ref("w1"): f32[D, hidden];', 'weight1: f32[D, hidden] @ref("w1");'
    )
    with oi.open_model(model_path) as model, warnings.catch_warnings():
        warnings.simplefilter("error")
        oi.Simulator(text, model, strict=True)
        oi.Simulator("constant { D: i64; s: f32 @init(2); } block entry { return; }", model)


def test_no_model_is_one_warning() -> None:
    text = "constant { a: f32[2]; b: f32[2]; c: f32 @init(1); } block entry { return; }"
    with pytest.warns(ModelWarning, match="no model was given.*zeros: a, b\n") as found:
        oi.Simulator(text)
    assert len(found) == 1


@pytest.mark.parametrize("executor", ["simulator", pytest.param("cpu", marks=needs_cpu)])
def test_the_command_line_warns_once(
    model_path: Path, tmp_path: Path, capsys: Capture, executor: str
) -> None:
    path = written(tmp_path / "mlp.oi", RENAMED)
    assert main(["run", path, "--executor", executor]) == 0
    assert capsys.readouterr().err.count("warning[OI0330]") == 1
    assert main(["run", path, "--executor", executor, "--strict"]) == 1
    assert f"{path}:2:12: error[OI0330]" in capsys.readouterr().err


@needs_cpu
def test_compare_warns_once(model_path: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["compare", written(tmp_path / "mlp.oi", RENAMED)]) == 0
    assert capsys.readouterr().err.count("warning[OI0330]") == 1


@needs_cpu
def test_temporaries_with_open_dimensions_are_compared(tmp_path: Path, capsys: Capture) -> None:
    text = """\
dynamic { x: f32[B, 4]; }
volatile { y: f32[B, 4]; }
block entry {
  assign t: f32[_, 4];
  op relu(x) >> t;
  assign u: f32[_, _];
  op add(t, t) >> u;
  op mul(u, x) >> y;
  return;
}
"""
    assert main(["compare", written(tmp_path / "p.oi", text), "--steps", "2"]) == 0
    assert "agree: 2 steps, 2 results, 6 nodes" in capsys.readouterr().out


# One report per cause.


def test_sizes_without_a_model() -> None:
    found = problems(MLP)
    assert [d.code for d in found] == ["OI0324"] * 2
    assert all("no model was given" in d.message for d in found)
    assert found[0].hint is not None
    assert found[0].hint.startswith("give a model (open_model(FILE), `--model FILE`)")
    places = [note.location.line if note.location else 0 for note in found[0].notes]
    assert places == [2, 5, 6]


def test_no_model_is_said_first(tmp_path: Path, capsys: Capture) -> None:
    path = written(tmp_path / "q.oi", MLP)
    assert main(["run", path, "--executor", "simulator"]) == 1
    assert capsys.readouterr().err.startswith("note: no model package was given")
    # A mistake of the text has nothing to do with it.
    path = written(tmp_path / "r.oi", MLP.replace("x, w1", "x, nothing"))
    assert main(["run", path, "--executor", "simulator"]) == 1
    assert "no model" not in capsys.readouterr().err


def test_a_misspelt_size(model_path: Path) -> None:
    with oi.open_model(model_path) as model:
        (found,) = problems(MLP.replace("B, hidden", "B, hiden"), model)
    assert found.code == "OI0324"
    assert found.hint is not None
    assert found.hint.startswith("did you mean hidden?")
    assert [note.message for note in found.notes] == ["u names it, too"]


def test_an_undefined_name_is_reported_once() -> None:
    (found,) = problems(
        "volatile { y: f32[2]; }\nblock entry {\n  op relu(y) >> h;\n  op relu(h) >> h;\n"
        "  op add(h, y) >> y;\n  return;\n}"
    )
    assert found.code == "OI0210"
    assert found.location is not None
    assert found.location.line == 3
    assert [note.message for note in found.notes] == ["also in lines 4, 5"]


# Braces.


def test_an_open_loop() -> None:
    found = problems(
        "volatile { y: f32[2]; }\nblock entry {\n  loop l (i in 0..2) {\n    op relu(y) >> y;\n"
        "  return;\n}\n"
    )
    assert [d.code for d in found] == ["OI0116"]
    notes = [(n.message, n.location.line if n.location else 0) for n in found[0].notes]
    assert notes[0] == ("opened here", 2)
    assert notes[1][0].startswith("perhaps it is loop `l` that lacks its `}`: that of line 6")
    assert notes[1][1] == 3


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("volatile { y: f32[2]; }\nblock entry {\n  op relu(y) >> y;\n", 2),
        ("block entry {\n  return;\n}\nvolatile {\n  y: f32[2];\n", 4),
        ("block a {\n  return;\nblock entry {\n  return;\n}\n", 1),
    ],
)
def test_an_open_brace(text: str, line: int) -> None:
    found = [d for d in problems(text) if d.severity == "error"]
    assert [d.code for d in found] == ["OI0116"]
    (note,) = found[0].notes
    assert note.message == "opened here"
    assert note.location is not None
    assert note.location.line == line


# Paths and files.


def test_a_path_is_no_text(tmp_path: Path) -> None:
    for name in ("mymlp.oi", "a/b.json"):
        with pytest.raises(InputError, match=r"OI0525.*is the path of a program") as caught:
            oi.compile(name)
        assert f"graph_file('{name}')" in str(caught.value)
    path = tmp_path / "p.oi"
    path.write_text("volatile { y: f32[2] @init(3); } block entry { op relu(y) >> y; return; }")
    assert np.asarray(oi.Simulator(path).make_executor().run()["y"]).tolist() == [3, 3]


def test_ir_that_is_no_program(tmp_path: Path, capsys: Capture) -> None:
    path = written(tmp_path / "02-linalg.mlir", "builtin.module {}\n")
    for command in ("run", "compare", "compile", "trace"):
        assert main([command, path]) == 1
        err = capsys.readouterr().err
        assert err.count("error[") == 1
        assert f"error[{'OI0513' if command == 'compile' else 'OI0515'}]" in err
        assert "openinfer-opt" in err


@needs_cpu
def test_a_missing_folder(tmp_path: Path, capsys: Capture) -> None:
    path = written(
        tmp_path / "p.oi", "volatile { y: f32[2]; } block entry { op relu(y) >> y; return; }"
    )
    absent = tmp_path / "nowhere"
    for command in (["run", path, "--output", f"y={absent}/y.npy"],
                    ["trace", path, "--html", f"{absent}/t.html"]):  # fmt: skip
        assert main(command) == 1
        err = capsys.readouterr().err
        assert "error[OI0557]" in err
        assert "fix:" in err


@needs_cpu
def test_a_compiled_program_without_its_model(
    model_path: Path, tmp_path: Path, capsys: Capture
) -> None:
    path = written(tmp_path / "mlp.oi", MLP)
    assert main(["compile", path, "--strict-math"]) == 0
    program = str(tmp_path / "mlp.oip")
    capsys.readouterr()
    assert main(["inspect", program]) == 0
    out = capsys.readouterr().out
    assert "strict math: yes" in out
    assert "precision: as declared" in out
    assert main(["run", program, "--strict-math"]) == 2
    assert "decided when a program is compiled" in capsys.readouterr().err
    model_path.unlink()
    assert main(["run", program]) == 1
    err = capsys.readouterr().err
    assert "error[OI0804]" in err
    assert f"--model {model_path}" in err


# Options.


@needs_cpu
def test_strict_math_on_the_command_line(model_path: Path, tmp_path: Path, capsys: Capture) -> None:
    path = written(tmp_path / "mlp.oi", MLP)
    for command in ("run", "compare"):
        assert main([command, path, "--strict-math"]) == 0, capsys.readouterr().err
    with oi.open_model(model_path) as model:
        assert repr(oi.compile(MLP, model, strict_math=True)).endswith(", strict math>")
        assert ", precision bf16" in repr(oi.compile(MLP, model, precision="bf16"))
        assert "strict" not in repr(oi.compile(MLP, model))


def test_only_working_precisions_are_suggested() -> None:
    with pytest.raises(InputError, match="OI0516") as caught:
        oi.compile("block entry { return; }", precision="fp16")
    assert "known precisions: f32, bf16" in str(caught.value)
    assert "'f16'" not in str(caught.value)


# Arguments of `run`.

TEXT = "dynamic { x: f32[N]; } volatile { scores: f32[N]; } block entry { op relu(x) >> scores; return; }"


@pytest.fixture(params=["simulator", pytest.param("cpu", marks=needs_cpu)])
def executor(request: pytest.FixtureRequest) -> oi.Executor:
    if request.param == "cpu":
        return oi.compile(TEXT).make_executor()
    return oi.Simulator(TEXT).make_executor()


def test_arrays_without_names(executor: oi.Executor) -> None:
    array = np.ones(3, np.float32)
    executor.run(x=array)
    for call in (executor.run, executor.insert):
        untyped = cast("Any", call)
        with pytest.raises(InputError, match=r"an array was given without a name\n.*x=…") as caught:
            untyped(array)
        assert isinstance(caught.value, TypeError)
    assert np.asarray(executor.run(x=array)["scores"]).tolist() == [1, 1, 1]


def test_results_that_are_none(executor: oi.Executor) -> None:
    results = executor.run(x=np.ones(3, np.float32))
    assert isinstance(results, dict)
    assert results.get("logits") is None
    with pytest.raises(InputError, match=r"OI0501.*no result is named 'logits'") as caught:
        results["logits"]
    assert isinstance(caught.value, KeyError)
    assert "results: scores" in str(caught.value)
    with pytest.raises(KeyError, match="did you mean 'scores'"):
        results["score"]


def test_none_is_no_array(executor: oi.Executor) -> None:
    executor.run(x=np.ones(3, np.float32))
    with pytest.raises(InputError, match=r"OI0544.*x: expected an array, found None"):
        executor.run(x=None)
