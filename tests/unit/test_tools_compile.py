"""`openinfer compile`, and the other commands on what it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.packages.oinf_writer import OinfContent

Capture = pytest.CaptureFixture[str]

TEXT = """\
dynamic { x: f32[N, D]; rows: i64[N]; }
constant { W: f32[D, D]; }
volatile { y: f32[N, D]; g: f32[N, D]; }
block entry {
  op matmul(x, W) >> y;
  op gather(W, rows) >> g;
  return;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    weights = np.arange(16, dtype=np.float32).reshape(4, 4) / 16
    oi.write_oinf(OinfContent({"D": 4}, {}, {"W": weights}), tmp_path / "p.oinf")
    path = tmp_path / "p.oi"
    path.write_text(TEXT)
    return path


@pytest.fixture
def compiled(program: Path, capsys: Capture) -> Path:
    assert main(["compile", str(program)]) == 0
    capsys.readouterr()
    return program.with_suffix(".oip")


def outputs(capsys: Capture, *arguments: str | Path) -> Any:
    assert main(["run", *map(str, arguments), "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)["outputs"]


def failure(capsys: Capture, code: int, *arguments: str | Path) -> str:
    assert main([str(argument) for argument in arguments]) == code
    message = capsys.readouterr().err
    assert "Traceback" not in message
    return message


def test_compile_says_what_it_wrote(program: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["compile", str(program), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    path = program.with_suffix(".oip")
    assert facts["output"] == str(path)
    assert facts["bytes"] == path.stat().st_size
    assert facts["package"] == str(tmp_path / "p.oinf")
    assert facts["further"] == []
    assert main(["compile", str(program), "-o", str(tmp_path / "q"), "--embed-weights"]) == 0
    assert "weights inside" in capsys.readouterr().out


def test_the_cost_of_passes_goes_to_stderr(
    program: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests compile the same text.
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(tmp_path / "cache"))
    assert main(["compile", str(program), "--strict-math", "--time-passes"]) == 0
    said = capsys.readouterr()
    assert "lower-kernels" not in said.out
    for row in ("(frontend)", "graph-to-nn", "convert-to-llvm", "(wait for LLVM)", "total"):
        assert row in said.err
    assert main(["run", str(program), "--time-passes"]) == 0
    assert "convert-to-llvm" in capsys.readouterr().err
    assert main(["run", str(program), "--time-passes"]) == 0
    assert "from the cache" in capsys.readouterr().err


def test_run_takes_it_as_a_text(program: Path, compiled: Path, capsys: Capture) -> None:
    options = ("--size", "N=3", "--seed", "4", "--steps", "2")
    assert outputs(capsys, compiled, *options) == outputs(capsys, program, *options)
    renamed = compiled.rename(compiled.with_name("program"))
    assert outputs(capsys, renamed, *options) == outputs(capsys, program, *options)
    simulated = outputs(capsys, renamed, *options, "--executor", "simulator")
    assert simulated["g"] == outputs(capsys, renamed, *options)["g"]


def test_sizes_are_those_of_the_program(compiled: Path, capsys: Capture) -> None:
    assert "size D is 4 in the compiled program but 5" in failure(
        capsys, 1, "run", compiled, "--size", "D=5"
    )
    assert "names no size Q" in failure(capsys, 1, "run", compiled, "--size", "Q=5")
    assert outputs(capsys, compiled, "--size", "D=4", "--size", "N=1")["y"]["shape"] == [1, 4]
    assert "--strict is about program texts" in failure(capsys, 2, "run", compiled, "--strict")


def test_a_failing_step_shows_the_line_of_the_text(
    program: Path, compiled: Path, capsys: Capture
) -> None:
    program.write_text("nothing of it is here any more\n" * 9)
    message = failure(capsys, 1, "run", compiled, "--input", "rows=0,9", "--size", "N=2")
    assert message.splitlines()[0].startswith(f"{program}:6:3: error[OI0601]: node ")
    assert message.splitlines()[1:3] == ["    op gather(W, rows) >> g;", "    ^"]


def test_compare(program: Path, compiled: Path, capsys: Capture) -> None:
    assert main(["compare", str(compiled), "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["agree"]
    assert "saved without the build" in outcome["remark"]
    watched = program.with_name("watched.oip")
    assert main(["compile", str(program), "-o", str(watched), "--observed"]) == 0
    capsys.readouterr()
    assert main(["compare", str(watched), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["remark"] == ""


def test_a_trace_needs_the_traced_build(program: Path, compiled: Path, capsys: Capture) -> None:
    trace = program.with_name("trace.json")
    message = failure(capsys, 1, "run", compiled, "--trace", trace)
    assert "OI0731" in message
    assert "--traced" in message
    traced = program.with_name("traced.oip")
    assert main(["compile", str(program), "-o", str(traced), "--traced"]) == 0
    assert ", traced build" in capsys.readouterr().out
    assert main(["run", str(traced), "--trace", str(trace)]) == 0
    assert "gather" in trace.read_text()


def test_inspect(program: Path, compiled: Path, capsys: Capture) -> None:
    assert main(["inspect", str(compiled)]) == 0
    text = capsys.readouterr().out
    for part in (
        f"{compiled}: {program}, written by openinfer {oi.__version__}",
        "; runs here",
        f"package: {program.with_suffix('.oinf')}\n",
        "sizes: D = 4\nsizes of a step: N\n",
        "constant:\n  W: f32[4, 4] from W\n",
        "results: y, g\n",
        "8 lines of text",
    ):
        assert part in text, part
    assert main(["inspect", str(compiled), "--json", "--plan"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["builds"][0]["obstacle"] is None
    assert facts["package"]["state"] == "found"
    assert facts["plan"]
    assert main(["inspect", str(compiled), "--plan"]) == 0
    assert "lower bound" in capsys.readouterr().out
    assert main(["inspect", str(compiled), "--mermaid"]) == 0
    assert capsys.readouterr().out.startswith("flowchart")
    program.with_suffix(".oinf").unlink()
    assert main(["inspect", str(compiled)]) == 0
    assert "which is not there, or has changed" in capsys.readouterr().out


def test_inspect_checks_embedded_weights(program: Path, capsys: Capture) -> None:
    path = program.with_name("one.oip")
    assert main(["compile", str(program), "-o", str(path), "--embed-weights"]) == 0
    assert main(["inspect", str(path)]) == 0
    assert f"inside, 1 tensors of {program.with_suffix('.oinf')}" in capsys.readouterr().out
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert main(["run", str(path)]) == 0
    capsys.readouterr()
    assert "the weights differs from its checksum" in failure(capsys, 1, "inspect", path)


def test_several_targets(program: Path, capsys: Capture) -> None:
    path = program.with_name("many.oip")
    targets = ["--target", "generic", "--target", "avx2"]
    assert main(["compile", str(program), "-o", str(path), *targets]) == 0
    assert "for generic, avx2" in capsys.readouterr().out
    assert main(["inspect", str(path), "--json"]) == 0
    builds = json.loads(capsys.readouterr().out)["builds"]
    assert sorted(build["target"] for build in builds) == ["avx2", "generic"]
    assert outputs(capsys, path, "--size", "N=2")["g"]["shape"] == [2, 4]


def test_mistakes_of_the_command_line(program: Path, compiled: Path, capsys: Capture) -> None:
    assert "would overwrite" in failure(capsys, 2, "compile", program, "-o", program)
    package = program.with_suffix(".oinf")
    assert "would overwrite" in failure(capsys, 2, "compile", program, "-o", package)
    assert "is compiled already" in failure(capsys, 2, "compile", compiled)
    twice = ("--target", "avx2", "--target", "avx2")
    assert "twice" in failure(capsys, 2, "compile", program, *twice)
    assert "OI0710" in failure(capsys, 1, "compile", program, "--target", "vax")
    absent = program.with_name("absent") / "p.oip"
    assert "OI0801" in failure(capsys, 1, "compile", program, "-o", absent)
    package.unlink()
    assert "there is no package" in failure(capsys, 2, "compile", program, "--embed-weights")
    program.write_text(TEXT.replace("W: f32[D, D]", 'W: f32[D, D] @ref("W")'))
    assert "no model package was given" in failure(capsys, 1, "compile", program)
    message = failure(capsys, 1, "run", compiled)
    assert "OI0804" in message
    assert str(package) in message


def test_mistakes_of_the_file(program: Path, capsys: Capture) -> None:
    path = program.with_name("text.oip")
    path.write_text(TEXT)
    for command in ("run", "inspect", "compare"):
        assert "this is no compiled program" in failure(capsys, 1, command, path)
        absent = failure(capsys, 1, command, path.with_name("absent.oip"))
        assert "OI0801" in absent
        assert "absent.oip" in absent


def test_a_bad_program_is_reported_with_its_place(program: Path, capsys: Capture) -> None:
    program.write_text(TEXT.replace("matmul(x, W)", "matmul(x, V)"))
    assert f"{program}:5:16: error[OI0210]" in failure(capsys, 1, "compile", program)
    assert not program.with_suffix(".oip").exists()


BLOCKED = """\
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "xdsl":
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "xdsl" else found(name, *rest)
from openinfer.compiler.tools.openinfer import main
print([main(line.split()) for line in sys.argv[1:]])
print("xdsl" in sys.modules)
"""


def test_run_and_inspect_without_xdsl(compiled: Path) -> None:
    commands = [f"inspect {compiled}", f"run {compiled} --size N=2", f"compare {compiled}"]
    commands += [f"run {compiled} --input rows=0,9 --size N=2", f"compile {compiled.stem}.oi"]
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, *commands],
        capture_output=True,
        text=True,
        check=False,
        cwd=compiled.parent,
        env={"PATH": "", "OPENINFER_CACHE": "off"},
    )
    assert done.stdout.splitlines()[-2:] == ["[0, 0, 1, 1, 1]", "False"], done.stderr
    assert "need the library `xdsl`, which is not installed" in done.stderr
    assert "    op gather(W, rows) >> g;\n    ^\n" in done.stderr
