"""The interface of model packages, and what every format shares.

A package is a memory-mapped file of named sizes, metadata and tensors. Opening checks every
length, offset and count of the file's tables; metadata is decoded and tensor bytes are touched
only when they are asked for.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar, cast

from openinfer.runtime.dtypes import PACKAGE_DTYPES, DType
from openinfer.runtime.errors import InputError, PackageError, UnsupportedError
from openinfer.runtime.packages.values import Bitset, MetadataValue, QuantParams, ScalarValue
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.storage import AnyArray, converted, element_count
from openinfer.runtime.suggest import did_you_mean
from openinfer.runtime.tensors import Tensor

MAX_RANK = 64
"""Most dimensions that a tensor may have: NumPy's own bound."""
MAX_EXTENT = (1 << 63) - 1
"""Largest size, extent and byte count: what a signed 64-bit index can hold."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class TensorInfo:
    """What a package says about a tensor, known without reading it."""

    name: str
    dtype_name: str
    """Our name of the dtype, or the format's own name when we have no such dtype."""
    shape: tuple[int, ...]
    nbytes: int
    """Stored bytes, 0 when the tensor is declared without data."""
    has_data: bool = True
    quant: QuantParams | None = None

    @property
    def supported(self) -> bool:
        """True when `dtype_name` is in our dtype table."""
        return self.dtype_name in PACKAGE_DTYPES

    @property
    def dtype(self) -> DType:
        """The row of the dtype table. Raises UnsupportedError when there is none."""
        if not self.supported:
            raise UnsupportedError(
                "OI0742",
                f"tensor {self.name!r} has dtype {self.dtype_name}, which openinfer lacks",
                hint=f"convert the tensor to one of: {', '.join(PACKAGE_DTYPES)}",
            )
        return PACKAGE_DTYPES[self.dtype_name]

    @property
    def size(self) -> int:
        """Number of elements."""
        return element_count(self.shape)


class LazyMapping(Mapping[str, T]):
    """Names known now, values decoded on first use and kept."""

    def __init__(self, names: Iterable[str], decode: Callable[[str], T]) -> None:
        self._names = dict.fromkeys(names)
        self._decode = decode
        self._decoded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._decoded:
            self._decoded[name] = self._decode(name)
        return self._decoded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Package(ABC):
    """An opened model package; use as a context manager or call `close()`.

    Arrays that were read stay valid after `close()`: they keep the mapping alive.
    """

    path: Path
    format: str
    """Short name of the file format, as in `oinf 2`."""
    sizes: Mapping[str, int]
    metadata: Mapping[str, MetadataValue]
    """Decoded on first use; a damaged entry raises PackageError then."""
    tensors: Mapping[str, TensorInfo]

    @abstractmethod
    def _storage(self, info: TensorInfo, dtype: DType) -> AnyArray:
        """The stored array of a tensor that has data, whose dtype is `dtype`."""

    @abstractmethod
    def data_identity(self) -> str:
        """A key that changes whenever the files on disk are replaced or rewritten."""

    def guard(self) -> Callable[[], None] | None:
        """What raises PackageError OI0414 once the files have changed; None where they were copied.

        To be called before views of them are read that were taken earlier; it outlives `close`.
        """
        return None

    @property
    def origin(self) -> str:
        """The path of the package as its user knows it."""
        return os.fspath(self.path)

    @abstractmethod
    def close(self) -> None:
        """Release the files; reading afterwards raises PackageError. May be called again."""

    def info(self, name: str) -> TensorInfo:
        """The entry of tensor or metadata array `name`; a tensor comes first.

        Raises PackageError, with near names, when there is none.
        """
        found = self.tensors.get(name) or self.array_info(name)
        if found is None:
            raise PackageError(
                "OI0407",
                f"{self.path}: there is no tensor named {name!r}",
                hint=near_names(name, self.tensors),
            )
        return found

    def array_info(self, name: str) -> TensorInfo | None:
        """Metadata `name` as a tensor, None unless it is an array or a bit array.

        A bit array counts as bools. Raises PackageError when the entry is damaged.
        """
        if name not in self.metadata:
            return None
        value = self.metadata[name]
        if isinstance(value, Bitset):
            return TensorInfo(name, "bool", (len(value),), len(value))
        if isinstance(value, Tensor):
            return TensorInfo(name, value.dtype.name, value.shape, value.nbytes)
        return None

    def read(self, name: str) -> AnyArray:
        """The storage array of tensor or metadata array `name`: a read-only view of the file.

        Shape and storage dtype follow the entry; packed dtypes give 1-D uint8, block formats rows of
        bytes. The array is a copy
        only where the file holds it unaligned for its dtype. Raises PackageError for a name that
        is absent or has no data, UnsupportedError for a dtype that our table lacks.
        """
        info = self.info(name)
        if not info.has_data:
            raise PackageError(
                "OI0408",
                f"{self.path}: tensor {name!r} is declared without data",
                hint="give the variable an @init, or write the tensor with data",
            )
        if name not in self.tensors:
            value = self.metadata[name]
            return value.bits if isinstance(value, Bitset) else cast(Tensor, value).storage
        return self._storage(info, info.dtype)

    def tensor(self, name: str) -> Tensor:
        """Tensor or metadata array `name` with dtype and shape; the storage is that of `read`."""
        storage = self.read(name)
        info = self.info(name)
        return Tensor(info.dtype, info.shape, storage)

    def tensor_as(self, name: str, dtype: DType) -> Tensor:
        """Tensor or metadata array `name` with its values in another dtype, floats rounded once.

        A view of the file where it holds that dtype. Only for dtypes that `holds_all_of` allows.
        """
        found = self.tensor(name)
        if found.dtype == dtype:
            return found
        return Tensor(dtype, found.shape, converted(found.dtype, found.storage, found.shape, dtype))

    def give_back(self, name: str) -> None:
        """Says that tensor `name` was read for the last time for now: the memory that shows it may go.

        Views of it stay right: the file is read again. Nothing, where a package is no mapped file.
        """
        del name

    def header_hash(self) -> str:
        """SHA-256 of all that a compiler may look at: sizes, metadata, names, dtypes, shapes.

        Tensor data, offsets, order and the path do not count, so rewriting a file keeps the hash.
        """
        digest = hashlib.sha256()
        for name in sorted(self.sizes):
            digest.update(_framed("size", name, str(self.sizes[name])))
        for name in sorted(self.metadata):
            digest.update(_framed("metadata", name, *_metadata_key(self.metadata[name])))
        for name in sorted(self.tensors):
            info = self.tensors[name]
            shape = " ".join(str(extent) for extent in info.shape)
            digest.update(_framed("tensor", name, info.dtype_name, shape, str(info.has_data)))
            if info.quant is not None:
                digest.update(_framed("quant", *_quant_key(info.quant)))
        return digest.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.format} package {os.fspath(self.path)!r}: {len(self.tensors)} tensors>"


ModelLike: TypeAlias = "Package | Mapping[str, Any]"
"""What serves as a model: an opened package, or arrays by name."""


def checked_package(model: object) -> Package | None:
    """The package, that of a mapping from names to arrays, or None.

    Raises InputError OI0525 for anything else, PackageError OI0412 for an entry that is no weight.
    """
    if model is None or isinstance(model, Package):
        return model
    if isinstance(model, Mapping):
        from openinfer.runtime.packages.memory import MemoryPackage

        return MemoryPackage(cast("object", model))
    hint = "open it with open_model: openinfer.open_model(path), or give arrays by name"
    if hasattr(model, "state_dict"):
        hint = "give its tensors by name: model.state_dict()"
    raise InputError(
        "OI0525", f"model is a {type(model).__name__}, not an opened package", hint=hint
    )


def near_names(name: str, known: Iterable[str]) -> str:
    """A hint that lists the names closest to `name`."""
    names = list(known)
    guess = did_you_mean(name, names, 3, quote="'").rstrip()
    if guess:
        return guess
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return f"it has: {shown}" if names else "the package holds none"


def check_shape(shape: tuple[int, ...], bits: int) -> str | None:
    """Why no array of this shape can exist, or None. Zero extents do not excuse the others."""
    if len(shape) > MAX_RANK:
        return f"{len(shape)} dimensions, at most {MAX_RANK} are possible"
    nonzero = element_count([extent for extent in shape if extent])
    if nonzero * max(bits, 8) // 8 > MAX_EXTENT:
        return "the dimensions multiply to more than 2**63 bytes"
    return None


def _framed(*parts: str | bytes) -> bytes:
    """Each part with its length, so that no two sequences give the same bytes."""
    framed = bytearray()
    for part in (*parts, ""):
        data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        framed += len(data).to_bytes(8, "little") + data
    return bytes(framed)


def _metadata_key(value: MetadataValue) -> tuple[str | bytes, ...]:
    if isinstance(value, ScalarValue):
        return ("scalar", str(value.dtype), repr(value.value))
    if isinstance(value, str):
        return ("str", value)
    if isinstance(value, Bitset):
        return ("bitset", str(len(value)), value.to_bytes())
    shape = " ".join(str(extent) for extent in value.shape)
    return ("array", str(value.dtype), shape, value.storage.tobytes())


def _quant_key(quant: QuantParams) -> tuple[str | bytes, ...]:
    parts: list[str | bytes] = [quant.scheme]
    for part in (quant.scale, quant.zero_point):
        if part is not None:
            parts += [part.mode, str(part.axis), part.values.tobytes()]
    return tuple(parts)
