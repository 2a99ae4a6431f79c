"""The forms of the language that this build reads but cannot run: one table.

To finish a form, take its row out. The parser and (except for the first edition) `build` know all
of them already.
"""

from __future__ import annotations

from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Span

_CACHES = "keep the value in `volatile` memory, or pass it in and out as dynamic and result"
_BLOCKS = "run the consumer with `branch`"

NOT_YET: dict[str, str] = {
    "cache.read": _CACHES,
    "cache.write": _CACHES,
    "cache.increment": _CACHES,
    "cache.decrement": _CACHES,
    "cache.reset": _CACHES,
    "yield": _BLOCKS,
    "await": _BLOCKS,
    "@table": _CACHES,
    "@auto_dim": _CACHES,
    "@fixed": _CACHES,
    "dimension `_`": "name the size",
}
"""Form → what to do meanwhile."""

FIRST_EDITION: dict[str, str] = {
    "model: NAME,": "remove the line; the model is given when the program is compiled",
    "inputs {}": "declare inputs in `dynamic { … }`",
    "outputs {}": "declare results in `volatile { … }`, or return them from entry",
    "state {}": "declare state in `persistent { … }`",
    "x = op …": "write `assign x: TYPE;` and `op NAME(…) >> x;`",
    "effect": "write `cache.read` or `cache.write`",
    "model[…]": "declare the tensor in `constant { … }`, with `@ref` or `@pattern`",
    "inner block": "write the statements of a loop directly into its body",
}
"""Forms of the first edition of the language → how the same is said today."""


def refuse(report: Report, form: str, span: Span) -> bool:
    """Reports that a form is not implemented yet, if so; says whether it did."""
    fix = NOT_YET.get(form) or FIRST_EDITION.get(form)
    if fix is None:
        return False
    shown = form if "`" in form else f"`{form}`"
    edition = " (a form of the first edition)" if form in FIRST_EDITION else ""
    report.error("OI0701", span, f"{shown}{edition} is not implemented yet", fix=fix)
    return True
