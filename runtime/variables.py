"""What callers may know of a program's variables, and values as `fetch` hands them out."""

from __future__ import annotations

from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import InputError
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.tensors import Tensor

NUMPY_DTYPES = frozenset(
    row.name
    for row in DTYPES.values()
    if row.storage == row.value and not row.packed and row.kind != "bitset"
)
"""Dtypes whose fetched values are plain NumPy arrays; the others come as `Tensor`."""


@dataclass(frozen=True)
class VariableInfo:
    """What callers may know of a variable: name, memory kind, dtype and declared dimensions."""

    name: str
    memory: str
    """"dynamic", "volatile", "constant", "persistent", or "temporary" for an `assign`."""
    dtype: str
    dims: tuple[Size, ...]
    indices: tuple[str, ...] = ()
    """Index names of a prefix table or a cache: `W(l)`."""
    auto: tuple[str, ...] = ()
    """Those of `@auto_dim`, one for each dimension: the last of the indices."""
    fixed: tuple[tuple[str, int], ...] = ()
    """Bounds of `@fixed`."""

    @property
    def table(self) -> tuple[str, ...]:
        """The indices that select an entry."""
        return self.indices[: len(self.indices) - len(self.auto)]

    @property
    def text(self) -> str:
        """`x: f32[B, D]`."""
        return f"{self.name}: {self.dtype}[{', '.join(str(d) for d in self.dims)}]"


def handed(tensor: Tensor, copy: bool) -> AnyArray | Tensor:
    """A value as `fetch` gives it."""
    if copy:
        tensor = Tensor(tensor.dtype, tensor.shape, tensor.storage.copy())
    if tensor.dtype.name not in NUMPY_DTYPES:
        return tensor
    return tensor.values()


def checked_entry(name: str, info: VariableInfo) -> str:
    """`K` for `K[]`, else the name itself. Raises InputError OI0547 for what is no `K[0, 3]`."""
    base, bracket, rest = name.partition("[")
    if not bracket:
        return name
    numbers = rest.removesuffix("]").split(",") if rest.endswith("]") else ["?"]
    if not info.indices:
        raise InputError("OI0547", f"{base} has no entries: it is no table", hint=f"fetch {base}")
    if numbers == [""] and info.memory == "persistent":
        return base
    try:
        for number in numbers:
            int(number)
    except ValueError:
        raise InputError(
            "OI0547", f"{name} names no entry of {base}", hint=f"fetch {base}[0], say"
        ) from None
    return name
