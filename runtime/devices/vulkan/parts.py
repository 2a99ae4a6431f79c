"""The parts of a program for Vulkan: the code of the host half, and the words of each kernel."""

from __future__ import annotations

SUFFIX = ".spv"


def part_of(kernel: str) -> str:
    """The name of the part that holds the words of a kernel."""
    return kernel + SUFFIX
