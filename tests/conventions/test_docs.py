"""The documents name what exists: every folder is on the map, every named file is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from source_tree import LAYERS, REPOSITORY, headings

DOCS = REPOSITORY / "docs"
PAGES = [
    *sorted(path.name for path in DOCS.glob("*.md")),
    "../CONTRIBUTING.md",
]
LINKING = [*PAGES, "../README.md", "../examples/README.md"]
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
PATH = re.compile(
    r"`((?:runtime|dialects|lowering|compiler|tests|docs|examples|benchmarks|scripts|openinfer)"
    r"/[A-Za-z0-9_./-]*)`"
)


def folders() -> list[str]:
    """The folders that a reader meets: the four layers, one level down, and the other roots."""
    found: list[str] = []
    for layer in LAYERS:
        found.append(layer)
        for path in sorted((REPOSITORY / layer).iterdir()):
            if path.is_dir() and (path / "__init__.py").exists():
                found.append(f"{layer}/{path.name}")
    found += [
        f"tests/{path.name}"
        for path in sorted((REPOSITORY / "tests").iterdir())
        if path.is_dir() and any(path.glob("*.py"))
    ]
    return [*found, "openinfer", "docs", "examples", "benchmarks", "scripts"]


def test_map_lists_every_folder() -> None:
    text = (DOCS / "map.md").read_text(encoding="utf-8")
    missing = [name for name in folders() if f"`{name}/`" not in text]
    assert not missing, f"docs/map.md does not mention {missing}"


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page: str) -> None:
    text = (DOCS / page).resolve().read_text(encoding="utf-8")
    missing = [
        name
        for name in PATH.findall(text)
        if "NAME" not in name and not (REPOSITORY / Path(name)).exists()
    ]
    assert not missing, f"{page} names {missing}"


@pytest.mark.parametrize("page", LINKING)
def test_links_lead_somewhere(page: str) -> None:
    path = (DOCS / page).resolve()
    broken: list[str] = []
    for target, heading in LINK.findall(path.read_text(encoding="utf-8")):
        to = (path.parent / target).resolve() if target else path
        if not to.exists() or (heading and heading not in headings(to)):
            broken.append(f"{target}#{heading}" if heading else target)
    assert not broken, f"{page} links {broken}"
