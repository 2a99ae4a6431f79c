"""Checks of size expressions: dimensions, indices, bounds."""

from __future__ import annotations

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.expressions import BadSize, names_of, to_size
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.symbols import TEMPORARY, Symbols, is_open
from openinfer.runtime.sizes import Size


def check_dims(
    dims: tuple[syntax.Expr, ...], symbols: Symbols, report: Report, *, declared: bool = False
) -> None:
    """Each dimension: a size, not negative; `_` stands alone.

    In a memory section (`declared`) no temporary has a value yet.
    """
    for dim in dims:
        if is_open(dim):
            continue
        for name in names_of(dim) if declared else ():
            symbol = symbols.find(name.text)
            if symbol is not None and symbol.memory == TEMPORARY and symbol.maybe_integer:
                if name.text not in symbols.loop_indices and symbol.scalar:
                    report.error(
                        "OI0211",
                        name.span,
                        f"temporary `{name.text}` has no value where variables are declared",
                        fix="declare the size in `volatile { … }` or `persistent { … }`",
                        notes=[("it is assigned here", symbol.span)],
                    )
        size = check_size(dim, symbols, report, "a dimension")
        if size is not None and size.constant is not None and size.constant < 0:
            report.error("OI0305", dim.span, f"a dimension cannot be {size}", fix="use 0 or more")


def check_size(expression: syntax.Expr, symbols: Symbols, report: Report, what: str) -> Size | None:
    """One expression, and the variables that it names. None when it is no size.

    An unknown name is a size of the package or of the inputs, so it is no error here.
    """
    for name in names_of(expression):
        if name.text == "_":
            report.error(
                "OI0305", name.span, "`_` stands alone as a dimension", fix="name the size"
            )
            return None
        symbol = None if name.text in symbols.loop_indices else symbols.find(name.text)
        if symbol is None or (symbol.maybe_integer and symbol.scalar):
            continue
        notes = [(f"declared here, as {symbol.what}", symbol.type.span)]
        if what == "a dimension":
            # A tensor `D` of shape [D, H] is common enough in models.
            report.error(
                "OI0310",
                name.span,
                f"`{name.text}` here is the size of that name; the variable is no integer scalar",
                fix="give one of them another name",
                notes=notes,
                severity="warning",
            )
            continue
        report.error(
            "OI0306",
            name.span,
            f"`{name.text}` is used as {what}, so it must be an integer scalar",
            fix="declare it as an integer without dimensions, or give the size another name",
            notes=notes,
        )
    try:
        return to_size(expression)
    except BadSize as error:
        fix = "divide by something else" if error.code == "OI0305" else "use a shorter expression"
        report.error(error.code, error.span, error.message, fix=fix)
        return None
