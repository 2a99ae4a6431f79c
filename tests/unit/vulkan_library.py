"""The functions of the Vulkan loader, between openinfer and it: counted, and some of them replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any


class Library:
    """Stands in for `vulkan.lib`, and for the addresses of its functions that machine code calls."""

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        self.counts: Counter[str] = Counter()
        self.replaced: dict[str, Callable[..., Any]] = {}
        self._callbacks: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        self.counts[name] += 1
        return self.replaced.get(name) or getattr(self.lib, name)

    def address_of(self, device: Any, name: str) -> int:
        """As in `native.py`: what it gives goes through here."""
        import vulkan

        ffi = vulkan.ffi
        real = self.lib.vkGetDeviceProcAddr(device, name.encode())
        of_loader = not name.endswith("KHR")

        def call(*given: Any) -> Any:
            if of_loader or name in self.replaced:
                return getattr(self, name)(*given)
            return ffi.cast(f"PFN_{name}", real)(*given)

        self._callbacks.append(ffi.callback(f"PFN_{name}", call))
        return int(ffi.cast("uintptr_t", self._callbacks[-1]))
