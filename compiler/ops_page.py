"""`docs/ops.md`, made from the op registry: `python -m openinfer.compiler.ops_page` writes it."""

from __future__ import annotations

import sys
from pathlib import Path

from openinfer.compiler.limitations import LIMITATIONS, limitation_of
from openinfer.compiler.op_examples import example_of
from openinfer.dialects import opset
from openinfer.dialects.opset import OpSpec, Setting
from openinfer.runtime.dtypes import DTYPES

_HEAD = """# Ops

Made from the registry (`dialects/ops/`) by `make docs`. Float dtypes narrower than f32 compute in f32 and
round once per op; integers wrap. Behind the ops: one call of each, their settings, and the dtypes that each
executor takes.

| op | operands | settings | dtypes | what it computes |
|---|---|---|---|---|
"""
_CALLS = """
## One call of each

Each is tested; optional operands and settings may be left out. What is computed stands above.

| op | call | operands → results |
|---|---|---|
"""
_SETTINGS = """
## Settings

A setting of kind int, float or number may also name a scalar variable, a loop index, a size or a metadata
entry, where the op can take a number that only the step knows; its value enters the op as `op cast`
would bring it into the dtype of the operands.

| op | setting | kind | default | meaning |
|---|---|---|---|---|
"""
_DTYPES = """
## Dtypes and executors

The dtype of the first operand (of the result, for ops without operands). S: the simulator takes it, C:
compiled programs do (`device="cpu"`). What a conversion, an index or a condition has as its other dtype
stands in the text of the op.

"""


def ops_page() -> str:
    """The text of the page."""
    names = opset.names()
    settings = "".join(_setting_rows(name) for name in names)
    return (
        _HEAD
        + "".join(_row(name) for name in names)
        + _CALLS
        + "".join(_call(name) for name in names)
        + _SETTINGS
        + settings
        + _DTYPES
        + _dtype_table()
        + _limitations()
    )


def _spec(name: str) -> OpSpec:
    spec = opset.find(name)
    assert spec is not None
    return spec


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _row(name: str) -> str:
    spec = _spec(name)
    also = f" (also {', '.join(spec.aliases)})" if spec.aliases else ""
    settings = "; ".join(_setting(s) for s in spec.settings) or " "
    return _line(f"`{name}`{also}", _operands(spec), settings, _dtypes(spec), spec.doc)


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


def _call(name: str) -> str:
    example = example_of(name)
    if example is None:
        # Nothing fits by itself: `op_examples.py` lacks a row, which a test says.
        return _line(f"`{name}`", f"`op {name}({_operands(_spec(name)).strip()})`", " ")
    operands = ", ".join(f"`{type_}`" for _, type_ in example.operands)
    results = ", ".join(f"`{type_}`" for type_ in example.types)
    return _line(f"`{name}`", f"`{example.call}`", f"{operands} → {results}".strip())


# Settings


def _setting_rows(name: str) -> str:
    rows: list[str] = []
    for setting in _spec(name).settings:
        also = f" (also {', '.join(setting.aliases)})" if setting.aliases else ""
        kind = " or ".join(f'"{c}"' for c in setting.choices) or setting.kind
        default = "required" if setting.required else _default(setting)
        rows.append(_line(f"`{name}`", f"`{setting.name}`{also}", kind, default, setting.doc))
    return "".join(rows)


def _default(setting: Setting) -> str:
    value = setting.default
    if value is None:
        return " "
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f'`"{shown}"`' if isinstance(value, str) else f"`{shown}`"


# Dtypes


def _dtype_table() -> str:
    specs = [_spec(name) for name in opset.names()]
    used = [name for name in DTYPES if any(name in spec.dtypes for spec in specs)]
    lines = [_line("op", *used), "|---" * (len(used) + 1) + "|\n"]
    for spec in specs:
        lines.append(_line(f"`{spec.name}`", *(executors(spec, dtype) or " " for dtype in used)))
    return "".join(lines)


def executors(spec: OpSpec, dtype: str) -> str:
    """`SC`, `S` or nothing: who takes an op on a dtype."""
    if dtype not in spec.dtypes:
        return ""
    return "S" if limitation_of(spec.name, (dtype,)) is not None else "SC"


def _limitations() -> str:
    if not LIMITATIONS:
        return ""
    lines = ["\n## What compiled programs do not do\n\n| ops | dtypes | reason |\n|---|---|---|\n"]
    for row in LIMITATIONS:
        ops = ", ".join(f"`{name}`" for name in row.ops) or "all"
        lines.append(_line(ops, ", ".join(row.dtypes) or "all", row.reason))
    return "".join(lines)


def main() -> None:
    """Writes the page below the working directory's `docs/`."""
    page = Path("docs/ops.md")
    page.write_text(ops_page(), encoding="utf-8")
    sys.stderr.write(f"wrote {page}\n")


if __name__ == "__main__":
    main()
