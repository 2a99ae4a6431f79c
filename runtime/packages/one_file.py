"""Packages that are one mapped file, whose tensors lie at known places of it."""

from __future__ import annotations

from collections.abc import Callable

from openinfer.runtime.dtypes import DType
from openinfer.runtime.packages.base import Package, TensorInfo
from openinfer.runtime.packages.mapped import MappedFile
from openinfer.runtime.storage import AnyArray


class OneFilePackage(Package):
    """What such a package does with its file; the reader of a format says where the tensors are."""

    _file: MappedFile
    _offsets: dict[str, int]
    """Where the data of each tensor begins, in bytes from the start of the file."""

    def data_identity(self) -> str:
        return self._file.identity()

    def guard(self) -> Callable[[], None] | None:
        return self._file.guard()

    def give_back(self, name: str) -> None:
        """See `Package.give_back`."""
        self._file.give_back(self.read(name))

    def close(self) -> None:
        self._file.close()

    def _storage(self, info: TensorInfo, dtype: DType) -> AnyArray:
        field = f"data of tensor {info.name!r}"
        return self._file.array(dtype, info.shape, self._offsets[info.name], field)
