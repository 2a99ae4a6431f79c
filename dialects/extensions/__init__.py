"""The xDSL dialects that openinfer uses, with our extensions in place of the originals.

`get_all_dialects` is what a driver registers. Each entry imports its dialect on first use only.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from xdsl.ir import Dialect

from openinfer.dialects.table import DIALECTS


def _loader(place: str) -> Callable[[], Dialect]:
    module, name = place.split(":")
    return lambda: cast(Dialect, getattr(import_module(module), name))


def get_all_dialects() -> dict[str, Callable[[], Dialect]]:
    """The dialects by name, as functions that import them."""
    return {name: _loader(place) for name, place in DIALECTS.items()}
