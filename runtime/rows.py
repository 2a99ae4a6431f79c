"""Dataclasses as JSON data, and back with every value checked against its annotation.

For descriptions that come from files: a list where a number should be is refused here, with its
place, and not met later as a TypeError in the middle of a step.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from openinfer.runtime.sizes import Size

T = TypeVar("T")
Reader = Callable[[Any], Any]


def row_of(kind: type[T], data: object) -> T:
    """An instance of the dataclass `kind` from JSON data.

    Fields may be annotated with str, int, float, bool, None, Any, unions of these, Size (a text), a
    StrEnum, other dataclasses, and lists, tuples and dicts of such. A field with a default may be
    missing; what is of a dataclass already stays.
    Raises ValueError that names the place of the first value that does not fit.
    """
    try:
        return _reader(kind)(data)
    except _Misfit as misfit:
        raise ValueError(str(misfit)) from None


def plain_data(value: Any) -> Any:
    """What `row_of` makes such a value from: objects, lists, texts and numbers."""
    if isinstance(value, Size | StrEnum):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {row.name: plain_data(getattr(value, row.name)) for row in fields(value) if row.init}
    if isinstance(value, Mapping):
        return {name: plain_data(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(item) for item in value]
    return value


class _Misfit(Exception):
    """A value that does not fit; its place is put together on the way out."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.place: list[str] = []

    def inside(self, part: str) -> _Misfit:
        self.place.insert(0, part)
        return self

    def __str__(self) -> str:
        place = "".join(self.place).removeprefix(".")
        return f"{place or 'it'} {self.message}"


@cache
def _reader(annotation: Any) -> Reader:
    """What checks and converts a value of an annotation; made once, since loading is waited for."""
    origin = get_origin(annotation)
    if annotation is Any:
        return lambda data: data
    if origin in (Union, types.UnionType):
        return _union(get_args(annotation))
    if origin is list:
        return _list(*get_args(annotation))
    if origin is tuple:
        return _tuple(get_args(annotation))
    if origin in (dict, Mapping):
        return _dict(get_args(annotation)[1])
    if annotation is Size:
        text = _plain(str)
        return lambda data: Size.of(text(data))
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return _word(annotation)
    if is_dataclass(annotation):
        return _row(cast(type, annotation))
    return _plain(annotation)


def _plain(kind: type) -> Reader:
    # JSON has one number type: an integer may stand where a float is wanted, a bool nowhere else.
    accepted = (int, float) if kind is float else (kind,)

    def read(data: Any) -> Any:
        if type(data) in accepted:
            return data
        raise _Misfit(f"is {_shown(data)}, not {_NAMES.get(kind, str(kind))}")

    return read


def _word(kind: type[StrEnum]) -> Reader:
    words = {str(word): word for word in kind}

    def read(data: Any) -> Any:
        if type(data) is not str or data not in words:
            raise _Misfit(f"is {_shown(data)}, not one of {', '.join(words)}")
        return words[data]

    return read


def _union(members: tuple[Any, ...]) -> Reader:
    optional = types.NoneType in members
    readers = [_reader(member) for member in members if member is not types.NoneType]

    def read(data: Any) -> Any:
        if data is None and optional:
            return None
        failure: _Misfit | None = None
        for reader in readers:
            try:
                return reader(data)
            except _Misfit as misfit:
                failure = misfit
        raise failure or _Misfit(f"is {_shown(data)}, not null")

    return read


def _list(item: Any) -> Reader:
    reader = _reader(item)

    def read(data: Any) -> list[Any]:
        if type(data) is not list:
            raise _Misfit(f"is {_shown(data)}, not a list")
        found: list[Any] = []
        try:
            for value in data:
                found.append(reader(value))
        except _Misfit as misfit:
            raise misfit.inside(f"[{len(found)}]") from None
        return found

    return read


def _tuple(items: tuple[Any, ...]) -> Reader:
    if items[-1] is ...:
        many = _list(items[0])
        return lambda data: tuple(many(data))
    readers = [_reader(item) for item in items]

    def read(data: Any) -> tuple[Any, ...]:
        if type(data) is not list:
            raise _Misfit(f"is {_shown(data)}, not a list")
        if len(data) != len(readers):
            raise _Misfit(f"has {len(data)} items, not {len(readers)}")
        return tuple(reader(value) for reader, value in zip(readers, data))

    return read


def _dict(item: Any) -> Reader:
    reader = _reader(item)

    def read(data: Any) -> dict[str, Any]:
        if type(data) is not dict:
            raise _Misfit(f"is {_shown(data)}, not an object")
        found: dict[str, Any] = {}
        name = ""
        try:
            for name, value in data.items():
                found[name] = reader(value)
        except _Misfit as misfit:
            raise misfit.inside(f".{name:.60}") from None
        return found

    return read


def _row(kind: type) -> Reader:
    hints = get_type_hints(kind)
    rows = [row for row in fields(kind) if row.init]
    readers = {row.name: _reader(hints[row.name]) for row in rows}
    required = [
        row.name for row in rows if row.default is MISSING and row.default_factory is MISSING
    ]

    def read(data: Any) -> Any:
        if isinstance(data, kind):
            return data
        if type(data) is not dict:
            raise _Misfit(f"is {_shown(data)}, not an object")
        values: dict[str, Any] = {}
        name = ""
        try:
            for name, value in data.items():
                reader = readers.get(name)
                if reader is None:
                    raise _Misfit("is unknown")
                values[name] = reader(value)
        except _Misfit as misfit:
            raise misfit.inside(f".{name:.60}") from None
        for name in required:
            if name not in values:
                raise _Misfit("is missing").inside(f".{name}")
        return kind(**values)

    return read


_NAMES: dict[type, str] = {
    str: "a text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
}


def _shown(data: object) -> str:
    if isinstance(data, dict):
        return "an object"
    if isinstance(data, list):
        return "a list"
    text = repr(data)
    return text if len(text) <= 40 else f"{text[:40]}…"
