"""The functions of the Vulkan loader, between openinfer and it: counted, and some of them replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any


class Library:
    """Stands in for `vulkan.lib`."""

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        self.counts: Counter[str] = Counter()
        self.replaced: dict[str, Callable[..., Any]] = {}

    def __getattr__(self, name: str) -> Any:
        self.counts[name] += 1
        return self.replaced.get(name) or getattr(self.lib, name)
