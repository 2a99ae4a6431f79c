"""Sorts the fields of a dataclass instance, or a mapping, into sizes, metadata and tensors."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from openinfer.runtime.errors import PackageError
from openinfer.runtime.packages.values import (
    ScalarValue,
    SizeVar,
    TensorSpec,
    UninitializedTensor,
)
from openinfer.runtime.tensors import is_array

_TABLES = ("sizevars", "metadata", "tensors")


@dataclass(frozen=True)
class Fields:
    """What a content object holds, by final name."""

    sizes: dict[str, Any]
    metadata: dict[str, Any]
    tensors: dict[str, Any]


def collect(content: object) -> Fields:
    """Sizes, metadata and tensors of a dataclass instance, or of a mapping from names to values.

    In a mapping an integer is a size; everything else is what a field with that value becomes.
    Raises PackageError for anything else, for a name that occurs twice in a table, and for a
    field that has no meaning in a package.
    """
    if isinstance(content, Mapping) and not dataclasses.is_dataclass(content):
        return _collect_mapping(cast(Mapping[object, Any], content))
    if not dataclasses.is_dataclass(content) or isinstance(content, type):
        raise PackageError(
            "OI0412",
            f"cannot write {content!r:.80} as a package",
            hint="give a dictionary from names to arrays, an instance of a dataclass, an OinfContent "
            "or an opened package",
        )
    fields = Fields({}, {}, {})
    # Attributes count whether or not they are declared as fields.
    for name, value in _table(content, "sizevars").items():
        fields.sizes[name] = value.value if isinstance(value, SizeVar) else value
    fields.metadata.update(_table(content, "metadata"))
    for name, value in _table(content, "tensors").items():
        _add_tensor(fields, name, value)
    hints = _hints(type(content))
    for field in dataclasses.fields(content):
        if field.name not in _TABLES:
            value = getattr(content, field.name)
            base, extras = _annotation(hints.get(field.name, field.type))
            _sort(fields, field.name, value, base, {**extras, **field.metadata})
    return fields


def _collect_mapping(content: Mapping[object, Any]) -> Fields:
    """What `{"W": array, "b": array, "width": 64, "eps": 1e-5}` holds."""
    fields = Fields({}, {}, {})
    for name, value in content.items():
        if not isinstance(name, str):
            raise PackageError(
                "OI0412",
                f"{name!r:.80} is no name of an entry",
                hint="names are texts, as in {'W': array}",
            )
        integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
        _sort(fields, name, value, int if integer else None, {})
    return fields


def _sort(fields: Fields, name: str, value: Any, base: object, extras: Mapping[str, Any]) -> None:
    if isinstance(value, SizeVar):
        _add(fields.sizes, name, value.value, "size")
    elif extras.get("sizevar") or base in (int, SizeVar, "int", "SizeVar"):
        _add(fields.sizes, name, value, "size")
    elif isinstance(value, TensorSpec | UninitializedTensor) or is_array(value):
        _add_tensor(fields, name, _with_dtype(value, extras))
    elif isinstance(value, list | tuple) and ("dtype" in extras or extras.get("tensor")):
        _add_tensor(fields, name, TensorSpec(value, extras.get("dtype")))
    elif value is None and extras.get("tensor") and "dtype" in extras and "shape" in extras:
        _add_tensor(fields, name, UninitializedTensor(extras["dtype"], tuple(extras["shape"])))
    elif value is None:
        raise PackageError(
            "OI0412",
            f"entry {name!r} is None",
            hint="give it a value, or UninitializedTensor(dtype, shape) for a tensor without data; "
            'as a field of a dataclass also metadata={"tensor": True, "dtype": …, "shape": …}',
        )
    elif isinstance(value, bool | int | float) and "dtype" in extras:
        _add(fields.metadata, name, ScalarValue(value, extras["dtype"]), "metadata")
    elif isinstance(value, ScalarValue) and value.dtype is None and "dtype" in extras:
        _add(fields.metadata, name, ScalarValue(value.value, extras["dtype"]), "metadata")
    else:
        _add(fields.metadata, name, value, "metadata")


def _with_dtype(value: Any, extras: Mapping[str, Any]) -> Any:
    """An array with the dtype that its field asks for; a `TensorSpec` says it itself."""
    if "dtype" in extras and is_array(value):
        return TensorSpec(value, extras["dtype"])
    return value


def _add_tensor(fields: Fields, name: str, value: Any) -> None:
    own = value.name if isinstance(value, TensorSpec | UninitializedTensor) else None
    _add(fields.tensors, own or name, value, "tensor")


def _add(table: dict[str, Any], name: str, value: Any, kind: str) -> None:
    if name in table:
        raise PackageError(
            "OI0412", f"the {kind} name {name!r} occurs twice", hint="rename one of the two"
        )
    table[name] = value


def _table(content: object, name: str) -> dict[str, Any]:
    value = getattr(content, name, {})
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise PackageError(
            "OI0412",
            f"attribute {name!r} must be a dictionary with names as keys",
            hint="rename the attribute if it is not meant as a table",
        )
    return value


def annotations_of(owner: type) -> dict[str, object]:
    """The base type that each field of a dataclass is annotated with."""
    hints = _hints(owner)
    return {
        row.name: _annotation(hints.get(row.name, row.type))[0] for row in dataclasses.fields(owner)
    }


def _hints(owner: type) -> dict[str, Any]:
    try:
        return get_type_hints(owner, include_extras=True)
    except (NameError, TypeError):
        return {}  # a name that is not in reach here: the text of the annotation has to do


def _annotation(annotation: Any) -> tuple[Any, dict[str, Any]]:
    """Base type and extras: strings are flags, dictionaries are merged; Optional is looked into."""
    extras: dict[str, Any] = {}
    if get_origin(annotation) is Annotated:
        annotation, *parts = get_args(annotation)
        for part in parts:
            if isinstance(part, str):
                extras[part] = True
            elif isinstance(part, dict):
                extras.update(part)
    if get_origin(annotation) in (Union, types.UnionType):
        inner = [part for part in get_args(annotation) if part is not type(None)]
        if len(inner) == 1:
            annotation = inner[0]
    return annotation, extras
