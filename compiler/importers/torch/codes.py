"""Diagnostics codes of imports from PyTorch: code → (title, explanation)."""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, tuple[str, str]]] = {
    "OI1500": (
        "model with ops that cannot be imported",
        "Every op of the model that has no form in the language: how often, in which module, on which line, "
        "and what could replace it. All are told at once, and nothing is made of the rest.",
    ),
    "OI1501": (
        "PyTorch missing",
        "Models of PyTorch are exported by PyTorch itself, which is not installed or cannot be loaded.",
    ),
    "OI1502": (
        "model that PyTorch cannot export",
        "`torch.export.export` refuses the module with these example inputs; its own message follows.",
    ),
    "OI1503": (
        "sizes that contradict the model",
        "`dynamic` names the axes of inputs that vary: of inputs that exist, as many names as axes, with "
        "examples of 2 or more, and axes that the module does not fix at a number.",
    ),
    "OI1504": (
        "nothing that can be imported",
        "`from_torch` takes a module with example inputs, an `ExportedProgram`, or the path of a `.pt2` "
        "file.",
    ),
    "OI1505": (
        "tensor of another machine",
        "Weights are borrowed where they lie, in memory of the processor: move the module there first.",
    ),
}
