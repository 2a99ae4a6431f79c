"""The note about weights of block formats that are unpacked when they are loaded."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING

from openinfer.runtime.dtypes import BLOCK_DTYPES, DTYPES
from openinfer.runtime.errors import Diagnostic, ModelWarning

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package


def warn_of_unpacked(
    file: str, links: Iterable[tuple[str, str]], model: Package | None, stacklevel: int
) -> None:
    """Issues a ModelWarning OI0331 where tensors lie in blocks in the model, and not in memory.

    `links` are the tensors that the program in `file` names, each with the dtype that it has in memory.
    """
    if model is None:
        return
    formats: set[str] = set()
    wanted: set[str] = set()
    count, stored, unpacked = 0, 0, 0
    for name, dtype in dict.fromkeys(links):
        info = model.tensors.get(name)
        if info is None or info.dtype_name not in BLOCK_DTYPES or not info.has_data:
            continue
        formats.add(info.dtype_name)
        wanted.add(dtype)
        count += 1
        stored += info.nbytes
        unpacked += DTYPES[dtype].nbytes(info.size)
    if not count:
        return
    many = count > 1
    what = (
        f"{count} tensors of {model.path.name} are" if many else f"1 tensor of {model.path.name} is"
    )
    found = Diagnostic(
        "OI0331",
        f"{file}: {what} unpacked when {'they are' if many else 'it is'} loaded: {_bytes(stored)} in "
        f"{_listed(formats)} become {_bytes(unpacked)} in {_listed(wanted)}"
        f"{', rounded' if 'f16' in wanted else ''}",
        hint="declare them as f16: half the memory, values rounded" if "f32" in wanted else None,
        severity="note",
    )
    warnings.warn(str(found), ModelWarning, stacklevel=stacklevel + 1)


def _listed(names: Iterable[str]) -> str:
    *first, last = sorted(names)
    return f"{', '.join(first)} and {last}" if first else last


def _bytes(count: int) -> str:
    return f"{count / 1024:.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"
