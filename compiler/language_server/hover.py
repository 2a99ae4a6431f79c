"""What an editor shows about the name under the pointer, as Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass

from openinfer.compiler.diagnostics import explain
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.language_server import terms
from openinfer.compiler.language_server.analysis import Analysis
from openinfer.compiler.language_server.symbols import Symbol, Word
from openinfer.compiler.op_examples import example_of
from openinfer.dialects import opset
from openinfer.dialects.opset import OpSpec, Setting
from openinfer.runtime.dtypes import ALIASES, DTYPES

_CALLS = 8
"""So many calls of a block are listed."""
_CODE = re.compile(r"OI0\d{3}")


@dataclass(frozen=True)
class Hover:
    """A Markdown text, and what it is about."""

    text: str
    span: Span


def hover(analysis: Analysis, offset: int) -> Hover | None:
    """What there is to say about a place: the name there, the mistake there, or a code in a comment."""
    word = analysis.words.at(offset)
    parts: list[str] = []
    span: Span | None = None
    if word is not None:
        parts, span = _of_word(analysis, word), word.span
    for diagnostic in analysis.findings.diagnostics:
        place = analysis.span(diagnostic)
        if place.start <= offset < max(place.stop, place.start + 1) and diagnostic.location:
            explained = _explained(diagnostic.code)
            if explained and explained not in parts:
                parts.append(explained)
                span = span or place
    code = next(
        (c for c in _CODE.finditer(analysis.source.text) if c.start() <= offset <= c.end()), None
    )
    if code is not None and not parts and (explained := _explained(code[0])):
        parts, span = [explained], Span(*code.span())
    return Hover("\n\n".join(parts), span) if parts and span is not None else None


def _explained(code: str) -> str:
    text = explain(code)
    if text is None:
        return ""
    head, _, rest = text.partition("\n\n")
    return f"**{head}**\n\n{rest}"


def code_block(text: str) -> str:
    """A program text in Markdown."""
    return f"```oi\n{text}\n```"


def _of_word(analysis: Analysis, word: Word) -> list[str]:
    symbol = analysis.words.symbol(word)
    match symbol.kind:
        case "variable" if symbol.owner:
            return _local(analysis, symbol)
        case "variable":
            return _variable(analysis, symbol)
        case "parameter":
            return [parameter_text(analysis, symbol)]
        case "index":
            return [f"`{symbol.name}`: loop index", *_declared(analysis, symbol)]
        case "slot":
            return [f"`{symbol.name}`: index of `{symbol.owner}`"]
        case "size":
            return [_size(analysis, symbol)]
        case "op":
            spec = opset.find(symbol.name)
            return [op_text(spec, symbol.name)] if spec is not None else _unknown_op(symbol.name)
        case "setting":
            return _setting(symbol)
        case "argument":
            return [f"operand `{symbol.name}`"] if symbol.owner else []
        case "dtype":
            return [_dtype(symbol.name)]
        case "open":
            return ["`_`: a dimension that the value decides"]
        case "block":
            return [block_text(analysis, symbol.name)]
        case "loop":
            return [f"loop `{symbol.name}`"]
        case "attribute":
            return _term(f"@{symbol.name}", terms.ATTRIBUTES.get(symbol.name))
        case "hint":
            return _term(symbol.name, terms.HINTS.get(symbol.name))
        case "cache":
            return _term(f"cache.{symbol.name}", terms.CACHE.get(symbol.name))
        case "keyword":
            return _term(symbol.name, terms.WORDS.get(symbol.name))
        case _:
            return []


def _term(name: str, text: str | None) -> list[str]:
    return [f"`{name}`: {text}"] if text else []


def _variable(analysis: Analysis, symbol: Symbol) -> list[str]:
    known = analysis.findings.variables.get(symbol.name)
    made = analysis.words.definition(symbol)
    if known is None:
        if made is None:
            return []
        type_text = made.type_text or "_"
        return [code_block(f"{symbol.name}: {type_text}"), made.memory]
    indices = f"({', '.join(known.indices)})" if known.indices else ""
    facts = [known.memory]
    shape = ", ".join(str(extent) for extent in known.shape)
    if list(known.shape) != list(known.dims) and known.dims:
        facts.append(f"shape `[{shape}]`")
    if known.nbytes is not None and not (known.memory == "persistent" and known.indices):
        facts.append(f"{known.nbytes:,} bytes")
    facts.append(f"starts as {known.source}")
    return [code_block(f"{symbol.name}{indices}: {known.type}"), "; ".join(facts)]


def _local(analysis: Analysis, symbol: Symbol) -> list[str]:
    """A variable of a block with parameters: its type, and where calls differ those of the calls."""
    made = analysis.words.definition(symbol)
    assert made is not None
    calls = analysis.findings.locals.get((symbol.owner, symbol.name), {})
    types = list(dict.fromkeys(variable.type for variable in calls.values()))
    shown = types[0] if len(types) == 1 else made.type_text or "_"
    said = f"{made.memory} of block `{symbol.owner}`, anew for each call"
    parts = [code_block(f"{symbol.name}: {shown}"), said]
    if len(types) > 1:
        lines = [f"- `{variable.type}` in `{call}`" for call, variable in calls.items()]
        more = [f"- and {len(lines) - _CALLS} more"] if len(lines) > _CALLS else []
        parts.append("\n".join([*lines[:_CALLS], *more]))
    return parts


def parameter_text(analysis: Analysis, symbol: Symbol) -> str:
    """A parameter with its default."""
    made = analysis.words.definition(symbol)
    if made is None:
        return f"block `{symbol.owner}` has no parameter `{symbol.name}`"
    text = analysis.source.text[made.whole.start : made.whole.stop]
    return f"{code_block(text)}\n\nparameter of block `{symbol.owner}`"


def block_text(analysis: Analysis, name: str) -> str:
    """A block with its parameters."""
    made = analysis.words.definition(Symbol("block", name))
    if made is None:
        return f"block `{name}`, which is not there"
    if not made.type_text:
        return f"block `{name}`"
    calls = sum(not word.defines for word in analysis.words.occurrences(made.symbol))
    called = f"called in {calls} place{'s' if calls != 1 else ''}"
    return f"{code_block(f'block {name}{made.type_text}')}\n\n{called}"


def _declared(analysis: Analysis, symbol: Symbol) -> list[str]:
    """The line of a declaration."""
    made = analysis.words.definition(symbol)
    if made is None:
        return []
    text = analysis.source.text
    start = text.rfind("\n", 0, made.name.start) + 1
    stop = text.find("\n", made.name.stop)
    return [code_block(text[start : stop if stop >= 0 else len(text)].strip())]


def _size(analysis: Analysis, symbol: Symbol) -> str:
    value, origin = analysis.findings.sizes.get(symbol.name, (None, ""))
    made = analysis.words.definition(symbol)
    written = ""
    if made is not None and made.whole != made.name:
        written = f"{code_block(analysis.source.text[made.whole.start : made.whole.stop])}\n\n"
    shown = f"size `{symbol.name}`"
    if value is not None:
        shown += f" = {value}"
    if origin:
        return f"{written}{shown}, from {origin}"
    return written + shown + ("" if value is not None or written else ", given by the caller")


def _dtype(name: str) -> str:
    if name == "_":
        return "`_`: the type of what fills it, from the package or the first value"
    row = DTYPES.get(ALIASES.get(name, name))
    if row is None:
        return f"`{name}`"
    bits = f"{row.bits} bit{'s' if row.bits != 1 else ''}"
    return f"`{row.name}`: {row.kind}, {bits}{', packed' if row.packed else ''}"


# Ops


def signature(spec: OpSpec) -> str:
    """`layer_norm(x, gamma, [beta], eps=1e-05)`."""
    operands = [*spec.operands, *(f"[{name}]" for name in spec.optional)]
    if spec.variadic:
        operands.append("…")
    return f"{spec.name}({', '.join([*operands, *map(setting_text, spec.settings)])})"


def setting_text(setting: Setting) -> str:
    """`axis=-1`, or `axis=…` without a default."""
    return f"{setting.name}={default_text(setting) or '…'}"


def default_text(setting: Setting) -> str:
    """A default as a program writes it; empty without one."""
    value = setting.default
    if setting.required or value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(str(item) for item in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def setting_doc(setting: Setting) -> str:
    """Kind, default and meaning in one line."""
    kind = " or ".join(f'"{c}"' for c in setting.choices) or setting.kind
    default = default_text(setting)
    said = "required" if setting.required else f"default {default}" if default else "optional"
    return f"`{setting.name}` ({kind}, {said}): {setting.doc}"


def op_text(spec: OpSpec, written: str = "") -> str:
    """Everything about an op."""
    lines = [code_block(f"op {signature(spec)}"), spec.doc]
    if written and written != spec.name:
        lines.append(f"`{written}` is another name of it.")
    if spec.settings:
        lines.append("\n".join(f"- {setting_doc(setting)}" for setting in spec.settings))
    lines.append(f"dtypes: {', '.join(spec.dtypes)}")
    example = example_of(spec.name)
    if example is not None:
        operands = "".join(f"// {name}: {type_}\n" for name, type_ in example.operands)
        lines.append(code_block(f"{operands}{example.call}"))
    return "\n\n".join(lines)


def _unknown_op(name: str) -> list[str]:
    advice = opset.advice(name)
    return [f"there is no op `{name}`" + (f": {advice}" if advice else "")]


def _setting(symbol: Symbol) -> list[str]:
    spec = opset.find(symbol.owner)
    setting = spec.setting(symbol.name) if spec is not None else None
    if spec is None or setting is None:
        return []
    return [f"setting of `{spec.name}`: {setting_doc(setting)}"]
