"""Rules that a linter cannot say: file sizes, the environment, diagnostics codes, leftovers."""

from __future__ import annotations

import ast
import re

import pytest
from source_tree import REPOSITORY, all_sources, imports, parsed, shown

from openinfer.compiler.diagnostic_codes import CODES

LIMIT = 800
CODE = re.compile(r"OI[01]\d{3}")


def test_files_are_short() -> None:
    folders = ("runtime", "dialects", "lowering", "compiler", "tests", "examples", "benchmarks")
    long = [
        f"{shown(path)}: {count} lines"
        for folder in folders
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > LIMIT
    ]
    assert not long, "\n".join(long)


def test_environment_is_read_in_one_place() -> None:
    wrong: list[str] = []
    for path in all_sources():
        if shown(path) == "runtime/options.py":
            continue
        for node in ast.walk(parsed(path)):
            name = node.attr if isinstance(node, ast.Attribute) else None
            if name in ("environ", "getenv"):
                assert isinstance(node, ast.Attribute)
                wrong.append(f"{shown(path)}:{node.lineno}")
    assert not wrong, "only runtime/options.py reads the environment: " + ", ".join(wrong)


def test_options_are_documented() -> None:
    text = (REPOSITORY / "runtime/options.py").read_text(encoding="utf-8")
    documented = set(re.findall(r"OPENINFER_[A-Z_]+", text.split('"""')[1]))
    assert set(re.findall(r"OPENINFER_[A-Z_]+", text)) == documented


def test_options_end_where_a_program_is_bound() -> None:
    """Later passes read the facts of the module: a dump is the whole program."""
    binding = "lowering/graph/bind_model.py"
    wrong = [
        f"{shown(path)}:{line}"
        for path in all_sources()
        for line, module in imports(path)
        if module.startswith("openinfer.lowering.options")
        and shown(path).startswith("lowering/")
        and shown(path) != binding
    ]
    assert not wrong, f"only {binding} asks for options, others Facts.of: " + ", ".join(wrong)


def used_codes() -> dict[str, str]:
    """Every code that a string of the source names, with one place."""
    found: dict[str, str] = {}
    for path in all_sources():
        if path.stem == "diagnostic_codes":
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if CODE.fullmatch(node.value):
                    found.setdefault(node.value, f"{shown(path)}:{node.lineno}")
    return found


def test_codes_are_explained() -> None:
    missing = {code: place for code, place in used_codes().items() if code not in CODES}
    assert not missing, "\n".join(f"{code} ({place})" for code, place in sorted(missing.items()))


def test_explained_codes_are_used() -> None:
    unused = sorted(CODES.keys() - used_codes().keys())
    assert not unused, f"in compiler/diagnostic_codes.py, but nowhere raised: {unused}"


def test_diagnostics_page_is_current() -> None:
    from openinfer.compiler.diagnostics import codes_page

    page = REPOSITORY / "docs" / "diagnostics.md"
    assert page.read_text(encoding="utf-8") == codes_page(), "run `make docs`"


@pytest.mark.parametrize("word", ["TODO", "FIXME", "XXX"])
def test_no_leftovers(word: str) -> None:
    pattern = re.compile(rf"\b{word}\b")
    wrong = [
        f"{shown(path)}:{number}"
        for path in all_sources()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not wrong


def test_one_file_says_what_an_argument_of_a_step_is() -> None:
    """Others ask for a `Slot`: its form in the IR is the matter of `dialects/nn/slots.py`."""
    wrong = [
        f"{shown(path)}:{node.lineno}"
        for path in all_sources()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and node.value == "openinfer.arg"
        if shown(path) != "dialects/nn/slots.py"
    ]
    assert not wrong, "only dialects/nn/slots.py reads and writes openinfer.arg: " + ", ".join(
        wrong
    )
