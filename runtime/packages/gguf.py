"""Reader of `.gguf` models, in one file or in several.

What a program can name: keys of the architecture under short names (`llama.attention.head_count` is
`attention_head_count`), all other keys as they are; integers from 0 on are sizes, other numbers, bools and
texts are metadata, arrays of numbers too. Arrays of texts, as vocabularies have them, no program can
name: `GgufPackage.fields` has every key of the file under its own name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from openinfer.runtime.dtypes import DTYPES, DType
from openinfer.runtime.errors import PackageError
from openinfer.runtime.packages.base import MAX_EXTENT, LazyMapping, Package, TensorInfo
from openinfer.runtime.packages.gguf_fields import Array, Field, GgufCursor, Number, integer_in
from openinfer.runtime.packages.gguf_file import GgufFile
from openinfer.runtime.packages.values import MetadataValue, ScalarValue
from openinfer.runtime.storage import AnyArray

_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.DOTALL)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTEGERS = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64")


class GgufPackage(Package):
    """An opened model. Raises PackageError OI0418 for a damaged file, OI0419 where its parts disagree,
    UnsupportedError OI0741 for a version or byte order that is not read."""

    def __init__(self, path: Path, *, copy: bool = False) -> None:
        self.path = path
        self.parts = _open_parts(path, copy)
        """The files, in the order of their numbers."""
        first = self.parts[0]
        self.format = f"gguf {first.version}"
        try:
            self.fields: Mapping[str, Field] = first.fields
            """Every key of the file, under its own name."""
            self.architecture = _architecture(first)
            """What `general.architecture` says, None without that key."""
            self.keys = short_names(self.fields, self.architecture)
            """The key behind each name that a program can use."""
            self.sizes, self.metadata = _named(self.fields, self.keys)
            self._places = {name: part for part in self.parts for name in part.tensors}
            self.tensors = {name: self._places[name].tensors[name] for name in sorted(self._places)}
        except BaseException:
            self.close()
            raise

    def data_identity(self) -> str:
        return "\0".join(part.mapped.identity() for part in self.parts)

    def guard(self) -> Callable[[], None] | None:
        guards = [guard for part in self.parts if (guard := part.mapped.guard()) is not None]

        def check() -> None:
            for guard in guards:
                guard()

        return check if guards else None

    def close(self) -> None:
        for part in self.parts:
            part.mapped.close()

    def _storage(self, info: TensorInfo, dtype: DType) -> AnyArray:
        return self._places[info.name].storage(info, dtype)

    def give_back(self, name: str) -> None:
        """See `Package.give_back`."""
        self._places[name].mapped.give_back(self.read(name))


def is_later_part(name: str) -> bool:
    """Whether a file name is that of a part of a model other than the first."""
    found = _PART.fullmatch(name)
    return found is not None and int(found[2]) != 1


def short_names(fields: Mapping[str, Field], architecture: str | None) -> dict[str, str]:
    """The key behind each name: `A.x.y` of architecture `A` as `x_y`, unless another key is called so,
    or that is no name of the language."""
    prefix = f"{architecture}." if architecture else None
    wanted: dict[str, list[str]] = {}
    for key in fields:
        short = key
        if prefix is not None and key.startswith(prefix):
            short = key.removeprefix(prefix).replace(".", "_")
        if short in fields or not _PLAIN_NAME.fullmatch(short):
            short = key
        wanted.setdefault(short, []).append(key)
    names: dict[str, str] = {}
    for short, keys in wanted.items():
        names.update({short: keys[0]} if len(keys) == 1 else {key: key for key in keys})
    return names


def _named(
    fields: Mapping[str, Field], keys: Mapping[str, str]
) -> tuple[dict[str, int], Mapping[str, MetadataValue]]:
    """Sizes and metadata under the names that programs use; arrays are decoded when asked for."""
    sizes: dict[str, int] = {}
    rest: dict[str, Field] = {}
    for name, key in keys.items():
        value = fields[key]
        number = integer_in(value, _INTEGERS)
        if number is not None and 0 <= number <= MAX_EXTENT:
            sizes[name] = number
        elif not isinstance(value, Array) or value.dtype != "str":
            rest[name] = value
    return sizes, LazyMapping(rest, lambda name: _metadata(rest[name]))


def _metadata(value: Field) -> MetadataValue:
    if isinstance(value, Number):
        return ScalarValue(value.value, DTYPES[value.dtype])
    return value.tensor() if isinstance(value, Array) else value


def _architecture(file: GgufFile) -> str | None:
    found = file.fields.get("general.architecture")
    if found is not None and not isinstance(found, str):
        raise GgufCursor.damaged(file.mapped, "metadata 'general.architecture' is no text")
    return found


def _open_parts(path: Path, copy: bool) -> list[GgufFile]:
    """All files of the model that the file at `path` is a part of."""
    given = GgufFile(path, copy=copy)
    opened = {path.name: given}
    try:
        if "split.count" not in given.fields:
            return [given]
        count = _count(given, "split.count", ("u16",))
        if count <= 1:
            return [given]
        found = _PART.fullmatch(path.name)
        if found is None or int(found[3]) != count:
            raise _disagree(
                path,
                f"it is one of {count} parts, which its name does not say",
                f"give the parts their names again: NAME-00001-of-{count:05d}.gguf",
            )
        names = [f"{found[1]}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]
        for number, name in enumerate(names):
            if name not in opened:
                opened[name] = GgufFile(path.with_name(name), copy=copy)
            part = opened[name]
            if _count(part, "split.no", ("u16",)) != number or (
                _count(part, "split.count", ("u16",)) != count
            ):
                raise _disagree(
                    part.path, f"its keys do not say that it is part {number + 1} of {count}"
                )
        parts = [opened[name] for name in names]
        _check_tensors(parts)
        return parts
    except BaseException:
        for part in opened.values():
            part.mapped.close()
        raise


def _check_tensors(parts: list[GgufFile]) -> None:
    """No tensor lies in two parts, and there are as many as the keys say."""
    places: dict[str, GgufFile] = {}
    for part in parts:
        for name in part.tensors:
            if name in places:
                raise _disagree(part.path, f"tensor {name!r} lies in {places[name].path.name}, too")
            places[name] = part
    wanted = _count(parts[0], "split.tensors.count", ("i32", "u32"))
    if wanted != len(places):
        raise _disagree(
            parts[0].path, f"the model has {wanted} tensors, its parts have {len(places)}"
        )


def _count(file: GgufFile, key: str, dtypes: tuple[str, ...]) -> int:
    """The value of a key about parts. Raises PackageError OI0419."""
    found = integer_in(file.fields.get(key), dtypes)
    if found is None:
        raise _disagree(file.path, f"{key!r} is missing, or no {' or '.join(dtypes)}")
    return found


def _disagree(path: Path, message: str, hint: str | None = None) -> PackageError:
    return PackageError(
        "OI0419", f"{path}: {message}", hint=hint or "fetch all parts of the model again"
    )
