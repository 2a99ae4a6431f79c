"""What all commands have in common: programs from standard input, errors as JSON, exit codes."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openinfer.compiler.tools import openinfer as command_line
from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.openinfer_opt import main as opt
from openinfer.compiler.tools.opt_driver import frontend_of
from openinfer.runtime.host import cpu_unavailable_reason

Capture = pytest.CaptureFixture[str]

needs_cpu = pytest.mark.skipif(cpu_unavailable_reason() is not None, reason="needs the cpu device")

GOOD = """\
dynamic { x: f32[2]; }
volatile { y: f32[2]; }
block entry {
  op relu(x) >> y;
  return;
}
"""
BAD = GOOD.replace("relu(x)", "rleu(x)").replace("entry {\n", "entry {\n  op add(x, q) >> y;\n")
STOPS = """\
dynamic { x: f32[4]; i: i64[1]; }
volatile { y: f32[1]; }
block entry {
  op gather(x, i) >> y;
  return;
}
"""


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | bytes], None]:
    """Puts a text on standard input."""

    def give(text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))

    return give


Given = Callable[[str | bytes], None]

READERS = {
    "run": ["run", "-", "--executor", "simulator"],
    "run on cpu": ["run", "-"],
    "compare": ["compare", "-"],
    "trace": ["trace", "-", "--executor", "simulator"],
    "debug": ["debug", "-", "--command", "next"],
    "inspect": ["inspect", "-"],
    "check": ["check", "-"],
    "export": ["export", "-"],
    "compile": ["compile", "-", "-o", "out.oip"],
    "tune": ["tune", "-", "-o", "out.json"],
}
CPU = ("run on cpu", "compare", "compile", "tune")


def readers() -> list[Any]:
    return [
        pytest.param(arguments, id=name, marks=needs_cpu if name in CPU else ())
        for name, arguments in READERS.items()
    ]


def test_every_command_is_looked_at() -> None:
    """A command that is added reads programs as the others do, or none; `fmt` reads words alone, and those
    for language models have a file of the model in front."""
    read = {arguments[0] for arguments in READERS.values()}
    others = {"bench", "cache", "devices", "fmt", "import", "lsp", "pack", "quantize"}
    language = {"chat", "generate", "perplexity", "program", "serve"}
    assert read | others | language == command_line.COMMANDS.keys()


@pytest.mark.parametrize("arguments", readers())
@pytest.mark.parametrize("form", ["text", "json"])
def test_programs_come_from_standard_input(
    arguments: list[str],
    form: str,
    given: Given,
    capsys: Capture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    text = GOOD
    if form == "json":
        import openinfer as oi

        text = oi.graph(GOOD).to_json()
    given(text)
    assert main(arguments) == 0, capsys.readouterr().err
    assert capsys.readouterr().out


@pytest.mark.parametrize("arguments", readers())
def test_mistakes_of_standard_input_name_it(
    arguments: list[str], given: Given, capsys: Capture
) -> None:
    given(BAD)
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "<stdin>:4:13: error[OI0210]: undefined variable `q`\n" in captured.err
    assert "  op add(x, q) >> y;\n              ^\n" in captured.err
    assert "<stdin>:5:6: error[OI0214]: unknown op `rleu`" in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("arguments", readers())
def test_errors_are_json(arguments: list[str], given: Given, capsys: Capture) -> None:
    given(BAD)
    assert main([*arguments, "--json"]) == 1
    captured = capsys.readouterr()
    assert captured.err == ""
    assert json.loads(captured.out) == {
        "diagnostics": [
            {
                "code": "OI0210",
                "severity": "error",
                "message": "undefined variable `q`",
                "file": "<stdin>",
                "line": 4,
                "column": 13,
                "length": 1,
                "notes": [],
                "hint": "declare it, or write `assign q: TYPE;`",
            },
            {
                "code": "OI0214",
                "severity": "error",
                "message": "unknown op `rleu`",
                "file": "<stdin>",
                "line": 5,
                "column": 6,
                "length": 4,
                "notes": [],
                "hint": "did you mean `relu`?",
            },
        ]
    }


@pytest.mark.parametrize("command", command_line.COMMANDS)
def test_a_wrong_command_line_is_an_error_like_others(command: str, capsys: Capture) -> None:
    assert main([command, "--no-such-flag"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error[OI0590]: ")
    assert "Traceback" not in captured.err
    if command != "bench":  # Its --json names a file.
        assert main([command, "--no-such-flag", "--json"]) == 2
        captured = capsys.readouterr()
        assert captured.err == ""
        (found,) = json.loads(captured.out)["diagnostics"]
        assert (found["code"], found["file"], found["line"]) == ("OI0590", None, None)


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (["rum"], 2, "there is no command 'rum'", "did you mean 'run'?"),
        (["run", "x.oi", "--thread", "1"], 1, "x.oi: ", "give the path"),
        (["run", "x.oi", "--stepz", "1"], 2, "--stepz", "did you mean --steps? `openinfer run"),
        (["run", "-", "--size", "B"], 2, "bad size 'B'", "write --size NAME=NUMBER"),
        (["run", "-", "--steps", "0"], 2, "--steps takes a number from 1", None),
        (["inspect", "missing.oinf"], 1, "missing.oinf", ""),
        (["compile", "-"], 2, "no name for its output", "add -o OUT"),
        (["debug", "-"], 2, "commands cannot come from there", "give them by --command"),
    ],
)
def test_each_error_has_its_code_and_its_fix(
    arguments: list[str],
    code: int,
    message: str,
    hint: str | None,
    given: Given,
    capsys: Capture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    given(GOOD)
    assert main([*arguments, "--json"]) == code
    (found,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert message in found["message"]
    assert found["hint"] is None if hint is None else hint in found["hint"]
    given(GOOD)
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error[{found['code']}]: ")
    assert message in captured.err


@pytest.mark.parametrize("executor", ["simulator", pytest.param("cpu", marks=needs_cpu)])
def test_a_failing_step_has_its_place(executor: str, given: Given, capsys: Capture) -> None:
    values = ["--input", "x=1,2,3,4", "--input", "i=[9]", "--executor", executor]
    given(STOPS)
    assert main(["run", "-", "--json", *values]) == 1
    (found,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert found["code"] == "OI0601"
    assert (found["file"], found["line"], found["column"]) == ("<stdin>", 4, 3)
    assert not found["message"].startswith("<stdin>")
    given(STOPS)
    assert main(["run", "-", *values]) == 1
    error = capsys.readouterr().err
    assert error.startswith("<stdin>:4:3: error[OI0601]: ")
    assert "    op gather(x, i) >> y;\n    ^" in error


def test_notes_and_advice_are_in_the_json(given: Given, capsys: Capture) -> None:
    given("constant { w: f32[N]; }\nvolatile { y: f32[N]; }\nblock entry { return; }\n")
    assert main(["run", "-", "--json", "--executor", "simulator"]) == 1
    captured = capsys.readouterr()
    (found,) = json.loads(captured.out)["diagnostics"]
    assert found["code"] == "OI0324"
    assert {"message": "y names it, too", "file": "<stdin>", "line": 2, "column": 12} in found[
        "notes"
    ]
    assert found["notes"][-1] == {
        "message": "no model package was given; --model FILE names one",
        "file": None,
        "line": None,
        "column": None,
    }


def test_problems_of_an_inspected_program_are_there_as_findings(
    tmp_path: Path, capsys: Capture
) -> None:
    import numpy as np

    import openinfer as oi

    oi.write_oinf({"w": np.zeros(3, "f4")}, tmp_path / "m.oinf")
    (tmp_path / "m.oi").write_text("constant { w: f32[2]; } block entry { return; }")
    assert main(["inspect", str(tmp_path / "m.oi"), "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert [found["code"] for found in facts["diagnostics"]] == ["OI0321"]
    assert len(facts["problems"]) == 1
    assert facts["program"].endswith("m.oi")


def test_mistakes_at_the_debugger_are_findings(given: Given, capsys: Capture) -> None:
    given(GOOD)
    assert main(["debug", "-", "--json", "--command", "brake 1"]) == 2
    (line,) = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert line["command"] == "brake 1"
    assert line["diagnostics"][0]["code"] == "OI0590"


def test_a_trace_comes_from_standard_input(tmp_path: Path, given: Given, capsys: Capture) -> None:
    (tmp_path / "p.oi").write_text(GOOD)
    trace = tmp_path / "t.json"
    arguments = ["run", str(tmp_path / "p.oi"), "--executor", "simulator", "--trace", str(trace)]
    assert main(arguments) == 0
    capsys.readouterr()
    given(trace.read_text())
    assert main(["trace", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == "<stdin>"


@pytest.mark.parametrize("data", [b"\xff\xfe", b"OINF\0\0\0\xff"])
def test_standard_input_that_is_no_text(data: bytes, given: Given, capsys: Capture) -> None:
    given(data)
    assert main(["run", "-"]) == 1
    assert capsys.readouterr().err.startswith("error[OI0513]: <stdin> is ")


def test_standard_input_without_an_end_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with open("/dev/zero", encoding="utf-8") as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        assert main(["run", "-"]) == 1
    message = capsys.readouterr().err
    assert message.startswith("error[OI0514]: <stdin>: more than ")


def test_lines_of_standard_input_end_as_those_of_files(given: Given, capsys: Capture) -> None:
    given(BAD.replace("\n", "\r\n"))
    assert main(["export", "-"]) == 1
    assert "<stdin>:4:13: error[OI0210]: undefined variable `q`\n  " in capsys.readouterr().err


# openinfer-opt


@pytest.mark.parametrize("arguments", [["-"], []])
def test_opt_reads_every_form_from_standard_input(
    arguments: list[str], given: Given, capsys: Capture
) -> None:
    import openinfer as oi

    given(GOOD)
    assert opt([*arguments, "--to", "nn"]) == 0
    wanted = capsys.readouterr().out
    assert "nn.elementwise" in wanted
    given(oi.graph(GOOD).to_json())
    assert opt([*arguments, "--to", "nn"]) == 0
    assert "nn.elementwise" in capsys.readouterr().out
    given(wanted)
    assert opt(arguments) == 0
    assert capsys.readouterr().out == wanted
    given(BAD)
    assert opt(arguments) == 1
    error = capsys.readouterr().err
    assert "<stdin>:4:13: error[OI0210]" in error
    assert "    op add(x, q) >> y;" in error


@pytest.mark.parametrize(
    ("text", "frontend"),
    [
        (GOOD, "oi"),
        ("// a comment\n\n  graph! { block entry { return; } }", "oi"),
        ("/* c */ dynamic { }", "oi"),
        ("\ufeffmodel: m, block entry { return; }", "oi"),
        ('  {"nodes": []}', "json"),
        ("{-# dialect_resources: {} #-}", "mlir"),
        ("// RUN: x\nfunc.func @f() { func.return }", "mlir"),
        ("#map = affine_map<(d0) -> (d0)>", "mlir"),
        ('"test.op"() : () -> ()', "mlir"),
        ("builtin.module { }", "mlir"),
        ("graph.program { }", "mlir"),
        ("", "mlir"),
    ],
)
def test_what_standard_input_holds(text: str, frontend: str) -> None:
    assert frontend_of(text.encode()) == frontend


def test_opt_gives_json(tmp_path: Path, given: Given, capsys: Capture) -> None:
    given(BAD)
    assert opt(["-", "--json"]) == 1
    captured = capsys.readouterr()
    assert captured.err == ""
    codes = [found["code"] for found in json.loads(captured.out)["diagnostics"]]
    assert codes == ["OI0210", "OI0214"]
    given(f"{GOOD}// -----\n{BAD}")
    assert opt(["-", "--json", "--split-input-file", "-f", "oi"]) == 1
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    assert [one["line"] for one in found] == [11, 12]
    assert opt(["--no-such-flag", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["diagnostics"][0]["code"] == "OI0590"
    (tmp_path / "x.mlir").write_text('"test.op"(')
    assert opt([str(tmp_path / "x.mlir"), "--json"]) == 1
    (one,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert one["file"].endswith("x.mlir")


# Failures without a message of their own.


def test_an_unexpected_failure_is_json_too(
    monkeypatch: pytest.MonkeyPatch, given: Given, capsys: Capture
) -> None:
    from openinfer.compiler.tools.program_argument import ProgramArgument

    def broken(program: ProgramArgument) -> None:
        raise ValueError("no reason")

    monkeypatch.setattr(ProgramArgument, "graph", broken)
    assert main(["run", "-", "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert (found["code"], found["message"]) == ("OI0591", "ValueError: no reason")
    assert main(["run", "-"]) == 1
    assert "--traceback shows where" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no reason"):
        main(["run", "-", "--traceback"])
