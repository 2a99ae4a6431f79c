"""Checks of an op statement against the registry: name, operands, outputs, settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.check_sizes import check_size
from openinfer.compiler.frontend.expressions import BadSize, to_size
from openinfer.compiler.frontend.report import Report, did_you_mean
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.symbols import Symbol, Symbols
from openinfer.dialects import foreign_words, opset
from openinfer.runtime.dtypes import ALIASES, DTYPES

_ANY_COUNT = 1 << 30


def check_op_name(
    name: syntax.Name, report: Report, others: Sequence[str] = ()
) -> opset.OpSpec | None:
    """The registry row of an op name or alias; `others` are names that would also do."""
    spec = opset.find(name.text)
    if spec is None:
        report.error(
            "OI0214",
            name.span,
            f"unknown op `{name.text}`",
            fix=opset.advice(name.text)
            or did_you_mean(name.text, others, "docs/ops.md lists all ops"),
        )
    return spec


def check_op(
    node: syntax.Op, operands: Sequence[Symbol | None], symbols: Symbols, report: Report
) -> None:
    """One op statement; `operands` are the variables behind its operands."""
    spec = check_op_name(node.name, report)
    for setting in node.settings:
        row = spec.setting(setting.name.text) if spec is not None else None
        numbers = row is not None and row.kind in ("number", "float")
        _check_sizes(setting.value, symbols, report, numbers=numbers)
    if spec is None:
        return
    _check_counts(node, spec, report)
    first = operands[0] if operands else None
    if first is not None and first.dtype is not None and first.dtype.name not in spec.dtypes:
        report.error(
            "OI0313",
            node.operands[0].span,
            f"`{spec.name}` does not take {first.dtype}",
            fix=f"it takes {', '.join(spec.dtypes)}; "
            + opset.cast_advice(spec, _written(node.operands[0])),
            notes=[("declared here", first.type.span)],
        )
    _check_settings(node, spec, symbols, report)


def _written(ref: syntax.Ref) -> str:
    """An operand as a hint names it."""
    return ref.name.text if ref.slots is None else f"{ref.name.text}[…]"


def _check_counts(node: syntax.Op, spec: opset.OpSpec, report: Report) -> None:
    least = len(spec.operands)
    most = _ANY_COUNT if spec.variadic else least + len(spec.optional)
    listed = ", ".join([*spec.operands, *(f"[{name}]" for name in spec.optional)])
    usage = f"{spec.name}({listed}{', …' if spec.variadic else ''})"
    if not least <= len(node.operands) <= most:
        if spec.variadic:
            wanted = f"{least} operands or more"
        else:
            wanted = f"{least} {'operand' if most == 1 else 'operands'}"
            if most > least:
                wanted = f"{least} to {most} operands"
        report.error(
            "OI0217",
            node.name.span,
            f"`{spec.name}` takes {wanted}, got {len(node.operands)}",
            fix=f"op {usage} >> …;",
        )
    if spec.outputs is not None and len(node.outputs) != spec.outputs:
        report.error(
            "OI0218",
            node.outputs[0].span.to(node.outputs[-1].span),
            f"`{spec.name}` has {spec.outputs} {'output' if spec.outputs == 1 else 'outputs'}, "
            f"got {len(node.outputs)}",
            fix="name as many variables behind `>>` as the op has outputs",
        )


def _check_settings(node: syntax.Op, spec: opset.OpSpec, symbols: Symbols, report: Report) -> None:
    listed = ", ".join(s.name for s in spec.settings)
    listing = f"settings of `{spec.name}`: {listed}" if listed else f"`{spec.name}` has no settings"
    given: dict[str, Span] = {}
    for setting in node.settings:
        row = spec.setting(setting.name.text)
        if row is None:
            near = opset.setting_advice(spec, setting.name.text)
            report.error(
                "OI0215",
                setting.name.span,
                f"`{spec.name}` has no setting `{setting.name.text}`",
                fix=f"{near}{listing}",
            )
            continue
        if row.name in given:
            alias = f" (`{row.name}`)" if setting.name.text != row.name else ""
            report.error(
                "OI0204",
                setting.span,
                f"duplicate setting: `{setting.name.text}`{alias}",
                fix="remove one of them",
                notes=[("first given here", given[row.name])],
            )
            continue
        given[row.name] = setting.span
        _check_setting(setting, row, spec, symbols, report)
    for row in spec.settings:
        if row.required and row.name not in given:
            report.error(
                "OI0216",
                node.name.span,
                f"`{spec.name}` needs the setting `{row.name}`: {row.doc}",
                fix=f"add `{row.name}=…` ({row.kind})",
            )


def _check_setting(
    setting: syntax.Setting,
    row: opset.Setting,
    spec: opset.OpSpec,
    symbols: Symbols,
    report: Report,
) -> None:
    value = setting.value
    try:
        # One setting at a time, so that each is reported at its own place.
        alone = replace(spec, settings=(row,))
        opset.resolve_settings(alone, {row.name: _plain(value)})
    except opset.SettingError as error:
        report.error(
            "OI0304",
            value.span,
            error.message,
            fix=_value_advice(value, row),
        )
        return
    if not isinstance(value, syntax.Name) or row.kind in ("dtype", "dtypes"):
        return
    if value.text in row.choices:
        report.error(
            "OI0304",
            value.span,
            f"`{setting.name.text}` is a string",
            fix=f'write `{setting.name.text}="{value.text}"`',
        )
        return
    symbol = symbols.find(value.text)
    if symbol is None and ALIASES.get(value.text, value.text) in DTYPES:
        report.error(
            "OI0304",
            value.span,
            f"`{setting.name.text}` is no dtype",
            fix=f"{row.name}: {row.doc} ({row.kind})",
        )
    if symbol is not None and not symbol.scalar:
        report.error(
            "OI0308",
            value.span,
            f"`{setting.name.text}` is set from `{value.text}`, which is not a scalar",
            fix="name a scalar variable, or pass the tensor as an operand",
            notes=[("declared here", symbol.type.span)],
        )


def _value_advice(value: syntax.Value, row: opset.Setting) -> str:
    """What to write where a setting does not take a value."""
    ours = foreign_words.DTYPES.get(value.text) if isinstance(value, syntax.Name) else None
    if ours is not None and row.kind in ("dtype", "dtypes"):
        return f"write `{row.name}={ours}`"
    return f"{row.name}: {row.doc} ({row.kind})"


def _check_sizes(
    value: syntax.Value, symbols: Symbols, report: Report, *, numbers: bool = False
) -> None:
    """Size expressions in a setting, and integers that do not fit; `numbers` may have 64 bits."""
    match value:
        case syntax.ListValue(items=items):
            for item in items:
                _check_sizes(item, symbols, report)
        case syntax.Literal(value=int() as number):
            if number >= 2**63 and not numbers:
                report.error(
                    "OI0311",
                    value.span,
                    f"{number} does not fit into a signed 64-bit integer",
                    fix=f"the largest is {2**63 - 1}",
                )
        case syntax.Literal() | syntax.Name():
            pass
        case _:
            check_size(value, symbols, report, "a size")


def _plain(value: syntax.Value) -> object:
    """The value as the registry takes it."""
    match value:
        case syntax.Literal(value=literal):
            return literal
        case syntax.Name(text=text):
            return opset.NameRef(text)
        case syntax.ListValue(items=items):
            return [_plain(item) for item in items]
        case _:
            try:
                return to_size(value)
            except BadSize:
                return 0
