"""Settings, initial values, hints and cache accesses of a graph JSON, as pieces of syntax."""

from __future__ import annotations

import json
import math

import numpy as np

from openinfer.compiler.frontend import syntax
from openinfer.compiler.graph_json.positions import Json
from openinfer.compiler.graph_json.schema import Schema
from openinfer.dialects.graph.syntax import OPEN
from openinfer.runtime.dtypes import DTYPES, PACKAGE_DTYPES, DType
from openinfer.runtime.storage import storage_dtype, to_values

JSON_DTYPES = {row.json: row for row in DTYPES.values()}
_WITH_BLOCKS = {row.json: row for row in PACKAGE_DTYPES.values()}
"""The names of what a package may hold, too."""
"""Dtypes under the names that graph JSON has for them."""
SPELLED_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
"""Floats that JSON has no number for, and the strings that stand for them."""
BITS = ("f16", "bf16", "f8", "f8e4m3")
"""Floats that are written as their bits, as packed dtypes are."""
_VALUES = (
    "Float", "Double", "Int", "UInt", "Bool", "Str", "IntList", "Var", "DType", "DTypeList",
    "List", "Expr", "Literal",
)  # fmt: skip


class ValueReader(Schema):
    """Reads the forms that stand for values."""

    # Settings.

    def settings(self, value: Json, what: str) -> tuple[syntax.Setting, ...]:
        """`[{"name": …, "value": …}]`."""
        found: list[syntax.Setting] = []
        for item in self.items(value, what):
            members = self.fields(item, f"an item of {what}", ("name", "value"))
            name = self.name(members["name"], "the name")
            found.append(syntax.Setting(name, self.value(members["value"])))
        return tuple(found)

    def value(self, value: Json) -> syntax.Value:
        """One of the tagged forms of a setting's value."""
        tag, content = self.variant(value, "value", _VALUES)
        if content is None:
            raise self.refuse(value, f"value {json.dumps(tag)} has no content")
        match tag:
            case "Float" | "Double" | "Literal":
                return syntax.Literal(self.number(content, tag), value.span)
            case "Int" | "UInt":
                least = 0 if tag == "UInt" else -(2**63)
                most = 2**64 - 1 if tag == "UInt" else 2**63 - 1
                return syntax.Literal(self.whole(content, tag, least, most), value.span)
            case "Bool":
                return syntax.Literal(self.flag(content, tag), value.span)
            case "Str":
                return syntax.Literal(self.text(content, tag), value.span)
            case "Var":
                return self.name(content, tag)
            case "DType":
                return self.dtype(content)
            case "Expr":
                return self.expression(content, tag)
            case "IntList":
                numbers = [
                    syntax.Literal(self.whole(i, "an item", -(2**63), 2**63 - 1), i.span)
                    for i in self.items(content, tag)
                ]
                return syntax.ListValue(tuple(numbers), value.span)
            case "DTypeList":
                names = [self.dtype(item) for item in self.items(content, tag)]
                return syntax.ListValue(tuple(names), value.span)
            case _:
                items = [self.value(item) for item in self.items(content, tag)]
                return syntax.ListValue(tuple(items), value.span)

    def number(self, value: Json, what: str) -> float:
        """A float: a number, or one of the strings for what JSON has no number for."""
        if value.kind in ("int", "float"):
            assert isinstance(value.scalar, int | float)
            return float(value.scalar)
        spelled = SPELLED_FLOATS.get(str(value.scalar)) if value.kind == "string" else None
        if spelled is not None:
            return spelled
        if value.kind == "null":
            raise self.refuse(
                value,
                f"{what} is null: the original writes inf, -inf and nan so, and which one it was "
                "is lost",
                fix='write "inf", "-inf" or "nan"',
            )
        fix = 'write a number, "inf", "-inf" or "nan"'
        raise self.refuse(value, f"{what} must be a number, found {value}", fix)

    def dtype(self, value: Json) -> syntax.Name:
        """`"F32"` as the name `f32`."""
        text = self.text(value, "a dtype")
        if text == OPEN:
            return syntax.Name(OPEN, value.span)
        row = _WITH_BLOCKS.get(text)
        if row is None:
            near = JSON_DTYPES.get(text.upper()) or JSON_DTYPES.get(text.capitalize())
            fix = f'write "{near.json}"' if near else f"known are {', '.join(JSON_DTYPES)}"
            raise self.refuse(value, f"unknown dtype {json.dumps(text)}", fix)
        return syntax.Name(row.name, value.span)

    # Initial values.

    def initial(self, value: Json, declared: str) -> syntax.Literal:
        """`{"F32": 5.0}`, `{"F16": {"bits": 15360}}`."""
        tag, content = self.variant(value, "initial value", JSON_DTYPES)
        dtype = JSON_DTYPES[tag]
        if dtype.name != declared:
            wanted = DTYPES[declared].json if declared in DTYPES else declared
            raise self.refuse(
                value, f"the initial value is {tag}, the variable is {wanted}", f'write "{wanted}"'
            )
        if content is None:
            raise self.refuse(value, f"initial value {json.dumps(tag)} has no content")
        if content.kind == "object":
            bits = self.fields(content, f"a {tag}", ("bits",))["bits"]
            most = 2 ** max(8, dtype.bits) - 1
            return syntax.Literal(
                value_of_bits(dtype, self.whole(bits, "bits", 0, most)), value.span
            )
        if dtype.is_float:
            return syntax.Literal(self.number(content, tag), value.span)
        if content.kind == "bool":
            return syntax.Literal(bool(content.scalar), value.span)
        return syntax.Literal(self.whole(content, tag), value.span)

    # Uses of caches.

    def access(self, value: Json, what: str) -> syntax.Ref:
        """`{"base": "K", "indices": […], "bracketed": true}`."""
        members = self.fields(value, what, ("base", "indices", "bracketed"))
        base = self.name(members["base"], "base")
        slots = [self.slot(item) for item in self.items(members["indices"], "indices")]
        bracketed = self.flag(members["bracketed"], "bracketed")
        if slots and not bracketed:
            raise self.refuse(
                members["bracketed"], "an access with indices has brackets", "write true"
            )
        return syntax.Ref(base, tuple(slots) if bracketed else None, value.span)

    def slot(self, value: Json) -> syntax.Expr | syntax.Slice:
        """`{"Single": V}` or `{"Slice": {"start": V, "end": V}}`."""
        tag, content = self.variant(value, "index", ("Single", "Slice"))
        if content is None:
            raise self.refuse(value, f"index {json.dumps(tag)} has no content")
        if tag == "Single":
            return self.bound(content)
        ends = self.fields(content, "a slice", (), ("start", "end"))
        start, stop = (
            self.bound(ends[key]) if key in ends and ends[key].kind != "null" else None
            for key in ("start", "end")
        )
        return syntax.Slice(start, stop, value.span)

    def bound(self, value: Json) -> syntax.Expr:
        """`{"Ident": "l"}`, `{"Lit": -3}` or `{"Expr": "step + 1"}`."""
        tag, content = self.variant(value, "index value", ("Ident", "Lit", "Expr"))
        if content is None:
            raise self.refuse(value, f"index value {json.dumps(tag)} has no content")
        if tag == "Ident":
            return self.name(content, tag)
        if tag == "Lit":
            return self.integer(self.whole(content, tag, -(2**63), 2**63 - 1), value.span)
        return self.expression(content, tag)


def value_of_bits(dtype: DType, bits: int) -> float | int | bool:
    """The value that the low bits of a number stand for."""
    bits &= (1 << dtype.bits) - 1
    raw = np.array([bits], np.uint64).view(np.uint8)[: max(1, dtype.bits // 8)]
    storage = raw.copy().view(storage_dtype(dtype))
    found = to_values(dtype, storage, (1,)).reshape(-1)[0].item()
    assert isinstance(found, float | int | bool)
    return found
