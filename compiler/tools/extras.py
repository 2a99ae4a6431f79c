"""Libraries that only some commands need, and the extra of openinfer that brings each."""

from __future__ import annotations

from openinfer.runtime.errors import UnsupportedError


def missing_library(library: str, extra: str) -> UnsupportedError:
    """The error for a library that is not installed; the fix names the extra to install."""
    return UnsupportedError(
        "OI0734",
        f"the library `{library}` is not installed",
        hint=f"run `pip install 'openinfer[{extra}]'` (in a checkout: `pip install -e '.[{extra}]'`)",
    )
