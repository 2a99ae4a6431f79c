"""Reader of models in several `.safetensors` files, which an index in JSON lists.

The index (`model.safetensors.index.json`) says of each tensor in which file of its folder it lies. It is
believed only where the files say the same: each of their tensors stands in it, with that file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openinfer.runtime.dtypes import DType
from openinfer.runtime.errors import PackageError
from openinfer.runtime.files import read_bytes
from openinfer.runtime.packages.base import Package, TensorInfo
from openinfer.runtime.packages.safetensors import SafetensorsPackage, config_beside, json_object
from openinfer.runtime.storage import AnyArray

_INDEX_LIMIT = 64 << 20
_MOST_SHARDS = 10_000


class ShardedPackage(Package):
    """An opened index with all of its files. Raises PackageError OI0416 where they disagree."""

    def __init__(self, path: Path, *, copy: bool = False) -> None:
        self.path = path
        self.format = "safetensors"
        places, texts = read_index(path)
        self._shards: dict[str, SafetensorsPackage] = {}
        try:
            for shard in sorted(set(places.values())):
                self._shards[shard] = SafetensorsPackage(
                    path.with_name(shard), copy=copy, config=False
                )
            self._places = places
            self.tensors = self._merged()
            self.sizes, self.metadata = config_beside(path)
        except BaseException:
            self.close()
            raise
        for key, text in texts.items():
            if key not in self.sizes:
                self.metadata.setdefault(key, text)

    def data_identity(self) -> str:
        return "\0".join(shard.data_identity() for shard in self._shards.values())

    def guard(self) -> Callable[[], None] | None:
        guards = [guard for shard in self._shards.values() if (guard := shard.guard()) is not None]

        def check() -> None:
            for guard in guards:
                guard()

        return check if guards else None

    def give_back(self, name: str) -> None:
        """See `Package.give_back`."""
        self._shards[self._places[name]].give_back(name)

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()

    def _storage(self, info: TensorInfo, dtype: DType) -> AnyArray:
        return self._shards[self._places[info.name]].read(info.name)

    def _merged(self) -> dict[str, TensorInfo]:
        """The tensors of all files, each found once and where the index has it."""
        found: dict[str, TensorInfo] = {}
        for shard, package in self._shards.items():
            for name, info in package.tensors.items():
                place = self._places.get(name)
                if place == shard:
                    found[name] = info
                elif place is None:
                    raise bad_index(self.path, f"tensor {name!r} of {shard} is not in it")
                else:
                    raise bad_index(
                        self.path, f"tensor {name!r} lies in {shard}, but it says in {place}"
                    )
        for name, shard in self._places.items():
            if name not in found:
                raise bad_index(self.path, f"{shard} has no tensor {name!r}")
        return dict(sorted(found.items()))


def read_index(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The file of each tensor, and the texts of the metadata. Raises PackageError OI0416, OI0401."""
    try:
        index = json_object(read_bytes(path, _INDEX_LIMIT))
    except OSError as error:
        raise PackageError(
            "OI0401",
            f"{path}: cannot be opened: {error.strerror or error}",
            hint="check the path and its permissions",
        ) from None
    except (ValueError, RecursionError) as error:
        raise bad_index(path, f"it is no JSON: {error}") from None
    places: Any = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not places:
        raise bad_index(path, "it has no object `weight_map`")
    checked: dict[str, str] = {}
    for name, shard in places.items():
        if not _is_plain_name(shard):
            raise bad_index(
                path, f"tensor {name!r} lies in {shard!r:.80}, which is no file of its folder"
            )
        checked[name] = shard
    if len(set(checked.values())) > _MOST_SHARDS:
        raise bad_index(path, f"it names more than {_MOST_SHARDS} files")
    metadata: Any = index.get("metadata")
    texts = metadata.items() if isinstance(metadata, dict) else ()
    return checked, {key: text for key, text in texts if isinstance(text, str)}


def _is_plain_name(name: object) -> bool:
    """Whether a name is that of a `.safetensors` file in the same folder, on every system."""
    return (
        isinstance(name, str)
        and name.endswith(".safetensors")
        and not set(name) & set("/\\:\0")
        and os.path.basename(name) == name
    )


def bad_index(path: Path, message: str) -> PackageError:
    """An error of the index, or of a file that contradicts it."""
    return PackageError(
        "OI0416", f"{path}: {message}", hint="fetch the index and all of its files again"
    )
