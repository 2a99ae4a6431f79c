"""Which room of `lowering/` imports which, and how often.

    python scripts/rooms.py             # one line for each pair of rooms
    python scripts/rooms.py --files     # and the imports behind it

A room is a folder of `lowering/`; its files import only rooms that stand before it in ROOMS. The files
beside the folders are records and drivers that all rooms share: they import no room. `cpu`, `null`,
`vulkan`, `emit` and `reference` import nothing of each other. An import that goes the wrong way ends the
script with 1.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

LOWERING = Path(__file__).resolve().parent.parent / "lowering"
PACKAGE = "openinfer.lowering"
SHARED = "shared"
"""The files beside the folders."""
ROOMS = (
    SHARED,
    "program",
    "graph",
    "nn",
    "kernels",
    "linalg",
    "buffers",
    "host",
    "cpu",
    "null",
    "vulkan",
    "emit",
    "reference",
)
APART = frozenset({"cpu", "emit", "null", "reference", "vulkan"})
"""Rooms that import nothing of each other."""

Edges = dict[tuple[str, str], list[tuple[str, str]]]
"""From the importing room and the imported one to the files: importing and imported, as modules."""


def room_of(module: str) -> str:
    """The room of a module, named from `lowering/` on."""
    first, dot, _ = module.partition(".")
    return first if dot or (LOWERING / first).is_dir() else SHARED


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of `lowering/` with its file."""
    for path in sorted(LOWERING.rglob("*.py")):
        module = ".".join(path.relative_to(LOWERING).with_suffix("").parts)
        yield module.removesuffix(".__init__"), path


def imported(path: Path) -> Iterator[str]:
    """The modules of `lowering/` that a file imports, nested imports too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if not name.startswith(f"{PACKAGE}."):
                continue
            name = name.removeprefix(f"{PACKAGE}.")
            while name and not is_module(name):
                name = name.rpartition(".")[0]
            if name:
                yield name


def is_module(name: str) -> bool:
    """Whether a name is that of a file or a folder of `lowering/`."""
    path = LOWERING.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def edges() -> Edges:
    """All imports between two rooms."""
    found: Edges = defaultdict(list)
    for module, path in modules():
        for name in imported(path):
            pair = room_of(module), room_of(name)
            if pair[0] != pair[1] and (module, name) not in found[pair]:
                found[pair].append((module, name))
    return {pair: files for pair, files in found.items() if files}


def goes_left(pair: tuple[str, str]) -> bool:
    """Whether a room may import another one."""
    importer, other = pair
    return ROOMS.index(other) < ROOMS.index(importer) and not {importer, other} <= APART


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", action="store_true", help="print the imports behind each line")
    chosen = parser.parse_args()
    wrong = 0
    for pair, files in sorted(edges().items(), key=lambda e: [ROOMS.index(r) for r in e[0]]):
        left = goes_left(pair)
        wrong += not left
        print(f"{pair[0]:>9} -> {pair[1]:<9} {len(files):4}{'' if left else '  the wrong way'}")
        if chosen.files or not left:
            for module, name in files:
                print(f"{'':14}{module} -> {name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
