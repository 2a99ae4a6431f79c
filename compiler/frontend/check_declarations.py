"""Checks of declarations: dtype, dimensions, and every attribute with its arguments."""

from __future__ import annotations

import re

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.check_sizes import check_dims
from openinfer.compiler.frontend.check_tables import (
    check_index_arguments,
    check_table,
    malformed,
)
from openinfer.compiler.frontend.parser import ATTRIBUTES
from openinfer.compiler.frontend.report import Report, did_you_mean
from openinfer.compiler.frontend.symbols import Symbols
from openinfer.dialects import foreign_words
from openinfer.dialects.foreign_words import VALUES
from openinfer.runtime.dtypes import ALIASES, DTYPES, DType

_FLOAT_MAX = {
    "f8": 57344.0,
    "f8e4m3": 448.0,
    "f16": 65504.0,
    "bf16": 3.3895313892515355e38,
    "f32": 3.4028234663852886e38,
    "f64": 1.7976931348623157e308,
}
_KEPT = ("layout", "quant", "buffer")
_LINKS = ("init", "ref", "pattern")
_TABLES = ("table", "auto_dim", "fixed")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def check_dtype(name: syntax.Name, report: Report) -> DType | None:
    """The dtype that a name stands for, None for `_`; reports an unknown one."""
    dtype = DTYPES.get(ALIASES.get(name.text, name.text))
    if dtype is None and name.text != "_":
        report.error(
            "OI0301",
            name.span,
            f"unknown dtype `{name.text}`",
            fix=dtype_advice(name.text),
        )
    return dtype


def dtype_advice(name: str) -> str | None:
    """What to write for a dtype that is not there."""
    ours = foreign_words.DTYPES.get(name)
    if ours is not None:
        return f"it is `{ours}` here"
    return did_you_mean(name, DTYPES, f"known are {', '.join(DTYPES)}")


def check_open_type(written: syntax.Type, memory: str, report: Report) -> None:
    """The type `_` is for what is filled from the package, and for temporaries."""
    if not written.open:
        return
    if memory in ("dynamic", "persistent"):
        report.error(
            "OI0314",
            written.span,
            f"a {memory} variable cannot have the type `_`: nothing else says what it is",
            fix="write its dtype and dimensions, for example `f32[B, D]`",
        )
    elif written.dims:
        report.error(
            "OI0314",
            written.span,
            "the type `_` has no dimensions: they are taken over together with the dtype",
            fix="write `_`, or a dtype with dimensions",
        )


def check_declaration(
    declaration: syntax.Declaration, memory: str, symbols: Symbols, report: Report
) -> None:
    """One declaration of a memory section."""
    dtype = check_dtype(declaration.type.dtype, report)
    check_open_type(declaration.type, memory, report)
    check_dims(declaration.type.dims, symbols, report, declared=True)
    check_table(declaration, memory, report)
    found: dict[str, syntax.Attribute] = {}
    for attribute in declaration.attributes:
        name = attribute.name.text
        if first := found.get(name):
            report.error(
                "OI0203",
                attribute.span,
                f"duplicate @{name} attribute",
                fix="remove one of them",
                notes=[("first given here", first.span)],
            )
            continue
        found[name] = attribute
        _check_attribute(attribute, declaration, memory, dtype, report)
    if "ref" in found and "pattern" in found:
        report.error(
            "OI0252",
            found["pattern"].span,
            "@ref and @pattern exclude each other",
            fix="@ref names one tensor, @pattern one for each index: remove one of them",
            notes=[("@ref stands here", found["ref"].span)],
        )


def _check_attribute(
    attribute: syntax.Attribute,
    declaration: syntax.Declaration,
    memory: str,
    dtype: DType | None,
    report: Report,
) -> None:
    name = attribute.name.text
    if name not in (*ATTRIBUTES, *_KEPT):
        report.unknown(
            "OI0250",
            attribute.span,
            f"unknown attribute `@{name}` is kept, but means nothing here",
            fix=did_you_mean(name, ATTRIBUTES, f"known are {', '.join(ATTRIBUTES)}"),
        )
        return
    if name in _KEPT:
        return
    if name in _TABLES and memory != "persistent":
        report.error(
            "OI0252",
            attribute.span,
            f"@{name} is for persistent memory, `{declaration.name.text}` is {memory}",
            fix="move the declaration to `persistent { … }`, or remove the attribute",
        )
    elif name in _LINKS and memory == "dynamic":
        report.error(
            "OI0252",
            attribute.span,
            f"@{name} on dynamic `{declaration.name.text}`, which only the caller sets",
            fix="remove the attribute, or declare the variable in `volatile { … }`",
        )
    elif name == "pattern" and memory == "persistent":
        report.error(
            "OI0252",
            attribute.span,
            f"@pattern on persistent `{declaration.name.text}`: tables start empty",
            fix="declare the tensors of the package in `constant { … }`",
        )
    match name:
        case "init" if declaration.type.open:
            report.error(
                "OI0314",
                attribute.span,
                f"@init on `{declaration.name.text}` of type `_`, which has no dtype of its own",
                fix="write its dtype and dimensions, for example `f32[B, D]`",
            )
        case "init":
            _check_init(attribute, dtype, report)
        case "ref":
            if declaration.indices:
                report.error(
                    "OI0252",
                    attribute.span,
                    f"@ref names one tensor, but `{declaration.name.text}` has indices",
                    fix='use @pattern("….{' + declaration.indices[0].text + '}")',
                )
            _one_string(attribute, report, names=True)
        case "pattern":
            _check_pattern(attribute, declaration, report)
        case "table" | "auto_dim" | "fixed" if declaration.buffer:
            pass
        case "table":
            if not declaration.indices:
                report.error(
                    "OI0252",
                    attribute.span,
                    f"@table on `{declaration.name.text}`, which has no indices",
                    fix=f"declare it as `{declaration.name.text}(i): …`",
                )
            if attribute.arguments:
                malformed(attribute, "takes no arguments", "@table", report)
        case _:
            check_index_arguments(attribute, declaration, report)


def _one_string(
    attribute: syntax.Attribute, report: Report, *, names: bool = False
) -> syntax.Literal | None:
    """The only argument, a string; with `names` also a bare name."""
    arguments = attribute.arguments or ()
    if len(arguments) == 1:
        argument = arguments[0]
        if isinstance(argument, syntax.Literal) and isinstance(argument.value, str):
            if argument.value:
                return argument
        elif names and isinstance(argument, syntax.Name):
            return None
    name = attribute.name.text
    malformed(attribute, "takes one non-empty string", f'@{name}("NAME")', report)
    return None


def _check_pattern(
    attribute: syntax.Attribute, declaration: syntax.Declaration, report: Report
) -> None:
    pattern = _one_string(attribute, report)
    if pattern is None:
        return
    text = str(pattern.value)
    placeholders = _PLACEHOLDER.findall(text)
    indices = [index.text for index in declaration.indices]
    name = declaration.name.text
    if not indices:
        listed = ", ".join(dict.fromkeys(p for p in placeholders if p.isidentifier())) or "l"
        report.error(
            "OI0254",
            attribute.span,
            f"@pattern on `{name}`, which declares no index",
            fix=f"declare it as `{name}({listed}): …`, or use @ref",
        )
        return
    for placeholder in dict.fromkeys(placeholders):
        if placeholder not in indices:
            report.error(
                "OI0254",
                pattern.span,
                f"`{{{placeholder}}}` in the pattern is no index of `{name}`",
                fix=did_you_mean(placeholder, indices, f"its indices are {', '.join(indices)}"),
            )
    for index in declaration.indices:
        if index.text not in placeholders:
            report.error(
                "OI0254",
                index.span,
                f"index `{index.text}` of `{name}` does not occur in its pattern",
                fix=f"put `{{{index.text}}}` where the index stands in the tensor's name",
                notes=[("the pattern is here", pattern.span)],
            )


def _check_init(attribute: syntax.Attribute, dtype: DType | None, report: Report) -> None:
    arguments = attribute.arguments or ()
    literal = arguments[0] if len(arguments) == 1 else None
    if not isinstance(literal, syntax.Literal) or isinstance(literal.value, str):
        value = VALUES.get(literal.text, "0") if isinstance(literal, syntax.Name) else "0"
        malformed(attribute, "takes one number or bool", f"@init({value})", report)
        return
    if dtype is None:
        return
    value = literal.value
    if dtype.is_float:
        limit = _FLOAT_MAX.get(dtype.name)
        if isinstance(value, bool):
            _wrong_kind(literal, dtype, "a number", "@init(1.0)", report)
        elif limit is not None and abs(value) > limit and abs(value) != float("inf"):
            _out_of_range(literal, dtype, f"{-limit:g} to {limit:g}", report)
        return
    if dtype.kind == "bool":
        if isinstance(value, float):
            _wrong_kind(literal, dtype, "true or false", "@init(true)", report)
        elif value not in (0, 1):
            _out_of_range(literal, dtype, "0 and 1", report)
        return
    if isinstance(value, bool | float):
        _wrong_kind(literal, dtype, "an integer", "@init(1)", report)
        return
    least, most = integer_range(dtype)
    if dtype.name == "t1":
        if value not in (-1, 1):
            _out_of_range(literal, dtype, "-1 and 1", report)
    elif not least <= value <= most:
        _out_of_range(literal, dtype, f"{least} to {most}", report)


def integer_range(dtype: DType) -> tuple[int, int]:
    """Least and largest value of an integer, bitset or ternary dtype."""
    if dtype.kind == "ternary":
        return -1, 1
    if dtype.kind == "int":
        return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    return 0, 2**dtype.bits - 1


def _wrong_kind(
    literal: syntax.Literal, dtype: DType, wanted: str, usage: str, report: Report
) -> None:
    report.error(
        "OI0302",
        literal.span,
        f"@init of a variable of dtype {dtype} must be {wanted}",
        fix=f"write `{usage}`, or change the dtype",
    )


def _out_of_range(literal: syntax.Literal, dtype: DType, values: str, report: Report) -> None:
    report.error(
        "OI0303",
        literal.span,
        f"{literal.value} does not fit into {dtype}",
        fix=f"the values of {dtype} are {values}",
    )
