"""`docs/features.md` is current, and what its rows name is there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from source_tree import REPOSITORY, headings

from openinfer.compiler.features_page import Feature, features_page, read_features

DOCS = REPOSITORY / "docs"
LATER = (6, 7, 87, 88, *range(90, 93))
"""What belongs to analyzer, synthesizer and descriptions of devices, and layouts or state in the package."""
CHAPTERS = read_features((DOCS / "features.toml").read_text(encoding="utf-8"))
FEATURES = [feature for chapter in CHAPTERS for feature in chapter.features]


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = [*tree.body, *(n for c in tree.body if isinstance(c, ast.ClassDef) for n in c.body)]
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))


def test_page_is_current() -> None:
    page = (DOCS / "features.md").read_text(encoding="utf-8")
    assert page == features_page(CHAPTERS), "run `make docs`"


def test_rows_are_a_hundred() -> None:
    assert [feature.number for feature in FEATURES] == list(range(1, 101))
    assert tuple(f.number for f in FEATURES if f.verdict == "later") == LATER


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: f"row-{feature.number}")
def test_tests_and_pages_are_there(feature: Feature) -> None:
    for test in feature.tests:
        path, _, name = test.partition("::")
        assert (REPOSITORY / "tests" / path).is_file(), f"{test}: no such file"
        if path.endswith(".py"):
            assert name.startswith("test_"), f"{test} names no test"
            assert name in functions_of(REPOSITORY / "tests" / path), f"{test}: no such test"
        else:
            assert not name, f"{test}: a FileCheck file has no tests of its own"
    for page in feature.docs:
        path, _, heading = page.partition("#")
        assert (DOCS / path).is_file(), f"{page}: no such page"
        if heading:
            assert heading in headings(DOCS / path), f"{page}: no such heading"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("number = 2", "number = 3"),
        ('verdict = "yes"', 'verdict = "maybe"'),
        ('verdict = "yes"', 'verdict = "differently"'),
        ('verdict = "yes"', 'verdict = "later"\nnote = "soon"'),
        ('tests = ["t"]', "tests = []"),
        ('docs = ["d"]', 'docs = ["d"]\nhook = "h"'),
    ],
)
def test_incomplete_rows_are_refused(old: str, new: str) -> None:
    row = '[[chapter.feature]]\nnumber = {}\nfeature = "f"\nverdict = "yes"\ndocs = ["d"]\ntests = ["t"]\n'
    text = '[[chapter]]\ntitle = "c"\n' + row.format(1) + row.format(2)
    assert len(read_features(text)[0].features) == 2
    with pytest.raises(ValueError, match=r"feature|rows"):
        read_features(text.replace(old, new, 1))
