"""Shows what a `.gguf` model holds, from its tables alone: no tensor is read.

; gguf 3: llama, 12 sizes, 9 metadata, 20 tensors of 1234 bytes
; tokenizer: gpt2 (pre qwen2), 151936 tokens, 151387 merges
; template: 54 lines, 2509 characters
;   {%- if tools %}
block_count := 24                            a size, under the name that programs use
general.name: str = "Tiny"                   metadata
tokenizer.ggml.tokens: str[151936] = { … }   an array of texts, which no program can name
token_embd.weight: q8_0[512, 128] -- 69632 bytes
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from openinfer.runtime.packages.gguf import GgufPackage
from openinfer.runtime.packages.gguf_fields import Array, Number
from openinfer.runtime.packages.shown import (
    ENDS,
    FULL,
    listing,
    listing_json,
    plain,
    quoted,
    shape_text,
    shown_name,
    value_text,
)

_TEXT = 120
"""So many characters of a text are shown."""
_LINES = 8
"""So many lines of a template are shown."""
_TEMPLATE = "tokenizer.chat_template"
_MODEL = "tokenizer.ggml.model"


def inspect_lines(package: GgufPackage) -> Iterator[str]:
    """The view line by line. Raises PackageError OI0418 for a text that is not UTF-8, OI0405 for an array
    of bools with other bytes."""
    total = sum(info.nbytes for info in package.tensors.values())
    parts = f" in {len(package.parts)} files" if len(package.parts) > 1 else ""
    what = shown_name(package.architecture) if package.architecture else "no architecture"
    yield (
        f"; {package.format}: {what}, {len(package.sizes)} sizes, "
        f"{len(package.metadata)} metadata, {len(package.tensors)} tensors of {total} bytes{parts}"
    )
    trailing = sum(part.trailing for part in package.parts)
    if trailing:
        yield f"; {trailing} bytes after the last tensor belong to nothing"
    yield from _tokenizer_lines(package)
    for name, size in package.sizes.items():
        yield f"{shown_name(name)} := {size}"
    yield ""
    for name, key in package.keys.items():
        if name not in package.sizes:
            yield f"{shown_name(name)}: {_value(package, key)}"
    if package.tensors:
        yield ""
    for info in package.tensors.values():
        missing = "" if info.supported else ", a type that openinfer does not compute with"
        head = f"{shown_name(info.name)}: {info.dtype_name}{shape_text(info.shape)}"
        yield f"{head} -- {info.nbytes} bytes{missing}"


def inspect_json(package: GgufPackage) -> dict[str, Any]:
    """The same facts as JSON data."""
    return {
        "format": package.format,
        "path": str(package.path),
        "architecture": package.architecture,
        "files": [str(part.path) for part in package.parts],
        "sizes": dict(package.sizes),
        "metadata": {
            name: _value_json(package, key)
            for name, key in package.keys.items()
            if name not in package.sizes
        },
        "keys": dict(package.keys),
        "tokenizer": _tokenizer(package),
        "tensors": {
            info.name: {
                "dtype": info.dtype_name,
                "shape": list(info.shape),
                "nbytes": info.nbytes,
                "supported": info.supported,
            }
            for info in package.tensors.values()
        },
    }


def _tokenizer(package: GgufPackage) -> dict[str, Any] | None:
    """Kind, pre-tokenizer, counts of the tokenizer; None where the file has none."""
    fields = package.fields
    kind = fields.get(_MODEL)
    if not isinstance(kind, str):
        return None
    pre = fields.get("tokenizer.ggml.pre")
    found: dict[str, Any] = {"model": kind, "pre": pre if isinstance(pre, str) else None}
    for name in ("tokens", "merges"):
        array = fields.get(f"tokenizer.ggml.{name}")
        found[name] = array.count if isinstance(array, Array) else None
    return found


def _tokenizer_lines(package: GgufPackage) -> Iterator[str]:
    found = _tokenizer(package)
    if found is None:
        yield "; tokenizer: none"
    else:
        pre = f" (pre {quoted(found['pre'])})" if found["pre"] is not None else ""
        counts = "".join(
            f", {found[name]} {name}" for name in ("tokens", "merges") if found[name] is not None
        )
        yield f"; tokenizer: {quoted(found['model'])}{pre}{counts}"
    template = package.fields.get(_TEMPLATE)
    if not isinstance(template, str):
        yield "; template: none"
        return
    lines = template.splitlines()
    yield f"; template: {len(lines)} lines, {len(template)} characters"
    for line in lines[:_LINES]:
        yield f";   {quoted(line)[1:-1] if len(line) <= _TEXT else _cut(line)[1:]}"
    if len(lines) > _LINES:
        yield ";   …"


def _cut(text: str) -> str:
    """The beginning of a long text, in an opening quote."""
    return f"{quoted(text[:_TEXT])[:-1]}…"


def _value(package: GgufPackage, key: str) -> str:
    value = package.fields[key]
    if isinstance(value, str):
        if len(value) <= _TEXT:
            return f"str = {quoted(value)}"
        return f"str = {_cut(value)} ({len(value)} characters)"
    if isinstance(value, Number):
        number: Any = value.value
        if value.dtype == "f32":
            number = np.float32(number)  # gives the shortest text of the narrow type
        return f"{value.dtype} = {value_text(number)}"
    if value.dtype != "str":
        return f"{value.dtype}[{value.count}] = {listing(value.numbers())}"
    texts = [quoted(text) if len(text) <= _TEXT else _cut(text) for text in _first_texts(value)]
    more = ", …" if len(texts) < value.count else ""
    return f"str[{value.count}] = {{ {', '.join(texts)}{more} }}"


def _first_texts(array: Array) -> list[str]:
    """All texts of a short array, the first ones of a long one: the others are not read."""
    count = array.count if array.count <= FULL else ENDS
    return list(islice(array.each_text(count), count))


def _value_json(package: GgufPackage, key: str) -> dict[str, Any]:
    value = package.fields[key]
    if isinstance(value, str):
        return {"type": "str", "value": value}
    if isinstance(value, Number):
        return {"type": value.dtype, "value": plain(value.value)}
    entry: dict[str, Any] = {"type": value.dtype, "shape": [value.count]}
    if value.dtype != "str":
        return entry | listing_json(value.numbers())
    texts = _first_texts(value)
    return entry | {"values" if len(texts) == value.count else "first": texts}
