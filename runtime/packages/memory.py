"""A model in memory: names and arrays instead of a file."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from openinfer.runtime.dtypes import DType
from openinfer.runtime.manifest import IN_MEMORY
from openinfer.runtime.packages.base import Package, TensorInfo
from openinfer.runtime.packages.oinf_encode import described, metadata_value, size
from openinfer.runtime.packages.oinf_fields import collect
from openinfer.runtime.storage import AnyArray

_numbers = count()


class MemoryPackage(Package):
    """The tensors, sizes and metadata of a mapping or a dataclass instance, as `write_oinf` takes it.

    Arrays are borrowed where they lie as weights must: nobody may write into them while the package or
    what was made of it is in use, unless they were copied (`copy`). Raises PackageError OI0412, naming
    the entry, for what is no part of a package.
    """

    def __init__(self, content: object, *, copy: bool = False) -> None:
        self.path = Path(IN_MEMORY)
        self.format = "memory"
        self._identity = f"memory {next(_numbers)}"
        fields = collect(content)
        self.sizes = {name: size(name, fields.sizes[name]) for name in sorted(fields.sizes)}
        self.metadata = {
            name: metadata_value(name, fields.metadata[name]) for name in sorted(fields.metadata)
        }
        self._arrays: dict[str, AnyArray] = {}
        tensors: dict[str, TensorInfo] = {}
        for name in sorted(fields.tensors):
            found = described(name, fields.tensors[name])
            nbytes = 0
            if found.tensor is not None:
                nbytes = found.tensor.nbytes
                stored = found.tensor.storage
                view = stored.copy() if copy else stored.view()
                view.flags.writeable = False
                self._arrays[name] = view
            tensors[name] = TensorInfo(
                name, found.dtype.name, found.shape, nbytes, found.tensor is not None, found.quant
            )
        self.tensors = tensors

    def data_identity(self) -> str:
        return self._identity

    def close(self) -> None:
        """Nothing is to be released: the arrays go with their last user."""

    def _storage(self, info: TensorInfo, dtype: DType) -> AnyArray:
        return self._arrays[info.name]
