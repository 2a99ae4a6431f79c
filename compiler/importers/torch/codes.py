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
        "examples of 2 or more, and axes that the module does not fix at a number. A name may have limits, "
        '`("L", 1, 512)`; the example lies within them.',
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
    "OI1507": (
        "damaged `.pt2` file",
        "A part of the file is missing, contradicts another, reaches over the end, or would make PyTorch run "
        "something that is no computation of tensors or sizes.",
    ),
    "OI1508": (
        "`.pt2` file with pickled parts",
        "Unpickling can run code, so only tensors that are stored as bytes are read.",
    ),
    "OI1509": (
        "option that the backend lacks",
        "`torch.compile` hands its options and its mode to the backend `openinfer`: it takes options of "
        "`openinfer.compile` that do not name a model, `threads`, and PyTorch's modes, which change nothing.",
    ),
    "OI1506": (
        "gradients of an imported program",
        "Programs compute results alone. A module that `torch.compile` gave to the backend `openinfer` is "
        "called within `torch.no_grad()`, or with inputs that ask for no gradients.",
    ),
}
