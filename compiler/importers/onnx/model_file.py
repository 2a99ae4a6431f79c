"""ONNX models from files and from memory, checked, with their weights where they lie.

model.onnx ──wire──▶ what is left without large tensors ──protobuf──▶ ModelProto ──file_checks──▶ ModelFile
    └─────────── mapped ◀── tensors: spans of the file, or of files beside it ◀── ModelFile.tensor ──┘
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from openinfer.compiler.importers.onnx.external_data import ExternalData
from openinfer.compiler.importers.onnx.file_checks import check_model
from openinfer.compiler.importers.onnx.file_tensors import read_tensor
from openinfer.compiler.importers.onnx.wire import Span, WireError, without_tensors
from openinfer.compiler.tools.extras import missing_library
from openinfer.runtime.errors import PackageError
from openinfer.runtime.files import AnyPath, open_regular
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.tensors import Tensor

_LIMIT = (1 << 31) - 1
"""Bytes of a protocol buffer, which its library does not read beyond."""
_HINT = "is it an ONNX file, and all of it? Fetch or write it again"


@dataclass
class ModelFile:
    """A model that was checked."""

    proto: Any
    """The ModelProto. Large `raw_data` of its graph's initializers is not in it: ask `tensor`."""
    name: str
    """The file, for messages."""
    opsets: dict[str, int]
    """Version of each operator set by domain; "" is that of ONNX itself."""
    external: ExternalData
    _bytes: AnyArray | None = None
    _inside: dict[str, Span] = field(default_factory=dict[str, Span])
    """Where the data of an initializer lies in the file, by name."""

    def tensor(self, tensor: Any) -> Tensor:
        """The values of a TensorProto of this model, not copied where they lie aligned in a file.

        Files must not be written to while they are in use. Raises PackageError OI1553 and OI1554,
        UnsupportedError OI1557 for element types that we lack.
        """
        span = None
        if self._bytes is not None and not tensor.HasField("raw_data"):
            span = self._inside.get(tensor.name)
        inside = self._bytes[span.start : span.stop] if self._bytes is not None and span else None
        return read_tensor(
            tensor, f"{self.name}: tensor {tensor.name[:200]!r}", self.external, inside
        )


def load_model(source: AnyPath | bytes | Any, *, folder: AnyPath | None = None) -> ModelFile:
    """A model from its file, its bytes or a ModelProto; external data lies in `folder`, else beside it.

    Raises PackageError (OI1550 to OI1556, OI0401), naming the place, for what is damaged; UnsupportedError
    OI1557 for what we lack, OI0734 without the library `onnx`. Nothing is read of files beside it yet.
    """
    try:
        import onnx
    except ImportError:
        raise missing_library("onnx", "import") from None
    if isinstance(source, onnx.ModelProto):
        where = Path(folder) if folder is not None else None
        opsets = check_model(source, "model", {})
        return ModelFile(source, "model", opsets, ExternalData(where))
    if isinstance(source, bytes | bytearray | memoryview):
        name, data = "model", np.frombuffer(source, np.uint8)
        beside = Path(folder) if folder is not None else None
    else:
        path = Path(source)
        name, data = os.fspath(path), _mapped(path)
        beside = Path(folder) if folder is not None else path.parent
    proto, spans = _parsed(data, name)
    opsets = check_model(proto, name, spans)
    inside = {proto.graph.initializer[index].name: span for index, span in spans.items()}
    return ModelFile(proto, name, opsets, ExternalData(beside), data, inside)


def _mapped(path: Path) -> AnyArray:
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise PackageError("OI1550", f"{path}: the file is empty", hint=_HINT)
            return np.asarray(np.memmap(file, np.uint8, "r"))
    except OSError as error:
        raise PackageError(
            "OI0401",
            f"{path}: cannot be opened: {error.strerror}",
            hint="check the path and its permissions",
        ) from None


def _parsed(data: AnyArray, name: str) -> tuple[Any, dict[int, Span]]:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        rest, spans = without_tensors(data.data)
        if len(rest) > _LIMIT:
            raise WireError(f"it has more than {_LIMIT} bytes without its weights")
        proto = onnx.ModelProto()
        proto.ParseFromString(rest)
    except (WireError, DecodeError) as error:
        raise PackageError("OI1550", f"{name}: no ONNX model: {error}", hint=_HINT) from None
    if any(index >= len(proto.graph.initializer) for index in spans):
        raise PackageError("OI1550", f"{name}: no ONNX model", hint=_HINT)
    return proto, spans
