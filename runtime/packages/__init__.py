"""Model packages: `open_model` finds the format, `base.Package` is what every reader gives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import cast

from openinfer.runtime.errors import PackageError
from openinfer.runtime.files import open_regular
from openinfer.runtime.packages.base import Package, TensorInfo
from openinfer.runtime.packages.values import Bitset, MetadataValue, QuantParams, ScalarValue

__all__ = [
    "Bitset",
    "MetadataValue",
    "Package",
    "QuantParams",
    "ScalarValue",
    "TensorInfo",
    "open_model",
]

INDEX_SUFFIX = ".safetensors.index.json"
"""How the name of an index of a model in several files ends."""
_SHOWN = 8
"""So many models of a folder a message names."""


def open_model(model: str | os.PathLike[str] | object, *, copy: bool = False) -> Package:
    """Opens the package at a path, or makes one of arrays by name: see `openinfer.open_model`.

    The first bytes of a file decide, then the extension. A file is mapped and its tables are checked; no
    tensor is read. Raises PackageError for a file that is missing, damaged or of no known format, and
    for an entry that is no part of a package, UnsupportedError for what this build cannot read.
    """
    if isinstance(model, Mapping) or (is_dataclass(model) and not isinstance(model, type)):
        from openinfer.runtime.packages.memory import MemoryPackage

        return MemoryPackage(cast(object, model), copy=copy)
    try:
        path = Path(cast(str, model))
    except TypeError:
        raise PackageError(
            "OI0401",
            f"the path of a package is a {type(model).__name__}, not a text",
            hint="give a str, a pathlib.Path, or arrays by name",
        ) from None
    if path.is_dir():
        path = _in_folder(path)
    if path.name.endswith(INDEX_SUFFIX):
        from openinfer.runtime.packages.sharded import ShardedPackage

        return ShardedPackage(path, copy=copy)
    start = _first_bytes(path)
    extension = path.suffix.lower()
    # Readers are imported when a file of their format is opened, to keep the start short.
    if start.startswith(b"GGUF") or extension == ".gguf":
        from openinfer.runtime.packages.gguf import GgufPackage

        return GgufPackage(path, copy=copy)
    if start.startswith(b"OINF") or extension == ".oinf":
        from openinfer.runtime.packages.oinf import OinfPackage

        return OinfPackage(path, copy=copy)
    # The length of a header of less than 4 GiB, then JSON: `dynamic {` is a program.
    if extension == ".safetensors" or start[4:9] == b"\0\0\0\0{":
        from openinfer.runtime.packages.safetensors import SafetensorsPackage

        return SafetensorsPackage(path, copy=copy)
    raise PackageError(
        "OI0402",
        f"{path}: no .oinf, .safetensors or .gguf file, it starts with {start[:8]!r}",
        hint="give a model package, or a folder that holds model.safetensors",
    )


def _in_folder(folder: Path) -> Path:
    """The one model of a folder: by its standard name, or the only package that is no part of another."""
    standard = [folder / name for name in ("model.safetensors", "model" + INDEX_SUFFIX)]
    found = [path for path in standard if path.exists()]
    if not found:
        found = _packages_in(folder)
    if len(found) == 1:
        return found[0]
    if found:
        names = [path.name for path in found[:_SHOWN]]
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise PackageError(
            "OI0417",
            f"{folder}: the folder holds several models: {', '.join(names)}{more}",
            hint="give the path of one of them",
        )
    raise PackageError(
        "OI0401",
        f"{folder}: the folder holds no model: no index, no .safetensors, .oinf or .gguf file",
        hint="give the path of the model file itself",
    )


def _packages_in(folder: Path) -> list[Path]:
    """The indices and package files of a folder, without the files that an index lists."""
    from openinfer.runtime.packages.gguf import is_later_part
    from openinfer.runtime.packages.sharded import read_index

    try:
        paths = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise _cannot_open(folder, error) from None
    indices = [path for path in paths if path.name.endswith(INDEX_SUFFIX)]
    shards = {shard for index in indices for shard in read_index(index)[0].values()}
    kinds = (".oinf", ".safetensors", ".gguf")
    single = [path for path in paths if path.suffix.lower() in kinds and path.name not in shards]
    return [*indices, *(path for path in single if not is_later_part(path.name))]


def _first_bytes(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(16)
    except (OSError, ValueError) as error:
        raise _cannot_open(path, error) from None


def _cannot_open(path: Path, error: Exception) -> PackageError:
    return PackageError(
        "OI0401",
        f"{path}: cannot be opened: {getattr(error, 'strerror', None) or error}",
        hint="check the path and its permissions",
    )
