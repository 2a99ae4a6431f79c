"""Where a node of an export comes from: module, class, assigned variable, source line."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from openinfer.compiler.importers.torch.library import torch
from openinfer.lowering.graph.imports.provenance import Provenance, classes_of

_FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in .*$')
_ASSIGNED = re.compile(r"^([A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)")


def provenance_of_node(node: Any) -> Provenance:
    """What the metadata of an fx node says; what it does not say stays empty."""
    modules = _modules(node)
    module, kind = modules[-1] if modules else ("", "")
    file, line, code = _frame(node.meta.get("stack_trace"))
    assigned = _ASSIGNED.match(code)
    return Provenance(
        module=module,
        kind=kind,
        variable=assigned.group(1) if assigned else "",
        call=call_of(node),
        file=file,
        line=line,
        classes=classes_of(modules),
    )


def call_of(node: Any) -> str:
    """`aten.linear` for an op of ATen, with its overload where that is not the default one."""
    text = str(node.target)
    return text.removesuffix(".default")


def _modules(node: Any) -> list[tuple[str, str]]:
    """Paths and classes of the modules around a node, the innermost last."""
    found: list[tuple[str, str]] = []
    for key, entry in (node.meta.get("nn_module_stack") or {}).items():
        if str(key).startswith("_empty_nn_module_stack"):
            continue
        path, kind = entry
        name = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
        # Dynamo writes `L['self'].layer` and `L__self___layer`; an export just `layer`.
        clean = str(path).removeprefix("L['self']").removeprefix(".")
        found.append((clean, name.rpartition(".")[2]))
    return found


def _frame(trace: str | None) -> tuple[str, int, str]:
    """File, line and text of the innermost source line outside PyTorch."""
    if not trace:
        return "", 0, ""
    own = f"{Path(torch().__file__).parent}{os.sep}"
    found = ("", 0, "")
    lines = trace.splitlines()
    for number, text in enumerate(lines):
        frame = _FRAME.match(text)
        if frame is None or frame["file"].startswith((own, "<")):
            continue
        code = lines[number + 1].strip() if number + 1 < len(lines) else ""
        found = (frame["file"], int(frame["line"]), code)
    return found
