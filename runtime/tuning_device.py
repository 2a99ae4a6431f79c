"""Measured tiles of products on devices: what `openinfer tune --device vulkan` finds.

They are data by device: `devices/vulkan/tiles.json`, which belongs to openinfer, and a file in the cache
folder for each device that was measured here, whose rows win. Both have one form:

    {"format": 1, "devices": {"NVIDIA H200": {
        "128x384x1536 f16 transposed matrices": {
            "tile": [32, 64, 192, 32, 16, 2], "driver": "NVIDIA 580.159.04", "date": "2026-11-24"}}}}

A row without a tile (null) says that the default was the quickest. A product without a row gets the default
of the device's limits.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, Final, cast

from openinfer.runtime.errors import InputError
from openinfer.runtime.files import read_text, write_text
from openinfer.runtime.quick_dataclass import dataclass

FORMAT: Final = 1
COMMITTED: Final = Path(__file__).parent / "devices" / "vulkan" / "tiles.json"
"""The table that belongs to openinfer."""
MOST: Final = 4096
"""Of each number of a tile."""
_TEXT_LIMIT = 16 << 20
_PRODUCT = re.compile(r"(\d+)x(\d+)x(\d+) (f16|f32|f64)( transposed)?( matrices| workgroup)?")


@dataclass(frozen=True, order=True)
class DeviceProduct:
    """A product of matrices, as a table of tiles names it."""

    rows: int
    """Of all batches, where they share the right operand."""
    depth: int
    columns: int
    dtype: str
    """Of both operands."""
    transposed: bool = False
    """Whether the right operand lies as [columns, depth]."""
    matrices: bool = False
    """Whether subgroups multiply matrices: their tiles are others."""
    workgroup: bool = False
    """Whether a workgroup does, as a whole."""

    def __str__(self) -> str:
        """`128x384x1536 f16 transposed matrices`."""
        by = " matrices" * self.matrices + " workgroup" * self.workgroup
        more = " transposed" * self.transposed + by
        return f"{self.rows}x{self.depth}x{self.columns} {self.dtype}{more}"

    @staticmethod
    def of(text: str) -> DeviceProduct | None:
        """What a text names; None where it names none."""
        found = _PRODUCT.fullmatch(text)
        if found is None:
            return None
        rows, depth, columns = (int(found[number]) for number in (1, 2, 3))
        by = {"matrices": found[6] == " matrices", "workgroup": found[6] == " workgroup"}
        product = DeviceProduct(rows, depth, columns, found[4], found[5] is not None, **by)
        return product if str(product) == text else None


@dataclass(frozen=True, order=True)
class DeviceTile:
    """What a workgroup computes of a product at once."""

    rows: int
    columns: int
    depth: int
    """Steps of the sum between two barriers."""
    each_row: int
    each_column: int
    """Rows and columns of a subgroup, where it multiplies matrices or is a part of a workgroup that does;
    else of an invocation."""
    along: int = 1
    """Subgroups that share rows and columns, and have a part of the steps each."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """All of them, in order."""
        return self.rows, self.columns, self.depth, self.each_row, self.each_column, self.along

    def __str__(self) -> str:
        """`128x192 by 32, each 64x48`."""
        along = f", {self.along} along" if self.along > 1 else ""
        return (
            f"{self.rows}x{self.columns} by {self.depth}, each {self.each_row}x{self.each_column}"
            f"{along}"
        )

    @staticmethod
    def of(numbers: object) -> DeviceTile | None:
        """The tile of five or six numbers from 1 to `MOST`; None for anything else."""
        values = list(cast("list[object]", numbers)) if isinstance(numbers, list) else []
        if len(values) not in (5, 6) or any(
            not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MOST for n in values
        ):
            return None
        return DeviceTile(*cast("list[int]", values))


DeviceTiles = Mapping[DeviceProduct, DeviceTile]


def identity_of(tiles: DeviceTiles) -> str:
    """A text that is equal where the same tiles are chosen: part of the key of a program."""
    if not tiles:
        return "none"
    rows = [f"{product}: {tiles[product].numbers}" for product in sorted(tiles)]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Measured:
    """A row of a table: the quickest tile of a product, and where that was seen."""

    tile: DeviceTile | None
    """None: the default of the device's limits."""
    driver: str
    date: str
    """As 2026-11-24."""
    default_us: float | None = None
    """Microseconds of the default,"""
    best_us: float | None = None
    """and of the tile, where they were kept."""
    note: str = ""
    """What else is known of the measurement, for people."""


@dataclass(frozen=True)
class DeviceTable:
    """Rows by the name of a device, and by product."""

    devices: Mapping[str, Mapping[DeviceProduct, Measured]]

    def rows_of(self, device: str) -> Mapping[DeviceProduct, Measured]:
        """Those of a device; none where it has none."""
        return self.devices.get(device, {})

    def with_row(self, device: str, product: DeviceProduct, row: Measured) -> DeviceTable:
        """The same with another row."""
        rows = {**self.rows_of(device), product: row}
        return replace(self, devices={**self.devices, device: rows})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file whole or not at all. Raises InputError OI0556."""
        target = Path(path)
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_text(target, self._text())
        except OSError as error:
            raise _refused(path, str(error.strerror or error)) from None

    def _text(self) -> str:
        """JSON with a row on a line."""
        devices: list[str] = []
        for device, rows in sorted(self.devices.items()):
            lines = [
                f"{json.dumps(str(product))}: {json.dumps(_entry(rows[product]))}"
                for product in sorted(rows)
            ]
            devices.append(f"{json.dumps(device)}: {{\n  " + ",\n  ".join(lines) + "\n }")
        return f'{{"format": {FORMAT}, "devices": {{\n ' + ",\n ".join(devices) + "\n}}\n"

    @staticmethod
    def load(path: str | os.PathLike[str]) -> DeviceTable:
        """Reads a file. Raises InputError OI0556 for one that cannot be read or is none."""
        try:
            data: Any = json.loads(read_text(path, _TEXT_LIMIT))
        except OSError as error:
            raise _refused(path, str(error.strerror or error)) from None
        except (ValueError, RecursionError) as error:
            raise _refused(path, f"is not JSON: {error}") from None
        content = _object(path, "the file", data)
        if content.get("format") != FORMAT:
            raise _refused(path, f"has format {content.get('format')!r}, not {FORMAT}")
        devices = _object(path, "`devices`", content.get("devices"))
        return DeviceTable({name: _rows(path, name, rows) for name, rows in devices.items()})


def _entry(row: Measured) -> dict[str, object]:
    found: dict[str, object] = {
        "tile": list(row.tile.numbers) if row.tile is not None else None,
        "driver": row.driver,
        "date": row.date,
    }
    for name in ("default_us", "best_us", "note"):
        if getattr(row, name):
            found[name] = getattr(row, name)
    return found


def _rows(
    path: str | os.PathLike[str], device: str, value: object
) -> Mapping[DeviceProduct, Measured]:
    found: dict[DeviceProduct, Measured] = {}
    for key, row in _object(path, f"the rows of {device!r}", value).items():
        product = DeviceProduct.of(key)
        if product is None:
            raise _refused(path, f"names no product: {key!r}")
        found[product] = _row(path, f"{device!r}, {key!r}", row)
    return found


def _row(path: str | os.PathLike[str], where: str, value: object) -> Measured:
    row = _object(path, where, value)
    numbers = row.get("tile", ())
    tile = DeviceTile.of(numbers)
    if tile is None and numbers is not None:
        raise _refused(path, f"{where}: tile is no list of 5 or 6 numbers from 1 to {MOST}")
    texts = [row.get(name) for name in ("driver", "date")] + [row.get("note", "")]
    if not all(isinstance(text, str) for text in texts):
        raise _refused(path, f"{where}: driver, date and note are texts")
    default, best = row.get("default_us"), row.get("best_us")
    for time in (default, best):
        if time is not None and not (_is_number(time) and time >= 0):
            raise _refused(path, f"{where}: {time!r} is no time in microseconds")
    driver, day, note = cast("list[str]", texts)
    return Measured(tile, driver, day, default, best, note)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _object(path: str | os.PathLike[str], what: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _refused(path, f"{what} is no object")
    return cast("dict[str, Any]", value)


def _refused(path: str | os.PathLike[str], message: str) -> InputError:
    return InputError(
        "OI0556",
        f"{os.fspath(path)}: {message}",
        hint="`openinfer tune --device vulkan` writes such files; without the file the defaults hold",
    )


def today() -> str:
    """The date of a row."""
    return date.today().isoformat()


def own_path(device: str) -> Path:
    """The file in the cache folder for a device."""
    from openinfer.runtime.cache import default_cache

    name = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    digest = hashlib.sha256(device.encode()).hexdigest()[:8]
    return default_cache().place() / f"tiles-{name[:60]}-{digest}.json"


@cache
def _committed() -> DeviceTable:
    return DeviceTable.load(COMMITTED)


def tiles_of(device: str, more: str | os.PathLike[str] | None = None) -> DeviceTiles:
    """What is known of a device: openinfer's rows, over them those of the cache folder, over them those of a
    file. Raises InputError OI0556 for a file that cannot be used."""
    from openinfer.runtime.cache import default_cache

    rows = dict(_committed().rows_of(device))
    own = own_path(device)
    if default_cache().enabled and own.is_file():
        rows.update(DeviceTable.load(own).rows_of(device))
    if more is not None:
        rows.update(DeviceTable.load(more).rows_of(device))
    return {product: row.tile for product, row in rows.items() if row.tile is not None}
