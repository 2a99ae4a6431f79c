"""The Python files of the four layers, read once for all convention tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
LAYERS = ("runtime", "dialects", "lowering", "compiler")


@cache
def sources(layer: str) -> tuple[Path, ...]:
    """All Python files of a layer, sorted."""
    return tuple(sorted((REPOSITORY / layer).rglob("*.py")))


def all_sources() -> Iterator[Path]:
    """All Python files of all layers."""
    for layer in LAYERS:
        yield from sources(layer)


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def shown(path: Path) -> str:
    """The path as a message shows it."""
    return path.relative_to(REPOSITORY).as_posix()


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full module name of every import in a file, nested ones too."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


@cache
def headings(page: Path) -> frozenset[str]:
    """The anchors that GitHub makes of the headings of a Markdown page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found = re.findall(r"^#+ (.+)$", text, re.M)
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found)
