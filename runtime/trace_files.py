"""Trace files: written whole or not at all, and read with everything checked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from openinfer.runtime.errors import InputError, Location
from openinfer.runtime.files import write_text
from openinfer.runtime.trace import FORMATS, KINDS, LANES, Event, chrome_trace, trace_json


def trace_text(events: Iterable[Event], format: str = "json") -> str:
    """The text of a trace file. Raises InputError OI0554 for an unknown format."""
    if format not in FORMATS:
        raise InputError(
            "OI0554",
            f"there is no trace format {format!r}",
            hint=f"the formats are {' and '.join(FORMATS)}",
        )
    return chrome_trace(events) if format == "chrome" else trace_json(events) + "\n"


def write_trace(
    events: Iterable[Event], path: str | os.PathLike[str], format: str = "json"
) -> None:
    """Writes a trace file. Raises InputError OI0554 when it cannot be written."""
    text = trace_text(events, format)
    try:
        target = Path(path)
    except TypeError:
        raise InputError(
            "OI0554",
            f"the path of a trace is a {type(path).__name__}, not a text",
            hint="give a str or a pathlib.Path",
        ) from None
    try:
        write_text(target, text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError("OI0554", f"{target}: {reason}", hint="choose another path") from None


def read_trace(text: str, file: str = "the trace") -> list[Event]:
    """The events of a trace file of format "json", also of one with the seven fields only.

    Raises InputError OI0555 that names the entry and the field that is wrong.
    """
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused(file, "", f"is not JSON: {error}") from None
    if isinstance(data, dict) and "traceEvents" in data:
        raise InputError(
            "OI0555",
            f"{file} is a trace for Perfetto",
            hint="open it at ui.perfetto.dev, or write one with --trace-format json",
        )
    if not isinstance(data, list):
        raise _refused(file, "", f"is {_shown(data)}, not an array of events")
    return [_event(_Entry(file, i, row)) for i, row in enumerate(data)]


def _refused(file: str, place: str, message: str) -> InputError:
    where = f"{file}: {place}" if place else file
    return InputError(
        "OI0555", f"{where} {message}", hint="docs/trace.md describes the fields of a trace"
    )


class _Entry:
    """One object of the array, with checked access to its fields."""

    def __init__(self, file: str, number: int, row: object) -> None:
        self.file = file
        self.place = f"[{number}]"
        if not isinstance(row, dict):
            raise _refused(file, self.place, f"is {_shown(row)}, not an object")
        self.row: Mapping[str, Any] = row

    def wrong(self, key: str, what: str) -> InputError:
        found = _shown(self.row[key]) if key in self.row else "missing"
        return _refused(self.file, f"{self.place}.{key}", f"is {found}, not {what}")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.row.get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, "a string")
        return value

    def whole(self, key: str, default: int | None = None, least: int = 0) -> int:
        value = self.row.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**63:
            raise self.wrong(key, "a whole number")
        return value

    def texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        value = self.row.get(key, default)
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise self.wrong(key, "an array of strings")
        return tuple(value)

    def micros(self) -> int:
        """The duration in nanoseconds."""
        value = self.row.get("micros")
        if not isinstance(value, list) or len(value) != 3 or not all(_is_small(n) for n in value):
            raise self.wrong("micros", "[milliseconds, microseconds, nanoseconds]")
        milliseconds, microseconds, nanoseconds = value
        return (milliseconds * 1000 + microseconds) * 1000 + nanoseconds

    def entries(self, key: str) -> Mapping[str, Any]:
        value = self.row.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "an object")
        return value

    def location(self) -> Location | None:
        """`FILE:LINE:COLUMN`."""
        text = self.text("location", "")
        return self._place("location", text) if text else None

    def places(self) -> tuple[Location, ...]:
        return tuple(self._place("places", text) for text in self.texts("places", ()))

    def _place(self, key: str, text: str) -> Location:
        file, _, column = text.rpartition(":")
        file, _, line = file.rpartition(":")
        numbers = line + column
        fits = line and column and numbers.isascii() and numbers.isdecimal() and len(numbers) < 19
        if not file or not fits:
            raise self.wrong(key, "FILE:LINE:COLUMN")
        return Location(file, int(line), int(column))

    def wholes(self, key: str) -> tuple[int, ...]:
        value = self.row.get(key, [])
        if not isinstance(value, list) or not all(
            type(n) is int and -1 <= n < 2**63 for n in value
        ):
            raise self.wrong(key, "an array of whole numbers")
        return tuple(value)


def _event(entry: _Entry) -> Event:
    kind = entry.text("kind")
    if kind not in KINDS:
        raise entry.wrong("kind", f"one of {', '.join(KINDS)}")
    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape in entry.entries("shapes").items():
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            raise entry.wrong("shapes", "arrays of extents by name")
        shapes[name] = tuple(shape)
    dtypes = entry.entries("dtypes")
    if not all(isinstance(dtype, str) for dtype in dtypes.values()):
        raise entry.wrong("dtypes", "names of dtypes by name")
    lane = entry.text("lane", LANES[0])
    if lane not in LANES:
        raise entry.wrong("lane", f"one of {', '.join(LANES)}")
    index, uuid = entry.whole("node_index", least=-1), entry.text("node_uuid")
    return Event(
        kind,
        entry.text("block_name"),
        index,
        uuid,
        op_name=entry.text("op", ""),
        description=entry.text("text", ""),
        params=entry.texts("params"),
        output=entry.texts("output"),
        shapes=shapes,
        dtypes=dict(dtypes),
        settings=dict(entry.entries("settings")),
        start_ns=entry.whole("start_ns", 0),
        duration_ns=entry.micros(),
        location=entry.location(),
        nodes=entry.texts("nodes", ()),
        indices=entry.wholes("indices"),
        places=entry.places(),
        kernel=entry.text("kernel", ""),
        scope=entry.text("scope", ""),
        calls=entry.texts("calls", ()),
        step=entry.whole("step", 0),
        lane=lane,
    )


def _is_small(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**40


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
