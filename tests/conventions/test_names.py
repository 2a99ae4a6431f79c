"""A pass, its file, its class and its FileCheck file share one name, and its docstring shows it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from source_tree import LAYERS, REPOSITORY, parsed, shown, sources

from openinfer.compiler import passes, pipeline, registry

OURS = {name: entry for name, entry in registry.PASSES.items() if entry.startswith("openinfer.")}


def source_of(entry: str) -> Path:
    module = entry.partition(":")[0].removeprefix("openinfer.")
    return REPOSITORY / f"{module.replace('.', '/')}.py"


def class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


@pytest.mark.parametrize("name", OURS)
def test_pass_file_and_class(name: str) -> None:
    entry = OURS[name]
    assert source_of(entry).stem == name.replace("-", "_")
    assert entry.partition(":")[2] == class_name(name)
    assert registry.load(entry).name == name


@pytest.mark.parametrize("name", OURS)
def test_pass_docstring(name: str) -> None:
    """One sentence, Before/After as IR, what it requires and what it leaves."""
    text = registry.load(OURS[name]).__doc__ or ""
    for part in ("Before:", "After:", "Requires:", "Leaves:"):
        assert part in text, f"the docstring of {name} has no '{part}'"
    first = text.strip().partition("\n")[0]
    assert first, f"the docstring of {name} does not begin with its sentence"
    assert text.index("Before:") < text.index("After:") < text.index("Requires:")


@pytest.mark.parametrize("name", OURS)
def test_pass_filecheck(name: str) -> None:
    files = list((REPOSITORY / "tests/filecheck/lowering").rglob(f"{name}.mlir"))
    assert len(files) == 1, f"{name} needs one tests/filecheck/lowering/**/{name}.mlir"
    run = [line for line in files[0].read_text().splitlines() if "RUN:" in line]
    # A pass that needs a package runs as its phase, which takes --model.
    phases = {s.name: p.name for p in pipeline.PIPELINES["cpu"] for s in p.steps}
    wanted = rf"\b{name}\b|--to {phases.get(name, name)}\b.*--model"
    assert any(re.search(wanted, line) for line in run), f"{files[0]} does not run {name}"


def test_filecheck_files_have_a_pass() -> None:
    """No test of a pass that was renamed or removed.

    `NAME-something.mlir` is a further file, and so are those of a folder `NAME`.
    """
    stray = [
        shown(path)
        for path in (REPOSITORY / "tests/filecheck/lowering").rglob("*.mlir")
        if path.parent.name not in registry.PASSES
        and not any(path.stem == n or path.stem.startswith(f"{n}-") for n in registry.PASSES)
    ]
    assert not stray


def test_every_pass_is_registered() -> None:
    """A `ModulePass` with a name that the registry does not know cannot be run by anyone."""
    found: list[str] = []
    for layer in LAYERS:
        for path in sources(layer):
            for node in parsed(path).body:
                if isinstance(node, ast.ClassDef) and _is_pass(node):
                    module = shown(path).removesuffix(".py").replace("/", ".")
                    entry = f"openinfer.{module}:{node.name}"
                    if entry not in registry.PASSES.values():
                        found.append(f"{shown(path)}:{node.lineno} {node.name}")
    assert not found, "not in compiler/registry.py: " + ", ".join(found)


def _is_pass(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "ModulePass" for base in node.bases)


@pytest.mark.parametrize("name", registry.PASSES)
def test_pass_loads(name: str) -> None:
    assert registry.load(registry.PASSES[name]).name == name


@pytest.mark.parametrize("name", registry.DIALECTS)
def test_dialect_loads(name: str) -> None:
    assert registry.load(registry.DIALECTS[name]).name == name


def test_dialects_agree_with_the_extensions() -> None:
    from openinfer.dialects.extensions import get_all_dialects

    for name, factory in get_all_dialects().items():
        assert registry.load(registry.DIALECTS[name]) is factory()


@pytest.mark.parametrize("name", pipeline.PIPELINES)
def test_pipelines_are_made_of_known_passes(name: str) -> None:
    for phase in pipeline.PIPELINES[name]:
        for step in phase.steps:
            assert passes.build_passes(step.spec)
            assert step.reason, f"{phase.name}: {step.spec} has no reason"


@pytest.mark.parametrize("name", pipeline.PIPELINES)
def test_phases_say_what_they_leave(name: str) -> None:
    assert all(phase.leaves for phase in pipeline.PIPELINES[name])
