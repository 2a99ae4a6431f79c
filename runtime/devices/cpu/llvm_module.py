"""What LLVM is asked to compile: a text, and how much it shall think about it."""

from __future__ import annotations

from enum import Enum

from openinfer.runtime.quick_dataclass import dataclass


class Passes(Enum):
    """Which of LLVM's passes a module goes through before instructions are chosen."""

    ALL = "all"
    """LLVM's pipeline of level 1."""
    NONE = "none"
    """For what runs once, and for kernels that are vectors of floats, in which passes find nothing to do."""


@dataclass(frozen=True)
class LlvmModule:
    """A text of LLVM IR that becomes one object."""

    name: str
    """Of the part of the program that the object will be: `host`, or the kernel's symbol."""
    what: str
    """How people call it: `host`, or the kernel as the program's IR names it."""
    text: str
    passes: Passes
