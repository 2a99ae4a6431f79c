"""The package inside of a compiled program: its sizes, metadata, and the tensors that it uses.

Two sections of the program's file hold it. `package` begins with a u64, the length of a JSON object
(`PackageRows`), and goes on at the next multiple of 8 with the payloads of metadata and quantisation
records, encoded as in `.oinf` files. `weights` holds the stored bytes of tensors, each at a multiple
of 64, to be used where the file is mapped. Offsets are relative to where the payloads begin, and to
the section.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial

from openinfer.runtime.dtypes import PACKAGE_DTYPES
from openinfer.runtime.errors import PackageError
from openinfer.runtime.packages.base import (
    MAX_EXTENT,
    LazyMapping,
    Package,
    TensorInfo,
    check_shape,
)
from openinfer.runtime.packages.mapped import Cursor, MappedFile, align
from openinfer.runtime.packages.oinf_decode import metadata_decoder, read_quant
from openinfer.runtime.packages.oinf_encode import (
    Blob,
    metadata_entry,
    quant_blob,
    tensor_blob,
)
from openinfer.runtime.packages.one_file import OneFilePackage
from openinfer.runtime.packages.values import MetadataValue, QuantParams
from openinfer.runtime.program_file import (
    ALIGNMENT,
    PACKAGE,
    WEIGHTS,
    Container,
    Key,
    Payload,
    Piece,
    Section,
    damaged,
)
from openinfer.runtime.rows import row_of
from openinfer.runtime.storage import block_problem, element_count


@dataclass(frozen=True)
class MetadataRow:
    """A metadata entry; `kind` is the type id of `.oinf`."""

    name: str
    kind: int
    offset: int
    nbytes: int


@dataclass(frozen=True)
class TensorRow:
    """A tensor; without data or record, offset and length are 0."""

    name: str
    dtype: str
    shape: list[int]
    has_data: bool
    offset: int
    nbytes: int
    quant_offset: int = 0
    quant_nbytes: int = 0


@dataclass(frozen=True)
class PackageRows:
    """What the section `package` says."""

    path: str
    """Where the package was that this was taken from, for messages."""
    header_hash: str
    """Of the whole package, so that a program recognises it."""
    sizes: dict[str, int]
    metadata: list[MetadataRow]
    tensors: list[TensorRow]


def package_payloads(package: Package, names: Iterable[str]) -> dict[Key, Payload]:
    """The sections for a package of which a program uses the tensors `names`.

    Raises PackageError when one is absent, UnsupportedError for a dtype that our table lacks.
    """
    payloads: list[Blob] = []
    place = 0

    def put(blob: Blob) -> int:
        nonlocal place
        payloads.append(blob)
        start, place = place, place + align(blob.nbytes)
        return start

    metadata: list[MetadataRow] = []
    for name in sorted(package.metadata):
        kind, blob = metadata_entry(name, package.metadata[name])
        metadata.append(MetadataRow(name, kind, put(blob), blob.nbytes))
    tensors: list[TensorRow] = []
    end = 0
    for name in sorted(set(names) & set(package.tensors)):
        info = package.info(name)
        quant = quant_blob(name, info.quant, info.shape)
        record = (put(quant), quant.nbytes) if quant is not None else (0, 0)
        offset, nbytes = 0, 0
        if info.has_data:
            offset, nbytes = end, info.dtype.nbytes(info.size)
            end = -(-(end + nbytes) // ALIGNMENT) * ALIGNMENT
        row = TensorRow(
            name, info.dtype_name, list(info.shape), info.has_data, offset, nbytes, *record
        )
        tensors.append(row)
    rows = PackageRows(
        package.origin, package.header_hash(), dict(package.sizes), metadata, tensors
    )
    text = json.dumps(asdict(rows), sort_keys=True).encode()
    head = len(text).to_bytes(8, "little") + text
    data = [head.ljust(align(len(head)), b"\0")]
    data += [bytes(blob.data).ljust(align(blob.nbytes), b"\0") for blob in payloads]
    return {
        (PACKAGE, 0): Payload.of(b"".join(data)),
        (WEIGHTS, 0): Payload(end, partial(_weights, package, tensors, end)),
    }


def _weights(package: Package, rows: Iterable[TensorRow], end: int) -> Iterator[Piece]:
    position = 0
    for row in rows:
        if row.has_data:
            yield bytes(row.offset - position)
            yield tensor_blob(package.tensor(row.name)).data
            position = row.offset + row.nbytes
    yield bytes(end - position)


class EmbeddedPackage(OneFilePackage):
    """The package inside of a mapped program.

    Raises ArtefactError OI0802, naming the field, when its description contradicts the file.
    """

    def __init__(self, file: MappedFile, container: Container) -> None:
        self.path = file.path
        self.format = "oip"
        self._file = file
        data = container.read(PACKAGE)
        section = container.sections[PACKAGE, 0]
        weights = container.find(WEIGHTS)
        if weights is None:
            raise damaged("it has a package without weights")
        length = int.from_bytes(data[:8], "little")
        if length > len(data) - 8:
            raise damaged(f"the package's description has {length} bytes")
        try:
            self._rows = row_of(PackageRows, json.loads(data[8 : 8 + length]))
            self._read(section, section.offset + align(8 + length), weights)
        except (PackageError, ValueError, RecursionError) as error:
            message = error.message if isinstance(error, PackageError) else str(error)
            raise damaged(f"the package in it: {message}") from None

    @property
    def origin(self) -> str:
        """Where the package was that this was taken from."""
        return self._rows.path

    def header_hash(self) -> str:
        """That of the package which this was taken from."""
        return self._rows.header_hash

    def _read(self, section: Section, payloads: int, weights: Section) -> None:
        rows = self._rows
        for name, size in rows.sizes.items():
            if not 0 <= size <= MAX_EXTENT:
                raise ValueError(f"size {name} is {size}")
        self.sizes = rows.sizes
        area = Section(payloads, max(section.offset + section.length - payloads, 0), b"")
        decoders: dict[str, Callable[[], MetadataValue]] = {}
        for row in rows.metadata:
            what = f"metadata {row.name!r}"
            start = _place(area, row.offset, row.nbytes, 8, what)
            cursor = Cursor(self._file, start, start + row.nbytes, "metadata")
            cursor.entry = repr(row.name)
            decoders[row.name] = metadata_decoder(cursor, row.kind, row.nbytes)
        self.metadata = LazyMapping(decoders, lambda name: decoders[name]())
        self._offsets: dict[str, int] = {}
        self.tensors = {row.name: self._tensor(row, area, weights) for row in rows.tensors}
        if len(decoders) != len(rows.metadata) or len(self.tensors) != len(rows.tensors):
            raise ValueError("a name occurs twice")

    def _tensor(self, row: TensorRow, area: Section, weights: Section) -> TensorInfo:
        what = f"tensor {row.name!r}"
        if row.dtype not in PACKAGE_DTYPES:
            raise ValueError(f"{what} has the unknown dtype {row.dtype!r:.40}")
        dtype, shape = PACKAGE_DTYPES[row.dtype], tuple(row.shape)
        problem = check_shape(shape, dtype.bits) if all(n >= 0 for n in shape) else "negative dims"
        problem = problem or block_problem(dtype, shape)
        if problem:
            raise ValueError(f"{what}: {problem}")
        if row.has_data:
            if row.nbytes != dtype.nbytes(element_count(shape)):
                raise ValueError(f"{what} has {row.nbytes} bytes, which do not fit its shape")
            self._offsets[row.name] = _place(weights, row.offset, row.nbytes, ALIGNMENT, what)
        quant: QuantParams | None = None
        if row.quant_nbytes:
            start = _place(area, row.quant_offset, row.quant_nbytes, 8, f"record of {what}")
            cursor = Cursor(self._file, start, start + row.quant_nbytes, "tensor")
            cursor.entry = repr(row.name)
            quant = read_quant(cursor, row.quant_nbytes, start, shape)
        return TensorInfo(row.name, row.dtype, shape, row.nbytes, row.has_data, quant)


def _place(section: Section, offset: int, nbytes: int, alignment: int, what: str) -> int:
    """The place in the file of a part of a section, checked."""
    if offset < 0 or nbytes < 0 or offset % alignment or offset + nbytes > section.length:
        raise ValueError(f"{what} lies at {offset}, with {nbytes} bytes of {section.length}")
    return section.offset + offset
