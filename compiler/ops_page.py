"""`docs/ops.md`, made from the op registry: `python -m openinfer.compiler.ops_page` writes it."""

from __future__ import annotations

import sys
from pathlib import Path

from openinfer.dialects import opset
from openinfer.dialects.opset import OpSpec, Setting

_HEAD = """# Ops

Made from the registry (`dialects/ops/`) by `make docs`. Float dtypes narrower than f32 compute in f32 and
round once per op; integers wrap.

| op | operands | settings | dtypes | what it computes |
|---|---|---|---|---|
"""


def ops_page() -> str:
    """The text of the page."""
    return _HEAD + "".join(_row(name) for name in opset.names())


def _row(name: str) -> str:
    spec = opset.find(name)
    assert spec is not None
    also = f" (also {', '.join(spec.aliases)})" if spec.aliases else ""
    settings = "; ".join(_setting(s) for s in spec.settings) or " "
    cells = [f"`{name}`{also}", _operands(spec), settings, _dtypes(spec), spec.doc]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _operands(spec: OpSpec) -> str:
    listed = [*spec.operands, *(f"[{name}]" for name in spec.optional)]
    return ", ".join(listed) + (", …" if spec.variadic else "") or " "


def _setting(setting: Setting) -> str:
    if setting.required:
        return f"`{setting.name}` (required)"
    return f"`{setting.name}`" if setting.default is None else f"`{setting.name}={setting.default}`"


def _dtypes(spec: OpSpec) -> str:
    names = list(spec.dtypes)
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:3])} … {names[-1]}"


def main() -> None:
    """Writes the page below the working directory's `docs/`."""
    page = Path("docs/ops.md")
    page.write_text(ops_page(), encoding="utf-8")
    sys.stderr.write(f"wrote {page}\n")


if __name__ == "__main__":
    main()
