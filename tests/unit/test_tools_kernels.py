"""From a node to its machine code: `inspect --kernels`, places in kernel dumps, `openinfer-opt -t asm`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.openinfer_opt import main as opt
from openinfer.runtime.host import cpu_unavailable_reason

Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.skipif(cpu_unavailable_reason() is not None, reason="no cpu device here")

PROGRAM = """\
dynamic { x: f32[B, 32]; }
volatile { W: f32[32, 32] @init(0.5); y: f32[32, B]; z: f32[B, 32]; }
block entry {
  assign h: f32[B, 32];
  op matmul(x, W) >> h;
  op relu(h) >> h;
  op softmax(h) >> z;
  op softmax(z) >> z;
  op transpose(z, perm=[1, 0]) >> y;
  return y;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "p.oi"
    path.write_text(PROGRAM)
    return path


def test_kernels_name_their_nodes(program: Path, capsys: Capture) -> None:
    assert main(["inspect", str(program), "--kernels", "--json"]) == 0
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    rows = {
        call["kernel"]: [node["place"].rpartition(":")[2] for node in call["nodes"]]
        for call in kernels["calls"]
    }
    assert rows["matmul_0"] == ["5", "6"]
    softmax = [call["nodes"] for call in kernels["calls"] if call["kernel"] == "softmax_0"]
    assert [node["text"] for nodes in softmax for node in nodes] == [
        "op softmax(h) >> z",
        "op softmax(z) >> z",
    ]
    listed = [node["uuid"] for call in kernels["calls"] for node in call["nodes"]]
    assert all(node["uuid"] not in listed for node in kernels["without"])


def test_kernels_as_text_also_of_a_saved_program(
    program: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["inspect", str(program), "--kernels"]) == 0
    text = capsys.readouterr().out
    table = text[text.index("kernels:") :]
    assert re.search(r"^  matmul_0 +\S+p\.oi:5  op matmul\(x, W\) >> h$", table, re.M)
    assert re.search(r"^ {12,}\S+p\.oi:6  op relu\(h\) >> h$", table, re.M)

    plain, traced = tmp_path / "plain.oip", tmp_path / "traced.oip"
    assert main(["compile", str(program), "-o", str(plain)]) == 0
    assert main(["compile", str(program), "--traced", "-o", str(traced)]) == 0
    capsys.readouterr()
    assert main(["inspect", str(traced), "--kernels"]) == 0
    assert capsys.readouterr().out.endswith(table)
    assert main(["inspect", str(plain), "--kernels"]) == 1
    assert "error[OI0731]" in capsys.readouterr().err


def test_kernels_are_those_of_a_program(tmp_path: Path, capsys: Capture) -> None:
    package = tmp_path / "p.oinf"
    package.write_bytes(b"")
    assert main(["inspect", str(package), "--kernels"]) == 2
    assert "are about programs" in capsys.readouterr().err


def test_a_kernel_dump_says_what_calls_it(program: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "D"
    assert opt([str(program), "--pipeline", "cpu", "--dump-dir", str(folder)]) == 0
    capsys.readouterr()
    for phase in ("03-buffers", "04-kernels", "05-threads", "06-llvm"):
        lines = (folder / phase / "softmax_0.mlir").read_text().splitlines()
        places = [line for line in lines if line.startswith("// called for ")]
        assert [line.rpartition("p.oi:")[2] for line in places] == ["7:3", "8:3"]
        # It is still IR.
        assert opt([str(folder / phase / "softmax_0.mlir")]) in (0, 1)
        assert "OI0961" not in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "register"), [("avx512", "zmm"), ("avx2", "ymm")])
def test_assembly(program: Path, capsys: Capture, kind: str, register: str) -> None:
    assert opt([str(program), "--pipeline", "cpu", "--target-cpu", kind, "-t", "asm"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^openinfer_step:", text, re.M)
    assert re.search(rf"vfmadd\w+ps.*%{register}\d", text)
    assert ("zmm" in text) == (kind == "avx512")


def test_assembly_of_another_level(program: Path, capsys: Capture) -> None:
    assert opt([str(program), "-t", "asm"]) == 1
    error = capsys.readouterr().err
    assert "error[OI0981]" in error
    assert "--pipeline cpu" in error
