"""Tensors outside of an ONNX file: only regular files below its folder are opened, by no symbolic link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from openinfer.runtime.errors import PackageError
from openinfer.runtime.storage import AnyArray

_DIGITS = 19
"""Of the longest offset or length."""


class ExternalData:
    """The files beside a model, each mapped once."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        """None of a model in memory, which has no files beside it."""
        self._maps: dict[tuple[str, ...], AnyArray] = {}

    def bytes(self, entries: Iterable[Any], nbytes: int, where: str) -> AnyArray:
        """The `nbytes` bytes that the entries `location`, `offset` and `length` of a tensor name.

        Raises PackageError OI1554, beginning with `where`.
        """
        found: dict[str, str] = {}
        for entry in entries:
            if entry.key in found:
                raise _bad(where, f"`{entry.key}` is given twice")
            found[entry.key] = entry.value
        parts = _parts(found.get("location", ""), where)
        offset = _number(found, "offset", 0, where)
        length = _number(found, "length", nbytes, where)
        if length != nbytes:
            raise _bad(where, f"`length` is {length}; dtype and dimensions make {nbytes} bytes")
        mapped = self._map(parts, where)
        if offset + length > mapped.size:
            raise _bad(
                where,
                f"bytes {offset} to {offset + length} of a file of {mapped.size} bytes",
                hint="the file was cut off: fetch or write it again",
            )
        return mapped[offset : offset + length]

    def _map(self, parts: tuple[str, ...], where: str) -> AnyArray:
        if parts not in self._maps:
            if self.folder is None:
                raise _bad(
                    where,
                    f"it lies in {'/'.join(parts)!r}, and a model in memory has no folder",
                    hint="give the path of the model's file",
                )
            try:
                handle = _open_below(self.folder, parts)
            except OSError as error:
                shown = "/".join(parts)
                hint = (
                    "put a copy beside the model instead of a link"
                    if (self.folder / Path(*parts)).is_symlink()
                    else "put the file beside the model"
                )
                raise _bad(
                    where, f"{shown!r} cannot be opened: {error.strerror}", hint=hint
                ) from None
            with os.fdopen(handle, "rb") as file:
                size = os.fstat(handle).st_size
                self._maps[parts] = np.asarray(
                    np.memmap(file, np.uint8, "r") if size else np.zeros(0, np.uint8)
                )
        return self._maps[parts]


def _parts(location: str, where: str) -> tuple[str, ...]:
    """The names of a location's way, none of which leads out of the folder."""
    parts = tuple(part for part in location.split("/") if part != ".")
    absolute = location.startswith("/") or location[1:2] == ":"
    if (
        not parts
        or absolute
        or "" in parts
        or ".." in parts
        or "\\" in location
        or "\0" in location
    ):
        raise _bad(
            where,
            f"`location` is {location[:200]!r}",
            hint="a relative path below the model's folder, with `/` and without `..`",
        )
    return parts


def _number(found: dict[str, str], key: str, absent: int, where: str) -> int:
    text = found.get(key)
    if text is None:
        return absent
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise _bad(where, f"`{key}` is {text[:40]!r}, no number of bytes")
    return int(text)


def _open_below(folder: Path, parts: tuple[str, ...]) -> int:
    """A handle of a regular file, reached without following a link. Raises OSError."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if os.open not in os.supports_dir_fd:
        return _open_checked(folder, parts, flags)
    here = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        return _regular(os.open(parts[-1], flags | os.O_NOFOLLOW, dir_fd=here))
    finally:
        os.close(here)


def _open_checked(folder: Path, parts: tuple[str, ...], flags: int) -> int:
    """Where the system cannot open relative to a folder: links are looked for before."""
    at = folder
    for part in parts:
        at = at / part
        if at.is_symlink():
            raise OSError(0, "a symbolic link", os.fspath(at))
    return _regular(os.open(at, flags))


def _regular(handle: int) -> int:
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    with suppress(OSError):
        os.close(handle)
    raise OSError(0, "not a regular file")


def _bad(where: str, message: str, hint: str = "write the model again") -> PackageError:
    return PackageError("OI1554", f"{where}: external data: {message}", hint=hint)
