"""Versions: of openinfer, and of the packages whose version a compiled artefact depends on."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

DEPENDENCIES = ("xdsl", "llvmlite", "numpy")


def package_version(name: str) -> str:
    """The installed version of a Python package, or "none" when it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def openinfer_version() -> str:
    """The version of openinfer itself."""
    from openinfer import __version__

    return __version__


def version_line(tool: str) -> str:
    """What `--version` prints: the tool and the versions that decide what it produces."""
    others = ", ".join(f"{name} {package_version(name)}" for name in DEPENDENCIES)
    return f"{tool} {openinfer_version()} ({others})"
