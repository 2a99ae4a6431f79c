"""Writer of `.oinf` version 2: dataclass instances, mappings, or opened packages.

`write_oinf({"W": array, "width": 64}, path)` takes names: arrays are tensors, integers are sizes,
anything else is metadata.

`write_oinf(instance, path)` takes any dataclass. A field becomes

    SizeVar, or annotated int / SizeVar / Annotated[…, "sizevar"]         a size
    TensorSpec, UninitializedTensor, Tensor, NumPy array,
      list or tuple with a dtype, None with dtype, shape and "tensor"     a tensor
    bool, number, str, ScalarValue, Bitset, list or tuple                 metadata

where dtype, shape and "tensor" come from `field(metadata={…})` or `Annotated`. Attributes named
`sizevars`, `metadata` and `tensors` are dictionaries merged into the tables: `OinfContent` is just
that. The bytes depend on the content alone: tables are sorted, padding is zero.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openinfer.runtime.dtypes import DType
from openinfer.runtime.errors import PackageError
from openinfer.runtime.files import write_file
from openinfer.runtime.packages.base import Package
from openinfer.runtime.packages.mapped import align
from openinfer.runtime.packages.oinf_encode import (
    Blob,
    Entry,
    check_key,
    metadata_entry,
    size,
    string,
    tensor_entry,
)
from openinfer.runtime.packages.oinf_fields import collect
from openinfer.runtime.packages.oinf_format import (
    HAS_DATA,
    HAS_QUANT,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    METADATA_ENTRY,
    VERSION,
)
from openinfer.runtime.packages.values import (
    TensorSpec,
    UninitializedTensor,
)


@dataclass
class OinfContent:
    """Content to write, by name: sizes, metadata values and tensors."""

    sizevars: dict[str, Any] = field(default_factory=dict[str, Any])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    tensors: dict[str, Any] = field(default_factory=dict[str, Any])


def content_of(package: Package) -> OinfContent:
    """Everything in an opened package, as content to write; tensor data stays mapped.

    Raises UnsupportedError for a tensor whose dtype our table lacks.
    """
    content = OinfContent(dict(package.sizes), dict(package.metadata))
    for name, info in package.tensors.items():
        if info.has_data:
            content.tensors[name] = TensorSpec(package.tensor(name), quant=info.quant)
        else:
            content.tensors[name] = UninitializedTensor(info.dtype, info.shape, quant=info.quant)
    return content


def to_oinf_bytes(content: object, *, dtype: DType | None = None) -> bytes:
    """The bytes of an `.oinf` file for a mapping, a dataclass instance, an `OinfContent` or a `Package`.

    With a float `dtype` all float tensors are rounded to it, but for those with a quantisation record.
    Raises PackageError, naming the entry, for content that the format cannot hold, and
    UnsupportedError for a dtype without an `.oinf` id.
    """
    return b"".join(_chunks(content, dtype))


def write_oinf(
    content: object, path: str | os.PathLike[str], *, dtype: DType | None = None
) -> None:
    """Write `to_oinf_bytes(content)` to `path`, replacing it only when all was written."""
    target = Path(path)
    try:
        write_file(target, _chunks(content, dtype))
    except (OSError, ValueError) as error:
        raise PackageError(
            "OI0401",
            f"{target}: cannot be written: {getattr(error, 'strerror', None) or error}",
            hint="check that the folder exists and has room",
        ) from None


def _chunks(content: object, dtype: DType | None) -> Iterator[bytes | memoryview]:
    if isinstance(content, Package):
        content = content_of(content)
    fields = collect(content)
    sizes = {name: size(name, fields.sizes[name]) for name in sorted(fields.sizes)}
    metadata = {
        name: metadata_entry(name, value) for name, value in sorted(fields.metadata.items())
    }
    tensors = {
        name: tensor_entry(name, value, dtype) for name, value in sorted(fields.tensors.items())
    }
    for name in (*sizes, *metadata, *tensors):
        check_key(name)

    size_table = b"".join(string(name) + struct.pack("<Q", value) for name, value in sizes.items())
    offset_sizes = align(HEADER_SIZE)
    offset_metadata = align(offset_sizes + len(size_table))
    # Offsets have fixed widths, so the tables' lengths are known before the offsets are.
    offset_tensors = align(offset_metadata + len(_metadata_table(metadata, {})))
    offset_data = align(offset_tensors + len(_tensor_table(tensors, {})))

    offsets: dict[int, int] = {}
    blobs = [blob for _, blob in metadata.values()]
    blobs += [entry.data for entry in tensors.values() if entry.data]
    blobs += [entry.quant for entry in tensors.values() if entry.quant]
    end = offset_data
    for blob in blobs:
        offsets[id(blob)] = end
        end += align(blob.nbytes)

    header = struct.pack(
        HEADER,
        MAGIC,
        VERSION,
        0,
        len(sizes),
        len(metadata),
        len(tensors),
        0,
        offset_sizes,
        offset_metadata,
        offset_tensors,
        offset_data,
        end,
    )
    tables = header.ljust(offset_sizes, b"\0") + size_table
    tables = tables.ljust(offset_metadata, b"\0") + _metadata_table(metadata, offsets)
    tables = tables.ljust(offset_tensors, b"\0") + _tensor_table(tensors, offsets)
    yield tables.ljust(offset_data, b"\0")
    for blob in blobs:
        yield blob.content()
        yield bytes(align(blob.nbytes) - blob.nbytes)


def _metadata_table(metadata: Mapping[str, tuple[int, Blob]], offsets: Mapping[int, int]) -> bytes:
    return b"".join(
        string(name) + struct.pack(METADATA_ENTRY, kind, 0, blob.nbytes, offsets.get(id(blob), 0))
        for name, (kind, blob) in metadata.items()
    )


def _tensor_table(tensors: Mapping[str, Entry], offsets: Mapping[int, int]) -> bytes:
    parts: list[bytes] = []
    for name, entry in tensors.items():
        flags = (HAS_DATA if entry.data else 0) | (HAS_QUANT if entry.quant else 0)
        places: list[int] = []
        for blob in (entry.data, entry.quant):
            places += [blob.nbytes, offsets.get(id(blob), 0)] if blob else [0, 0]
        rank = len(entry.shape)
        parts.append(
            string(name)
            + struct.pack(f"<3I{rank}Q", entry.dtype.oinf_id, rank, flags, *entry.shape)
            + struct.pack("<4Q", *places)
        )
    return b"".join(parts)
