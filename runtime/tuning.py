"""Measured schedules: what `openinfer tune` finds and `compile(…, tuning=…)` uses, tiles of products and
numbers of the processor.

A file of them is JSON and can be copied with a program. It names the kind of processor; a program
that is compiled for another kind gets the default schedules, as every shape does that it lacks.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, cast

from openinfer.runtime.errors import InputError
from openinfer.runtime.files import read_text, write_text
from openinfer.runtime.microarchitecture import Microarchitecture
from openinfer.runtime.quick_dataclass import dataclass

FORMAT = 1
CACHED = "cache"
"""Stands for the file in the cache folder."""
_TEXT_LIMIT = 16 << 20
_LIMITS = {"vectors": 8, "rows": 32, "depth": 1 << 20}


@dataclass(frozen=True)
class Tile:
    """How one product is cut up."""

    vectors: int
    """Vectors of a panel, and of a register tile."""
    rows: int
    """Rows of a register tile."""
    depth: int | None = None
    """Steps of the contraction that are done at once; 0: all of them, None: as by default."""

    @property
    def text(self) -> str:
        """`8x2`, and the block of the contraction where there is one."""
        block = {None: "", 0: " whole"}.get(self.depth, f" by {self.depth}")
        return f"{self.rows}x{self.vectors}{block}"


def product_key(rows: int | None, depth: int | None, columns: int | None, dtype: str) -> str:
    """`?x768x3072 f32`: rows, contraction and columns, `?` for what only a step knows."""
    shown = ("?" if extent is None else str(extent) for extent in (rows, depth, columns))
    return f"{'x'.join(shown)} {dtype}"


@dataclass(frozen=True)
class Tuning:
    """Tiles by `product_key`, for one kind of processor."""

    target: str
    """"avx512", "avx2" or "generic"."""
    cpu: str
    """The processor that they were measured on, for people."""
    tiles: Mapping[str, Tile] = field(default_factory=dict[str, Tile])
    machine: Microarchitecture | None = None
    """Numbers of the processor, where they were measured."""

    @property
    def identity(self) -> str:
        """A text that is equal where the same tiles are chosen: part of the key of a program."""
        choices = (self._choices(), None if self.machine is None else asdict(self.machine))
        digest = hashlib.sha256(json.dumps(choices, sort_keys=True).encode())
        return f"{self.target}-{digest.hexdigest()[:16]}"

    def _choices(self) -> dict[str, object]:
        return {key: asdict(tile) for key, tile in sorted(self.tiles.items())}

    def merged(self, newer: Tuning) -> Tuning:
        """These tiles and newer ones of the same target, which win."""
        tiles = {**self.tiles, **newer.tiles}
        return Tuning(newer.target, newer.cpu, tiles, newer.machine or self.machine)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file whole or not at all. Raises InputError OI0556."""
        target = Path(path)
        data: dict[str, object] = {
            "format": FORMAT,
            "target": self.target,
            "cpu": self.cpu,
            "products": self._choices(),
        }
        if self.machine is not None:
            data["machine"] = asdict(self.machine)
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_text(target, json.dumps(data, indent=1) + "\n")
        except OSError as error:
            raise _refused(path, str(error.strerror or error)) from None

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Tuning:
        """Reads a file. Raises InputError OI0556 for one that cannot be read or is none."""
        try:
            data: Any = json.loads(read_text(path, _TEXT_LIMIT))
        except OSError as error:
            raise _refused(path, str(error.strerror or error)) from None
        except (ValueError, RecursionError) as error:
            raise _refused(path, f"is not JSON: {error}") from None
        if not isinstance(data, dict):
            raise _refused(path, "is no object")
        content = cast("dict[str, Any]", data)
        if content.get("format") != FORMAT:
            raise _refused(path, f"has format {content.get('format')!r}, not {FORMAT}")
        target, cpu, products = (content.get(name) for name in ("target", "cpu", "products"))
        if not isinstance(target, str) or not isinstance(cpu, str):
            raise _refused(path, "names no target and cpu")
        if not isinstance(products, dict):
            raise _refused(path, "has no object `products`")
        rows = cast("dict[str, Any]", products)
        tiles = {key: _tile(path, key, row) for key, row in rows.items()}
        return Tuning(target, cpu, tiles, _machine(path, content.get("machine")))


def _machine(path: str | os.PathLike[str], found: object) -> Microarchitecture | None:
    if found is None:
        return None
    if not isinstance(found, dict):
        raise _refused(path, "has something else than an object as `machine`")
    try:
        return Microarchitecture.of(cast("dict[str, object]", found))
    except ValueError as error:
        raise _refused(path, f"machine: {error}") from None


def _tile(path: str | os.PathLike[str], key: str, row: object) -> Tile:
    values = cast("dict[str, object]", row) if isinstance(row, dict) else {}
    found: dict[str, int | None] = {}
    for name, limit in _LIMITS.items():
        value = values.get(name)
        least = 0 if name == "depth" else 1
        optional = name == "depth" and value is None
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not optional and not (whole and least <= value <= limit):  # pyright: ignore
            raise _refused(path, f"products[{key!r}].{name} is {value!r}, not {least}..{limit}")
        found[name] = cast("int | None", value)
    return Tile(found["vectors"] or 1, found["rows"] or 1, found["depth"])


def _refused(path: str | os.PathLike[str], message: str) -> InputError:
    return InputError(
        "OI0556", f"{os.fspath(path)}: {message}", hint="`openinfer tune` writes such files"
    )


def cached_path(target: str) -> Path:
    """The file in the cache folder for a kind of processor on this machine."""
    from openinfer.runtime.cache import default_cache
    from openinfer.runtime.host import cpu_identity

    return default_cache().place() / f"tuning-{target}-{cpu_identity()}.json"


def tuning_for(source: str | os.PathLike[str] | None, target: str) -> Tuning | None:
    """The tuning of a file, or of the cache folder, for a kind of processor.

    None where none is asked for, where the cache has none, or where it is for another kind.
    Raises InputError OI0556 for a file that cannot be used.
    """
    if source is None:
        return None
    if os.fspath(source) == CACHED:
        path = cached_path(target)
        if not path.is_file():
            return None
        source = path
    found = Tuning.load(source)
    return found if found.target == target else None
