"""`docs/features.md`, made from `docs/features.toml`: `python -m openinfer.compiler.features_page`.

A hundred features of the original OpenInfer and what became of each: provided as it was, provided
differently, or to come. A row links the tests that prove it.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERDICTS: tuple[str, ...] = ("yes", "differently", "later")

_HEAD = """# Features

What the three OpenInfer documents and its code promise, row by row, what openinfer does about it, and
the tests that prove it; where one test stands for both executors it comes first. The page is made from
`docs/features.toml` by `make docs`.

{totals}

- **yes**: provided as described there, in the simulator and in compiled programs.
- **differently**: what it is for is provided, in another way; the row says which.
- **later**: the row says what there is meanwhile, and which place is kept for the rest.
"""


@dataclass(frozen=True)
class Feature:
    """One row of the page."""

    number: int
    feature: str
    verdict: str
    docs: tuple[str, ...]
    """Pages below `docs/`, each perhaps with `#heading`."""
    tests: tuple[str, ...]
    """`FILE::TEST` or a FileCheck file, below `tests/`."""
    note: str = ""
    hook: str = ""


@dataclass(frozen=True)
class Chapter:
    """Rows about one subject."""

    title: str
    features: tuple[Feature, ...]


def read_features(text: str) -> list[Chapter]:
    """The rows of `features.toml`.

    Raises ValueError for a row that lacks something, and TypeError for an unknown key.
    """
    data: dict[str, Any] = tomllib.loads(text)
    chapters = [
        Chapter(chapter["title"], tuple(_feature(row) for row in chapter["feature"]))
        for chapter in data["chapter"]
    ]
    numbers = [feature.number for chapter in chapters for feature in chapter.features]
    if numbers != list(range(1, len(numbers) + 1)):
        raise ValueError("the rows are not numbered 1, 2, 3, …")
    return chapters


def features_page(chapters: Sequence[Chapter]) -> str:
    """The text of the page."""
    counts = dict.fromkeys(VERDICTS, 0)
    for chapter in chapters:
        for feature in chapter.features:
            counts[feature.verdict] += 1
    totals = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return _HEAD.format(totals=f"{sum(counts.values())} rows: {totals}.") + "".join(
        _chapter(chapter) for chapter in chapters
    )


def _feature(row: dict[str, Any]) -> Feature:
    values: dict[str, Any] = {**row, "docs": tuple(row["docs"]), "tests": tuple(row["tests"])}
    feature = Feature(**values)
    what = f"feature {feature.number}"
    if feature.verdict not in VERDICTS:
        raise ValueError(f"{what}: the verdict {feature.verdict!r} is none of {VERDICTS}")
    if not feature.tests or not feature.docs:
        raise ValueError(f"{what} names no test or no page")
    if feature.verdict != "yes" and not feature.note:
        raise ValueError(f"{what} does not say how: `note`")
    if (feature.verdict == "later") != bool(feature.hook):
        raise ValueError(f"{what}: a `hook` belongs to the verdict `later`")
    return feature


def _chapter(chapter: Chapter) -> str:
    head = f"\n## {chapter.title}\n\n| # | feature | | described in | proved by |\n|---|---|---|---|---|\n"
    return head + "".join(_row(feature) for feature in chapter.features)


def _row(feature: Feature) -> str:
    verdict = f"**{feature.verdict}**"
    if feature.note:
        verdict += f": {feature.note}"
    if feature.hook:
        verdict += f". Kept: {feature.hook}"
    docs = ", ".join(f"[{_title(page)}]({page})" for page in feature.docs)
    tests = ", ".join(_test(test) for test in feature.tests)
    cells = [str(feature.number), feature.feature, verdict, docs, tests]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _title(page: str) -> str:
    """`language, yield and await` for `language.md#yield-and-await`."""
    path, _, heading = page.partition("#")
    name = Path(path)
    stem = name.parent.name if name.stem == "README" else name.stem
    return f"{stem}, {heading.replace('-', ' ')}" if heading else stem


def _test(test: str) -> str:
    path, _, name = test.partition("::")
    shown = f"`{Path(path).name}`" if not name else f"`{name}`"
    return f"[{shown}](../tests/{path})"


def main() -> None:
    """Writes the page below the working directory's `docs/`."""
    rows = Path("docs/features.toml").read_text(encoding="utf-8")
    page = Path("docs/features.md")
    page.write_text(features_page(read_features(rows)), encoding="utf-8")
    sys.stderr.write(f"wrote {page}\n")


if __name__ == "__main__":
    main()
