"""Model packages: `open_model` finds the format, `base.Package` is what every reader gives."""

from __future__ import annotations

import os
from pathlib import Path

from openinfer.runtime.errors import PackageError, UnsupportedError
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


def open_model(path: str | os.PathLike[str], *, copy: bool = False) -> Package:
    """Open the package at `path`: `.oinf`, `.safetensors`, or a folder with `model.safetensors`.

    The first bytes decide, then the extension. The file is mapped and its tables are checked;
    no tensor is read. With `copy` all of it is read into memory, and nothing that happens to the
    file afterwards matters. Raises PackageError for a file that is missing, damaged or of no known
    format, UnsupportedError for one that this build cannot read (GGUF, sharded safetensors).
    """
    try:
        path = Path(path)
    except TypeError:
        raise PackageError(
            "OI0401",
            f"the path of a package is a {type(path).__name__}, not a text",
            hint="give a str or a pathlib.Path",
        ) from None
    if path.is_dir():
        path = _in_folder(path)
    start = _first_bytes(path)
    extension = path.suffix.lower()
    if start.startswith(b"GGUF") or extension == ".gguf":
        raise UnsupportedError(
            "OI0741",
            f"{path}: GGUF packages cannot be read by this version",
            hint="convert the model to .safetensors or .oinf",
        )
    # Readers are imported when a file of their format is opened, to keep the start short.
    if start.startswith(b"OINF") or extension == ".oinf":
        from openinfer.runtime.packages.oinf import OinfPackage

        return OinfPackage(path, copy=copy)
    # The length of a header of less than 4 GiB, then JSON: `dynamic {` is a program.
    if extension == ".safetensors" or start[4:9] == b"\0\0\0\0{":
        from openinfer.runtime.packages.safetensors import SafetensorsPackage

        return SafetensorsPackage(path, copy=copy)
    raise PackageError(
        "OI0402",
        f"{path}: neither an .oinf nor a .safetensors file, it starts with {start[:8]!r}",
        hint="give a model package, or a folder that holds model.safetensors",
    )


def _in_folder(folder: Path) -> Path:
    model = folder / "model.safetensors"
    if model.exists():
        return model
    index = folder / "model.safetensors.index.json"
    if index.exists():
        raise UnsupportedError(
            "OI0741",
            f"{index}: a model in several files cannot be read by this version",
            hint="join its parts into one model.safetensors",
        )
    raise PackageError(
        "OI0401",
        f"{folder}: the folder holds no model.safetensors",
        hint="give the path of the model file itself",
    )


def _first_bytes(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(16)
    except (OSError, ValueError) as error:
        raise PackageError(
            "OI0401",
            f"{path}: cannot be opened: {getattr(error, 'strerror', None) or error}",
            hint="check the path and its permissions",
        ) from None
