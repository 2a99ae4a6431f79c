"""Rendering of diagnostics, and the table of all codes of the project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from openinfer.compiler.diagnostic_codes import CODES
from openinfer.compiler.diagnostics import codes_page, explain, render, summary
from openinfer.compiler.frontend import parse_text
from openinfer.compiler.frontend.codes import CODES as FRONTEND
from openinfer.compiler.tools.codes import CODES as TOOLS
from openinfer.lowering.program.codes import CODES as PROGRAM
from openinfer.lowering.reference.codes import CODES as REFERENCE
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import Diagnostic, Location, Note

TEXT = "volatile {\n\ty: f23;\n\ty: f32;\n}\nblock entry { return; }\n"


def test_caret_note_and_fix() -> None:
    assert parse_text(TEXT, "p.oi").render() == (
        "p.oi:2:5: error[OI0301]: unknown dtype `f23`\n"
        "  \ty: f23;\n"
        "  \t   ^~~\n"
        "  fix: did you mean `f32`?\n"
        "p.oi:3:2: error[OI0201]: variable `y` is declared twice\n"
        "  \ty: f32;\n"
        "  \t^\n"
        "p.oi:2:2: note: first declared here, as volatile variable\n"
        "  \ty: f23;\n"
        "  \t^\n"
        "  fix: remove or rename one of them"
    )


def test_source_is_read_from_disk_when_it_is_not_given(tmp_path: Path) -> None:
    path = tmp_path / "a.oi"
    path.write_text("one\r\ntwo\r\n", encoding="utf-8")
    found = Diagnostic("OI0110", "wrong", Location(str(path), 2, 1), 3)
    assert render([found]) == f"{path}:2:1: error[OI0110]: wrong\n  two\n  ^~~"
    gone = Diagnostic("OI0110", "wrong", Location(str(tmp_path / "b.oi"), 2, 1))
    assert render([gone]).count("\n") == 0


def test_places_outside_of_the_text_show_no_excerpt() -> None:
    at = [Location("p.oi", line, column) for line, column in ((9, 1), (1, 0), (0, 0))]
    for place in at:
        assert "\n" not in render([Diagnostic("OI0110", "wrong", place)], {"p.oi": "x"})
    past = Diagnostic("OI0110", "wrong", Location("p.oi", 1, 90), 50)
    assert render([past], {"p.oi": "x"}).endswith("\n  x\n   ^")
    assert render([Diagnostic("OI0110", "wrong")]) == "error[OI0110]: wrong"


def test_long_lines_and_control_characters() -> None:
    line = "a" * 500 + "\x1b[31mBAD" + "b" * 500
    shown = render([Diagnostic("OI0110", "wrong", Location("p", 1, 506), 3)], {"p": line})
    assert "\x1b" not in shown
    excerpt, caret = shown.split("\n")[1:]
    assert len(excerpt) < 170
    assert excerpt[caret.index("^") :].startswith("BAD")


def test_notes_without_a_place() -> None:
    found = Diagnostic("OI0110", "wrong", None, notes=(Note("because"),), hint="mend it")
    assert render([found]) == "error[OI0110]: wrong\nnote: because\n  fix: mend it"


def test_summary() -> None:
    error = Diagnostic("OI0110", "wrong")
    warning = Diagnostic("OI0130", "odd", severity="warning")
    assert summary([error, error, warning]) == "2 errors, 1 warning"
    assert summary([]) == "0 errors"


def test_warnings_do_not_stop_a_program() -> None:
    text = "constants { c: f32; } block entry { return; } block spare { return; }"
    result = parse_text(text)
    assert result.module is not None
    assert [d.severity for d in result.diagnostics] == ["warning", "warning"]


def test_strict_turns_unknown_names_into_errors() -> None:
    text = "volatile { y: f32 @odd; } block entry with { odd = 1 } { return; }"
    assert parse_text(text).module is not None
    strict = parse_text(text, strict=True)
    assert strict.module is None
    assert [d.code for d in strict.errors] == ["OI0250", "OI0251"]


def test_explain() -> None:
    text = explain("OI0210")
    assert text is not None
    assert text.startswith("OI0210: undefined variable")
    assert explain("OI9999") is None


def test_page_is_current(repository: Path) -> None:
    page = repository / "docs" / "diagnostics.md"
    assert page.read_text(encoding="utf-8") == codes_page(), (
        "run `python -m openinfer.compiler.diagnostics`"
    )


def test_no_code_stands_in_two_tables() -> None:
    parts = [set(FRONTEND), set(PROGRAM), set(TOOLS), set(REFERENCE)]
    assert not (parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2])


def test_every_code_in_the_sources_is_in_the_table(repository: Path) -> None:
    used: dict[str, str] = {}
    for folder in ("compiler", "dialects", "lowering", "runtime"):
        for path in sorted((repository / folder).rglob("*.py")):
            for code in re.findall(r'"(OI\d{4})"', path.read_text(encoding="utf-8")):
                used.setdefault(code, str(path.relative_to(repository)))
    missing = {code: where for code, where in used.items() if code not in CODES}
    assert not missing, "add a row to compiler/diagnostic_codes.py, and run its page anew"


def test_language_page(repository: Path) -> None:
    """It names all dtypes; its programs have tests of their own."""
    page = (repository / "docs" / "language.md").read_text(encoding="utf-8")
    assert all(f"`{name}" in page or f" {name}" in page for name in DTYPES)


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("op relu(x) >> y with { fuse = true } y;", "OI0111"),
        ("op relu(x >> y;", "OI0110"),
        ("op relu(x) y;", "OI0110"),
        ("loop k i in 0..2) { op relu(x) >> y; }", "OI0110"),
        ("loop k (i in 0..2) op relu(x) >> y; }", "OI0116"),
        ("assign : f32;", "OI0110"),
        ("assign t: f32 = 0.0;", "OI0110"),
        ("op fill(y, value=) >> y;", "OI0122"),
        ("op fill(y, value=[1, ;", "OI0122"),
        ("transfer x y;", "OI0110"),
        ("dep after(relu) befor(relu);", "OI0110"),
        ("scope attention { barrier; }", "OI0110"),
        ("cache.read >> y;", "OI0110"),
        ("barrier;;", "OI0113"),
        ("branch;", "OI0110"),
        ("42;", "OI0113"),
    ],
)
def test_one_syntax_error_gives_one_diagnostic(statement: str, code: str) -> None:
    text = (
        "dynamic { x: f32[B]; } volatile { y: f32[B]; }\n"
        f"block entry {{\n{statement}\nop relu(x) >> y;\nreturn;\n}}\n"
    )
    result = parse_text(text)
    assert [d.code for d in result.diagnostics] == [code], result.render()
