"""`openinfer fmt` and `openinfer check`: the layout of programs, and what is wrong with them."""

from __future__ import annotations

import io
import json
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.frontend import parse_text, print_program
from openinfer.compiler.frontend.layout import formatted
from openinfer.compiler.frontend.lexer import tokenize
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Source
from openinfer.compiler.tools.openinfer import main

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted(
    path for place in ("examples", "tests", "benchmarks") for path in (ROOT / place).rglob("*.oi")
)

MESSY = """// head
dynamic{x:f32[B,  2*D];  // an input


  y : f32 @init( -1.0 )@ref("a  //b");
 // own
 }
// about the block
/* several
     lines */
block entry with{a=true,b = -2}{ // why
op add(x, // mid
 y, alpha=-1.0 /* in */) >> z with{fuse=false};
 z = op relu( a = x );

 loop layers(l in 0..L-1){ cache.read K[l,-1 .. ] >>t;/*x*/ cache.increment 5 n; }
 // last

}
block b{return;}  // end
// eof"""

NEAT = """\
// head
dynamic {
    x: f32[B, 2*D];  // an input

    y: f32 @init(-1.0) @ref("a  //b");
    // own
}

// about the block
/* several
     lines */
block entry with { a = true, b = -2 } {  // why
    // mid
    op add(x, y, alpha=-1.0 /* in */) >> z with { fuse = false };
    z = op relu(a=x);

    loop layers (l in 0..L - 1) {
        cache.read K[l, -1..] >> t;  /*x*/
        cache.increment 5 n;
    }
    // last
}

block b {
    return;
}  // end

// eof
"""


def words(text: str) -> list[tuple[str, str]]:
    source = Source(text)
    return [(token.kind, token.text) for token in tokenize(source, Report(source=source))]


def test_comments_below_each_other_stay_there() -> None:
    text = """\
dynamic { x: f32[B];       // one
  longer: f32[B, D];  // three
          y: f32;     // four
          z: f32;     // five
}
block entry { return; }  // end
"""
    neat = formatted(text, "p.oi")
    assert neat.splitlines()[1:6] == [
        "    x: f32[B];  // one",
        "    longer: f32[B, D];  // three",
        "    y: f32;             // four",
        "    z: f32;             // five",
        "}",
    ]
    assert formatted(neat, "p.oi") == neat


def test_layout() -> None:
    assert formatted(MESSY, "x.oi") == NEAT
    assert formatted(NEAT, "x.oi") == NEAT
    assert formatted("", "x.oi") == ""
    assert formatted("\ufeff// only\n\n", "x.oi") == "// only\n"


def test_the_program_of_the_readme_is_laid_out() -> None:
    (text,) = re.findall(r"```text\n(dynamic .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert formatted(text, "layer.oi") == text


def test_first_edition() -> None:
    text = """let g=graph!{model:net,inputs{x:f32[4];}
    block entry{y=op mul(a=x,b=net[fmt("W.{l}")]);return y;}};"""
    assert (
        formatted(text, "x.oi")
        == """\
let g = graph! {
    model: net,
    inputs {
        x: f32[4];
    }
    block entry {
        y = op mul(a=x, b=net[fmt("W.{l}")]);
        return y;
    }
};
"""
    )


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_programs_keep_their_words_and_comments(path: Path) -> None:
    text = path.read_text()
    try:
        made = formatted(text, path.name)
    except oi.ProgramError:
        pytest.skip("a text with mistakes")
    assert words(made) == words(text)
    assert formatted(made, path.name) == made
    assert made.count("//") == text.count("//")
    result = parse_text(text)
    if result.module is not None:
        printed = print_program(result.module)
        assert formatted(printed, path.name) == printed


def test_examples_are_in_canonical_layout() -> None:
    """What a newcomer copies is what `openinfer fmt` would write."""
    examples = sorted((ROOT / "examples").rglob("*.oi"))
    assert examples
    for path in examples:
        text = path.read_text(encoding="utf-8")
        assert formatted(text, path.name) == text, path.name


@pytest.mark.parametrize("seed", range(30))
def test_white_space_does_not_matter(seed: int) -> None:
    """Whatever white space and comments stand between the words, the words stay and so does the layout."""
    draw = random.Random(seed)
    source = (ROOT / "examples" / "decoder.oi").read_text()
    gaps = [" ", "\n", "  \n\n\n", "\t", " /* a */", " // b\n", " /* c\n /* d */ */ "]
    mixed, before = "", ""
    for _, word in words(source)[:-1]:
        # The results of a return stand on its line.
        mixed += f"{' ' if before == 'return' else draw.choice(gaps)}{word}"
        before = word
    made = formatted(mixed, "x.oi")
    assert words(made) == words(source)
    assert formatted(made, "x.oi") == made
    for comment in ("/* a */", "// b", "/* c\n /* d */ */"):
        assert made.count(comment) == mixed.count(comment)


def test_fmt_rewrites_files(tmp_path: Path, capsys: Capture) -> None:
    messy, neat = tmp_path / "messy.oi", tmp_path / "neat.oi"
    messy.write_text(MESSY)
    neat.write_text(NEAT)
    files = [str(messy), str(neat)]
    assert main(["fmt", "--check", *files]) == 1
    assert capsys.readouterr().out == f"{messy} is not in its canonical layout\n"
    assert messy.read_text() == MESSY
    assert main(["fmt", *files]) == 0
    assert capsys.readouterr().out == f"{messy} rewritten\n"
    assert messy.read_text() == NEAT
    assert main(["fmt", "--check", *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"changed": [], "programs": files}


def test_fmt_leaves_files_alone_where_one_is_wrong(tmp_path: Path, capsys: Capture) -> None:
    messy, wrong = tmp_path / "messy.oi", tmp_path / "wrong.oi"
    messy.write_text(MESSY)
    wrong.write_text("block entry { op relu(x >> y; }")
    assert main(["fmt", str(messy), str(wrong)]) == 1
    assert f"{wrong}:1:25: error[OI01" in capsys.readouterr().err
    assert messy.read_text() == MESSY
    assert main(["fmt", str(tmp_path / "absent.oi")]) == 1
    assert "OI0557" in capsys.readouterr().err
    assert main(["fmt", str(messy), "-"]) == 2
    assert main(["fmt", "x.json"]) == 2


def stdin(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_fmt_of_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    stdin(monkeypatch, MESSY)
    assert main(["fmt", "-"]) == 0
    assert capsys.readouterr().out == NEAT
    stdin(monkeypatch, MESSY)
    assert main(["fmt", "-", "--check"]) == 1
    stdin(monkeypatch, MESSY)
    assert main(["fmt", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["text"] == NEAT


GOOD = """
dynamic { x: f32[B, K]; }
constant { W: f32[K, N]; }
volatile { y: f32[B, N]; }
block entry { op matmul(x, W) >> y with { strange = 1 }; return y; }
"""


def test_check(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "p.oi"
    path.write_text(GOOD)
    assert main(["check", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{path}: fine, the text alone\n"
    assert "OI0251" in captured.err
    oi.write_oinf({"W": np.ones((4, 2), np.float32)}, tmp_path / "p.oinf")
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: fine with {tmp_path / 'p.oinf'}\n"
    assert main(["check", str(path), "--size", "K=5"]) == 1
    assert "OI0321" in capsys.readouterr().err
    assert main(["check", str(path), "--strict"]) == 1
    oi.write_oinf({"W": np.ones(4, np.float32)}, tmp_path / "other.oinf")
    assert main(["check", str(path), "--model", str(tmp_path / "other.oinf")]) == 1
    assert "OI0321" in capsys.readouterr().err
    oi.write_oinf({"V": np.ones(4, np.float32), "K": 4, "N": 2}, tmp_path / "other.oinf")
    assert main(["check", str(path), "--model", str(tmp_path / "other.oinf")]) == 0
    assert "OI0330" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.oip"))


def test_check_of_several_as_json(tmp_path: Path, capsys: Capture) -> None:
    good, bad = tmp_path / "good.oi", tmp_path / "bad.oi"
    good.write_text(GOOD)
    bad.write_text(GOOD.replace("matmul", "matmull").replace("W: f32", "W: f33"))
    assert main(["check", str(good), str(bad), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    assert [
        (row["code"], row["severity"], Path(row["file"]).name, row["line"]) for row in found
    ] == [
        ("OI0251", "warning", "good.oi", 5),
        ("OI0301", "error", "bad.oi", 3),
        ("OI0214", "error", "bad.oi", 5),
        ("OI0251", "warning", "bad.oi", 5),
    ]
    assert main(["check", str(tmp_path / "x.oip")]) == 2
    assert main(["check", str(tmp_path / "x.oi")]) == 1


def test_check_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("openinfer.compiler.compile.compile_module", refuse)
    (tmp_path / "p.oi").write_text(GOOD)
    oi.write_oinf({"W": np.ones((4, 2), np.float32)}, tmp_path / "p.oinf")
    assert main(["check", str(tmp_path / "p.oi")]) == 0
