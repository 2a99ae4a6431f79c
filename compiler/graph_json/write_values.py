"""Settings, initial values, hints and cache accesses as graph JSON has them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute

from openinfer.compiler.frontend.printer import size_text
from openinfer.compiler.graph_json.read_values import BITS
from openinfer.dialects import graph, opset
from openinfer.dialects.graph.syntax import OPEN
from openinfer.runtime.dtypes import ALIASES, PACKAGE_DTYPES, DType
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import to_storage

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
"""What JSON text is made of."""

ORIGINAL_SETTINGS = {("relu", "negative_slope"): "alpha"}
"""Settings that the original knows under another name than ours."""


def dtype_json(name: str) -> str:
    """`f32` as `"F32"`."""
    return OPEN if name == OPEN else PACKAGE_DTYPES[ALIASES.get(name, name)].json


def float_json(number: float) -> float | str:
    """A float, or the string that stands for what JSON has no number for."""
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return number


def is_bool(value: IntegerAttr) -> bool:
    """Whether an integer attribute is true or false."""
    return getattr(value.type, "bitwidth", 0) == 1


# Settings.


def settings_json(op: graph.OpOp) -> dict[str, Plain]:
    """The `attrs` of an op."""
    name = op.op_name.data
    spec = opset.find(name)
    items: list[Plain] = []
    for key, value in op.settings.data.items():
        setting = spec.setting(key) if spec is not None else None
        dtypes = setting is not None and setting.kind in ("dtype", "dtypes")
        written = ORIGINAL_SETTINGS.get((name, key), key)
        items.append({"name": written, "value": value_json(value, dtypes=dtypes)})
    return {"items": items}


def hints_json(entries: Mapping[str, Attribute]) -> list[Plain]:
    """Hints, in the form of settings."""
    return [{"name": name, "value": value_json(value)} for name, value in entries.items()]


def value_json(value: Attribute, *, dtypes: bool = False) -> dict[str, Plain]:
    """A value with its tag; with `dtypes` a name is a dtype.

    Raises TypeError for an attribute that is no value of the language.
    """
    match value:
        case IntegerAttr():
            number = value.value.data
            if is_bool(value):
                return {"Bool": bool(number)}
            return {"Int" if -(2**63) <= number < 2**63 else "UInt": number}
        case FloatAttr():
            return {"Double": float_json(value.value.data)}
        case StringAttr():
            return {"Str": value.data}
        case graph.NameAttr():
            return {"DType": dtype_json(value.data)} if dtypes else {"Var": value.data}
        case graph.SizeAttr():
            return {"Expr": size_text(value.data)}
        case ArrayAttr(data=items):
            return _list_json(items, dtypes)
        case _:
            raise TypeError(f"{value} is no value of a setting")


def _list_json(items: tuple[Attribute, ...], dtypes: bool) -> dict[str, Plain]:
    if items and dtypes and all(isinstance(item, graph.NameAttr) for item in items):
        return {"DTypeList": [value_json(item, dtypes=True)["DType"] for item in items]}
    values = [value_json(item, dtypes=dtypes) for item in items]
    if all("Int" in value for value in values):
        return {"IntList": [value["Int"] for value in values]}
    return {"List": [*values]}


# Declarations.


def initial_json(value: Attribute, dtype: DType) -> dict[str, Plain]:
    """`{"F32": 5.0}`; packed and 16- and 8-bit floats as their bits."""
    assert isinstance(value, IntegerAttr | FloatAttr)
    number = value.value.data
    content: Plain
    if dtype.packed or dtype.kind == "bitset" or dtype.name in BITS:
        content = {"bits": bits_of_value(dtype, number)}
    elif dtype.is_float:
        content = float_json(float(number))
    elif dtype.kind == "bool":
        content = bool(number)
    else:
        content = int(number)
    return {dtype.json: content}


def bits_of_value(dtype: DType, value: float | int) -> int:
    """The bits of a value, as a number of the dtype's width."""
    stored = to_storage(dtype, np.array([value]))
    raw = int.from_bytes(stored.tobytes(), "little")
    return raw & ((1 << dtype.bits) - 1)


def attribute_json(name: str, value: Attribute) -> dict[str, Plain]:
    """An attribute that the original does not know, as it was declared."""
    if not isinstance(value, ArrayAttr):
        return {"name": name}
    arguments: list[Plain] = []
    for item in value.data:
        if isinstance(item, DictionaryAttr):
            for key, entry in item.data.items():
                arguments.append({"Named": {"name": key, "value": value_json(entry)}})
        else:
            arguments.append(value_json(item, dtypes=name == "dtype"))
    return {"name": name, "arguments": arguments}


# Uses of caches.


def access_json(ref: graph.RefAttr) -> dict[str, Plain]:
    """`{"base": "K", "indices": […], "bracketed": true}`."""
    indices: list[Plain] = []
    for index in ref.indices:
        if isinstance(index, graph.SliceAttr):
            bounds = {"start": index.start, "end": index.stop}
            ends: dict[str, Plain] = {
                key: _bound_json(bound.data) if isinstance(bound, graph.SizeAttr) else None
                for key, bound in bounds.items()
            }
            indices.append({"Slice": ends})
        else:
            assert isinstance(index, graph.SizeAttr)
            indices.append({"Single": _bound_json(index.data)})
    bracketed = bool(ref.bracketed.data)
    return {"base": ref.variable.data, "indices": indices, "bracketed": bracketed}


def _bound_json(size: Size) -> dict[str, Plain]:
    if size.constant is not None:
        return {"Lit": size.constant}
    if size.single_name is not None:
        return {"Ident": size.single_name}
    return {"Expr": size_text(size)}
