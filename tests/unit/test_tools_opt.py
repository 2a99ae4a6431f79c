"""`openinfer-opt`: levels in and out, diagnostics with places, dumps, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from openinfer.compiler import pipeline
from openinfer.compiler.pipeline import Phase, Step
from openinfer.compiler.tools.openinfer_opt import main
from openinfer.runtime.host import cpu_unavailable_reason

Capture = pytest.CaptureFixture[str]

FUNCTION = """\
func.func @f(%a: i32) -> i32 {
  %b = arith.addi %a, %a : i32
  %c = arith.addi %a, %a : i32
  %d = arith.muli %b, %c : i32
  func.return %d : i32
}
"""
PROGRAM = """\
dynamic { x: f32[B, D]; }
volatile { y: f32[B, D]; }
block entry {
  op relu(x) >> y;
  return;
}
"""


@pytest.fixture
def ir(tmp_path: Path) -> Path:
    path = tmp_path / "f.mlir"
    path.write_text(FUNCTION)
    return path


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "p.oi"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline of three phases on any IR."""
    phases = (
        Phase("start", ()),
        Phase("shared", (Step("cse", "one computation of each value"),)),
        Phase("folded", (Step("canonicalize", "the smallest form"), Step("dce", "no leftovers"))),
    )
    monkeypatch.setitem(pipeline.PIPELINES, "staged", phases)


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("openinfer-opt 0.")


def test_passes(ir: Path, capsys: Capture) -> None:
    assert main([str(ir), "-p", "cse"]) == 0
    assert "muli %b, %b" in capsys.readouterr().out


def test_program_as_input(program: Path, capsys: Capture) -> None:
    assert main([str(program), "--print-debuginfo"]) == 0
    out = capsys.readouterr().out
    assert "graph.op relu(x) -> (y)" in out
    assert f'loc("{program}":4:' in out


def test_printed_text_parses_again(program: Path, tmp_path: Path, capsys: Capture) -> None:
    for flags in ([], ["--print-op-generic"], ["--print-debuginfo"]):
        assert main([str(program), *flags, "-o", str(tmp_path / "out.mlir")]) == 0
        assert main([str(tmp_path / "out.mlir"), *flags]) == 0
        assert capsys.readouterr().out == (tmp_path / "out.mlir").read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["-p", "csee"], "did you mean 'cse'?"),
        (["-p", "cse{"], "pass{option=value}"),
        (["-p", "cse{fast=1}"], "it has no options"),
        (["-p", "scf-for-loop-unroll{factor=2}"], "bad options for pass 'scf-for-loop-unroll'"),
        (["--pipeline", "gpu"], "there is no pipeline 'gpu'"),
        (["--to", "linlag"], "did you mean 'linalg'?"),
        (["--from", "kernels", "--to", "nn"], "stands before"),
        (["--size", "B"], "write --size NAME=NUMBER"),
        (["--size", "B=-1"], "write --size NAME=NUMBER"),
        (["--dump-dir", "d", "--split-input-file"], "one module"),
    ],
)
def test_usage_errors(
    ir: Path, flags: list[str], message: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ir.parent)
    assert main([str(ir), *flags]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_unknown_flag_and_extension(tmp_path: Path, capsys: Capture) -> None:
    assert main(["--no-such-flag"]) == 2
    assert "error[OI0590]: unrecognized arguments: --no-such-flag" in capsys.readouterr().err
    path = tmp_path / "x.txt"
    path.write_text("")
    assert main([str(path)]) == 2
    assert "no frontend reads '.txt' files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("func.func @f() {\n  oops\n}\n", "2:3", "error[OI0961]"),
        ('func.func @f() {\n  "foo.bar"() : () -> ()\n}\n', "2:3", "foo.bar is not registered"),
        ("func.func @f(%a: i32) -> i32 {\n  func.return %b : i32\n}\n", "2:15", "[%b]"),
        (
            "func.func @f(%a: i32) -> i64 {\n  func.return %a : i32\n}\n",
            "2:3",
            "error[OI0963]: 'func.return'",
        ),
        (
            "func.func @f(%a: i32) -> i32 {\n  %b = arith.addi %c, %a : i32\n"
            "  %c = arith.addi %a, %a : i32\n  func.return %b : i32\n}\n",
            "2:3",
            "does not dominate",
        ),
    ],
)
def test_bad_ir(text: str, place: str, message: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.mlir"
    path.write_text(text)
    assert main([str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"{path}:{place}: ")
    assert message in captured.err
    assert "^" in captured.err
    assert "Traceback" not in captured.err


def test_verification_names_the_origin(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.mlir"
    path.write_text('func.func @f(%a: i32) -> i64 {\n  func.return %a : i32 loc("mlp.oi":7:3)\n}\n')
    assert main([str(path)]) == 1
    assert "(from mlp.oi:7:3)" in capsys.readouterr().err


def test_bad_program_reports_everything(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.oi"
    path.write_text(PROGRAM.replace("relu", "rellu").replace(">> y", ">> z"))
    assert main([str(path)]) == 1
    err = capsys.readouterr().err
    assert err.count("error[") == 2
    assert f"{path}:4:" in err


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"", b"func.func @f("])
def test_odd_files(content: bytes, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "odd.mlir"
    path.write_bytes(content)
    assert main([str(path)]) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert main([str(tmp_path / "absent.mlir")]) == 1
    assert "absent.mlir" in capsys.readouterr().err


def test_split_input_goes_on_after_an_error(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "many.mlir"
    path.write_text(f"{FUNCTION}// -----\nfunc.func @g(\n// -----\n{FUNCTION}")
    assert main([str(path), "--split-input-file"]) == 1
    captured = capsys.readouterr()
    assert captured.out.count("func.func @f") == 2
    assert "many.mlir:9:1" in captured.err
    assert main([str(path), "--split-input-file", "--verify-diagnostics"]) == 0
    assert "many.mlir:9:1" in capsys.readouterr().out


@pytest.mark.usefixtures("staged")
def test_dump_and_resume(ir: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "D"
    assert main([str(ir), "--pipeline", "staged"]) == 0
    final = capsys.readouterr().out
    assert main([str(ir), "--pipeline", "staged", "--dump-dir", str(folder)]) == 0
    written = capsys.readouterr().out.splitlines()
    assert written == [str(path) for path in sorted(folder.iterdir())]
    names = [path.name for path in sorted(folder.iterdir())]
    assert names == ["00-start.mlir", "01-shared.mlir", "02-folded.mlir"]
    for name, phase in zip(names, ("start", "shared", "folded")):
        assert main([str(folder / name), "--pipeline", "staged", "--from", phase]) == 0
        assert capsys.readouterr().out == final
    header = (folder / "00-start.mlir").read_text().splitlines()[1]
    assert "openinfer-opt 00-start.mlir --pipeline staged --from start" in header
    again = tmp_path / "E"
    assert main([str(ir), "--pipeline", "staged", "--dump-dir", str(again)]) == 0
    for name in names:
        assert (again / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.usefixtures("staged")
def test_stop_and_go_on_with_passes(ir: Path, capsys: Capture) -> None:
    assert main([str(ir), "--pipeline", "staged", "--to", "start", "-p", "cse"]) == 0
    assert "muli %b, %b" in capsys.readouterr().out


@pytest.mark.usefixtures("staged")
def test_timing_and_dumps_stay_off_stdout(ir: Path, capsys: Capture) -> None:
    assert main([str(ir), "--pipeline", "staged"]) == 0
    plain = capsys.readouterr().out
    flags = ["--time-passes", "--print-between-passes", "--verify-each"]
    assert main([str(ir), "--pipeline", "staged", *flags]) == 0
    captured = capsys.readouterr()
    assert captured.out == plain
    assert "// IR after canonicalize:" in captured.err
    assert "total" in captured.err


def test_kernels_are_dumped_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setitem(pipeline.PIPELINES, "k", (Phase("kernels", ()),))
    path = tmp_path / "k.mlir"
    step = FUNCTION.replace("@f", "@step")
    path.write_text(f"{FUNCTION}{step}func.func private @outside(i32)\n")
    assert main([str(path), "--pipeline", "k", "--dump-dir", str(tmp_path / "D")]) == 0
    kernels = sorted(file.name for file in (tmp_path / "D" / "00-kernels").iterdir())
    assert kernels == ["f.mlir"]
    capsys.readouterr()
    # A dump of another program leaves no kernel of the first behind, and nothing of anyone else.
    foreign = tmp_path / "D" / "00-kernels" / "mine.mlir"
    foreign.write_text(FUNCTION)
    path.write_text(FUNCTION.replace("@f", "@g"))
    assert main([str(path), "--pipeline", "k", "--dump-dir", str(tmp_path / "D")]) == 0
    kernels = sorted(file.name for file in (tmp_path / "D" / "00-kernels").iterdir())
    assert kernels == ["g.mlir", "mine.mlir"]
    path.write_text(f"{FUNCTION}{step}")
    assert main([str(path), "--pipeline", "k", "--dump-dir", str(tmp_path / "D")]) == 0
    capsys.readouterr()
    assert main([str(tmp_path / "D" / "00-kernels" / "f.mlir")]) == 0
    assert "func.func @f" in capsys.readouterr().out


@pytest.fixture
def dumps(program: Path, tmp_path: Path, capsys: Capture) -> Path:
    folder = tmp_path / "L"
    line = [str(program), "--pipeline", "cpu", "--target-cpu", "avx2", "--dump-dir", str(folder)]
    assert main(line) == 0, capsys.readouterr().err
    capsys.readouterr()
    return folder


@pytest.mark.parametrize(
    ("name", "arguments", "parts"),
    [
        ("01-nn", [], ["module of level nn", "use --from nn"]),
        ("02-linalg", [], ["module of level linalg", "use --from linalg"]),
        ("03-buffers", [], ["module of level buffers", "use --from buffers"]),
        ("04-kernels", [], ["module of level kernels", "use --from kernels"]),
        ("05-threads", [], ["module of level threads", "use --from threads"]),
        ("06-llvm", ["--from", "nn"], ["module of level llvm, not of level nn"]),
        ("00-graph", ["--from", "linalg"], ["module of level graph", "use --from graph"]),
        ("03-buffers", ["--from", "nn"], ["use --from buffers"]),
        ("04-kernels", ["--from", "buffers"], ["use --from kernels"]),
        ("05-threads", ["--from", "kernels"], ["of level threads", "use --from threads"]),
        ("01-nn", ["--from", "kernels"], ["use --from nn"]),
    ],
)
def test_wrong_start(
    dumps: Path, capsys: Capture, name: str, arguments: list[str], parts: list[str]
) -> None:
    assert main([str(dumps / f"{name}.mlir"), "--pipeline", "cpu", *arguments]) == 1
    error = capsys.readouterr().err
    assert "error[OI0515]" in error
    assert "bug" not in error
    assert all(part in error for part in parts), error


def test_program_is_of_no_level_yet(program: Path, capsys: Capture) -> None:
    for start in ("graph", "nn"):
        assert main([str(program), "--pipeline", "cpu", "--from", start]) == 1
        error = capsys.readouterr().err
        assert "error[OI0515]" in error
        assert "leave --from out" in error


def test_other_ir_is_of_no_level(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(f"{FUNCTION}llvm.func @g()\n")
    assert main([str(path), "--from", "nn"]) == 1
    error = capsys.readouterr().err
    assert "error[OI0515]" in error
    assert "of no level" in error


def test_the_header_says_the_level(ir: Path, capsys: Capture) -> None:
    # Legal as level nn, too: the file's own word counts.
    for stated, hint in (("linalg", "linalg"), ("kernels", "kernels"), ("other", "nn")):
        ir.write_text(f"// pipeline cpu, after phase {stated}; continue with\n{FUNCTION}")
        assert main([str(ir), "--pipeline", "cpu"]) == 1
        assert f"use --from {hint}" in capsys.readouterr().err


def test_without_xdsl(program: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("openinfer.compiler.arguments.find_spec", lambda name: None)
    assert main([str(program)]) == 1
    assert "error[OI0734]" in capsys.readouterr().err


@pytest.mark.parametrize("level", ["01-nn", "02-linalg", "03-buffers", "04-kernels", "05-threads"])
def test_step_without_interface(dumps: Path, capsys: Capture, level: str) -> None:
    path = dumps / f"{level}.mlir"
    lines = path.read_text().splitlines(keepends=True)
    begin = next(i for i, line in enumerate(lines) if "nn.interface" in line)
    end = next(i for i, line in enumerate(lines) if i > begin and "func." in line)
    path.write_text("".join([*lines[:begin], *lines[end:]]))
    start = level.partition("-")[2]
    assert main([str(path), "--pipeline", "cpu", "--from", start]) == 1
    error = capsys.readouterr().err
    assert "error[OI0527]" in error
    assert "nn.interface" in error


@pytest.mark.parametrize(("precision", "code"), [("f99", "OI0516"), ("f16", "OI0732")])
def test_precision_is_refused_as_in_python(
    program: Path, capsys: Capture, precision: str, code: str
) -> None:
    assert main([str(program), "--to", "nn", "--precision", precision]) == 1
    assert f"error[{code}]" in capsys.readouterr().err


def test_strict_mathematics_forbid_bf16(program: Path, capsys: Capture) -> None:
    flags = ["--to", "nn", "--precision", "bf16", "--strict-math"]
    assert main([str(program), *flags]) == 1
    assert "error[OI0528]" in capsys.readouterr().err


def test_sizes_are_refused_as_in_python(program: Path, capsys: Capture) -> None:
    assert main([str(program), "--to", "nn", "--size", f"B={10**30}"]) == 1
    assert "error[OI0517]" in capsys.readouterr().err
    assert main([str(program), "--to", "nn", "--size", "Q=1"]) == 1
    assert "error[OI0523]" in capsys.readouterr().err


def test_llvm_ir_is_for_the_target_of_the_module(
    program: Path, dumps: Path, capsys: Capture
) -> None:
    def processor(*arguments: str) -> str:
        assert main([*arguments]) == 0, capsys.readouterr().err
        text = capsys.readouterr().out
        return text.partition('"target-cpu"="')[2].partition('"')[0]

    lowered = [str(program), "--pipeline", "cpu"]
    for kind, expected in (
        ("avx2", "x86-64-v3"),
        ("avx512", "x86-64-v4"),
        ("generic", "x86-64"),
    ):
        chosen = [*lowered, "--target-cpu", kind]
        assert processor(*chosen, "-t", "llvm-ir") == expected
    dump = str(dumps / "06-llvm.mlir")
    flags = ["--target-cpu", "avx2"]
    assert processor(dump, *flags, "-t", "llvm-ir") == "x86-64-v3"
    assert processor(dump, "-t", "llvm-ir{target=avx512}") == "x86-64-v4"


@pytest.mark.skipif(cpu_unavailable_reason() is not None, reason="no native code here")
def test_llvm_ir_is_for_this_machine(program: Path, capsys: Capture) -> None:
    from openinfer.runtime.devices.cpu.codegen import host_target

    assert main([str(program), "--pipeline", "cpu", "-t", "llvm-ir"]) == 0
    assert host_target().cpu in capsys.readouterr().out
