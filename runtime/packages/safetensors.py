"""Reader of `.safetensors` packages, with the `config.json` that stands beside them.

The header is validated by the `safetensors` library and parsed again here, since the library gives
no offsets: with them a tensor is a view of the mapped file. Integers of `config.json` are sizes,
its other numbers, bools and texts are metadata; so are the texts of the header's `__metadata__`
where `config.json` has no such key.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from openinfer.runtime.dtypes import BY_SAFETENSORS, DTYPES
from openinfer.runtime.errors import PackageError
from openinfer.runtime.files import read_bytes
from openinfer.runtime.packages.base import MAX_EXTENT, TensorInfo, check_shape
from openinfer.runtime.packages.mapped import REWRITE, MappedFile
from openinfer.runtime.packages.one_file import OneFilePackage
from openinfer.runtime.packages.values import MetadataValue, ScalarValue
from openinfer.runtime.storage import element_count, round_values

_HEADER_LIMIT = 100_000_000
"""Longest header that the format allows."""
_CONFIG_LIMIT = 16_000_000


class SafetensorsPackage(OneFilePackage):
    """An opened `.safetensors` file. Raises PackageError, naming the field, when it is damaged."""

    def __init__(self, path: Path, *, copy: bool = False, config: bool = True) -> None:
        """Without `config`, what stands beside the file is not read: it is one of several."""
        self.path = path
        self.format = "safetensors"
        self._file = MappedFile(path, copy=copy)
        try:
            header, start = _read_header(self._file)
            texts = _header_metadata(self._file, header.pop("__metadata__", None))
            self._offsets: dict[str, int] = {}
            self.tensors = self._read_entries(header, start)
            self.sizes, self.metadata = config_beside(path) if config else ({}, {})
            for key, text in texts.items():
                if key not in self.sizes:
                    self.metadata.setdefault(key, text)
            _validate(path)
        except BaseException:
            self._file.close()
            raise

    def _read_entries(self, header: dict[str, Any], start: int) -> dict[str, TensorInfo]:
        room = self._file.size - start
        tensors: dict[str, TensorInfo] = {}
        for name, entry in header.items():
            if not isinstance(entry, dict):
                raise _fail(self._file, f"tensor {name!r} is no object")
            kind, extents, places = (entry.get(k) for k in ("dtype", "shape", "data_offsets"))
            if not isinstance(kind, str):
                raise _fail(self._file, f"dtype of tensor {name!r} is no text")
            shape = _integers(extents)
            if shape is None:
                raise _fail(self._file, f"shape of tensor {name!r} is not a list of integers >= 0")
            offsets = _integers(places)
            if offsets is None or len(offsets) != 2 or not offsets[0] <= offsets[1] <= room:
                raise _fail(
                    self._file,
                    f"data_offsets of tensor {name!r} are {places!r:.60}, they must lie in "
                    f"0..{room}, begin before end",
                )
            row = BY_SAFETENSORS.get(kind)
            problem = check_shape(shape, row.bits if row else 8)
            if problem:
                raise _fail(self._file, f"shape of tensor {name!r}: {problem}")
            nbytes = offsets[1] - offsets[0]
            if row is not None and nbytes != row.nbytes(element_count(shape)):
                raise _fail(
                    self._file,
                    f"data_offsets of tensor {name!r} span {nbytes} bytes, {row}{list(shape)} "
                    f"takes {row.nbytes(element_count(shape))}",
                )
            self._offsets[name] = start + offsets[0]
            tensors[name] = TensorInfo(name, row.name if row else kind, shape, nbytes)
        return dict(sorted(tensors.items()))


def _fail(file: MappedFile, message: str) -> PackageError:
    return PackageError("OI0409", f"{file.path}: header: {message}", hint=REWRITE)


def _integers(value: Any) -> tuple[int, ...] | None:
    """A JSON list of integers in 0..2**63-1 as a tuple, None when it is something else."""
    if not isinstance(value, list):
        return None
    numbers: list[Any] = value
    if all(type(n) is int and 0 <= n <= MAX_EXTENT for n in numbers):
        return tuple(numbers)
    return None


def _read_header(file: MappedFile) -> tuple[dict[str, Any], int]:
    """The header's object and the offset where data starts."""
    if file.size < 8:
        raise _fail(file, f"its length takes 8 bytes, the file has {file.size}")
    length = int.from_bytes(file.bytes(0, 8), "little")
    if length > min(_HEADER_LIMIT, file.size - 8):
        raise _fail(file, f"its length is {length}, the file has {file.size - 8} bytes after it")
    try:
        header = json_object(file.bytes(8, length))
    except (ValueError, RecursionError) as error:
        raise _fail(file, f"is no JSON: {error}") from None
    if not isinstance(header, dict):
        raise _fail(file, "is no JSON object")
    return header, 8 + length


def json_object(data: bytes) -> Any:
    """JSON whose objects have no key twice. Raises ValueError or RecursionError."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise ValueError("a key occurs twice in an object")
        return result

    return json.loads(data.decode("utf-8"), object_pairs_hook=unique)


def _header_metadata(file: MappedFile, value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise _fail(file, "__metadata__ is no object of texts")
    return value


def _validate(path: Path) -> None:
    """Let the format's own library judge the file (holes, overlaps, trailing bytes)."""
    # Imported here: its absence from a program that only reads .oinf costs nothing.
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy"):
            pass
    except (SafetensorError, OSError, ValueError) as error:
        raise PackageError(
            "OI0409", f"{path}: refused by safetensors: {error}", hint=REWRITE
        ) from None


def config_beside(model: Path) -> tuple[dict[str, int], dict[str, MetadataValue]]:
    """Sizes and metadata of the `config.json` beside a model, empty when there is none.

    Raises PackageError OI0410.
    """
    path = model.with_name("config.json")
    sizes: dict[str, int] = {}
    metadata: dict[str, MetadataValue] = {}
    try:
        if not path.is_file():
            return sizes, metadata
        config = json_object(read_bytes(path, _CONFIG_LIMIT))
        if not isinstance(config, dict):
            raise ValueError("it holds no object")
    except (OSError, ValueError, RecursionError) as error:
        raise PackageError(
            "OI0410",
            f"{path}: not a usable configuration: {error}",
            hint="repair the JSON, or move the file away from the model",
        ) from None
    for key, value in config.items():
        if type(value) is int and 0 <= value <= MAX_EXTENT:
            sizes[key] = value
        elif isinstance(value, bool):
            metadata[key] = ScalarValue(value, DTYPES["bool"])
        elif type(value) is int and -MAX_EXTENT <= value < 0:
            metadata[key] = ScalarValue(value, DTYPES["i64"])
        elif isinstance(value, int | float):
            metadata[key] = ScalarValue(_as_f32(value), DTYPES["f32"])
        elif isinstance(value, str):
            metadata[key] = value
    return sizes, metadata


def _as_f32(value: int | float) -> float:
    """The f32 that an `.oinf` writer would store for the number."""
    try:
        wide = float(value)
    except OverflowError:
        wide = math.inf if value > 0 else -math.inf
    return float(round_values(DTYPES["f32"], wide))
