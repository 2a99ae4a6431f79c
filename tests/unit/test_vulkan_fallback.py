"""The table of what falls back to the host, in `docs/vulkan.md`: each row is so, and there are no others."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import openinfer as oi
from openinfer.compiler.api import compile
from openinfer.lowering.vulkan import demands
from openinfer.runtime.options import TIERS

PAGE = Path(__file__).parents[2] / "docs/vulkan.md"
NEVER = (
    "a kernel has up to",
    "results that share bytes",
    "the device has nothing to compute",
    "the device has no kernel for it",
    "the device has no kernel for bytes of",
    "weights in such a layout",
    "attention that is rounded to bf16",
)
"""Reasons that no program gets: passes see to it, and IR that was written by hand is held against them."""


def one(declared: str, result: str, node: str) -> str:
    return (
        f"dynamic {{ {declared} }} block entry {{ assign a: {result}; op {node} >> a; return a; }}"
    )


ROWS = {
    "the device has no … of f64": one("x: f64[999];", "f64[999]", "erf(x)"),
    "strict mathematics rounds functions once": one("x: f32[999];", "f32[999]", "exp(x)"),
    "the device does not store f64": one("x: f64[999];", "f64[999]", "add(x, x)"),
    "the device does not compute with f64": one("x: i32[999];", "f16[999]", "cast(x, to=f16)"),
    "the host has fewer steps": one("x: f32[5000];", "f32[2501, 2]", "rfft(x)"),
}
"""A program for each reason."""


def reasons() -> list[str]:
    """The texts that the machine's record refuses an op with; what is filled in is `…`."""
    tree = ast.parse(Path(demands.__file__).read_text(encoding="utf-8"))
    found: list[str] = []
    for text in (n for n in ast.walk(tree) if isinstance(n, ast.Constant | ast.JoinedStr)):
        parts = text.values if isinstance(text, ast.JoinedStr) else [text]
        said = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)
        if re.match(r"(the|a|strict) .* ", said) and not said.endswith("."):
            found.append(said.replace("{}", "…"))
    return [one for one in found if not any(one != other and one in other for other in found)]


def test_the_table_has_every_reason() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \| [^|]+ \|$", page, re.MULTILINE)
    listed = reasons()
    assert len(listed) > 8
    for said in listed:
        pattern = re.escape(said).replace("…", ".+")
        named = any(re.fullmatch(pattern, row) for row in rows)
        assert named != any(word in said for word in NEVER), said


@pytest.mark.parametrize("reason", ROWS)
def test_a_row_is_so(
    reason: str, everything_on_vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = PAGE.read_text(encoding="utf-8")
    assert reason in said
    without_f64 = re.search("(store|with) f64", reason) is not None
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", TIERS[0] if without_f64 else TIERS[1])
    with pytest.raises(oi.UnsupportedError, match=reason.replace("…", ".+")) as raised:
        compile(ROWS[reason], device="vulkan", fallback=False, strict_math="strict" in reason)
    assert raised.value.code == "OI0738"
