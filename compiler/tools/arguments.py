"""Arguments that several tools share: packages beside programs, `--size B=4`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from openinfer.compiler.tools.report import UsageError

PACKAGE_SUFFIXES = (".oinf", ".safetensors")


def package_beside(program: str | Path) -> Path | None:
    """The package that stands beside a program under its name, None when there is none."""
    for suffix in PACKAGE_SUFFIXES:
        candidate = Path(program).with_suffix(suffix)
        if candidate.is_file():
            return candidate
    return None


def is_compiled(path: str | Path) -> bool:
    """Whether a file is a compiled program, by its first bytes or else by its name."""
    from openinfer.runtime.program_file import SUFFIX, is_program

    place = Path(path)
    if place.suffix == SUFFIX:
        return True
    try:
        if not place.is_file():
            return False
        with open(place, "rb") as file:
            return is_program(file.read(8))
    except (OSError, ValueError):
        return False


def parse_sizes(texts: Sequence[str]) -> dict[str, int]:
    """`["B=4", "T=16"]` as a dict. Raises UsageError."""
    sizes: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            number = int(value)
        except ValueError:
            number = -1
        if not equals or not name.strip() or number < 0:
            raise UsageError(f"bad size '{text}'", "write --size NAME=NUMBER, as in --size B=4")
        sizes[name.strip()] = number
    return sizes
