"""Versions: of openinfer, and of the packages whose version a compiled artefact depends on."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

DEPENDENCIES = ("xdsl", "llvmlite", "numpy")
LAYERS = ("compiler", "dialects", "lowering", "runtime")
SOURCES = (".py", ".mlir", ".ll")


@cache
def package_version(name: str) -> str:
    """The installed version of a Python package, or "none" when it is not installed."""
    found = _noted_version(name)
    if found is None:
        # It imports a reader of mail and of archives: a twentieth of a second start.
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version(name)
        except PackageNotFoundError:
            found = "none"
    return found


def _noted_version(name: str) -> str | None:
    """The version in the name of the folder that an installer has left; None without one."""
    begin, end = f"{name}-", ".dist-info"
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for found in names:
            if found.startswith(begin) and found.endswith(end):
                return found[len(begin) : -len(end)]
    return None


def openinfer_version() -> str:
    """The version of openinfer itself."""
    from openinfer import __version__

    return __version__


@cache
def source_fingerprint() -> str:
    """A text that changes when any source file of openinfer does: names, sizes, times of change.

    A cached program must not outlive an edit of the compiler that made it. About 2 ms.
    """
    layers = (find_spec(f"openinfer.{layer}") for layer in LAYERS)
    roots = [root for spec in layers if spec for root in spec.submodule_search_locations or ()]
    return fingerprint(roots)


def fingerprint(roots: Iterable[str | Path]) -> str:
    """The same of all sources in these folders: Python, and the IR that is part of every program."""
    digest = hashlib.sha256()
    for root in roots:
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(files):
                if name.endswith(SOURCES):
                    status = os.stat(os.path.join(folder, name))
                    digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def version_line(tool: str) -> str:
    """What `--version` prints: the tool and the versions that decide what it produces."""
    others = ", ".join(f"{name} {package_version(name)}" for name in DEPENDENCIES)
    return f"{tool} {openinfer_version()} ({others})"
