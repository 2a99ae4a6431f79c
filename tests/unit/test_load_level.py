"""A level of the IR as a program: from a file or from `Program.show`, edited or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.pipeline import PIPELINES
from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.openinfer_opt import main as opt

PROGRAM = """
dynamic { x: f32[B, K]; }
constant { W: f32[K, N]; b: f32[N]; }
persistent { count: i32; }
volatile { y: f32[B, N]; }
block entry {
    assign h: f32[B, N];
    op matmul(x, W) >> h;
    op add(h, b) >> y;
    cache.increment count;
    return y;
}
"""
RANDOM = np.random.default_rng(4)
MODEL = {
    "W": RANDOM.standard_normal((6, 5)).astype(np.float32),
    "b": RANDOM.standard_normal(5).astype(np.float32),
}
X = RANDOM.standard_normal((3, 6)).astype(np.float32)
Capture = pytest.CaptureFixture[str]


def result(program: oi.Program) -> object:
    with program.make_executor() as executor:
        executor.run(x=X)
        found = executor.run(x=X)["y"]
        assert executor.fetch("count") == 2
    return found


@pytest.fixture(scope="module")
def program() -> oi.Program:
    return oi.compile(PROGRAM, MODEL)


@pytest.mark.parametrize("phase", [phase.name for phase in PIPELINES["cpu"]])
def test_every_level_is_the_program(phase: str, program: oi.Program) -> None:
    level = program.show(phase)
    made = oi.load_level(level, MODEL)
    np.testing.assert_array_equal(result(made), result(program))
    assert made.inputs == program.inputs
    assert made.sizes == program.sizes


@pytest.mark.parametrize(
    ("phase", "old", "new"),
    [
        ("graph", "graph.op add(h, b)", "graph.op sub(h, b)"),
        ("nn", 'kind = "add"', 'kind = "sub"'),
        ("linalg", "arith.addf", "arith.subf"),
    ],
)
def test_an_edited_level_runs(
    phase: str, old: str, new: str, program: oi.Program, tmp_path: Path
) -> None:
    text = program.show(phase).text
    # At level linalg the first sum is that of the product, at level nn the last one counts.
    at = text.index(old) if phase == "nn" else text.rindex(old)
    path = tmp_path / "edited.mlir"
    path.write_text(text[:at] + new + text[at + len(old) :])
    found = np.asarray(result(oi.load_level(path, MODEL)))
    minus, plus = X @ MODEL["W"] - MODEL["b"], X @ MODEL["W"] + MODEL["b"]
    assert np.allclose(found, minus, atol=1e-5) or np.allclose(
        found, MODEL["b"] - X @ MODEL["W"], atol=1e-5
    )
    assert not np.allclose(found, plus, atol=1e-3)


def test_levels_of_another_device() -> None:
    level = oi.compile(PROGRAM, MODEL, "null").show("kernels")
    assert level.text.startswith("// pipeline null, after phase kernels")
    assert oi.load_level(level, MODEL).device == "null"


def test_the_tool_runs_an_edited_level(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "p.oi").write_text(PROGRAM)
    oi.write_oinf(MODEL, tmp_path / "p.oinf")
    np.save(tmp_path / "x.npy", X)
    levels = tmp_path / "levels"
    assert opt([str(tmp_path / "p.oi"), "--pipeline", "cpu", "--dump-dir", str(levels)]) == 0
    path = levels / "01-nn.mlir"
    path.write_text(path.read_text().replace('kind = "add"', 'kind = "mul"'))
    model, out = str(tmp_path / "p.oinf"), str(tmp_path / "y.npy")
    arguments = ["run", str(path), "--input", f"x={tmp_path / 'x.npy'}", "--output", f"y={out}"]
    capsys.readouterr()
    assert main([*arguments, "--model", model, "--time-passes"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("y: f32[3, 5] = ")
    assert "lower-kernels" in captured.err
    wanted = (X @ MODEL["W"]) * MODEL["b"]
    np.testing.assert_allclose(np.load(out), wanted, rtol=1e-5, atol=1e-5)
    assert main(arguments) != 0
    assert "OI0804" in capsys.readouterr().err
    assert main([*arguments, "--model", model, "--device", "simulator"]) != 0
    assert "OI0736" in capsys.readouterr().err
    kernel = next((levels / "04-kernels").iterdir())
    assert main(["run", str(kernel), "--model", model]) != 0
    assert "error[" in capsys.readouterr().err


def test_a_level_says_which_model_it_takes(program: oi.Program) -> None:
    level = program.show("nn")
    with pytest.raises(oi.ArtefactError, match=r"OI0804.*names tensors of a model \(W\)"):
        oi.load_level(level)
    for wrong in (
        {**MODEL, "W": MODEL["W"].T.copy()},
        {**MODEL, "b": MODEL["b"].astype(np.int32)},
        {**MODEL, "b": oi.UninitializedTensor("f32", (5,))},
    ):
        with pytest.raises(oi.ArtefactError, match="OI0805"):
            oi.load_level(level, wrong)
    with pytest.raises(oi.PackageError, match="no tensor named 'b'"):
        oi.load_level(level, {"W": MODEL["W"]})


def test_what_is_no_level(program: oi.Program, tmp_path: Path) -> None:
    path = tmp_path / "x.mlir"
    text = program.show("nn").text
    for wrong, code in (
        ("", "OI0961"),
        ("builtin.module {}", "OI0515"),
        (text.replace("nn.matmul", "nn.matmull"), "OI0961"),
        (text.replace("after phase nn", "after phase linalg"), "OI0515"),
        (text.replace("after phase nn", "after phase none"), "OI0511"),
        (text.replace("pipeline cpu", "pipeline gpu"), "OI0510"),
    ):
        path.write_text(wrong)
        with pytest.raises(oi.OpenInferError) as caught:
            oi.load_level(path, MODEL)
        found = getattr(caught.value, "diagnostics", [caught.value])[0].code
        assert found == code, wrong[:80]
    with pytest.raises(oi.InputError, match="OI0514"):
        oi.load_level(tmp_path / "absent.mlir")
    path.write_bytes(b"\xff")
    with pytest.raises(oi.InputError, match="OI0513"):
        oi.load_level(path)


def test_a_level_without_its_first_line(program: oi.Program, tmp_path: Path) -> None:
    """The highest level that it may be of."""
    path = tmp_path / "x.mlir"
    path.write_text(program.show("linalg").text.split("\n", 1)[1])
    np.testing.assert_array_equal(result(oi.load_level(path, MODEL)), result(program))


def test_a_program_that_is_not_bound_yet(tmp_path: Path, capsys: Capture) -> None:
    """What `openinfer-opt` prints of a text: it is bound to its model as texts are."""
    (tmp_path / "p.oi").write_text(PROGRAM)
    assert opt([str(tmp_path / "p.oi")]) == 0
    path = tmp_path / "graph.mlir"
    path.write_text(capsys.readouterr().out)
    np.testing.assert_array_equal(
        result(oi.load_level(path, MODEL)), result(oi.compile(PROGRAM, MODEL))
    )
    with pytest.raises(oi.ProgramError, match=r"OI0326|OI0324"):
        oi.load_level(path)
